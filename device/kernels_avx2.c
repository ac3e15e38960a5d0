/* kernels_avx2.c - the kernels in 8 lanes: AVX2, FMA, F16C. */
#include "device/kernels.h"

#include <immintrin.h>
#include <string.h>

#define LANES      8
#define OUTS       8
#define BLOCK_ROWS 3 /* 12 sums, 3 of x and 1 of w in 16 registers */
#define BLOCK_OUTS 4

typedef __m256 vec;

static inline __m256i first_lanes(uint32_t n)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lane);
}

static inline vec v_zero(void)
{
    return _mm256_setzero_ps();
}

static inline vec v_set1(float f)
{
    return _mm256_set1_ps(f);
}

static inline vec v_load(const void *p)
{
    return _mm256_loadu_ps(p);
}

static inline vec v_load_n(const float *p, uint32_t n)
{
    return _mm256_maskload_ps(p, first_lanes(n));
}

static inline void v_store(float *p, vec v)
{
    _mm256_storeu_ps(p, v);
}

static inline void v_store_n(float *p, uint32_t n, vec v)
{
    _mm256_maskstore_ps(p, first_lanes(n), v);
}

static inline vec v_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}

static inline __m128 v_fold(vec v)
{
    return _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
}

/* 8 numbers of 16 bits; the first n where fewer are left. */
static inline __m128i load_u16(const uint8_t *p, uint32_t n)
{
    __m128i h = _mm_setzero_si128();
    memcpy(&h, p, n < LANES ? 2 * n : sizeof h);
    return h;
}

static inline void store_at_most(float *out, uint32_t n, vec v)
{
    if (n < LANES)
        v_store_n(out, n, v);
    else
        v_store(out, v);
}

static inline vec load_f16(const uint8_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const void *)p));
}

static inline vec widen_bf16(__m128i h)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

static inline vec load_bf16(const uint8_t *p)
{
    return widen_bf16(_mm_loadu_si128((const void *)p));
}

static void unpack_f16(const uint8_t *p, uint32_t n, float *out)
{
    for (uint32_t i = 0; i < n; i += LANES)
        store_at_most(out + i, n - i, _mm256_cvtph_ps(load_u16(p + 2 * i, n - i)));
}

static void unpack_bf16(const uint8_t *p, uint32_t n, float *out)
{
    for (uint32_t i = 0; i < n; i += LANES)
        store_at_most(out + i, n - i, widen_bf16(load_u16(p + 2 * i, n - i)));
}

static inline void load_q8(const uint8_t *p, vec *out)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    vec d = v_set1(_cvtsh_ss(h));
    for (int i = 0; i < 4; i++) {
        __m128i q = _mm_loadl_epi64((const void *)(p + 2 + 8 * i));
        out[i] = _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q)));
    }
}

/* 8 codes, one in each of the low bytes: the table has the magnitudes, bit 3 is the sign. */
static inline vec fp4(__m128i codes, vec scale)
{
    const vec table = _mm256_setr_ps(0, .5f, 1, 1.5f, 2, 3, 4, 6);
    __m256i c = _mm256_cvtepu8_epi32(codes);
    __m256i sign = _mm256_slli_epi32(_mm256_srli_epi32(c, 3), 31);
    vec v = _mm256_permutevar8x32_ps(table, c); /* takes the low 3 bits */
    return _mm256_mul_ps(scale, _mm256_xor_ps(v, _mm256_castsi256_ps(sign)));
}

static inline void fp4_16(__m128i codes, vec scale, vec *out)
{
    out[0] = fp4(codes, scale);
    out[1] = fp4(_mm_srli_si128(codes, 8), scale);
}

static inline void load_mxfp4(const uint8_t *p, uint8_t scale, vec *out)
{
    const __m128i nibble = _mm_set1_epi8(15);
    vec d = v_set1(e8m0_to_f32(scale));
    __m128i b = _mm_loadu_si128((const void *)p);
    __m128i even = _mm_and_si128(b, nibble), odd = _mm_and_si128(_mm_srli_epi16(b, 4), nibble);
    fp4_16(_mm_unpacklo_epi8(even, odd), d, out);
    fp4_16(_mm_unpackhi_epi8(even, odd), d, out + 2);
}

static inline void load_mxfp4_ggml(const uint8_t *p, vec *out)
{
    const __m128i nibble = _mm_set1_epi8(15);
    vec d = v_set1(e8m0_to_f32(p[0]));
    __m128i b = _mm_loadu_si128((const void *)(p + 1));
    fp4_16(_mm_and_si128(b, nibble), d, out);
    fp4_16(_mm_and_si128(_mm_srli_epi16(b, 4), nibble), d, out + 2);
}

#include "device/kernels_impl.h"

const struct kernels kernels_avx2 = KERNELS_TABLE("avx2");
