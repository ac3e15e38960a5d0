/* quant.c - log-linear buckets. */
#include "base/quant.h"

#include <math.h>

#define UNIT_S 1e-6 /* values up to this are in the first bucket */

/* Bucket of v units: octave by the exponent, step by the mantissa. */
static uint32_t bucket(double v)
{
    int exponent;
    double mantissa = frexp(v, &exponent); /* v = mantissa * 2^exponent, mantissa in [0.5, 1) */
    if (exponent < 1) return 0;
    if (exponent > QUANT_OCTAVES) return QUANT_OCTAVES * QUANT_STEPS - 1;
    return (uint32_t)(exponent - 1) * QUANT_STEPS + (uint32_t)((mantissa * 2 - 1) * QUANT_STEPS);
}

/* Lower edge of bucket i, in units. */
static double edge(uint32_t i)
{
    return ldexp(1 + (double)(i % QUANT_STEPS) / QUANT_STEPS, (int)(i / QUANT_STEPS));
}

void quant_add(struct quant *q, double seconds)
{
    if (!(seconds >= 0)) return;
    q->counts[bucket(seconds / UNIT_S)]++;
    q->total++;
    q->sum += seconds;
    if (seconds > q->max) q->max = seconds;
    if (seconds < q->min || q->total == 1) q->min = seconds;
}

double quant_at(const struct quant *q, double p)
{
    double want = p * (double)q->total, seen = 0;
    for (uint32_t i = 0; i < QUANT_OCTAVES * QUANT_STEPS; i++) {
        double here = q->counts[i];
        if (here > 0 && seen + here >= want) {
            double low = edge(i), at = low + (edge(i + 1) - low) * ((want - seen) / here);
            return fmax(fmin(at * UNIT_S, q->max), q->min);
        }
        seen += here;
    }
    return q->max;
}
