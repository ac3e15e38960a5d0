/* exec_attention.c - the ops of a layer's first half: norm, QKV, RoPE and cache, attention, output
 * projection and its sum over the tp ranks. */
#include "device/exec.h"

#include <string.h>

/* Columns of one tp rank. */
static size_t q_cols(const struct machine *m)
{
    return (size_t)m->shape->q_heads / m->plan.attn_tp * m->shape->head_dim;
}

static size_t kv_cols(const struct machine *m)
{
    return (size_t)m->shape->kv_heads / m->plan.attn_tp * m->shape->head_dim;
}

/* Where KV head h of a row lies in the region of its rank, with `heads` heads for each KV head. */
static float *head_at(const struct machine *m, float *base, uint32_t row, uint32_t h,
                      uint32_t heads)
{
    uint32_t per_rank = m->shape->kv_heads / m->plan.attn_tp, rank = h / per_rank;
    size_t cols = (size_t)per_rank * heads * m->shape->head_dim;
    return base + ((size_t)rank * m->max_rows + row) * cols +
           (size_t)(h % per_rank) * heads * m->shape->head_dim;
}

void exec_embed(const struct exec *x)
{
    for (uint32_t r = 0; r < x->b->n_rows; r++)
        weight_row(&x->m->weights->embed, x->b->rows[r].token,
                   x->m->x + (size_t)r * x->m->shape->hidden);
}

static void norm_row(const struct exec *x, uint32_t r, uint32_t thread)
{
    (void)thread;
    struct machine *m = x->m;
    size_t at = (size_t)r * m->shape->hidden;
    bool first = x->op->out == BUF_NORM;
    m->kernels->rmsnorm(m->x + at, first ? x->layer->attn_norm : x->layer->mlp_norm,
                        m->shape->rms_eps, m->shape->hidden, (first ? m->norm : m->norm2) + at);
}

void exec_norm(const struct exec *x)
{
    exec_each(x, norm_row, x->b->n_rows, 2ull * x->b->n_rows * x->m->shape->hidden);
}

/* Rows of w that rank t has, of NORM, into the rank's region. */
static struct linear_args qkv_job(const struct exec *x, uint32_t t, const struct weight *w,
                                  const float *bias)
{
    const struct machine *m = x->m;
    uint32_t outs = w->rows / m->plan.attn_tp;
    return (struct linear_args){.w = w,
                                .out0 = t * outs,
                                .out1 = (t + 1) * outs,
                                .x = m->norm,
                                .ldx = m->shape->hidden,
                                .n = x->b->n_rows,
                                .border = m->whole,
                                .parts = 1,
                                .add_parts = true,
                                .bias = bias,
                                .ldy = outs};
}

void exec_qkv(const struct exec *x)
{
    struct machine *m = x->m;
    const struct layer_weights *l = x->layer;
    uint32_t n = 0;
    for (uint32_t t = 0; t < m->plan.attn_tp; t++) {
        struct linear_args *j = &m->jobs[n];
        j[0] = qkv_job(x, t, &l->q, l->q_bias);
        j[1] = qkv_job(x, t, &l->k, l->k_bias);
        j[2] = qkv_job(x, t, &l->v, l->v_bias);
        j[0].y = m->q + (size_t)t * m->max_rows * q_cols(m);
        j[1].y = m->k + (size_t)t * m->max_rows * kv_cols(m);
        j[2].y = m->v + (size_t)t * m->max_rows * kv_cols(m);
        n += 3;
    }
    exec_linears(x, n);
}

static uint32_t block_of(const struct exec *x, uint32_t seq, uint32_t i)
{
    const struct batch_seq *q = &x->b->seqs[seq];
    return x->m->shape->sliding[x->op->layer] ? q->slide_blocks[i] : q->full_blocks[i];
}

static void rope_row(const struct exec *x, uint32_t r, uint32_t thread)
{
    (void)thread;
    struct machine *m = x->m;
    const struct batch_row *row = &x->b->rows[r];
    uint32_t d = m->shape->head_dim, g = m->shape->q_heads / m->shape->kv_heads;
    const float *c = m->rope_cos + (size_t)r * d / 2, *s = m->rope_sin + (size_t)r * d / 2;
    uint32_t block = block_of(x, row->seq, row->pos / m->block_tokens);
    size_t at = (size_t)(row->pos % m->block_tokens) * d;
    for (uint32_t h = 0; h < m->shape->kv_heads; h++) {
        float *q = head_at(m, m->q, r, h, g), *k = head_at(m, m->k, r, h, 1);
        for (uint32_t i = 0; i < g; i++)
            m->kernels->rope(q + (size_t)i * d, c, s, d);
        m->kernels->rope(k, c, s, d);
        memcpy(kvstore_k(m->kv, x->op->layer, h, block) + at, k, d * sizeof *k);
        memcpy(kvstore_v(m->kv, x->op->layer, h, block) + at, head_at(m, m->v, r, h, 1),
               d * sizeof *k);
    }
}

void exec_rope_kv(const struct exec *x)
{
    const struct model_shape *s = x->m->shape;
    exec_each(x, rope_row, x->b->n_rows,
              (uint64_t)x->b->n_rows * (s->q_heads + s->kv_heads) * s->head_dim * 2);
}

static uint32_t first_key(const struct exec *x, uint32_t pos)
{
    uint32_t window = x->m->shape->window;
    return x->m->shape->sliding[x->op->layer] && pos >= window ? pos - window + 1 : 0;
}

static void attend(const struct exec *x, uint32_t item, uint32_t thread)
{
    struct machine *m = x->m;
    const struct exec_scratch *s = &m->scratch[thread];
    uint32_t K = m->shape->kv_heads, r = item / K, h = item % K, g = m->shape->q_heads / K;
    const struct batch_row *row = &x->b->rows[r];
    uint32_t first = first_key(x, row->pos);
    for (uint32_t i = first / m->block_tokens; i <= row->pos / m->block_tokens; i++) {
        uint32_t block = block_of(x, row->seq, i);
        s->k_blocks[i] = kvstore_k(m->kv, x->op->layer, h, block);
        s->v_blocks[i] = kvstore_v(m->kv, x->op->layer, h, block);
    }
    m->kernels->attention(&(struct attention_args){.q = head_at(m, m->q, r, h, g),
                                                   .g = g,
                                                   .d = m->shape->head_dim,
                                                   .k_blocks = s->k_blocks,
                                                   .v_blocks = s->v_blocks,
                                                   .block_tokens = m->block_tokens,
                                                   .first = first,
                                                   .last = row->pos,
                                                   .sinks = x->layer->sinks + (size_t)h * g,
                                                   .scale = m->score_scale,
                                                   .scores = s->scores,
                                                   .out = head_at(m, m->att, r, h, g)});
}

void exec_attention(const struct exec *x)
{
    const struct model_shape *s = x->m->shape;
    uint64_t keys = 0;
    for (uint32_t r = 0; r < x->b->n_rows; r++)
        keys += x->b->rows[r].pos - first_key(x, x->b->rows[r].pos) + 1;
    exec_each(x, attend, x->b->n_rows * s->kv_heads, keys * s->q_heads * s->head_dim * 2);
}

void exec_o_proj(const struct exec *x)
{
    struct machine *m = x->m;
    uint32_t tp = m->plan.attn_tp, heads = m->shape->kv_heads / tp;
    size_t step = (size_t)m->max_rows * m->shape->hidden;
    for (uint32_t t = 0; t < tp; t++)
        m->jobs[t] =
            (struct linear_args){.w = &x->layer->o,
                                 .out1 = m->shape->hidden,
                                 .x = m->att + (size_t)t * m->max_rows * q_cols(m),
                                 .ldx = q_cols(m),
                                 .col0 = m->head_border[t * heads],
                                 .n = x->b->n_rows,
                                 .border = m->head_border + t * heads,
                                 .parts = heads,
                                 .add_parts = tp == 1, /* the same order as all_reduce has */
                                 .y = m->opart + t * heads * step,
                                 .ldy = m->shape->hidden,
                                 .part_step = step};
    exec_linears(x, tp);
}

static void reduce_row(const struct exec *x, uint32_t r, uint32_t thread)
{
    (void)thread;
    struct machine *m = x->m;
    uint32_t D = m->shape->hidden, parts = m->plan.attn_tp == 1 ? 1 : m->shape->kv_heads;
    float *sum = m->opart + (size_t)r * D;
    for (uint32_t i = 1; i < parts; i++)
        m->kernels->axpy(1, sum + (size_t)i * m->max_rows * D, D, sum);
    m->kernels->axpy(1, x->layer->o_bias, D, sum);
    m->kernels->axpy(1, sum, D, m->x + (size_t)r * D);
}

void exec_all_reduce(const struct exec *x)
{
    const struct model_shape *s = x->m->shape;
    exec_each(x, reduce_row, x->b->n_rows, (uint64_t)x->b->n_rows * s->hidden * s->kv_heads);
}
