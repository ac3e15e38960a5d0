/* hist.c - fixed-bucket histogram. */
#include "base/hist.h"

#include <assert.h>
#include <string.h>

void hist_init(struct hist *h, const double *bounds, uint32_t n)
{
    assert(n <= HIST_MAX_BUCKETS);
    memset(h, 0, sizeof *h);
    h->bounds = bounds;
    h->n = n;
}

void hist_add(struct hist *h, double value)
{
    uint32_t i = 0;
    while (i < h->n && value > h->bounds[i])
        i++;
    h->counts[i]++;
    h->total++;
    h->sum += value;
}
