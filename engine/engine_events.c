/* engine_events.c - tokens and ends on their way out; the only place where a request ends. */
#include "engine/engine_state.h"

#include "base/log.h"

#include <stdlib.h>

/* An output's expected length when the client allows more: it says how much work a request is for
 * placement, no more than that. */
#define EXPECTED_OUTPUT_TOKENS 256

void gen_batch_free(struct gen_batch *b)
{
    free(b);
}

/* An event must not be lost: while there is no memory the engine waits for some. */
static void make_room(struct engine *e)
{
    uint32_t room = e->outbox_room ? 2 * e->outbox_room : 16;
    size_t bytes = sizeof *e->outbox + room * sizeof e->outbox->events[0];
    struct gen_batch *b = realloc(e->outbox, bytes);
    if (!b) log_error("engine", "no memory for events, waiting bytes=%zu", bytes);
    while (!b) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        b = realloc(e->outbox, bytes);
    }
    if (!e->outbox) b->n = 0;
    b->next = NULL;
    e->outbox = b;
    e->outbox_room = room;
}

static struct gen_event *add_event(struct engine *e, const struct request *r)
{
    if (!e->outbox || e->outbox->n == e->outbox_room) make_room(e);
    struct gen_event *ev = &e->outbox->events[e->outbox->n++];
    ev->id = r->id;
    ev->user = r->params.user;
    ev->end = false;
    ev->finish = FINISH_NONE;
    ev->error.code = ERR_OK;
    ev->error.text[0] = 0;
    return ev;
}

void engine_deliver(struct engine *e)
{
    struct gen_batch *b = e->outbox;
    if (!b) return;
    e->outbox = NULL;
    e->outbox_room = 0;
    e->o.deliver(e->o.deliver_arg, b);
}

static void observe_s(struct engine_stats *s, enum latency which, double seconds)
{
    hist_add(&s->latency[which], seconds);
    if (which == LAT_TTFT) quant_add(&s->ttft, seconds);
    if (which == LAT_TPOT) quant_add(&s->tpot, seconds);
    if (which == LAT_E2E) quant_add(&s->e2e, seconds);
}

static void observe(struct engine *e, enum latency which, struct virt from, struct virt to)
{
    if (from.ns && to.ns >= from.ns)
        observe_s(&e->stats, which, (double)(to.ns - from.ns) / NS_PER_S);
}

void engine_emit_token(struct engine *e, struct request *r, struct virt when)
{
    add_event(e, r)->token = r->next;
    r->has_next = false;
    r->delivered++;
    e->stats.delivered_tokens++;
    if (r->delivered == 1) {
        r->first_token = when;
        observe(e, LAT_TTFT, r->arrived, when);
        observe(e, LAT_PREFILL, r->scheduled, when);
    } else {
        observe(e, LAT_ITL, r->last_token, when);
    }
    r->last_token = when;
    enum gen_finish finish = request_finish(r);
    if (finish) engine_end(e, r, finish, NULL);
}

void engine_hold(struct engine *e, struct request *r, struct virt until)
{
    r->seq.held = true;
    r->held_until = until;
    TAILQ_INSERT_TAIL(&e->held, r, link);
}

void engine_load(struct engine *e, struct request *r)
{
    uint64_t out = r->params.max_tokens - request_outputs(r);
    uint64_t load = r->seq.tokens - r->seq.computed +
                    (out < EXPECTED_OUTPUT_TOKENS ? out : EXPECTED_OUTPUT_TOKENS);
    e->replicas[r->replica].outstanding_tokens += load - r->load;
    r->load = load;
}

static void detach(struct engine *e, struct request *r)
{
    if (!r->placed) {
        TAILQ_REMOVE(&e->future, r, link);
        e->n_future--;
        return;
    }
    if (r->seq.held) TAILQ_REMOVE(&e->held, r, link);
    if (r->item) r->item->seq = NULL;
    struct replica *rep = &e->replicas[r->replica];
    sched_remove(rep->sched, &r->seq);
    rep->outstanding_tokens -= r->load;
}

static void observe_end(struct engine *e, const struct request *r, enum gen_finish finish)
{
    struct engine_stats *s = &e->stats;
    s->finished[finish]++;
    hist_add(&s->prompt_hist, r->params.n_prompt);
    hist_add(&s->output_hist, r->delivered);
    observe(e, LAT_E2E, r->arrived, r->last_token);
    observe(e, LAT_DECODE, r->first_token, r->last_token);
    if (r->delivered > 1)
        observe_s(s, LAT_TPOT,
                  (double)(r->last_token.ns - r->first_token.ns) / NS_PER_S / (r->delivered - 1));
}

void engine_end(struct engine *e, struct request *r, enum gen_finish finish,
                const struct error *error)
{
    detach(e, r);
    if (r->has_next) e->stats.dropped_tokens++;
    bool complete = finish == FINISH_STOP || finish == FINISH_LENGTH;
    if (!complete && r->last_token.ns < e->now.ns) r->last_token = e->now;
    if (!complete && r->placed) e->replicas[r->replica].changed = e->now;
    observe_end(e, r, finish);

    struct gen_event *ev = add_event(e, r);
    ev->end = true;
    ev->finish = finish;
    ev->prompt_tokens = r->params.n_prompt;
    ev->cached_tokens = r->cached_tokens;
    ev->output_tokens = r->delivered;
    ev->arrived = r->arrived;
    ev->scheduled = r->scheduled;
    ev->first_token = r->first_token;
    ev->finished = r->last_token;
    if (error) ev->error = *error;

    uint32_t slot = (uint32_t)(r->id % e->n_slots);
    e->live[slot] = NULL;
    e->n_live--;
    e->freed[e->n_freed++] = slot;
    request_free(r);
}
