/* kernels.c - chooses the table of kernels, and what all tables share. */
#include "device/kernels.h"

#include "config.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#ifdef HAVE_AVX2
#include <cpuid.h>
#endif

/* Every table that was built, best first; `has` asks the CPU and the operating system. */
struct candidate {
    const struct kernels *table;
    bool (*has)(void);
};

#ifdef HAVE_AVX512
static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

#ifdef HAVE_AVX2
static bool has_avx2(void)
{
    unsigned a, b, c, d; /* clang 14 has no name for F16C */
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

static bool has_c(void)
{
    return true;
}

static const struct candidate candidates[] = {
#ifdef HAVE_AVX512
    {&kernels_avx512, has_avx512},
#endif
#ifdef HAVE_AVX2
    {&kernels_avx2, has_avx2},
#endif
    {&kernels_portable, has_c},
};

const struct kernels *kernels_get(const char *isa, struct error *e)
{
    bool any = strcmp(isa, "auto") == 0;
    for (size_t i = 0; i < sizeof candidates / sizeof *candidates; i++) {
        const struct candidate *c = &candidates[i];
        if (!any && strcmp(isa, c->table->name) != 0) continue;
        if (c->has()) return c->table;
        if (!any) {
            err_set(e, ERR_INVAL, "isa: this host has no %s", isa);
            return NULL;
        }
    }
    if (strcmp(isa, "avx2") == 0 || strcmp(isa, "avx512") == 0)
        err_set(e, ERR_INVAL, "isa: this program was built without %s", isa);
    else
        err_set(e, ERR_INVAL, "isa: \"%s\" is not one of auto, portable, avx2, avx512", isa);
    return NULL;
}

float f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exp = h >> 10 & 31, man = h & 1023;
    if (exp == 31) return f32_of_bits(sign | 0x7f800000u | man << 13);
    if (exp) return f32_of_bits(sign | (exp + 112) << 23 | man << 13);
    float f = (float)man * 0x1p-24f;
    return sign ? -f : f;
}

void route_top(const float *r, uint32_t e, uint32_t a, uint32_t *expert, float *weight)
{
    assert(a > 0 && a <= e);
    uint32_t n = 0;
    for (uint32_t i = 0; i < e; i++) {
        uint32_t at = n < a ? n : a;
        while (at > 0 && r[i] > r[expert[at - 1]])
            at--;
        if (at == a) continue;
        if (n < a) n++;
        memmove(expert + at + 1, expert + at, (n - 1 - at) * sizeof *expert);
        expert[at] = i;
    }
    float sum = 0;
    for (uint32_t j = 0; j < a; j++) {
        weight[j] = expf(r[expert[j]] - r[expert[0]]);
        sum += weight[j];
    }
    for (uint32_t j = 0; j < a; j++)
        weight[j] /= sum;
}
