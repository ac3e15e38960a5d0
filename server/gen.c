/* gen.c - the life of requests to generate. */
#include "server/gen.h"

#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Longer bodies are parsed and tokenised on the pool: this many bytes take well under a
 * millisecond, about what the way to the pool and back costs under load. */
#define INLINE_BYTES 8192

static void give_up(struct gen *g) /* one holder lets go */
{
    if (--g->refs) return;
    if (g->answer) {
        struct answer_totals t;
        answer_totals(g->answer, &t);
        metrics_answer(g->owner->options.metrics, &t);
    }
    if (!g->complete) g->owner->options.metrics->disconnects[g->phase]++;
    gen_log(g);
    g->owner->active--;
    g->owner->options.metrics->in_flight--;
    *g->link = g->next;
    if (g->next) g->next->link = g->link;
    answer_free(g->answer);
    call_free(&g->call);
    free(g->slots);
    free(g->body);
    free(g);
}

void gen_cancel(struct gen *g)
{
    for (uint32_t i = 0; i < g->n_slots; i++)
        if (g->slots[i].live) engine_cancel(g->owner->engine, g->slots[i].id);
}

static void on_gone(void *arg)
{
    struct gen *g = arg;
    g->gone = true;
    gen_cancel(g);
}

static void on_closed(void *arg, bool complete)
{
    struct gen *g = arg;
    g->complete = complete && !g->gone;
    g->gone = !g->complete;
    g->req = NULL;
    g->writer = NULL;
    gen_cancel(g);
    give_up(g);
}

static void add_slot(struct gen *g, uint32_t i)
{
    struct gen_slot *s = &g->slots[i];
    struct gen_request q;
    struct error cause = {0};
    uint32_t n = (uint32_t)g->call.n;
    *s = (struct gen_slot){.gen = g, .choice = i};
    call_request(&g->call, g->owner->service, i / n, i % n, &q);
    q.user = s;
    enum err rc = engine_submit(g->owner->engine, &q, &s->id, &cause);
    if (rc) {
        const char *param = g->kind == CALL_CHAT ? "messages" : "prompt";
        api_fail_err(&g->error, rc, &cause, rc == ERR_CONTEXT ? param : NULL);
        return;
    }
    s->live = true;
    g->refs++;
}

static void make_answer(struct gen *g)
{
    char id[160];
    snprintf(id, sizeof id, "%s-%s", g->kind == CALL_CHAT ? "chatcmpl" : "cmpl", g->id);
    struct answer_options o = {
        .service = g->owner->service, .call = &g->call, .id = id, .created = (int64_t)time(NULL)};
    g->answer = answer_new(&o);
    g->slots = g->answer ? calloc(answer_choices(g->answer), sizeof *g->slots) : NULL;
    if (g->slots) return;
    api_fail(&g->error, 500, "internal_error", NULL, "The server is out of memory.");
}

static void count_call(struct gen *g)
{
    struct metrics *m = g->owner->options.metrics;
    m->unknown_fields += g->call.unknown_fields;
    hist_add(&m->n, (double)g->call.n);
    if (g->call.max_tokens >= 0) hist_add(&m->max_tokens, (double)g->call.max_tokens);
}

/* The engine has copies; only the counts are needed from here on. */
static void drop_prompts(struct call *c)
{
    for (uint32_t i = 0; i < c->n_prompts; i++) {
        free(c->prompts[i].ids);
        c->prompts[i].ids = NULL;
        c->prompts[i].cap = 0;
    }
}

static void submit(struct gen *g)
{
    count_call(g);
    make_answer(g);
    uint32_t n = g->error.status ? 0 : answer_choices(g->answer);
    for (uint32_t i = 0; i < n && !g->error.status; i++) {
        if (g->call.max_tokens == 0) {
            answer_skip(g->answer, i);
        } else {
            g->n_slots = i + 1;
            add_slot(g, i);
        }
    }
    g->last_write = wall_now();
    g->phase = PHASE_QUEUE;
    drop_prompts(&g->call);
    if (!g->error.status && answer_done(g->answer)) gen_flush(g);
}

static void parse(void *arg) /* the pool's thread, or the loop's for a short body */
{
    struct gen *g = arg;
    bool (*door)(const struct service *, const char *, size_t, struct call *, struct api_error *) =
        g->kind == CALL_CHAT ? api_chat_parse : api_text_parse;
    door(g->owner->service, g->body, g->body_len, &g->call, &g->error);
    free(g->body);
    g->body = NULL;
}

static void parsed(void *arg)
{
    struct gen *g = arg;
    g->parsing = false;
    if (!g->gone) {
        if (!g->error.status) submit(g);
        if (g->error.status) gen_fail(g, &g->error);
    }
    give_up(g);
}

void gens_start(struct gens *gs, struct http_req *r, enum call_kind kind)
{
    static const struct http_owner owner = {on_gone, on_closed};
    struct gen *g = calloc(1, sizeof *g);
    struct http_account a;
    if (!g) return; /* the HTTP side closes the connection */
    *g = (struct gen){.owner = gs, .req = r, .kind = kind, .refs = 2, .next = gs->list};
    http_account(r, &a);
    g->start = a.start;
    g->link = &gs->list;
    if (g->next) g->next->link = &g->next;
    gs->list = g;
    gs->active++;
    gs->options.metrics->in_flight++;
    snprintf(g->id, sizeof g->id, "%s", http_id(r));
    http_remote(r, g->remote);
    g->body = http_take_body(r, &g->body_len);
    http_own(r, &owner, g);
    g->parsing = true;
    if (!g->body) {
        api_fail(&g->error, 500, "internal_error", NULL, "The server is out of memory.");
        parsed(g);
    } else if (g->body_len <= INLINE_BYTES ||
               loop_work(gs->options.loop, parse, parsed, g) != ERR_OK) {
        parse(g);
        parsed(g);
    }
}

/* ---- the engine's events */

void gens_deliver(void *arg, struct gen_batch *b)
{
    struct gens *gs = arg;
    struct gen_batch *head = atomic_load_explicit(&gs->inbox, memory_order_relaxed);
    do {
        b->next = head;
    } while (!atomic_compare_exchange_weak_explicit(&gs->inbox, &head, b, memory_order_release,
                                                    memory_order_relaxed));
    loop_wake(gs->options.loop);
}

static void note_end(struct gen *g, const struct gen_event *ev)
{
    if (!g->arrived.ns || ev->arrived.ns < g->arrived.ns) g->arrived = ev->arrived;
    if (ev->scheduled.ns && (!g->scheduled.ns || ev->scheduled.ns < g->scheduled.ns))
        g->scheduled = ev->scheduled;
    if (ev->first_token.ns && (!g->first_token.ns || ev->first_token.ns < g->first_token.ns))
        g->first_token = ev->first_token;
    if (ev->finished.ns > g->finished.ns) g->finished = ev->finished;
    g->phase = g->first_token.ns ? PHASE_DECODE : g->scheduled.ns ? PHASE_PREFILL : PHASE_QUEUE;
}

static void on_event(struct gens *gs, const struct gen_event *ev)
{
    struct gen_slot *s = ev->user;
    struct gen *g = s->gen;
    if (ev->end) {
        s->live = false;
        note_end(g, ev);
        answer_end(g->answer, s->choice, ev);
    } else if (!g->gone && !g->answered) {
        if (!g->first.ns) {
            g->first = wall_now();
            hist_add(&gs->options.metrics->first_byte, (double)(g->first.ns - g->start.ns) * 1e-9);
        }
        if (answer_token(g->answer, s->choice, &ev->token) && s->live)
            engine_cancel(gs->engine, s->id);
    }
    /* the list holds it until it is flushed; an ended request hands its own hold over */
    if (g->dirty) {
        if (ev->end) g->refs--;
        return;
    }
    if (!ev->end) g->refs++;
    g->dirty = true;
    g->next_dirty = gs->dirty;
    gs->dirty = g;
}

void gens_wake(struct gens *gs)
{
    struct gen_batch *b = atomic_exchange_explicit(&gs->inbox, NULL, memory_order_acquire);
    struct gen_batch *oldest = NULL;
    while (b) {
        struct gen_batch *next = b->next;
        b->next = oldest;
        oldest = b;
        b = next;
    }
    while (oldest) {
        struct gen_batch *next = oldest->next;
        for (uint32_t i = 0; i < oldest->n; i++)
            on_event(gs, &oldest->events[i]);
        gen_batch_free(oldest);
        oldest = next;
    }
    while (gs->dirty) {
        struct gen *g = gs->dirty;
        gs->dirty = g->next_dirty;
        g->dirty = false;
        gen_flush(g);
        give_up(g);
    }
}

/* ---- all of them */

struct gens *gens_new(const struct gens_options *o)
{
    struct gens *gs = calloc(1, sizeof *gs);
    if (gs) gs->options = *o;
    return gs;
}

void gens_free(struct gens *gs)
{
    free(gs);
}

void gens_serve(struct gens *gs, const struct service *s, struct engine *e)
{
    gs->service = s;
    gs->engine = e;
}

void gens_tick(struct gens *gs)
{
    struct wall now = wall_now();
    for (struct gen *g = gs->list; g; g = g->next)
        gen_keep_alive(g, now);
}

void gens_abort(struct gens *gs)
{
    struct api_error e = {0};
    api_fail_err(&e, ERR_DRAINING, NULL, NULL);
    for (struct gen *g = gs->list; g; g = g->next)
        if (!g->parsing) gen_fail(g, &e); /* else the engine refuses it in a moment */
}

uint32_t gens_active(const struct gens *gs)
{
    return gs->active;
}
