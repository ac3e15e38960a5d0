/* harmony_tools.c - function tools as the TypeScript-like text GPT-OSS was trained on, the same
 * byte for byte as OpenAI's renderer. Source: gpt-oss spec sections 5.5 and 5.6. */
#include "engine/harmony.h"
#include "engine/harmony_names.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH      64          /* of a schema; deeper ones would indent without end */
#define MAX_TEXT_BYTES (16u << 20) /* no context holds more */

struct writer { /* a failed `out` swallows what follows; checked at the end */
    struct buf *out;
    bool too_deep;
};

static void type_text(struct writer *w, const json_t *schema, size_t indent, int depth);

static void spaces(struct writer *w, size_t n)
{
    for (size_t i = 0; i < n; i++)
        buf_char(w->out, ' ');
}

static const char *text_of(const json_t *schema, const char *key)
{
    return json_string_value(json_object_get(schema, key));
}

/* Compact JSON with the fewest digits that give the same numbers back. */
static void json_text(struct writer *w, const json_t *v)
{
    for (size_t digits = 15; digits <= 17; digits++) {
        char *s = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(digits));
        if (!s) {
            w->out->failed = true;
            return;
        }
        json_t *again = json_loads(s, JSON_DECODE_ANY, NULL);
        bool exact = again && json_equal(again, v);
        json_decref(again);
        if (exact || digits == 17) {
            buf_str(w->out, s);
            digits = 17;
        }
        free(s);
    }
}

/* "default: x": text bare beside an enum, in quotes without one, anything else as JSON. */
static void default_text(struct writer *w, const json_t *schema, const json_t *value)
{
    const char *s = json_string_value(value);
    buf_str(w->out, "default: ");
    if (!s)
        json_text(w, value);
    else if (json_object_get(schema, "enum"))
        buf_str(w->out, s);
    else
        buf_printf(w->out, "\"%s\"", s);
}

/* A type, and " | null" after it if the schema is nullable and the text does not say so already. */
static void nullable_type(struct writer *w, const json_t *schema, size_t indent, int depth)
{
    size_t start = w->out->len;
    type_text(w, schema, indent, depth);
    if (json_is_true(json_object_get(schema, "nullable")) && !w->out->failed &&
        !strstr(w->out->data + start, "null"))
        buf_str(w->out, " | null");
}

static void one_of(struct writer *w, const json_t *variants, size_t indent, int depth)
{
    size_t i;
    json_t *v;
    json_array_foreach(variants, i, v)
    {
        buf_char(w->out, '\n');
        spaces(w, indent);
        buf_str(w->out, " | ");
        nullable_type(w, v, indent + 3, depth);
        const char *description = text_of(v, "description");
        const json_t *value = json_object_get(v, "default");
        if (description || value) buf_str(w->out, " // ");
        if (description) buf_str(w->out, description);
        if (description && value) buf_char(w->out, ' ');
        if (!value) continue;
        buf_str(w->out, "default: ");
        json_text(w, value);
    }
}

/* One variant of a property's oneOf, with its description (NULL: not shown again). */
static void property_variant(struct writer *w, const json_t *v, const char *description,
                             size_t indent, int depth)
{
    spaces(w, indent);
    buf_str(w->out, " | ");
    nullable_type(w, v, indent + 3, depth);
    const json_t *value = json_object_get(v, "default");
    if (description || value) buf_str(w->out, " // ");
    if (description) buf_str(w->out, description);
    if (description && value) buf_char(w->out, ' ');
    if (value) default_text(w, v, value);
    buf_char(w->out, '\n');
}

static bool equal(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

static void comment(struct writer *w, size_t indent, const char *text)
{
    spaces(w, indent);
    buf_str(w->out, "// ");
    buf_str(w->out, text);
    buf_char(w->out, '\n');
}

static void property_one_of(struct writer *w, const char *label, const json_t *schema,
                            size_t indent, int depth)
{
    const json_t *variants = json_object_get(schema, "oneOf"), *v;
    const char *description = text_of(schema, "description");
    bool above =
        description && !equal(description, text_of(json_array_get(variants, 0), "description"));
    if (above) comment(w, indent, description);
    const json_t *value = json_object_get(schema, "default");
    if (value) {
        spaces(w, indent);
        buf_str(w->out, "// ");
        default_text(w, schema, value);
        buf_char(w->out, '\n');
    }
    spaces(w, indent);
    buf_printf(w->out, "%s:\n", label);
    for (size_t i = 0; (v = json_array_get(variants, i)); i++) {
        const char *own = text_of(v, "description");
        if (equal(own, description) || (i == 0 && above)) own = NULL;
        property_variant(w, v, own, indent, depth);
    }
    spaces(w, indent);
    buf_str(w->out, ",\n");
}

static void examples(struct writer *w, const json_t *list, size_t indent)
{
    size_t i;
    json_t *v;
    if (json_array_size(list) == 0) return;
    comment(w, indent, "Examples:");
    json_array_foreach(list, i, v)
    {
        if (!json_is_string(v)) continue;
        spaces(w, indent);
        buf_printf(w->out, "// - \"%s\"\n", json_string_value(v));
    }
}

/* `label` is the key, with a question mark if it is optional. */
static void property(struct writer *w, const char *label, const json_t *schema, size_t indent,
                     int depth)
{
    bool variants = json_is_array(json_object_get(schema, "oneOf"));
    const char *title = text_of(schema, "title"), *description = text_of(schema, "description");
    if (title) {
        comment(w, indent, title);
        spaces(w, indent);
        buf_str(w->out, "//\n");
    }
    if (description && !variants) comment(w, indent, description);
    examples(w, json_object_get(schema, "examples"), indent);
    if (variants) {
        property_one_of(w, label, schema, indent, depth);
        return;
    }
    spaces(w, indent);
    buf_printf(w->out, "%s: ", label);
    nullable_type(w, schema, indent + 4, depth);
    buf_char(w->out, ',');
    const json_t *value = json_object_get(schema, "default");
    if (value) {
        buf_str(w->out, " // ");
        default_text(w, schema, value);
    }
    buf_char(w->out, '\n');
}

static void object(struct writer *w, const json_t *schema, size_t indent, int depth)
{
    const char *description = text_of(schema, "description"), *key;
    if (description) comment(w, indent, description);
    buf_str(w->out, "{\n");
    size_t i;
    json_t *v, *required = json_object();
    json_array_foreach(json_object_get(schema, "required"), i, v) if (json_is_string(v))
        json_object_set_new(required, json_string_value(v), json_true());
    struct buf label = {0};
    json_object_foreach(json_object_get(schema, "properties"), key, v)
    {
        buf_clear(&label);
        buf_str(&label, key);
        if (!json_object_get(required, key)) buf_char(&label, '?');
        if (!label.failed && !w->out->failed) property(w, label.data, v, indent, depth);
    }
    w->out->failed |= !required || label.failed;
    buf_free(&label);
    json_decref(required);
    spaces(w, indent);
    buf_char(w->out, '}');
}

static void string_type(struct writer *w, const json_t *schema)
{
    size_t i, n = 0;
    json_t *v;
    json_array_foreach(json_object_get(schema, "enum"), i, v) if (json_is_string(v))
        buf_printf(w->out, n++ ? " | \"%s\"" : "\"%s\"", json_string_value(v));
    if (n == 0) buf_str(w->out, "string");
}

static void type_list(struct writer *w, const json_t *types)
{
    size_t i, n = 0;
    json_t *v;
    json_array_foreach(types, i, v)
    {
        const char *name = json_string_value(v);
        if (!name) continue;
        if (n++) buf_str(w->out, " | ");
        buf_str(w->out, strcmp(name, "integer") == 0 ? "number" : name);
    }
    if (n == 0) buf_str(w->out, "any");
}

static void array_type(struct writer *w, const json_t *schema, size_t indent, int depth)
{
    const json_t *items = json_object_get(schema, "items");
    if (!items) {
        buf_str(w->out, "Array<any>");
        return;
    }
    type_text(w, items, indent, depth);
    buf_str(w->out, "[]");
}

static void type_text(struct writer *w, const json_t *schema, size_t indent, int depth)
{
    if (depth == MAX_DEPTH) w->too_deep = true;
    if (w->too_deep) return;
    const json_t *variants = json_object_get(schema, "oneOf");
    const json_t *type = json_object_get(schema, "type");
    const char *name = json_string_value(type);
    if (!type && json_is_object(json_object_get(schema, "properties"))) name = "object";
    if (json_is_array(variants))
        one_of(w, variants, indent, depth + 1);
    else if (json_is_array(type))
        type_list(w, type);
    else if (equal(name, "object"))
        object(w, schema, indent, depth + 1);
    else if (equal(name, "string"))
        string_type(w, schema);
    else if (equal(name, "number") || equal(name, "integer"))
        buf_str(w->out, "number");
    else if (equal(name, "boolean"))
        buf_str(w->out, "boolean");
    else if (equal(name, "array"))
        array_type(w, schema, indent, depth + 1);
    else
        buf_str(w->out, "any");
}

/* Each line of the description as a comment; a last line end makes no line of its own. */
static void comment_lines(struct writer *w, const char *text)
{
    while (*text) {
        size_t n = strcspn(text, "\n"), shown = n;
        if (text[n] && n > 0 && text[n - 1] == '\r') shown--;
        buf_str(w->out, "// ");
        buf_add(w->out, text, shown);
        buf_char(w->out, '\n');
        text += text[n] ? n + 1 : n;
    }
}

static enum err parameters(const struct chat_tool *tool, uint32_t i, json_t **schema,
                           struct error *e)
{
    *schema = NULL;
    if (!tool->parameters) return ERR_OK;
    json_error_t je;
    json_t *v = json_loads(tool->parameters, JSON_DECODE_ANY, &je);
    if (!v) return err_set(e, ERR_INVAL, "tools[%u].parameters: %s", i, je.text);
    if (json_is_object(v)) {
        *schema = v;
        return ERR_OK;
    }
    bool null = json_is_null(v);
    json_decref(v);
    return null ? ERR_OK : err_set(e, ERR_INVAL, "tools[%u].parameters: must be an object", i);
}

static enum err one_tool(struct writer *w, const struct chat_tool *tool, uint32_t i,
                         struct error *e)
{
    json_t *schema;
    enum err rc = parameters(tool, i, &schema, e);
    if (rc != ERR_OK) return rc;
    if (tool->description) comment_lines(w, tool->description);
    buf_str(w->out, "type ");
    harmony_alias(w->out, tool->name);
    buf_str(w->out, schema ? " = (_: " : " = () => any;\n\n");
    if (schema) {
        type_text(w, schema, 0, 0);
        buf_str(w->out, ") => any;\n\n");
    }
    json_decref(schema);
    if (w->too_deep)
        return err_set(e, ERR_INVAL, "tools[%u].parameters: nested deeper than %d", i, MAX_DEPTH);
    return ERR_OK;
}

enum err harmony_tools_text(const struct chat_tool *tools, uint32_t n, struct buf *out,
                            struct error *e)
{
    struct buf text = {.limit = MAX_TEXT_BYTES};
    struct writer w = {&text, false};
    enum err rc = ERR_OK;
    if (n) buf_str(&text, "# Tools\n\n## functions\n\nnamespace functions {\n\n");
    for (uint32_t i = 0; i < n && rc == ERR_OK; i++)
        rc = one_tool(&w, &tools[i], i, e);
    if (n) buf_str(&text, "} // namespace functions");
    if (rc == ERR_OK && text.failed)
        rc = err_set(e, ERR_CONTEXT, "tools: their text is over %u MiB or out of memory",
                     MAX_TEXT_BYTES >> 20);
    if (rc == ERR_OK) buf_add(out, text.data, text.len);
    buf_free(&text);
    return rc;
}
