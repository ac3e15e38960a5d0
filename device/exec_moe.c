/* exec_moe.c - the ops of a layer's second half: gather, router, experts, combine. */
#include "device/exec.h"

#include <string.h>

void exec_all_gather(const struct exec *x)
{
    size_t n = (size_t)x->b->n_rows * x->m->shape->hidden;
    memcpy(x->m->moe_in, x->m->norm2, n * sizeof *x->m->norm2);
}

/* Groups the rows by the experts that they chose; inside an expert they stay in order. */
static void group_rows(struct machine *m, uint32_t rows)
{
    uint32_t E = m->shape->experts, A = m->shape->experts_per_token, *first = m->expert_first;
    memset(first, 0, (E + 1) * sizeof *first);
    for (uint32_t i = 0; i < rows * A; i++)
        first[m->expert[i] + 1]++;
    for (uint32_t e = 0; e < E; e++)
        first[e + 1] += first[e];
    for (uint32_t i = 0; i < rows * A; i++) {
        uint32_t at = first[m->expert[i]]++;
        m->routed_index[i] = at;
        m->routed_row[at] = i / A;
    }
    memmove(first + 1, first, E * sizeof *first); /* each first had become the next one's */
    first[0] = 0;
}

void exec_route(const struct exec *x)
{
    struct machine *m = x->m;
    uint32_t E = m->shape->experts, A = m->shape->experts_per_token, rows = x->b->n_rows;
    m->jobs[0] = (struct linear_args){.w = &x->layer->router,
                                      .out1 = E,
                                      .x = m->moe_in,
                                      .ldx = m->shape->hidden,
                                      .n = rows,
                                      .border = m->whole,
                                      .parts = 1,
                                      .add_parts = true,
                                      .bias = x->layer->router_bias,
                                      .y = m->router,
                                      .ldy = E};
    exec_linears(x, 1);
    for (uint32_t r = 0; r < rows; r++)
        route_top(m->router + (size_t)r * E, E, A, m->expert + (size_t)r * A,
                  m->expert_weight + (size_t)r * A);
    group_rows(m, rows);
}

/* The region of expert shard t in ACT, and its columns of F. */
static struct plan_range shard(const struct machine *m, uint32_t t)
{
    return plan_moe_columns(&m->plan, m->shape, t);
}

static float *act_region(const struct machine *m, struct plan_range f)
{
    return m->act + (size_t)m->max_rows * m->shape->experts_per_token * f.first;
}

/* Gate and up of the rows that `a` picks, into the thread's scratch. */
static void gate_up(const struct exec *x, uint32_t e, struct linear_args a,
                    const struct exec_scratch *s)
{
    const struct machine *m = x->m;
    struct weight gate = weight_at(&x->layer->gate, e), up = weight_at(&x->layer->up, e);
    size_t bias = (size_t)e * m->shape->intermediate;
    a.w = &gate;
    a.bias = x->layer->gate_bias + bias;
    a.y = s->gate;
    m->kernels->linear(&a);
    a.w = &up;
    a.bias = x->layer->up_bias + bias;
    a.y = s->up;
    m->kernels->linear(&a);
}

/* job = expert * moe_tp + shard; outputs are rows of F. */
static void up_item(const struct exec *x, uint32_t item, uint32_t thread)
{
    struct machine *m = x->m;
    const struct exec_scratch *s = &m->scratch[thread];
    struct exec_item it = m->items[item];
    struct plan_range f = shard(m, it.job % m->plan.moe_tp);
    it.job /= m->plan.moe_tp;
    uint32_t end = m->expert_first[it.job + 1];
    for (uint32_t r = m->expert_first[it.job]; r < end; r += EXEC_EXPERT_ROWS) {
        uint32_t n = end - r < EXEC_EXPERT_ROWS ? end - r : EXEC_EXPERT_ROWS;
        struct linear_args a = {.out0 = it.out0,
                                .out1 = it.out1,
                                .x = m->moe_in,
                                .ldx = m->shape->hidden,
                                .pick = m->routed_row + r,
                                .n = n,
                                .border = m->whole,
                                .parts = 1,
                                .add_parts = true,
                                .ldy = EXEC_EXPERT_OUTS};
        gate_up(x, it.job, a, s);
        for (uint32_t i = 0; i < n; i++)
            m->kernels->swiglu(s->gate + (size_t)i * EXEC_EXPERT_OUTS,
                               s->up + (size_t)i * EXEC_EXPERT_OUTS, it.out1 - it.out0,
                               m->shape->swiglu_alpha, m->shape->swiglu_limit,
                               act_region(m, f) + (size_t)(r + i) * f.n + (it.out0 - f.first));
    }
}

void exec_experts_up(const struct exec *x)
{
    struct machine *m = x->m;
    uint32_t tp = m->plan.moe_tp, n = 0;
    for (uint32_t e = 0; e < m->shape->experts; e++) {
        if (m->expert_first[e] == m->expert_first[e + 1]) continue;
        for (uint32_t t = 0; t < tp; t++) {
            struct plan_range f = shard(m, t);
            struct exec_item whole = {e * tp + t, f.first, f.first + f.n};
            n = exec_cut(m->items, n, whole, EXEC_EXPERT_OUTS);
        }
    }
    exec_each(x, up_item, n,
              2ull * x->b->n_rows * m->shape->experts_per_token * m->shape->hidden *
                  m->shape->intermediate);
}

void exec_experts_down(const struct exec *x)
{
    struct machine *m = x->m;
    uint32_t tp = m->plan.moe_tp, parts = m->moe_parts / tp, D = m->shape->hidden, n = 0;
    size_t step = (size_t)m->max_rows * m->shape->experts_per_token * D;
    for (uint32_t e = 0; e < m->shape->experts; e++) {
        uint32_t first = m->expert_first[e], rows = m->expert_first[e + 1] - first;
        if (rows == 0) continue;
        m->down[e] = weight_at(&x->layer->down, e);
        for (uint32_t t = 0; t < tp; t++) {
            struct plan_range f = shard(m, t);
            struct linear_args *job = &m->jobs[n++];
            *job = (struct linear_args){.w = &m->down[e],
                                        .out1 = D,
                                        .x = act_region(m, f) + (size_t)first * f.n,
                                        .ldx = f.n,
                                        .col0 = f.first,
                                        .n = rows,
                                        .border = m->moe_border + t * parts,
                                        .parts = parts,
                                        .add_parts = tp == 1, /* as combine would */
                                        .y = m->exp + t * parts * step + (size_t)first * D,
                                        .ldy = D,
                                        .part_step = step};
        }
    }
    exec_linears(x, n);
}

static void combine_row(const struct exec *x, uint32_t r, uint32_t thread)
{
    (void)thread;
    struct machine *m = x->m;
    uint32_t D = m->shape->hidden, A = m->shape->experts_per_token;
    uint32_t parts = m->plan.moe_tp == 1 ? 1 : m->moe_parts;
    size_t step = (size_t)m->max_rows * A * D;
    for (uint32_t j = 0; j < A; j++) {
        size_t choice = (size_t)r * A + j;
        float *sum = m->exp + (size_t)m->routed_index[choice] * D;
        for (uint32_t i = 1; i < parts; i++)
            m->kernels->axpy(1, sum + i * step, D, sum);
        m->kernels->axpy(1, x->layer->down_bias + (size_t)m->expert[choice] * D, D, sum);
        m->kernels->axpy(m->expert_weight[choice], sum, D, m->x + (size_t)r * D);
    }
}

void exec_combine(const struct exec *x)
{
    const struct model_shape *s = x->m->shape;
    exec_each(x, combine_row, x->b->n_rows, 2ull * x->b->n_rows * s->experts_per_token * s->hidden);
}
