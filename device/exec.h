/* exec.h - the inside of the machine: the regions that stand for the chips' memories, and one
 * function for each kind of op. Private to machine.c and exec_*.c.
 *
 * A buffer that is the same on every chip has one host copy; the others have a region for each
 * share: heads by tp rank, activations by expert shard, logits by vocabulary share. An op reads
 * and writes whole shares; only collectives touch the regions of several. Rows of all replicas are
 * computed together: they share the weights. */
#ifndef DEVICE_EXEC_H
#define DEVICE_EXEC_H

#include "device/kernels.h"
#include "device/kvstore.h"
#include "device/machine.h"
#include "device/pool.h"

/* Work below this many multiply-adds stays on the caller: waking a thread costs more. */
#define EXEC_ALONE_MACS (1u << 20)
/* Outputs of one item of a linear, F rows of one item of the experts' gate and up. */
#define EXEC_LINEAR_OUTS 64
#define EXEC_EXPERT_OUTS 32
/* Rows that one item of gate and up takes at a time: its scratch. */
#define EXEC_EXPERT_ROWS 64

struct exec_item { /* outputs [out0, out1) of a job */
    uint32_t job, out0, out1;
};

struct exec_scratch { /* of one host thread */
    const float **k_blocks, **v_blocks;
    float *scores;    /* [g][max_positions] */
    float *gate, *up; /* [EXEC_EXPERT_ROWS][EXEC_EXPERT_OUTS] */
    void *memory;
    size_t bytes;
};

struct machine {
    const struct model_shape *shape;
    const struct model_weights *weights;
    const struct kernels *kernels;
    struct pool *pool;
    struct kvstore *kv;
    struct plan plan;
    uint32_t block_tokens, max_rows, max_logit_rows;
    uint32_t moe_parts;
    void *arena; /* all that follows */
    size_t arena_bytes;

    /* Replicated: [rows][D], [rows][E] */
    float *x, *norm, *norm2, *moe_in, *router, *head_in;
    float *rope_cos, *rope_sin; /* [rows][d / 2], concentration included */
    float *rope_inv;            /* [d / 2] */
    float rope_scale;           /* the concentration */
    float score_scale;          /* 1 / sqrt(d) */
    /* [tp][max_rows][heads of a rank * d] */
    float *q, *k, *v, *att;
    float *opart; /* [KV heads, or 1 when one rank has them all][max_rows][D] */
    /* Routed rows are grouped by expert, in order of rows. */
    uint32_t *expert;       /* [rows][A] */
    float *expert_weight;   /* [rows][A] */
    uint32_t *routed_index; /* [rows][A]: where that choice is among the routed rows */
    uint32_t *routed_row;   /* [routed rows] */
    uint32_t *expert_first; /* [E + 1] */
    float *act;             /* [moe_tp][max_rows * A][F of the shard] */
    float *exp;             /* [parts, or 1 when moe_tp is 1][max_rows * A][D] */
    float *logit_part;      /* [chips][max_logit_rows][vocabulary of the chip] */
    float *logits;          /* [logit rows][V]; one chip: the same memory as logit_part */
    uint32_t *logit_row;    /* [logit rows]: its row in the batch */
    uint32_t *logit_of_seq; /* [sequences]: its logit row, or UINT32_MAX */
    uint32_t logit_rows, seqs;
    uint32_t *head_border, *moe_border, *whole; /* of partials; whole = {0, D} */
    struct weight *down;                        /* [E]: the matrices of the layer's down jobs */
    struct linear_args *jobs;
    struct exec_item *items;
    struct exec_scratch *scratch; /* [threads] */
};

/* What an op function gets. */
struct exec {
    struct machine *m;
    const struct program *p;
    const struct batch *b;
    const struct prog_op *op;
    const struct layer_weights *layer;
};

typedef void exec_fn(const struct exec *x);
exec_fn exec_embed, exec_norm, exec_qkv, exec_rope_kv, exec_attention, exec_o_proj, exec_all_reduce,
    exec_all_gather, exec_route, exec_experts_up, exec_experts_down, exec_combine, exec_head_norm,
    exec_logits, exec_gather_logits;

/* Runs f(x, item, thread) for each item: on the pool if there is work for it, else here. */
typedef void exec_item_fn(const struct exec *x, uint32_t item, uint32_t thread);
void exec_each(const struct exec *x, exec_item_fn *f, uint32_t items, uint64_t macs);

/* Runs m->jobs[0 .. n): every output of every job. */
void exec_linears(const struct exec *x, uint32_t n);

/* Cuts [out0, out1) of a job into items of at most `outs`; returns how many items there are now. */
uint32_t exec_cut(struct exec_item *items, uint32_t n, struct exec_item whole, uint32_t outs);

/* Sizes the regions and takes their memory. */
enum err exec_arena(struct machine *m, struct error *e);
void exec_arena_free(struct machine *m);

/* inv[d / 2] and the concentration of RoPE with YaRN: gpt-oss spec 2.4. */
float exec_rope_table(const struct model_shape *s, float *inv);

/* Cosines and sines of the batch's positions, into m->rope_cos and rope_sin. */
void exec_rope_rows(struct machine *m, const struct batch *b);

#endif
