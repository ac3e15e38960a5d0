/* engine.h - FRONT DOOR. Requests in, token events out. One engine thread owns requests, scheduler,
 * KV, pricing, pacing and sampling; other threads reach it only through engine_submit (bounded
 * inbox), engine_cancel (a flag read between steps) and snapshots (copies published once a step).
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "base/clock.h"
#include "base/err.h"
#include "base/hist.h"
#include "base/quant.h"
#include "conf/machine.h"
#include "conf/shape.h"
#include "device/plan.h"
#include "engine/sample.h"

#include <stdbool.h>
#include <stdint.h>

struct model_weights;
struct engine;
struct gen_batch;

enum engine_clock {
    CLOCK_HOST,   /* as fast as this host: emulated time is wall time, steps cost nothing extra */
    CLOCK_DEVICE, /* paced: a step's tokens leave when the emulated machine would have them */
    CLOCK_VIRTUAL /* time jumps from event to event; nothing waits */
};

struct engine_options {
    const struct model_shape *shape; /* what is computed; borrowed until engine_free */
    const struct model_weights *weights;
    const struct model_shape *timed;    /* what is timed; may be == shape */
    const struct machine_spec *machine; /* borrowed until engine_free */
    /* Complete for `timed`. Where its split does not suit `shape`, as many replicas of as many
     * chips are split otherwise to compute: tokens do not depend on it. */
    struct plan plan;
    enum engine_clock clock;
    uint32_t block_tokens; /* [16] power of two */
    uint32_t step_tokens;  /* token budget of a step of one replica [512] */
    uint32_t chunk_tokens; /* most prompt tokens of one sequence in a step [512] */
    uint32_t max_seqs;     /* running sequences per replica [256] */
    uint32_t max_waiting;  /* requests waiting, all replicas; more is ERR_FULL [1024] */
    uint32_t max_context;  /* prompt + output tokens of a request [model's, or what the KV holds] */
    uint64_t kv_host_bytes;  /* host memory for KV, all replicas [256 MiB] */
    uint32_t kv_blocks;      /* per replica, full-attention blocks; 0 = from the bytes and the
                                emulated HBM, whichever is less (tests force small ones) */
    bool prefix_cache;       /* [true] */
    uint32_t threads;        /* host compute threads, 0 = all cores */
    const char *isa;         /* "auto" ... */
    const uint64_t *allowed; /* bitmap of ids that may be sampled, borrowed; NULL = all */
    bool hold;               /* nothing runs before engine_start(): with CLOCK_VIRTUAL, what was
                                submitted before gives the same events, whatever the host does */
    /* One batch of events a step, on the engine's thread; the receiver owns it (gen_batch_free).
     * Must not block. */
    void (*deliver)(void *arg, struct gen_batch *batch);
    void *deliver_arg;
};

#define GEN_MAX_STOPS 64

struct gen_request {
    const uint32_t *prompt; /* copied */
    uint32_t n_prompt;      /* >= 1 */
    uint32_t max_tokens;    /* >= 1; the engine cuts it to what the context leaves */
    uint32_t min_tokens;    /* stop ids do not end it before */
    struct sample_params sample;
    uint32_t stops[GEN_MAX_STOPS]; /* ids that end it */
    uint32_t n_stops;
    uint64_t cache_salt; /* isolates the prefix cache; 0 = shared */
    int32_t priority;    /* lower runs earlier */
    struct virt arrive;  /* not before this emulated time; 0 = now */
    void *user;          /* given back in each event; must live until GEN_END is delivered */
};

enum gen_finish { FINISH_NONE, FINISH_STOP, FINISH_LENGTH, FINISH_ABORT, FINISH_ERROR };

struct gen_event {
    uint64_t id;
    void *user;
    bool end;               /* the request's last event, exactly one; carries no token */
    enum gen_finish finish; /* with `end` */
    struct sampled token;   /* without `end`; a stop id is delivered as a token before the end */
    /* with `end` */
    uint32_t prompt_tokens, cached_tokens, output_tokens;
    struct virt arrived, scheduled, first_token, finished; /* emulated time; 0 = never happened */
    struct error error;                                    /* FINISH_ERROR */
};

struct gen_batch {
    struct gen_batch *next; /* the receiver's, to queue it */
    uint32_t n;
    struct gen_event events[];
};
void gen_batch_free(struct gen_batch *b);

/* Starts the engine's thread. NULL and *e when memory, the plan or the machine do not allow it. */
struct engine *engine_new(const struct engine_options *o, struct error *e);
/* Ends every request with FINISH_ABORT, joins the thread, frees. */
void engine_free(struct engine *e);

/* ERR_OK and *id; ERR_FULL: the waiting room is full; ERR_CONTEXT: can never fit (message with both
 * numbers); ERR_DRAINING after engine_drain; ERR_INVAL names the field. From any thread, deliver()
 * included. *id is set before any event can come. */
enum err engine_submit(struct engine *e, const struct gen_request *r, uint64_t *id,
                       struct error *err);
/* From any thread, any time, unknown ids are ignored. GEN_END with FINISH_ABORT follows, unless the
 * end is already on its way. */
void engine_cancel(struct engine *e, uint64_t id);
/* Ends options.hold; else no effect. */
void engine_start(struct engine *e);
/* No new requests from now on; running ones go on. */
void engine_drain(struct engine *e);

uint32_t engine_max_context(const struct engine *e);
const char *engine_isa(const struct engine *e);

/* ---- snapshots: copies, never waits for a step */

enum latency {
    LAT_TTFT,
    LAT_TPOT,
    LAT_ITL,
    LAT_E2E,
    LAT_QUEUE,
    LAT_PREFILL,
    LAT_DECODE,
    LATENCIES
};

struct engine_stats {
    struct virt now;
    uint64_t submitted, finished[FINISH_ERROR + 1];
    uint64_t prompt_tokens, cached_tokens, computed_prompt_tokens; /* of admitted requests */
    uint64_t sampled_tokens, delivered_tokens, dropped_tokens; /* sampled = delivered + dropped */
    uint64_t preemptions, steps;
    uint64_t prefix_queries_tokens, prefix_hits_tokens;
    uint32_t running, waiting;
    uint64_t kv_blocks_total, kv_blocks_used; /* used: held by a running sequence */
    struct hist latency[LATENCIES];           /* seconds of emulated time */
    struct quant ttft, tpot, e2e;             /* the same three with exact quantiles */
    struct hist prompt_hist, output_hist, step_tokens_hist;
    uint64_t lag_ns;       /* the emulated clock stood still for so long, waiting for this host */
    uint64_t active_ns;    /* emulated time in which there was a request */
    uint64_t host_busy_ns; /* wall time spent computing */
    struct wall last_step; /* heartbeat: when the engine last looked at its work */
    bool has_work;
};
void engine_stats(struct engine *e, struct engine_stats *out);

struct chip_report {
    uint32_t chip, sled, rack, replica;
    const char *state; /* "busy", "idle", "unused" */
    uint64_t tokens, prompt_tokens;
    double tokens_per_s, busy_share; /* over the emulated time since start */
    uint64_t hbm_used_bytes, hbm_total_bytes, link_bytes[LINK_LEVELS];
    double flops, hbm_read_bytes, joules;
};
struct replica_report {
    uint32_t replica, first_chip, chips, running, waiting;
    uint64_t tokens, prompt_tokens, steps, kv_blocks_used, kv_blocks_total;
    double busy_share;
};
/* Copies up to `max` entries; returns how many there are. */
uint32_t engine_chips(struct engine *e, struct chip_report *out, uint32_t max);
uint32_t engine_replicas(struct engine *e, struct replica_report *out, uint32_t max);

#endif
