/* kernels_input.h - for the tests of kernels: the tables, and random input that is the same in
 * every run, in buffers of its exact size. */
#ifndef TESTS_UNIT_KERNELS_INPUT_H
#define TESTS_UNIT_KERNELS_INPUT_H

#include "device/kernels.h"
#include "tests/unit/tap.h"

static const char *const isas[] = {"portable", "avx2", "avx512"};

/* The i-th table, or NULL: this host lacks it (test_get proves that "auto" finds one). */
static inline const struct kernels *table(int i)
{
    return kernels_get(isas[i], NULL);
}

static uint32_t seed;

static inline uint32_t rnd(uint32_t below)
{
    seed = seed * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)(seed >> 8) * below >> 24);
}

static inline float rnd_float(void)
{
    return (float)rnd(2001) / 1000.0f - 1;
}

static inline void *room(size_t bytes)
{
    void *p = malloc(bytes ? bytes : 1);
    ck_assert(p != NULL);
    return p;
}

static inline float *rnd_floats(size_t n)
{
    float *p = room(n * sizeof *p);
    for (size_t i = 0; i < n; i++)
        p[i] = rnd_float();
    return p;
}

#endif
