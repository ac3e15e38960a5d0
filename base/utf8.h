/* utf8.h - UTF-8 as the clients of a stream need it: whole characters only, bad bytes replaced. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

/* Decodes one code point from s[0..n), n > 0. Returns its length in bytes and sets *cp; returns 0
 * when the bytes so far are a proper prefix of a valid sequence; returns minus the length of the
 * maximal ill-formed subpart otherwise (Unicode 15, section 3.9, "U+FFFD substitution of maximal
 * subparts"). */
int utf8_decode(const unsigned char *s, size_t n, uint32_t *cp);

bool utf8_valid(const char *s, size_t n);

/* Appends the longest prefix of s[0..n) that is whole characters, each ill-formed subpart as
 * U+FFFD. Returns how many bytes were consumed; the rest (at most 3) wait for more. With `flush`
 * the rest becomes U+FFFD too and n is returned. */
size_t utf8_take(struct buf *out, const char *s, size_t n, bool flush);

#endif
