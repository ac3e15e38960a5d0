/* program.c - names and sizes of ops, and how a program is printed. */
#include "device/program.h"

#include <inttypes.h>

static const struct {
    const char *name;
    enum prog_over over;
} kinds[] = {
    [OP_EMBED] = {"embed", OVER_CHIP},
    [OP_NORM] = {"norm", OVER_CHIP},
    [OP_QKV] = {"qkv", OVER_CHIP},
    [OP_ROPE_KV] = {"rope_kv", OVER_CHIP},
    [OP_ATTENTION] = {"attention", OVER_CHIP},
    [OP_O_PROJ] = {"o_proj", OVER_CHIP},
    [OP_ALL_REDUCE] = {"all_reduce", OVER_TP},
    [OP_ALL_GATHER] = {"all_gather", OVER_DP},
    [OP_ROUTE] = {"route", OVER_CHIP},
    [OP_EXPERTS_UP] = {"experts_up", OVER_CHIP},
    [OP_EXPERTS_DOWN] = {"experts_down", OVER_CHIP},
    [OP_COMBINE] = {"combine", OVER_REPLICA},
    [OP_HEAD_NORM] = {"head_norm", OVER_DP},
    [OP_LOGITS] = {"logits", OVER_CHIP},
    [OP_GATHER_LOGITS] = {"gather_logits", OVER_REPLICA},
};
#define KINDS (sizeof kinds / sizeof *kinds)

static const struct {
    const char *name;
    enum prog_dist dist;
} bufs[] = {
#define X(name, dist) [BUF_##name] = {#name, DIST_##dist},
    PROG_BUFS(X)
#undef X
};

const char *op_name(enum op_kind k)
{
    return (unsigned)k < KINDS ? kinds[k].name : "?";
}

const char *buf_name(enum prog_buf b)
{
    return (unsigned)b < BUF_COUNT ? bufs[b].name : "-";
}

enum prog_dist buf_dist(enum prog_buf b)
{
    return bufs[b].dist;
}

enum prog_over op_over(enum op_kind k)
{
    return kinds[k].over;
}

bool op_is_collective(enum op_kind k)
{
    return kinds[k].over != OVER_CHIP;
}

const char *dist_name(enum prog_dist d)
{
    static const char *const names[] = {"rows",  "all",  "heads", "partial",
                                        "slots", "acts", "vocab"};
    return (unsigned)d < sizeof names / sizeof *names ? names[d] : "?";
}

static uint32_t largest_moe_share(const struct program *p)
{
    uint32_t most = 0;
    for (uint32_t c = 0; c < p->plan.moe_tp; c++) {
        uint32_t n = plan_moe_columns(&p->plan, &p->shape, c).n;
        most = n > most ? n : most;
    }
    return most;
}

struct prog_size prog_op_size(const struct program *p, enum op_kind k)
{
    const struct model_shape *s = &p->shape;
    uint32_t D = s->hidden, tp = p->plan.attn_tp;
    uint32_t q = s->q_heads * s->head_dim / tp, kv = s->kv_heads * s->head_dim / tp;
    switch (k) {
    case OP_EMBED:
        return (struct prog_size){D, 0};
    case OP_QKV:
        return (struct prog_size){q + 2 * kv, D};
    case OP_ROPE_KV:
        return (struct prog_size){q + 2 * kv, q + 2 * kv};
    case OP_ATTENTION:
        return (struct prog_size){q, 2 * kv};
    case OP_O_PROJ:
        return (struct prog_size){D, q};
    case OP_ROUTE:
        return (struct prog_size){s->experts, D};
    case OP_EXPERTS_UP:
        return (struct prog_size){2 * largest_moe_share(p), D};
    case OP_EXPERTS_DOWN:
        return (struct prog_size){D, largest_moe_share(p)};
    case OP_LOGITS:
        return (struct prog_size){plan_vocab_rows(&p->plan, s, 0).n, D};
    case OP_GATHER_LOGITS:
        return (struct prog_size){s->vocab, plan_vocab_rows(&p->plan, s, 0).n};
    case OP_NORM:
    case OP_ALL_REDUCE:
    case OP_ALL_GATHER:
    case OP_COMBINE:
    case OP_HEAD_NORM:
        break;
    }
    return (struct prog_size){D, D};
}

struct prog_group prog_op_group(const struct plan *p, enum op_kind k)
{
    switch (kinds[k].over) {
    case OVER_TP:
        return (struct prog_group){p->attn_tp, 1};
    case OVER_DP:
        return (struct prog_group){p->attn_dp, p->attn_tp};
    case OVER_REPLICA:
        return (struct prog_group){p->chips, 1};
    case OVER_CHIP:
        break;
    }
    return (struct prog_group){0, 0};
}

static void print_op(const struct prog_op *op, FILE *out)
{
    char repeat[16] = "";
    if (op->repeat > 1) snprintf(repeat, sizeof repeat, "x%u", op->repeat);
    fprintf(out, "%5u %-4s %-7s %-13s %-10s %-10s %8u %8u %8u", op->layer, repeat,
            op->sliding ? "sliding" : "full", op_name(op->kind), buf_name(op->in),
            buf_name(op->out), op->rows, op->n, op->k);
    if (op_is_collective(op->kind))
        fprintf(out, "  group %u stride %u, %" PRIu64 " bytes", op->group, op->stride,
                op->link_bytes);
    if (op->kind == OP_ATTENTION)
        fprintf(out, "  keys %" PRIu64 ", distinct %" PRIu64, op->kv_tokens, op->kv_seq_tokens);
    if (op->kind == OP_EXPERTS_UP || op->kind == OP_EXPERTS_DOWN)
        fprintf(out, "  experts %.2f", op->experts);
    fputc('\n', out);
}

void prog_print(const struct program *p, FILE *out)
{
    char plan[PLAN_TEXT_BYTES];
    plan_text(&p->plan, plan);
    fprintf(out, "model %s, plan %s, rows %u (prefill %u), sequences %u, logit rows %u\n",
            p->shape.name, plan, p->rows, p->prefill_rows, p->seqs, p->logit_rows);
    fprintf(out, "%5s %-4s %-7s %-13s %-10s %-10s %8s %8s %8s\n", "layer", "", "kind", "op", "in",
            "out", "rows", "n", "k");
    for (uint32_t i = 0; i < p->n_ops; i++)
        print_op(&p->ops[i], out);
}
