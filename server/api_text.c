/* api_text.c - the body of POST /v1/completions: raw text in and out, no harmony. Special tokens
 * in a string prompt become their ids, so that a client can render harmony by hand.
 * Source: openai-api spec 3. */
#include "server/call.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_CHOICES 1024

#define AT(member) .offset = offsetof(struct call, member)

static bool check_best_of(struct fields *f, const char *name, const json_t *v)
{
    int64_t i;
    if (!fields_integer(v, &i)) return fields_bad_type(f->err, name, "an integer", v);
    const struct call *c = f->target;
    return i == 1 || i == c->n ||
           api_fail(f->err, 400, "unsupported_value", name,
                    "'%s' must be 1 or equal to 'n' (%lld), not %lld.", name, (long long)c->n,
                    (long long)i);
}

static struct field_table text_rows(void)
{
    static const struct field rows[] = {
        {"max_tokens", FIELD_INT, 0, INFINITY, AT(max_tokens)},
        {"logprobs", FIELD_INT, 0, SAMPLE_MAX_TOP, AT(logprobs)},
        {"echo", FIELD_BOOL, AT(echo)},
        {"skip_special_tokens", FIELD_BOOL, AT(skip_special)},
        {"best_of", FIELD_CUSTOM, .set = check_best_of},
        FIELD_ROW_NEUTRAL("suffix", 0),
        FIELD_ROW_ANY("prompt"),
        FIELD_ROW_ANY("add_special_tokens"), /* there is none to add */
    };
    return (struct field_table){rows, sizeof rows / sizeof *rows};
}

static bool read_ids(const struct service *s, const char *path, const json_t *v, struct tokens *out,
                     struct api_error *e)
{
    size_t n = json_array_size(v);
    if (!n) return api_fail(e, 400, "empty_array", path, "'%s' must not be empty.", path);
    if (n > s->max_context) return call_check_bytes(n * s->longest_token, s, "prompt", e);
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(v, i);
        int64_t id;
        if (!fields_integer(item, &id))
            return fields_bad_type(e, "prompt", "a string, strings, token ids or lists of them",
                                   item);
        if (id < 0 || id >= tokenizer_size(s->tokenizer))
            return api_fail(e, 400, "invalid_value", "prompt",
                            "'%s[%zu]' must be a token id from 0 to %u, not %lld.", path, i,
                            tokenizer_size(s->tokenizer) - 1, (long long)id);
        tokens_add(out, (uint32_t)id);
    }
    return true;
}

static bool read_text(const struct service *s, const char *path, const json_t *v,
                      struct tokens *out, struct api_error *e)
{
    size_t len = json_string_length(v);
    if (!len)
        return api_fail(e, 400, "invalid_value", path, "'%s' must not be an empty string.", path);
    if (!call_check_bytes(len, s, "prompt", e)) return false;
    tokenizer_encode_special(s->tokenizer, json_string_value(v), len, out);
    return true;
}

static bool read_one(const struct service *s, const char *path, const json_t *v, struct tokens *out,
                     struct api_error *e)
{
    if (json_is_string(v)) return read_text(s, path, v, out, e);
    if (json_is_array(v)) return read_ids(s, path, v, out, e);
    return fields_bad_type(e, "prompt", "a string, strings, token ids or lists of them", v);
}

static bool read_prompt(const struct service *s, struct call *c, const json_t *v,
                        struct api_error *e)
{
    if (!v || json_is_null(v))
        return api_fail(e, 400, "missing_required_parameter", "prompt", "'prompt' is required.");
    /* an array of ids is one prompt; of anything else, one prompt each */
    bool batch = json_is_array(v) && !json_is_number(json_array_get(v, 0));
    size_t n = batch ? json_array_size(v) : 1;
    if (!n) return api_fail(e, 400, "empty_array", "prompt", "'prompt' must not be empty.");
    if (n > CALL_MAX_PROMPTS)
        return api_fail(e, 400, "array_above_max_length", "prompt",
                        "'prompt' has %zu entries; at most %d are allowed.", n, CALL_MAX_PROMPTS);
    if (n * (size_t)c->n > MAX_CHOICES)
        return api_fail(e, 400, "invalid_value", "n",
                        "%zu prompts times 'n' of %lld are more than %d choices.", n,
                        (long long)c->n, MAX_CHOICES);
    c->prompts = arena_alloc(&c->arena, n, sizeof *c->prompts);
    if (!c->prompts) return api_fail_err(e, ERR_NOMEM, NULL, NULL);
    c->n_prompts = (uint32_t)n;
    if (!batch) return read_one(s, "prompt", v, &c->prompts[0], e);
    bool texts = json_is_string(json_array_get(v, 0));
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(v, i);
        char path[32];
        snprintf(path, sizeof path, "prompt[%zu]", i);
        if (texts ? !json_is_string(item) : !json_is_array(item))
            return fields_bad_type(e, path, texts ? "a string like the first" : "a list of ids",
                                   item);
        if (!read_one(s, path, item, &c->prompts[i], e)) return false;
    }
    return true;
}

static bool parse(const struct service *s, const json_t *root, struct call *c, struct api_error *e)
{
    const struct field_table tables[] = {call_rows(), text_rows()};
    struct fields f = {.target = c, .arg = s, .err = e};
    if (!call_check_model(root, s, e) || !fields_read(&f, root, tables, 2) || !call_check(c, e))
        return false;
    c->unknown_fields = f.unknown;
    if (c->echo && c->logprobs >= 0)
        return api_fail(e, 400, "unsupported_value", "logprobs",
                        "'logprobs' with 'echo' would need the prompt's own, which this server "
                        "does not compute.");
    return read_prompt(s, c, json_object_get(root, "prompt"), e) &&
           call_check_context(c, s, "prompt", e);
}

bool api_text_parse(const struct service *s, const char *body, size_t len, struct call *out,
                    struct api_error *e)
{
    call_init(out, CALL_TEXT, s);
    json_t *root = fields_parse(body, len, e);
    if (!root) return false;
    bool ok = parse(s, root, out, e);
    json_decref(root);
    return ok;
}
