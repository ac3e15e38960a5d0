/* kv.c - what sequences hold of the two pools, and which blocks a known prefix can reuse. */
#include "engine/kv.h"

#include "engine/blocks.h"

#include <assert.h>
#include <stdlib.h>

struct kv {
    struct kv_options o;
    struct blocks *full, *slide;
};

struct kv *kv_new(const struct kv_options *o)
{
    assert(o->full_blocks && o->slide_blocks && o->window && o->block_tokens);
    struct kv *kv = calloc(1, sizeof *kv);
    if (!kv) return NULL;
    kv->o = *o;
    kv->full = blocks_new(o->full_blocks);
    kv->slide = blocks_new(o->slide_blocks);
    if (kv->full && kv->slide) return kv;
    kv_free(kv);
    return NULL;
}

void kv_free(struct kv *kv)
{
    if (!kv) return;
    blocks_free(kv->full);
    blocks_free(kv->slide);
    free(kv);
}

static uint64_t mix(uint64_t x, uint64_t y)
{
    unsigned __int128 m = (unsigned __int128)(x ^ 0x9e3779b97f4a7c15) * (y ^ 0xd6e8feb86659fd93);
    return (uint64_t)m ^ (uint64_t)(m >> 64);
}

static struct kv_hash hash_add(struct kv_hash h, uint64_t v)
{
    /* Two lanes that share no state: one fold of 64 bits is not enough to stand for equality. */
    return (struct kv_hash){mix(h.a + v, 0xa0761d6478bd642f ^ h.a),
                            mix(h.b ^ (v * 0x8ebc6af09c88c6e3), 0xe7037ed1a0b428db + h.b)};
}

void kv_hash_tokens(struct kv_seq *seq, const uint32_t *tokens, uint32_t n, uint32_t block_tokens,
                    uint64_t salt)
{
    for (uint32_t i = seq->n_hashes; i < n / block_tokens; i++) {
        struct kv_hash h = i ? seq->hashes[i - 1] : hash_add((struct kv_hash){1, 2}, salt);
        for (uint32_t t = 0; t < block_tokens; t++)
            h = hash_add(h, tokens[i * block_tokens + t]);
        seq->hashes[i] = h;
        seq->n_hashes = i + 1;
    }
}

/* The first block that the token at position n sees through the window. */
static uint32_t first_visible(const struct kv *kv, uint32_t n)
{
    return n < kv->o.window ? 0 : (n - kv->o.window + 1) / kv->o.block_tokens;
}

uint32_t kv_match(const struct kv *kv, const struct kv_seq *seq, uint32_t blocks)
{
    if (!kv->o.prefix_cache) return 0;
    if (blocks > seq->n_hashes) blocks = seq->n_hashes;
    uint32_t best = 0, slide_from = 0; /* slide blocks [slide_from, i] are there */
    for (uint32_t i = 0; i < blocks; i++) {
        if (blocks_find(kv->full, seq->hashes[i]) == BLOCK_NONE) break;
        if (blocks_find(kv->slide, seq->hashes[i]) == BLOCK_NONE) slide_from = i + 1;
        if (slide_from <= first_visible(kv, (i + 1) * kv->o.block_tokens)) best = i + 1;
    }
    return best;
}

void kv_attach(struct kv *kv, struct kv_seq *seq, uint32_t blocks)
{
    assert(!seq->n_full && seq->slide_first == seq->n_slide);
    for (uint32_t i = 0; i < blocks; i++) {
        uint32_t id = blocks_find(kv->full, seq->hashes[i]);
        assert(id != BLOCK_NONE);
        blocks_hold(kv->full, id);
        seq->full[i] = kv->o.first_full + id;
    }
    seq->slide_first = first_visible(kv, blocks * kv->o.block_tokens);
    for (uint32_t i = seq->slide_first; i < blocks; i++) {
        uint32_t id = blocks_find(kv->slide, seq->hashes[i]);
        assert(id != BLOCK_NONE);
        blocks_hold(kv->slide, id);
        seq->slide[i] = kv->o.first_slide + id;
    }
    seq->n_full = seq->n_slide = seq->n_named = blocks;
}

static uint32_t room(const struct blocks *p)
{
    struct kv_counts c = blocks_counts(p);
    return c.free + c.cached;
}

static uint32_t blocks_for(const struct kv *kv, uint32_t tokens)
{
    return tokens / kv->o.block_tokens + (tokens % kv->o.block_tokens != 0);
}

bool kv_grow(struct kv *kv, struct kv_seq *seq, uint32_t full_tokens, uint32_t slide_tokens)
{
    uint32_t full = blocks_for(kv, full_tokens), slide = blocks_for(kv, slide_tokens);
    if (full > seq->n_full && full - seq->n_full > room(kv->full)) return false;
    if (slide > seq->n_slide && slide - seq->n_slide > room(kv->slide)) return false;
    for (; seq->n_full < full; seq->n_full++)
        seq->full[seq->n_full] = kv->o.first_full + blocks_take(kv->full);
    for (; seq->n_slide < slide; seq->n_slide++)
        seq->slide[seq->n_slide] = kv->o.first_slide + blocks_take(kv->slide);
    return true;
}

void kv_commit(struct kv *kv, struct kv_seq *seq, uint32_t n)
{
    if (kv->o.prefix_cache) {
        for (; seq->n_named < n / kv->o.block_tokens; seq->n_named++) {
            uint32_t i = seq->n_named;
            assert(i < seq->n_hashes && i >= seq->slide_first);
            blocks_name(kv->full, seq->full[i] - kv->o.first_full, seq->hashes[i]);
            blocks_name(kv->slide, seq->slide[i] - kv->o.first_slide, seq->hashes[i]);
        }
    }
    uint32_t keep = first_visible(kv, n);
    for (; seq->slide_first < keep && seq->slide_first < seq->n_slide; seq->slide_first++)
        blocks_give(kv->slide, seq->slide[seq->slide_first] - kv->o.first_slide);
}

void kv_release(struct kv *kv, struct kv_seq *seq)
{
    /* The end first: of a prefix the beginning is what others can use, so it is evicted last. */
    while (seq->n_full)
        blocks_give(kv->full, seq->full[--seq->n_full] - kv->o.first_full);
    while (seq->n_slide > seq->slide_first)
        blocks_give(kv->slide, seq->slide[--seq->n_slide] - kv->o.first_slide);
    seq->slide_first = seq->n_slide = seq->n_named = 0;
}

uint32_t kv_room(const struct kv *kv)
{
    uint32_t full = room(kv->full), slide = room(kv->slide);
    return full < slide ? full : slide;
}

struct kv_counts kv_full(const struct kv *kv)
{
    return blocks_counts(kv->full);
}

struct kv_counts kv_slide(const struct kv *kv)
{
    return blocks_counts(kv->slide);
}
