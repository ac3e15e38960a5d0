/* logprobs.h - log probabilities of tokens, handed out together with the text they made. */
#ifndef SERVER_LOGPROBS_H
#define SERVER_LOGPROBS_H

#include "base/buf.h"
#include "engine/engine.h"
#include "engine/tokenizer.h"

struct logprobs_entry {
    struct sampled token;
    uint64_t start, end; /* the text's bytes that it is part of */
    uint64_t chars;      /* characters before it */
};

struct logprobs { /* waiting for their text; starts as {0} */
    struct logprobs_entry *list;
    uint32_t n, cap;
    bool failed;
};

void logprobs_add(struct logprobs *l, const struct logprobs_entry *e);
void logprobs_free(struct logprobs *l);

/* How many entries from the front have all their text within the first `bytes`; with `last` those
 * that have any of it. */
uint32_t logprobs_ready(const struct logprobs *l, uint64_t bytes, bool last);
void logprobs_drop(struct logprobs *l, uint32_t n); /* from the front */

/* The first n entries: chat as the elements of "content":[...]; text as the members tokens,
 * token_logprobs, top_logprobs, text_offset. */
void logprobs_chat(const struct logprobs *l, uint32_t n, const struct tokenizer *t,
                   struct buf *out);
void logprobs_text(const struct logprobs *l, uint32_t n, const struct tokenizer *t,
                   struct buf *out);

/* A token's text as a JSON string, its quotes included; half characters are U+FFFD. */
void token_text_json(struct buf *out, const struct tokenizer *t, uint32_t id);

#endif
