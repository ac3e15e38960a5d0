/* weights.h - a model's weights as views of the file they lie in: nothing here owns memory. The
 * loader (engine/model.h) keeps the mapping and the converted vectors alive. */
#ifndef DEVICE_WEIGHTS_H
#define DEVICE_WEIGHTS_H

#include "conf/shape.h"

#include <stddef.h>

/* A matrix [rows][cols]; y = W x. Row r is at data + r * row_step_bytes, its E8M0 scales (DT_MXFP4
 * only) at scales + r * scale_step_bytes. The steps may exceed the row's bytes: gate and up rows
 * are interleaved in the HF files. No alignment is promised. */
struct weight {
    enum dtype type;
    const uint8_t *data, *scales;
    uint32_t rows, cols;
    size_t row_step_bytes, scale_step_bytes;
};

/* One matrix for each expert. */
struct weight_stack {
    struct weight first;
    uint32_t n;
    size_t step_bytes, scale_step_bytes; /* from one expert to the next */
};

static inline struct weight weight_at(const struct weight_stack *s, uint32_t i)
{
    struct weight w = s->first;
    w.data += i * s->step_bytes;
    if (w.scales) w.scales += i * s->scale_step_bytes;
    return w;
}

struct layer_weights {        /* D hidden, H query heads, K KV heads, d head_dim, E, F */
    const float *attn_norm;   /* [D] */
    struct weight q, k, v, o; /* [H*d][D], [K*d][D], [K*d][D], [D][H*d] */
    const float *q_bias, *k_bias, *v_bias, *o_bias;
    const float *sinks;                 /* [H] */
    const float *mlp_norm;              /* [D] */
    struct weight router;               /* [E][D] */
    const float *router_bias;           /* [E] */
    struct weight_stack gate, up, down; /* E of [F][D], [F][D], [D][F] */
    const float *gate_bias, *up_bias;   /* [E][F] */
    const float *down_bias;             /* [E][D] */
};

struct model_weights {
    struct weight embed, head; /* [V][D] */
    const float *final_norm;   /* [D] */
    uint32_t n_layers;
    const struct layer_weights *layers;
};

#endif
