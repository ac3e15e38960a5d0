/* vocab_gguf.h - the vocabulary inside a GGUF file. */
#ifndef ENGINE_VOCAB_GGUF_H
#define ENGINE_VOCAB_GGUF_H

#include "engine/gguf.h"
#include "engine/vocab.h"

/* Reads tokenizer.ggml.tokens, token_type and merges. `n_ids` is the model's vocabulary size: ids
 * beyond the file's stay unused. Errors name the key and the entry. Source: gpt-oss spec 4.6. */
enum err vocab_from_gguf(const struct gguf *g, uint32_t n_ids, struct vocab *out, struct error *e);

#endif
