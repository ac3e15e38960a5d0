/* lower.c - writes the program of a step, op by op. */
#include "engine/lower.h"

#include "device/cost.h"

#include <string.h>

#define LINK_VALUE_BYTES 2 /* activations travel in BF16 */

/* Keys that `rows` rows from position `start` on see, summed, in a window (or UINT32_MAX). Row p
 * sees p + 1 keys, at most the window. */
static uint64_t keys_seen(uint64_t start, uint64_t rows, uint64_t window)
{
    uint64_t end = start + rows; /* row p < window - 1 sees fewer than the window */
    uint64_t ramp_end = end < window ? end : window > start ? window : start;
    uint64_t ramp = ramp_end - start; /* rows that see start + 1, start + 2, ... keys */
    return ramp * start + ramp * (ramp + 1) / 2 + (rows - ramp) * window;
}

/* Keys that they see together: the first row's window begins furthest back. */
static uint64_t keys_distinct(uint64_t start, uint64_t rows, uint64_t window)
{
    uint64_t before = start < window - 1 ? start : window - 1;
    return before + rows;
}

/* Data-parallel groups that are counted in one pass over the sequences: a bound on the stack. */
#define GROUPS_A_PASS 64

/* The figures of one data-parallel group. */
struct group_counts {
    uint32_t rows, logit_rows;
    uint64_t full_kv, slide_kv, full_kv_seq, slide_kv_seq;
};

static void count_seq(const struct batch_seq *q, uint32_t window, struct group_counts *g)
{
    g->rows += q->rows;
    g->logit_rows += q->wants_logits;
    g->full_kv += keys_seen(q->start, q->rows, UINT32_MAX);
    g->full_kv_seq += (uint64_t)q->start + q->rows;
    g->slide_kv += keys_seen(q->start, q->rows, window);
    g->slide_kv_seq += keys_distinct(q->start, q->rows, window);
}

static void keep_largest(const struct group_counts *g, struct step_counts *out)
{
    if (g->rows > out->dp_rows) out->dp_rows = g->rows;
    if (g->logit_rows > out->dp_logit_rows) out->dp_logit_rows = g->logit_rows;
    if (g->full_kv > out->full_kv) out->full_kv = g->full_kv;
    if (g->slide_kv > out->slide_kv) out->slide_kv = g->slide_kv;
    if (g->full_kv_seq > out->full_kv_seq) out->full_kv_seq = g->full_kv_seq;
    if (g->slide_kv_seq > out->slide_kv_seq) out->slide_kv_seq = g->slide_kv_seq;
}

static bool is_of(const struct batch_seq *q, uint32_t replica)
{
    return replica == LOWER_ALL_REPLICAS || q->replica == replica;
}

void lower_count(const struct batch *b, uint32_t replica, const struct plan *p, uint32_t window,
                 struct step_counts *out)
{
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < b->n_seqs; i++) {
        const struct batch_seq *q = &b->seqs[i];
        if (!is_of(q, replica)) continue;
        out->seqs++;
        out->rows += q->rows;
        out->prefill_rows += q->rows > 1 ? q->rows : 0;
        out->logit_rows += q->wants_logits;
    }
    for (uint32_t first = 0; first < p->attn_dp; first += GROUPS_A_PASS) {
        struct group_counts g[GROUPS_A_PASS] = {{0}};
        for (uint32_t i = 0; i < b->n_seqs; i++) {
            const struct batch_seq *q = &b->seqs[i];
            if (is_of(q, replica) && q->dp >= first && q->dp - first < GROUPS_A_PASS)
                count_seq(q, window, &g[q->dp - first]);
        }
        for (uint32_t i = 0; i < GROUPS_A_PASS; i++)
            keep_largest(&g[i], out);
    }
}

/* What stays the same through lower_step(). */
struct lowering {
    struct program *p;
    const struct step_counts *c;
    double experts;  /* distinct ones on the busiest chip */
    uint32_t routed; /* rows routed to it */
    uint16_t layer, repeat;
};

/* Expected load of the busiest expert place. At least one expert if there is a row at all: the step
 * waits for the places that were hit, not for the mean. */
static void expect_experts(struct lowering *l, double zipf_s)
{
    const struct model_shape *s = &l->p->shape;
    uint32_t rows = l->c->rows, a = s->experts_per_token;
    if (rows == 0) return;
    double distinct = cost_distinct_experts(s->experts, a, zipf_s, rows);
    double most = l->p->plan.ep < s->experts ? (double)s->experts / l->p->plan.ep : 1;
    double here = distinct * most / s->experts;
    if (here < 1) here = 1;
    l->experts = here < distinct ? here : distinct;
    double routed = (double)rows * a * l->experts / distinct;
    l->routed = (uint32_t)(routed + 0.999999);
    if (l->routed > rows * a) l->routed = rows * a;
}

static uint32_t op_rows(const struct lowering *l, enum op_kind k)
{
    switch (k) {
    case OP_EXPERTS_UP:
    case OP_EXPERTS_DOWN:
        return l->routed;
    case OP_ALL_GATHER:
    case OP_ROUTE:
    case OP_COMBINE:
        return l->c->rows;
    case OP_HEAD_NORM:
    case OP_LOGITS:
    case OP_GATHER_LOGITS:
        return l->c->logit_rows;
    default:
        return l->c->dp_rows;
    }
}

/* What one chip of a ring of g sends: of a gather (g - 1) / g of the result, of a reduction, which
 * is a scatter of sums and a gather, twice that. */
static uint64_t ring_bytes(const struct prog_op *op)
{
    uint64_t total = (uint64_t)op->rows * op->n * LINK_VALUE_BYTES;
    bool reduces = op->kind == OP_ALL_REDUCE || op->kind == OP_COMBINE;
    return op->group ? total * (reduces ? 2 : 1) * (op->group - 1) / op->group : 0;
}

static void add(struct lowering *l, enum op_kind kind, enum prog_buf in, enum prog_buf out)
{
    const struct program *p = l->p;
    struct prog_size size = prog_op_size(p, kind);
    struct prog_group group = prog_op_group(&p->plan, kind);
    struct prog_op op = {.kind = kind,
                         .layer = l->layer,
                         .repeat = l->repeat,
                         .sliding = p->shape.sliding[l->layer],
                         .in = in,
                         .out = out,
                         .rows = op_rows(l, kind),
                         .n = size.n,
                         .k = size.k,
                         .group = group.chips,
                         .stride = group.stride};
    op.link_bytes = ring_bytes(&op);
    if (kind == OP_ATTENTION) {
        op.kv_tokens = op.sliding ? l->c->slide_kv : l->c->full_kv;
        op.kv_seq_tokens = op.sliding ? l->c->slide_kv_seq : l->c->full_kv_seq;
    }
    if (kind == OP_EXPERTS_UP || kind == OP_EXPERTS_DOWN) op.experts = l->experts;
    l->p->ops[l->p->n_ops++] = op;
}

static void add_layer(struct lowering *l, uint32_t layer, uint32_t repeat)
{
    l->layer = (uint16_t)layer;
    l->repeat = (uint16_t)repeat;
    add(l, OP_NORM, BUF_X, BUF_NORM);
    add(l, OP_QKV, BUF_NORM, BUF_Q);
    add(l, OP_ROPE_KV, BUF_Q, BUF_Q);
    add(l, OP_ATTENTION, BUF_Q, BUF_ATT);
    add(l, OP_O_PROJ, BUF_ATT, BUF_OPART);
    add(l, OP_ALL_REDUCE, BUF_OPART, BUF_X);
    add(l, OP_NORM, BUF_X, BUF_NORM2);
    add(l, OP_ALL_GATHER, BUF_NORM2, BUF_MOE_IN);
    add(l, OP_ROUTE, BUF_MOE_IN, BUF_ROUTE);
    add(l, OP_EXPERTS_UP, BUF_MOE_IN, BUF_ACT);
    add(l, OP_EXPERTS_DOWN, BUF_ACT, BUF_EXP);
    add(l, OP_COMBINE, BUF_EXP, BUF_X);
}

static void add_folded(struct lowering *l)
{
    const struct model_shape *s = &l->p->shape;
    uint32_t full = shape_full_layers(s), of[2] = {full, s->layers - full};
    bool done[2] = {false, false};
    for (uint32_t i = 0; i < s->layers; i++) {
        if (done[s->sliding[i]]) continue;
        done[s->sliding[i]] = true;
        add_layer(l, i, of[s->sliding[i]]);
    }
}

void lower_step(const struct model_shape *s, const struct plan *p, const struct step_counts *c,
                const struct lower_options *o, struct program *out)
{
    out->shape = *s;
    out->plan = *p;
    out->rows = c->rows;
    out->logit_rows = c->logit_rows;
    out->seqs = c->seqs;
    out->prefill_rows = c->prefill_rows;
    out->n_ops = 0;
    struct lowering l = {.p = out, .c = c, .repeat = 1};
    expect_experts(&l, o->router_zipf_s);

    add(&l, OP_EMBED, BUF_NONE, BUF_X);
    if (o->fold) {
        add_folded(&l);
    } else {
        for (uint32_t i = 0; i < s->layers; i++)
            add_layer(&l, i, 1);
    }
    l.layer = (uint16_t)(s->layers - 1);
    l.repeat = 1;
    add(&l, OP_HEAD_NORM, BUF_X, BUF_HEAD_IN);
    add(&l, OP_LOGITS, BUF_HEAD_IN, BUF_LOGIT_PART);
    add(&l, OP_GATHER_LOGITS, BUF_LOGIT_PART, BUF_LOGITS);
}
