/* messages.c - roles, parts, tool calls and results. */
#include "server/messages.h"

#include <stdio.h>
#include <string.h>

#define MAX_MESSAGES 16384
#define PATH_LEN     96

struct reader { /* of one message */
    struct call *call;
    struct api_error *err;
    size_t index;
    struct chat_message *out;
};

static void path_of(const struct reader *r, const char *rest, char out[PATH_LEN])
{
    snprintf(out, PATH_LEN, "messages[%zu]%s", r->index, rest);
}

static bool no_memory(struct reader *r)
{
    return api_fail_err(r->err, ERR_NOMEM, NULL, NULL);
}

static struct chat_text text_of(const json_t *string)
{
    return (struct chat_text){json_string_value(string), json_string_length(string)};
}

/* The text of one content part, or false. */
static bool part_text(struct reader *r, size_t i, const json_t *part, struct chat_text *out)
{
    char path[PATH_LEN], rest[48];
    snprintf(rest, sizeof rest, ".content[%zu]", i);
    path_of(r, rest, path);
    if (!json_is_object(part)) return fields_bad_type(r->err, path, "an object", part);
    const json_t *type = json_object_get(part, "type");
    const char *name = type ? json_string_value(type) : "text";
    snprintf(rest, sizeof rest, ".content[%zu].type", i);
    path_of(r, rest, path);
    if (!name) return fields_bad_type(r->err, path, "a string", type);
    bool refusal = !strcmp(name, "refusal");
    if (!refusal && strcmp(name, "text") != 0 && strcmp(name, "input_text") != 0 &&
        strcmp(name, "output_text") != 0) {
        if (strstr(name, "image") || strstr(name, "audio") || strstr(name, "file") ||
            strstr(name, "video"))
            return api_fail(r->err, 400, "unsupported_value", path,
                            "'%s' is \"%.64s\", but this model reads text only.", path, name);
        return api_fail(r->err, 400, "invalid_value", path,
                        "'%s' must be \"text\" (or \"refusal\"), not \"%.64s\".", path, name);
    }
    const json_t *text = json_object_get(part, refusal ? "refusal" : "text");
    snprintf(rest, sizeof rest, ".content[%zu].%s", i, refusal ? "refusal" : "text");
    path_of(r, rest, path);
    if (!text)
        return api_fail(r->err, 400, "missing_required_parameter", path, "'%s' is required.", path);
    if (!json_is_string(text)) return fields_bad_type(r->err, path, "a string", text);
    *out = text_of(text);
    return true;
}

/* Parts are joined without anything between them. */
static bool join_parts(struct reader *r, const json_t *parts, struct chat_text *out)
{
    size_t n = json_array_size(parts), len = 0;
    struct chat_text part = {0};
    for (size_t i = 0; i < n; i++) {
        if (!part_text(r, i, json_array_get(parts, i), &part)) return false;
        len += part.len;
    }
    char *joined = arena_alloc(&r->call->arena, len + 1, 1);
    if (!joined) return no_memory(r);
    *out = (struct chat_text){joined, len};
    for (size_t i = 0; i < n; i++) {
        if (!part_text(r, i, json_array_get(parts, i), &part)) return false;
        if (part.len) memcpy(joined, part.text, part.len);
        joined += part.len;
    }
    return true;
}

static bool read_content(struct reader *r, const json_t *message)
{
    const json_t *v = json_object_get(message, "content");
    char path[PATH_LEN];
    path_of(r, ".content", path);
    if (!v || json_is_null(v)) {
        if (r->out->role == ROLE_ASSISTANT) return true;
        return api_fail(r->err, 400, "missing_required_parameter", path, "'%s' is required.", path);
    }
    if (json_is_array(v)) return join_parts(r, v, &r->out->content);
    if (!json_is_string(v))
        return fields_bad_type(r->err, path, "a string or an array of parts", v);
    r->out->content = text_of(v);
    return true;
}

/* One name per client family; the first that says something wins. */
static bool read_reasoning(struct reader *r, const json_t *message)
{
    static const char *const names[] = {"reasoning", "reasoning_content", "thinking"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const json_t *v = json_object_get(message, names[i]);
        if (json_is_string(v) && json_string_length(v)) {
            r->out->reasoning = text_of(v);
            return true;
        }
    }
    const json_t *details = json_object_get(message, "reasoning_details");
    for (size_t i = 0; i < json_array_size(details); i++) {
        const json_t *v = json_object_get(json_array_get(details, i), "text");
        if (json_is_string(v) && json_string_length(v)) {
            r->out->reasoning = text_of(v);
            return true;
        }
    }
    return true;
}

static bool read_arguments(struct reader *r, const char *path, const json_t *v,
                           struct chat_text *out)
{
    if (!v || json_is_null(v)) {
        *out = (struct chat_text){"", 0};
    } else if (json_is_string(v)) {
        *out = text_of(v);
    } else if (json_is_object(v)) { /* several agents send it parsed */
        size_t len = json_dumpb(v, NULL, 0, JSON_COMPACT);
        char *text = arena_alloc(&r->call->arena, len + 1, 1);
        if (!text) return no_memory(r);
        json_dumpb(v, text, len, JSON_COMPACT);
        *out = (struct chat_text){text, len};
    } else {
        return fields_bad_type(r->err, path, "a string", v);
    }
    return true;
}

static bool read_function(struct reader *r, const char *prefix, const json_t *v,
                          struct chat_call *out)
{
    char path[PATH_LEN];
    path_of(r, prefix, path);
    if (!json_is_object(v))
        return v ? fields_bad_type(r->err, path, "an object", v)
                 : api_fail(r->err, 400, "missing_required_parameter", path, "'%s' is required.",
                            path);
    size_t end = strlen(path);
    snprintf(path + end, sizeof path - end, ".name");
    const json_t *name = json_object_get(v, "name");
    if (!name)
        return api_fail(r->err, 400, "missing_required_parameter", path, "'%s' is required.", path);
    if (!fields_string(r->err, path, name, 1, 256)) return false;
    out->name = json_string_value(name);
    snprintf(path + end, sizeof path - end, ".arguments");
    return read_arguments(r, path, json_object_get(v, "arguments"), &out->arguments);
}

static bool read_call(struct reader *r, size_t i, const json_t *v, struct chat_call *out)
{
    char path[PATH_LEN], rest[48];
    snprintf(rest, sizeof rest, ".tool_calls[%zu]", i);
    path_of(r, rest, path);
    if (!json_is_object(v)) return fields_bad_type(r->err, path, "an object", v);
    const json_t *id = json_object_get(v, "id");
    snprintf(rest, sizeof rest, ".tool_calls[%zu].id", i);
    path_of(r, rest, path);
    if (id && !json_is_null(id)) {
        if (!fields_string(r->err, path, id, 0, 256)) return false;
        out->id = json_string_value(id);
    }
    const json_t *type = json_object_get(v, "type");
    snprintf(rest, sizeof rest, ".tool_calls[%zu].type", i);
    path_of(r, rest, path);
    if (json_is_string(type) && strcmp(json_string_value(type), "function") != 0)
        return api_fail(r->err, 400, "unsupported_value", path,
                        "'%s' must be \"function\", not \"%.64s\".", path, json_string_value(type));
    snprintf(rest, sizeof rest, ".tool_calls[%zu].function", i);
    return read_function(r, rest, json_object_get(v, "function"), out);
}

static bool read_calls(struct reader *r, const json_t *message)
{
    const json_t *v = json_object_get(message, "tool_calls");
    const json_t *old = json_object_get(message, "function_call");
    bool deprecated = !json_array_size(v) && json_is_object(old);
    size_t n = deprecated ? 1 : json_array_size(v);
    if (v && !json_is_array(v) && !json_is_null(v)) {
        char path[PATH_LEN];
        path_of(r, ".tool_calls", path);
        return fields_bad_type(r->err, path, "an array", v);
    }
    if (!n) return true;
    struct chat_call *calls = arena_alloc(&r->call->arena, n, sizeof *calls);
    if (!calls) return no_memory(r);
    r->out->calls = calls;
    r->out->n_calls = (uint32_t)n;
    if (deprecated) return read_function(r, ".function_call", old, &calls[0]);
    for (size_t i = 0; i < n; i++)
        if (!read_call(r, i, json_array_get(v, i), &calls[i])) return false;
    return true;
}

static bool is_known_call(const struct chat *chat, const char *id)
{
    for (uint32_t m = chat->n_messages; m-- > 0;)
        for (uint32_t i = 0; i < chat->messages[m].n_calls; i++)
            if (chat->messages[m].calls[i].id && !strcmp(chat->messages[m].calls[i].id, id))
                return true;
    return false;
}

static bool read_result(struct reader *r, const json_t *message, const struct chat *chat)
{
    char path[PATH_LEN];
    const json_t *id = json_object_get(message, "tool_call_id");
    const json_t *name = json_object_get(message, "name");
    path_of(r, ".name", path);
    if (name && !json_is_null(name)) {
        if (!fields_string(r->err, path, name, 1, 256)) return false;
        r->out->tool_name = json_string_value(name);
    }
    path_of(r, ".tool_call_id", path);
    if (id && !json_is_null(id)) {
        if (!fields_string(r->err, path, id, 0, 256)) return false;
        r->out->call_id = json_string_value(id);
    }
    if (r->out->tool_name) return true;
    if (!r->out->call_id)
        return api_fail(r->err, 400, "missing_required_parameter", path, "'%s' is required.", path);
    return is_known_call(chat, r->out->call_id) ||
           api_fail(r->err, 400, "invalid_value", path,
                    "'%s' is \"%.64s\", but no earlier assistant message has a tool call with "
                    "this id.",
                    path, r->out->call_id);
}

static bool read_role(struct reader *r, const json_t *message)
{
    static const struct {
        const char *name;
        enum chat_role role;
    } roles[] = {{"system", ROLE_SYSTEM}, {"developer", ROLE_DEVELOPER},
                 {"user", ROLE_USER},     {"assistant", ROLE_ASSISTANT},
                 {"tool", ROLE_TOOL},     {"function", ROLE_TOOL}};
    char path[PATH_LEN];
    path_of(r, ".role", path);
    const json_t *v = json_object_get(message, "role");
    if (!v)
        return api_fail(r->err, 400, "missing_required_parameter", path, "'%s' is required.", path);
    if (!json_is_string(v)) return fields_bad_type(r->err, path, "a string", v);
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        if (strcmp(roles[i].name, json_string_value(v)) != 0) continue;
        r->out->role = roles[i].role;
        return true;
    }
    return api_fail(r->err, 400, "invalid_value", path,
                    "'%s' must be one of system, developer, user, assistant, tool, not \"%.64s\".",
                    path, json_string_value(v));
}

static bool read_message(struct reader *r, const json_t *v, const struct chat *chat)
{
    char path[PATH_LEN];
    path_of(r, "", path);
    if (!json_is_object(v)) return fields_bad_type(r->err, path, "an object", v);
    if (!read_role(r, v) || !read_content(r, v)) return false;
    if (r->out->role == ROLE_ASSISTANT) return read_reasoning(r, v) && read_calls(r, v);
    if (r->out->role == ROLE_TOOL) return read_result(r, v, chat);
    return true;
}

bool messages_read(struct call *c, const json_t *v, struct chat *out, struct api_error *e)
{
    if (!v || json_is_null(v))
        return api_fail(e, 400, "missing_required_parameter", "messages",
                        "'messages' is required.");
    if (!json_is_array(v)) return fields_bad_type(e, "messages", "an array", v);
    size_t n = json_array_size(v);
    if (!n) return api_fail(e, 400, "empty_array", "messages", "'messages' must not be empty.");
    if (n > MAX_MESSAGES)
        return api_fail(e, 400, "array_above_max_length", "messages",
                        "'messages' has %zu entries; at most %d are allowed.", n, MAX_MESSAGES);
    struct chat_message *m = arena_alloc(&c->arena, n, sizeof *m);
    if (!m) return api_fail_err(e, ERR_NOMEM, NULL, NULL);
    out->messages = m;
    for (size_t i = 0; i < n; i++) {
        struct reader r = {.call = c, .err = e, .index = i, .out = &m[out->n_messages]};
        if (!read_message(&r, json_array_get(v, i), out)) return false;
        /* an assistant turn of nothing: hosted servers take it, it says nothing */
        if (r.out->role == ROLE_ASSISTANT && !r.out->content.len && !r.out->reasoning.len &&
            !r.out->n_calls)
            *r.out = (struct chat_message){0};
        else
            out->n_messages++;
    }
    return true;
}
