/* Dense arithmetic of the nano trainer: one thread, fp32, one fixed order of summation. */
#ifndef NANO_MATRIX_H
#define NANO_MATRIX_H
#include <stdbool.h>
#include <stddef.h>

/* c[m][n] (+)= sum over k of a(m, k) * b[k][n]; a has two strides so it may be read transposed.
   n must be a multiple of 16. */
struct gemm {
    int m, n, k;
    const float *a;
    long a_row, a_col;
    const float *b;
    long b_row;
    float *c;
    long c_row;
    bool add;
};
void gemm(const struct gemm *g);

/* y[rows][out] = x[rows][in] w[out][in]^T + bias (bias may be NULL). */
void linear(const float *x, int rows, int in, int out, const float *w, const float *bias, float *y);

/* What linear's weights and bias get from dy, and dx = dy w. */
struct linear_back {
    const float *x, *dy;
    int rows, in, out;
    const float *w;
    float *dw, *dbias, *dx; /* dw and dbias are added to; dbias may be NULL */
};
void linear_backward(const struct linear_back *p);

void rms_forward(const float *x, const float *w, int rows, int width, float *y, float *inverse);
struct rms_back {
    const float *x, *w, *inverse, *dy;
    int rows, width;
    float *dx, *dw; /* both are added to */
};
void rms_backward(const struct rms_back *p);

/* Rounds every block of 32 weights to MXFP4: 4-bit e2m1 values with a shared power of two. */
void mxfp4_round(const float *w, float *rounded, long n);

float dot(const float *a, const float *b, int n); /* n: a multiple of 16 */

/* exp without libm, so that every machine gets the same bits and the compiler can vectorise it. */
static inline float fast_exp(float x)
{
    x = x < -87.0f ? -87.0f : x > 87.0f ? 87.0f : x;
    float n = __builtin_rintf(x * 1.44269504f);
    float z = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * z + 1.3981999507e-3f;
    p = p * z + 8.3334519073e-3f;
    p = p * z + 4.1665795894e-2f;
    p = p * z + 1.6666665459e-1f;
    p = p * z + 5.0000001201e-1f;
    p = p * z * z + z + 1.0f;
    union {
        int i;
        float f;
    } scale = {.i = ((int)n + 127) << 23};
    return p * scale.f;
}

#endif
