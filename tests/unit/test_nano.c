/* The bundled model: the server's renderer writes the format that it was trained on, and greedy
 * decoding gives what a numpy decoder of the same folder gave (`scripts/nano/score --golden`). */
#include "engine/harmony.h"
#include "tests/unit/engine_rig.h"
#include "tests/unit/tap.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

static const char *in_source(const char *name)
{
    static char path[512];
    const char *dir = getenv("srcdir");
    snprintf(path, sizeof path, "%s/%s", dir ? dir : ".", name);
    return path;
}

static json_t *read_golden(void)
{
    json_error_t e;
    json_t *all = json_load_file(in_source("tests/golden/nano_greedy.json"), 0, &e);
    ck_assert_msg(all != NULL, "%s:%d: %s", e.source, e.line, e.text);
    ck_assert_uint_ge(json_array_size(all), 8);
    return all;
}

static const char *text_of(const json_t *talk, const char *key)
{
    return json_string_value(json_object_get(talk, key));
}

static struct chat_text as_text(const char *s)
{
    return (struct chat_text){s, s ? strlen(s) : 0};
}

/* The ids of one talk of the golden file, as the server renders what a client sends. */
static void render(const struct tokenizer *t, const json_t *talk, struct tokens *out)
{
    static const struct chat_tool weather = {
        "get_weather", "Get the weather for a city.",
        "{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"}},"
        "\"required\":[\"city\"]}"};
    const char *effort = text_of(talk, "effort"), *result = text_of(talk, "result");
    const struct chat_call call = {"call_1", "get_weather", as_text(text_of(talk, "arguments"))};
    const struct chat_message messages[] = {
        {.role = ROLE_USER, .content = as_text(text_of(talk, "user"))},
        {.role = ROLE_ASSISTANT, .calls = &call, .n_calls = 1},
        {.role = ROLE_TOOL, .content = as_text(result), .call_id = "call_1"}};
    const struct chat chat = {.messages = messages,
                              .n_messages = result ? 3 : 1,
                              .tools = &weather,
                              .n_tools = json_is_true(json_object_get(talk, "tool")),
                              .effort = !strcmp(effort, "low")    ? EFFORT_LOW
                                        : !strcmp(effort, "high") ? EFFORT_HIGH
                                                                  : EFFORT_MEDIUM,
                              .date = text_of(talk, "date")};
    struct error e = {0};
    ck_assert_msg(!harmony_render(t, &chat, out, &e), "%s", e.text);
    ck_assert(!out->failed);
}

static void spell(const struct tokenizer *t, const uint32_t *ids, uint32_t n, struct buf *out)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t len;
        const char *bytes = tokenizer_bytes(t, ids[i], &len);
        buf_add(out, bytes, len);
    }
}

START_TEST(renders_what_it_was_trained_on)
{
    struct error e = {0};
    struct model *m = model_open(in_source("conf/nano"), &e);
    ck_assert_msg(m != NULL, "%s", e.text);
    struct tokenizer *t = model_tokenizer(m, &e);
    ck_assert_msg(t != NULL, "%s", e.text);
    json_t *all = read_golden(), *talk;
    size_t i;
    json_array_foreach(all, i, talk)
    {
        struct tokens got = {0}, want = {0};
        const char *prompt = text_of(talk, "prompt");
        render(t, talk, &got);
        tokenizer_encode_special(t, prompt, strlen(prompt), &want);
        struct buf text = {0};
        spell(t, got.ids, got.n, &text);
        ck_assert_str_eq(text.data, prompt);
        ck_assert_uint_eq(got.n, want.n);
        ck_assert_mem_eq(got.ids, want.ids, want.n * sizeof *want.ids);
        buf_free(&text);
        tokens_free(&got);
        tokens_free(&want);
    }
    json_decref(all);
    tokenizer_free(t);
    model_free(m);
}
END_TEST

START_TEST(says_what_the_numpy_decoder_says)
{
    static struct rig r;
    struct error e = {0};
    rig_open_path(&r, in_source("conf/nano"), "72x2");
    struct tokenizer *t = model_tokenizer(r.model, &e);
    ck_assert_msg(t != NULL, "%s", e.text);
    const struct harmony_ids *ids = tokenizer_harmony(t);
    json_t *all = read_golden(), *talk;
    size_t i;
    rig_start(&r);
    json_array_foreach(all, i, talk)
    {
        struct tokens prompt = {0};
        render(t, talk, &prompt);
        struct gen_request g = {.prompt = prompt.ids,
                                .n_prompt = prompt.n,
                                .max_tokens = 300,
                                .sample = {.temperature = 0, .top_p = 1},
                                .stops = {ids->ret, ids->call},
                                .n_stops = 2};
        rig_submit(&r, &g, (uint32_t)i);
        tokens_free(&prompt);
    }
    rig_wait_ends(&r, (uint32_t)json_array_size(all));
    json_array_foreach(all, i, talk)
    {
        struct buf text = {0};
        spell(t, r.talks[i].tokens, r.talks[i].n, &text);
        ck_assert_str_eq(text.data, text_of(talk, "completion"));
        buf_free(&text);
    }
    rig_close(&r);
    json_decref(all);
    tokenizer_free(t);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("nano");
    TCase *tc = tcase_create("nano");
    tcase_add_test(tc, renders_what_it_was_trained_on);
    tcase_add_test(tc, says_what_the_numpy_decoder_says);
    suite_add_tcase(s, tc);
    return tap_run(s);
}
