/* vocab.h - a vocabulary as a model file gives it, before it becomes a tokenizer. */
#ifndef ENGINE_VOCAB_H
#define ENGINE_VOCAB_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOKEN_MAX_BYTES 512 /* a longer token is refused; the longest of o200k has 128 */

struct vocab_token {
    const char *bytes; /* raw bytes, not NUL-terminated; inside vocab.arena; NULL = unused id */
    uint32_t len;
    bool special; /* control token: never made from ordinary text, not text itself */
};

struct vocab {
    struct vocab_token *tokens; /* [n], index = id */
    uint32_t n;
    uint32_t (*merges)[2]; /* [n_merges] pairs of ids in order of priority; NULL: from ranks */
    uint32_t n_merges;
    char *arena; /* owns the bytes */
};

void vocab_free(struct vocab *v); /* frees the content and zeroes; the struct is the caller's */

/* Reads a Hugging Face tokenizer.json (BPE, byte level). `n_ids` is the model's vocabulary size:
 * ids beyond the file's stay unused. Errors name the key. */
enum err vocab_from_json(const char *path, uint32_t n_ids, struct vocab *out, struct error *e);
enum err vocab_from_json_text(const char *text, size_t len, uint32_t n_ids, struct vocab *out,
                              struct error *e);

/* The byte-level alphabet of GPT-2: text of code points -> bytes in `out` (at most `len` bytes; may
 * be `text` itself). Returns the number of bytes, or -1 when a code point is not of the alphabet.
 */
int vocab_bytes(const char *text, size_t len, char *out);

#endif
