/* kernels.h - the arithmetic of one host core: a table of functions, the portable C one being the
 * definition. Chosen once, at start, by what the CPU has and the `isa` option allows. A row's
 * result never depends on the other rows of the call: fixed order of summation for each output.
 * Tables of different instruction sets may differ by rounding (tests: 1e-5 relative to the double
 * reference). */
#ifndef DEVICE_KERNELS_H
#define DEVICE_KERNELS_H

#include "base/err.h"
#include "device/weights.h"

struct linear_args {
    const struct weight *w;
    uint32_t out0, out1; /* rows of w to compute */
    const float *x;      /* [n] rows, x[r * ldx + (col - col0)] */
    size_t ldx;
    uint32_t col0;        /* w's column that x's first column meets */
    const uint32_t *pick; /* row r reads x row pick[r]; NULL = r */
    uint32_t n;           /* rows */
    /* Partials: part i sums columns [border[i], border[i + 1]), borders multiples of 32 (of d for
     * attention output) inside w's columns. add_parts: y = ((part 0 + part 1) + ...) + bias, else
     * part i goes to y + i * part_step, without bias. */
    const uint32_t *border;
    uint32_t parts;
    bool add_parts;
    const float *bias; /* [rows of w] or NULL */
    float *y;          /* y[r * ldy + (out - out0)] */
    size_t ldy, part_step;
};

struct attention_args { /* one query row, one KV head, the g query heads that share it */
    const float *q;     /* [g][d] */
    uint32_t g, d;
    const float *const *k_blocks,
        *const *v_blocks; /* [block][block_tokens][d]; index pos / block_tokens */
    uint32_t block_tokens;
    uint32_t first, last; /* positions of the keys seen, both included */
    const float *sinks;   /* [g] */
    float scale;          /* 1 / sqrt(d) */
    float *scores;        /* scratch [last - first + 1] for each of g heads */
    float *out;           /* [g][d] */
};

struct kernels {
    const char *name;
    void (*linear)(const struct linear_args *a);
    void (*attention)(const struct attention_args *a);
    /* out = x / sqrt(mean(x^2) + eps) * w */
    void (*rmsnorm)(const float *x, const float *w, float eps, uint32_t n, float *out);
    /* rotates one head in place: c and s are [d/2], concentration included */
    void (*rope)(float *x, const float *c, const float *s, uint32_t d);
    /* a = swiglu(gate, up): gpt-oss spec 2.8 */
    void (*swiglu)(const float *gate, const float *up, uint32_t n, float alpha, float limit,
                   float *a);
    /* y += s * x */
    void (*axpy)(float s, const float *x, uint32_t n, float *y);
};

/* "auto", "portable", "avx2", "avx512" -> the table; ERR_INVAL names what the host lacks. */
const struct kernels *kernels_get(const char *isa, struct error *e);

/* The tables themselves, for kernels_get() only. */
extern const struct kernels kernels_portable, kernels_avx2, kernels_avx512;

/* Row r of w as f32, all columns. Portable; used for embeddings and tests. */
void weight_row(const struct weight *w, uint32_t r, float *out);

static inline float f32_of_bits(uint32_t u)
{
    union {
        uint32_t u;
        float f;
    } v = {u};
    return v.f;
}

static inline float bf16_to_f32(uint16_t h)
{
    return f32_of_bits((uint32_t)h << 16);
}

float f16_to_f32(uint16_t h);

/* 2^(e - 127); 255 is NaN (OCP MX). gpt-oss spec 3.4. */
static inline float e8m0_to_f32(uint8_t e)
{
    return f32_of_bits(e == 0 ? 0x00400000u : e == 255 ? 0x7fc00000u : (uint32_t)e << 23);
}

/* Elements of a block of Q8_0 and MXFP4. */
#define BLOCK_COLS 32

static inline bool dtype_has_blocks(enum dtype t)
{
    return t == DT_Q8_0 || t == DT_MXFP4 || t == DT_MXFP4_GGML;
}

/* The A largest of r[0..e), ties to the lower index, and softmax over them. gpt-oss spec 2.7. */
void route_top(const float *r, uint32_t e, uint32_t a, uint32_t *expert, float *weight);

#endif
