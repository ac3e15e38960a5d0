/* tools.c - the functions that a chat request offers. */
#include "server/messages.h"

#include <stdio.h>
#include <string.h>

#define MAX_TOOLS    128
#define MAX_NAME_LEN 128

static bool check_name(const char *path, const json_t *v, struct api_error *e)
{
    if (!v) return api_fail(e, 400, "missing_required_parameter", path, "'%s' is required.", path);
    if (!fields_string(e, path, v, 1, MAX_NAME_LEN)) return false;
    const char *name = json_string_value(v);
    for (const char *p = name; *p; p++)
        if (*p <= ' ' || *p > '~' || (p[0] == '<' && p[1] == '|'))
            return api_fail(e, 400, "invalid_value", path,
                            "'%s' must be printable ASCII without spaces or \"<|\".", path);
    return true;
}

static bool check_unique(const struct chat *chat, const char *name, const char *path,
                         struct api_error *e)
{
    for (uint32_t i = 0; i < chat->n_tools; i++)
        if (!strcmp(chat->tools[i].name, name))
            return api_fail(e, 400, "invalid_value", path,
                            "'%s' is \"%.128s\", which an earlier tool has already.", path, name);
    return true;
}

static bool read_parameters(struct call *c, const char *path, const json_t *v,
                            struct chat_tool *out, struct api_error *e)
{
    if (!v || json_is_null(v)) return true;
    if (!json_is_object(v))
        return api_fail(e, 400, "invalid_function_parameters", path,
                        "'%s' must be a JSON Schema object.", path);
    size_t len = json_dumpb(v, NULL, 0, JSON_COMPACT);
    char *text = arena_alloc(&c->arena, len + 1, 1);
    if (!text) return api_fail_err(e, ERR_NOMEM, NULL, NULL);
    json_dumpb(v, text, len, JSON_COMPACT);
    out->parameters = text;
    return true;
}

static bool read_function(struct call *c, size_t i, const json_t *f, struct chat *chat,
                          struct chat_tool *out, struct api_error *e)
{
    char path[80];
    snprintf(path, sizeof path, "tools[%zu].function", i);
    if (!json_is_object(f))
        return f ? fields_bad_type(e, path, "an object", f)
                 : api_fail(e, 400, "missing_required_parameter", path, "'%s' is required.", path);
    const json_t *name = json_object_get(f, "name");
    snprintf(path, sizeof path, "tools[%zu].function.name", i);
    if (!check_name(path, name, e) || !check_unique(chat, json_string_value(name), path, e))
        return false;
    out->name = json_string_value(name);
    const json_t *text = json_object_get(f, "description");
    snprintf(path, sizeof path, "tools[%zu].function.description", i);
    if (text && !json_is_null(text)) {
        if (!fields_string(e, path, text, 0, 1 << 20)) return false;
        out->description = json_string_value(text);
    }
    snprintf(path, sizeof path, "tools[%zu].function.parameters", i);
    return read_parameters(c, path, json_object_get(f, "parameters"), out, e);
}

static bool read_tool(struct call *c, size_t i, const json_t *v, struct chat *chat,
                      struct chat_tool *out, struct api_error *e)
{
    char path[64];
    snprintf(path, sizeof path, "tools[%zu]", i);
    if (!json_is_object(v)) return fields_bad_type(e, path, "an object", v);
    const json_t *type = json_object_get(v, "type");
    snprintf(path, sizeof path, "tools[%zu].type", i);
    if (!json_is_string(type))
        return type ? fields_bad_type(e, path, "a string", type)
                    : api_fail(e, 400, "missing_required_parameter", path, "'%s' is required.",
                               path);
    if (strcmp(json_string_value(type), "function") != 0)
        return api_fail(e, 400, "unsupported_value", path,
                        "'%s' must be \"function\", not \"%.64s\".", path, json_string_value(type));
    return read_function(c, i, json_object_get(v, "function"), chat, out, e);
}

bool tools_read(struct call *c, const json_t *v, struct chat *out, struct api_error *e)
{
    if (!v || json_is_null(v)) return true;
    if (!json_is_array(v)) return fields_bad_type(e, "tools", "an array", v);
    size_t n = json_array_size(v);
    if (n > MAX_TOOLS)
        return api_fail(e, 400, "array_above_max_length", "tools",
                        "'tools' has %zu entries; at most %d are allowed.", n, MAX_TOOLS);
    struct chat_tool *tools = arena_alloc(&c->arena, n, sizeof *tools);
    c->tools = arena_alloc(&c->arena, n, sizeof *c->tools);
    if (!tools || !c->tools) return api_fail_err(e, ERR_NOMEM, NULL, NULL);
    out->tools = tools;
    for (size_t i = 0; i < n; i++) {
        if (!read_tool(c, i, json_array_get(v, i), out, &tools[i], e)) return false;
        c->tools[i] = arena_copy(&c->arena, tools[i].name, strlen(tools[i].name));
        if (!c->tools[i]) return api_fail_err(e, ERR_NOMEM, NULL, NULL);
        out->n_tools = c->n_tools = (uint32_t)i + 1;
    }
    return true;
}
