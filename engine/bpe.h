/* bpe.h - byte-pair merging of one piece: always the merge of lowest priority number first, the
 * leftmost on a tie. Source: gpt-oss spec section 4.4. Immutable after bpe_new. */
#ifndef ENGINE_BPE_H
#define ENGINE_BPE_H

#include "engine/token_map.h"
#include "engine/tokenizer.h"

struct bpe;

/* Takes the merges of the vocabulary in their order; without any, every way to cut a token into two
 * tokens is a merge and the lower id goes first. NULL: ERR_NOMEM, ERR_PARSE (a merge that makes no
 * token, a byte without a token). Keeps no pointer to its arguments. */
struct bpe *bpe_new(const struct vocab *v, const struct token_map *words, struct error *e);
void bpe_free(struct bpe *b);

/* Appends the ids of the piece. O(n log n). */
void bpe_encode(const struct bpe *b, const char *piece, size_t n, struct tokens *out);

#endif
