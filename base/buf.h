/* buf.h - growable bytes with a hard limit. An append that would pass the limit or finds no memory
 * sets `failed` and leaves the content as it was; the caller checks once, at the end. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

struct buf {
    char *data; /* always followed by a NUL once anything was appended; owned */
    size_t len, cap;
    size_t limit; /* in bytes; 0 = none */
    bool failed;
};

void buf_free(struct buf *b);  /* frees and zeroes, keeps the limit */
void buf_clear(struct buf *b); /* empties, keeps the memory */
void buf_add(struct buf *b, const void *bytes, size_t n);
void buf_str(struct buf *b, const char *s);
void buf_char(struct buf *b, char c);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Appends the text as the inside of a JSON string: escapes quotes, backslashes, control characters,
 * U+0085, U+2028 and U+2029 (line splitters of SSE clients break on them). `s` must be valid UTF-8.
 * Source: RFC 8259 section 7; openai-api spec 2.6. */
void buf_json(struct buf *b, const char *s, size_t n);

/* Hands the bytes to the caller, who frees them; the buffer is empty again. NULL if it failed. */
char *buf_take(struct buf *b, size_t *len);

#endif
