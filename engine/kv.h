/* kv.h - the key/value blocks of one data-parallel group of one replica: lent to sequences, kept as
 * a prefix cache when they come back. Pure bookkeeping, no data: the numbers live in the machine.
 * One thread, the engine's, owns it; lending takes no heap.
 *
 * There are two kinds of blocks. A full block holds block_tokens positions of all layers without a
 * window; a sequence keeps one for each started block of its length. A slide block holds the same
 * of the layers with a window; a sequence keeps only those that its next token can still see.
 *
 * A block is free, used (lent to at least one sequence) or cached (lent to nobody, its content
 * known by the hash of all tokens up to its end). free + cached + used = total, always. A block is
 * looked for in this order: given back without a hash; never touched, as long as fewer than an
 * eighth were; the cached one that lay unused longest; never touched. So a small load keeps the
 * host's memory small.
 */
#ifndef ENGINE_KV_H
#define ENGINE_KV_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct kv;

struct kv_options {
    uint32_t full_blocks, slide_blocks; /* at least 1 */
    uint32_t first_full, first_slide;   /* the machine's ids of this group's first blocks */
    uint32_t block_tokens;              /* a power of two */
    uint32_t window;                    /* keys a sliding layer sees */
    bool prefix_cache;
};

/* Names the content of a block: its own tokens and all before them. 128 bits, so that a chance
 * collision needs 2^64 blocks. */
struct kv_hash {
    uint64_t a, b;
};

/* What a sequence holds. The arrays are the sequence's owner's, zeroed at first, and have room for
 * every block of its longest length. */
struct kv_seq {
    uint32_t *full, *slide; /* the machine's block ids; slide: valid from slide_first on */
    struct kv_hash *hashes; /* of complete blocks */
    uint32_t n_hashes;
    uint32_t n_full;               /* full blocks held: [0, n_full) */
    uint32_t slide_first, n_slide; /* slide blocks held: [slide_first, n_slide) */
    uint32_t n_named;              /* blocks known to the prefix cache: [0, n_named) */
};

struct kv_counts {
    uint32_t total, used, cached, free, touched;
};

struct kv *kv_new(const struct kv_options *o); /* NULL: no memory */
void kv_free(struct kv *kv);

/* Extends seq->hashes to all complete blocks of tokens[0..n). */
void kv_hash_tokens(struct kv_seq *seq, const uint32_t *tokens, uint32_t n, uint32_t block_tokens,
                    uint64_t salt);

/* How many of the first `blocks` blocks the cache can provide: all their full blocks, and the slide
 * blocks that the first token after them sees. 0 without prefix cache. */
uint32_t kv_match(const struct kv *kv, const struct kv_seq *seq, uint32_t blocks);

/* Lends the `blocks` blocks that kv_match just found to a sequence that holds none. */
void kv_attach(struct kv *kv, struct kv_seq *seq, uint32_t blocks);

/* Lends what is missing for positions [0, full_tokens) of the full layers and [.., slide_tokens) of
 * the sliding ones: all of it or nothing (false). */
bool kv_grow(struct kv *kv, struct kv_seq *seq, uint32_t full_tokens, uint32_t slide_tokens);

/* The first n tokens are computed: names the complete blocks (hashes must reach so far), and takes
 * back the slide blocks that the next token cannot see. */
void kv_commit(struct kv *kv, struct kv_seq *seq, uint32_t n);

/* Takes everything back; the hashes stay. */
void kv_release(struct kv *kv, struct kv_seq *seq);

/* Blocks that could be lent of either kind: free and cached. */
uint32_t kv_room(const struct kv *kv);
struct kv_counts kv_full(const struct kv *kv);
struct kv_counts kv_slide(const struct kv *kv);

#endif
