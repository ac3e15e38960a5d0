/* exec_head.c - the last ops: norm of the rows that want logits, logits, their gathering. */
#include "device/exec.h"

#include <string.h>

void exec_head_norm(const struct exec *x)
{
    struct machine *m = x->m;
    uint32_t D = m->shape->hidden;
    for (uint32_t i = 0; i < m->logit_rows; i++)
        m->kernels->rmsnorm(m->x + (size_t)m->logit_row[i] * D, m->weights->final_norm,
                            m->shape->rms_eps, D, m->head_in + (size_t)i * D);
}

void exec_logits(const struct exec *x)
{
    struct machine *m = x->m;
    for (uint32_t c = 0; c < m->plan.chips; c++) {
        struct plan_range v = plan_vocab_rows(&m->plan, m->shape, c);
        m->jobs[c] = (struct linear_args){.w = &m->weights->head,
                                          .out0 = v.first,
                                          .out1 = v.first + v.n,
                                          .x = m->head_in,
                                          .ldx = m->shape->hidden,
                                          .n = m->logit_rows,
                                          .border = m->whole,
                                          .parts = 1,
                                          .add_parts = true,
                                          .y = m->logit_part + (size_t)m->max_logit_rows * v.first,
                                          .ldy = v.n};
    }
    exec_linears(x, m->plan.chips);
}

static void gather_row(const struct exec *x, uint32_t i, uint32_t thread)
{
    (void)thread;
    struct machine *m = x->m;
    for (uint32_t c = 0; c < m->plan.chips; c++) {
        struct plan_range v = plan_vocab_rows(&m->plan, m->shape, c);
        const float *part = m->logit_part + (size_t)m->max_logit_rows * v.first;
        memcpy(m->logits + (size_t)i * m->shape->vocab + v.first, part + (size_t)i * v.n,
               v.n * sizeof *part);
    }
}

void exec_gather_logits(const struct exec *x)
{
    if (x->m->logits == x->m->logit_part) return; /* one chip has them all */
    exec_each(x, gather_row, x->m->logit_rows, (uint64_t)x->m->logit_rows * x->m->shape->vocab);
}
