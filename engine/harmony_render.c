/* harmony_render.c - a conversation as prompt ids. Control ids come from here only; every text goes
 * through the ordinary encoder, piece by piece as the reference does, so that no text can forge
 * one. Source: gpt-oss spec sections 5.2 to 5.8, openai-api spec sections 7.2 and 7.3. */
#include "engine/harmony.h"
#include "engine/harmony_names.h"
#include "engine/harmony_pairs.h"

#include <string.h>

struct renderer {
    const struct tokenizer *t;
    const struct harmony_ids *id;
    const struct chat *chat;
    struct tokens *out;
    struct harmony_pairs pairs;
    struct buf text; /* scratch */
};

static void say_n(struct renderer *r, const char *text, size_t len)
{
    tokenizer_encode(r->t, text, len, r->out);
}

static void say(struct renderer *r, const char *text)
{
    say_n(r, text, strlen(text));
}

/* Says what stands in the scratch buffer and empties it. */
static void say_scratch(struct renderer *r)
{
    if (r->text.failed) r->out->failed = true;
    say_n(r, r->text.data ? r->text.data : "", r->text.len);
    buf_clear(&r->text);
}

/* <|start|>author[<|channel|>channel]<|message|>, for messages without a recipient. */
static void open_message(struct renderer *r, const char *author, const char *channel)
{
    tokens_add(r->out, r->id->start);
    say(r, author);
    if (channel) {
        tokens_add(r->out, r->id->channel);
        say(r, channel);
    }
    tokens_add(r->out, r->id->message);
}

static void whole_message(struct renderer *r, const char *author, const char *channel,
                          const struct chat_text *text)
{
    if (!text->text) return;
    open_message(r, author, channel);
    say_n(r, text->text, text->len);
    tokens_add(r->out, r->id->end);
}

static bool is_instruction(const struct chat_message *m)
{
    return m->role == ROLE_SYSTEM || m->role == ROLE_DEVELOPER;
}

static bool has_text(const struct chat_text *t)
{
    return t->text && t->len > 0;
}

static void system_message(struct renderer *r)
{
    static const char *const efforts[] = {"low", "medium", "high"};
    const struct chat *c = r->chat;
    buf_str(&r->text, c->identity ? c->identity
                                  : "You are ChatGPT, a large language model trained by OpenAI.");
    buf_str(&r->text, "\nKnowledge cutoff: 2024-06");
    if (c->date) buf_printf(&r->text, "\nCurrent date: %s", c->date);
    buf_printf(&r->text, "\n\nReasoning: %s\n\n", efforts[c->effort]);
    buf_str(&r->text, "# Valid channels: analysis, commentary, final. "
                      "Channel must be included for every message.");
    if (c->n_tools)
        buf_str(&r->text, "\nCalls to these tools must go to the commentary channel: 'functions'.");
    open_message(r, "system", NULL);
    say_scratch(r);
    tokens_add(r->out, r->id->end);
}

/* The leading system and developer messages as one, with the tools. Returns how many they are. */
static uint32_t developer_message(struct renderer *r, struct error *e, enum err *rc)
{
    const struct chat *c = r->chat;
    uint32_t n = 0;
    for (; n < c->n_messages && is_instruction(&c->messages[n]); n++) {
        const struct chat_text *t = &c->messages[n].content;
        if (!has_text(t)) continue;
        buf_str(&r->text, r->text.len ? "\n\n" : "# Instructions\n\n");
        buf_add(&r->text, t->text, t->len);
    }
    if (c->n_tools) {
        if (r->text.len) buf_str(&r->text, "\n\n");
        *rc = harmony_tools_text(c->tools, c->n_tools, &r->text, e);
    }
    if (r->text.len && *rc == ERR_OK) {
        open_message(r, "developer", NULL);
        say_scratch(r);
        tokens_add(r->out, r->id->end);
    }
    return n;
}

/* functions.NAME to=assistant<|channel|>commentary: the header of a tool's result. */
static void result(struct renderer *r, uint32_t i)
{
    const struct chat_text *t = &r->chat->messages[i].content;
    tokens_add(r->out, r->id->start);
    buf_str(&r->text, "functions.");
    harmony_alias(&r->text, r->pairs.results[i].name);
    say_scratch(r);
    say(r, " to=assistant");
    tokens_add(r->out, r->id->channel);
    say(r, "commentary");
    tokens_add(r->out, r->id->message);
    if (t->text) say_n(r, t->text, t->len);
    tokens_add(r->out, r->id->end);
}

static void call(struct renderer *r, const struct chat_call *c)
{
    tokens_add(r->out, r->id->start);
    say(r, "assistant");
    buf_str(&r->text, " to=functions.");
    harmony_alias(&r->text, c->name);
    say_scratch(r);
    tokens_add(r->out, r->id->channel);
    say(r, "commentary");
    say(r, " ");
    tokens_add(r->out, r->id->constrain);
    say(r, "json");
    tokens_add(r->out, r->id->message);
    if (c->arguments.text) say_n(r, c->arguments.text, c->arguments.len);
    tokens_add(r->out, r->id->call);
}

/* In the order of generation: analysis, preamble, each call and behind it its results. */
static void assistant(struct renderer *r, const struct chat_message *m, bool with_analysis,
                      uint32_t first_call)
{
    if (with_analysis && has_text(&m->reasoning))
        whole_message(r, "assistant", "analysis", &m->reasoning);
    if (has_text(&m->content))
        whole_message(r, "assistant", m->n_calls ? "commentary" : "final", &m->content);
    for (uint32_t k = 0; k < m->n_calls; k++) {
        call(r, &m->calls[k]);
        uint32_t i = r->pairs.first[first_call + k];
        for (; i != PAIR_NONE; i = r->pairs.results[i].next)
            result(r, i);
    }
}

/* The last answer on the final channel; analysis up to it is over and is not shown again. */
static uint32_t last_final(const struct chat *c)
{
    for (uint32_t i = c->n_messages; i > 0; i--) {
        const struct chat_message *m = &c->messages[i - 1];
        if (m->role == ROLE_ASSISTANT && !m->n_calls && has_text(&m->content)) return i;
    }
    return 0;
}

static void later_instruction(struct renderer *r, const struct chat_text *text)
{
    if (!has_text(text)) return;
    buf_str(&r->text, "# Instructions\n\n");
    buf_add(&r->text, text->text, text->len);
    open_message(r, "developer", NULL);
    say_scratch(r);
    tokens_add(r->out, r->id->end);
}

static void conversation(struct renderer *r, uint32_t from)
{
    uint32_t calls = 0, closed = last_final(r->chat);
    for (uint32_t i = 0; i < r->chat->n_messages && !r->out->failed; i++) {
        const struct chat_message *m = &r->chat->messages[i];
        uint32_t first_call = calls;
        calls += m->n_calls;
        if (i < from) continue;
        if (is_instruction(m))
            later_instruction(r, &m->content);
        else if (m->role == ROLE_USER)
            whole_message(r, "user", NULL, &m->content);
        else if (m->role == ROLE_ASSISTANT)
            assistant(r, m, i >= closed, first_call);
        else if (!r->pairs.results[i].with_call)
            result(r, i);
    }
}

enum err harmony_render(const struct tokenizer *t, const struct chat *c, struct tokens *out,
                        struct error *e)
{
    struct renderer r = {.t = t, .id = tokenizer_harmony(t), .chat = c, .out = out};
    enum err rc = harmony_pairs_find(&r.pairs, c, e);
    if (rc == ERR_OK) {
        system_message(&r);
        uint32_t from = developer_message(&r, e, &rc);
        if (rc == ERR_OK) conversation(&r, from);
    }
    if (rc == ERR_OK) {
        tokens_add(out, r.id->start);
        say(&r, "assistant");
        if (out->failed) rc = err_set(e, ERR_NOMEM, "a prompt of %u tokens", out->n);
    }
    harmony_pairs_free(&r.pairs);
    buf_free(&r.text);
    return rc;
}
