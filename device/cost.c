/* cost.c - FLOPs, bytes and nanoseconds of ops. */
#include "device/cost.h"

#define BF16_BYTES 2.0

const char *cost_bound_name(enum cost_bound b)
{
    static const char *const names[BOUNDS] = {"compute", "hbm", "link", "fixed"};
    return (unsigned)b < BOUNDS ? names[b] : "?";
}

enum link_level cost_level(const struct machine_spec *m, uint32_t first, uint32_t group,
                           uint32_t stride)
{
    /* chips are numbered sled by sled, rack by rack: the ends of the group are its farthest pair */
    uint32_t last = first + (group ? group - 1 : 0) * stride;
    if (machine_sled(m, first) == machine_sled(m, last)) return LINK_SLED;
    return machine_rack(m, first) == machine_rack(m, last) ? LINK_RACK : LINK_CROSS;
}

/* The farthest level over all groups of the replica that run the collective side by side. */
static enum link_level widest_level(const struct machine_spec *m, const struct program *p,
                                    const struct prog_op *op, uint32_t first)
{
    enum link_level widest = LINK_SLED;
    uint32_t step = op->stride == 1 ? op->group : 1;
    uint32_t groups = p->plan.chips / op->group;
    for (uint32_t i = 0; i < groups && widest < LINK_CROSS; i++) {
        enum link_level level = cost_level(m, first + i * step, op->group, op->stride);
        if (level > widest) widest = level;
    }
    return widest;
}

static struct cost of_collective(const struct machine_spec *m, const struct program *p,
                                 const struct prog_op *op, uint32_t first)
{
    struct cost c = {0};
    if (op->group < 2 || !op->rows) return c;
    enum link_level level = widest_level(m, p, op, first);
    const struct link_spec *link = &m->link[level];
    double bytes = (double)op->link_bytes;
    c.link_bytes[level] = bytes;
    c.ns[BOUND_LINK] =
        bytes / link->bytes_per_s * 1e9 + (double)(link->alpha_ns - m->link[LINK_SLED].alpha_ns);
    return c;
}

/* Rows that the array works on: fewer than min_rows take as long. */
static double rows_paid(const struct machine_spec *m, double rows)
{
    return rows < m->min_rows ? m->min_rows : rows;
}

/* What a chip does for an op. */
struct work {
    double flops;      /* that the model asks for */
    double paid_flops; /* that the array spends time on: padding, min_rows */
    double hbm_bytes;
    double flops_per_s;
};

static struct cost of_work(const struct machine_spec *m, struct work w)
{
    struct cost c = {.flops = w.flops, .hbm_bytes = w.hbm_bytes};
    double compute_ns = w.paid_flops / w.flops_per_s * 1e9;
    double hbm_ns = w.hbm_bytes / (m->hbm_bytes_per_s * m->hbm_efficiency) * 1e9;
    if (compute_ns > hbm_ns)
        c.ns[BOUND_COMPUTE] = compute_ns;
    else
        c.ns[BOUND_HBM] = hbm_ns;
    return c;
}

static double bf16_rate(const struct machine_spec *m)
{
    return m->bf16_flops * m->bf16_efficiency;
}

/* A BF16 matrix [n][k] times the chip's rows. */
static struct cost of_linear(const struct machine_spec *m, const struct prog_op *op)
{
    double elements = (double)op->n * op->k;
    return of_work(m, (struct work){.flops = 2 * op->rows * elements,
                                    .paid_flops = 2 * rows_paid(m, op->rows) * elements,
                                    .hbm_bytes = elements * BF16_BYTES,
                                    .flops_per_s = bf16_rate(m)});
}

static double padding(const struct machine_spec *m, uint32_t v)
{
    return (double)plan_pad(m, v) / v;
}

/* The matrices of `experts` experts, each read once, each with its share of the rows. */
static struct cost of_experts(const struct machine_spec *m, const struct program *p,
                              const struct prog_op *op)
{
    const struct model_shape *s = &p->shape;
    struct cost none = {0};
    if (op->experts <= 0) return none;
    double elements = (double)op->n * op->k;
    double padded = elements * padding(m, s->hidden) * padding(m, s->intermediate);
    double rows = op->experts * rows_paid(m, op->rows / op->experts);
    double element_bytes = plan_expert_element_bytes(s, m);
    bool mx = element_bytes < BF16_BYTES;
    return of_work(
        m, (struct work){.flops = 2 * op->rows * elements,
                         .paid_flops = 2 * rows * padded,
                         .hbm_bytes = op->experts * padded * element_bytes,
                         .flops_per_s = mx ? m->mx_flops * m->mx_efficiency : bf16_rate(m)});
}

/* Bytes of one token's keys and values in one layer, of the chip's heads. */
static double kv_bytes(const struct program *p)
{
    return (double)shape_kv_bytes_per_token_layer(&p->shape) / p->plan.attn_tp;
}

/* Two products of head_dim for each key and query head; each distinct key and value read once. */
static struct cost of_attention(const struct machine_spec *m, const struct program *p,
                                const struct prog_op *op)
{
    double flops = 4.0 * (double)op->kv_tokens * op->n;
    return of_work(m, (struct work){.flops = flops,
                                    .paid_flops = flops,
                                    .hbm_bytes = (double)op->kv_seq_tokens * kv_bytes(p),
                                    .flops_per_s = bf16_rate(m)});
}

/* Moves bytes, computes nothing to speak of. */
static struct cost of_move(const struct machine_spec *m, double bytes)
{
    return of_work(m, (struct work){.hbm_bytes = bytes, .flops_per_s = bf16_rate(m)});
}

static struct cost of_one_layer(const struct machine_spec *m, const struct program *p,
                                const struct prog_op *op, uint32_t first)
{
    struct cost none = {0};
    if (op_is_collective(op->kind)) return of_collective(m, p, op, first);
    if (!op->rows) return none;
    switch (op->kind) {
    case OP_EMBED:
        return of_move(m, (double)op->rows * op->n * BF16_BYTES);
    case OP_QKV:
    case OP_O_PROJ:
    case OP_ROUTE:
    case OP_LOGITS:
        return of_linear(m, op);
    case OP_EXPERTS_UP:
    case OP_EXPERTS_DOWN:
        return of_experts(m, p, op);
    case OP_ATTENTION:
        return of_attention(m, p, op);
    case OP_ROPE_KV:
        return of_move(m, op->rows * kv_bytes(p));
    default: /* norms: activations only */
        return none;
    }
}

static void add(struct cost *sum, const struct cost *c, double times)
{
    for (int b = 0; b < BOUNDS; b++) {
        sum->ns[b] += c->ns[b] * times;
        sum->total_ns += c->ns[b] * times;
    }
    sum->flops += c->flops * times;
    sum->hbm_bytes += c->hbm_bytes * times;
    for (int l = 0; l < LINK_LEVELS; l++)
        sum->link_bytes[l] += c->link_bytes[l] * times;
}

struct cost cost_op(const struct machine_spec *m, const struct program *p, const struct prog_op *op,
                    uint32_t first)
{
    struct cost one = of_one_layer(m, p, op, first), sum = {0};
    add(&sum, &one, op->repeat);
    return sum;
}

struct cost cost_step(const struct machine_spec *m, const struct program *p, uint32_t first)
{
    struct cost sum = {0}, fixed = {0};
    if (!p->rows) return sum;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        struct cost c = of_one_layer(m, p, &p->ops[i], first);
        add(&sum, &c, p->ops[i].repeat);
    }
    fixed.ns[BOUND_FIXED] = (double)m->layer_fixed_ns * p->shape.layers +
                            (double)m->seq_fixed_ns * p->seqs / p->plan.chips +
                            (double)m->step_fixed_ns;
    add(&sum, &fixed, 1);
    return sum;
}

double cost_joules(const struct machine_spec *m, double busy_decode_ns, double busy_prefill_ns,
                   double idle_ns)
{
    return m->tdp_watts * 1e-9 *
           (m->power_decode * busy_decode_ns + m->power_prefill * busy_prefill_ns +
            m->power_idle * idle_ns);
}
