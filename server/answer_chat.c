/* answer_chat.c - choices of /v1/chat/completions. */
#include "server/choice.h"

#include <stdlib.h>
#include <string.h>

/* The deltas of one token may end the choice; the parser's callback cannot say so itself. */
static void on_delta(void *arg, const struct harmony_delta *d);

static bool chat_begin(struct choice *c)
{
    const struct call *call = c->answer->call;
    struct harmony_parser_options o = {
        .tools = call->tools, .n_tools = call->n_tools, .emit = on_delta, .arg = c};
    c->parser = harmony_parser_new(c->answer->service->tokenizer, &o);
    return c->parser != NULL;
}

/* "call_" and 24 letters and digits: unique per call, and the same in a replay. */
static void make_call_id(struct choice *c, char out[32])
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    uint64_t z = c->answer->seed + ((uint64_t)c->index << 32) + c->n_calls + 1;
    memcpy(out, "call_", 5);
    for (int i = 5; i < 29; i++) {
        z += 0x9E3779B97F4A7C15ull; /* splitmix64 */
        uint64_t x = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
        x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
        out[i] = letters[(x ^ (x >> 31)) % 62];
    }
    out[29] = 0;
}

static void begin_frame(struct choice *c)
{
    if (c->begun) return;
    c->begun = true;
    buf_str(frame_open(c), "\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
                           "\"logprobs\":null,\"finish_reason\":null");
    frame_close(c);
}

static void call_frame(struct choice *c)
{
    const struct answer_call *call = &c->calls[c->n_calls - 1];
    begin_frame(c);
    struct buf *out = frame_open(c);
    buf_printf(out,
               "\"delta\":{\"tool_calls\":[{\"index\":%u,\"id\":\"%s\",\"type\":\"function\","
               "\"function\":{\"name\":\"",
               c->n_calls - 1, call->id);
    buf_json(out, call->name.data, call->name.len);
    buf_str(out, "\",\"arguments\":\"\"}}]},\"logprobs\":null,\"finish_reason\":null");
    frame_close(c);
}

static void begin_call(struct choice *c, const char *name, size_t len)
{
    choice_emit(c);
    struct answer_call *p = realloc(c->calls, (c->n_calls + 1) * sizeof *p);
    if (!p) {
        c->answer->failed = true;
        return;
    }
    c->calls = p;
    p = &c->calls[c->n_calls];
    *p = (struct answer_call){0};
    make_call_id(c, p->id);
    buf_add(&p->name, name, len);
    c->n_calls++;
    if (c->answer->call->stream) call_frame(c);
}

static void on_delta(void *arg, const struct harmony_delta *d)
{
    struct choice *c = arg;
    if (c->finish) return;
    switch (d->kind) {
    case HARMONY_CONTENT:
        choice_text(c, d->text, d->len);
        break;
    case HARMONY_REASONING:
        if (c->answer->call->include_reasoning) choice_delta(c, HARMONY_REASONING, d->text, d->len);
        break;
    case HARMONY_CALL_BEGIN:
        begin_call(c, d->text, d->len);
        break;
    case HARMONY_CALL_TEXT:
        choice_delta(c, HARMONY_CALL_TEXT, d->text, d->len);
        break;
    case HARMONY_CALL_END:
        choice_emit(c);
        break;
    }
}

static bool chat_token(struct choice *c, const struct sampled *t)
{
    const struct answer *a = c->answer;
    if (a->call->stream) begin_frame(c);
    /* a word that the client stops at is not part of the text; a control token must be seen */
    bool hidden = c->stop_token >= 0 && !tokenizer_is_special(a->service->tokenizer, t->token);
    if (hidden && !a->call->include_stop) return false;
    uint64_t before = c->seen, chars = c->chars;
    bool over = harmony_feed(c->parser, t->token);
    if (a->call->logprobs >= 0 && harmony_place(c->parser) == PLACE_CONTENT)
        choice_count(c, t, before, chars);
    if (c->stop_string >= 0) return true;
    return over && !a->call->ignore_eos && c->tokens >= a->call->min_tokens;
}

static void chat_flush(struct choice *c)
{
    harmony_finish(c->parser);
}

static const char *chat_stop(struct choice *c)
{
    return harmony_calls(c->parser) && c->stop_string < 0 ? "tool_calls" : "stop";
}

/* "logprobs":... of the text that was let through so far. */
static void add_logprobs(struct choice *c, struct buf *out)
{
    uint32_t n = logprobs_ready(&c->logprobs, c->passed, c->finish != NULL);
    if (!n) {
        buf_str(out, "\"logprobs\":null");
        return;
    }
    buf_str(out, "\"logprobs\":{\"content\":[");
    logprobs_chat(&c->logprobs, n, c->answer->service->tokenizer, out);
    buf_str(out, "],\"refusal\":null}");
    logprobs_drop(&c->logprobs, n);
}

static void chat_frame(struct choice *c)
{
    begin_frame(c);
    struct buf *out = frame_open(c);
    if (c->kind == HARMONY_REASONING) {
        buf_str(out, "\"delta\":{\"reasoning\":\"");
        buf_json(out, c->delta.data, c->delta.len);
        buf_str(out, "\",\"reasoning_content\":\"");
        buf_json(out, c->delta.data, c->delta.len);
        buf_str(out, "\"},\"logprobs\":null");
    } else if (c->kind == HARMONY_CALL_TEXT) {
        buf_printf(out, "\"delta\":{\"tool_calls\":[{\"index\":%u,\"function\":{\"arguments\":\"",
                   c->n_calls ? c->n_calls - 1 : 0);
        buf_json(out, c->delta.data, c->delta.len);
        buf_str(out, "\"}}]},\"logprobs\":null");
    } else {
        buf_str(out, "\"delta\":{\"content\":\"");
        buf_json(out, c->delta.data, c->delta.len);
        buf_str(out, "\"},");
        add_logprobs(c, out);
    }
    buf_str(out, ",\"finish_reason\":null");
    frame_close(c);
}

static void chat_last_frame(struct choice *c)
{
    begin_frame(c);
    struct buf *out = frame_open(c);
    buf_str(out, "\"delta\":{},");
    add_logprobs(c, out);
    buf_printf(out, ",\"finish_reason\":\"%s\"", c->finish);
    answer_stop_reason(c, out);
    frame_close(c);
}

static void add_string(struct buf *out, const char *key, const struct buf *text)
{
    buf_printf(out, "\"%s\":\"", key);
    if (text->len) buf_json(out, text->data, text->len);
    buf_char(out, '"');
}

static void chat_object(struct choice *c, struct buf *out)
{
    buf_printf(out, "{\"index\":%u,\"message\":{\"role\":\"assistant\",", c->index);
    if (c->content.len || (!c->n_calls && !c->reasoning.len))
        add_string(out, "content", &c->content);
    else
        buf_str(out, "\"content\":null");
    buf_str(out, ",\"refusal\":null,");
    if (c->reasoning.len) {
        add_string(out, "reasoning", &c->reasoning);
        buf_char(out, ',');
        add_string(out, "reasoning_content", &c->reasoning);
        buf_char(out, ',');
    }
    for (uint32_t i = 0; i < c->n_calls; i++) {
        buf_str(out, i ? "," : "\"tool_calls\":[");
        buf_printf(out, "{\"id\":\"%s\",\"type\":\"function\",\"function\":{", c->calls[i].id);
        add_string(out, "name", &c->calls[i].name);
        buf_char(out, ',');
        add_string(out, "arguments", &c->calls[i].arguments);
        buf_str(out, "}}");
    }
    buf_str(out, c->n_calls ? "],\"annotations\":[]}," : "\"annotations\":[]},");
    if (c->answer->call->logprobs >= 0 && !c->logprobs.n)
        buf_str(out, "\"logprobs\":{\"content\":[],\"refusal\":null}");
    else
        add_logprobs(c, out);
    buf_printf(out, ",\"finish_reason\":\"%s\"", c->finish ? c->finish : "stop");
    answer_stop_reason(c, out);
    buf_char(out, '}');
}

const struct choice_ops choice_chat = {
    .object = "chat.completion",
    .chunk = "chat.completion.chunk",
    .begin = chat_begin,
    .token = chat_token,
    .flush = chat_flush,
    .stop = chat_stop,
    .frame = chat_frame,
    .last_frame = chat_last_frame,
    .object_choice = chat_object,
};
