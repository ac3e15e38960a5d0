/* byte_vocab.h - a small vocabulary for tests: the 256 bytes (id = byte), a few merges, the harmony
 * tokens and one reserved id. */
#ifndef TESTS_BYTE_VOCAB_H
#define TESTS_BYTE_VOCAB_H

#include "engine/tokenizer.h"

#include <stdlib.h>
#include <string.h>

static const char *const byte_vocab_words[] = {"th",  "the", " the", "aa",      "aaaa", "he",
                                               "ell", "el",  "hell", "hello",   "  ",   "\n\n",
                                               "'s",  "12",  "123",  "\xC3\xA9"};
static const char *const byte_vocab_specials[] = {"<|start|>",   "<|end|>",       "<|message|>",
                                                  "<|channel|>", "<|constrain|>", "<|return|>",
                                                  "<|call|>",    "<|endoftext|>", "<|reserved|>"};
enum {
    BYTE_VOCAB_WORDS = sizeof byte_vocab_words / sizeof *byte_vocab_words,
    BYTE_VOCAB_SPECIALS = sizeof byte_vocab_specials / sizeof *byte_vocab_specials,
    BYTE_VOCAB_UNUSED = 256 + BYTE_VOCAB_WORDS + BYTE_VOCAB_SPECIALS, /* an id without a token */
    BYTE_VOCAB_SIZE
};

static inline void byte_vocab_put(struct vocab *v, char **at, const char *s, uint32_t len)
{
    memcpy(*at, s, len);
    v->tokens[v->n++] = (struct vocab_token){*at, len, len > 2 && memcmp(s, "<|", 2) == 0};
    *at += len;
}

static inline struct vocab byte_vocab(void)
{
    struct vocab v = {.tokens = calloc(BYTE_VOCAB_SIZE, sizeof *v.tokens), .arena = malloc(1024)};
    if (!v.tokens || !v.arena) abort();
    char *at = v.arena;
    for (int c = 0; c < 256; c++)
        byte_vocab_put(&v, &at, &(char){(char)c}, 1);
    for (int i = 0; i < BYTE_VOCAB_WORDS; i++)
        byte_vocab_put(&v, &at, byte_vocab_words[i], (uint32_t)strlen(byte_vocab_words[i]));
    for (int i = 0; i < BYTE_VOCAB_SPECIALS; i++)
        byte_vocab_put(&v, &at, byte_vocab_specials[i], (uint32_t)strlen(byte_vocab_specials[i]));
    v.n = BYTE_VOCAB_SIZE;
    return v;
}

static inline struct tokenizer *byte_tokenizer(void)
{
    struct vocab v = byte_vocab();
    struct tokenizer *t = tokenizer_new(&v, NULL);
    if (!t) abort();
    return t;
}

#endif
