/* exec_arena.c - the regions of the machine's buffers, in one mapping that is taken on use. */
#include "device/exec.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define ALIGN_BYTES 64

struct region {
    void *at; /* the pointer to set */
    size_t count, bytes_each;
};

/* With base NULL only adds up. Counts come from checked shapes: no product passes 64 bits, but a
 * sum may pass any memory. */
static size_t place(const struct region *r, size_t n, char *base)
{
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        size_t bytes;
        if (__builtin_mul_overflow(r[i].count, r[i].bytes_each, &bytes) || bytes > SIZE_MAX / 64)
            return SIZE_MAX;
        if (base) {
            char *p = base + at;
            memcpy(r[i].at, &p, sizeof p);
        }
        at += (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    }
    return at;
}

/* Jobs of the op that has most of them, and items that they are cut into. */
static size_t most_jobs(const struct machine *m)
{
    size_t n = 3 * (size_t)m->plan.attn_tp, experts = (size_t)m->shape->experts * m->plan.moe_tp;
    n = n > experts ? n : experts;
    return n > m->plan.chips ? n : m->plan.chips;
}

static size_t most_items(const struct machine *m)
{
    const struct model_shape *s = m->shape;
    size_t qkv = (size_t)(s->q_heads + 2 * s->kv_heads) * s->head_dim;
    size_t up = (size_t)s->experts * (s->intermediate / EXEC_EXPERT_OUTS);
    size_t down = most_jobs(m) * (s->hidden / EXEC_LINEAR_OUTS + 1);
    /* Every job may end in an item that is not full. */
    return most_jobs(m) + (qkv + s->vocab) / EXEC_LINEAR_OUTS + up + down;
}

static enum err map_arena(struct machine *m, const struct region *r, size_t n, struct error *e)
{
    m->arena_bytes = place(r, n, NULL);
    void *p = m->arena_bytes >= SIZE_MAX / 64
                  ? MAP_FAILED
                  : mmap(NULL, m->arena_bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return err_set(e, ERR_NOMEM,
                       "machine: cannot reserve %zu bytes for %u rows, %u with logits",
                       m->arena_bytes, m->max_rows, m->max_logit_rows);
    m->arena = p;
    place(r, n, p);
    return ERR_OK;
}

static enum err scratch_regions(struct machine *m, struct error *e)
{
    const struct model_shape *s = m->shape;
    size_t blocks = s->max_positions / m->block_tokens + 1;
    for (uint32_t i = 0; i < pool_threads(m->pool); i++) {
        struct exec_scratch *t = &m->scratch[i];
        struct region r[] = {
            {&t->k_blocks, blocks, sizeof *t->k_blocks},
            {&t->v_blocks, blocks, sizeof *t->v_blocks},
            {&t->scores, (size_t)s->q_heads / s->kv_heads * s->max_positions, sizeof *t->scores},
            {&t->gate, EXEC_EXPERT_ROWS * EXEC_EXPERT_OUTS, sizeof *t->gate},
            {&t->up, EXEC_EXPERT_ROWS * EXEC_EXPERT_OUTS, sizeof *t->up},
        };
        size_t n = sizeof r / sizeof *r;
        t->bytes = place(r, n, NULL);
        t->memory = mmap(NULL, t->bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (t->memory == MAP_FAILED) {
            t->memory = NULL;
            return err_set(e, ERR_NOMEM, "machine: cannot reserve %zu bytes for a thread",
                           t->bytes);
        }
        place(r, n, t->memory);
    }
    return ERR_OK;
}

enum err exec_arena(struct machine *m, struct error *e)
{
    const struct model_shape *s = m->shape;
    size_t rows = m->max_rows, D = s->hidden, d = s->head_dim, A = s->experts_per_token;
    size_t routed = rows * A, oparts = m->plan.attn_tp == 1 ? 1 : s->kv_heads;
    size_t eparts = m->plan.moe_tp == 1 ? 1 : m->moe_parts;
    size_t logits = (size_t)m->max_logit_rows * s->vocab, f = sizeof(float), u = sizeof(uint32_t);
    struct region r[] = {
        {&m->x, rows * D, f},
        {&m->norm, rows * D, f},
        {&m->norm2, rows * D, f},
        {&m->moe_in, rows * D, f},
        {&m->router, rows * s->experts, f},
        {&m->head_in, m->max_logit_rows * D, f},
        {&m->rope_cos, rows * d / 2, f},
        {&m->rope_sin, rows * d / 2, f},
        {&m->rope_inv, d / 2, f},
        {&m->q, rows * s->q_heads * d, f},
        {&m->k, rows * s->kv_heads * d, f},
        {&m->v, rows * s->kv_heads * d, f},
        {&m->att, rows * s->q_heads * d, f},
        {&m->opart, oparts * rows * D, f},
        {&m->expert, routed, u},
        {&m->expert_weight, routed, f},
        {&m->routed_index, routed, u},
        {&m->routed_row, routed, u},
        {&m->expert_first, (size_t)s->experts + 1, u},
        {&m->act, routed * s->intermediate, f},
        {&m->exp, eparts * routed * D, f},
        {&m->logit_part, logits, f},
        {&m->logits, m->plan.chips == 1 ? 0 : logits, f},
        {&m->logit_row, m->max_logit_rows, u},
        {&m->logit_of_seq, rows, u},
        {&m->head_border, (size_t)s->kv_heads + 1, u},
        {&m->moe_border, (size_t)m->moe_parts + 1, u},
        {&m->whole, 2, u},
        {&m->down, s->experts, sizeof *m->down},
        {&m->jobs, most_jobs(m), sizeof *m->jobs},
        {&m->items, most_items(m), sizeof *m->items},
        {&m->scratch, pool_threads(m->pool), sizeof *m->scratch},
    };
    enum err rc = map_arena(m, r, sizeof r / sizeof *r, e);
    if (rc) return rc;
    if (m->plan.chips == 1) m->logits = m->logit_part;
    return scratch_regions(m, e);
}

void exec_arena_free(struct machine *m)
{
    if (!m->arena) return;
    for (uint32_t i = 0; i < pool_threads(m->pool); i++)
        if (m->scratch[i].memory) munmap(m->scratch[i].memory, m->scratch[i].bytes);
    munmap(m->arena, m->arena_bytes);
}
