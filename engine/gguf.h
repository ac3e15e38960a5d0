/* gguf.h - the container of ggml models: typed key-value pairs, then tensors. Versions 2 and 3.
 * Works on bytes in memory, which must outlive everything read. Source: gpt-oss spec 3.6. */
#ifndef ENGINE_GGUF_H
#define ENGINE_GGUF_H

#include "base/err.h"
#include "engine/tensors.h"

enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_TYPES
};

struct gguf_string { /* not NUL-terminated */
    const char *text;
    size_t len;
};

struct gguf_pair {
    struct gguf_string key;
    enum gguf_type type;      /* of the value, or of an array's elements */
    bool is_array;            /* arrays of arrays are refused */
    uint64_t n;               /* elements; 1 when it is no array */
    const uint8_t *value;     /* the first element */
    const uint8_t *value_end; /* after the last one */
};

struct gguf {
    struct gguf_pair *pairs; /* owned */
    uint32_t n_pairs;
};

/* Reads one file: the pairs to *out, the tensors appended to *tensors (not sealed). `file` names it
 * in messages. On failure *out is empty. Checked: every count and length against the bytes left,
 * types, alignment, ranges inside the file, keys that occur once. */
enum err gguf_read(const uint8_t *data, size_t size, const char *file, struct gguf *out,
                   struct tensors *tensors, struct error *e);
void gguf_free(struct gguf *g);

const struct gguf_pair *gguf_find(const struct gguf *g, const char *key); /* NULL: none */

/* The value of a key as one kind; *out is untouched when the key is absent (ERR_NOTFOUND, without a
 * message) or has another kind (ERR_INVAL, with one). Any integer type fits the integers. */
enum err gguf_u64(const struct gguf *g, const char *key, uint64_t *out, struct error *e);
enum err gguf_f64(const struct gguf *g, const char *key, double *out, struct error *e);
enum err gguf_text(const struct gguf *g, const char *key, struct gguf_string *out, struct error *e);

/* Walks an array: a cursor starts at pair->value and moves on by each call. gguf_next_string() is
 * for string arrays, gguf_next_int() for integers and booleans; call them pair->n times at most. */
struct gguf_string gguf_next_string(const uint8_t **cursor);
int64_t gguf_next_int(const struct gguf_pair *p, const uint8_t **cursor);

#endif
