/* presplit.c - the o200k splitting rules, one function a rule, without a regular expression. */
#include "engine/presplit.h"
#include "base/utf8.h"
#include "engine/unicode_class.h"

#include <stdbool.h>

struct text {
    const unsigned char *s;
    size_t n;
};

struct point { /* one character; len 0 at the end of the text and at an ill-formed byte */
    uint32_t cp;
    unsigned class, len;
};

#define NONE ((size_t)-1)

static struct point peek(const struct text *t, size_t at)
{
    struct point p = {0, 0, 0};
    if (at >= t->n) return p;
    int len = utf8_decode(t->s + at, t->n - at, &p.cp);
    if (len <= 0) return p;
    p.len = (unsigned)len;
    p.class = unicode_class(p.cp);
    return p;
}

static bool newline(const struct point *p)
{
    return p->len && (p->cp == '\r' || p->cp == '\n');
}

/* Passes the run of characters that have one of the bits. */
static size_t run(const struct text *t, size_t at, unsigned bits)
{
    for (;;) {
        struct point p = peek(t, at);
        if (!(p.class & bits)) return at;
        at += p.len;
    }
}

/* [UPPER]*[LOWER]+ : the run of both parts, given back to its last LOWER character. */
static size_t word_with_lower(const struct text *t, size_t at)
{
    size_t last = NONE;
    for (;;) {
        struct point p = peek(t, at);
        if (!(p.class & UC_UPPER)) break;
        at += p.len;
        if (p.class & UC_LOWER) last = at;
    }
    size_t end = run(t, at, UC_LOWER);
    return end > at ? end : last;
}

/* [UPPER]+[LOWER]* */
static size_t word_with_upper(const struct text *t, size_t at)
{
    size_t end = run(t, at, UC_UPPER);
    return end == at ? NONE : run(t, end, UC_LOWER);
}

static unsigned lower(const struct text *t, size_t at)
{
    unsigned c = at < t->n ? t->s[at] : 0;
    return c >= 'A' && c <= 'Z' ? c + 32 : c;
}

/* 's 't 'm 'd 're 've 'll after a word, in either case. */
static size_t contraction(const struct text *t, size_t at)
{
    if (at >= t->n || t->s[at] != '\'') return at;
    unsigned a = lower(t, at + 1), b = lower(t, at + 2);
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return at + 2;
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return at + 3;
    return at;
}

static size_t word(const struct text *t, size_t at, const struct point *first)
{
    size_t end = NONE;
    bool prefix = !newline(first) && !(first->class & (UC_L | UC_N));
    if (prefix) end = word_with_lower(t, at + first->len);
    if (end == NONE) end = word_with_lower(t, at);
    if (end == NONE && prefix) end = word_with_upper(t, at + first->len);
    if (end == NONE) end = word_with_upper(t, at);
    return end == NONE ? NONE : contraction(t, end);
}

static size_t digits(const struct text *t, size_t at)
{
    size_t end = at;
    for (int i = 0; i < 3; i++) {
        struct point p = peek(t, end);
        if (!(p.class & UC_N)) break;
        end += p.len;
    }
    return end == at ? NONE : end;
}

/* An optional space, what is neither space, letter nor number, then line ends and slashes. */
static size_t symbols(const struct text *t, size_t at)
{
    size_t start = t->s[at] == ' ' ? at + 1 : at, end = start;
    for (;;) {
        struct point p = peek(t, end);
        if (!p.len || p.class & (UC_SPACE | UC_L | UC_N)) break;
        end += p.len;
    }
    if (end == start) return NONE;
    while (end < t->n && (t->s[end] == '\r' || t->s[end] == '\n' || t->s[end] == '/'))
        end++;
    return end;
}

/* White space up to its last line end; else all but the last space, which goes with what follows.
 */
static size_t spaces(const struct text *t, size_t at)
{
    size_t end = at, after_newline = NONE, last = at;
    for (;;) {
        struct point p = peek(t, end);
        if (!(p.class & UC_SPACE)) {
            if (after_newline != NONE) return after_newline;
            return p.len && last > at ? last : end;
        }
        last = end;
        end += p.len;
        if (newline(&p)) after_newline = end;
    }
}

static size_t ill_formed(const struct text *t, size_t at)
{
    uint32_t cp;
    int len = utf8_decode(t->s + at, t->n - at, &cp);
    return len == 0 ? t->n : at + (size_t)-len;
}

size_t presplit_next(const char *s, size_t n, size_t at)
{
    struct text t = {(const unsigned char *)s, n};
    struct point first = peek(&t, at);
    if (!first.len) return ill_formed(&t, at);
    size_t end = word(&t, at, &first);
    if (end == NONE) end = digits(&t, at);
    if (end == NONE) end = symbols(&t, at);
    return end == NONE ? spaces(&t, at) : end;
}
