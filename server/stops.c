/* stops.c - Knuth-Morris-Pratt, one automaton a stop string: constant work a byte and string. */
#include "server/stops.h"

#include <stdlib.h>
#include <string.h>

struct stop {
    char *text;
    uint16_t *back; /* [len]: longest proper border of the first i + 1 bytes */
    uint32_t len;
};

struct stops {
    uint32_t n;
    struct stop list[];
};

struct stops_state {
    const struct stops *stops;
    struct buf held;
    bool matched;
    uint32_t at[]; /* bytes of each string that the text ends with */
};

static bool prepare(struct stop *s, const struct chat_text *t)
{
    s->len = (uint32_t)t->len;
    s->text = malloc(t->len);
    s->back = malloc(t->len * sizeof *s->back);
    if (!s->text || !s->back) return false;
    memcpy(s->text, t->text, t->len);
    s->back[0] = 0;
    for (uint32_t i = 1, k = 0; i < s->len; i++) {
        while (k && s->text[i] != s->text[k])
            k = s->back[k - 1];
        k += s->text[i] == s->text[k];
        s->back[i] = (uint16_t)k;
    }
    return true;
}

struct stops *stops_new(const struct chat_text *strings, uint32_t n)
{
    struct stops *s = calloc(1, sizeof *s + n * sizeof *s->list);
    if (!s) return NULL;
    s->n = n;
    for (uint32_t i = 0; i < n; i++) {
        if (prepare(&s->list[i], &strings[i])) continue;
        stops_free(s);
        return NULL;
    }
    return s;
}

void stops_free(struct stops *s)
{
    for (uint32_t i = 0; s && i < s->n; i++) {
        free(s->list[i].text);
        free(s->list[i].back);
    }
    free(s);
}

struct stops_state *stops_start(const struct stops *s)
{
    struct stops_state *t = calloc(1, sizeof *t + s->n * sizeof *t->at);
    if (t) t->stops = s;
    return t;
}

void stops_end(struct stops_state *t)
{
    if (t) buf_free(&t->held);
    free(t);
}

/* Of strings that end at the same byte the longest wins: it began first. */
static int advance(struct stops_state *t, char c)
{
    int found = -1;
    for (uint32_t i = 0; i < t->stops->n; i++) {
        const struct stop *s = &t->stops->list[i];
        uint32_t k = t->at[i];
        while (k && s->text[k] != c)
            k = s->back[k - 1];
        k += s->text[k] == c;
        t->at[i] = k;
        if (k == s->len && (found < 0 || s->len > t->stops->list[found].len)) found = (int)i;
    }
    return found;
}

int stops_feed(struct stops_state *t, const char *text, size_t len, bool keep, struct buf *out)
{
    if (t->matched) return -1;
    if (!t->stops->n) {
        buf_add(out, text, len);
        return -1;
    }
    for (size_t i = 0; i < len; i++) {
        buf_char(&t->held, text[i]);
        int found = advance(t, text[i]);
        if (found < 0) continue;
        size_t cut = keep ? 0 : t->stops->list[found].len;
        buf_add(out, t->held.data, t->held.len - cut);
        buf_clear(&t->held);
        t->matched = true;
        return found;
    }
    size_t hold = 0;
    for (uint32_t i = 0; i < t->stops->n; i++)
        hold = t->at[i] > hold ? t->at[i] : hold;
    size_t pass = t->held.len - hold;
    buf_add(out, t->held.data, pass);
    if (pass) {
        memmove(t->held.data, t->held.data + pass, hold);
        t->held.len = hold;
    }
    return -1;
}

void stops_flush(struct stops_state *t, struct buf *out)
{
    if (!t->matched && t->held.len) buf_add(out, t->held.data, t->held.len);
    buf_clear(&t->held);
    memset(t->at, 0, t->stops->n * sizeof *t->at);
}
