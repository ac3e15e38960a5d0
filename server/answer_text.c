/* answer_text.c - choices of /v1/completions: the tokens' bytes, no harmony. */
#include "server/choice.h"

#include "base/utf8.h"

#include <string.h>

/* Whole characters of `bytes` and what waited before them, to the text. */
static bool add_bytes(struct choice *c, const char *bytes, size_t len, bool flush)
{
    struct buf text = {0};
    buf_add(&c->tail, bytes, len);
    size_t used = utf8_take(&text, c->tail.data, c->tail.len, flush);
    memmove(c->tail.data, c->tail.data + used, c->tail.len - used);
    c->tail.len -= used;
    bool found = text.len && choice_text(c, text.data, text.len);
    if (text.failed || c->tail.failed) c->answer->failed = true;
    buf_free(&text);
    return found;
}

static void echo_prompt(struct choice *c)
{
    const struct answer *a = c->answer;
    const struct tokens *p = &a->call->prompts[c->prompt];
    struct buf bytes = {0}, text = {0};
    for (uint32_t i = 0; i < p->n; i++) {
        uint32_t len;
        const char *s = tokenizer_bytes(a->service->tokenizer, p->ids[i], &len);
        if (!a->call->skip_special || !tokenizer_is_special(a->service->tokenizer, p->ids[i]))
            buf_add(&bytes, s, len);
    }
    if (bytes.len) utf8_take(&text, bytes.data, bytes.len, true);
    if (bytes.failed || text.failed) c->answer->failed = true;
    choice_delta(c, HARMONY_CONTENT, text.data, text.len);
    buf_free(&bytes);
    buf_free(&text);
}

static bool text_begin(struct choice *c)
{
    if (c->answer->call->echo) echo_prompt(c);
    return true;
}

static bool is_stop_id(const struct choice *c, uint32_t id)
{
    const struct harmony_ids *h = tokenizer_harmony(c->answer->service->tokenizer);
    const struct call *call = c->answer->call;
    return c->stop_token >= 0 || (!call->ignore_eos && c->tokens >= call->min_tokens &&
                                  (id == h->ret || id == h->call || id == h->endoftext));
}

static bool text_token(struct choice *c, const struct sampled *t)
{
    const struct call *call = c->answer->call;
    const struct tokenizer *tok = c->answer->service->tokenizer;
    if (is_stop_id(c, t->token) && !call->include_stop) return false;
    if (call->skip_special && tokenizer_is_special(tok, t->token)) return false;
    uint64_t before = c->seen, chars = c->chars;
    uint32_t len;
    const char *bytes = tokenizer_bytes(tok, t->token, &len);
    bool found = add_bytes(c, bytes, len, false);
    if (call->logprobs >= 0) choice_count(c, t, before, chars);
    return found;
}

static void text_flush(struct choice *c)
{
    if (c->tail.len && c->stop_string < 0) add_bytes(c, "", 0, true);
}

static const char *text_stop(struct choice *c)
{
    (void)c;
    return "stop";
}

static void add_logprobs(struct choice *c, struct buf *out)
{
    uint32_t n = logprobs_ready(&c->logprobs, c->passed, c->finish != NULL);
    if (c->answer->call->logprobs < 0) {
        buf_str(out, "\"logprobs\":null");
        return;
    }
    buf_str(out, "\"logprobs\":{");
    logprobs_text(&c->logprobs, n, c->answer->service->tokenizer, out);
    buf_char(out, '}');
    logprobs_drop(&c->logprobs, n);
}

static void text_frame(struct choice *c)
{
    struct buf *out = frame_open(c);
    buf_str(out, "\"text\":\"");
    buf_json(out, c->delta.data, c->delta.len);
    buf_str(out, "\",");
    add_logprobs(c, out);
    buf_str(out, ",\"finish_reason\":null");
    frame_close(c);
}

static void text_last_frame(struct choice *c)
{
    struct buf *out = frame_open(c);
    buf_str(out, "\"text\":\"\",");
    add_logprobs(c, out);
    buf_printf(out, ",\"finish_reason\":\"%s\"", c->finish);
    answer_stop_reason(c, out);
    frame_close(c);
}

static void text_object(struct choice *c, struct buf *out)
{
    buf_printf(out, "{\"index\":%u,\"text\":\"", c->index);
    if (c->content.len) buf_json(out, c->content.data, c->content.len);
    buf_str(out, "\",");
    add_logprobs(c, out);
    buf_printf(out, ",\"finish_reason\":\"%s\"", c->finish ? c->finish : "stop");
    answer_stop_reason(c, out);
    buf_char(out, '}');
}

const struct choice_ops choice_plain = {
    .object = "text_completion",
    .chunk = "text_completion",
    .begin = text_begin,
    .token = text_token,
    .flush = text_flush,
    .stop = text_stop,
    .frame = text_frame,
    .last_frame = text_last_frame,
    .object_choice = text_object,
};
