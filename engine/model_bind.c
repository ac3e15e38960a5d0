/* model_bind.c - from a tensor with a name to a weight with a meaning. */
#include "engine/model_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DENSE_TYPES  (1u << TT_F32 | 1u << TT_F16 | 1u << TT_BF16 | 1u << TT_Q8_0)
#define VECTOR_TYPES (1u << TT_F32 | 1u << TT_F16 | 1u << TT_BF16)

static void fail_shape(struct binder *b, const struct tensor *t, const uint64_t *dims,
                       uint32_t n_dims)
{
    char found[200], wanted[200];
    b->rc = err_set(b->e, ERR_INVAL, "tensor %s: shape %s is expected, the file has %s", t->name,
                    tensor_dims_text(dims, n_dims, wanted, sizeof wanted),
                    tensor_dims_text(t->dims, t->n_dims, found, sizeof found));
}

static void fail_type(struct binder *b, const struct tensor *t, uint32_t types)
{
    char wanted[100];
    size_t at = 0;
    for (int i = 0; i < TT_COUNT && at < sizeof wanted; i++)
        if (types >> i & 1)
            at += (size_t)snprintf(wanted + at, sizeof wanted - at, "%s%s", at ? " or " : "",
                                   tensor_type_name((enum tensor_type)i));
    b->rc = err_set(b->e, ERR_UNSUPPORTED, "tensor %s: type %s is expected, the file has %s",
                    t->name, wanted, tensor_type_name(t->type));
}

const struct tensor *bind_tensor(struct binder *b, const char *name, const uint64_t *dims,
                                 uint32_t n_dims, uint32_t types)
{
    if (b->rc) return NULL;
    char full[200];
    snprintf(full, sizeof full, "%s%s", b->prefix, name);
    struct tensor *t = tensors_find(&b->m->tensors, full);
    if (!t) {
        b->rc = err_set(b->e, ERR_NOTFOUND, "tensor %s is missing", full);
        return NULL;
    }
    if (t->n_dims != n_dims || memcmp(t->dims, dims, n_dims * sizeof *dims) != 0)
        fail_shape(b, t, dims, n_dims);
    else if (!(types >> t->type & 1))
        fail_type(b, t, types);
    if (b->rc) return NULL;
    t->used = true;
    return t;
}

float *bind_alloc(struct binder *b, size_t n)
{
    if (b->rc) return NULL;
    struct model *m = b->m;
    if (m->n_vectors == m->cap_vectors) {
        uint32_t cap = m->cap_vectors ? 2 * m->cap_vectors : 64;
        float **grown = realloc(m->vectors, cap * sizeof *grown);
        if (grown) {
            m->vectors = grown;
            m->cap_vectors = cap;
        }
    }
    float *v = m->n_vectors < m->cap_vectors ? calloc(n, sizeof *v) : NULL;
    if (v)
        m->vectors[m->n_vectors++] = v;
    else
        b->rc = err_set(b->e, ERR_NOMEM, "out of memory for %zu numbers", n);
    return v;
}

static float f32_of_bits(uint32_t bits)
{
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static float f32_of_f16(uint32_t h)
{
    uint32_t sign = (h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 0x3ff;
    if (exponent == 0) { /* zero and subnormals: fraction * 2^-24, exact */
        float v = (float)fraction * 0x1p-24f;
        return sign ? -v : v;
    }
    uint32_t e32 = exponent == 31 ? 255 : exponent + 112;
    return f32_of_bits(sign | e32 << 23 | fraction << 13);
}

void tensor_to_f32(const struct tensor *t, size_t from, size_t step, size_t n, float *out)
{
    size_t width = t->type == TT_F32 ? 4 : 2;
    const uint8_t *p = t->data + from * width;
    for (size_t i = 0; i < n; i++, p += step * width) {
        uint32_t low = (uint32_t)p[0] | (uint32_t)p[1] << 8;
        if (t->type == TT_F32)
            out[i] = f32_of_bits(low | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
        else
            out[i] = t->type == TT_F16 ? f32_of_f16(low) : f32_of_bits(low << 16);
    }
}

static bool in_place(const struct tensor *t)
{
    return t->type == TT_F32 && (uintptr_t)t->data % sizeof(float) == 0 &&
           __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
}

const float *bind_vector(struct binder *b, const char *name, const uint64_t *dims, uint32_t n_dims)
{
    const struct tensor *t = bind_tensor(b, name, dims, n_dims, VECTOR_TYPES);
    if (!t) return NULL;
    if (in_place(t)) return (const float *)(const void *)t->data;
    size_t n = t->bytes / (t->type == TT_F32 ? 4 : 2);
    float *v = bind_alloc(b, n);
    if (v) tensor_to_f32(t, 0, 1, n, v);
    return v;
}

struct weight bind_matrix(struct binder *b, const char *name, uint64_t rows, uint64_t cols)
{
    static const enum dtype dtype_of[TT_COUNT] = {
        [TT_F32] = DT_F32, [TT_F16] = DT_F16, [TT_BF16] = DT_BF16, [TT_Q8_0] = DT_Q8_0};
    const uint64_t dims[] = {rows, cols};
    const struct tensor *t = bind_tensor(b, name, dims, 2, DENSE_TYPES);
    if (!t) return (struct weight){0};
    return (struct weight){.type = dtype_of[t->type],
                           .data = t->data,
                           .rows = (uint32_t)rows,
                           .cols = (uint32_t)cols,
                           .row_step_bytes = t->bytes / rows};
}

enum err model_bind(struct model *m, const struct model_names *names, struct error *e)
{
    const struct model_shape *s = &m->shape;
    const uint64_t d = s->hidden;
    struct binder b = {m, e, ERR_OK, ""};
    m->layers = calloc(s->layers, sizeof *m->layers);
    if (!m->layers) return err_set(e, ERR_NOMEM, "out of memory");
    m->weights = (struct model_weights){.n_layers = s->layers, .layers = m->layers};
    m->weights.embed = bind_matrix(&b, names->embed, s->vocab, d);
    m->weights.head = bind_matrix(&b, names->head, s->vocab, d);
    m->weights.final_norm = bind_vector(&b, names->final_norm, &d, 1);
    for (uint32_t i = 0; i < s->layers && !b.rc; i++) {
        char prefix[40];
        snprintf(prefix, sizeof prefix, "%s%u.", names->layer, i);
        b.prefix = prefix;
        names->bind_layer(&b, &m->layers[i]);
        b.prefix = "";
    }
    return b.rc;
}
