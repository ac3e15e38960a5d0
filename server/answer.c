/* answer.c - what chat and completions have in common: choices, deltas, frames, usage. */
#include "server/choice.h"

#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct choice_ops *ops_of(const struct answer *a)
{
    return a->call->kind == CALL_CHAT ? &choice_chat : &choice_plain;
}

static void make_head(struct answer *a)
{
    buf_str(&a->head, "data: {\"id\":\"");
    buf_json(&a->head, a->id, strlen(a->id));
    buf_printf(&a->head, "\",\"object\":\"%s\",\"created\":%lld,\"model\":\"", ops_of(a)->chunk,
               (long long)a->created);
    buf_json(&a->head, a->service->names[0], strlen(a->service->names[0]));
    buf_printf(&a->head, "\",\"system_fingerprint\":\"%s\",\"choices\":[", a->service->fingerprint);
}

static bool make_choice(struct answer *a, uint32_t i)
{
    struct choice *c = &a->choices[i];
    *c = (struct choice){.answer = a,
                         .index = i,
                         .prompt = i / (uint32_t)a->call->n,
                         .stop_string = -1,
                         .stop_token = -1};
    c->stops = stops_start(a->stops);
    return c->stops && ops_of(a)->begin(c);
}

struct answer *answer_new(const struct answer_options *o)
{
    struct answer *a = calloc(1, sizeof *a);
    if (!a) return NULL;
    a->service = o->service;
    a->call = o->call;
    a->created = o->created;
    snprintf(a->id, sizeof a->id, "%s", o->id);
    for (const char *p = a->id; *p; p++)
        a->seed = (a->seed ^ (unsigned char)*p) * 1099511628211ull;
    a->n = a->open = o->call->n_prompts * (uint32_t)o->call->n;
    a->choices = calloc(a->n, sizeof *a->choices);
    a->prompt_cached = calloc(o->call->n_prompts, sizeof *a->prompt_cached);
    a->stops = stops_new(o->call->stops, o->call->n_stops);
    make_head(a);
    bool ok = a->choices && a->prompt_cached && a->stops && !a->head.failed;
    for (uint32_t i = 0; ok && i < a->n; i++)
        ok = make_choice(a, i);
    if (ok) return a;
    answer_free(a);
    return NULL;
}

static void free_choice(struct choice *c)
{
    stops_end(c->stops);
    logprobs_free(&c->logprobs);
    harmony_parser_free(c->parser);
    buf_free(&c->delta);
    buf_free(&c->tail);
    buf_free(&c->content);
    buf_free(&c->reasoning);
    for (uint32_t i = 0; i < c->n_calls; i++) {
        buf_free(&c->calls[i].name);
        buf_free(&c->calls[i].arguments);
    }
    free(c->calls);
}

void answer_free(struct answer *a)
{
    if (!a) return;
    for (uint32_t i = 0; a->choices && i < a->n; i++)
        free_choice(&a->choices[i]);
    free(a->choices);
    free(a->prompt_cached);
    stops_free(a->stops);
    buf_free(&a->head);
    buf_free(&a->frames);
    free(a);
}

uint32_t answer_choices(const struct answer *a)
{
    return a->n;
}

struct buf *frame_open(struct choice *c)
{
    struct answer *a = c->answer;
    buf_add(&a->frames, a->head.data, a->head.len);
    buf_printf(&a->frames, "{\"index\":%u,", c->index);
    return &a->frames;
}

void frame_close(struct choice *c)
{
    struct answer *a = c->answer;
    buf_str(&a->frames, "}]");
    if (a->call->continuous_usage && a->call->include_usage) {
        buf_str(&a->frames, ",\"usage\":");
        answer_usage(a, c, &a->frames);
    }
    buf_str(&a->frames, "}\n\n");
}

void choice_delta(struct choice *c, enum harmony_kind kind, const char *text, size_t len)
{
    if (!len) return;
    if (c->delta.len && c->kind != kind) choice_emit(c);
    c->kind = kind;
    buf_add(&c->delta, text, len);
}

void choice_emit(struct choice *c)
{
    if (!c->delta.len) return;
    struct answer *a = c->answer;
    if (c->delta.failed) a->failed = true;
    if (a->call->stream) {
        ops_of(a)->frame(c);
    } else if (c->kind == HARMONY_CALL_TEXT) {
        if (c->n_calls) buf_add(&c->calls[c->n_calls - 1].arguments, c->delta.data, c->delta.len);
    } else {
        buf_add(c->kind == HARMONY_REASONING ? &c->reasoning : &c->content, c->delta.data,
                c->delta.len);
    }
    buf_clear(&c->delta);
}

static uint64_t count_chars(const char *s, size_t n)
{
    uint64_t chars = 0;
    for (size_t i = 0; i < n; i++)
        chars += ((unsigned char)s[i] & 0xC0) != 0x80;
    return chars;
}

bool choice_text(struct choice *c, const char *text, size_t len)
{
    const struct call *call = c->answer->call;
    struct buf out = {0};
    int found = -1;
    c->seen += len;
    c->chars += count_chars(text, len);
    if (c->tokens < call->min_tokens) { /* too early to stop */
        stops_flush(c->stops, &out);
        buf_add(&out, text, len);
    } else {
        found = stops_feed(c->stops, text, len, call->include_stop, &out);
    }
    if (out.failed) c->answer->failed = true;
    c->passed += out.len;
    choice_delta(c, HARMONY_CONTENT, out.data, out.len);
    buf_free(&out);
    if (found >= 0) c->stop_string = found;
    return found >= 0;
}

void choice_count(struct choice *c, const struct sampled *t, uint64_t before, uint64_t chars)
{
    /* without text of its own yet it waits for the character that it is half of */
    struct logprobs_entry e = {.token = *t,
                               .start = before,
                               .end = c->seen > before ? c->seen : before + 1,
                               .chars = chars};
    logprobs_add(&c->logprobs, &e);
    if (c->logprobs.failed) c->answer->failed = true;
}

void choice_finish(struct choice *c, const char *finish)
{
    if (c->finish) return;
    struct answer *a = c->answer;
    ops_of(a)->flush(c);
    struct buf out = {0};
    if (c->stop_string < 0) stops_flush(c->stops, &out);
    c->passed += out.len;
    choice_delta(c, HARMONY_CONTENT, out.data, out.len);
    buf_free(&out);
    c->finish = finish ? finish : ops_of(a)->stop(c);
    choice_emit(c);
    if (a->call->stream) ops_of(a)->last_frame(c);
}

static bool is_client_stop(const struct choice *c, uint32_t id)
{
    const struct call *call = c->answer->call;
    for (uint32_t i = 0; i < call->n_stop_ids; i++)
        if (call->stop_ids[i] == id) return c->tokens >= call->min_tokens;
    return false;
}

bool answer_token(struct answer *a, uint32_t choice, const struct sampled *t)
{
    struct choice *c = &a->choices[choice];
    if (c->finish || c->ended || t->token >= tokenizer_size(a->service->tokenizer)) return false;
    c->tokens++;
    c->stop_token = is_client_stop(c, t->token) ? (int64_t)t->token : -1;
    if (!ops_of(a)->token(c, t)) return false;
    choice_finish(c, NULL);
    return true;
}

void answer_end(struct answer *a, uint32_t choice, const struct gen_event *end)
{
    struct choice *c = &a->choices[choice];
    if (c->ended) return;
    c->ended = true;
    a->open--;
    if (end->cached_tokens > a->prompt_cached[c->prompt])
        a->prompt_cached[c->prompt] = end->cached_tokens;
    enum gen_finish how = c->finish ? FINISH_STOP : end->finish;
    a->finished[how <= FINISH_ERROR ? how : FINISH_ERROR]++;
    if (how == FINISH_STOP || how == FINISH_LENGTH) {
        choice_finish(c, how == FINISH_LENGTH ? "length" : NULL);
        return;
    }
    c->failed = true;
    if (end->error.code)
        a->error = end->error;
    else
        err_set(&a->error, how == FINISH_ABORT ? ERR_DRAINING : ERR_IO,
                "the generation was ended by the server");
}

void answer_skip(struct answer *a, uint32_t choice)
{
    struct gen_event end = {.end = true, .finish = FINISH_LENGTH};
    answer_end(a, choice, &end);
}

bool answer_done(const struct answer *a)
{
    return !a->open;
}

const struct error *answer_error(const struct answer *a)
{
    return a->error.code ? &a->error : NULL;
}

struct buf *answer_frames(struct answer *a)
{
    for (uint32_t i = 0; i < a->n; i++)
        choice_emit(&a->choices[i]);
    if (a->failed) a->frames.failed = true;
    return &a->frames;
}

void answer_totals(const struct answer *a, struct answer_totals *out)
{
    *out = (struct answer_totals){.finish = a->choices[0].finish};
    for (uint32_t i = 0; i < a->call->n_prompts; i++) {
        out->prompt += a->call->prompts[i].n;
        out->cached += a->prompt_cached[i];
    }
    for (uint32_t i = 0; i < a->n; i++) {
        const struct choice *c = &a->choices[i];
        out->completion += c->tokens;
        if (!c->parser) continue;
        out->reasoning += harmony_reasoning_tokens(c->parser);
        out->calls += harmony_calls(c->parser);
        out->anomalies += harmony_anomalies(c->parser);
    }
    memcpy(out->finished, a->finished, sizeof out->finished);
}

void answer_usage(const struct answer *a, const struct choice *only, struct buf *out)
{
    struct answer_totals t;
    answer_totals(a, &t);
    if (only && only->parser) t.reasoning = harmony_reasoning_tokens(only->parser);
    if (only) {
        t.prompt = a->call->prompts[only->prompt].n;
        t.completion = only->tokens;
    }
    uint64_t total = t.prompt + t.completion;
    buf_printf(out,
               "{\"prompt_tokens\":%llu,\"completion_tokens\":%llu,\"total_tokens\":%llu,"
               "\"prompt_tokens_details\":{\"cached_tokens\":%llu,\"audio_tokens\":0},"
               "\"completion_tokens_details\":{\"reasoning_tokens\":%llu,\"audio_tokens\":0,"
               "\"accepted_prediction_tokens\":0,\"rejected_prediction_tokens\":0}}",
               (unsigned long long)t.prompt, (unsigned long long)t.completion,
               (unsigned long long)total, (unsigned long long)t.cached,
               (unsigned long long)t.reasoning);
}

void answer_stop_reason(const struct choice *c, struct buf *out)
{
    buf_str(out, ",\"stop_reason\":");
    if (c->stop_string >= 0) {
        const struct chat_text *s = &c->answer->call->stops[c->stop_string];
        buf_char(out, '"');
        buf_json(out, s->text, s->len);
        buf_char(out, '"');
    } else if (c->stop_token >= 0) {
        buf_printf(out, "%lld", (long long)c->stop_token);
    } else {
        buf_str(out, "null");
    }
}

static void close_stream(struct answer *a)
{
    if (a->call->include_usage) {
        buf_add(&a->frames, a->head.data, a->head.len);
        buf_str(&a->frames, "],\"usage\":");
        answer_usage(a, NULL, &a->frames);
        buf_str(&a->frames, "}\n\n");
    }
    buf_str(&a->frames, "data: [DONE]\n\n");
}

void answer_close(struct answer *a, struct buf *object)
{
    if (a->call->stream) {
        close_stream(a);
        return;
    }
    buf_printf(object, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":\"", a->id,
               ops_of(a)->object, (long long)a->created);
    buf_json(object, a->service->names[0], strlen(a->service->names[0]));
    buf_str(object, "\",\"choices\":[");
    for (uint32_t i = 0; i < a->n; i++) {
        if (i) buf_char(object, ',');
        ops_of(a)->object_choice(&a->choices[i], object);
    }
    buf_str(object, "],\"usage\":");
    answer_usage(a, NULL, object);
    buf_printf(object, ",\"service_tier\":\"default\",\"system_fingerprint\":\"%s\"}",
               a->service->fingerprint);
    if (a->failed) object->failed = true;
}
