/* kvstore.h - the KV memory of all replicas: f32 keys (rotated) and values in blocks of tokens.
 * Full and sliding layers have blocks of their own kind and ids of their own. A block holds, for
 * each layer of its kind and each KV head, [K|V][block_tokens][d]: a chip's share of a block is
 * its heads. The memory is reserved at once and taken on first use. */
#ifndef DEVICE_KVSTORE_H
#define DEVICE_KVSTORE_H

#include "conf/shape.h"

#include <stddef.h>

struct kvstore;

struct kvstore_options {
    const struct model_shape *shape; /* not kept */
    uint32_t block_tokens;
    uint32_t full_blocks, slide_blocks;
};

/* NULL: ERR_INVAL (no tokens a block), ERR_NOMEM. */
struct kvstore *kvstore_new(const struct kvstore_options *o, struct error *e);
void kvstore_free(struct kvstore *s);

/* [block_tokens][d] of one layer (of the model) and KV head. */
float *kvstore_k(const struct kvstore *s, uint32_t layer, uint32_t head, uint32_t block);
float *kvstore_v(const struct kvstore *s, uint32_t layer, uint32_t head, uint32_t block);

/* Blocks of full (false) or sliding layers: ids are below this. */
uint32_t kvstore_blocks(const struct kvstore *s, bool sliding);

#endif
