/* engine.c - the engine's life, and the calls of other threads. */
#include "engine/engine.h"

#include "engine/engine_state.h"

#include <stdlib.h>

/* A run of the machine holds so many rows, if a single step does not need more: replicas whose
 * steps are due together share it. The buffers grow with it. */
#define RUN_ROWS 1024
/* Memory for the logits of one run, unless a few rows need more. */
#define LOGITS_BYTES    (64u << 20)
#define LOGITS_MIN_ROWS 16

static enum err check_options(const struct engine_options *o, struct error *e)
{
    if (!o->block_tokens || (o->block_tokens & (o->block_tokens - 1)))
        return err_set(e, ERR_INVAL, "block_tokens is %u, must be a power of two", o->block_tokens);
    if (!o->chunk_tokens || o->chunk_tokens > o->step_tokens)
        return err_set(e, ERR_INVAL, "chunk_tokens is %u, must be 1 to step_tokens (%u)",
                       o->chunk_tokens, o->step_tokens);
    if (!o->max_seqs || o->max_seqs > o->step_tokens)
        return err_set(e, ERR_INVAL, "max_seqs is %u, must be 1 to step_tokens (%u)", o->max_seqs,
                       o->step_tokens);
    if (!o->max_waiting) return err_set(e, ERR_INVAL, "max_waiting is 0, must be 1 or more");
    struct plan timed = o->plan;
    return plan_complete(&timed, o->timed, o->machine, e);
}

static enum err choose_computed(const struct engine_options *o, struct plan *p, struct error *e)
{
    *p = o->plan;
    if (plan_complete(p, o->shape, o->machine, NULL) == ERR_OK) return ERR_OK;
    *p = (struct plan){.replicas = o->plan.replicas, .chips = o->plan.chips};
    return plan_complete(p, o->shape, o->machine, e);
}

static void size_runs(struct engine *e)
{
    const struct engine_options *o = &e->o;
    uint64_t seqs = (uint64_t)o->plan.replicas * o->max_seqs;
    uint64_t logits = LOGITS_BYTES / sizeof(float) / o->shape->vocab;
    e->max_rows = seqs < RUN_ROWS ? (uint32_t)seqs : RUN_ROWS;
    if (e->max_rows < o->step_tokens) e->max_rows = o->step_tokens;
    if (logits < LOGITS_MIN_ROWS) logits = LOGITS_MIN_ROWS;
    if (logits > seqs) logits = seqs;
    e->max_logit_rows = logits < e->max_rows ? (uint32_t)logits : e->max_rows;
}

static void size_context(struct engine *e)
{
    uint64_t most = (uint64_t)e->kv_size.full * e->o.block_tokens;
    if (most > e->o.shape->max_positions) most = e->o.shape->max_positions;
    if (e->o.max_context && most > e->o.max_context) most = e->o.max_context;
    e->limits = (struct request_limits){.vocab = e->o.shape->vocab,
                                        .max_context = (uint32_t)most,
                                        .block_tokens = e->o.block_tokens,
                                        .prefix_cache = e->o.prefix_cache};
}

static bool new_replica(struct engine *e, uint32_t index)
{
    const struct engine_options *o = &e->o;
    struct replica *r = &e->replicas[index];
    uint32_t groups = e->computed.attn_dp;
    r->kv = calloc(groups, sizeof(struct kv *));
    for (uint32_t g = 0; r->kv && g < groups; g++) {
        uint32_t number = index * groups + g;
        r->kv[g] = kv_new(&(struct kv_options){.full_blocks = e->kv_size.full,
                                               .slide_blocks = e->kv_size.slide,
                                               .first_full = number * e->kv_size.full,
                                               .first_slide = number * e->kv_size.slide,
                                               .block_tokens = o->block_tokens,
                                               .window = o->shape->window,
                                               .prefix_cache = o->prefix_cache});
        if (!r->kv[g]) return false;
    }
    if (!r->kv) return false;
    r->sched = sched_new(&(struct sched_options){.step_tokens = o->step_tokens,
                                                 .chunk_tokens = o->chunk_tokens,
                                                 .max_seqs = o->max_seqs,
                                                 .block_tokens = o->block_tokens,
                                                 .groups = groups,
                                                 .prefix_cache = o->prefix_cache},
                         r->kv);
    return r->sched != NULL;
}

static bool new_slots(struct engine *e)
{
    uint64_t n = (uint64_t)e->o.plan.replicas * e->o.max_seqs + e->o.max_waiting;
    if (n >= SLOT_NONE) return false;
    e->n_slots = (uint32_t)n;
    e->free_slot = e->cancelled_slot = SLOT_NONE;
    e->slots = calloc(n, sizeof *e->slots);
    e->live = calloc(n, sizeof(struct request *));
    e->freed = calloc(n, sizeof *e->freed);
    e->cancels = calloc(n, sizeof *e->cancels);
    if (!e->slots || !e->live || !e->freed || !e->cancels) return false;
    for (uint32_t i = e->n_slots; i-- > 0;) {
        e->slots[i].next = e->free_slot;
        e->free_slot = i;
    }
    return true;
}

static bool new_memory(struct engine *e)
{
    uint32_t replicas = e->o.plan.replicas;
    e->replicas = calloc(replicas, sizeof *e->replicas);
    if (!e->replicas || !new_slots(e)) return false;
    for (uint32_t i = 0; i < replicas; i++)
        if (!new_replica(e, i)) return false;
    e->last_placed = replicas - 1; /* the first request goes to replica 0 */
    e->loads = calloc(replicas, sizeof *e->loads);
    e->seqs = calloc((size_t)replicas * e->o.max_seqs, sizeof *e->seqs);
    e->timed_seqs = calloc(e->o.max_seqs, sizeof *e->timed_seqs);
    e->rows = calloc(e->max_rows, sizeof *e->rows);
    e->program = malloc(sizeof *e->program);
    e->timed_program = malloc(sizeof *e->timed_program);
    e->scratch = malloc(e->o.shape->vocab * sizeof *e->scratch);
    e->published.chips = calloc(e->o.machine->chips, sizeof *e->published.chips);
    e->published.replicas = calloc(replicas, sizeof *e->published.replicas);
    e->telemetry = telemetry_new(e->o.machine, &e->o.plan, e->o.timed);
    return e->loads && e->seqs && e->timed_seqs && e->rows && e->program && e->timed_program &&
           e->scratch && e->published.chips && e->published.replicas && e->telemetry;
}

static struct machine *new_machine(const struct engine *e, struct error *err)
{
    const struct engine_options *o = &e->o;
    uint32_t groups = o->plan.replicas * e->computed.attn_dp;
    struct machine_options m = {.shape = o->shape,
                                .weights = o->weights,
                                .plan = e->computed,
                                .block_tokens = o->block_tokens,
                                .full_blocks = groups * e->kv_size.full,
                                .slide_blocks = groups * e->kv_size.slide,
                                .max_rows = e->max_rows,
                                .max_logit_rows = e->max_logit_rows,
                                .threads = o->threads,
                                .isa = o->isa};
    return machine_new(&m, err);
}

static void new_lock(struct engine *e)
{
    pthread_condattr_t attr;
    pthread_mutex_init(&e->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&e->wake, &attr);
    pthread_condattr_destroy(&attr);
}

struct engine *engine_new(const struct engine_options *o, struct error *err)
{
    if (check_options(o, err)) return NULL;
    struct engine *e = calloc(1, sizeof *e);
    if (!e) {
        err_set(err, ERR_NOMEM, "engine: no memory");
        return NULL;
    }
    e->o = *o;
    e->started = !o->hold;
    e->epoch = wall_now();
    TAILQ_INIT(&e->inbox);
    TAILQ_INIT(&e->taken);
    TAILQ_INIT(&e->future);
    TAILQ_INIT(&e->held);
    engine_stats_init(&e->stats);
    new_lock(e);
    size_runs(e);
    if (choose_computed(o, &e->computed, err)) goto fail;
    if (engine_size_kv(o, e->computed.attn_dp, &e->kv_size, err)) goto fail;
    size_context(e);
    if (!new_memory(e)) {
        err_set(err, ERR_NOMEM, "engine: no memory for %u replicas of %u sequences",
                o->plan.replicas, o->max_seqs);
        goto fail;
    }
    e->machine = new_machine(e, err);
    if (!e->machine) goto fail;
    engine_publish(e, true);
    if (pthread_create(&e->thread, NULL, engine_run, e)) {
        err_set(err, ERR_NOMEM, "engine: cannot start its thread");
        goto fail;
    }
    e->has_thread = true;
    return e;
fail:
    engine_free(e);
    return NULL;
}

static void free_replica(struct replica *r, uint32_t groups)
{
    sched_free(r->sched);
    for (uint32_t g = 0; r->kv && g < groups; g++)
        kv_free(r->kv[g]);
    free(r->kv);
}

void engine_free(struct engine *e)
{
    if (!e) return;
    if (e->has_thread) {
        pthread_mutex_lock(&e->lock);
        e->stop = e->draining = true;
        pthread_cond_signal(&e->wake);
        pthread_mutex_unlock(&e->lock);
        pthread_join(e->thread, NULL);
    }
    for (uint32_t i = 0; e->replicas && i < e->o.plan.replicas; i++)
        free_replica(&e->replicas[i], e->computed.attn_dp);
    free(e->replicas);
    machine_free(e->machine);
    telemetry_free(e->telemetry);
    free(e->published.chips);
    free(e->published.replicas);
    free(e->slots);
    free(e->live);
    free(e->freed);
    free(e->cancels);
    free(e->loads);
    free(e->seqs);
    free(e->timed_seqs);
    free(e->rows);
    free(e->program);
    free(e->timed_program);
    free(e->scratch);
    pthread_cond_destroy(&e->wake);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

/* Under the lock: the request goes to the inbox, or why not. */
static enum err enqueue(struct engine *e, struct request *r, uint64_t *id, struct error *err)
{
    if (e->draining) return err_set(err, ERR_DRAINING, "the server is shutting down");
    if (e->inbox_len + e->queued >= e->o.max_waiting || e->free_slot == SLOT_NONE)
        return err_set(err, ERR_FULL, "%u requests are waiting, no more are taken now",
                       e->inbox_len + e->queued);
    uint32_t slot = e->free_slot;
    e->free_slot = e->slots[slot].next;
    *id = r->id = e->slots[slot].id = ++e->serial * e->n_slots + slot;
    TAILQ_INSERT_TAIL(&e->inbox, r, link);
    e->inbox_len++;
    e->submitted++;
    pthread_cond_signal(&e->wake);
    return ERR_OK;
}

enum err engine_submit(struct engine *e, const struct gen_request *g, uint64_t *id,
                       struct error *err)
{
    struct request *r;
    enum err rc = request_new(g, &e->limits, &r, err);
    if (rc) return rc;
    if (e->o.clock == CLOCK_HOST && r->params.arrive.ns < engine_now(e).ns)
        r->params.arrive = engine_now(e);
    pthread_mutex_lock(&e->lock);
    rc = enqueue(e, r, id, err);
    pthread_mutex_unlock(&e->lock);
    if (rc) request_free(r);
    return rc;
}

void engine_cancel(struct engine *e, uint64_t id)
{
    uint32_t slot = (uint32_t)(id % e->n_slots);
    pthread_mutex_lock(&e->lock);
    struct slot *s = &e->slots[slot];
    if (id && s->id == id && !s->queued) {
        s->queued = true;
        s->next = e->cancelled_slot;
        e->cancelled_slot = slot;
        pthread_cond_signal(&e->wake);
    }
    pthread_mutex_unlock(&e->lock);
}

void engine_start(struct engine *e)
{
    pthread_mutex_lock(&e->lock);
    e->started = true;
    pthread_cond_signal(&e->wake);
    pthread_mutex_unlock(&e->lock);
}

void engine_drain(struct engine *e)
{
    pthread_mutex_lock(&e->lock);
    e->draining = true;
    pthread_mutex_unlock(&e->lock);
}

uint32_t engine_max_context(const struct engine *e)
{
    return e->limits.max_context;
}

const char *engine_isa(const struct engine *e)
{
    return machine_isa(e->machine);
}
