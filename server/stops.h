/* stops.h - finds stop strings in text that comes in pieces. Holds back only what may still become
 * one: the longest end of the text that is a proper beginning of some stop string. */
#ifndef SERVER_STOPS_H
#define SERVER_STOPS_H

#include "base/buf.h"
#include "engine/harmony.h"

#include <stdbool.h>
#include <stdint.h>

struct stops;       /* the strings; immutable, shared by the choices of a request */
struct stops_state; /* one text */

/* Copies the strings; NULL without memory. n may be 0: then everything passes. */
struct stops *stops_new(const struct chat_text *strings, uint32_t n);
void stops_free(struct stops *s);

/* `s` must outlive the state. */
struct stops_state *stops_start(const struct stops *s);
void stops_end(struct stops_state *t);

/* Takes the next piece (whole characters) and appends to `out` what can no longer become a stop
 * string. Returns the index of the stop string that was found, else -1; what follows it is dropped,
 * and so is the string itself unless `keep`. After a match nothing passes any more. */
int stops_feed(struct stops_state *t, const char *text, size_t len, bool keep, struct buf *out);

/* No more text: appends what was held back. */
void stops_flush(struct stops_state *t, struct buf *out);

#endif
