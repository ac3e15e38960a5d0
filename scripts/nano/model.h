/* Nano's shape, parameters and one pass of learning over a batch. */
#ifndef NANO_MODEL_H
#define NANO_MODEL_H
#include <stdint.h>

enum {
    HIDDEN = 128,
    LAYERS = 4,
    Q_HEADS = 4,
    KV_HEADS = 2,
    HEAD = 32,
    GROUP = Q_HEADS / KV_HEADS,
    QKV = (Q_HEADS + 2 * KV_HEADS) * HEAD,
    OUT = Q_HEADS * HEAD,
    EXPERTS = 8,
    INNER = 128,
    VOCAB = 640,
    WINDOW = 128,
    MAX_TOKENS = 8192, /* in a batch */
    MAX_CONTEXT = 1024 /* prefix and one talk */
};

/* Offsets into the flat array of parameters. gate_up holds the gate rows, then the up rows. */
struct layer_at {
    long norm1, norm2, qkv, qkv_bias, out, out_bias, sinks, router, router_bias;
    long gate_up, gate_up_bias, down, down_bias;
};
struct model {
    long embed, unembed, norm, total;
    struct layer_at layer[LAYERS];
    float *raw;  /* what the optimiser holds */
    float *used; /* what the pass computes with: experts may be rounded to MXFP4 */
    float *grad;
    uint8_t *decays; /* 1 for weights that shrink: matrices, not norms, biases or sinks */
};

/* A segment sees the tokens [prefix_from, prefix_to) and those of [from, to) before its own. */
struct segment {
    int32_t prefix_from, prefix_to, from, to;
};
struct batch {
    int32_t tokens, segments;
    int32_t *id, *target, *learn, *position;
    struct segment *segment;
};

struct model *model_new(uint64_t seed);

/* Fills m->used from m->raw, rounding the experts if `rounded`. */
void model_use(struct model *m, int rounded);

/* Mean loss over the tokens to learn; adds to m->grad unless it is NULL. */
double model_pass(struct model *m, const struct batch *b);

void *take_memory(long bytes); /* zeroed, aligned to 64, never freed; exits when there is none */

/* attention.c: one layer's attention over all segments. */
struct attention {
    const struct batch *batch;
    const float *qkv, *sinks;
    float *out, *log_sum; /* [tokens][OUT], [tokens][Q_HEADS] */
    int window;
};
void attention_forward(const struct attention *a);
void attention_backward(const struct attention *a, const float *dout, float *dqkv, float *dsinks);
void rope(float *qkv, const struct batch *b, int backward);

#endif
