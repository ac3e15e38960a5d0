/* kernels_portable.c - the kernels in C that any compiler takes: the definition. */
#include "device/kernels.h"

#include <string.h>

#define LANES      4
#define OUTS       4
#define BLOCK_ROWS 2
#define BLOCK_OUTS 4

typedef float vec __attribute__((vector_size(4 * LANES)));

static inline vec v_zero(void)
{
    return (vec){0};
}

static inline vec v_set1(float f)
{
    return (vec){f, f, f, f};
}

static inline vec v_load(const void *p)
{
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline vec v_load_n(const float *p, uint32_t n)
{
    vec v = {0};
    memcpy(&v, p, n * sizeof *p);
    return v;
}

static inline void v_store(float *p, vec v)
{
    memcpy(p, &v, sizeof v);
}

static inline void v_store_n(float *p, uint32_t n, vec v)
{
    memcpy(p, &v, n * sizeof *p);
}

static inline vec v_fma(vec a, vec b, vec c)
{
    return a * b + c;
}

static inline vec v_fold(vec v)
{
    return v;
}

static const float fp4_values[16] = {0,    .5f,  1,  1.5f,  2,  3,  4,  6,
                                     -0.f, -.5f, -1, -1.5f, -2, -3, -4, -6};

static uint16_t load_u16(const uint8_t *p)
{
    uint16_t u;
    memcpy(&u, p, sizeof u);
    return u;
}

static void unpack_f16(const uint8_t *p, uint32_t n, float *out)
{
    for (uint32_t i = 0; i < n; i++)
        out[i] = f16_to_f32(load_u16(p + 2 * i));
}

static void unpack_bf16(const uint8_t *p, uint32_t n, float *out)
{
    for (uint32_t i = 0; i < n; i++)
        out[i] = bf16_to_f32(load_u16(p + 2 * i));
}

static inline vec load_f16(const uint8_t *p)
{
    return (vec){f16_to_f32(load_u16(p)), f16_to_f32(load_u16(p + 2)), f16_to_f32(load_u16(p + 4)),
                 f16_to_f32(load_u16(p + 6))};
}

static inline vec load_bf16(const uint8_t *p)
{
    return (vec){bf16_to_f32(load_u16(p)), bf16_to_f32(load_u16(p + 2)),
                 bf16_to_f32(load_u16(p + 4)), bf16_to_f32(load_u16(p + 6))};
}

static inline void load_q8(const uint8_t *p, vec *out)
{
    float d = f16_to_f32(load_u16(p)), f[BLOCK_COLS];
    for (uint32_t i = 0; i < BLOCK_COLS; i++)
        f[i] = d * (float)(int8_t)p[2 + i];
    memcpy(out, f, sizeof f);
}

static inline void load_mxfp4(const uint8_t *p, uint8_t scale, vec *out)
{
    float d = e8m0_to_f32(scale), f[BLOCK_COLS];
    for (uint32_t i = 0; i < 16; i++) {
        f[2 * i] = d * fp4_values[p[i] & 15];
        f[2 * i + 1] = d * fp4_values[p[i] >> 4];
    }
    memcpy(out, f, sizeof f);
}

static inline void load_mxfp4_ggml(const uint8_t *p, vec *out)
{
    float d = e8m0_to_f32(p[0]), f[BLOCK_COLS];
    for (uint32_t i = 0; i < 16; i++) {
        f[i] = d * fp4_values[p[1 + i] & 15];
        f[i + 16] = d * fp4_values[p[1 + i] >> 4];
    }
    memcpy(out, f, sizeof f);
}

#include "device/kernels_impl.h"

const struct kernels kernels_portable = KERNELS_TABLE("portable");

void weight_row(const struct weight *w, uint32_t r, float *out)
{
    unpack(w, r, 0, w->cols, out);
}
