/* engine_rig.h - an engine on a generated model, and conversations that note every event. */
#ifndef TESTS_UNIT_ENGINE_RIG_H
#define TESTS_UNIT_ENGINE_RIG_H

#include "engine/engine.h"
#include "engine/model.h"

#include <pthread.h>

#define RIG_MAX_TALKS  1100
#define RIG_MAX_TOKENS 640

struct talk { /* one request's events, in order */
    uint64_t id;
    uint32_t n;
    uint32_t tokens[RIG_MAX_TOKENS];
    float logprobs[RIG_MAX_TOKENS];
    uint32_t ends;        /* must be 1 in the end */
    struct gen_event end; /* the last of them */
    struct wall last;     /* when its last event came */
};

struct rig {
    struct model *model;
    struct machine_spec machine;
    struct engine_options o;
    struct engine *engine;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    struct talk talks[RIG_MAX_TALKS];
    uint32_t ends, batches;
    uint64_t tokens;
};

/* An emulated Trn3 UltraServer whose steps take some 0.4 ms for a tiny model. */
struct machine_spec rig_machine(void);

/* Opens the generated model ("tiny-0", ...), fills r->o for a plan ("72x2"): host clock, one
 * thread. A program that does must be skipped where RIG_MODEL is missing. */
#define RIG_MODEL "tests/models/tiny-0/public.gguf"
void rig_open(struct rig *r, const char *model, const char *plan);
/* The same for a model that is there: a file or a folder. */
void rig_open_path(struct rig *r, const char *path, const char *plan);
void rig_start(struct rig *r); /* engine_new with r->o */
void rig_stop(struct rig *r);  /* engine_free; forgets the events of no talk */
void rig_close(struct rig *r);

/* A request with a prompt of n tokens from a fixed family of prompts (same family: same start). */
struct gen_request rig_request(struct rig *r, uint32_t family, uint32_t n, uint32_t max_tokens);
void rig_submit(struct rig *r, struct gen_request *g, uint32_t talk);

void rig_wait_ends(struct rig *r, uint32_t ends);
void rig_wait_tokens(struct rig *r, uint32_t talk, uint32_t n); /* or its end */

/* Everything is over: no token lost, nothing held, every talk up to n ended once. */
void rig_check_rest(struct rig *r, uint32_t talks);

#endif
