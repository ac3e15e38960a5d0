/* vocab_gguf.c - tokens, their types and merges from GGUF's arrays. */
#include "engine/vocab_gguf.h"
#include "engine/token_map.h"

#include <stdlib.h>
#include <string.h>

#define TOKENS "tokenizer.ggml.tokens"
#define TYPES  "tokenizer.ggml.token_type"
#define MERGES "tokenizer.ggml.merges"

enum { TYPE_NORMAL = 1, TYPE_CONTROL = 3, TYPE_USER = 4 }; /* others are never text: unused */

struct source {
    const struct gguf_pair *tokens, *types, *merges; /* the last two may be NULL */
};

static enum err find_array(const struct gguf *g, const char *key, bool strings,
                           const struct gguf_pair **out, struct error *e)
{
    *out = gguf_find(g, key);
    if (!*out) return ERR_NOTFOUND;
    enum gguf_type t = (*out)->type;
    bool fits = strings ? t == GGUF_STRING : t != GGUF_STRING && t != GGUF_F32 && t != GGUF_F64;
    if ((*out)->is_array && fits) return ERR_OK;
    err_set(e, ERR_INVAL, "%s: an array of %s is expected", key,
            strings ? "strings" : "whole numbers");
    return ERR_INVAL;
}

static enum err find_source(const struct gguf *g, uint32_t n_ids, struct source *s, struct error *e)
{
    struct gguf_string model = {"gpt2", 4};
    enum err rc = gguf_text(g, "tokenizer.ggml.model", &model, e);
    if (rc && rc != ERR_NOTFOUND) return rc;
    if (model.len != 4 || memcmp(model.text, "gpt2", 4) != 0) {
        err_set(e, ERR_UNSUPPORTED, "tokenizer.ggml.model is %.*s, must be gpt2",
                (int)(model.len < 40 ? model.len : 40), model.text);
        return ERR_UNSUPPORTED;
    }
    rc = find_array(g, TOKENS, true, &s->tokens, e);
    if (rc == ERR_NOTFOUND) {
        err_set(e, rc, TOKENS " is missing");
        return rc;
    }
    if (!rc) rc = find_array(g, TYPES, false, &s->types, e);
    if (!rc || rc == ERR_NOTFOUND) rc = find_array(g, MERGES, true, &s->merges, e);
    if (rc && rc != ERR_NOTFOUND) return rc;
    if (s->tokens->n > n_ids)
        return err_set(e, ERR_INVAL, TOKENS " has %llu entries, the model has ids below %u",
                       (unsigned long long)s->tokens->n, n_ids);
    if (s->types && s->types->n != s->tokens->n)
        return err_set(e, ERR_INVAL, TYPES " has %llu entries for %llu tokens",
                       (unsigned long long)s->types->n, (unsigned long long)s->tokens->n);
    if (s->merges && s->merges->n > UINT32_MAX)
        return err_set(e, ERR_INVAL, MERGES " has too many entries");
    return ERR_OK;
}

/* Some converters mark the control tokens as ordinary ones. */
static bool is_harmony(struct gguf_string s)
{
    static const char *const names[] = {"<|start|>",   "<|end|>",       "<|message|>",
                                        "<|channel|>", "<|constrain|>", "<|return|>",
                                        "<|call|>",    "<|endoftext|>", "<|startoftext|>"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (s.len == strlen(names[i]) && !memcmp(s.text, names[i], s.len)) return true;
    return false;
}

static enum err read_tokens(const struct source *s, struct vocab *v, struct error *e)
{
    const uint8_t *at = s->tokens->value, *type_at = s->types ? s->types->value : NULL;
    char *arena = v->arena;
    for (uint32_t id = 0; id < (uint32_t)s->tokens->n; id++) {
        struct gguf_string text = gguf_next_string(&at);
        int64_t type = type_at ? gguf_next_int(s->types, &type_at) : TYPE_NORMAL;
        bool special = type == TYPE_CONTROL || type == TYPE_USER || is_harmony(text);
        if (!special && type != TYPE_NORMAL) continue;
        if (text.len == 0 || text.len > 4 * TOKEN_MAX_BYTES)
            return err_set(e, ERR_PARSE, TOKENS "[%u] has %zu bytes", id, text.len);
        int n = (int)text.len;
        if (special)
            memcpy(arena, text.text, text.len);
        else
            n = vocab_bytes(text.text, text.len, arena);
        if (n <= 0)
            return err_set(e, ERR_PARSE, TOKENS "[%u] is not in the byte-level alphabet", id);
        v->tokens[id] = (struct vocab_token){arena, (uint32_t)n, special};
        arena += n;
    }
    return ERR_OK;
}

/* The id of a token from its byte-level text; TOKEN_NONE if there is none. */
static uint32_t find_token(const struct token_map *words, const char *text, size_t len)
{
    char bytes[4 * TOKEN_MAX_BYTES];
    if (len > sizeof bytes) return TOKEN_NONE;
    int n = vocab_bytes(text, len, bytes);
    return n > 0 ? token_map_find(words, bytes, (uint32_t)n) : TOKEN_NONE;
}

static enum err read_merges(const struct source *s, struct vocab *v, struct error *e)
{
    if (!s->merges || s->merges->n == 0) return ERR_OK;
    struct token_map words = {0};
    v->merges = malloc((size_t)s->merges->n * sizeof *v->merges);
    enum err rc = v->merges ? token_map_build(&words, v, false) : ERR_NOMEM;
    if (rc) err_set(e, rc, MERGES ": out of memory");
    const uint8_t *at = s->merges->value;
    for (uint32_t i = 0; !rc && i < (uint32_t)s->merges->n; i++) {
        struct gguf_string m = gguf_next_string(&at);
        const char *space = memchr(m.text, ' ', m.len);
        size_t left = space ? (size_t)(space - m.text) : m.len;
        v->merges[i][0] = find_token(&words, m.text, left);
        v->merges[i][1] = space ? find_token(&words, space + 1, m.len - left - 1) : TOKEN_NONE;
        if (v->merges[i][0] == TOKEN_NONE || v->merges[i][1] == TOKEN_NONE)
            rc = err_set(e, ERR_PARSE, MERGES "[%u] \"%.*s\" is not a pair of tokens", i,
                         (int)(m.len < 80 ? m.len : 80), m.text);
    }
    v->n_merges = rc ? 0 : (uint32_t)s->merges->n;
    token_map_free(&words);
    return rc;
}

enum err vocab_from_gguf(const struct gguf *g, uint32_t n_ids, struct vocab *out, struct error *e)
{
    struct source s = {0};
    *out = (struct vocab){0};
    enum err rc = find_source(g, n_ids, &s, e);
    if (rc) return rc;
    out->n = n_ids;
    out->tokens = calloc(n_ids ? n_ids : 1, sizeof *out->tokens);
    /* a token is never longer than its text, and the texts lie between these two places */
    out->arena = malloc((size_t)(s.tokens->value_end - s.tokens->value) + 1);
    if (!out->tokens || !out->arena) {
        vocab_free(out);
        return err_set(e, ERR_NOMEM, "%u tokens: out of memory", n_ids);
    }
    rc = read_tokens(&s, out, e);
    if (!rc) rc = read_merges(&s, out, e);
    if (rc) vocab_free(out);
    return rc;
}
