/* sched.h - continuous batching on one replica: which sequences run in its next step, with how many
 * rows. Decides only: no clock, no I/O, no heap in a step. One thread, the engine's, owns it.
 *
 * A step is filled in this order, up to step_tokens rows: one row for each running sequence whose
 * tokens are all computed but the last (decode); chunks of the running ones that are further behind
 * (prefill); then waiting ones are admitted by priority, then by arrival. The first that finds no
 * blocks stops admission, so nobody is overtaken for ever. When a running sequence finds no block,
 * the last in that same order gives all of its blocks back and waits again (it computes its tokens
 * anew later); nothing is ever taken for the sake of a waiting one.
 */
#ifndef ENGINE_SCHED_H
#define ENGINE_SCHED_H

#include "engine/kv.h"

struct sched_seq { /* the owner sets the first part before sched_add */
    struct kv_seq kv;
    const uint32_t *ids; /* all known tokens: prompt, then sampled */
    uint64_t salt;
    uint64_t order; /* arrival: lower is earlier; unique */
    int32_t priority;
    uint32_t tokens; /* how many of ids are known; sched_token raises it */
    bool held;       /* not to be scheduled now */

    uint32_t computed; /* tokens in the KV cache */
    uint32_t reused;   /* of these, found in the prefix cache at the last admission */
    uint32_t dp;       /* data-parallel group, once admitted */
    bool running;
    struct sched_seq *prev, *next; /* in the queue of those that wait */
};

struct sched_item { /* one sequence's part of a step */
    struct sched_seq *seq;
    uint32_t start, rows;
    bool last;     /* its rows reach the last known token: a token is to be sampled */
    bool admitted; /* its first step since it waited */
};

struct sched_step {
    struct sched_item *items; /* room for max_seqs; sched.c's, valid until the next plan */
    uint32_t n, rows;
    uint32_t preempted;
};

struct sched_options {
    uint32_t step_tokens, chunk_tokens; /* chunk_tokens <= step_tokens */
    uint32_t max_seqs;                  /* <= step_tokens, so that every decode fits a step */
    uint32_t block_tokens;
    uint32_t groups; /* data-parallel groups, each with its own blocks */
    bool prefix_cache;
};

struct sched;

/* kv[groups]: borrowed until sched_free. NULL: no memory. */
struct sched *sched_new(const struct sched_options *o, struct kv *const *kv);
void sched_free(struct sched *s); /* forgets its sequences */

void sched_add(struct sched *s, struct sched_seq *seq);    /* it waits */
void sched_remove(struct sched *s, struct sched_seq *seq); /* in any state; its blocks come back */

/* The next step; n == 0: nothing can run now. */
void sched_plan(struct sched *s, struct sched_step *out);

/* The item's rows were computed. */
void sched_commit(struct sched *s, const struct sched_item *item);

/* One more known token; the owner has written it to ids. */
void sched_token(struct sched *s, struct sched_seq *seq);

uint32_t sched_running(const struct sched *s);
uint32_t sched_waiting(const struct sched *s);

#endif
