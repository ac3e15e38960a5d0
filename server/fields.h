/* fields.h - reads a JSON object by a table: one row a field, so that every field is checked and
 * reported the same way. Null is the same as absent; integral floats are integers; numbers in
 * strings are not numbers. Source: openai-api spec 1.2. */
#ifndef SERVER_FIELDS_H
#define SERVER_FIELDS_H

#include "server/api_error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct fields; /* one reading */

enum field_kind {
    FIELD_BOOL,    /* bool */
    FIELD_INT,     /* int64_t, min..max */
    FIELD_NUMBER,  /* double, min..max */
    FIELD_STRING,  /* const char *, of the JSON tree; min..max bytes, no NUL inside */
    FIELD_CUSTOM,  /* set() */
    FIELD_ANY,     /* accepted whatever it is: nothing depends on it */
    FIELD_NEUTRAL, /* not built: only what changes nothing is accepted: empty, or the number or
                      truth value `min` */
};

struct field {
    const char *name;
    enum field_kind kind;
    double min, max;
    size_t offset; /* of the value in the target */
    bool (*set)(struct fields *f, const char *name, const json_t *v);
    const char *choices; /* of a string: "a|b|c"; NULL = any */
};

#define FIELD_ROW_ANY(n)                                                                           \
    {                                                                                              \
        .name = n, .kind = FIELD_ANY                                                               \
    }
#define FIELD_ROW_NEUTRAL(n, neutral)                                                              \
    {                                                                                              \
        .name = n, .kind = FIELD_NEUTRAL, .min = neutral                                           \
    }

struct fields {
    void *target;          /* struct that the offsets are of */
    const void *arg;       /* for set() */
    struct api_error *err; /* first error */
    uint32_t unknown;      /* fields that no row names */
};

struct field_table {
    const struct field *rows;
    size_t n;
};

/* Reads `object` by the tables, in their order. False and f->err at the first offence. */
bool fields_read(struct fields *f, const json_t *object, const struct field_table *tables,
                 size_t n_tables);

/* For set(): 400 invalid_type "'NAME' must be RULE, not TYPE". Returns false. */
bool fields_bad_type(struct api_error *e, const char *name, const char *rule, const json_t *v);

/* An integer, or a float without a fraction, within int64. */
bool fields_integer(const json_t *v, int64_t *out);

/* A string without NUL inside; `min`..`max` bytes. Reports under `name`. */
bool fields_string(struct api_error *e, const char *name, const json_t *v, size_t min, size_t max);

/* Parses a body: one JSON object, at most 128 levels and a million values. Caller decrefs; NULL and
 * 400 invalid_json, which names the place and never echoes the body. */
json_t *fields_parse(const char *body, size_t len, struct api_error *e);

#endif
