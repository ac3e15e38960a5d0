/* api_chat.c - the body of POST /v1/chat/completions. Source: openai-api spec 2.1. */
#include "server/messages.h"

#include <math.h>
#include <string.h>
#include <time.h>

#define AT(member) .offset = offsetof(struct call, member)

/* What SDKs send beside the three that the model knows maps to the nearest one. */
static bool set_effort(struct fields *f, const char *name, const json_t *v)
{
    static const struct {
        const char *name;
        enum chat_effort effort;
    } efforts[] = {{"none", EFFORT_LOW},      {"minimal", EFFORT_LOW}, {"low", EFFORT_LOW},
                   {"medium", EFFORT_MEDIUM}, {"high", EFFORT_HIGH},   {"xhigh", EFFORT_HIGH},
                   {"max", EFFORT_HIGH}};
    if (!json_is_string(v)) return fields_bad_type(f->err, name, "a string", v);
    for (size_t i = 0; i < sizeof efforts / sizeof *efforts; i++) {
        if (strcmp(efforts[i].name, json_string_value(v)) != 0) continue;
        ((struct call *)f->target)->effort = efforts[i].effort;
        return true;
    }
    return api_fail(f->err, 400, "unsupported_value", name,
                    "'%s' must be one of none, minimal, low, medium, high, xhigh, max, not "
                    "\"%.64s\".",
                    name, json_string_value(v));
}

/* OpenRouter's form: {"effort": ..., "exclude": true} */
static bool set_reasoning(struct fields *f, const char *name, const json_t *v)
{
    if (!json_is_object(v)) return fields_bad_type(f->err, name, "an object", v);
    const json_t *effort = json_object_get(v, "effort");
    if (json_is_true(json_object_get(v, "exclude")))
        ((struct call *)f->target)->include_reasoning = false;
    return !effort || json_is_null(effort) || set_effort(f, "reasoning.effort", effort);
}

static bool set_template(struct fields *f, const char *name, const json_t *v)
{
    struct call *c = f->target;
    if (!json_is_object(v)) return fields_bad_type(f->err, name, "an object", v);
    const json_t *effort = json_object_get(v, "reasoning_effort");
    if (effort && !json_is_null(effort) &&
        !set_effort(f, "chat_template_kwargs.reasoning_effort", effort))
        return false;
    const json_t *identity = json_object_get(v, "model_identity");
    if (!identity || json_is_null(identity)) return true;
    if (!fields_string(f->err, "chat_template_kwargs.model_identity", identity, 0, 1 << 16))
        return false;
    c->identity = arena_copy(&c->arena, json_string_value(identity), json_string_length(identity));
    return c->identity || api_fail_err(f->err, ERR_NOMEM, NULL, NULL);
}

/* A choice that binds the model needs constrained sampling, which is not built. */
static bool set_tool_choice(struct fields *f, const char *name, const json_t *v)
{
    struct call *c = f->target;
    const json_t *type = json_is_object(v) ? json_object_get(v, "type") : v;
    const char *s = json_string_value(type);
    if (!json_is_string(v) && !json_is_object(v))
        return fields_bad_type(f->err, name, "a string or an object", v);
    bool plain = json_is_string(v);
    c->no_tools = plain && !strcmp(s, "none");
    if (plain && (c->no_tools || !strcmp(s, "auto"))) return true;
    bool known = s && (plain ? !strcmp(s, "required")
                             : !strcmp(s, "function") || !strcmp(s, "allowed_tools"));
    if (known)
        return api_fail(f->err, 400, "unsupported_value", name,
                        "'%s' of \"%.64s\" is not supported by this server; use \"auto\" or "
                        "\"none\".",
                        name, s);
    return api_fail(f->err, 400, "invalid_value", name,
                    "'%s' must be none, auto, required or an object of type function or "
                    "allowed_tools, not \"%.64s\".",
                    name, s ? s : "");
}

static bool check_modalities(struct fields *f, const char *name, const json_t *v)
{
    if (!json_is_array(v)) return fields_bad_type(f->err, name, "an array", v);
    for (size_t i = 0; i < json_array_size(v); i++) {
        const char *s = json_string_value(json_array_get(v, i));
        if (!s || strcmp(s, "text") != 0)
            return api_fail(f->err, 400, "unsupported_value", name,
                            "'%s' may hold \"text\" only, not \"%.64s\".", name, s ? s : "");
    }
    return true;
}

static struct field_table chat_rows(void)
{
    static const struct field rows[] = {
        {"max_tokens", FIELD_INT, 1, INFINITY, AT(max_tokens)},
        {"max_completion_tokens", FIELD_INT, 1, INFINITY, AT(max_completion_tokens)},
        {"logprobs", FIELD_BOOL, AT(want_logprobs)},
        {"top_logprobs", FIELD_INT, 0, SAMPLE_MAX_TOP, AT(top_logprobs)},
        {"include_reasoning", FIELD_BOOL, AT(include_reasoning)},
        {"reasoning_effort", FIELD_CUSTOM, .set = set_effort},
        {"reasoning", FIELD_CUSTOM, .set = set_reasoning},
        {"chat_template_kwargs", FIELD_CUSTOM, .set = set_template},
        {"tool_choice", FIELD_CUSTOM, .set = set_tool_choice},
        {"modalities", FIELD_CUSTOM, .set = check_modalities},
        {.name = "function_call", .kind = FIELD_NEUTRAL, .choices = "none|auto"},
        FIELD_ROW_NEUTRAL("functions", 0),
        FIELD_ROW_NEUTRAL("audio", 0),
        FIELD_ROW_NEUTRAL("echo", 0),
        FIELD_ROW_NEUTRAL("continue_final_message", 0),
        FIELD_ROW_NEUTRAL("add_generation_prompt", 1),
        FIELD_ROW_NEUTRAL("skip_special_tokens", 1),
        FIELD_ROW_NEUTRAL("chat_template", 0),
        FIELD_ROW_NEUTRAL("documents", 0),
        FIELD_ROW_NEUTRAL("thinking_token_budget", 0),
        FIELD_ROW_ANY("parallel_tool_calls"), /* one call ends a generation, so both hold */
        FIELD_ROW_ANY("messages"),
        FIELD_ROW_ANY("tools"),
        FIELD_ROW_ANY("safety_identifier"),
        FIELD_ROW_ANY("prompt_cache_key"),
        FIELD_ROW_ANY("prompt_cache_retention"),
        FIELD_ROW_ANY("prompt_cache_options"),
        FIELD_ROW_ANY("prediction"),
        FIELD_ROW_ANY("web_search_options"),
        FIELD_ROW_ANY("moderation"),
        FIELD_ROW_ANY("add_special_tokens"),
        FIELD_ROW_ANY("service_tier"),
        FIELD_ROW_ANY("verbosity"),
    };
    return (struct field_table){rows, sizeof rows / sizeof *rows};
}

static bool check_enums(const json_t *root, struct api_error *e)
{
    struct {
        const char *service_tier, *verbosity;
        bool parallel;
    } seen = {0};
    static const struct field rows[] = {
        {"service_tier", FIELD_STRING, 0, 64, 0, .choices = "auto|default|flex|scale|priority"},
        {"verbosity", FIELD_STRING, 0, 64, sizeof(char *), .choices = "low|medium|high"},
        {"parallel_tool_calls", FIELD_BOOL, .offset = 2 * sizeof(char *)},
    };
    struct fields f = {.target = &seen, .err = e};
    return fields_read(&f, root, &(struct field_table){rows, sizeof rows / sizeof *rows}, 1);
}

static bool render(const struct service *s, struct call *c, struct chat chat, struct api_error *e)
{
    char today[16];
    time_t now = time(NULL);
    struct tm tm;
    strftime(today, sizeof today, "%Y-%m-%d", gmtime_r(&now, &tm));
    chat.date = !strcmp(s->date, "none") ? NULL : !strcmp(s->date, "auto") ? today : s->date;
    chat.identity = c->identity ? c->identity : s->identity;
    chat.effort = c->effort;
    c->prompts = arena_alloc(&c->arena, 1, sizeof *c->prompts);
    if (!c->prompts) return api_fail_err(e, ERR_NOMEM, NULL, NULL);
    c->n_prompts = 1;
    struct error cause = {0};
    enum err rc = harmony_render(s->tokenizer, &chat, &c->prompts[0], &cause);
    if (rc) return api_fail_err(e, rc, &cause, "messages");
    return call_check_context(c, s, "messages", e);
}

static bool parse(const struct service *s, const json_t *root, struct call *c, struct api_error *e)
{
    const struct field_table tables[] = {call_rows(), chat_rows()};
    struct fields f = {.target = c, .arg = s, .err = e};
    struct chat chat = {0};
    bool ok = call_check_model(root, s, e) &&
              messages_read(c, json_object_get(root, "messages"), &chat, e) &&
              fields_read(&f, root, tables, 2) && check_enums(root, e) &&
              tools_read(c, json_object_get(root, "tools"), &chat, e) && call_check(c, e);
    if (!ok) return false;
    c->unknown_fields = f.unknown;
    if (c->no_tools) chat.n_tools = c->n_tools = 0;
    size_t text = 0;
    for (uint32_t i = 0; i < chat.n_messages; i++)
        text += chat.messages[i].content.len;
    return call_check_bytes(text, s, "messages", e) && render(s, c, chat, e);
}

bool api_chat_parse(const struct service *s, const char *body, size_t len, struct call *out,
                    struct api_error *e)
{
    call_init(out, CALL_CHAT, s);
    json_t *root = fields_parse(body, len, e);
    if (!root) return false;
    bool ok = parse(s, root, out, e);
    json_decref(root);
    return ok;
}
