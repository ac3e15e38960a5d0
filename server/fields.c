/* fields.c - table-driven reading of a JSON object. */
#include "server/fields.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_DEPTH  128
#define MAX_VALUES 1000000

static const char *type_name(const json_t *v)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array", [JSON_STRING] = "a string",
        [JSON_INTEGER] = "a number", [JSON_REAL] = "a number",  [JSON_TRUE] = "a boolean",
        [JSON_FALSE] = "a boolean",  [JSON_NULL] = "null",
    };
    return names[json_typeof(v)];
}

bool fields_bad_type(struct api_error *e, const char *name, const char *rule, const json_t *v)
{
    return api_fail(e, 400, "invalid_type", name, "'%s' must be %s, not %s.", name, rule,
                    type_name(v));
}

bool fields_integer(const json_t *v, int64_t *out)
{
    if (json_is_integer(v)) {
        *out = json_integer_value(v);
        return true;
    }
    if (!json_is_real(v)) return false;
    double d = json_real_value(v);
    if (d != floor(d) || d < -9007199254740992.0 || d > 9007199254740992.0) return false;
    *out = (int64_t)d;
    return true;
}

bool fields_string(struct api_error *e, const char *name, const json_t *v, size_t min, size_t max)
{
    if (!json_is_string(v)) return fields_bad_type(e, name, "a string", v);
    size_t len = json_string_length(v);
    if (len < min)
        return api_fail(e, 400, "string_below_min_length", name,
                        len ? "'%s' is shorter than %zu bytes." : "'%s' must not be empty.", name,
                        min);
    if (len > max)
        return api_fail(e, 400, "string_above_max_length", name,
                        "'%s' has %zu bytes; at most %zu are allowed.", name, len, max);
    if (strlen(json_string_value(v)) != len)
        return api_fail(e, 400, "invalid_value", name, "'%s' must not contain U+0000.", name);
    return true;
}

static bool out_of_range(struct fields *f, const struct field *row, const char *value, bool above)
{
    static const char *const codes[2][2] = {{"decimal_below_min_value", "decimal_above_max_value"},
                                            {"integer_below_min_value", "integer_above_max_value"}};
    return api_fail(f->err, 400, codes[row->kind == FIELD_INT][above], row->name,
                    "'%s' must be %s %.15g, not %s.", row->name, above ? "at most" : "at least",
                    above ? row->max : row->min, value);
}

static bool read_int(struct fields *f, const struct field *row, const json_t *v)
{
    int64_t i;
    if (!fields_integer(v, &i)) {
        if (json_is_real(v))
            return api_fail(f->err, 400, "invalid_type", row->name,
                            "'%s' must be an integer, not %.15g.", row->name, json_real_value(v));
        return fields_bad_type(f->err, row->name, "an integer", v);
    }
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)i);
    if ((double)i < row->min) return out_of_range(f, row, text, false);
    if ((double)i > row->max) return out_of_range(f, row, text, true);
    memcpy((char *)f->target + row->offset, &i, sizeof i);
    return true;
}

static bool read_number(struct fields *f, const struct field *row, const json_t *v)
{
    if (!json_is_number(v)) return fields_bad_type(f->err, row->name, "a number", v);
    double d = json_number_value(v);
    char text[32];
    snprintf(text, sizeof text, "%.15g", d);
    if (d < row->min) return out_of_range(f, row, text, false);
    if (d > row->max) return out_of_range(f, row, text, true);
    memcpy((char *)f->target + row->offset, &d, sizeof d);
    return true;
}

static bool is_choice(const char *choices, const char *s)
{
    size_t n = strlen(s);
    for (const char *p = choices; *p;) {
        size_t len = strcspn(p, "|");
        if (len == n && !memcmp(p, s, n)) return true;
        p += len + (p[len] == '|');
    }
    return false;
}

static bool read_string(struct fields *f, const struct field *row, const json_t *v)
{
    if (!fields_string(f->err, row->name, v, (size_t)row->min, (size_t)row->max)) return false;
    const char *s = json_string_value(v);
    if (row->choices && !is_choice(row->choices, s))
        return api_fail(f->err, 400, "invalid_value", row->name,
                        "'%s' must be one of %s, not \"%.100s\".", row->name, row->choices, s);
    memcpy((char *)f->target + row->offset, &s, sizeof s);
    return true;
}

static bool is_neutral(const struct field *row, const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_STRING:
        return json_string_length(v) == 0 ||
               (row->choices && is_choice(row->choices, json_string_value(v)));
    case JSON_ARRAY:
        return json_array_size(v) == 0;
    case JSON_OBJECT:
        return json_object_size(v) == 0;
    case JSON_INTEGER:
    case JSON_REAL:
        return json_number_value(v) == row->min;
    default:
        return json_is_true(v) == (row->min == 1);
    }
}

static bool read_row(struct fields *f, const struct field *row, const json_t *v)
{
    switch (row->kind) {
    case FIELD_BOOL: {
        if (!json_is_boolean(v)) return fields_bad_type(f->err, row->name, "a boolean", v);
        bool b = json_is_true(v);
        memcpy((char *)f->target + row->offset, &b, sizeof b);
        return true;
    }
    case FIELD_INT:
        return read_int(f, row, v);
    case FIELD_NUMBER:
        return read_number(f, row, v);
    case FIELD_STRING:
        return read_string(f, row, v);
    case FIELD_CUSTOM:
        return row->set(f, row->name, v);
    case FIELD_NEUTRAL:
        return is_neutral(row, v) ||
               api_fail(f->err, 400, "unsupported_parameter", row->name,
                        "'%s' is not supported by this server; leave it out.", row->name);
    case FIELD_ANY:
        break;
    }
    return true;
}

bool fields_read(struct fields *f, const json_t *object, const struct field_table *tables,
                 size_t n_tables)
{
    size_t known = 0;
    for (size_t t = 0; t < n_tables; t++) {
        for (size_t i = 0; i < tables[t].n; i++) {
            const json_t *v = json_object_get(object, tables[t].rows[i].name);
            if (!v) continue;
            known++;
            if (!json_is_null(v) && !read_row(f, &tables[t].rows[i], v)) return false;
        }
    }
    f->unknown += (uint32_t)(json_object_size(object) - known);
    return true;
}

/* Depth and number of values, so that a body of brackets or commas does not become a tree of
 * hundreds of megabytes. */
static bool scan(const char *s, size_t len, struct api_error *e)
{
    size_t depth = 0, values = 0;
    bool quoted = false;
    for (size_t i = 0; i < len; i++) {
        char c = s[i];
        if (quoted) {
            if (c == '\\') i++;
            quoted = c != '"';
        } else if (c == '"') {
            quoted = true;
        } else if (c == ',') {
            values++;
        } else if (c == '[' || c == '{') {
            values++;
            if (++depth > MAX_DEPTH)
                return api_fail(e, 400, "invalid_json", NULL,
                                "The body is nested deeper than %d levels (at byte %zu).",
                                MAX_DEPTH, i);
        } else if ((c == ']' || c == '}') && depth) {
            depth--;
        }
    }
    if (values > MAX_VALUES)
        return api_fail(e, 400, "invalid_json", NULL, "The body has more than %d values.",
                        MAX_VALUES);
    return true;
}

static const char *json_reason(const json_error_t *je)
{
    switch (json_error_code(je)) {
    case json_error_premature_end_of_input:
        return "it ends too early";
    case json_error_end_of_input_expected:
        return "something follows the object";
    case json_error_invalid_utf8:
        return "it is not valid UTF-8";
    case json_error_numeric_overflow:
        return "a number is too big";
    case json_error_out_of_memory:
        return "the server is out of memory";
    default:
        return "syntax error";
    }
}

json_t *fields_parse(const char *body, size_t len, struct api_error *e)
{
    if (!len) {
        api_fail(e, 400, "invalid_json", NULL, "The request body is empty.");
        return NULL;
    }
    if (!scan(body, len, e)) return NULL;
    json_error_t je;
    json_t *root = json_loadb(body, len, JSON_ALLOW_NUL | JSON_DECODE_ANY, &je);
    if (!root) {
        api_fail(e, 400, "invalid_json", NULL,
                 "The request body is not valid JSON: %s (at byte %d, line %d).", json_reason(&je),
                 je.position, je.line);
    } else if (!json_is_object(root)) {
        api_fail(e, 400, "invalid_json", NULL, "The request body must be a JSON object, not %s.",
                 type_name(root));
        json_decref(root);
        root = NULL;
    }
    return root;
}
