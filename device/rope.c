/* rope.c - frequencies and angles of RoPE with YaRN: gpt-oss spec 2.4. */
#include "device/exec.h"

#include <math.h>

/* The dimension whose wave turns n times in the original context. */
static double turning_dim(const struct model_shape *s, double n)
{
    return s->head_dim / 2.0 * log(s->rope_original / (n * 2 * M_PI)) / log(s->rope_theta);
}

float exec_rope_table(const struct model_shape *s, float *inv)
{
    uint32_t half = s->head_dim / 2;
    bool yarn = s->rope_factor > 1;
    double low = turning_dim(s, s->rope_beta_fast), high = turning_dim(s, s->rope_beta_slow);
    if (s->rope_truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = low < 0 ? 0 : low;
    high = high > s->head_dim - 1 ? s->head_dim - 1 : high;
    if (low == high) high += 0.001;
    for (uint32_t i = 0; i < half; i++) {
        double f = pow(s->rope_theta, 2.0 * i / s->head_dim), ramp = (i - low) / (high - low);
        ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
        if (!yarn) ramp = 0;
        inv[i] = (float)(ramp / (s->rope_factor * f) + (1 - ramp) / f);
    }
    return yarn ? (float)(0.1 * log(s->rope_factor) + 1) : 1;
}

/* The references form the angle in f32. */
void exec_rope_rows(struct machine *m, const struct batch *b)
{
    uint32_t half = m->shape->head_dim / 2;
    for (uint32_t r = 0; r < b->n_rows; r++)
        for (uint32_t i = 0; i < half; i++) {
            float angle = (float)b->rows[r].pos * m->rope_inv[i];
            m->rope_cos[(size_t)r * half + i] = m->rope_scale * cosf(angle);
            m->rope_sin[(size_t)r * half + i] = m->rope_scale * sinf(angle);
        }
}
