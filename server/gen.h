/* gen.h - inside of gen*.c: one request to generate. */
#ifndef SERVER_GEN_H
#define SERVER_GEN_H

#include "server/answer.h"
#include "server/gens.h"

#include <stdatomic.h>

struct gen;

struct gen_slot { /* one request of the engine; the `user` of its events */
    struct gen *gen;
    uint32_t choice;
    uint64_t id;
    bool live; /* its end has not come */
};

struct gen {
    struct gens *owner;
    struct gen *next, **link, *next_dirty;
    bool dirty;
    uint32_t refs;
    struct http_req *req;  /* NULL: the connection is over */
    struct writer *writer; /* of a stream that has begun */
    char *body;            /* until it is parsed */
    size_t body_len;
    struct call call;
    enum call_kind kind;
    struct api_error error;
    struct answer *answer;
    struct gen_slot *slots;
    uint32_t n_slots;
    bool parsing;  /* on the pool: call and error belong to that thread */
    bool gone;     /* the client left */
    bool answered; /* everything was handed to the HTTP side */
    bool complete; /* and the client has it */

    /* for the log line */
    char id[129], remote[64];
    int status;
    struct wall start, first, last_write;
    enum gen_phase phase; /* where it was when the client left */
    struct virt arrived, scheduled, first_token, finished;
};

struct gens {
    struct gens_options options;
    const struct service *service;
    struct engine *engine;
    struct gen *list, *dirty;
    uint32_t active;
    _Atomic(struct gen_batch *) inbox; /* newest first */
};

/* gen_reply.c: what the client gets. */
void gen_flush(struct gen *g);                           /* hands over what the answer has */
void gen_fail(struct gen *g, const struct api_error *e); /* status and error object, or a frame */
void gen_keep_alive(struct gen *g, struct wall now);

/* gen.c */
void gen_cancel(struct gen *g); /* what still runs in the engine */
void gen_log(const struct gen *g);

#endif
