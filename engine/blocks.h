/* blocks.h - equal blocks with reference counts, some of them findable by the hash of their
 * content. What kv.c is made of: one pool for each kind of block. */
#ifndef ENGINE_BLOCKS_H
#define ENGINE_BLOCKS_H

#include "engine/kv.h"

#define BLOCK_NONE UINT32_MAX

struct blocks;

struct blocks *blocks_new(uint32_t blocks); /* NULL: no memory */
void blocks_free(struct blocks *p);

uint32_t blocks_take(struct blocks *p);          /* referenced once; BLOCK_NONE: full */
void blocks_hold(struct blocks *p, uint32_t id); /* one reference more */
void blocks_give(struct blocks *p, uint32_t id); /* one less */
uint32_t blocks_find(const struct blocks *p, struct kv_hash h);    /* BLOCK_NONE: not there */
void blocks_name(struct blocks *p, uint32_t id, struct kv_hash h); /* no effect if h has a block */
struct kv_counts blocks_counts(const struct blocks *p);

#endif
