/* program_check.c - proves that a program is one that the chips can run. */
#include "device/program.h"

#include <inttypes.h>

#define COUNT(a) (uint32_t)(sizeof(a) / sizeof *(a))

/* The ops of a step, in order; those of layers are repeated for each layer. */
struct step {
    enum op_kind kind;
    enum prog_buf in, out;
};

static const struct step first_steps[] = {{OP_EMBED, BUF_NONE, BUF_X}};
static const struct step layer_steps[] = {
    {OP_NORM, BUF_X, BUF_NORM},          {OP_QKV, BUF_NORM, BUF_Q},
    {OP_ROPE_KV, BUF_Q, BUF_Q},          {OP_ATTENTION, BUF_Q, BUF_ATT},
    {OP_O_PROJ, BUF_ATT, BUF_OPART},     {OP_ALL_REDUCE, BUF_OPART, BUF_X},
    {OP_NORM, BUF_X, BUF_NORM2},         {OP_ALL_GATHER, BUF_NORM2, BUF_MOE_IN},
    {OP_ROUTE, BUF_MOE_IN, BUF_ROUTE},   {OP_EXPERTS_UP, BUF_MOE_IN, BUF_ACT},
    {OP_EXPERTS_DOWN, BUF_ACT, BUF_EXP}, {OP_COMBINE, BUF_EXP, BUF_X},
};
static const struct step last_steps[] = {
    {OP_HEAD_NORM, BUF_X, BUF_HEAD_IN},
    {OP_LOGITS, BUF_HEAD_IN, BUF_LOGIT_PART},
    {OP_GATHER_LOGITS, BUF_LOGIT_PART, BUF_LOGITS},
};

/* What else a kind reads. */
struct also {
    enum op_kind kind;
    enum prog_buf buf;
};
static const struct also also_reads[] = {
    {OP_ROPE_KV, BUF_K},        {OP_ROPE_KV, BUF_V},          {OP_ALL_REDUCE, BUF_X},
    {OP_EXPERTS_UP, BUF_ROUTE}, {OP_EXPERTS_DOWN, BUF_ROUTE}, {OP_COMBINE, BUF_ROUTE},
    {OP_COMBINE, BUF_X},
};
static const struct also also_writes[] = {{OP_QKV, BUF_K}, {OP_QKV, BUF_V}};

/* Which distribution a chip can make of which on its own, from what it has. All else takes a
 * collective: see moves[]. */
struct change {
    enum prog_dist from, to;
};
static const struct change local[] = {
    {DIST_ROWS, DIST_ROWS},   {DIST_ROWS, DIST_HEADS}, /* its heads' columns of its rows */
    {DIST_HEADS, DIST_HEADS}, {DIST_HEADS, DIST_PARTIAL}, {DIST_ALL, DIST_ALL},
    {DIST_ALL, DIST_ACTS},    {DIST_ACTS, DIST_SLOTS},    {DIST_ALL, DIST_VOCAB},
};
static const struct {
    struct change change;
    enum prog_over over;
} moves[] = {
    {{DIST_PARTIAL, DIST_ROWS}, OVER_TP},
    {{DIST_ROWS, DIST_ALL}, OVER_DP},
    {{DIST_SLOTS, DIST_ROWS}, OVER_REPLICA},
    {{DIST_VOCAB, DIST_ALL}, OVER_REPLICA},
};

/* Where prog_check() is: what was written when. */
struct checker {
    const struct program *p;
    struct error *e;
    uint32_t at;                 /* op */
    uint32_t layer_start;        /* the op that began the layer */
    uint32_t written[BUF_COUNT]; /* 1 + the op that wrote it last, 0 = never */
};

static enum err bad(struct checker *c, const char *rule)
{
    const struct prog_op *op = &c->p->ops[c->at];
    return err_set(c->e, ERR_INVAL, "program: op %u (%s, layer %u, %s -> %s): %s", c->at,
                   op_name(op->kind), op->layer, buf_name(op->in), buf_name(op->out), rule);
}

static enum err check_change(struct checker *c)
{
    const struct prog_op *op = &c->p->ops[c->at];
    if (op->in == BUF_NONE) return ERR_OK;
    enum prog_dist from = buf_dist(op->in), to = buf_dist(op->out);
    if (!op_is_collective(op->kind)) {
        for (uint32_t i = 0; i < COUNT(local); i++)
            if (local[i].from == from && local[i].to == to) return ERR_OK;
    } else {
        for (uint32_t i = 0; i < COUNT(moves); i++)
            if (moves[i].change.from == from && moves[i].change.to == to &&
                moves[i].over == op_over(op->kind))
                return ERR_OK;
    }
    char rule[160];
    snprintf(rule, sizeof rule, "%s cannot turn \"%s\" into \"%s\"",
             op_is_collective(op->kind) ? "this collective" : "without a collective a chip",
             dist_name(from), dist_name(to));
    return bad(c, rule);
}

/* The residual stream lives through the step; every other buffer of a layer must have been written
 * in this layer, else an op would read the layer before. */
static enum err check_read(struct checker *c, enum prog_buf b)
{
    char rule[80];
    if (!c->written[b])
        snprintf(rule, sizeof rule, "reads %s, which nothing wrote", buf_name(b));
    else if (b != BUF_X && c->written[b] <= c->layer_start)
        snprintf(rule, sizeof rule, "reads %s of an earlier layer", buf_name(b));
    else
        return ERR_OK;
    return bad(c, rule);
}

static enum err check_data(struct checker *c)
{
    const struct prog_op *op = &c->p->ops[c->at];
    if ((unsigned)op->kind >= OP_COUNT || (unsigned)op->in > BUF_NONE ||
        (unsigned)op->out >= BUF_COUNT)
        return bad(c, "no such op or buffer");
    enum err rc = op->in == BUF_NONE ? ERR_OK : check_read(c, op->in);
    for (uint32_t i = 0; !rc && i < COUNT(also_reads); i++)
        if (also_reads[i].kind == op->kind) rc = check_read(c, also_reads[i].buf);
    if (!rc) rc = check_change(c);
    if (rc) return rc;
    c->written[op->out] = c->at + 1;
    for (uint32_t i = 0; i < COUNT(also_writes); i++)
        if (also_writes[i].kind == op->kind) c->written[also_writes[i].buf] = c->at + 1;
    return ERR_OK;
}

static enum err check_step(struct checker *c, const struct step *s)
{
    const struct prog_op *op = &c->p->ops[c->at];
    if (op->kind == s->kind && op->in == s->in && op->out == s->out) return ERR_OK;
    char rule[120];
    snprintf(rule, sizeof rule, "here must be %s, %s -> %s", op_name(s->kind), buf_name(s->in),
             buf_name(s->out));
    return bad(c, rule);
}

static enum err check_sizes(struct checker *c)
{
    const struct prog_op *op = &c->p->ops[c->at];
    char rule[160];
    struct prog_size want = prog_op_size(c->p, op->kind);
    struct prog_group group = prog_op_group(&c->p->plan, op->kind);
    uint64_t rows = op->kind == OP_EXPERTS_UP || op->kind == OP_EXPERTS_DOWN
                        ? (uint64_t)c->p->rows * c->p->shape.experts_per_token
                        : c->p->rows;
    if (op->n != want.n || op->k != want.k)
        snprintf(rule, sizeof rule, "is %u x %u, shape and plan make it %u x %u", op->n, op->k,
                 want.n, want.k);
    else if (op->group != group.chips || op->stride != group.stride)
        snprintf(rule, sizeof rule, "group %u stride %u, the plan has %u stride %u", op->group,
                 op->stride, group.chips, group.stride);
    else if (op->rows > rows)
        snprintf(rule, sizeof rule, "has %u rows, the step has %" PRIu64, op->rows, rows);
    else if (op->sliding != c->p->shape.sliding[op->layer])
        snprintf(rule, sizeof rule, "its layer is %s", op->sliding ? "full" : "sliding");
    else
        return ERR_OK;
    return bad(c, rule);
}

static enum err check_ops(struct checker *c, const struct step *steps, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++, c->at++) {
        if (c->at >= c->p->n_ops)
            return err_set(c->e, ERR_INVAL, "program: ends after op %u, %s is missing", c->at,
                           op_name(steps[i].kind));
        enum err rc = check_data(c);
        if (!rc) rc = check_step(c, &steps[i]);
        if (!rc) rc = check_sizes(c);
        if (rc) return rc;
    }
    return ERR_OK;
}

static enum err check_layers(struct checker *c)
{
    const struct model_shape *s = &c->p->shape;
    uint32_t full = shape_full_layers(s), left[2] = {full, s->layers - full}, next = 0;
    while (left[0] + left[1]) {
        uint32_t first = c->at;
        const struct prog_op *op = &c->p->ops[first];
        if (first >= c->p->n_ops)
            return err_set(c->e, ERR_INVAL, "program: ends after op %u, %u layers are missing",
                           first, left[0] + left[1]);
        if (op->layer < next || op->layer >= s->layers)
            return bad(c, "the layer is out of order or out of the model");
        if (op->repeat == 0 || op->repeat > left[s->sliding[op->layer]])
            return bad(c, "repeats more layers than the model has of this kind");
        left[s->sliding[op->layer]] -= op->repeat;
        next = op->layer + 1u;
        c->layer_start = first;
        enum err rc = check_ops(c, layer_steps, COUNT(layer_steps));
        if (rc) return rc;
        for (uint32_t i = first; i < c->at; i++)
            if (c->p->ops[i].layer != op->layer || c->p->ops[i].repeat != op->repeat) {
                c->at = i;
                return bad(c, "is in the middle of another layer");
            }
    }
    return ERR_OK;
}

enum err prog_check(const struct program *p, struct error *e)
{
    struct checker c = {.p = p, .e = e};
    if (p->n_ops > PROG_MAX_OPS || p->shape.layers > SHAPE_MAX_LAYERS)
        return err_set(e, ERR_INVAL, "program: %u ops, %u layers: more than fit", p->n_ops,
                       p->shape.layers);
    if (p->logit_rows > p->seqs || p->seqs > p->rows || p->prefill_rows > p->rows)
        return err_set(e, ERR_INVAL,
                       "program: %u rows, %u of prefill, of %u sequences, %u with logits", p->rows,
                       p->prefill_rows, p->seqs, p->logit_rows);
    enum err rc = check_ops(&c, first_steps, COUNT(first_steps));
    if (!rc) rc = check_layers(&c);
    c.layer_start = 0; /* the last steps read X, and what they write themselves */
    if (!rc) rc = check_ops(&c, last_steps, COUNT(last_steps));
    if (!rc && c.at < p->n_ops) rc = bad(&c, "the step had ended before it");
    return rc;
}
