/* logprobs.c - the JSON of log probabilities. Source: openai-api spec 2.7 and 3. */
#include "server/logprobs.h"

#include "base/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void logprobs_add(struct logprobs *l, const struct logprobs_entry *e)
{
    if (l->n == l->cap) {
        uint32_t cap = l->cap ? l->cap * 2 : 8;
        struct logprobs_entry *p = realloc(l->list, cap * sizeof *p);
        if (!p) {
            l->failed = true;
            return;
        }
        l->list = p;
        l->cap = cap;
    }
    l->list[l->n++] = *e;
}

void logprobs_free(struct logprobs *l)
{
    free(l->list);
    *l = (struct logprobs){0};
}

uint32_t logprobs_ready(const struct logprobs *l, uint64_t bytes, bool last)
{
    uint32_t n = 0;
    while (n < l->n && (l->list[n].end <= bytes || (last && l->list[n].start < bytes)))
        n++;
    return n;
}

void logprobs_drop(struct logprobs *l, uint32_t n)
{
    if (!n) return; /* there may be no list */
    memmove(l->list, l->list + n, (l->n - n) * sizeof *l->list);
    l->n -= n;
}

/* JSON has no infinity. */
static void add_number(struct buf *out, float v)
{
    buf_printf(out, "%.9g", isfinite(v) && v > -9999 ? (double)v : -9999.0);
}

void token_text_json(struct buf *out, const struct tokenizer *t, uint32_t id)
{
    uint32_t len;
    const char *bytes = tokenizer_bytes(t, id, &len);
    struct buf text = {0};
    utf8_take(&text, bytes, len, true);
    buf_char(out, '"');
    if (text.len) buf_json(out, text.data, text.len);
    buf_char(out, '"');
    buf_free(&text);
}

static void add_chat_entry(struct buf *out, const struct tokenizer *t, uint32_t id, float logprob)
{
    uint32_t len;
    const char *bytes = tokenizer_bytes(t, id, &len);
    buf_str(out, "{\"token\":");
    token_text_json(out, t, id);
    buf_str(out, ",\"logprob\":");
    add_number(out, logprob);
    buf_str(out, ",\"bytes\":[");
    for (uint32_t i = 0; i < len; i++)
        buf_printf(out, i ? ",%u" : "%u", (unsigned char)bytes[i]);
    buf_char(out, ']');
}

void logprobs_chat(const struct logprobs *l, uint32_t n, const struct tokenizer *t, struct buf *out)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct sampled *s = &l->list[i].token;
        if (i) buf_char(out, ',');
        add_chat_entry(out, t, s->token, s->logprob);
        buf_str(out, ",\"top_logprobs\":[");
        for (uint32_t k = 0; k < s->n_top; k++) {
            if (k) buf_char(out, ',');
            add_chat_entry(out, t, s->top[k].token, s->top[k].logprob);
            buf_char(out, '}');
        }
        buf_str(out, "]}");
    }
}

/* Tokens whose text is the same (halves of characters) share a key; the likeliest keeps it. */
static bool key_is_new(const struct sampled *s, uint32_t k, const struct tokenizer *t)
{
    struct buf mine = {0}, other = {0};
    bool is_new = true;
    token_text_json(&mine, t, s->top[k].token);
    for (uint32_t i = 0; i < k && is_new; i++) {
        buf_clear(&other);
        token_text_json(&other, t, s->top[i].token);
        is_new = mine.len != other.len || memcmp(mine.data, other.data, mine.len) != 0;
    }
    buf_free(&mine);
    buf_free(&other);
    return is_new;
}

static void add_top_map(const struct sampled *s, const struct tokenizer *t, struct buf *out)
{
    buf_char(out, '{');
    bool first = true;
    for (uint32_t k = 0; k < s->n_top; k++) {
        if (!key_is_new(s, k, t)) continue;
        if (!first) buf_char(out, ',');
        first = false;
        token_text_json(out, t, s->top[k].token);
        buf_char(out, ':');
        add_number(out, s->top[k].logprob);
    }
    buf_char(out, '}');
}

void logprobs_text(const struct logprobs *l, uint32_t n, const struct tokenizer *t, struct buf *out)
{
    buf_str(out, "\"tokens\":[");
    for (uint32_t i = 0; i < n; i++) {
        if (i) buf_char(out, ',');
        token_text_json(out, t, l->list[i].token.token);
    }
    buf_str(out, "],\"token_logprobs\":[");
    for (uint32_t i = 0; i < n; i++) {
        if (i) buf_char(out, ',');
        add_number(out, l->list[i].token.logprob);
    }
    buf_str(out, "],\"top_logprobs\":[");
    for (uint32_t i = 0; i < n; i++) {
        if (i) buf_char(out, ',');
        add_top_map(&l->list[i].token, t, out);
    }
    buf_str(out, "],\"text_offset\":[");
    for (uint32_t i = 0; i < n; i++)
        buf_printf(out, i ? ",%llu" : "%llu", (unsigned long long)l->list[i].chars);
    buf_char(out, ']');
}
