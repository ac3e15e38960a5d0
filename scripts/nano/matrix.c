/* Dense arithmetic of the nano trainer. Multiplications and additions of a matrix product are fused
   everywhere (AVX-512 or fmaf), the rest nowhere, so the bits do not depend on the instruction set.
 */
#include "matrix.h"
#include <math.h>
#include <stdint.h>
#include <string.h>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

enum { LANES = 16, PANEL = 64, DEPTH = 512, TALL = 6, WIDEST = 1024 };

static float panel[DEPTH * PANEL] __attribute__((aligned(64)));
static float transposed[WIDEST * WIDEST] __attribute__((aligned(64)));

/* TALL or fewer rows of c times nv * 16 columns, with the sums in registers. */
#ifdef __AVX512F__
static inline __attribute__((always_inline)) void tile(const struct gemm *g, int rows, int nv)
{
    __m512 sum[TALL][4];
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            sum[i][j] =
                g->add ? _mm512_loadu_ps(g->c + i * g->c_row + j * LANES) : _mm512_setzero_ps();
    for (int k = 0; k < g->k; k++) {
        __m512 b[4];
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            b[j] = _mm512_load_ps(panel + (k * nv + j) * LANES);
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++) {
            __m512 a = _mm512_set1_ps(g->a[i * g->a_row + k * g->a_col]);
#pragma GCC unroll 4
            for (int j = 0; j < nv; j++)
                sum[i][j] = _mm512_fmadd_ps(a, b[j], sum[i][j]);
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            _mm512_storeu_ps(g->c + i * g->c_row + j * LANES, sum[i][j]);
}
#else
static inline __attribute__((always_inline)) void tile(const struct gemm *g, int rows, int nv)
{
    float sum[TALL][PANEL];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < nv * LANES; j++)
            sum[i][j] = g->add ? g->c[i * g->c_row + j] : 0.0f;
    for (int k = 0; k < g->k; k++)
        for (int i = 0; i < rows; i++) {
            float a = g->a[i * g->a_row + k * g->a_col];
            for (int j = 0; j < nv * LANES; j++)
                sum[i][j] = fmaf(a, panel[k * nv * LANES + j], sum[i][j]);
        }
    for (int i = 0; i < rows; i++)
        memcpy(g->c + i * g->c_row, sum[i], (size_t)nv * LANES * sizeof(float));
}
#endif

/* The same code compiled for each number of rows and vectors, so that the sums stay in registers.
 */
static inline __attribute__((always_inline)) void tiles(struct gemm g, int nv)
{
    for (; g.m >= TALL; g.m -= TALL) {
        tile(&g, TALL, nv);
        g.a += TALL * g.a_row;
        g.c += TALL * g.c_row;
    }
    switch (g.m) {
    case 5:
        tile(&g, 5, nv);
        break;
    case 4:
        tile(&g, 4, nv);
        break;
    case 3:
        tile(&g, 3, nv);
        break;
    case 2:
        tile(&g, 2, nv);
        break;
    case 1:
        tile(&g, 1, nv);
        break;
    default:
        break;
    }
}

static void tiles4(const struct gemm *g)
{
    tiles(*g, 4);
}
static void tiles3(const struct gemm *g)
{
    tiles(*g, 3);
}
static void tiles2(const struct gemm *g)
{
    tiles(*g, 2);
}
static void tiles1(const struct gemm *g)
{
    tiles(*g, 1);
}

void gemm(const struct gemm *g)
{
    static void (*const by_vectors[5])(const struct gemm *) = {0, tiles1, tiles2, tiles3, tiles4};
    if (g->k == 0 && !g->add)
        for (int i = 0; i < g->m; i++)
            memset(g->c + i * g->c_row, 0, (size_t)g->n * sizeof(float));
    for (int n = 0; n < g->n; n += PANEL) {
        int width = g->n - n < PANEL ? g->n - n : PANEL;
        for (int k = 0; k < g->k; k += DEPTH) {
            int depth = g->k - k < DEPTH ? g->k - k : DEPTH;
            for (int i = 0; i < depth; i++)
                memcpy(panel + i * width, g->b + (k + i) * g->b_row + n,
                       (size_t)width * sizeof(float));
            struct gemm part = *g;
            part.k = depth;
            part.a += k * g->a_col;
            part.c += n;
            part.add = g->add || k > 0;
            by_vectors[width / LANES](&part);
        }
    }
}

static void transpose(const float *a, int rows, int cols, float *out)
{
    for (int i = 0; i < rows; i += LANES)
        for (int j = 0; j < cols; j++)
            for (int k = i; k < i + LANES && k < rows; k++)
                out[j * rows + k] = a[k * cols + j];
}

void linear(const float *x, int rows, int in, int out, const float *w, const float *bias, float *y)
{
    transpose(w, out, in, transposed);
    gemm(&(struct gemm){.m = rows,
                        .n = out,
                        .k = in,
                        .a = x,
                        .a_row = in,
                        .a_col = 1,
                        .b = transposed,
                        .b_row = out,
                        .c = y,
                        .c_row = out});
    if (bias)
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < out; j++)
                y[(long)i * out + j] += bias[j];
}

void linear_backward(const struct linear_back *p)
{
    gemm(&(struct gemm){.m = p->rows,
                        .n = p->in,
                        .k = p->out,
                        .a = p->dy,
                        .a_row = p->out,
                        .a_col = 1,
                        .b = p->w,
                        .b_row = p->in,
                        .c = p->dx,
                        .c_row = p->in});
    gemm(&(struct gemm){.m = p->out,
                        .n = p->in,
                        .k = p->rows,
                        .a = p->dy,
                        .a_row = 1,
                        .a_col = p->out,
                        .b = p->x,
                        .b_row = p->in,
                        .c = p->dw,
                        .c_row = p->in,
                        .add = true});
    if (p->dbias)
        for (int i = 0; i < p->rows; i++)
            for (int j = 0; j < p->out; j++)
                p->dbias[j] += p->dy[(long)i * p->out + j];
}

static float sum_lanes(const float *s)
{
    float t = 0;
    for (int j = 0; j < LANES; j++)
        t += s[j];
    return t;
}

float dot(const float *a, const float *b, int n)
{
    float s[LANES] = {0};
    for (int i = 0; i < n; i += LANES)
        for (int j = 0; j < LANES; j++)
            s[j] += a[i + j] * b[i + j];
    return sum_lanes(s);
}

void rms_forward(const float *x, const float *w, int rows, int width, float *y, float *inverse)
{
    for (int n = 0; n < rows; n++, x += width, y += width) {
        float r = 1.0f / sqrtf(dot(x, x, width) / (float)width + 1e-5f);
        inverse[n] = r;
        for (int i = 0; i < width; i++)
            y[i] = x[i] * r * w[i];
    }
}

void rms_backward(const struct rms_back *p)
{
    for (int n = 0; n < p->rows; n++) {
        const float *x = p->x + (long)n * p->width, *dy = p->dy + (long)n * p->width;
        float *dx = p->dx + (long)n * p->width, r = p->inverse[n], s[LANES] = {0};
        for (int i = 0; i < p->width; i += LANES)
            for (int j = 0; j < LANES; j++)
                s[j] += x[i + j] * dy[i + j] * p->w[i + j];
        float pull = sum_lanes(s) * r * r * r / (float)p->width;
        for (int i = 0; i < p->width; i++) {
            p->dw[i] += dy[i] * x[i] * r;
            dx[i] += dy[i] * p->w[i] * r - x[i] * pull;
        }
    }
}

void mxfp4_round(const float *w, float *rounded, long n)
{
    for (long b = 0; b < n; b += 32) {
        float most = 0;
        for (int i = 0; i < 32; i++)
            most = fabsf(w[b + i]) > most ? fabsf(w[b + i]) : most;
        if (most < 1e-30f) {
            memset(rounded + b, 0, 32 * sizeof(float));
            continue;
        }
        int e;
        frexpf(most, &e);
        float scale = ldexpf(1.0f, e - 3);
        if (most / scale > 7.0f) /* 6 is the largest value; above 7 the next scale is nearer */
            scale *= 2.0f;
        float inverse = 1.0f / scale;
        for (int i = 0; i < 32; i++) {
            float x = w[b + i] * inverse, a = fabsf(x);
            float v = (float)(a >= .25f) * .5f + (float)(a >= .75f) * .5f +
                      (float)(a >= 1.25f) * .5f + (float)(a >= 1.75f) * .5f + (float)(a >= 2.5f) +
                      (float)(a >= 3.5f) + (float)(a >= 5.0f) * 2.0f;
            rounded[b + i] = (x < 0 ? -v : v) * scale;
        }
    }
}
