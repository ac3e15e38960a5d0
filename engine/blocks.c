/* blocks.c - reference counts, a stack of free blocks, an LRU list of cached ones, a hash table. */
#include "engine/blocks.h"

#include <assert.h>
#include <stdlib.h>

struct block {
    struct kv_hash hash;
    uint32_t refs;
    uint32_t prev, next; /* in the LRU list: cached blocks only */
    uint32_t chain;      /* next block of the same bucket: named blocks only */
    bool named;
};

struct blocks {
    uint32_t total, touched, n_free, used, cached;
    uint32_t bucket_mask;
    uint32_t *free_ids; /* a stack of blocks that were touched and have no name */
    uint32_t *buckets;
    struct block *blocks; /* [total + 1]; the last is the LRU list's head */
};

struct blocks *blocks_new(uint32_t blocks)
{
    struct blocks *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    uint32_t buckets = 16;
    while (buckets < blocks && buckets < 1u << 30)
        buckets *= 2;
    p->total = blocks;
    p->bucket_mask = buckets - 1;
    p->free_ids = calloc(blocks, sizeof *p->free_ids);
    p->buckets = calloc(buckets, sizeof *p->buckets);
    p->blocks = calloc((size_t)blocks + 1, sizeof *p->blocks);
    if (!p->free_ids || !p->buckets || !p->blocks) {
        blocks_free(p);
        return NULL;
    }
    for (uint32_t i = 0; i < buckets; i++)
        p->buckets[i] = BLOCK_NONE;
    p->blocks[blocks].prev = p->blocks[blocks].next = blocks;
    return p;
}

void blocks_free(struct blocks *p)
{
    if (!p) return;
    free(p->free_ids);
    free(p->buckets);
    free(p->blocks);
    free(p);
}

static bool same(struct kv_hash x, struct kv_hash y)
{
    return x.a == y.a && x.b == y.b;
}

static void lru_unlink(struct blocks *p, uint32_t id)
{
    struct block *b = &p->blocks[id];
    p->blocks[b->prev].next = b->next;
    p->blocks[b->next].prev = b->prev;
    p->cached--;
}

static void lru_append(struct blocks *p, uint32_t id)
{
    struct block *b = &p->blocks[id];
    b->next = p->total;
    b->prev = p->blocks[p->total].prev;
    p->blocks[b->prev].next = id;
    p->blocks[p->total].prev = id;
    p->cached++;
}

static void unname(struct blocks *p, uint32_t id)
{
    uint32_t *at = &p->buckets[p->blocks[id].hash.a & p->bucket_mask];
    while (*at != id)
        at = &p->blocks[*at].chain;
    *at = p->blocks[id].chain;
    p->blocks[id].named = false;
}

/* The order is kv.h's. */
static uint32_t pick(struct blocks *p)
{
    if (p->n_free) return p->free_ids[--p->n_free];
    bool untouched = p->touched < p->total;
    if (untouched && (p->touched < p->total / 8 || !p->cached)) return p->touched++;
    if (!p->cached) return BLOCK_NONE;
    uint32_t id = p->blocks[p->total].next;
    lru_unlink(p, id);
    unname(p, id);
    return id;
}

uint32_t blocks_take(struct blocks *p)
{
    uint32_t id = pick(p);
    if (id == BLOCK_NONE) return BLOCK_NONE;
    p->blocks[id].refs = 1;
    p->used++;
    return id;
}

void blocks_hold(struct blocks *p, uint32_t id)
{
    struct block *b = &p->blocks[id];
    assert(b->refs || b->named);
    if (!b->refs++) {
        lru_unlink(p, id);
        p->used++;
    }
}

void blocks_give(struct blocks *p, uint32_t id)
{
    struct block *b = &p->blocks[id];
    assert(b->refs);
    if (--b->refs) return;
    p->used--;
    if (b->named)
        lru_append(p, id);
    else
        p->free_ids[p->n_free++] = id;
}

uint32_t blocks_find(const struct blocks *p, struct kv_hash h)
{
    uint32_t id = p->buckets[h.a & p->bucket_mask];
    while (id != BLOCK_NONE && !same(p->blocks[id].hash, h))
        id = p->blocks[id].chain;
    return id;
}

void blocks_name(struct blocks *p, uint32_t id, struct kv_hash h)
{
    struct block *b = &p->blocks[id];
    if (b->named || blocks_find(p, h) != BLOCK_NONE) return;
    uint32_t *bucket = &p->buckets[h.a & p->bucket_mask];
    b->hash = h;
    b->named = true;
    b->chain = *bucket;
    *bucket = id;
}

struct kv_counts blocks_counts(const struct blocks *p)
{
    return (struct kv_counts){.total = p->total,
                              .used = p->used,
                              .cached = p->cached,
                              .free = p->n_free + (p->total - p->touched),
                              .touched = p->touched};
}
