/* backend.h - what the configuration names, opened: model, machine, plan, engine. */
#ifndef SERVER_BACKEND_H
#define SERVER_BACKEND_H

#include "conf/daemon.h"
#include "conf/machine.h"
#include "engine/engine.h"
#include "engine/model.h"
#include "server/service.h"

struct backend {
    struct model *model;
    struct tokenizer *tokenizer;
    uint64_t *allowed; /* bitmap of ids that may be sampled */
    struct model_shape timed;
    struct machine_spec machine;
    struct engine_options options;
    struct engine *engine;
    struct service service;
    char plan[96], fingerprint[32], name[128];
};

/* Opens everything; may take as long as the weights are big. `deliver` and its argument become the
 * engine's. On failure what was opened stays for backend_close. */
enum err backend_open(struct backend *b, const struct conf *c,
                      void (*deliver)(void *, struct gen_batch *), void *arg, struct error *e);
void backend_close(struct backend *b); /* {0} is fine */

const char *backend_clock_name(const struct backend *b); /* "host" ... */

/* What can be checked without memory for weights and KV: files, names, the plan. */
enum err backend_check(const struct conf *c, struct error *e);

#endif
