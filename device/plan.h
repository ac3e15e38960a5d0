/* plan.h - how a machine's chips are used: R replicas of C chips; inside a replica attention is
 * split by KV heads (attn_tp) and by sequences (attn_dp), experts by expert (ep) and by rows of the
 * intermediate dimension (moe_tp). attn_tp * attn_dp == C == ep * moe_tp. Pure functions.
 *
 * Numbering. Chip c of replica r is machine chip r * C + c. Its attention shard is c % attn_tp, its
 * data-parallel group c / attn_tp; its expert shard is c % moe_tp, its expert place c / moe_tp.
 * The vocabulary's rows are split evenly over all C chips (first chips take the remainder).
 *
 * Experts on places: with ep <= E place p holds experts [p*E/ep, (p+1)*E/ep). With ep > E ("wide")
 * place p holds a copy of expert p % E (the first experts get the copies that are left over; a row
 * of data-parallel group g uses copy g % copies). */
#ifndef DEVICE_PLAN_H
#define DEVICE_PLAN_H

#include "base/err.h"
#include "conf/machine.h"
#include "conf/shape.h"

#include <stddef.h>

/* Sums over a dimension that some plan may split are formed as these many partials, always: one a
 * KV head for attention's output, this many (or what F / 32 allows) for the expert's down
 * projection. So every plan adds the same numbers in the same order. */
#define PLAN_MOE_PARTS 8

struct plan {
    uint32_t replicas, chips; /* chips per replica */
    uint32_t attn_tp, attn_dp;
    uint32_t ep, moe_tp;
};

/* Fills what is 0 in *p from the shape: attn_tp the largest power of two that divides C and the KV
 * heads, attn_dp = C / attn_tp, ep = C where the experts allow it, else the largest divisor. Then
 * checks. ERR_INVAL names the rule and the numbers: more chips than the machine has, heads not
 * divisible, products that do not match, moe_tp not a power of two or above PLAN_MOE_PARTS. */
enum err plan_complete(struct plan *p, const struct model_shape *s, const struct machine_spec *m,
                       struct error *e);

/* "72x2" or "18x8:tp=8,dp=1,ep=8,mtp=1" into *p; missing parts stay 0. */
enum err plan_parse(struct plan *p, const char *text, struct error *e);

/* The whole plan in the same form, every part named. */
#define PLAN_TEXT_BYTES 80
void plan_text(const struct plan *p, char out[PLAN_TEXT_BYTES]);

/* Items first .. first + n - 1. */
struct plan_range {
    uint32_t first, n;
};

/* The KV heads, the experts, the columns of F, the rows of the vocabulary that chip c of a replica
 * (0 <= c < chips) holds. No range is empty, but the vocabulary's may be (more chips than rows). */
struct plan_range plan_kv_heads(const struct plan *p, const struct model_shape *s, uint32_t c);
struct plan_range plan_experts(const struct plan *p, const struct model_shape *s, uint32_t c);
struct plan_range plan_moe_columns(const struct plan *p, const struct model_shape *s, uint32_t c);
struct plan_range plan_vocab_rows(const struct plan *p, const struct model_shape *s, uint32_t c);

/* How many partials the down projection's sum is formed of: a power of two <= PLAN_MOE_PARTS and
 * <= F / 32; and the first input column of partial i (i == parts: F), a multiple of 32. */
uint32_t plan_moe_parts(const struct model_shape *s);
uint32_t plan_moe_border(const struct model_shape *s, uint32_t i);

/* v rounded up to a multiple of the machine's pad_to. */
uint64_t plan_pad(const struct machine_spec *m, uint64_t v);

/* Bytes of an expert's weights for one element of its matrices, as the machine stores them. */
double plan_expert_element_bytes(const struct model_shape *s, const struct machine_spec *m);

/* Bytes of weights on chip c of a replica as the machine stores them: MXFP4 stays packed where the
 * machine has an MX path, all else is BF16; experts are padded as it pads. Embedding rows, norms
 * and routers are on every chip. */
struct plan_weights {
    uint64_t embed, attention, router, experts, head; /* in bytes */
};
struct plan_weights plan_weights(const struct plan *p, const struct model_shape *s,
                                 const struct machine_spec *m, uint32_t c);
uint64_t plan_weight_bytes(const struct plan *p, const struct model_shape *s,
                           const struct machine_spec *m, uint32_t c);

/* KV bytes that one token adds to the busiest chip, full layers only; and the bytes a sequence's
 * sliding layers take there at most. */
uint64_t plan_kv_token_bytes(const struct plan *p, const struct model_shape *s);
uint64_t plan_kv_window_bytes(const struct plan *p, const struct model_shape *s);

/* Tokens of context that the KV share of a replica's HBM holds (its sequences together), full
 * layers only: whoever admits sequences takes plan_kv_window_bytes for each from the same share.
 * ERR_RANGE with both numbers when the weights alone do not fit. */
enum err plan_kv_capacity(const struct plan *p, const struct model_shape *s,
                          const struct machine_spec *m, uint64_t *tokens, struct error *e);

#endif
