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

double hist_quantile(const struct hist *h, double q)
{
    if (!h->total || !h->n) return 0;
    double want = q * (double)h->total, seen = 0;
    for (uint32_t i = 0; i < h->n; i++) {
        double here = (double)h->counts[i];
        if (here > 0 && seen + here >= want) {
            double low = i ? h->bounds[i - 1] : 0;
            return low + (h->bounds[i] - low) * ((want - seen) / here);
        }
        seen += here;
    }
    return h->bounds[h->n - 1];
}
