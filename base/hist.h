/* hist.h - a histogram over fixed upper bounds, the form Prometheus scrapes.
 * Plain data: copy it to publish it. */
#ifndef BASE_HIST_H
#define BASE_HIST_H

#include <stdint.h>

#define HIST_MAX_BUCKETS 40

struct hist {
    const double *bounds; /* ascending upper bounds, borrowed, must outlive the histogram */
    uint32_t n;           /* of bounds, at most HIST_MAX_BUCKETS */
    uint64_t counts[HIST_MAX_BUCKETS + 1]; /* the last one: above every bound */
    uint64_t total;
    double sum;
};

void hist_init(struct hist *h, const double *bounds, uint32_t n);
void hist_add(struct hist *h, double value);

#endif
