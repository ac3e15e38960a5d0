/* quant.h - quantiles of durations without keeping them: counts in buckets whose width is 1/32 of
 * an octave, so a quantile is right within 2.2 %, from 1 us to 19 h; longer ones count as that.
 * Plain data: copy it to publish it. */
#ifndef BASE_QUANT_H
#define BASE_QUANT_H

#include <stdint.h>

#define QUANT_OCTAVES 36
#define QUANT_STEPS   32

struct quant {
    uint64_t total;
    double sum, min, max; /* seconds */
    uint32_t counts[QUANT_OCTAVES * QUANT_STEPS];
};

void quant_add(struct quant *q, double seconds);

/* The value below which a share p (0..1) of the samples lie; 0 without samples. */
double quant_at(const struct quant *q, double p);

#endif
