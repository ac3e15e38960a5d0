/* made_weights.c - fills matrices with bytes that decode to small numbers. */
#include "tests/unit/made_weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state = 88172645463325252ull;

static uint32_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32);
}

static void *block(struct made_weights *m, size_t bytes)
{
    void **more = realloc(m->blocks, (m->n_blocks + 1) * sizeof *more);
    void *p = malloc(bytes);
    if (!more || !p) {
        fprintf(stderr, "Bail out! no memory for weights\n");
        abort();
    }
    m->blocks = more;
    return m->blocks[m->n_blocks++] = p;
}

static float small(double size)
{
    return (float)(((double)next() / 2147483648.0 - 1) * size);
}

static float *vector(struct made_weights *m, size_t n, double mean, double size)
{
    float *p = block(m, n * sizeof *p);
    for (size_t i = 0; i < n; i++)
        p[i] = (float)mean + small(size);
    return p;
}

/* The f16 or E8M0 scale that makes a block's values as large as `size`. */
static void set_scales(enum dtype t, uint8_t *row, uint8_t *scales, uint32_t cols, double size)
{
    int e = (int)lrint(log2(size));
    for (uint32_t b = 0; b < cols / 32; b++) {
        uint16_t d = (uint16_t)((e - 7 + 15) << 10); /* int8 values reach 2^7 */
        if (t == DT_Q8_0) memcpy(row + b * 34, &d, 2);
        if (t == DT_MXFP4) scales[b] = (uint8_t)(e - 2 + 127); /* codes reach 6 */
        if (t == DT_MXFP4_GGML) row[b * 17] = (uint8_t)(e - 2 + 127);
    }
}

static void fill_row(enum dtype t, uint8_t *row, uint8_t *scales, uint32_t cols)
{
    size_t bytes = dtype_row_bytes(t, cols);
    double size = 1.5 / sqrt(cols);
    if (t == DT_Q8_0 || t == DT_MXFP4 || t == DT_MXFP4_GGML) {
        for (size_t i = 0; i < bytes; i++)
            row[i] = (uint8_t)(next() >> 13);
        set_scales(t, row, scales, cols, size);
        return;
    }
    for (uint32_t c = 0; c < cols; c++) {
        float f = small(size);
        uint32_t u;
        memcpy(&u, &f, 4);
        uint16_t h = (uint16_t)(u >> 16);
        if (t == DT_F16)
            h = (uint16_t)((next() & 0x83ff) | (uint32_t)(lrint(log2(size)) + 14) << 10);
        if (t == DT_F32)
            memcpy(row + 4 * c, &f, 4);
        else
            memcpy(row + 2 * c, &h, 2);
    }
}

static struct weight_stack stack(struct made_weights *m, enum dtype t, uint32_t n,
                                 const uint32_t rows_cols[2])
{
    uint32_t rows = rows_cols[0], cols = rows_cols[1];
    size_t bytes = dtype_row_bytes(t, cols), scale_bytes = dtype_scale_bytes(t, cols);
    uint8_t *data = block(m, bytes * rows * n), *scales = NULL;
    if (scale_bytes) scales = block(m, scale_bytes * rows * n);
    for (size_t r = 0; r < (size_t)rows * n; r++)
        fill_row(t, data + r * bytes, scales ? scales + r * scale_bytes : NULL, cols);
    return (struct weight_stack){
        {t, data, scales, rows, cols, bytes, scale_bytes}, n, bytes * rows, scale_bytes * rows};
}

static struct weight matrix(struct made_weights *m, enum dtype t, uint32_t rows, uint32_t cols)
{
    return stack(m, t, 1, (uint32_t[]){rows, cols}).first;
}

static void make_layer(struct made_weights *m, const struct model_shape *s, struct layer_weights *l)
{
    uint32_t D = s->hidden, q = s->q_heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    uint32_t E = s->experts, F = s->intermediate, up[2] = {F, D}, down[2] = {D, F};
    l->attn_norm = vector(m, D, 1, .1);
    l->mlp_norm = vector(m, D, 1, .1);
    l->q = matrix(m, s->dense_type, q, D);
    l->k = matrix(m, s->dense_type, kv, D);
    l->v = matrix(m, s->dense_type, kv, D);
    l->o = matrix(m, s->dense_type, D, q);
    l->q_bias = vector(m, q, 0, .3);
    l->k_bias = vector(m, kv, 0, .3);
    l->v_bias = vector(m, kv, 0, .3);
    l->o_bias = vector(m, D, 0, .3);
    l->sinks = vector(m, s->q_heads, 0, 2);
    l->router = matrix(m, DT_F32, E, D);
    l->router_bias = vector(m, E, 0, .3);
    l->gate = stack(m, s->expert_type, E, up);
    l->up = stack(m, s->expert_type, E, up);
    l->down = stack(m, s->expert_type, E, down);
    l->gate_bias = vector(m, (size_t)E * F, 0, .3);
    l->up_bias = vector(m, (size_t)E * F, 0, .3);
    l->down_bias = vector(m, (size_t)E * D, 0, .3);
}

void made_weights(struct made_weights *m, const struct model_shape *s)
{
    *m = (struct made_weights){0};
    m->layers = block(m, s->layers * sizeof *m->layers);
    for (uint32_t l = 0; l < s->layers; l++)
        make_layer(m, s, &m->layers[l]);
    m->w = (struct model_weights){.embed = matrix(m, s->dense_type, s->vocab, s->hidden),
                                  .head = matrix(m, s->dense_type, s->vocab, s->hidden),
                                  .final_norm = vector(m, s->hidden, 1, .1),
                                  .n_layers = s->layers,
                                  .layers = m->layers};
}

void made_weights_free(struct made_weights *m)
{
    for (uint32_t i = 0; i < m->n_blocks; i++)
        free(m->blocks[i]);
    free(m->blocks);
}
