/* option.c - rows of option tables: find, set, print. */
#include "conf/option.h"
#include "base/utf8.h"
#include "conf/unit.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static enum unit_kind unit_of(enum option_type type)
{
    switch (type) {
    case OPT_BYTES:
        return UNIT_BYTES;
    case OPT_DURATION:
        return UNIT_DURATION;
    case OPT_RATE:
        return UNIT_RATE;
    case OPT_FLOPS:
        return UNIT_FLOPS;
    case OPT_WATTS:
        return UNIT_WATTS;
    case OPT_SHARE:
        return UNIT_SHARE;
    case OPT_BOOL:
    case OPT_UINT:
    case OPT_REAL:
    case OPT_STRING:
    case OPT_ENUM:
        break;
    }
    return UNIT_NONE;
}

static bool is_whole(enum option_type type)
{
    return type == OPT_UINT || type == OPT_BYTES || type == OPT_DURATION;
}

static bool is_real(enum option_type type)
{
    return type == OPT_REAL || type == OPT_RATE || type == OPT_FLOPS || type == OPT_WATTS ||
           type == OPT_SHARE;
}

const struct option *option_find(const struct option_table *t, const char *section,
                                 const char *name)
{
    for (uint32_t i = 0; i < t->n; i++)
        if (strcmp(t->rows[i].section, section) == 0 && strcmp(t->rows[i].name, name) == 0)
            return &t->rows[i];
    return NULL;
}

bool option_section(const struct option_table *t, const char *section)
{
    for (uint32_t i = 0; i < t->n; i++)
        if (strcmp(t->rows[i].section, section) == 0) return true;
    return false;
}

static enum err refuse(const struct option *o, enum err code, const char *text, struct error *e)
{
    char rule[OPTION_TEXT_BYTES];
    option_rule(o, rule);
    return err_set(e, code, "%s.%s = \"%.100s\": must be %.300s", o->section, o->name, text, rule);
}

static bool has_range(const struct option *o)
{
    return o->min != 0 || o->max != 0;
}

static enum err parse_bool(const char *text, bool *out)
{
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on"};
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(text, words[i]) == 0) {
            *out = i % 2;
            return ERR_OK;
        }
    return ERR_PARSE;
}

static enum err parse_enum(const char *choices, const char *text, int *out)
{
    int n = 0;
    size_t len = strlen(text);
    for (const char *c = choices; c; n++) {
        const char *bar = strchr(c, '|');
        size_t word = bar ? (size_t)(bar - c) : strlen(c);
        if (word == len && memcmp(c, text, len) == 0) {
            *out = n;
            return ERR_OK;
        }
        c = bar ? bar + 1 : NULL;
    }
    return ERR_PARSE;
}

/* A file's line holds it: UTF-8, no control characters, nothing that would start a comment. */
static enum err parse_string(const struct option *o, const char *text, char *out)
{
    size_t len = strlen(text);
    if (len >= o->bytes) return ERR_RANGE;
    if (!utf8_valid(text, len) || strstr(text, " ;")) return ERR_PARSE;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 127) return ERR_PARSE;
    if (len && (text[0] == ' ' || text[0] == ';' || text[len - 1] == ' ')) return ERR_PARSE;
    memcpy(out, text, len + 1);
    return ERR_OK;
}

static enum err parse_whole(const struct option *o, const char *text, uint64_t *out)
{
    const char *rule;
    if (!unit_parse_whole(unit_of(o->type), text, out, &rule)) return ERR_PARSE;
    if (o->type == OPT_UINT && *out > UINT32_MAX) return ERR_RANGE;
    if (has_range(o) && ((double)*out < o->min || (double)*out > o->max)) return ERR_RANGE;
    return ERR_OK;
}

static enum err parse_real(const struct option *o, const char *text, double *out)
{
    const char *rule;
    if (!unit_parse_real(unit_of(o->type), text, out, &rule)) return ERR_PARSE;
    if (has_range(o) && (*out < o->min || *out > o->max)) return ERR_RANGE;
    return ERR_OK;
}

union value {
    bool yes;
    int choice;
    uint64_t whole;
    uint32_t count;
    double real;
    float narrow;
    char text[OPTION_TEXT_BYTES];
};

static enum err parse(const struct option *o, const char *text, union value *v)
{
    switch (o->type) {
    case OPT_BOOL:
        return parse_bool(text, &v->yes);
    case OPT_ENUM:
        return parse_enum(o->choices, text, &v->choice);
    case OPT_STRING:
        return parse_string(o, text, v->text);
    case OPT_UINT:
    case OPT_BYTES:
    case OPT_DURATION:
        return parse_whole(o, text, &v->whole);
    case OPT_REAL:
    case OPT_RATE:
    case OPT_FLOPS:
    case OPT_WATTS:
    case OPT_SHARE:
        return parse_real(o, text, &v->real);
    }
    return ERR_PARSE;
}

/* Numbers are parsed wide, and kept as wide as their field is. */
static void fit(const struct option *o, union value *v)
{
    uint64_t whole = v->whole;
    double real = v->real;
    if (o->type == OPT_UINT) v->count = (uint32_t)whole;
    if (is_real(o->type) && o->bytes == sizeof v->narrow) v->narrow = (float)real;
}

enum err option_set(const struct option *o, void *base, const char *text, struct error *e)
{
    union value v;
    assert(o->bytes <= sizeof v);
    memset(&v, 0, sizeof v);
    enum err rc = parse(o, text, &v);
    if (rc) return refuse(o, rc, text, e);
    fit(o, &v);
    const char *rule = o->check ? o->check(&v) : NULL;
    if (rule)
        return err_set(e, ERR_RANGE, "%s.%s = \"%.100s\": must be %s", o->section, o->name, text,
                       rule);
    memcpy((char *)base + o->offset, &v, o->bytes);
    return ERR_OK;
}

void option_defaults(const struct option_table *t, void *base)
{
    for (uint32_t i = 0; i < t->n; i++) {
        struct error e = {0};
        if (!t->rows[i].def) continue;
        enum err rc = option_set(&t->rows[i], base, t->rows[i].def, &e);
        assert(rc == ERR_OK && "a default breaks its own rule");
        (void)rc;
    }
}

static void choice_text(const char *choices, int index, char *out)
{
    const char *c = choices;
    while (index-- > 0 && c)
        c = strchr(c, '|') ? strchr(c, '|') + 1 : NULL;
    snprintf(out, OPTION_TEXT_BYTES, "%.*s", c ? (int)strcspn(c, "|") : 0, c ? c : "");
}

void option_text(const struct option *o, const void *base, char out[OPTION_TEXT_BYTES])
{
    union value v;
    assert(o->bytes <= sizeof v);
    memset(&v, 0, sizeof v);
    memcpy(&v, (const char *)base + o->offset, o->bytes);
    if (o->type == OPT_BOOL)
        snprintf(out, OPTION_TEXT_BYTES, "%s", v.yes ? "true" : "false");
    else if (o->type == OPT_STRING)
        snprintf(out, OPTION_TEXT_BYTES, "%s", v.text);
    else if (o->type == OPT_ENUM)
        choice_text(o->choices, v.choice, out);
    else if (is_whole(o->type))
        unit_print_whole(unit_of(o->type), o->type == OPT_UINT ? v.count : v.whole, out);
    else if (o->bytes == sizeof v.narrow) /* nine digits are enough for a float */
        snprintf(out, OPTION_TEXT_BYTES, "%.9g", (double)v.narrow);
    else
        unit_print_real(unit_of(o->type), v.real, out);
}

static void bound_text(const struct option *o, double v, char out[UNIT_TEXT_BYTES])
{
    if (is_whole(o->type))
        unit_print_whole(unit_of(o->type), (uint64_t)v, out);
    else
        unit_print_real(unit_of(o->type), v, out);
}

/* "a|b|c" as "a, b or c" */
static void choices_rule(const char *choices, char *out)
{
    size_t n = 0;
    for (const char *c = choices; *c && n + 5 < OPTION_TEXT_BYTES; c++) {
        if (*c != '|') {
            out[n++] = *c;
            continue;
        }
        const char *between = strchr(c + 1, '|') ? ", " : " or ";
        memcpy(out + n, between, strlen(between));
        n += strlen(between);
    }
    out[n] = '\0';
}

void option_rule(const struct option *o, char out[OPTION_TEXT_BYTES])
{
    if (o->type == OPT_BOOL) {
        snprintf(out, OPTION_TEXT_BYTES, "true or false");
    } else if (o->type == OPT_ENUM) {
        choices_rule(o->choices, out);
    } else if (o->type == OPT_STRING) {
        snprintf(out, OPTION_TEXT_BYTES,
                 "UTF-8 text of at most %zu bytes without control characters and \" ;\"",
                 o->bytes - 1);
    } else if (has_range(o)) {
        char min[UNIT_TEXT_BYTES], max[UNIT_TEXT_BYTES];
        bound_text(o, o->min, min);
        bound_text(o, o->max, max);
        snprintf(out, OPTION_TEXT_BYTES, "%s to %s", min, max);
    } else {
        uint64_t whole;
        double real;
        const char *rule = "";
        if (is_whole(o->type)) /* no number is the empty text: it yields the rule */
            (void)unit_parse_whole(unit_of(o->type), "", &whole, &rule);
        else
            (void)unit_parse_real(unit_of(o->type), "", &real, &rule);
        snprintf(out, OPTION_TEXT_BYTES, "%s", rule);
    }
}
