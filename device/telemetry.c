/* telemetry.c - the counters of each chip. */
#include "device/telemetry.h"

#include <assert.h>
#include <stdlib.h>

struct telemetry {
    uint32_t chips; /* of the machine */
    struct plan plan;
    uint32_t *next; /* [replicas] chip of the replica that the next token is counted on */
    struct chip_counters *chip;
};

struct telemetry *telemetry_new(const struct machine_spec *m, const struct plan *p,
                                const struct model_shape *timed)
{
    struct telemetry *t = calloc(1, sizeof *t);
    if (!t) return NULL;
    t->chips = m->chips;
    t->plan = *p;
    t->next = calloc(p->replicas, sizeof *t->next);
    t->chip = calloc(m->chips, sizeof *t->chip);
    if (!t->next || !t->chip) goto fail;
    for (uint32_t c = 0; c < m->chips; c++) {
        bool used = c < p->replicas * p->chips;
        t->chip[c].state = used ? CHIP_IDLE : CHIP_UNUSED;
        if (used) t->chip[c].hbm_weight_bytes = plan_weight_bytes(p, timed, m, c % p->chips);
    }
    return t;
fail:
    telemetry_free(t);
    return NULL;
}

void telemetry_free(struct telemetry *t)
{
    if (!t) return;
    free(t->next);
    free(t->chip);
    free(t);
}

static struct chip_counters *replica_chips(struct telemetry *t, uint32_t r)
{
    return t->chip + (size_t)r * t->plan.chips;
}

static void charge(struct chip_counters *c, const struct cost *cost, double prefill_share)
{
    c->busy_ns += cost->total_ns;
    c->busy_prefill_ns += cost->total_ns * prefill_share;
    for (int b = 0; b < BOUNDS; b++)
        c->busy_by[b] += cost->ns[b];
    c->flops += cost->flops;
    c->hbm_read_bytes += cost->hbm_bytes;
    for (int l = 0; l < LINK_LEVELS; l++)
        c->link_bytes[l] += cost->link_bytes[l];
}

/* Items that chip c of n gets when `count` items go round from chip `from` on. */
static uint32_t share(uint32_t count, uint32_t n, uint32_t from, uint32_t c)
{
    uint32_t place = (c + n - from) % n;
    return count / n + (place < count % n);
}

void telemetry_step(struct telemetry *t, uint32_t r, const struct cost *c, uint32_t prompt_tokens,
                    uint32_t new_tokens, double prefill_share)
{
    struct chip_counters *chip = replica_chips(t, r);
    uint32_t n = t->plan.chips, from = t->next[r];
    assert(n > 0);
    for (uint32_t i = 0; i < n; i++) {
        charge(&chip[i], c, prefill_share);
        chip[i].tokens += share(new_tokens, n, from, i);
        chip[i].prompt_tokens += share(prompt_tokens, n, from, i);
    }
    t->next[r] = (uint32_t)(((uint64_t)from + new_tokens) % n);
}

void telemetry_kv(struct telemetry *t, uint32_t r, uint64_t kv_bytes_per_chip)
{
    for (uint32_t i = 0; i < t->plan.chips; i++)
        replica_chips(t, r)[i].hbm_kv_bytes = kv_bytes_per_chip;
}

void telemetry_state(struct telemetry *t, uint32_t r, enum chip_state s)
{
    for (uint32_t i = 0; i < t->plan.chips; i++)
        replica_chips(t, r)[i].state = s;
}

uint32_t telemetry_chips(const struct telemetry *t)
{
    return t->chips;
}

const struct chip_counters *telemetry_chip(const struct telemetry *t, uint32_t chip)
{
    return &t->chip[chip];
}
