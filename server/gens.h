/* gens.h - requests to generate, from their body to their last token: the one place where the
 * HTTP side and the engine's events meet. Everything but gens_deliver() is the I/O thread's.
 *
 * Each has two kinds of holders: its connection, until the HTTP side says it is over, and each of
 * its engine requests, until that one's end event was taken from the inbox. Whoever lets go last
 * frees it, so a batch in flight never points at freed memory. */
#ifndef SERVER_GENS_H
#define SERVER_GENS_H

#include "engine/engine.h"
#include "server/call.h"
#include "server/http.h"
#include "server/loop.h"
#include "server/metrics.h"

struct gens;

struct gens_options {
    struct loop *loop;         /* borrowed */
    struct metrics *metrics;   /* borrowed */
    uint64_t keepalive_ns;     /* a silent stream gets a comment; 0 = never */
    uint32_t max_unread_bytes; /* a stream whose client leaves more unread is cut off */
    bool access_log;
};

struct gens *gens_new(const struct gens_options *o);
void gens_free(struct gens *g); /* after engine_free, gens_wake and http_free */

/* From now on requests are taken. Both are borrowed until gens_free. */
void gens_serve(struct gens *g, const struct service *s, struct engine *e);

/* Takes the request and its body; answers it, sooner or later. */
void gens_start(struct gens *g, struct http_req *r, enum call_kind kind);

/* For engine_options.deliver: queues the batch and wakes the loop. The engine's thread. */
void gens_deliver(void *gens, struct gen_batch *b);

void gens_wake(struct gens *g);  /* takes what was delivered */
void gens_tick(struct gens *g);  /* keep-alives */
void gens_abort(struct gens *g); /* every request that is left ends with an error now */
uint32_t gens_active(const struct gens *g);

#endif
