/* tokenizer.c - text to ids and ids to bytes. */
#include "engine/tokenizer.h"
#include "engine/bpe.h"
#include "engine/presplit.h"
#include "engine/token_map.h"

#include <stdlib.h>
#include <string.h>

struct tokenizer {
    struct vocab vocab;
    struct token_map words, specials;
    bool *whole;      /* [vocab.n] merging the token's own bytes gives the token again */
    uint32_t longest; /* bytes of the longest ordinary token */
    bool special_length[TOKEN_MAX_BYTES + 1], special_start[256];
    struct bpe *bpe;
    struct harmony_ids harmony;
};

void tokens_add(struct tokens *t, uint32_t id)
{
    if (t->failed) return;
    if (t->n == t->cap) {
        uint32_t cap = t->cap ? t->cap * 2 : 64;
        uint32_t *p = cap > t->cap ? realloc(t->ids, cap * sizeof *p) : NULL;
        if (!p) {
            t->failed = true;
            return;
        }
        t->ids = p;
        t->cap = cap;
    }
    t->ids[t->n++] = id;
}

void tokens_free(struct tokens *t)
{
    free(t->ids);
    *t = (struct tokens){0};
}

static enum err find_harmony(struct tokenizer *t, struct error *e)
{
    struct harmony_ids *h = &t->harmony;
    const struct {
        const char *name;
        uint32_t *id;
    } wanted[] = {{"<|start|>", &h->start},         {"<|end|>", &h->end},
                  {"<|message|>", &h->message},     {"<|channel|>", &h->channel},
                  {"<|constrain|>", &h->constrain}, {"<|return|>", &h->ret},
                  {"<|call|>", &h->call},           {"<|endoftext|>", &h->endoftext}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        *wanted[i].id = token_map_find(&t->specials, wanted[i].name, strlen(wanted[i].name));
        if (*wanted[i].id == TOKEN_NONE)
            return err_set(e, ERR_PARSE, "the vocabulary has no special token %s", wanted[i].name);
    }
    return ERR_OK;
}

static enum err measure(struct tokenizer *t, struct error *e)
{
    for (uint32_t id = 0; id < t->vocab.n; id++) {
        const struct vocab_token *v = &t->vocab.tokens[id];
        if (!v->bytes) continue;
        if (v->len == 0 || v->len > TOKEN_MAX_BYTES)
            return err_set(e, ERR_PARSE, "token %u has %u bytes; allowed are 1 to %d", id, v->len,
                           TOKEN_MAX_BYTES);
        if (v->special) {
            t->special_length[v->len] = true;
            t->special_start[(unsigned char)v->bytes[0]] = true;
        } else if (v->len > t->longest) {
            t->longest = v->len;
        }
    }
    return ERR_OK;
}

/* Looking a whole piece up is a shortcut only where merging would end at the same token. */
static enum err find_whole(struct tokenizer *t, struct error *e)
{
    t->whole = calloc(t->vocab.n ? t->vocab.n : 1, sizeof *t->whole);
    struct tokens ids = {0};
    for (uint32_t id = 0; t->whole && id < t->vocab.n; id++) {
        const struct vocab_token *v = &t->vocab.tokens[id];
        if (!v->bytes || v->special) continue;
        ids.n = 0;
        bpe_encode(t->bpe, v->bytes, v->len, &ids);
        t->whole[id] = ids.n == 1 && ids.ids[0] == id;
    }
    bool failed = !t->whole || ids.failed;
    tokens_free(&ids);
    return failed ? err_set(e, ERR_NOMEM, "tokenizer of %u tokens", t->vocab.n) : ERR_OK;
}

static enum err build(struct tokenizer *t, struct error *e)
{
    if (measure(t, e) != ERR_OK) return ERR_PARSE;
    if (token_map_build(&t->words, &t->vocab, false) != ERR_OK ||
        token_map_build(&t->specials, &t->vocab, true) != ERR_OK)
        return err_set(e, ERR_NOMEM, "tokenizer of %u tokens", t->vocab.n);
    if (find_harmony(t, e) != ERR_OK) return ERR_PARSE;
    t->bpe = bpe_new(&t->vocab, &t->words, e);
    return t->bpe ? find_whole(t, e) : ERR_PARSE;
}

struct tokenizer *tokenizer_new(struct vocab *v, struct error *e)
{
    struct tokenizer *t = calloc(1, sizeof *t);
    if (!t) {
        err_set(e, ERR_NOMEM, "tokenizer");
        vocab_free(v);
        return NULL;
    }
    t->vocab = *v;
    *v = (struct vocab){0};
    if (build(t, e) == ERR_OK) return t;
    tokenizer_free(t);
    return NULL;
}

void tokenizer_free(struct tokenizer *t)
{
    if (!t) return;
    bpe_free(t->bpe);
    free(t->whole);
    token_map_free(&t->words);
    token_map_free(&t->specials);
    vocab_free(&t->vocab);
    free(t);
}

uint32_t tokenizer_size(const struct tokenizer *t)
{
    return t->vocab.n;
}

const struct harmony_ids *tokenizer_harmony(const struct tokenizer *t)
{
    return &t->harmony;
}

void tokenizer_encode(const struct tokenizer *t, const char *text, size_t len, struct tokens *out)
{
    for (size_t at = 0, end; at < len && !out->failed; at = end) {
        end = presplit_next(text, len, at);
        uint32_t id = TOKEN_NONE;
        if (end - at <= t->longest) id = token_map_find(&t->words, text + at, end - at);
        if (id != TOKEN_NONE && t->whole[id])
            tokens_add(out, id);
        else
            bpe_encode(t->bpe, text + at, end - at, out);
    }
}

/* The longest special token at the start of the text, or TOKEN_NONE. */
static uint32_t special_at(const struct tokenizer *t, const char *text, size_t len)
{
    if (!t->special_start[(unsigned char)text[0]]) return TOKEN_NONE;
    for (size_t n = len < TOKEN_MAX_BYTES ? len : TOKEN_MAX_BYTES; n > 0; n--) {
        if (!t->special_length[n]) continue;
        uint32_t id = token_map_find(&t->specials, text, n);
        if (id != TOKEN_NONE) return id;
    }
    return TOKEN_NONE;
}

void tokenizer_encode_special(const struct tokenizer *t, const char *text, size_t len,
                              struct tokens *out)
{
    size_t plain = 0;
    for (size_t at = 0; at < len;) {
        uint32_t id = special_at(t, text + at, len - at);
        if (id == TOKEN_NONE) {
            at++;
            continue;
        }
        tokenizer_encode(t, text + plain, at - plain, out);
        tokens_add(out, id);
        plain = at += t->vocab.tokens[id].len;
    }
    tokenizer_encode(t, text + plain, len - plain, out);
}

const char *tokenizer_bytes(const struct tokenizer *t, uint32_t id, uint32_t *len)
{
    const struct vocab_token *v = &t->vocab.tokens[id];
    *len = v->bytes ? v->len : 0;
    return v->bytes ? v->bytes : "";
}

bool tokenizer_is_special(const struct tokenizer *t, uint32_t id)
{
    return t->vocab.tokens[id].special;
}

bool tokenizer_is_used(const struct tokenizer *t, uint32_t id)
{
    return t->vocab.tokens[id].bytes != NULL;
}
