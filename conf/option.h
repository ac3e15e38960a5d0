/* option.h - an option is one row of a table: where it stands in the file, what it may be, where
 * its value goes in a struct. The same row reads it, prints it and documents it. */
#ifndef CONF_OPTION_H
#define CONF_OPTION_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_type {
    OPT_BOOL,     /* bool: true, false, yes, no, on, off */
    OPT_UINT,     /* uint32_t */
    OPT_BYTES,    /* uint64_t */
    OPT_DURATION, /* uint64_t, nanoseconds */
    OPT_REAL,     /* double or float */
    OPT_RATE,     /* double, bytes per second */
    OPT_FLOPS,    /* double, operations per second */
    OPT_WATTS,    /* double */
    OPT_SHARE,    /* double, 0 to 1 */
    OPT_STRING,   /* char[], valid UTF-8 on one line */
    OPT_ENUM      /* an enum whose values are 0, 1, ... in the order of `choices` */
};

struct option {
    const char *section, *name;
    enum option_type type;
    size_t offset, bytes; /* of the field */
    double min, max;      /* of numbers, in the field's unit; both 0: whatever the type holds */
    const char *choices;  /* OPT_ENUM: "a|b|c" */
    const char *def;      /* default; NULL: a file must say it */
    const char *flag;     /* short name on the command line, or NULL */
    const char *value;    /* what it is called in help texts: "ADDRESS"; NULL: after its type */
    const char *help;     /* one or two sentences */
    /* More than the type can check: the rule that the field breaks, or NULL. May be NULL. */
    const char *(*check)(const void *field);
};

/* The field's offset and size for a row: OPT_FIELD(struct conf, server.port). min and max may
 * follow. */
#define OPT_FIELD(type, field) .offset = offsetof(type, field), .bytes = sizeof(((type *)0)->field)

struct option_table {
    const struct option *rows; /* rows of a section stand together */
    uint32_t n;
};

/* The row, or NULL. */
const struct option *option_find(const struct option_table *t, const char *section,
                                 const char *name);
bool option_section(const struct option_table *t, const char *section);

/* Reads the text into the row's field of the struct at `base`; the field is unchanged on failure.
 * ERR_PARSE or ERR_RANGE names the option, the value and the rule. */
enum err option_set(const struct option *o, void *base, const char *text, struct error *e);

/* Sets every field that has a default. */
void option_defaults(const struct option_table *t, void *base);

/* The value in the form that option_set reads back; "" for an empty string. */
#define OPTION_TEXT_BYTES 1100
void option_text(const struct option *o, const void *base, char out[OPTION_TEXT_BYTES]);

/* What the value may be, in words: "0 to 65535", "host, device or virtual". */
void option_rule(const struct option *o, char out[OPTION_TEXT_BYTES]);

#endif
