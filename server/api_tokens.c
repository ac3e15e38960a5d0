/* api_tokens.c - POST /tokenize and /detokenize, in the shapes of vLLM and of llama-server. Source:
 * openai-api spec 5.4, 5.5. */
#include "server/api.h"
#include "server/job.h"
#include "server/logprobs.h"

#include "base/utf8.h"

#include <string.h>

static void print_tokens(const struct service *s, const struct tokens *ids, bool strings,
                         bool pieces, struct buf *out)
{
    buf_printf(out, "{\"count\":%u,\"max_model_len\":%u,\"tokens\":[", ids->n, s->max_context);
    for (uint32_t i = 0; i < ids->n; i++) {
        if (i) buf_char(out, ',');
        if (!pieces) {
            buf_printf(out, "%u", ids->ids[i]);
            continue;
        }
        buf_printf(out, "{\"id\":%u,\"piece\":", ids->ids[i]);
        token_text_json(out, s->tokenizer, ids->ids[i]);
        buf_char(out, '}');
    }
    buf_str(out, "],\"token_strs\":");
    buf_str(out, strings ? "[" : "null");
    for (uint32_t i = 0; strings && i < ids->n; i++) {
        if (i) buf_char(out, ',');
        token_text_json(out, s->tokenizer, ids->ids[i]);
    }
    buf_str(out, strings ? "]}" : "}");
    if (ids->failed) out->failed = true;
}

struct tokenize_fields {
    bool strings, pieces, parse_special;
};

static bool read_flags(const json_t *root, struct tokenize_fields *x, struct api_error *e)
{
    static const struct field rows[] = {
        {"return_token_strs", FIELD_BOOL, .offset = offsetof(struct tokenize_fields, strings)},
        {"with_pieces", FIELD_BOOL, .offset = offsetof(struct tokenize_fields, pieces)},
        {"parse_special", FIELD_BOOL, .offset = offsetof(struct tokenize_fields, parse_special)},
    };
    *x = (struct tokenize_fields){.parse_special = true};
    struct fields f = {.target = x, .err = e};
    return fields_read(&f, root, &(struct field_table){rows, sizeof rows / sizeof *rows}, 1);
}

static bool encode_text(const struct service *s, const json_t *root,
                        const struct tokenize_fields *x, struct tokens *ids, struct api_error *e)
{
    const json_t *text = json_object_get(root, "prompt");
    const char *name = text ? "prompt" : "content";
    if (!text) text = json_object_get(root, "content");
    if (!text || json_is_null(text))
        return api_fail(e, 400, "missing_required_parameter", "prompt",
                        "'prompt', 'content' or 'messages' is required.");
    if (!json_is_string(text)) return fields_bad_type(e, name, "a string", text);
    size_t len = json_string_length(text);
    if (x->parse_special)
        tokenizer_encode_special(s->tokenizer, json_string_value(text), len, ids);
    else
        tokenizer_encode(s->tokenizer, json_string_value(text), len, ids);
    return true;
}

static bool tokenize(const struct service *s, const char *body, size_t len, struct buf *out,
                     struct api_error *e)
{
    struct tokenize_fields x;
    struct tokens ids = {0};
    json_t *root = fields_parse(body, len, e);
    bool ok = root && call_check_model(root, s, e) && read_flags(root, &x, e);
    bool chat = ok && json_object_get(root, "messages");
    if (ok && !chat && encode_text(s, root, &x, &ids, e))
        print_tokens(s, &ids, x.strings, x.pieces, out);
    tokens_free(&ids);
    json_decref(root);
    if (chat) { /* exactly the prompt of a chat request with this body */
        struct call c;
        if (api_chat_parse(s, body, len, &c, e))
            print_tokens(s, &c.prompts[0], x.strings, x.pieces, out);
        call_free(&c);
    }
    return !e->status;
}

static bool decode(const struct service *s, const json_t *list, struct buf *bytes,
                   struct api_error *e)
{
    if (!list || json_is_null(list))
        return api_fail(e, 400, "missing_required_parameter", "tokens", "'tokens' is required.");
    if (!json_is_array(list)) return fields_bad_type(e, "tokens", "an array of token ids", list);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        int64_t id;
        if (!fields_integer(item, &id))
            return fields_bad_type(e, "tokens", "an array of token ids", item);
        if (id < 0 || id >= tokenizer_size(s->tokenizer))
            return api_fail(e, 400, "invalid_value", "tokens",
                            "'tokens[%zu]' must be from 0 to %u, not %lld.", i,
                            tokenizer_size(s->tokenizer) - 1, (long long)id);
        uint32_t len;
        const char *p = tokenizer_bytes(s->tokenizer, (uint32_t)id, &len);
        buf_add(bytes, p, len);
    }
    return true;
}

static bool detokenize(const struct service *s, const char *body, size_t len, struct buf *out,
                       struct api_error *e)
{
    struct buf bytes = {0}, text = {0};
    json_t *root = fields_parse(body, len, e);
    if (root && call_check_model(root, s, e) &&
        decode(s, json_object_get(root, "tokens"), &bytes, e)) {
        if (bytes.len) utf8_take(&text, bytes.data, bytes.len, true);
        static const char *const keys[] = {"{\"prompt\":\"", "\",\"content\":\""};
        for (int i = 0; i < 2; i++) {
            buf_str(out, keys[i]);
            if (text.len) buf_json(out, text.data, text.len);
        }
        buf_str(out, "\"}");
    }
    if (bytes.failed || text.failed) out->failed = true;
    buf_free(&bytes);
    buf_free(&text);
    json_decref(root);
    return !e->status;
}

void api_tokenize(struct app *a, struct http_req *r)
{
    job_start(a, r, tokenize);
}

void api_detokenize(struct app *a, struct http_req *r)
{
    job_start(a, r, detokenize);
}
