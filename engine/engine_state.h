/* engine_state.h - what the engine_*.c files share; nobody else includes it.
 *
 * A pass of the thread: take what others left (wait for it if nothing is due), let requests arrive,
 * end steps and holds that are due, plan the next steps of idle replicas, publish, deliver,
 * compute.
 */
#ifndef ENGINE_ENGINE_STATE_H
#define ENGINE_ENGINE_STATE_H

#include "device/machine.h"
#include "device/telemetry.h"
#include "engine/lower.h"
#include "engine/place.h"
#include "engine/request.h"

#include <pthread.h>

#define NEVER UINT64_MAX

struct kv_size { /* blocks of one data-parallel group */
    uint32_t full, slide;
};

struct replica {
    struct sched *sched;
    struct kv **kv;         /* [attn_dp] */
    struct sched_step step; /* while busy; an item whose request ended has no seq */
    struct cost cost;       /* of the step */
    struct virt end;        /* of the step, or of the last one */
    bool busy;
    struct virt changed; /* a request was taken away: what waited may fit from then on */
    uint32_t first_seq;  /* the step's items are seqs[first_seq ..) of the pass */
    uint64_t outstanding_tokens;
    uint64_t last_order; /* requests placed before its last one, that one included */
    uint64_t tokens, prompt_tokens, steps;
    double busy_ns;
};

struct slot {      /* of a live request; id % capacity is its number */
    uint64_t id;   /* 0: free */
    uint32_t next; /* in the list of free slots, or of those to cancel */
    bool queued;   /* in the latter */
};

#define SLOT_NONE UINT32_MAX

struct snapshot {
    struct engine_stats stats;
    struct chip_report *chips;
    struct replica_report *replicas;
};

struct engine {
    struct engine_options o;
    struct request_limits limits;
    uint32_t max_rows, max_logit_rows; /* of one machine_run */
    struct plan computed; /* how the computed shape is split: its groups hold the KV blocks */
    struct kv_size kv_size;
    struct wall epoch; /* when the emulated machine started */
    /* The emulated clock stood still for so long, waiting for this host. Only the thread adds. */
    _Atomic uint64_t lag_ns;
    pthread_t thread;
    bool has_thread;

    pthread_mutex_t lock; /* of this part; held for copies only */
    pthread_cond_t wake;
    struct request_list inbox;
    struct slot *slots;
    uint32_t n_slots, free_slot, cancelled_slot;
    uint32_t inbox_len, queued; /* waiting: not yet taken, and taken */
    uint64_t serial, submitted;
    bool started, draining, stop;
    struct snapshot published;

    /* ---- the thread's own from here on */
    struct machine *machine;
    struct telemetry *telemetry;
    struct replica *replicas;
    uint32_t last_placed;
    struct place_replica *loads; /* [replicas] */
    struct request **live;       /* [n_slots] */
    uint32_t n_live;
    uint32_t *freed, n_freed;     /* slots to give back at the next lock */
    uint32_t *cancels, n_cancels; /* slots whose requests were cancelled */
    struct request_list taken;    /* from the inbox, not yet looked at */
    struct request_list future;   /* by time of arrival */
    struct request_list held;     /* first token sampled, not yet due */
    uint32_t n_future;
    uint64_t order;
    struct virt now;

    struct batch_seq *seqs;       /* [replicas * max_seqs]: of all steps planned in this pass */
    struct batch_seq *timed_seqs; /* [max_seqs]: of one step, in the groups of the timed plan */
    struct batch_row *rows;       /* [max_rows] */
    uint32_t n_seqs;
    struct program *program, *timed_program;
    struct sample_top *scratch; /* [vocab] */
    struct gen_batch *outbox;
    uint32_t outbox_room;
    struct engine_stats stats;
    struct wall chips_published;
};

/* engine_kv.c: how many blocks each of the `dp` groups of a replica gets; ERR_RANGE if none fits.
 */
enum err engine_size_kv(const struct engine_options *o, uint32_t dp, struct kv_size *out,
                        struct error *e);

/* engine_thread.c */
void *engine_run(void *engine);
struct virt engine_now(const struct engine *e); /* from the wall; not under CLOCK_VIRTUAL */

/* engine_step.c: plans the steps of all idle replicas; runs what was planned. */
void engine_plan(struct engine *e);
void engine_compute(struct engine *e);
/* The replica's step is over: its results count. */
void engine_finish_step(struct engine *e, struct replica *r);

/* engine_events.c */
void engine_emit_token(struct engine *e, struct request *r, struct virt when);
void engine_end(struct engine *e, struct request *r, enum gen_finish finish,
                const struct error *error);
void engine_hold(struct engine *e, struct request *r, struct virt until);
void engine_load(struct engine *e, struct request *r); /* its share of the outstanding tokens */
void engine_deliver(struct engine *e);

/* engine_stats.c */
void engine_stats_init(struct engine_stats *s);
void engine_publish(struct engine *e, bool all); /* under the lock; all: chips and replicas too */

#endif
