/* bench_kernels - what the kernels reach on this machine: GB/s of weights and GFLOP/s, for each
 * instruction set and type. One thread; best of a few runs. Prints, never fails.
 *   bench_kernels [MILLISECONDS a figure, 20] */
#include "device/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OUTS 2880
#define COLS 2880
#define SETS 8 /* of weights, in turn: together more than the caches hold */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void measure(const struct kernels *k, enum dtype t, uint32_t rows, double seconds)
{
    static const uint32_t border[] = {0, COLS};
    size_t bytes = OUTS * dtype_row_bytes(t, COLS), scale_bytes = OUTS * dtype_scale_bytes(t, COLS);
    uint8_t *data = malloc(SETS * bytes), *scales = malloc(SETS * scale_bytes + 1);
    float *x = calloc((size_t)rows * COLS, sizeof *x), *y = malloc((size_t)rows * OUTS * sizeof *y);
    if (!data || !scales || !x || !y) abort();
    memset(data, 0x31, SETS * bytes); /* small and finite in every type */
    memset(scales, 120, SETS * scale_bytes + 1);
    double best = 1e9, end = now() + seconds;
    for (int i = 0; i < 2 * SETS || now() < end; i++) {
        struct weight w = {.type = t,
                           .data = data + i % SETS * bytes,
                           .scales = scales + i % SETS * scale_bytes,
                           .rows = OUTS,
                           .cols = COLS,
                           .row_step_bytes = bytes / OUTS,
                           .scale_step_bytes = scale_bytes / OUTS};
        double start = now();
        k->linear(&(struct linear_args){.w = &w,
                                        .out1 = OUTS,
                                        .x = x,
                                        .ldx = COLS,
                                        .n = rows,
                                        .border = border,
                                        .parts = 1,
                                        .add_parts = true,
                                        .y = y,
                                        .ldy = OUTS});
        double took = now() - start;
        best = took < best ? took : best;
    }
    printf("%-9s %-11s %4u rows  %7.2f GB/s  %7.1f GFLOP/s\n", k->name, dtype_name(t), rows,
           (double)(bytes + scale_bytes) / best / 1e9, 2.0 * rows * OUTS * COLS / best / 1e9);
    fflush(stdout);
    free(data);
    free(scales);
    free(x);
    free(y);
}

int main(int argc, char **argv)
{
    static const char *const isas[] = {"portable", "avx2", "avx512"};
    static const enum dtype types[] = {DT_F32, DT_F16, DT_BF16, DT_Q8_0, DT_MXFP4, DT_MXFP4_GGML};
    static const uint32_t rows[] = {1, 4, 64};
    double seconds = (argc > 1 ? atof(argv[1]) : 20) / 1e3;
    for (int i = 0; i < 3; i++) {
        const struct kernels *k = kernels_get(isas[i], NULL);
        if (!k) {
            printf("%-9s not on this machine\n", isas[i]);
            continue;
        }
        for (int t = 0; t < 6; t++)
            for (int r = 0; r < 3; r++)
                measure(k, types[t], rows[r], seconds);
    }
    return 0;
}
