/* program.h - FRONT DOOR. One step of the model as a short list of ops for the chips of a replica:
 * the analogue of a compiled NEFF. cost.c prices it and never sees data; exec.c runs it and never
 * sees time. Printable, checkable.
 *
 * All chips of a replica run the same ops (SPMD). A buffer's `dist` says which part each chip has;
 * an op reads only what its chip has, and only a collective changes a distribution. prog_check()
 * proves that before anything runs. */
#ifndef DEVICE_PROGRAM_H
#define DEVICE_PROGRAM_H

#include "base/err.h"
#include "conf/shape.h"
#include "device/plan.h"

#include <stdio.h>

#define PROG_LAYER_OPS 20
#define PROG_MAX_OPS   (SHAPE_MAX_LAYERS * PROG_LAYER_OPS + 16)

enum prog_dist {
    DIST_ROWS,  /* the rows of the chip's data-parallel group, all columns; same on its tp chips */
    DIST_ALL,   /* all rows of the replica, all columns, on every chip */
    DIST_HEADS, /* rows of the dp group x columns of the chip's heads */
    DIST_PARTIAL, /* rows of the dp group; partial sums, one for each KV head of the chip */
    DIST_SLOTS,   /* expert outputs of the rows routed to the chip, in partials: its share of F */
    DIST_ACTS,    /* expert activations of the chip: rows routed to it x its share of F */
    DIST_VOCAB    /* rows that want logits x the chip's share of the vocabulary */
};

#define PROG_BUFS(X)                                                                               \
    X(X, ROWS)           /* residual stream [rows][D] */                                           \
    X(NORM, ROWS)        /* normed input of attention [rows][D] */                                 \
    X(Q, HEADS)          /* [rows][H*d] */                                                         \
    X(K, HEADS)          /* [rows][K*d] */                                                         \
    X(V, HEADS)          /* [rows][K*d] */                                                         \
    X(ATT, HEADS)        /* attention's output [rows][H*d] */                                      \
    X(OPART, PARTIAL)    /* o_proj partials [K][rows][D] */                                        \
    X(NORM2, ROWS)       /* normed input of the experts [rows][D] */                               \
    X(MOE_IN, ALL)       /* the same after the all-gather over dp */                               \
    X(ROUTE, ALL)        /* chosen experts and their weights [rows][A] */                          \
    X(ACT, ACTS)         /* swiglu(gate, up) [routed rows][F] */                                   \
    X(EXP, SLOTS)        /* expert outputs [parts][A * rows][D] */                                 \
    X(HEAD_IN, ALL)      /* normed last rows [logit rows][D] */                                    \
    X(LOGIT_PART, VOCAB) /* [logit rows][V / C] */                                                 \
    X(LOGITS, ALL)       /* [logit rows][V] */

#define X(name, dist) BUF_##name,
enum prog_buf { PROG_BUFS(X) BUF_COUNT, BUF_NONE = BUF_COUNT };
#undef X

/* rows x n x k of each kind, C the replica's chips (see struct prog_op):
 *   embed           dp rows     D             -
 *   norm            dp rows     D             D
 *   qkv             dp rows     (H+2K)d/tp    D
 *   rope_kv         dp rows     (H+2K)d/tp    the same
 *   attention       dp rows     H*d/tp        2K*d/tp, the numbers read for a key
 *   o_proj          dp rows     D             H*d/tp
 *   all_reduce      dp rows     D             D
 *   all_gather      rows        D             D
 *   route           rows        E             D
 *   experts_up      routed      2F/mtp        D
 *   experts_down    routed      D             F/mtp
 *   combine         rows        D             D
 *   head_norm       logit rows  D             D
 *   logits          logit rows  V/C           D
 *   gather_logits   logit rows  V             V/C */
enum op_kind {
    OP_EMBED,        /* X = embed[token] */
    OP_NORM,         /* in -> out, RMS over D */
    OP_QKV,          /* NORM -> Q, K, V with bias */
    OP_ROPE_KV,      /* rotates Q and K in place, writes K and V to the cache */
    OP_ATTENTION,    /* Q and the cache -> ATT */
    OP_O_PROJ,       /* ATT -> OPART, one partial for each KV head */
    OP_ALL_REDUCE,   /* OPART -> X: adds the partials in order, the bias, the residual (tp group) */
    OP_ALL_GATHER,   /* in -> out: rows of the dp groups to all chips of the replica */
    OP_ROUTE,        /* MOE_IN -> ROUTE */
    OP_EXPERTS_UP,   /* MOE_IN, ROUTE -> ACT: gate, up, swiglu */
    OP_EXPERTS_DOWN, /* ACT -> EXP */
    OP_COMBINE,   /* EXP -> X: slots in order, parts in order, biases, router weights (replica) */
    OP_HEAD_NORM, /* X -> HEAD_IN of the rows that want logits, gathered over dp */
    OP_LOGITS,    /* HEAD_IN -> LOGIT_PART */
    OP_GATHER_LOGITS /* LOGIT_PART -> LOGITS */
};
#define OP_COUNT (OP_GATHER_LOGITS + 1u)

/* The chips that an op runs over: its own, or the group of a collective. */
enum prog_over { OVER_CHIP, OVER_TP, OVER_DP, OVER_REPLICA };

/* Sizes are those of the busiest chip; counts are for ONE of the `repeat` layers. */
struct prog_op {
    enum op_kind kind;
    uint16_t layer;  /* the first layer it stands for */
    uint16_t repeat; /* how many equal layers: 1 in a program that is run */
    bool sliding;    /* attention: the layer has a window */
    enum prog_buf in, out;
    uint32_t rows; /* m: rows that this chip computes (experts: routed rows, expected or real) */
    uint32_t n, k; /* output and input columns of the chip's share; the largest where they differ */
    uint32_t group;         /* collectives: chips that take part */
    uint32_t stride;        /* collectives: chip number step inside the group (tp 1, dp attn_tp) */
    uint64_t link_bytes;    /* collectives: bytes that one chip sends */
    uint64_t kv_tokens;     /* attention: keys read, summed over rows */
    uint64_t kv_seq_tokens; /* attention: distinct keys read, summed over sequences */
    double experts;         /* distinct experts hit on the chip */
};

struct program {
    struct model_shape shape;
    struct plan plan;
    uint32_t rows, logit_rows, seqs; /* of the replica(s) the program is for */
    uint32_t prefill_rows;           /* rows of sequences with more than one row */
    uint32_t n_ops;
    struct prog_op ops[PROG_MAX_OPS];
};

const char *op_name(enum op_kind k);
const char *buf_name(enum prog_buf b);
enum prog_dist buf_dist(enum prog_buf b);
const char *dist_name(enum prog_dist d);
enum prog_over op_over(enum op_kind k);
bool op_is_collective(enum op_kind k);

/* What shape and plan make of a kind: n and k of the busiest chip, and the group of a collective
 * (0, 0 for the others). */
struct prog_size {
    uint32_t n, k;
};
struct prog_size prog_op_size(const struct program *p, enum op_kind k);
struct prog_group {
    uint32_t chips, stride;
};
struct prog_group prog_op_group(const struct plan *p, enum op_kind k);

/* ERR_OK, or ERR_INVAL and which op breaks which rule: every input was written before, with the
 * distribution that the op needs; only collectives change distributions; shapes agree with the
 * model and the plan; layers are complete and in order. */
enum err prog_check(const struct program *p, struct error *e);

/* One line an op, aligned columns; golden tests compare it. */
void prog_print(const struct program *p, FILE *out);

#endif
