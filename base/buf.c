/* buf.c - growable bytes. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool reserve(struct buf *b, size_t more)
{
    if (b->failed) return false;
    size_t need = b->len + more;
    if (need < more || need == SIZE_MAX || (b->limit && need > b->limit)) {
        b->failed = true;
        return false;
    }
    if (b->data && need + 1 <= b->cap) return true;
    size_t cap = b->cap ? b->cap : 64;
    while (cap < need + 1)
        cap = cap > SIZE_MAX / 2 ? need + 1 : cap * 2;
    char *p = realloc(b->data, cap);
    if (!p) {
        b->failed = true;
        return false;
    }
    b->data = p;
    b->cap = cap;
    return true;
}

void buf_free(struct buf *b)
{
    free(b->data);
    *b = (struct buf){.limit = b->limit};
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    b->failed = false;
    if (b->data) b->data[0] = 0;
}

void buf_add(struct buf *b, const void *bytes, size_t n)
{
    if (!reserve(b, n)) return;
    if (n) memcpy(b->data + b->len, bytes, n);
    b->len += n;
    b->data[b->len] = 0;
}

void buf_str(struct buf *b, const char *s)
{
    buf_add(b, s, strlen(s));
}

void buf_char(struct buf *b, char c)
{
    buf_add(b, &c, 1);
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n >= 0 && reserve(b, (size_t)n)) {
        vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
}

/* Bytes of a line separator that must be escaped at s: 0, 2 (U+0085) or 3 (U+2028, U+2029). */
static size_t separator(const unsigned char *s, size_t n)
{
    if (n >= 2 && s[0] == 0xC2 && s[1] == 0x85) return 2;
    if (n >= 3 && s[0] == 0xE2 && s[1] == 0x80 && (s[2] == 0xA8 || s[2] == 0xA9)) return 3;
    return 0;
}

static void json_escape(struct buf *b, unsigned char c)
{
    switch (c) {
    case '"':
        buf_str(b, "\\\"");
        break;
    case '\\':
        buf_str(b, "\\\\");
        break;
    case '\n':
        buf_str(b, "\\n");
        break;
    case '\r':
        buf_str(b, "\\r");
        break;
    case '\t':
        buf_str(b, "\\t");
        break;
    default:
        buf_printf(b, "\\u%04x", c);
    }
}

void buf_json(struct buf *b, const char *text, size_t n)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t plain = 0;
    for (size_t i = 0; i < n;) {
        size_t sep = separator(s + i, n - i);
        bool special = s[i] < 0x20 || s[i] == '"' || s[i] == '\\' || s[i] == 0x7f;
        if (!sep && !special) {
            i++;
            continue;
        }
        buf_add(b, text + plain, i - plain);
        if (sep == 2)
            buf_str(b, "\\u0085");
        else if (sep == 3)
            buf_str(b, s[i + 2] == 0xA8 ? "\\u2028" : "\\u2029");
        else
            json_escape(b, s[i]);
        i += sep ? sep : 1;
        plain = i;
    }
    buf_add(b, text + plain, n - plain);
}

char *buf_take(struct buf *b, size_t *len)
{
    if (!b->data) buf_add(b, "", 0);
    char *p = b->failed ? NULL : b->data;
    if (len) *len = p ? b->len : 0;
    if (!p) free(b->data);
    *b = (struct buf){.limit = b->limit};
    return p;
}
