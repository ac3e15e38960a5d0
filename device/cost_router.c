/* cost_router.c - how many distinct experts a batch hits. */
#include "device/cost.h"

#include <math.h>

/* Experts of nearly equal weight are counted together: the first 16 alone, then runs of an eighth
 * of their rank, which makes 35 runs of 128 experts and 64 of 4,096. */
#define MAX_RUNS 96

struct router {
    uint32_t runs;
    double weight[MAX_RUNS], experts[MAX_RUNS];
};

static void make_runs(struct router *r, uint32_t e, double s)
{
    r->runs = 0;
    for (uint32_t i = 1; i <= e && r->runs < MAX_RUNS;) {
        uint32_t n = i < 16 ? 1 : i / 8;
        if (n > e - i + 1 || r->runs == MAX_RUNS - 1) n = e - i + 1;
        r->weight[r->runs] = pow(i + (n - 1) / 2.0, -s);
        r->experts[r->runs++] = n;
        i += n;
    }
}

/* Expected distinct experts of x draws with replacement, and the derivative by x. */
static double hit(const struct router *r, double x, double *slope)
{
    double sum = 0, d = 0;
    for (uint32_t i = 0; i < r->runs; i++) {
        double missed = exp(-x * r->weight[i]);
        sum += r->experts[i] * (1 - missed);
        d += r->experts[i] * r->weight[i] * missed;
    }
    *slope = d;
    return sum;
}

double cost_distinct_experts(uint32_t e, uint32_t a, double s, double rows)
{
    struct router r;
    double slope, t = 0;
    if (a >= e) return rows < 1 ? e * rows : e;
    make_runs(&r, e, s);
    /* hit() is concave: Newton's steps from 0 come from below and never pass the root */
    for (int i = 0; i < 64; i++) {
        double missing = a - hit(&r, t, &slope);
        if (missing < 1e-9 * a || slope <= 0) break;
        t += missing / slope;
    }
    return hit(&r, t * rows, &slope);
}
