/* harmony_header.c - lenient reading of headers: every part in any order, every odd word kept. */
#include "engine/harmony_header.h"

#include <string.h>
#include <strings.h>

struct span { /* the text not yet read */
    const char *s, *end;
};

static const char assistant[] = "assistant";
#define ASSISTANT_LEN (sizeof assistant - 1)

void header_open(struct harmony_header *h, bool author_given)
{
    buf_clear(&h->text);
    h->n_parts = 1;
    h->parts[0].part = PART_AUTHOR;
    h->parts[0].at = 0;
    h->author_given = author_given;
}

void header_free(struct harmony_header *h)
{
    buf_free(&h->text);
}

void header_mark(struct harmony_header *h, enum header_part part)
{
    if (h->n_parts == HEADER_MAX_PARTS) return;
    h->parts[h->n_parts].part = part;
    h->parts[h->n_parts++].at = h->text.len;
}

void header_add(struct harmony_header *h, const char *bytes, size_t len)
{
    buf_add(&h->text, bytes, len);
}

bool header_is_empty(const struct harmony_header *h)
{
    return h->n_parts == 1 && h->text.len == 0;
}

bool header_is_full(const struct harmony_header *h)
{
    return h->n_parts == HEADER_MAX_PARTS || h->text.len > HEADER_MAX_BYTES;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static size_t left(const struct span *t)
{
    return (size_t)(t->end - t->s);
}

static void skip_spaces(struct span *t)
{
    while (t->s < t->end && is_space(*t->s))
        t->s++;
}

/* The bytes up to the next space; they stay unread. */
static size_t word(const struct span *t)
{
    size_t n = 0;
    while (n < left(t) && !is_space(t->s[n]))
        n++;
    return n;
}

static bool starts_with(const struct span *t, const char *prefix)
{
    size_t n = strlen(prefix);
    return left(t) >= n && memcmp(t->s, prefix, n) == 0;
}

static bool is_word(const char *s, size_t n, const char *wanted)
{
    return n == strlen(wanted) && memcmp(s, wanted, n) == 0;
}

static const char *const types[] = {"json", "code", "text"};

static bool is_type(const char *s, size_t n)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (is_word(s, n, types[i])) return true;
    return false;
}

static bool skip_assistant(struct span *t)
{
    bool found = false;
    while (starts_with(t, assistant)) {
        t->s += ASSISTANT_LEN;
        found = true;
    }
    return found;
}

/* The last word may still grow. */
static bool may_become_markup(const char *s, size_t n)
{
    if (n >= 3 ? memcmp(s, "to=", 3) == 0 : memcmp(s, "to=", n) == 0) return true;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (n < strlen(types[i]) && memcmp(s, types[i], n) == 0) return true;
    return is_type(s, n);
}

bool header_is_hopeless(const struct harmony_header *h)
{
    if (!h->author_given || h->n_parts > 1 || !h->text.data) return false;
    struct span t = {h->text.data, h->text.data + h->text.len};
    skip_spaces(&t);
    skip_assistant(&t);
    if (left(&t) < ASSISTANT_LEN && memcmp(t.s, assistant, left(&t)) == 0) return false;
    for (;;) {
        skip_spaces(&t);
        size_t n = word(&t);
        if (n == left(&t)) return n > 0 && !may_become_markup(t.s, n);
        if (!starts_with(&t, "to=") && !is_type(t.s, n)) return true;
        bool name_follows = is_word(t.s, n, "to=");
        t.s += n;
        if (!name_follows) continue;
        skip_spaces(&t);
        t.s += word(&t);
    }
}

static bool is_junk(const char *s, size_t n)
{
    static const char *const names[] = {"analysis", "commentary", "final"};
    while (n > 0) {
        size_t step = strchr("?!.,:;*_-0123456789", *s) && *s ? 1 : 0;
        for (size_t i = 0; i < 3 && !step; i++)
            if (n >= strlen(names[i]) && strncasecmp(s, names[i], strlen(names[i])) == 0)
                step = strlen(names[i]);
        if (!step) return false;
        s += step;
        n -= step;
    }
    return true;
}

/* Moves n bytes to the rest; spaces before them are kept once the rest has begun. */
static void keep(struct header_meaning *m, struct span *t, const char *from, size_t n)
{
    const char *start = m->rest.len ? from : t->s;
    buf_add(&m->rest, start, (size_t)(t->s + n - start));
    t->s += n;
}

static void recipient(struct header_meaning *m, struct span *t, bool complete)
{
    t->s += 3;
    skip_spaces(t);
    size_t n = word(t);
    /* arguments right behind the name: the body started unannounced */
    const char *brace = complete ? NULL : memchr(t->s, '{', n);
    if (brace) n = (size_t)(brace - t->s);
    m->recipient = t->s;
    m->recipient_len = n;
    t->s += n;
}

static void words(struct header_meaning *m, struct span *t, bool complete)
{
    for (;;) {
        const char *from = t->s;
        if (!complete && m->rest.len) {
            keep(m, t, from, left(t));
            return;
        }
        skip_spaces(t);
        size_t n = word(t);
        if (n == 0) return;
        if (starts_with(t, "to="))
            recipient(m, t, complete);
        else if (is_type(t->s, n))
            t->s += n;
        else
            keep(m, t, from, n);
    }
}

static void author(const struct harmony_header *h, struct header_meaning *m, struct span *t)
{
    static const char *const others[] = {"user", "system", "developer", "tool"};
    skip_spaces(t);
    if (skip_assistant(t) || h->author_given) return;
    size_t n = word(t);
    const char *colon = memchr(t->s, ':', n); /* user:name */
    size_t role = colon ? (size_t)(colon - t->s) : n;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        m->foreign |= is_word(t->s, role, others[i]);
    m->foreign |= starts_with(t, "functions.");
    if (m->foreign) t->s += n;
}

static void channel(struct header_meaning *m, struct span *t, bool complete)
{
    static const struct {
        const char *name;
        enum header_channel channel;
    } known[] = {{"analysis", CHANNEL_ANALYSIS},
                 {"commentary", CHANNEL_COMMENTARY},
                 {"final", CHANNEL_FINAL}};
    skip_spaces(t);
    enum header_channel found = CHANNEL_UNKNOWN;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t n = strlen(known[i].name);
        if (left(t) < n || strncasecmp(t->s, known[i].name, n) != 0) continue;
        found = known[i].channel;
        t->s += n;
        break;
    }
    if (found != CHANNEL_UNKNOWN || m->channel == CHANNEL_NONE) m->channel = found;
    if (complete && is_junk(t->s, word(t))) t->s += word(t);
}

/* What follows <|constrain|> is a type; without <|message|>, only a known one. */
static void content_type(struct span *t, bool complete)
{
    skip_spaces(t);
    if (complete) {
        if (!starts_with(t, "to=")) t->s += word(t);
        return;
    }
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (starts_with(t, types[i])) {
            t->s += strlen(types[i]);
            return;
        }
}

void header_read(const struct harmony_header *h, bool complete, struct header_meaning *out)
{
    *out = (struct header_meaning){0};
    const char *text = h->text.data ? h->text.data : "";
    for (uint32_t i = 0; i < h->n_parts; i++) {
        size_t end = i + 1 < h->n_parts ? h->parts[i + 1].at : h->text.len;
        struct span t = {text + h->parts[i].at, text + end};
        enum header_part part = h->parts[i].part;
        if (part == PART_AUTHOR)
            author(h, out, &t);
        else if (part == PART_CHANNEL)
            channel(out, &t, complete);
        else
            content_type(&t, complete);
        words(out, &t, complete);
    }
    bool to_assistant = out->recipient && is_word(out->recipient, out->recipient_len, assistant);
    /* an author we do not know that answers the assistant is a tool */
    if (!h->author_given && to_assistant && out->rest.len) out->foreign = true;
}
