/* golden_chat.h - the conversation whose rendering is in tests/golden/harmony_gold.json. */
#ifndef TESTS_GOLDEN_CHAT_H
#define TESTS_GOLDEN_CHAT_H

#include "engine/harmony.h"

#define TEXT(s)                                                                                    \
    {                                                                                              \
        s, sizeof s - 1                                                                            \
    }

static const struct chat_call golden_call = {
    .id = "call_1", .name = "add", .arguments = TEXT("{\"a\": 40, \"b\": 2}")};

static const struct chat_message golden_messages[] = {
    {.role = ROLE_SYSTEM, .content = TEXT("Answer in one line.")},
    {.role = ROLE_USER, .content = TEXT("What is 40 + 2?")},
    {.role = ROLE_ASSISTANT, .reasoning = TEXT("Use add."), .calls = &golden_call, .n_calls = 1},
    {.role = ROLE_TOOL, .content = TEXT("42"), .call_id = "call_1"},
};

static const struct chat_tool golden_tool = {
    "add", "Adds two numbers.",
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"number\",\"description\":\"First "
    "addend\"},\"b\":{\"type\":\"number\",\"default\":1}},\"required\":[\"a\"]}"};

static const struct chat golden_chat = {
    .messages = golden_messages,
    .n_messages = 4,
    .tools = &golden_tool,
    .n_tools = 1,
    .effort = EFFORT_LOW,
    .date = "2025-06-28",
};

#endif
