/* gguf.c - every length in the file is a claim until it fits the bytes that are left. */
#include "engine/gguf.h"

#include <stdlib.h>
#include <string.h>

#define MAX_NAME_BYTES 256u /* of a tensor; the format says 64 */
#define MAX_DIMS       4u
#define MAX_ALIGNMENT  (1u << 20)

static const uint8_t value_bytes[GGUF_TYPES] = {
    [GGUF_U8] = 1,  [GGUF_I8] = 1,  [GGUF_U16] = 2,  [GGUF_I16] = 2, [GGUF_U32] = 4, [GGUF_I32] = 4,
    [GGUF_F32] = 4, [GGUF_U64] = 8, [GGUF_BOOL] = 1, [GGUF_I64] = 8, [GGUF_F64] = 8,
};

struct reader {
    const uint8_t *at, *start, *end;
    const char *file;
    struct error *e;
};

static enum err bad(const struct reader *r, const char *what)
{
    return err_set(r->e, ERR_PARSE, "%s: byte %zu: %s", r->file, (size_t)(r->at - r->start), what);
}

static uint64_t load(const uint8_t *p, unsigned bytes)
{
    uint64_t v = 0;
    while (bytes--)
        v = v << 8 | p[bytes];
    return v;
}

static enum err take(struct reader *r, unsigned bytes, uint64_t *v)
{
    *v = 0;
    if ((size_t)(r->end - r->at) < bytes) return bad(r, "the file is cut off here");
    *v = load(r->at, bytes);
    r->at += bytes;
    return ERR_OK;
}

static enum err take_string(struct reader *r, struct gguf_string *s)
{
    uint64_t n;
    enum err rc = take(r, 8, &n);
    *s = (struct gguf_string){"", 0};
    if (rc) return rc;
    if (n > (size_t)(r->end - r->at)) return bad(r, "a string is longer than the file");
    *s = (struct gguf_string){(const char *)r->at, (size_t)n};
    r->at += n;
    return ERR_OK;
}

/* Moves past n elements of a type. */
static enum err skip(struct reader *r, enum gguf_type type, uint64_t n)
{
    if (type == GGUF_STRING) {
        struct gguf_string s;
        for (uint64_t i = 0; i < n; i++) {
            enum err rc = take_string(r, &s);
            if (rc) return rc;
        }
        return ERR_OK;
    }
    if (n > (size_t)(r->end - r->at) / value_bytes[type])
        return bad(r, "a value is longer than the file");
    r->at += n * value_bytes[type];
    return ERR_OK;
}

static enum err take_pair(struct reader *r, struct gguf_pair *p)
{
    uint64_t type = 0, n = 1;
    enum err rc = take_string(r, &p->key);
    if (!rc && (p->key.len == 0 || memchr(p->key.text, 0, p->key.len)))
        rc = bad(r, "a key is empty or holds a NUL");
    if (!rc) rc = take(r, 4, &type);
    if (rc) return rc;
    p->is_array = type == GGUF_ARRAY;
    if (p->is_array) {
        rc = take(r, 4, &type);
        if (!rc) rc = take(r, 8, &n);
        if (rc) return rc;
    }
    if (type >= GGUF_TYPES || type == GGUF_ARRAY)
        return err_set(r->e, ERR_PARSE, "%s: key %.*s: value type %llu is %s", r->file,
                       (int)(p->key.len < 80 ? p->key.len : 80), p->key.text,
                       (unsigned long long)type,
                       type == GGUF_ARRAY ? "an array inside an array" : "unknown");
    p->type = (enum gguf_type)type;
    p->n = n;
    p->value = r->at;
    rc = skip(r, p->type, n);
    p->value_end = r->at;
    return rc;
}

static int by_key(const void *a, const void *b)
{
    const struct gguf_string *x = &((const struct gguf_pair *)a)->key;
    const struct gguf_string *y = &((const struct gguf_pair *)b)->key;
    int c = memcmp(x->text, y->text, x->len < y->len ? x->len : y->len);
    return c ? c : (x->len > y->len) - (x->len < y->len);
}

static enum err take_pairs(struct reader *r, uint64_t n, struct gguf *out)
{
    /* each takes at least its key's length, one letter, a type and a byte */
    if (n > (size_t)(r->end - r->at) / 14) return bad(r, "more keys than the file has room for");
    out->pairs = calloc((size_t)n + 1, sizeof *out->pairs);
    if (!out->pairs) return err_set(r->e, ERR_NOMEM, "%s: out of memory", r->file);
    for (; out->n_pairs < n; out->n_pairs++) {
        enum err rc = take_pair(r, &out->pairs[out->n_pairs]);
        if (rc) return rc;
    }
    if (n) qsort(out->pairs, (size_t)n, sizeof *out->pairs, by_key);
    for (uint64_t i = 1; i < n; i++)
        if (by_key(&out->pairs[i - 1], &out->pairs[i]) == 0)
            return err_set(r->e, ERR_PARSE, "%s: key %.*s occurs twice", r->file,
                           (int)(out->pairs[i].key.len < 80 ? out->pairs[i].key.len : 80),
                           out->pairs[i].key.text);
    return ERR_OK;
}

static int tensor_type_of(uint64_t ggml_type)
{
    switch (ggml_type) {
    case 0:
        return TT_F32;
    case 1:
        return TT_F16;
    case 8:
        return TT_Q8_0;
    case 30:
        return TT_BF16;
    case 39:
        return TT_MXFP4;
    default:
        return -1;
    }
}

static enum err take_dims(struct reader *r, const struct gguf_string *name, struct tensor *t)
{
    uint64_t n;
    enum err rc = take(r, 4, &n);
    if (rc) return rc;
    if (n == 0 || n > MAX_DIMS)
        return err_set(r->e, ERR_PARSE, "%s: tensor %.*s: %llu dimensions, 1 to %u are allowed",
                       r->file, (int)name->len, name->text, (unsigned long long)n, MAX_DIMS);
    t->n_dims = (uint32_t)n;
    for (uint32_t i = t->n_dims; i-- > 0;) { /* the file has the contiguous one first */
        rc = take(r, 8, &t->dims[i]);
        if (rc) return rc;
    }
    return ERR_OK;
}

static enum err take_tensor(struct reader *r, struct tensors *tensors)
{
    struct gguf_string name;
    struct tensor t = {0};
    uint64_t type = 0;
    enum err rc = take_string(r, &name);
    if (!rc && (name.len == 0 || name.len > MAX_NAME_BYTES || memchr(name.text, 0, name.len)))
        rc = bad(r, "a tensor's name is empty, too long or holds a NUL");
    if (!rc) rc = take_dims(r, &name, &t);
    if (!rc) rc = take(r, 4, &type);
    if (!rc) rc = take(r, 8, &t.offset);
    if (rc) return rc;
    int known = tensor_type_of(type);
    if (known < 0)
        return err_set(r->e, ERR_UNSUPPORTED,
                       "%s: tensor %.*s: ggml type %llu is not supported (F32 0, F16 1, Q8_0 8, "
                       "BF16 30, MXFP4 39 are)",
                       r->file, (int)name.len, name.text, (unsigned long long)type);
    t.type = (enum tensor_type)known;
    char text[100];
    if (!tensor_bytes(t.type, t.dims, t.n_dims, &t.bytes))
        return err_set(r->e, ERR_PARSE,
                       "%s: tensor %.*s: %s %s overflows or does not end at a whole block", r->file,
                       (int)name.len, name.text, tensor_type_name(t.type),
                       tensor_dims_text(t.dims, t.n_dims, text, sizeof text));
    return tensors_add(tensors, &t, name.text, name.len, r->e);
}

/* Turns the offsets of tensors[first..] into places in the file. */
static enum err place(struct reader *r, uint64_t alignment, struct tensors *tensors, uint32_t first)
{
    uint64_t head = (uint64_t)(r->at - r->start), size = (uint64_t)(r->end - r->start);
    uint64_t start = (head + alignment - 1) & ~(alignment - 1); /* a power of two */
    uint64_t room = start < size ? size - start : 0;
    for (uint32_t i = first; i < tensors->n; i++) {
        struct tensor *t = &tensors->items[i];
        if (t->offset & (alignment - 1))
            return err_set(r->e, ERR_PARSE, "%s: tensor %s: offset %llu is not a multiple of %llu",
                           r->file, t->name, (unsigned long long)t->offset,
                           (unsigned long long)alignment);
        if (t->offset > room || t->bytes > room - t->offset)
            return err_set(
                r->e, ERR_PARSE,
                "%s: tensor %s: %llu bytes from %llu are not inside the %llu of the file", r->file,
                t->name, (unsigned long long)t->bytes, (unsigned long long)t->offset,
                (unsigned long long)room);
        t->data = r->start + (t->bytes ? start + t->offset : 0);
    }
    return ERR_OK;
}

static enum err take_all(struct reader *r, struct gguf *out, struct tensors *tensors)
{
    uint64_t magic, version = 0, n_tensors = 0, n_pairs = 0, alignment = 32;
    enum err rc = take(r, 4, &magic);
    if (!rc && magic != 0x46554747) rc = err_set(r->e, ERR_PARSE, "%s: not a GGUF file", r->file);
    if (!rc) rc = take(r, 4, &version);
    if (!rc && version != 2 && version != 3)
        rc = err_set(r->e, ERR_UNSUPPORTED, "%s: GGUF version %llu, 2 or 3 is needed", r->file,
                     (unsigned long long)version);
    if (!rc) rc = take(r, 8, &n_tensors);
    if (!rc) rc = take(r, 8, &n_pairs);
    if (!rc) rc = take_pairs(r, n_pairs, out);
    if (!rc) {
        rc = gguf_u64(out, "general.alignment", &alignment, r->e);
        if (rc == ERR_NOTFOUND) rc = ERR_OK;
    }
    if (!rc && (alignment == 0 || alignment > MAX_ALIGNMENT || alignment & (alignment - 1)))
        rc = err_set(r->e, ERR_PARSE, "%s: general.alignment is %llu, not a power of two", r->file,
                     (unsigned long long)alignment);
    uint32_t first = tensors->n;
    for (uint64_t i = 0; !rc && i < n_tensors; i++)
        rc = take_tensor(r, tensors);
    return rc ? rc : place(r, alignment, tensors, first);
}

enum err gguf_read(const uint8_t *data, size_t size, const char *file, struct gguf *out,
                   struct tensors *tensors, struct error *e)
{
    *out = (struct gguf){0};
    struct reader r = {data, data, data + size, file, e};
    enum err rc = take_all(&r, out, tensors);
    if (rc) gguf_free(out);
    return rc;
}

void gguf_free(struct gguf *g)
{
    free(g->pairs);
    *g = (struct gguf){0};
}

const struct gguf_pair *gguf_find(const struct gguf *g, const char *key)
{
    struct gguf_pair wanted = {.key = {key, strlen(key)}};
    return g->n_pairs ? bsearch(&wanted, g->pairs, g->n_pairs, sizeof *g->pairs, by_key) : NULL;
}

static const struct gguf_pair *scalar(const struct gguf *g, const char *key, enum err *rc,
                                      struct error *e)
{
    const struct gguf_pair *p = gguf_find(g, key);
    *rc = ERR_OK;
    if (!p)
        *rc = ERR_NOTFOUND;
    else if (p->is_array)
        *rc = err_set(e, ERR_INVAL, "%s: one value is expected, not an array", key);
    return *rc ? NULL : p;
}

int64_t gguf_next_int(const struct gguf_pair *p, const uint8_t **cursor)
{
    unsigned n = value_bytes[p->type];
    uint64_t v = load(*cursor, n);
    *cursor += n;
    bool is_signed = p->type == GGUF_I8 || p->type == GGUF_I16 || p->type == GGUF_I32;
    if (is_signed && v >> (8 * n - 1)) v |= ~0ull << (8 * n);
    return (int64_t)v;
}

struct gguf_string gguf_next_string(const uint8_t **cursor)
{
    struct gguf_string s = {(const char *)*cursor + 8, (size_t)load(*cursor, 8)};
    *cursor += 8 + s.len;
    return s;
}

enum err gguf_u64(const struct gguf *g, const char *key, uint64_t *out, struct error *e)
{
    enum err rc;
    const struct gguf_pair *p = scalar(g, key, &rc, e);
    if (!p) return rc;
    if (p->type == GGUF_STRING || p->type == GGUF_F32 || p->type == GGUF_F64)
        return err_set(e, ERR_INVAL, "%s: a whole number is expected", key);
    const uint8_t *at = p->value;
    int64_t v = gguf_next_int(p, &at);
    if (v < 0) return err_set(e, ERR_INVAL, "%s: %lld is below 0 or too large", key, (long long)v);
    *out = (uint64_t)v;
    return ERR_OK;
}

enum err gguf_f64(const struct gguf *g, const char *key, double *out, struct error *e)
{
    enum err rc;
    const struct gguf_pair *p = scalar(g, key, &rc, e);
    if (!p) return rc;
    if (p->type == GGUF_F32) {
        uint32_t bits = (uint32_t)load(p->value, 4);
        float v;
        memcpy(&v, &bits, sizeof v);
        *out = (double)v;
    } else if (p->type == GGUF_F64) {
        uint64_t bits = load(p->value, 8);
        memcpy(out, &bits, sizeof *out);
    } else {
        uint64_t v = 0;
        rc = gguf_u64(g, key, &v, e);
        if (!rc) *out = (double)v;
    }
    return rc;
}

enum err gguf_text(const struct gguf *g, const char *key, struct gguf_string *out, struct error *e)
{
    enum err rc;
    const struct gguf_pair *p = scalar(g, key, &rc, e);
    if (!p) return rc;
    if (p->type != GGUF_STRING) return err_set(e, ERR_INVAL, "%s: a string is expected", key);
    const uint8_t *at = p->value;
    *out = gguf_next_string(&at);
    return ERR_OK;
}
