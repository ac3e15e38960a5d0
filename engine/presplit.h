/* presplit.h - cuts text into the pieces that byte-pair merging never crosses: the o200k regular
 * expression as plain rules. Source: gpt-oss spec section 4.3. */
#ifndef ENGINE_PRESPLIT_H
#define ENGINE_PRESPLIT_H

#include <stddef.h>

/* The end of the piece that starts at s[at], at < n. A maximal ill-formed UTF-8 subpart is a piece
 * of its own, and the text before it is cut as if it ended there. Calling this from 0 to n takes
 * O(n) in all. */
size_t presplit_next(const char *s, size_t n, size_t at);

#endif
