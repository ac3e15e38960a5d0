/* vocab_json.c - a Hugging Face tokenizer.json as a vocabulary. */
#include "base/buf.h"
#include "engine/vocab.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    json_t *vocab, *merges, *added; /* borrowed from the document */
    struct vocab *out;
    char *free_bytes; /* the unused end of the arena */
    struct error *e;
};

/* Finds what is read and refuses what would be read wrongly. */
static enum err sections(struct reader *r, const json_t *root)
{
    const json_t *model = json_object_get(root, "model");
    if (!json_is_object(model))
        return err_set(r->e, ERR_PARSE, "tokenizer: key \"model\" is missing or no object");
    const char *type = json_string_value(json_object_get(model, "type"));
    if (type && strcmp(type, "BPE") != 0)
        return err_set(r->e, ERR_UNSUPPORTED, "tokenizer: model.type is \"%.40s\", must be \"BPE\"",
                       type);
    if (json_is_true(json_object_get(model, "byte_fallback")))
        return err_set(r->e, ERR_UNSUPPORTED, "tokenizer: model.byte_fallback must be false");
    r->vocab = json_object_get(model, "vocab");
    if (!json_is_object(r->vocab))
        return err_set(r->e, ERR_PARSE, "tokenizer: key \"model.vocab\" is missing or no object");
    r->merges = json_object_get(model, "merges");
    if (r->merges && !json_is_array(r->merges))
        return err_set(r->e, ERR_PARSE, "tokenizer: key \"model.merges\" is no array");
    r->added = json_object_get(root, "added_tokens");
    if (r->added && !json_is_array(r->added))
        return err_set(r->e, ERR_PARSE, "tokenizer: key \"added_tokens\" is no array");
    return ERR_OK;
}

/* One arena for all bytes: a token is never longer than its text. */
static enum err make_room(struct reader *r, uint32_t n_ids)
{
    size_t bytes = 1, i;
    const char *key;
    json_t *v;
    json_object_foreach(r->vocab, key, v) bytes += strlen(key);
    json_array_foreach(r->added, i, v) bytes += json_string_length(json_object_get(v, "content"));
    struct vocab *o = r->out;
    o->n = n_ids;
    o->arena = r->free_bytes = malloc(bytes);
    o->tokens = calloc(n_ids ? n_ids : 1, sizeof *o->tokens);
    size_t n_merges = json_array_size(r->merges);
    if (n_merges) o->merges = malloc(n_merges * sizeof *o->merges);
    if (!o->arena || !o->tokens || (n_merges && !o->merges))
        return err_set(r->e, ERR_NOMEM, "tokenizer: %u tokens, %zu merges", n_ids, n_merges);
    return ERR_OK;
}

static enum err check_id(struct reader *r, const json_t *id, const char *where, const char *token)
{
    if (!json_is_integer(id))
        return err_set(r->e, ERR_PARSE, "tokenizer: %s \"%.40s\" has no integer id", where, token);
    json_int_t v = json_integer_value(id);
    if (v < 0 || v >= (json_int_t)r->out->n)
        return err_set(r->e, ERR_PARSE,
                       "tokenizer: %s \"%.40s\" has id %lld, the model has ids below %u", where,
                       token, (long long)v, r->out->n);
    return ERR_OK;
}

static enum err read_vocab(struct reader *r)
{
    const char *key;
    json_t *id;
    json_object_foreach(r->vocab, key, id)
    {
        enum err rc = check_id(r, id, "model.vocab", key);
        if (rc != ERR_OK) return rc;
        struct vocab_token *t = &r->out->tokens[json_integer_value(id)];
        if (t->bytes)
            return err_set(r->e, ERR_PARSE, "tokenizer: model.vocab has id %lld twice (\"%.40s\")",
                           (long long)json_integer_value(id), key);
        int n = vocab_bytes(key, strlen(key), r->free_bytes);
        if (n < 0) continue; /* not byte level: only right if it is an added token, checked later */
        if (n == 0) return err_set(r->e, ERR_PARSE, "tokenizer: model.vocab has an empty token");
        *t = (struct vocab_token){r->free_bytes, (uint32_t)n, false};
        r->free_bytes += n;
    }
    return ERR_OK;
}

/* Added tokens are literal text and may repeat an entry of model.vocab. */
static enum err read_added(struct reader *r)
{
    size_t i;
    json_t *v;
    json_array_foreach(r->added, i, v)
    {
        const json_t *content = json_object_get(v, "content");
        size_t len = json_string_length(content);
        if (!json_is_string(content) || len == 0)
            return err_set(r->e, ERR_PARSE, "tokenizer: added_tokens[%zu].content is no text", i);
        const json_t *id = json_object_get(v, "id");
        enum err rc = check_id(r, id, "added_tokens", json_string_value(content));
        if (rc != ERR_OK) return rc;
        memcpy(r->free_bytes, json_string_value(content), len);
        r->out->tokens[json_integer_value(id)] = (struct vocab_token){
            r->free_bytes, (uint32_t)len, !json_is_false(json_object_get(v, "special"))};
        r->free_bytes += len;
    }
    return ERR_OK;
}

static enum err check_alphabet(struct reader *r)
{
    const char *key;
    json_t *id;
    json_object_foreach(r->vocab, key,
                        id) if (!r->out->tokens[json_integer_value(id)]
                                     .bytes) return err_set(r->e, ERR_PARSE,
                                                            "tokenizer: model.vocab \"%.40s\" is "
                                                            "not in the byte-level alphabet",
                                                            key);
    return ERR_OK;
}

static bool merge_part(const struct reader *r, const char *text, uint32_t *id)
{
    const json_t *v = text ? json_object_get(r->vocab, text) : NULL;
    if (!v) return false;
    *id = (uint32_t)json_integer_value(v);
    return true;
}

/* A merge is ["a", "b"], in older files "a b". */
static bool read_merge(const struct reader *r, const json_t *m, uint32_t ids[2])
{
    if (json_is_array(m))
        return json_array_size(m) == 2 &&
               merge_part(r, json_string_value(json_array_get(m, 0)), &ids[0]) &&
               merge_part(r, json_string_value(json_array_get(m, 1)), &ids[1]);
    char left[4 * TOKEN_MAX_BYTES];
    const char *text = json_string_value(m), *space = text ? strchr(text, ' ') : NULL;
    if (!space || (size_t)(space - text) >= sizeof left) return false;
    memcpy(left, text, (size_t)(space - text));
    left[space - text] = 0;
    return merge_part(r, left, &ids[0]) && merge_part(r, space + 1, &ids[1]);
}

static enum err read_merges(struct reader *r)
{
    size_t i;
    json_t *m;
    json_array_foreach(r->merges, i, m) if (!read_merge(r, m, r->out->merges[i])) return err_set(
        r->e, ERR_PARSE, "tokenizer: model.merges[%zu] is not a pair of tokens of model.vocab", i);
    r->out->n_merges = (uint32_t)json_array_size(r->merges);
    return ERR_OK;
}

enum err vocab_from_json_text(const char *text, size_t len, uint32_t n_ids, struct vocab *out,
                              struct error *e)
{
    *out = (struct vocab){0};
    json_error_t je;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &je);
    if (!root)
        return err_set(e, ERR_PARSE, "tokenizer: line %d column %d: %s", je.line, je.column,
                       je.text);
    struct reader r = {.out = out, .e = e};
    enum err rc = sections(&r, root);
    if (rc == ERR_OK) rc = make_room(&r, n_ids);
    if (rc == ERR_OK) rc = read_vocab(&r);
    if (rc == ERR_OK) rc = read_added(&r);
    if (rc == ERR_OK) rc = check_alphabet(&r);
    if (rc == ERR_OK) rc = read_merges(&r);
    json_decref(root);
    if (rc != ERR_OK) vocab_free(out);
    return rc;
}

static enum err read_file(const char *path, struct buf *out, struct error *e)
{
    FILE *f = fopen(path, "rb");
    if (!f) return err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
    char chunk[1 << 16];
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, f)) > 0;)
        buf_add(out, chunk, n);
    bool bad = ferror(f);
    fclose(f);
    if (bad) return err_set(e, ERR_IO, "%s: cannot be read", path);
    return out->failed ? err_set(e, ERR_NOMEM, "%s: too large", path) : ERR_OK;
}

enum err vocab_from_json(const char *path, uint32_t n_ids, struct vocab *out, struct error *e)
{
    *out = (struct vocab){0};
    struct buf text = {0};
    enum err rc = read_file(path, &text, e);
    if (rc == ERR_OK) {
        struct error inner = {0};
        rc = vocab_from_json_text(text.data ? text.data : "", text.len, n_ids, out, &inner);
        if (rc != ERR_OK) err_set(e, rc, "%s: %s", path, inner.text);
    }
    buf_free(&text);
    return rc;
}
