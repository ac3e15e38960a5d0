/* harmony_parse.c - sampled ids to typed text. Two states: in a header, in a body; between messages
 * is a header nothing has come for yet. Source: openai-api spec section 7.6. */
#include "base/utf8.h"
#include "engine/harmony.h"
#include "engine/harmony_header.h"
#include "engine/harmony_names.h"

#include <stdlib.h>
#include <string.h>

enum text_kind { TEXT_CONTENT, TEXT_REASONING, TEXT_CALL };

struct harmony_parser {
    const struct tokenizer *t;
    struct harmony_parser_options o;
    struct harmony_header header;
    struct buf held; /* bytes of the body that are no whole character yet */
    struct buf ready;
    bool in_body;
    enum text_kind kind; /* of the body */
    bool is_final;       /* the body was announced as the final answer */
    bool final_done;     /* such a body with text has been closed */
    bool joins;          /* the body's first text is joined to an earlier message's */
    bool spoke;          /* the body gave text */
    bool had_text[2];    /* content, reasoning */
    enum harmony_place place;
    uint32_t message_tokens; /* of this message so far */
    uint32_t reasoning_tokens, calls, anomalies;
};

struct harmony_parser *harmony_parser_new(const struct tokenizer *t,
                                          const struct harmony_parser_options *o)
{
    struct harmony_parser *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    p->t = t;
    p->o = *o;
    header_open(&p->header, true);
    return p;
}

void harmony_parser_free(struct harmony_parser *p)
{
    if (!p) return;
    header_free(&p->header);
    buf_free(&p->held);
    buf_free(&p->ready);
    free(p);
}

static void emit(struct harmony_parser *p, enum harmony_kind kind, const char *text, size_t len)
{
    p->o.emit(p->o.arg, &(struct harmony_delta){kind, text, len});
}

/* Emits the whole characters among the held bytes; all of them when the message ends. */
static void emit_held(struct harmony_parser *p, bool last)
{
    static const enum harmony_kind kinds[] = {HARMONY_CONTENT, HARMONY_REASONING,
                                              HARMONY_CALL_TEXT};
    static const char *const joints[] = {"\n\n", "\n", ""};
    buf_clear(&p->ready);
    if (p->joins) buf_str(&p->ready, joints[p->kind]);
    size_t joint = p->ready.len;
    size_t used = utf8_take(&p->ready, p->held.data ? p->held.data : "", p->held.len, last);
    if (used) memmove(p->held.data, p->held.data + used, p->held.len -= used);
    if (p->ready.len == joint) return;
    p->joins = false;
    p->spoke = true;
    if (p->kind != TEXT_CALL) p->had_text[p->kind] = true;
    emit(p, kinds[p->kind], p->ready.data, p->ready.len);
}

static void body_add(struct harmony_parser *p, const char *bytes, size_t len)
{
    buf_add(&p->held, bytes, len);
    emit_held(p, false);
}

static void body_open(struct harmony_parser *p, enum text_kind kind)
{
    buf_clear(&p->held);
    p->in_body = true;
    p->kind = kind;
    p->is_final = p->spoke = false;
    p->joins = kind != TEXT_CALL && p->had_text[kind];
}

/* Ends the body; the next thing is a header. `complete`: a call counts. */
static void body_close(struct harmony_parser *p, bool complete)
{
    emit_held(p, true);
    if (p->kind == TEXT_CALL) {
        emit(p, HARMONY_CALL_END, "", 0);
        p->calls += complete;
    }
    p->final_done |= p->is_final && p->spoke;
    p->in_body = false;
}

static void call_open(struct harmony_parser *p, const char *name, size_t len)
{
    body_open(p, TEXT_CALL);
    buf_clear(&p->ready);
    utf8_take(&p->ready, name, len, true);
    emit(p, HARMONY_CALL_BEGIN, p->ready.data ? p->ready.data : "", p->ready.len);
}

struct route { /* where a message's body goes */
    enum text_kind kind;
    const char *name; /* of the function called */
    size_t len;
};

/* "to=" somebody who is no tool: the text is for whoever reads the channel. */
static bool to_people(const struct header_meaning *m)
{
    static const char *const people[] = {"assistant", "all", "user"};
    for (size_t i = 0; i < sizeof people / sizeof *people; i++)
        if (m->recipient_len == strlen(people[i]) &&
            memcmp(m->recipient, people[i], m->recipient_len) == 0)
            return true;
    return m->recipient_len == 0;
}

static struct route route(struct harmony_parser *p, const struct header_meaning *m)
{
    if (m->foreign) return (struct route){TEXT_REASONING, NULL, 0};
    if (to_people(m)) {
        bool hidden = m->channel == CHANNEL_ANALYSIS || m->channel == CHANNEL_UNKNOWN;
        return (struct route){hidden ? TEXT_REASONING : TEXT_CONTENT, NULL, 0};
    }
    struct route r = {TEXT_CALL, m->recipient, m->recipient_len};
    const char *tool = harmony_find_tool(p->o.tools, p->o.n_tools, r.name, r.len);
    if (tool) return (struct route){TEXT_CALL, tool, strlen(tool)};
    /* the client can answer "unknown tool", unless it knows of no tools at all */
    p->anomalies++;
    while (harmony_strip_namespace(&r.name, &r.len))
        ;
    if (p->o.n_tools == 0) r.kind = TEXT_REASONING;
    return r;
}

static void open_routed(struct harmony_parser *p, const struct route *r)
{
    if (r->kind == TEXT_CALL)
        call_open(p, r->name, r->len);
    else
        body_open(p, r->kind);
}

static void next_header(struct harmony_parser *p, bool author_given)
{
    header_open(&p->header, author_given);
    p->message_tokens = 0;
}

static void count_reasoning(struct harmony_parser *p)
{
    if (p->in_body && p->kind == TEXT_REASONING) p->reasoning_tokens += p->message_tokens;
    if (p->in_body) p->message_tokens = 0;
}

static bool is_final(const struct header_meaning *m, const struct route *r)
{
    return m->channel == CHANNEL_FINAL && r->kind == TEXT_CONTENT;
}

/* <|message|> came: the body starts. Words of the header that are no markup become a message of
 * their own before it; a call's, so that the arguments stay clean, are reasoning. */
static bool header_done(struct harmony_parser *p)
{
    struct header_meaning m;
    header_read(&p->header, true, &m);
    struct route r = route(p, &m);
    bool final = is_final(&m, &r), stop = m.foreign || (final && p->final_done);
    if (m.rest.len && !stop) {
        p->anomalies++;
        body_open(p, r.kind == TEXT_CALL ? TEXT_REASONING : r.kind);
        body_add(p, m.rest.data, m.rest.len);
        body_close(p, true);
    }
    p->anomalies += m.channel == CHANNEL_UNKNOWN || m.channel == CHANNEL_NONE || stop;
    open_routed(p, &r);
    p->is_final = final;
    buf_free(&m.rest);
    count_reasoning(p);
    return stop;
}

/* What ends a header without <|message|>. */
enum ending { ENDING_SILENT, ENDING_CALL, ENDING_OVERLONG, ENDING_NO_MORE };

/* No <|message|> came: what is no markup is the body. It stays open if the header was overlong. */
static bool header_broken(struct harmony_parser *p, enum ending how)
{
    struct header_meaning m;
    bool stop = false;
    header_read(&p->header, false, &m);
    if (!header_is_empty(&p->header)) {
        struct route r = route(p, &m);
        bool call = r.kind == TEXT_CALL && how == ENDING_CALL;
        bool final = is_final(&m, &r);
        stop = m.foreign || (final && p->final_done && how != ENDING_NO_MORE);
        p->anomalies += m.rest.len > 0 || call || stop;
        if ((m.rest.len && !stop) || call || how == ENDING_OVERLONG) {
            open_routed(p, &r);
            p->is_final = final;
            count_reasoning(p);
            if (!stop) body_add(p, m.rest.data ? m.rest.data : "", m.rest.len);
            if (how != ENDING_OVERLONG) body_close(p, true);
        }
    }
    buf_free(&m.rest);
    return stop;
}

/* Text where a header was due: it is the answer, without any markup; behind the answer, a second
 * one, which is not wanted. */
static bool header_was_text(struct harmony_parser *p)
{
    p->anomalies++;
    body_open(p, TEXT_CONTENT);
    p->message_tokens = 0;
    if (!p->final_done) body_add(p, p->header.text.data, p->header.text.len);
    return p->final_done;
}

static enum harmony_place place_of(const struct harmony_parser *p)
{
    static const enum harmony_place places[] = {PLACE_CONTENT, PLACE_REASONING, PLACE_CALL};
    return p->in_body ? places[p->kind] : PLACE_MARKUP;
}

static bool header_text(struct harmony_parser *p, uint32_t id)
{
    uint32_t len;
    const char *bytes = tokenizer_bytes(p->t, id, &len);
    bool stop = false;
    header_add(&p->header, bytes, len);
    if (header_is_hopeless(&p->header))
        stop = header_was_text(p);
    else if (header_is_full(&p->header))
        stop = header_broken(p, ENDING_OVERLONG);
    p->place = place_of(p);
    return stop;
}

static bool in_header(struct harmony_parser *p, uint32_t id)
{
    const struct harmony_ids *h = tokenizer_harmony(p->t);
    if (id == h->message) return header_done(p);
    if (id == h->channel || id == h->constrain) {
        header_mark(&p->header, id == h->channel ? PART_CHANNEL : PART_CONSTRAIN);
        return header_is_full(&p->header) && header_broken(p, ENDING_OVERLONG);
    }
    if (id == h->start || id == h->end || id == h->ret || id == h->call || id == h->endoftext) {
        bool stop = header_broken(p, id == h->call ? ENDING_CALL : ENDING_SILENT);
        next_header(p, id != h->start);
        p->message_tokens = id == h->start;
        return stop;
    }
    if (!tokenizer_is_special(p->t, id) && tokenizer_is_used(p->t, id)) return header_text(p, id);
    p->anomalies++;
    return false;
}

static void in_body(struct harmony_parser *p, uint32_t id)
{
    const struct harmony_ids *h = tokenizer_harmony(p->t);
    uint32_t len;
    const char *bytes = tokenizer_bytes(p->t, id, &len);
    if (id == h->end || id == h->ret || id == h->call || id == h->endoftext) {
        count_reasoning(p);
        body_close(p, true);
        next_header(p, true);
    } else if (id == h->start || id == h->channel) {
        p->anomalies++;
        body_close(p, true);
        next_header(p, id != h->start);
        p->message_tokens = 1;
        if (id == h->channel) header_mark(&p->header, PART_CHANNEL);
    } else {
        count_reasoning(p);
        if (tokenizer_is_special(p->t, id) || len == 0) {
            p->anomalies++;
            return;
        }
        p->place = place_of(p);
        body_add(p, bytes, len);
    }
}

bool harmony_feed(struct harmony_parser *p, uint32_t id)
{
    p->place = PLACE_MARKUP;
    if (id >= tokenizer_size(p->t)) {
        p->anomalies++;
        return false;
    }
    p->message_tokens++;
    if (!p->in_body) return in_header(p, id);
    in_body(p, id);
    return false;
}

enum harmony_place harmony_place(const struct harmony_parser *p)
{
    return p->place;
}

void harmony_finish(struct harmony_parser *p)
{
    if (p->in_body)
        body_close(p, false);
    else
        header_broken(p, ENDING_NO_MORE);
    next_header(p, true);
}

uint32_t harmony_reasoning_tokens(const struct harmony_parser *p)
{
    return p->reasoning_tokens;
}

uint32_t harmony_calls(const struct harmony_parser *p)
{
    return p->calls;
}

uint32_t harmony_anomalies(const struct harmony_parser *p)
{
    return p->anomalies;
}
