/* sample.c - temperature, then top_k, top_p and min_p on what it leaves, then one draw. The order
 * is vLLM's. Nothing here depends on the host: exp is our own, sums have a fixed order, and the
 * random number is a function of seed and index alone. */
#include "engine/sample.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define LOGPROB_MIN (-9999.0)

struct row { /* logits of one position, as far as they count */
    const float *logits;
    const uint64_t *allowed;
    uint32_t vocab;
    uint32_t best; /* the lowest id with the greatest logit */
    float max;
};

static bool counts(const struct row *r, uint32_t id)
{
    if (r->allowed && !(r->allowed[id / 64] >> (id % 64) & 1)) return false;
    return isfinite(r->logits[id]);
}

/* False: no logit counts; then best is the lowest allowed id, or 0. */
static bool find_best(struct row *r)
{
    bool found = false;
    for (uint32_t i = 0; i < r->vocab; i++) {
        if (!counts(r, i) || (found && r->logits[i] <= r->max)) continue;
        r->best = i;
        r->max = r->logits[i];
        found = true;
    }
    for (uint32_t i = 0; !found && r->allowed && i < r->vocab; i++) {
        if (!(r->allowed[i / 64] >> (i % 64) & 1)) continue;
        r->best = i;
        break;
    }
    return found;
}

/* e^x for x <= 0, to 1e-11 relative: x = k ln 2 + f, |f| <= ln 2 / 2, Taylor to f^9; 0 below
 * 1e-299. libm's result may differ between versions and processors; this one may not. */
static double exp_neg(double x)
{
    static const double ln2_hi = 6.93147180369123816490e-01, ln2_lo = 1.90821492927058770002e-10;
    static const double round = 0x1.8p52; /* adding it leaves the nearest integer in the low bits */
    if (!(x > -690)) return 0;
    double shifted = x * 1.44269504088896340736 + round;
    double k = shifted - round;
    double f = x - k * ln2_hi - k * ln2_lo;
    double y = 1. / 362880;
    y = 1. / 40320 + y * f;
    y = 1. / 5040 + y * f;
    y = 1. / 720 + y * f;
    y = 1. / 120 + y * f;
    y = 1. / 24 + y * f;
    y = 1. / 6 + y * f;
    y = 1. / 2 + y * f;
    y = 1 + y * f;
    y = 1 + y * f;
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 1023) << 52;
    double scale;
    memcpy(&scale, &bits, sizeof scale);
    return y * scale;
}

/* splitmix64's finaliser. */
static uint64_t scramble(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

/* [0, 1), a function of seed and index. */
static double draw(uint64_t seed, uint64_t index)
{
    uint64_t x = scramble(scramble(seed + 0x9e3779b97f4a7c15) + (index + 1) * 0x9e3779b97f4a7c15);
    return (double)(x >> 11) * 0x1p-53;
}

/* Candidates during selection: `logprob` holds the weight exp((logit - max) / temperature). */
static bool heavier(const struct sample_top *x, const struct sample_top *y)
{
    return x->logprob > y->logprob || (x->logprob == y->logprob && x->token < y->token);
}

static void sift_down(struct sample_top *heap, uint32_t n, uint32_t i)
{
    struct sample_top moved = heap[i];
    for (uint32_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && heavier(&heap[child + 1], &heap[child])) child++;
        if (!heavier(&heap[child], &moved)) break;
        heap[i] = heap[child];
    }
    heap[i] = moved;
}

/* Moves the heaviest candidate to heap[n - 1]; the rest is a heap of n - 1. */
static const struct sample_top *pop(struct sample_top *heap, uint32_t n)
{
    struct sample_top top = heap[0];
    heap[0] = heap[n - 1];
    heap[n - 1] = top;
    sift_down(heap, n - 1, 0);
    return &heap[n - 1];
}

/* All ids with their weights, in order of ids; returns how many. Adds up the weights. */
static uint32_t weigh(const struct row *r, double temperature, struct sample_top *out, double *sum)
{
    uint32_t n = 0;
    *sum = 0;
    for (uint32_t i = 0; i < r->vocab; i++) {
        if (!counts(r, i)) continue;
        float w = (float)exp_neg(((double)r->logits[i] - (double)r->max) / temperature);
        if (!(w > 0)) continue;
        out[n++] = (struct sample_top){i, w};
        *sum += (double)w;
    }
    return n;
}

/* One of n candidates, `step` apart, by weight. */
static uint32_t pick(const struct sample_top *c, uint32_t n, int step, double u)
{
    double sum = 0, seen = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += (double)c[step * (int)i].logprob;
    uint32_t i = 0;
    while (i + 1 < n && (seen += (double)c[step * (int)i].logprob) <= u * sum)
        i++;
    return c[step * (int)i].token;
}

/* Keeps the candidates of at least that weight. */
static uint32_t drop_light(struct sample_top *c, uint32_t n, double limit)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++)
        if ((double)c[i].logprob >= limit) c[kept++] = c[i];
    return kept;
}

/* top_k and top_p: the heaviest, until either is reached, go to c[n - kept .. n), lightest first.
 * Returns how many; `sum` is that of all weights. */
static uint32_t nucleus(struct sample_top *c, uint32_t n, const struct sample_params *p, double sum)
{
    uint32_t k = p->top_k && p->top_k < n ? p->top_k : n, popped = 0;
    for (uint32_t i = n / 2; i-- > 0;)
        sift_down(c, n, i);
    if (k < n) { /* top_p is a share of what top_k leaves */
        for (sum = 0; popped < k; popped++)
            sum += (double)pop(c, n - popped)->logprob;
    }
    if (p->top_p >= 1) return k;
    double seen = 0;
    uint32_t kept = 0;
    while (kept < k && seen < (double)p->top_p * sum) {
        if (kept == popped) pop(c, n - popped++);
        seen += (double)c[n - 1 - kept++].logprob;
    }
    return kept;
}

static uint32_t choose(const struct row *r, const struct sample_params *p, uint64_t index,
                       struct sample_top *c)
{
    double sum, u = draw(p->seed, index);
    uint32_t n = weigh(r, (double)p->temperature, c, &sum);
    if (p->top_p >= 1 && (!p->top_k || p->top_k >= n))
        return pick(c, drop_light(c, n, (double)p->min_p), 1, u);
    /* All that top_p cannot reach, so that the heap stays small: together they weigh less than
     * 1 - top_p. Half of that, so that no rounding cuts into what it wants. */
    if (!p->top_k) n = drop_light(c, n, (1 - (double)p->top_p) * sum / (double)n / 2);
    uint32_t kept = nucleus(c, n, p, sum);
    while (kept > 1 && c[n - kept].logprob < p->min_p) /* the heaviest weighs 1 */
        kept--;
    return pick(c + n - 1, kept, -1, u);
}

static void insert_top(struct sampled *out, uint32_t max, uint32_t token, float logit)
{
    uint32_t i = out->n_top;
    if (i == max && logit <= out->top[i - 1].logprob) return;
    if (i == max)
        i--;
    else
        out->n_top++;
    for (; i && out->top[i - 1].logprob < logit; i--)
        out->top[i] = out->top[i - 1];
    out->top[i] = (struct sample_top){token, logit};
}

static float clamp_logprob(double v)
{
    return (float)(v > LOGPROB_MIN ? v < 0 ? v : 0 : LOGPROB_MIN);
}

static void add_logprobs(const struct row *r, int alternatives, struct sampled *out)
{
    double sum = 0;
    uint32_t max = alternatives < SAMPLE_MAX_TOP ? (uint32_t)alternatives : SAMPLE_MAX_TOP;
    for (uint32_t i = 0; i < r->vocab; i++) {
        if (!counts(r, i)) continue;
        sum += exp_neg((double)r->logits[i] - (double)r->max);
        if (max) insert_top(out, max, i, r->logits[i]);
    }
    assert(sum > 0); /* the largest adds 1 */
    double norm = (double)r->max + log(sum);
    out->logprob = clamp_logprob((double)r->logits[out->token] - norm);
    for (uint32_t i = 0; i < out->n_top; i++)
        out->top[i].logprob = clamp_logprob((double)out->top[i].logprob - norm);
}

void sample_row(const float *logits, uint32_t vocab, const uint64_t *allowed,
                const struct sample_params *p, uint64_t index, struct sample_top *scratch,
                struct sampled *out)
{
    struct row r = {.logits = logits, .allowed = allowed, .vocab = vocab};
    bool any = find_best(&r);
    out->token = r.best;
    out->logprob = 0;
    out->n_top = 0;
    if (any && p->temperature > 0 && p->top_p > 0 && p->top_k != 1)
        out->token = choose(&r, p, index, scratch);
    if (any && p->logprobs >= 0) add_logprobs(&r, p->logprobs, out);
}
