/* sched.c - the decisions that sched.h describes. */
#include "engine/sched.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct sched {
    struct sched_options o;
    struct kv *const *kv;
    struct sched_seq waiting; /* head of a ring, by priority, then order */
    uint32_t n_waiting, n_running;
    struct sched_seq **running; /* by the same order */
    uint32_t *group_seqs;       /* running sequences of each group */
    struct sched_item *items;
};

struct sched *sched_new(const struct sched_options *o, struct kv *const *kv)
{
    assert(o->chunk_tokens <= o->step_tokens && o->max_seqs <= o->step_tokens && o->groups);
    struct sched *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->o = *o;
    s->kv = kv;
    s->waiting.next = s->waiting.prev = &s->waiting;
    s->running = calloc(o->max_seqs, sizeof(struct sched_seq *));
    s->group_seqs = calloc(o->groups, sizeof *s->group_seqs);
    s->items = calloc(o->max_seqs, sizeof *s->items);
    if (s->running && s->group_seqs && s->items) return s;
    sched_free(s);
    return NULL;
}

void sched_free(struct sched *s)
{
    if (!s) return;
    free(s->running);
    free(s->group_seqs);
    free(s->items);
    free(s);
}

/* Whether x is served before y. */
static bool before(const struct sched_seq *x, const struct sched_seq *y)
{
    if (x->priority != y->priority) return x->priority < y->priority;
    return x->order < y->order;
}

static void enqueue(struct sched *s, struct sched_seq *seq)
{
    struct sched_seq *at = s->waiting.prev; /* from the end: most come in order */
    while (at != &s->waiting && before(seq, at))
        at = at->prev;
    seq->prev = at;
    seq->next = at->next;
    at->next->prev = seq;
    at->next = seq;
    s->n_waiting++;
}

static void dequeue(struct sched *s, struct sched_seq *seq)
{
    seq->prev->next = seq->next;
    seq->next->prev = seq->prev;
    seq->prev = seq->next = NULL;
    s->n_waiting--;
}

static void start(struct sched *s, struct sched_seq *seq)
{
    uint32_t i = s->n_running++;
    for (; i && before(seq, s->running[i - 1]); i--)
        s->running[i] = s->running[i - 1];
    s->running[i] = seq;
    seq->running = true;
    s->group_seqs[seq->dp]++;
}

/* Takes a running sequence out and its blocks back. */
static void stop(struct sched *s, struct sched_seq *seq)
{
    uint32_t i = 0;
    while (s->running[i] != seq)
        i++;
    memmove(s->running + i, s->running + i + 1, (--s->n_running - i) * sizeof(struct sched_seq *));
    kv_release(s->kv[seq->dp], &seq->kv);
    s->group_seqs[seq->dp]--;
    seq->running = false;
    seq->computed = 0;
}

void sched_add(struct sched *s, struct sched_seq *seq)
{
    if (s->o.prefix_cache)
        kv_hash_tokens(&seq->kv, seq->ids, seq->tokens, s->o.block_tokens, seq->salt);
    seq->computed = seq->reused = 0;
    seq->running = false;
    enqueue(s, seq);
}

void sched_remove(struct sched *s, struct sched_seq *seq)
{
    if (seq->running)
        stop(s, seq);
    else
        dequeue(s, seq);
}

/* The last of the group's running sequences in order of service. The group has one: the caller's.
 */
static struct sched_seq *last_of_group(const struct sched *s, uint32_t dp)
{
    uint32_t i = s->n_running;
    while (s->running[--i]->dp != dp)
        ;
    return s->running[i];
}

static void unplan(struct sched_step *step, const struct sched_seq *seq)
{
    for (uint32_t i = 0; i < step->n; i++) {
        if (step->items[i].seq != seq) continue;
        step->rows -= step->items[i].rows;
        memmove(step->items + i, step->items + i + 1, (--step->n - i) * sizeof *step->items);
        return;
    }
}

/* Room for the sequence's next tokens, at the price of those behind it. False: of itself. */
static bool make_room(struct sched *s, struct sched_seq *seq, uint32_t upto,
                      struct sched_step *step)
{
    while (!kv_grow(s->kv[seq->dp], &seq->kv, upto, upto)) {
        struct sched_seq *victim = last_of_group(s, seq->dp);
        unplan(step, victim);
        stop(s, victim);
        enqueue(s, victim);
        step->preempted++;
        if (victim == seq) return false;
    }
    return true;
}

static void plan_item(struct sched_step *step, struct sched_seq *seq, uint32_t rows, bool admitted)
{
    step->items[step->n++] = (struct sched_item){.seq = seq,
                                                 .start = seq->computed,
                                                 .rows = rows,
                                                 .last = seq->computed + rows == seq->tokens,
                                                 .admitted = admitted};
    step->rows += rows;
}

static uint32_t chunk(const struct sched *s, const struct sched_seq *seq, uint32_t rows)
{
    uint32_t n = seq->tokens - seq->computed, left = s->o.step_tokens - rows;
    if (n > s->o.chunk_tokens) n = s->o.chunk_tokens;
    return n < left ? n : left;
}

/* Running sequences: those that decode, or those that are further behind. */
static void plan_running(struct sched *s, struct sched_step *step, bool decode)
{
    for (uint32_t i = 0; i < s->n_running;) {
        struct sched_seq *seq = s->running[i];
        uint32_t behind = seq->tokens - seq->computed;
        uint32_t rows =
            seq->held || !behind || (behind == 1) != decode ? 0 : chunk(s, seq, step->rows);
        if (rows && !make_room(s, seq, seq->computed + rows, step))
            continue; /* i is the next one */
        if (rows) plan_item(step, seq, rows, false);
        i++;
    }
}

/* Lends the blocks that a waiting sequence needs to get through its known tokens, if one more for
 * each that runs beside it remains: else the newcomer would be thrown out at once. */
static bool try_group(struct sched *s, struct sched_seq *seq, uint32_t dp, uint32_t match,
                      uint32_t budget)
{
    struct kv *kv = s->kv[dp];
    kv_attach(kv, &seq->kv, match);
    seq->computed = match * s->o.block_tokens;
    uint32_t first = seq->computed + chunk(s, seq, budget);
    if (kv_grow(kv, &seq->kv, seq->tokens, first) && kv_room(kv) >= s->group_seqs[dp]) {
        seq->dp = dp;
        seq->reused = seq->computed;
        return true;
    }
    kv_release(kv, &seq->kv);
    seq->computed = 0;
    return false;
}

/* First the group that has most of its tokens, then the emptiest. */
static bool place_seq(struct sched *s, struct sched_seq *seq, uint32_t budget)
{
    uint32_t reuse = 0, best = 0, empty = 0;
    for (uint32_t g = 0; g < s->o.groups; g++) {
        /* At least one token is computed: its logits are what is wanted. */
        uint32_t n = kv_match(s->kv[g], &seq->kv, (seq->tokens - 1) / s->o.block_tokens);
        if (n > best) {
            best = n;
            reuse = g;
        }
        if (kv_full(s->kv[g]).used < kv_full(s->kv[empty]).used) empty = g;
    }
    if (best && try_group(s, seq, reuse, best, budget)) return true;
    if (best && reuse == empty) return false;
    return try_group(s, seq, empty,
                     kv_match(s->kv[empty], &seq->kv, (seq->tokens - 1) / s->o.block_tokens),
                     budget);
}

static void plan_waiting(struct sched *s, struct sched_step *step)
{
    struct sched_seq *next;
    for (struct sched_seq *seq = s->waiting.next; seq != &s->waiting; seq = next) {
        next = seq->next;
        if (s->n_running == s->o.max_seqs || step->rows == s->o.step_tokens) return;
        if (seq->held) continue;
        if (!place_seq(s, seq, step->rows)) return;
        dequeue(s, seq);
        start(s, seq);
        plan_item(step, seq, chunk(s, seq, step->rows), true);
    }
}

void sched_plan(struct sched *s, struct sched_step *out)
{
    *out = (struct sched_step){.items = s->items};
    plan_running(s, out, true);
    plan_running(s, out, false);
    if (!out->preempted) plan_waiting(s, out);
}

void sched_commit(struct sched *s, const struct sched_item *item)
{
    struct sched_seq *seq = item->seq;
    seq->computed += item->rows;
    kv_commit(s->kv[seq->dp], &seq->kv, seq->computed);
}

void sched_token(struct sched *s, struct sched_seq *seq)
{
    seq->tokens++;
    if (s->o.prefix_cache)
        kv_hash_tokens(&seq->kv, seq->ids, seq->tokens, s->o.block_tokens, seq->salt);
}

uint32_t sched_running(const struct sched *s)
{
    return s->n_running;
}

uint32_t sched_waiting(const struct sched *s)
{
    return s->n_waiting;
}
