/* kernels_impl.h - the kernels, written once over a vector of LANES floats. Each kernels_<isa>.c
 * defines the vector and includes this file, which then defines that file's table of functions.
 *
 * The including file gives: LANES; vec; v_zero, v_set1, v_load, v_load_n (the first n lanes, the
 * rest 0), v_store, v_store_n, v_fma (a * b + c), v_fold (adds lanes down to four); load_f16,
 * load_bf16(bytes), LANES numbers; unpack_f16, unpack_bf16(bytes, n, out); load_q8,
 * load_mxfp4_ggml(bytes, out), load_mxfp4(bytes, scale, out), a block of 32; OUTS, outputs of a
 * tile; BLOCK_ROWS x BLOCK_OUTS, the sums that are kept in registers.
 *
 * Order of summation. A part of a dot product is one vector of LANES sums: lane j adds the columns
 * border + j, border + j + LANES, ... in this order; then v_sum adds the lanes. It is the same for
 * every tile shape, so a result does not depend on which rows and outputs are computed together.
 * Error: at most (columns / LANES + log2(LANES)) * 2^-24 of the sum of the absolute products. */
#ifndef DEVICE_KERNELS_IMPL_H
#define DEVICE_KERNELS_IMPL_H

#include "device/kernels.h"

#include <math.h>
#include <string.h>

#define ALWAYS_INLINE inline __attribute__((always_inline))
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

/* Columns unpacked at a time: OUTS rows of them stay in the L1 cache. A multiple of LANES. */
#define CHUNK 512
/* Rows of x that share one unpacked tile; more rows unpack it again. */
#define TILE_ROWS 64
#define TILE_STEP (CHUNK + 2 * BLOCK_COLS)

/* Outputs that one row of x meets at a time: as many chains of sums. */
#define ROW_OUTS 4

struct tile {
    float w[OUTS][TILE_STEP]; /* unpacked weights */
    vec sum[TILE_ROWS][OUTS];
    uint32_t out0, outs, row0, rows;
};

static inline uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

#define BLOCK_VECS (BLOCK_COLS / LANES)

/* Block `b` of a row: 32 columns. t is a constant at each call. */
static ALWAYS_INLINE void load_block(enum dtype t, const uint8_t *row, const uint8_t *scales,
                                     size_t b, vec out[BLOCK_VECS])
{
    if (t == DT_Q8_0) load_q8(row + b * 34, out);
    if (t == DT_MXFP4) load_mxfp4(row + b * 16, scales[b], out);
    if (t == DT_MXFP4_GGML) load_mxfp4_ggml(row + b * 17, out);
    UNROLL for (size_t i = 0; i < BLOCK_VECS; i++)
    {
        size_t at = b * BLOCK_COLS + i * LANES;
        if (t == DT_F32) out[i] = v_load(row + 4 * at);
        if (t == DT_F16) out[i] = load_f16(row + 2 * at);
        if (t == DT_BF16) out[i] = load_bf16(row + 2 * at);
    }
}

static ALWAYS_INLINE void unpack_blocks(enum dtype t, const uint8_t *row, const uint8_t *scales,
                                        size_t blocks, float *out)
{
    for (size_t b = 0; b < blocks; b++) {
        vec v[BLOCK_VECS];
        load_block(t, row, scales, b, v);
        UNROLL for (size_t i = 0; i < BLOCK_VECS; i++)
            v_store(out + b * BLOCK_COLS + i * LANES, v[i]);
    }
}

static const uint8_t *scale_row(const struct weight *w, uint32_t row)
{
    return w->scales ? w->scales + row * w->scale_step_bytes : NULL;
}

/* Columns [c0, c1) of a row as f32; borders of blocks where the type has them. */
static void unpack(const struct weight *w, uint32_t row, uint32_t c0, uint32_t c1, float *out)
{
    const uint8_t *p = w->data + row * w->row_step_bytes + dtype_row_bytes(w->type, c0);
    uint32_t n = c1 - c0, blocks = n / BLOCK_COLS;
    switch (w->type) {
    case DT_F32:
        memcpy(out, p, (size_t)n * sizeof *out);
        break;
    case DT_F16:
        unpack_f16(p, n, out);
        break;
    case DT_BF16:
        unpack_bf16(p, n, out);
        break;
    case DT_Q8_0:
        unpack_blocks(DT_Q8_0, p, NULL, blocks, out);
        break;
    case DT_MXFP4:
        unpack_blocks(DT_MXFP4, p, scale_row(w, row) + c0 / BLOCK_COLS, blocks, out);
        break;
    case DT_MXFP4_GGML:
        unpack_blocks(DT_MXFP4_GGML, p, NULL, blocks, out);
        break;
    }
}

typedef float quad __attribute__((vector_size(16)));

/* The sum of a vector's lanes: folded to four, then (0 + 2) + (1 + 3). */
static ALWAYS_INLINE float v_sum(vec v)
{
    quad q = (quad)v_fold(v);
    return (q[0] + q[2]) + (q[1] + q[3]);
}

/* The sums of four vectors: the same additions, side by side. */
static ALWAYS_INLINE quad v_sum4(const vec v[4])
{
    quad a = (quad)v_fold(v[0]), b = (quad)v_fold(v[1]);
    quad c = (quad)v_fold(v[2]), d = (quad)v_fold(v[3]);
    quad ab = __builtin_shufflevector(a, b, 0, 4, 1, 5) + __builtin_shufflevector(a, b, 2, 6, 3, 7);
    quad cd = __builtin_shufflevector(c, d, 0, 4, 1, 5) + __builtin_shufflevector(c, d, 2, 6, 3, 7);
    return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) +
           __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}

static ALWAYS_INLINE float dot(const float *a, const float *b, uint32_t n)
{
    vec s = v_zero();
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES)
        s = v_fma(v_load(a + i), v_load(b + i), s);
    if (i < n) s = v_fma(v_load_n(a + i, n - i), v_load_n(b + i, n - i), s);
    return v_sum(s);
}

/* sum[r .. r + rows)[o .. o + outs) += x w' over `cols` columns; w is &tile.w[o][first column].
 * rows and outs are constants at each call, so the sums stay in registers. */
static ALWAYS_INLINE void dot_block(vec (*sum)[OUTS], const float *const *x, const float *w,
                                    uint32_t cols, const uint32_t rows_outs[2])
{
    const uint32_t rows = rows_outs[0], outs = rows_outs[1];
    vec s[BLOCK_ROWS][OUTS];
    uint32_t c = 0;
    UNROLL for (uint32_t i = 0; i < rows; i++) UNROLL for (uint32_t o = 0; o < outs; o++) s[i][o] =
        sum[i][o];
    for (; c + LANES <= cols; c += LANES) {
        vec xv[BLOCK_ROWS];
        UNROLL for (uint32_t i = 0; i < rows; i++) xv[i] = v_load(x[i] + c);
        UNROLL for (uint32_t o = 0; o < outs; o++)
        {
            vec wv = v_load(w + (size_t)o * TILE_STEP + c);
            UNROLL for (uint32_t i = 0; i < rows; i++) s[i][o] = v_fma(xv[i], wv, s[i][o]);
        }
    }
    if (c < cols) {
        UNROLL for (uint32_t i = 0; i < rows; i++)
        {
            vec xv = v_load_n(x[i] + c, cols - c);
            UNROLL for (uint32_t o = 0; o < outs; o++) s[i][o] =
                v_fma(xv, v_load_n(w + (size_t)o * TILE_STEP + c, cols - c), s[i][o]);
        }
    }
    UNROLL for (uint32_t i = 0; i < rows; i++) UNROLL for (uint32_t o = 0; o < outs; o++)
        sum[i][o] = s[i][o];
}

static const float *x_row(const struct linear_args *a, uint32_t r, uint32_t col)
{
    return a->x + (size_t)(a->pick ? a->pick[r] : r) * a->ldx + (col - a->col0);
}

/* Adds columns [c0, c1) of the tile's weights times x to the tile's sums. */
static void tile_add(struct tile *t, const struct linear_args *a, uint32_t c0, uint32_t c1)
{
    uint32_t skip = 0, cols = c1 - c0, u0 = c0, u1 = c1;
    if (dtype_has_blocks(a->w->type)) {
        skip = c0 % BLOCK_COLS;
        u0 = c0 - skip;
        u1 = (c1 + BLOCK_COLS - 1) / BLOCK_COLS * BLOCK_COLS;
    }
    for (uint32_t o = 0; o < t->outs; o++)
        unpack(a->w, t->out0 + o, u0, u1, t->w[o]);

    static const uint32_t one[2] = {1, OUTS}, block[2] = {BLOCK_ROWS, BLOCK_OUTS};
    uint32_t r = 0;
    for (; r + BLOCK_ROWS <= t->rows; r += BLOCK_ROWS) {
        const float *x[BLOCK_ROWS];
        for (uint32_t i = 0; i < BLOCK_ROWS; i++)
            x[i] = x_row(a, t->row0 + r + i, c0);
        for (uint32_t o = 0; o < OUTS; o += BLOCK_OUTS)
            dot_block((vec(*)[OUTS]) & t->sum[r][o], x, &t->w[o][skip], cols, block);
    }
    for (; r < t->rows; r++) {
        const float *x = x_row(a, t->row0 + r, c0);
        dot_block(&t->sum[r], &x, &t->w[0][skip], cols, one);
    }
}

/* Puts the sum of a part where it belongs: the parts' order of addition is here, for all paths. */
static inline void store_part(const struct linear_args *a, uint32_t r, uint32_t out, uint32_t part,
                              float s)
{
    float *y = a->y + (size_t)r * a->ldy + (out - a->out0);
    if (!a->add_parts) {
        y[part * a->part_step] = s;
        return;
    }
    if (part) s = *y + s;
    if (a->bias && part + 1 == a->parts) s += a->bias[out];
    *y = s;
}

/* store_part() of four outputs: the same additions, side by side. */
static inline void store_quad(const struct linear_args *a, uint32_t r, uint32_t out, uint32_t part,
                              quad s)
{
    float *y = a->y + (size_t)r * a->ldy + (out - a->out0);
    quad other;
    if (!a->add_parts) y += part * a->part_step;
    if (a->add_parts && part) {
        memcpy(&other, y, sizeof other);
        s = other + s;
    }
    if (a->add_parts && a->bias && part + 1 == a->parts) {
        memcpy(&other, a->bias + out, sizeof other);
        s += other;
    }
    memcpy(y, &s, sizeof s);
}

static void tile_store(const struct tile *t, const struct linear_args *a, uint32_t part)
{
    for (uint32_t r = 0; r < t->rows; r++) {
        uint32_t o = 0;
        for (; o + 4 <= t->outs; o += 4)
            store_quad(a, t->row0 + r, t->out0 + o, part, v_sum4(&t->sum[r][o]));
        for (; o < t->outs; o++)
            store_part(a, t->row0 + r, t->out0 + o, part, v_sum(t->sum[r][o]));
    }
}

/* One row of x, whole blocks: weights go from memory into registers, `outs` rows of them at a time.
 * Asks early for the rows that come next. The order of the sums is the tiles'. */
static ALWAYS_INLINE void dot_row(const struct linear_args *a, enum dtype t, uint32_t out,
                                  const uint32_t outs)
{
    const struct weight *w = a->w;
    const uint8_t *row = w->data + out * w->row_step_bytes;
    size_t ahead = outs * w->row_step_bytes, block_bytes = dtype_row_bytes(t, BLOCK_COLS);
    for (uint32_t p = 0; p < a->parts; p++) {
        vec s[ROW_OUTS];
        UNROLL for (uint32_t o = 0; o < outs; o++) s[o] = v_zero();
        for (uint32_t b = a->border[p] / BLOCK_COLS; b < a->border[p + 1] / BLOCK_COLS; b++) {
            const float *x = x_row(a, 0, b * BLOCK_COLS);
            UNROLL for (uint32_t o = 0; o < outs; o++)
            {
                const uint8_t *here = row + o * w->row_step_bytes;
                vec v[BLOCK_VECS];
                load_block(t, here, scale_row(w, out + o), b, v);
                __builtin_prefetch(here + ahead + b * block_bytes, 0, 2);
                UNROLL for (uint32_t i = 0; i < BLOCK_VECS; i++) s[o] =
                    v_fma(v_load(x + i * LANES), v[i], s[o]);
            }
        }
        UNROLL for (uint32_t o = 0; o < outs; o++) store_part(a, 0, out + o, p, v_sum(s[o]));
    }
}

static ALWAYS_INLINE void linear_row(const struct linear_args *a, enum dtype t)
{
    uint32_t o = a->out0;
    for (; o + ROW_OUTS <= a->out1; o += ROW_OUTS)
        dot_row(a, t, o, ROW_OUTS);
    for (; o < a->out1; o++)
        dot_row(a, t, o, 1);
}

static bool borders_are_blocks(const struct linear_args *a)
{
    for (uint32_t p = 0; p <= a->parts; p++)
        if (a->border[p] % BLOCK_COLS) return false;
    return true;
}

static void linear_one(const struct linear_args *a)
{
    switch (a->w->type) {
    case DT_F32:
        linear_row(a, DT_F32);
        break;
    case DT_F16:
        linear_row(a, DT_F16);
        break;
    case DT_BF16:
        linear_row(a, DT_BF16);
        break;
    case DT_Q8_0:
        linear_row(a, DT_Q8_0);
        break;
    case DT_MXFP4:
        linear_row(a, DT_MXFP4);
        break;
    case DT_MXFP4_GGML:
        linear_row(a, DT_MXFP4_GGML);
        break;
    }
}

static void linear(const struct linear_args *a)
{
    if (a->n == 1 && borders_are_blocks(a)) {
        linear_one(a);
        return;
    }
    struct tile t;
    for (t.out0 = a->out0; t.out0 < a->out1; t.out0 += OUTS) {
        t.outs = least(OUTS, a->out1 - t.out0);
        /* A last, narrow tile multiplies rows of it that nobody unpacked. */
        if (t.outs < OUTS) memset(t.w[t.outs], 0, (OUTS - t.outs) * sizeof t.w[0]);
        for (t.row0 = 0; t.row0 < a->n; t.row0 += TILE_ROWS) {
            t.rows = least(TILE_ROWS, a->n - t.row0);
            for (uint32_t p = 0; p < a->parts; p++) {
                for (uint32_t r = 0; r < t.rows; r++)
                    for (uint32_t o = 0; o < OUTS; o++)
                        t.sum[r][o] = v_zero();
                for (uint32_t c = a->border[p]; c < a->border[p + 1]; c += CHUNK)
                    tile_add(&t, a, c, least(c + CHUNK, a->border[p + 1]));
                tile_store(&t, a, p);
            }
        }
    }
}

#include "device/kernels_attention.h"

static void rmsnorm(const float *x, const float *w, float eps, uint32_t n, float *out)
{
    float scale = 1 / sqrtf(dot(x, x, n) / (float)n + eps);
    for (uint32_t i = 0; i < n; i++)
        out[i] = x[i] * scale * w[i];
}

static void rope(float *x, const float *c, const float *s, uint32_t d)
{
    for (uint32_t i = 0; i < d / 2; i++) {
        float a = x[i], b = x[i + d / 2];
        x[i] = a * c[i] - b * s[i];
        x[i + d / 2] = b * c[i] + a * s[i];
    }
}

static void swiglu(const float *gate, const float *up, uint32_t n, float alpha, float limit,
                   float *a)
{
    for (uint32_t i = 0; i < n; i++) {
        float g = gate[i] > limit ? limit : gate[i]; /* this way round a NaN stays one */
        float u = up[i] > limit ? limit : up[i] < -limit ? -limit : up[i];
        a[i] = g / (1 + expf(-alpha * g)) * (u + 1);
    }
}

static void axpy(float s, const float *x, uint32_t n, float *y)
{
    vec sv = v_set1(s);
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES)
        v_store(y + i, v_fma(sv, v_load(x + i), v_load(y + i)));
    if (i < n) v_store_n(y + i, n - i, v_fma(sv, v_load_n(x + i, n - i), v_load_n(y + i, n - i)));
}

#define KERNELS_TABLE(NAME)                                                                        \
    {                                                                                              \
        .name = NAME, .linear = linear, .attention = attention, .rmsnorm = rmsnorm, .rope = rope,  \
        .swiglu = swiglu, .axpy = axpy                                                             \
    }

#endif
