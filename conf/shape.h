/* shape.h - the shape of a GPT-OSS-class model: plain data, no weights. It comes from a model file
 * (config.json, GGUF metadata) or from conf/models/NAME.conf. */
#ifndef CONF_SHAPE_H
#define CONF_SHAPE_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

#define SHAPE_MAX_LAYERS 256

/* How numbers lie in memory. Bytes of a row of n elements: dtype_row_bytes(). */
enum dtype {
    DT_F32,
    DT_F16,
    DT_BF16,
    DT_Q8_0,      /* ggml: 34 bytes for 32 elements: f16 scale, 32 int8 */
    DT_MXFP4,     /* HF: 16 bytes for 32 elements, byte k = elements 2k, 2k+1; E8M0 scales apart */
    DT_MXFP4_GGML /* ggml: 17 bytes: E8M0 scale, then byte k = elements k, k+16 */
};

struct model_shape { /* in brackets gpt-oss-120b; source: its config.json */
    char name[64];
    uint32_t layers;                /* [36] at most SHAPE_MAX_LAYERS */
    uint32_t hidden;                /* D [2880] */
    uint32_t q_heads;               /* H [64] */
    uint32_t kv_heads;              /* K [8], divides q_heads */
    uint32_t head_dim;              /* d [64], even */
    uint32_t experts;               /* E [128] */
    uint32_t experts_per_token;     /* A [4] */
    uint32_t intermediate;          /* F [2880] */
    uint32_t vocab;                 /* V [201088] */
    uint32_t window;                /* keys a sliding layer sees, the token's own included [128] */
    uint32_t max_positions;         /* [131072] */
    float rms_eps;                  /* [1e-5] */
    double rope_theta;              /* [150000] */
    double rope_factor;             /* YaRN; <= 1: plain RoPE [32] */
    double rope_beta_fast;          /* [32] */
    double rope_beta_slow;          /* [1] */
    uint32_t rope_original;         /* L0 [4096] */
    bool rope_truncate;             /* round the correction bounds [false] */
    float swiglu_alpha;             /* [1.702] */
    float swiglu_limit;             /* [7] */
    enum dtype dense_type;          /* attention, embedding, head, as stored [BF16] */
    enum dtype expert_type;         /* gate, up, down [MXFP4] */
    bool sliding[SHAPE_MAX_LAYERS]; /* [even layers] */
};

/* ERR_INVAL or ERR_RANGE and a message that names the field, when the constraints of the
 * architecture do not hold (gpt-oss spec 1.4): H % K == 0, d even, 1 <= A <= E, D % 32 == 0,
 * F % 32 == 0, no zero dimension, upper bounds that keep every product within 63 bits. */
enum err shape_check(const struct model_shape *s, struct error *e);

/* Bytes of n elements in a row; n must be a multiple of 32 for the block types. For DT_MXFP4 the
 * scales are not counted: dtype_scale_bytes(). */
uint64_t dtype_row_bytes(enum dtype t, uint64_t n);
uint64_t dtype_scale_bytes(enum dtype t, uint64_t n); /* 0 except for DT_MXFP4 */
const char *dtype_name(enum dtype t);

/* Sums over the shape, in elements or bytes, as stored. Used for HBM accounts and prices. */
uint64_t shape_kv_bytes_per_token_layer(const struct model_shape *s); /* K and V in BF16 */
uint32_t shape_full_layers(const struct model_shape *s);              /* layers without a window */

/* Reads a shape: a name that conf_find(CONF_SHAPE) knows, or a path. Errors name file, line and
 * rule. shape_load_file takes a path only. */
enum err shape_load(struct model_shape *s, const char *name, struct error *e);
enum err shape_load_file(struct model_shape *s, const char *path, struct error *e);

#endif
