/* engine_thread.c - the engine's thread: an event loop in emulated time. */
#include "engine/engine_state.h"

#include <sys/prctl.h>

struct virt engine_now(const struct engine *e)
{
    return (struct virt){wall_now().ns - e->epoch.ns - e->lag_ns};
}

/* When something happens next, if nobody calls. */
static uint64_t next_event_ns(const struct engine *e)
{
    uint64_t next = e->outbox ? 0 : NEVER;
    for (uint32_t i = 0; i < e->o.plan.replicas; i++)
        if (e->replicas[i].busy && e->replicas[i].end.ns < next) next = e->replicas[i].end.ns;
    const struct request *r;
    TAILQ_FOREACH(r, &e->held, link)
    if (r->held_until.ns < next) next = r->held_until.ns;
    r = TAILQ_FIRST(&e->future);
    return r && r->params.arrive.ns < next ? r->params.arrive.ns : next;
}

static bool called(const struct engine *e)
{
    return e->stop || (e->started && (!TAILQ_EMPTY(&e->inbox) || e->cancelled_slot != SLOT_NONE));
}

/* Sleeps, with the lock let go, until `next` (emulated) or until somebody calls. */
static void sleep_until(struct engine *e, uint64_t next)
{
    if (e->o.clock == CLOCK_VIRTUAL && next != NEVER) return;
    uint64_t wall = e->epoch.ns + e->lag_ns + next;
    struct timespec at = {(time_t)(wall / NS_PER_S), (long)(wall % NS_PER_S)};
    while (!called(e)) {
        if (next == NEVER)
            pthread_cond_wait(&e->wake, &e->lock);
        else if (wall_now().ns >= wall || pthread_cond_timedwait(&e->wake, &e->lock, &at))
            break;
    }
}

static void give_slots(struct engine *e)
{
    while (e->n_freed) {
        uint32_t slot = e->freed[--e->n_freed];
        e->slots[slot].id = 0;
        /* A slot in the list of cancelled ones stays there; it is free once it is taken out. */
        if (e->slots[slot].queued) continue;
        e->slots[slot].next = e->free_slot;
        e->free_slot = slot;
    }
}

static void take_cancels(struct engine *e)
{
    while (e->cancelled_slot != SLOT_NONE) {
        uint32_t slot = e->cancelled_slot;
        struct slot *s = &e->slots[slot];
        e->cancelled_slot = s->next;
        s->queued = false;
        if (s->id) {
            e->cancels[e->n_cancels++] = slot;
        } else {
            s->next = e->free_slot;
            e->free_slot = slot;
        }
    }
}

/* The start of a pass: what others left. False: to stop. */
static bool take_calls(struct engine *e)
{
    uint64_t next = next_event_ns(e);
    pthread_mutex_lock(&e->lock);
    give_slots(e);
    sleep_until(e, next);
    if (e->started || e->stop) {
        TAILQ_CONCAT(&e->taken, &e->inbox, link);
        e->queued += e->inbox_len;
        e->inbox_len = 0;
        take_cancels(e);
    }
    e->published.stats.last_step = wall_now();
    bool go_on = !e->stop;
    pthread_mutex_unlock(&e->lock);
    uint64_t before = e->now.ns;
    if (e->o.clock != CLOCK_VIRTUAL)
        e->now = engine_now(e);
    else if (next != NEVER && next > e->now.ns)
        e->now.ns = next;
    if (e->n_live) e->stats.active_ns += e->now.ns - before;
    return go_on;
}

static uint32_t cached_blocks(const struct engine *e, const struct replica *rep,
                              const struct request *r)
{
    uint32_t best = 0;
    for (uint32_t g = 0; g < e->computed.attn_dp; g++) {
        uint32_t n = kv_match(rep->kv[g], &r->seq.kv, (r->seq.tokens - 1) / e->o.block_tokens);
        if (n > best) best = n;
    }
    return best;
}

/* A request has arrived: it goes to a replica's queue. */
static void place(struct engine *e, struct request *r)
{
    for (uint32_t i = 0; i < e->o.plan.replicas; i++)
        e->loads[i] = (struct place_replica){
            .outstanding_tokens = e->replicas[i].outstanding_tokens,
            .cached_tokens = cached_blocks(e, &e->replicas[i], r) * e->o.block_tokens,
            .rest = e->order - e->replicas[i].last_order};
    r->replica = e->last_placed =
        place_pick(e->loads, e->o.plan.replicas, r->params.n_prompt, e->last_placed);
    r->arrived = r->ready = r->params.arrive;
    r->placed = true;
    r->seq.order = e->order++;
    e->replicas[r->replica].last_order = e->order;
    sched_add(e->replicas[r->replica].sched, &r->seq);
    engine_load(e, r);
}

static void add_future(struct engine *e, struct request *r)
{
    struct request *at = TAILQ_LAST(&e->future, request_list);
    while (at && at->params.arrive.ns > r->params.arrive.ns)
        at = TAILQ_PREV(at, request_list, link);
    if (at)
        TAILQ_INSERT_AFTER(&e->future, at, r, link);
    else
        TAILQ_INSERT_HEAD(&e->future, r, link);
    e->n_future++;
}

static void arrivals(struct engine *e)
{
    struct request *r;
    while ((r = TAILQ_FIRST(&e->taken))) {
        TAILQ_REMOVE(&e->taken, r, link);
        e->live[r->id % e->n_slots] = r;
        e->n_live++;
        /* Not when it was submitted: while this host computed, the emulated clock may have stood.
         */
        if (e->o.clock != CLOCK_HOST && r->params.arrive.ns < e->now.ns) r->params.arrive = e->now;
        if (!r->params.arrive.ns) r->params.arrive.ns = 1; /* 0 means never */
        add_future(e, r);
    }
    while ((r = TAILQ_FIRST(&e->future)) && r->params.arrive.ns <= e->now.ns) {
        TAILQ_REMOVE(&e->future, r, link);
        e->n_future--;
        place(e, r);
    }
}

static void cancellations(struct engine *e)
{
    while (e->n_cancels) {
        struct request *r = e->live[e->cancels[--e->n_cancels]];
        if (r) engine_end(e, r, FINISH_ABORT, NULL);
    }
}

static void release_held(struct engine *e)
{
    struct request *r = TAILQ_FIRST(&e->held), *next;
    for (; r; r = next) {
        next = TAILQ_NEXT(r, link);
        if (r->held_until.ns > e->now.ns) continue;
        TAILQ_REMOVE(&e->held, r, link);
        r->seq.held = false;
        r->ready = r->held_until;
        engine_emit_token(e, r, r->held_until);
    }
}

static void pass(struct engine *e)
{
    arrivals(e);
    cancellations(e);
    for (uint32_t i = 0; i < e->o.plan.replicas; i++)
        if (e->replicas[i].busy && e->replicas[i].end.ns <= e->now.ns)
            engine_finish_step(e, &e->replicas[i]);
    release_held(e);
    engine_plan(e);
    pthread_mutex_lock(&e->lock);
    give_slots(e);
    engine_publish(e, false);
    pthread_mutex_unlock(&e->lock);
    engine_deliver(e);
    engine_compute(e);
}

static void end_all(struct engine *e)
{
    arrivals(e);
    for (uint32_t i = 0; i < e->n_slots; i++)
        if (e->live[i]) engine_end(e, e->live[i], FINISH_ABORT, NULL);
    pthread_mutex_lock(&e->lock);
    give_slots(e);
    engine_publish(e, true);
    pthread_mutex_unlock(&e->lock);
    engine_deliver(e);
}

void *engine_run(void *engine)
{
    struct engine *e = engine;
    prctl(PR_SET_NAME, "engine");
    prctl(PR_SET_TIMERSLACK, 1); /* a token leaves on time, not 50 us later */
    while (take_calls(e))
        pass(e);
    end_all(e);
    return NULL;
}
