/* kernels_avx512.c - the kernels in 16 lanes: AVX-512 F, BW, DQ, VL. */
#include "device/kernels.h"

#include <immintrin.h>
#include <string.h>

#define LANES      16
#define OUTS       8
#define BLOCK_ROWS 3 /* 24 sums, 3 of x and 1 of w in 32 registers */
#define BLOCK_OUTS 8

typedef __m512 vec;

static inline __mmask16 first_lanes(uint32_t n)
{
    return (__mmask16)((1u << n) - 1);
}

static inline vec v_zero(void)
{
    return _mm512_setzero_ps();
}

static inline vec v_set1(float f)
{
    return _mm512_set1_ps(f);
}

static inline vec v_load(const void *p)
{
    return _mm512_loadu_ps(p);
}

static inline vec v_load_n(const float *p, uint32_t n)
{
    return _mm512_maskz_loadu_ps(first_lanes(n), p);
}

static inline void v_store(float *p, vec v)
{
    _mm512_storeu_ps(p, v);
}

static inline void v_store_n(float *p, uint32_t n, vec v)
{
    _mm512_mask_storeu_ps(p, first_lanes(n), v);
}

static inline vec v_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}

static inline __m128 v_fold(vec v)
{
    __m256 a = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    return _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
}

static inline vec load_f16(const uint8_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
}

static inline vec widen_bf16(__m256i h)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

static inline vec load_bf16(const uint8_t *p)
{
    return widen_bf16(_mm256_loadu_si256((const void *)p));
}

static void unpack_f16(const uint8_t *p, uint32_t n, float *out)
{
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES)
        v_store(out + i, load_f16(p + 2 * i));
    if (i == n) return;
    __m256i h = _mm256_maskz_loadu_epi16(first_lanes(n - i), p + 2 * i);
    v_store_n(out + i, n - i, _mm512_cvtph_ps(h));
}

static void unpack_bf16(const uint8_t *p, uint32_t n, float *out)
{
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES)
        v_store(out + i, load_bf16(p + 2 * i));
    if (i == n) return;
    __m256i h = _mm256_maskz_loadu_epi16(first_lanes(n - i), p + 2 * i);
    v_store_n(out + i, n - i, widen_bf16(h));
}

static inline void load_q8(const uint8_t *p, vec *out)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    vec d = v_set1(_cvtsh_ss(h));
    for (int i = 0; i < 2; i++) {
        __m128i q = _mm_loadu_si128((const void *)(p + 2 + 16 * i));
        out[i] = _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(q)));
    }
}

/* 16 codes, one a byte, times the block's scale. */
static inline vec fp4(__m128i codes, vec scale)
{
    const vec table =
        _mm512_setr_ps(0, .5f, 1, 1.5f, 2, 3, 4, 6, -0.f, -.5f, -1, -1.5f, -2, -3, -4, -6);
    return _mm512_mul_ps(scale, _mm512_permutexvar_ps(_mm512_cvtepu8_epi32(codes), table));
}

static inline void load_mxfp4(const uint8_t *p, uint8_t scale, vec *out)
{
    const __m128i nibble = _mm_set1_epi8(15);
    vec d = v_set1(e8m0_to_f32(scale));
    __m128i b = _mm_loadu_si128((const void *)p);
    __m128i even = _mm_and_si128(b, nibble), odd = _mm_and_si128(_mm_srli_epi16(b, 4), nibble);
    out[0] = fp4(_mm_unpacklo_epi8(even, odd), d);
    out[1] = fp4(_mm_unpackhi_epi8(even, odd), d);
}

static inline void load_mxfp4_ggml(const uint8_t *p, vec *out)
{
    const __m128i nibble = _mm_set1_epi8(15);
    vec d = v_set1(e8m0_to_f32(p[0]));
    __m128i b = _mm_loadu_si128((const void *)(p + 1));
    out[0] = fp4(_mm_and_si128(b, nibble), d);
    out[1] = fp4(_mm_and_si128(_mm_srli_epi16(b, 4), nibble), d);
}

#include "device/kernels_impl.h"

const struct kernels kernels_avx512 = KERNELS_TABLE("avx512");
