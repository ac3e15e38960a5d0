/* request.h - one request on its way through the engine. Made by the thread that submits it, then
 * owned by the engine's thread. */
#ifndef ENGINE_REQUEST_H
#define ENGINE_REQUEST_H

#include "engine/engine.h"
#include "engine/sched.h"

#include <sys/queue.h>

struct request {
    struct sched_seq seq;      /* first: the scheduler's pointer is the request's */
    struct gen_request params; /* .prompt is ids */
    uint64_t id;
    uint32_t replica;
    uint32_t *ids; /* prompt, then sampled; room for max_tokens */
    bool placed;   /* on its replica; else it is yet to arrive */

    struct sched_item *item; /* its part of the step that runs now */
    struct sampled next;     /* sampled, not yet delivered */
    bool has_next;
    uint32_t delivered;     /* tokens */
    uint32_t cached_tokens; /* at its first admission */
    uint32_t prompt_done;   /* prompt tokens computed or cached, ever: more than seq.computed after
                               a preemption */
    uint64_t load;          /* its share of the replica's outstanding tokens */

    struct virt arrived, scheduled, first_token, last_token; /* 0: not yet */
    struct virt held_until;                                  /* while seq.held */
    struct virt ready;         /* no step that it is part of begins before */
    TAILQ_ENTRY(request) link; /* in the inbox, among the future ones, or among the held */
};

TAILQ_HEAD(request_list, request);

struct request_limits {
    uint32_t vocab, max_context, block_tokens;
    bool prefix_cache;
};

/* Checks and copies; the prompt's blocks are hashed here, on the caller's thread. On failure
 * ERR_INVAL names the field, ERR_CONTEXT both numbers, ERR_NOMEM; *out is NULL. */
enum err request_new(const struct gen_request *g, const struct request_limits *l,
                     struct request **out, struct error *e);
void request_free(struct request *r);

uint32_t request_outputs(const struct request *r); /* sampled tokens that are known */

/* Whether its last known token ends it; FINISH_NONE: no. */
enum gen_finish request_finish(const struct request *r);

#endif
