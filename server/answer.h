/* answer.h - turns the tokens of one call into what the client reads: SSE frames, or one JSON
 * object. Both come out of the same path, so a stream's deltas joined are the object's texts. No
 * I/O, no clock; one thread owns it. Source: openai-api spec 2.3, 2.6, 2.7, 3. */
#ifndef SERVER_ANSWER_H
#define SERVER_ANSWER_H

#include "server/call.h"

struct answer;

struct answer_options {
    const struct service *service; /* borrowed */
    const struct call *call;       /* borrowed */
    const char *id;                /* "chatcmpl-..."; copied */
    int64_t created;               /* Unix seconds */
};

struct answer *answer_new(const struct answer_options *o); /* NULL: no memory */
void answer_free(struct answer *a);

uint32_t answer_choices(const struct answer *a);

/* One sampled token of a choice. True: the choice is over although the engine goes on (a stop
 * string, the model speaks for someone else): cancel it. Ignored after that. */
bool answer_token(struct answer *a, uint32_t choice, const struct sampled *t);

/* The engine's last event of a choice. */
void answer_end(struct answer *a, uint32_t choice, const struct gen_event *end);

/* A choice that no token is made for (max_tokens 0). */
void answer_skip(struct answer *a, uint32_t choice);

/* Every choice has had its end. */
bool answer_done(const struct answer *a);

/* The first choice that ended with an error, or was cut off by the server: its end event's error;
 * NULL when all is well. */
const struct error *answer_error(const struct answer *a);

/* Streams: the frames since the caller last cleared it. `failed` when memory ran out. */
struct buf *answer_frames(struct answer *a);

/* After answer_done: a stream's usage chunk (if asked for) and [DONE] go to the frames; otherwise
 * the whole object is appended to `object`. */
void answer_close(struct answer *a, struct buf *object);

struct answer_totals {
    uint64_t prompt, cached, completion, reasoning; /* tokens */
    uint32_t calls, anomalies;
    uint32_t finished[FINISH_ERROR + 1]; /* choices */
    const char *finish;                  /* of the first choice: "stop" ...; NULL while it runs */
};
void answer_totals(const struct answer *a, struct answer_totals *out);

#endif
