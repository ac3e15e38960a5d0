/* machine.c - the machine's life, and the run of a program, op by op. */
#include "device/machine.h"

#include "device/exec.h"

#include <math.h>
#include <stdlib.h>

static exec_fn *const ops[] = {
    [OP_EMBED] = exec_embed,
    [OP_NORM] = exec_norm,
    [OP_QKV] = exec_qkv,
    [OP_ROPE_KV] = exec_rope_kv,
    [OP_ATTENTION] = exec_attention,
    [OP_O_PROJ] = exec_o_proj,
    [OP_ALL_REDUCE] = exec_all_reduce,
    [OP_ALL_GATHER] = exec_all_gather,
    [OP_ROUTE] = exec_route,
    [OP_EXPERTS_UP] = exec_experts_up,
    [OP_EXPERTS_DOWN] = exec_experts_down,
    [OP_COMBINE] = exec_combine,
    [OP_HEAD_NORM] = exec_head_norm,
    [OP_LOGITS] = exec_logits,
    [OP_GATHER_LOGITS] = exec_gather_logits,
};

static enum err check_matrix(const char *name, const struct weight *w, uint64_t rows, uint64_t cols,
                             struct error *e)
{
    if (w->rows == rows && w->cols == cols && w->data &&
        (w->type != DT_MXFP4 || w->scales != NULL) &&
        (!dtype_has_blocks(w->type) || cols % BLOCK_COLS == 0))
        return ERR_OK;
    return err_set(e, ERR_INVAL, "machine: %s is %s [%u][%u], the shape makes it [%llu][%llu]",
                   name, dtype_name(w->type), w->rows, w->cols, (unsigned long long)rows,
                   (unsigned long long)cols);
}

static enum err check_layer(const struct layer_weights *l, const struct model_shape *s,
                            struct error *e)
{
    uint64_t D = s->hidden, q = (uint64_t)s->q_heads * s->head_dim, F = s->intermediate;
    uint64_t kv = (uint64_t)s->kv_heads * s->head_dim;
    const struct {
        const char *name;
        const struct weight *w;
        uint64_t rows, cols;
    } all[] = {
        {"q", &l->q, q, D},
        {"k", &l->k, kv, D},
        {"v", &l->v, kv, D},
        {"o", &l->o, D, q},
        {"router", &l->router, s->experts, D},
        {"gate", &l->gate.first, F, D},
        {"up", &l->up.first, F, D},
        {"down", &l->down.first, D, F},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        enum err rc = check_matrix(all[i].name, all[i].w, all[i].rows, all[i].cols, e);
        if (rc) return rc;
    }
    return ERR_OK;
}

static enum err check_weights(const struct model_weights *w, const struct model_shape *s,
                              struct error *e)
{
    if (w->n_layers != s->layers)
        return err_set(e, ERR_INVAL, "machine: weights of %u layers, the shape has %u", w->n_layers,
                       s->layers);
    enum err rc = check_matrix("embed", &w->embed, s->vocab, s->hidden, e);
    if (!rc) rc = check_matrix("head", &w->head, s->vocab, s->hidden, e);
    for (uint32_t l = 0; !rc && l < s->layers; l++)
        rc = check_layer(&w->layers[l], s, e);
    return rc;
}

static enum err check_options(const struct machine_options *o, struct error *e)
{
    enum err rc = shape_check(o->shape, e);
    if (!rc) rc = check_weights(o->weights, o->shape, e);
    if (rc) return rc;
    struct plan plan = o->plan;
    struct machine_spec any = {.name = "any", .chips = UINT32_MAX};
    rc = plan_complete(&plan, o->shape, &any, e);
    if (rc) return rc;
    const uint32_t most = 1u << 20;
    if (o->max_rows < 1 || o->max_rows > most || o->max_logit_rows > o->max_rows)
        return err_set(e, ERR_INVAL, "machine: max_rows %u (1 to %u), max_logit_rows %u (at most)",
                       o->max_rows, most, o->max_logit_rows);
    return ERR_OK;
}

static void fill_tables(struct machine *m)
{
    const struct model_shape *s = m->shape;
    m->rope_scale = exec_rope_table(s, m->rope_inv);
    m->score_scale = (float)(1 / sqrt(s->head_dim));
    m->whole[1] = s->hidden;
    for (uint32_t i = 0; i <= s->kv_heads; i++)
        m->head_border[i] = i * (s->q_heads / s->kv_heads) * s->head_dim;
    for (uint32_t i = 0; i <= m->moe_parts; i++)
        m->moe_border[i] = plan_moe_border(s, i);
}

struct machine *machine_new(const struct machine_options *o, struct error *e)
{
    if (check_options(o, e)) return NULL;
    struct machine *m = calloc(1, sizeof *m);
    if (!m) {
        err_set(e, ERR_NOMEM, "machine: no memory");
        return NULL;
    }
    m->shape = o->shape;
    m->weights = o->weights;
    m->plan = o->plan;
    m->block_tokens = o->block_tokens;
    m->max_rows = o->max_rows;
    m->max_logit_rows = o->max_logit_rows;
    m->moe_parts = plan_moe_parts(o->shape);
    m->kernels = kernels_get(o->isa, e);
    if (m->kernels) m->pool = pool_new(o->threads, e);
    if (m->pool)
        m->kv = kvstore_new(&(struct kvstore_options){.shape = o->shape,
                                                      .block_tokens = o->block_tokens,
                                                      .full_blocks = o->full_blocks,
                                                      .slide_blocks = o->slide_blocks},
                            e);
    if (!m->kv || exec_arena(m, e)) {
        machine_free(m);
        return NULL;
    }
    fill_tables(m);
    return m;
}

void machine_free(struct machine *m)
{
    if (!m) return;
    exec_arena_free(m);
    kvstore_free(m->kv);
    pool_free(m->pool);
    free(m);
}

const char *machine_isa(const struct machine *m)
{
    return m->kernels->name;
}

/* The blocks of one kind that the sequence's rows read or write. */
static enum err check_blocks(const struct machine *m, const struct batch_seq *q, bool sliding,
                             struct error *e)
{
    const uint32_t *ids = sliding ? q->slide_blocks : q->full_blocks;
    uint32_t blocks = kvstore_blocks(m->kv, sliding), window = m->shape->window;
    uint32_t first = sliding && q->start >= window ? q->start - window + 1 : 0;
    uint32_t last = q->start + q->rows - 1;
    for (uint32_t i = first / m->block_tokens; i <= last / m->block_tokens; i++)
        if (ids[i] >= blocks)
            return err_set(e, ERR_RANGE, "batch: position %u: %s block id %u, there are %u",
                           i * m->block_tokens, sliding ? "sliding" : "full", ids[i], blocks);
    return ERR_OK;
}

static enum err check_seq(const struct machine *m, const struct batch *b, uint32_t seq,
                          struct error *e)
{
    const struct batch_seq *q = &b->seqs[seq];
    if (q->rows == 0 || q->first_row > b->n_rows || q->rows > b->n_rows - q->first_row)
        return err_set(e, ERR_INVAL, "batch: sequence %u: rows %u + %u of %u", seq, q->first_row,
                       q->rows, b->n_rows);
    if (q->start >= m->shape->max_positions || q->rows > m->shape->max_positions - q->start)
        return err_set(e, ERR_RANGE, "batch: sequence %u: positions %u + %u, the model has %u", seq,
                       q->start, q->rows, m->shape->max_positions);
    for (uint32_t i = 0; i < q->rows; i++) {
        const struct batch_row *r = &b->rows[q->first_row + i];
        if (r->seq != seq || r->pos != q->start + i || r->token >= m->shape->vocab)
            return err_set(e, ERR_INVAL,
                           "batch: row %u: token %u of sequence %u at %u, expected below %u, of %u "
                           "at %u",
                           q->first_row + i, r->token, r->seq, r->pos, m->shape->vocab, seq,
                           q->start + i);
    }
    uint32_t full = shape_full_layers(m->shape);
    enum err rc = full ? check_blocks(m, q, false, e) : ERR_OK;
    if (!rc && full < m->shape->layers) rc = check_blocks(m, q, true, e);
    return rc;
}

static bool same_plan(const struct plan *a, const struct plan *b)
{
    return a->attn_tp == b->attn_tp && a->attn_dp == b->attn_dp && a->ep == b->ep &&
           a->moe_tp == b->moe_tp && a->chips == b->chips;
}

static bool same_sizes(const struct model_shape *a, const struct model_shape *b)
{
    return a->layers == b->layers && a->hidden == b->hidden && a->q_heads == b->q_heads &&
           a->kv_heads == b->kv_heads && a->head_dim == b->head_dim && a->experts == b->experts &&
           a->experts_per_token == b->experts_per_token && a->intermediate == b->intermediate &&
           a->vocab == b->vocab;
}

static enum err check_run(const struct machine *m, const struct program *p, const struct batch *b,
                          struct error *e)
{
    enum err rc = prog_check(p, e);
    if (rc) return rc;
    if (!same_plan(&p->plan, &m->plan) || !same_sizes(&p->shape, m->shape))
        return err_set(e, ERR_INVAL, "program: made for another model or plan");
    for (uint32_t i = 0; i < p->n_ops; i++)
        if (p->ops[i].repeat != 1)
            return err_set(e, ERR_INVAL, "program: folded, it can only be priced");
    if (b->n_rows != p->rows || b->n_seqs != p->seqs || b->n_rows > m->max_rows)
        return err_set(e, ERR_INVAL,
                       "batch: %u rows of %u sequences, the program has %u of %u, most %u",
                       b->n_rows, b->n_seqs, p->rows, p->seqs, m->max_rows);
    uint32_t rows = 0;
    for (uint32_t i = 0; !rc && i < b->n_seqs; i++) {
        rc = check_seq(m, b, i, e);
        rows += b->seqs[i].rows;
    }
    if (!rc && rows != b->n_rows)
        rc = err_set(e, ERR_INVAL, "batch: %u rows, %u in sequences", b->n_rows, rows);
    return rc;
}

static enum err list_logits(struct machine *m, const struct batch *b, struct error *e)
{
    m->logit_rows = 0;
    m->seqs = b->n_seqs;
    for (uint32_t i = 0; i < b->n_seqs; i++) {
        const struct batch_seq *q = &b->seqs[i];
        m->logit_of_seq[i] = q->wants_logits ? m->logit_rows : UINT32_MAX;
        if (!q->wants_logits) continue;
        if (m->logit_rows == m->max_logit_rows)
            return err_set(e, ERR_INVAL, "batch: more than %u rows want logits", m->max_logit_rows);
        m->logit_row[m->logit_rows++] = q->first_row + q->rows - 1;
    }
    return ERR_OK;
}

enum err machine_run(struct machine *m, const struct program *p, const struct batch *b,
                     struct error *e)
{
    enum err rc = check_run(m, p, b, e);
    if (!rc) rc = list_logits(m, b, e);
    if (rc) return rc;
    exec_rope_rows(m, b);
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const struct prog_op *op = &p->ops[i];
        struct exec x = {m, p, b, op, &m->weights->layers[op->layer]};
        ops[op->kind](&x);
    }
    return ERR_OK;
}

const float *machine_logits(const struct machine *m, uint32_t seq)
{
    if (seq >= m->seqs || m->logit_of_seq[seq] == UINT32_MAX) return NULL;
    return m->logits + (size_t)m->logit_of_seq[seq] * m->shape->vocab;
}
