/* tokenizer.h - bytes <-> token ids: byte-level BPE with the o200k pre-tokenizer, exact for
 * o200k_harmony. Immutable after tokenizer_new: every thread may use it. Bytes, not strings: a
 * token may be half a character. */
#ifndef ENGINE_TOKENIZER_H
#define ENGINE_TOKENIZER_H

#include "base/err.h"
#include "engine/vocab.h"

#include <stdint.h>

struct tokenizer;

/* The ids of harmony's control tokens in this vocabulary. */
struct harmony_ids {
    uint32_t start, end, message, channel, constrain, ret, call, endoftext;
};

/* Takes the vocabulary over, even on failure. NULL: ERR_NOMEM, ERR_PARSE (a merge that makes no
 * token, a byte without a token, a harmony token missing) and a message that names it. */
struct tokenizer *tokenizer_new(struct vocab *v, struct error *e);
void tokenizer_free(struct tokenizer *t);

uint32_t tokenizer_size(const struct tokenizer *t);
const struct harmony_ids *tokenizer_harmony(const struct tokenizer *t);

/* A growable list of ids; owned by whoever declares it. */
struct tokens {
    uint32_t *ids;
    uint32_t n, cap;
    bool failed; /* out of memory: content incomplete */
};
void tokens_add(struct tokens *t, uint32_t id);
void tokens_free(struct tokens *t);

/* Appends the ids of the text. "<|start|>" in it is plain text: never a special id. Ill-formed
 * UTF-8: each maximal ill-formed subpart is a piece of its own, as raw bytes. O(n log n). */
void tokenizer_encode(const struct tokenizer *t, const char *text, size_t len, struct tokens *out);

/* The same, but special-token strings become their ids (raw completions only). */
void tokenizer_encode_special(const struct tokenizer *t, const char *text, size_t len,
                              struct tokens *out);

/* The bytes of a token: specials give their name ("<|end|>"), unused ids nothing. `id` must be
 * below tokenizer_size(). */
const char *tokenizer_bytes(const struct tokenizer *t, uint32_t id, uint32_t *len);
bool tokenizer_is_special(const struct tokenizer *t, uint32_t id);
/* Ids that may be sampled: those with a token behind them. */
bool tokenizer_is_used(const struct tokenizer *t, uint32_t id);

#endif
