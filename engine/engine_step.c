/* engine_step.c - one step of continuous batching: plans of all idle replicas -> one batch ->
 * logits -> tokens, and what each replica's own step costs on the timed machine. */
#include "engine/engine_state.h"

#include <string.h>

/* The first step of a request that waited. */
static void admit(struct engine *e, struct request *r, struct virt start)
{
    struct engine_stats *s = &e->stats;
    if (r->scheduled.ns) return; /* again, after a preemption */
    r->scheduled = start;
    hist_add(&s->latency[LAT_QUEUE], (double)(start.ns - r->arrived.ns) / NS_PER_S);
    r->cached_tokens = r->prompt_done = r->seq.reused;
    s->prompt_tokens += r->params.n_prompt;
    s->cached_tokens += r->cached_tokens;
    if (e->o.prefix_cache) {
        s->prefix_queries_tokens += r->params.n_prompt;
        s->prefix_hits_tokens += r->cached_tokens;
    }
}

static void price(struct engine *e, uint32_t index)
{
    struct replica *r = &e->replicas[index];
    struct batch own = {
        .seqs = e->seqs + r->first_seq, .n_seqs = r->step.n, .n_rows = r->step.rows};
    struct step_counts counts;
    struct lower_options lower = {.router_zipf_s = e->o.machine->router_zipf_s, .fold = true};
    if (e->computed.attn_dp != e->o.plan.attn_dp) {
        memcpy(e->timed_seqs, own.seqs, own.n_seqs * sizeof *own.seqs);
        for (uint32_t i = 0; i < own.n_seqs; i++)
            e->timed_seqs[i].dp = (uint16_t)(i % e->o.plan.attn_dp);
        own.seqs = e->timed_seqs;
    }
    lower_count(&own, index, &e->o.plan, e->o.timed->window, &counts);
    lower_step(e->o.timed, &e->o.plan, &counts, &lower, e->timed_program);
    r->cost = cost_step(e->o.machine, e->timed_program, index * e->o.plan.chips);
}

/* A step begins as soon as the replica is free and everything in it is there: however late this
 * host woke up to plan it. */
static struct virt step_start(const struct replica *r)
{
    struct virt start = r->end;
    if (r->changed.ns > start.ns) start = r->changed;
    for (uint32_t i = 0; i < r->step.n; i++) {
        const struct request *req = (const struct request *)r->step.items[i].seq;
        if (req->ready.ns > start.ns) start = req->ready;
    }
    return start;
}

static void add_seqs(struct engine *e, uint32_t index, struct virt start)
{
    struct replica *r = &e->replicas[index];
    r->first_seq = e->n_seqs;
    for (uint32_t i = 0; i < r->step.n; i++) {
        struct sched_item *item = &r->step.items[i];
        struct request *req = (struct request *)item->seq;
        req->item = item;
        if (item->admitted) admit(e, req, start);
        e->seqs[e->n_seqs++] = (struct batch_seq){.replica = index,
                                                  .dp = (uint16_t)item->seq->dp,
                                                  .rows = item->rows,
                                                  .start = item->start,
                                                  .wants_logits = item->last,
                                                  .full_blocks = item->seq->kv.full,
                                                  .slide_blocks = item->seq->kv.slide,
                                                  .user = req};
    }
}

static uint64_t step_ns(const struct cost *c)
{
    return c->total_ns > 1 ? (uint64_t)c->total_ns : 1;
}

void engine_plan(struct engine *e)
{
    e->n_seqs = 0;
    for (uint32_t i = 0; i < e->o.plan.replicas; i++) {
        struct replica *r = &e->replicas[i];
        if (r->busy || (!sched_running(r->sched) && !sched_waiting(r->sched))) continue;
        sched_plan(r->sched, &r->step);
        e->stats.preemptions += r->step.preempted;
        if (!r->step.n) continue;
        struct virt start = step_start(r);
        add_seqs(e, i, start);
        price(e, i);
        r->busy = true;
        r->end.ns = start.ns + step_ns(&r->cost);
        telemetry_state(e->telemetry, i, CHIP_BUSY);
    }
}

/* The next sequences that fit one run of the machine, from `first` on; fills rows. */
static struct batch next_run(struct engine *e, uint32_t first)
{
    struct batch b = {.seqs = e->seqs + first, .rows = e->rows};
    uint32_t logits = 0;
    for (uint32_t i = first; i < e->n_seqs; i++) {
        struct batch_seq *q = &e->seqs[i];
        if (b.n_rows + q->rows > e->max_rows || logits + q->wants_logits > e->max_logit_rows) break;
        logits += q->wants_logits;
        q->first_row = b.n_rows;
        const uint32_t *ids = ((const struct request *)q->user)->ids;
        for (uint32_t k = 0; k < q->rows; k++)
            e->rows[b.n_rows++] = (struct batch_row){
                .token = ids[q->start + k], .pos = q->start + k, .seq = b.n_seqs};
        b.n_seqs++;
    }
    return b;
}

static void sample_run(struct engine *e, const struct batch *b)
{
    for (uint32_t i = 0; i < b->n_seqs; i++) {
        if (!b->seqs[i].wants_logits) continue;
        struct request *r = b->seqs[i].user;
        sample_row(machine_logits(e->machine, i), e->o.shape->vocab, e->o.allowed,
                   &r->params.sample, request_outputs(r), e->scratch, &r->next);
        r->has_next = true;
        e->stats.sampled_tokens++;
    }
}

/* One run's error ends its requests; the engine lives. */
static void fail_run(struct engine *e, const struct batch *b, const struct error *error)
{
    for (uint32_t i = 0; i < b->n_seqs; i++)
        engine_end(e, b->seqs[i].user, FINISH_ERROR, error);
}

static void compute_run(struct engine *e, const struct batch *b)
{
    struct step_counts counts;
    struct lower_options lower = {.router_zipf_s = e->o.machine->router_zipf_s};
    struct error error = {0};
    lower_count(b, LOWER_ALL_REPLICAS, &e->computed, e->o.shape->window, &counts);
    lower_step(e->o.shape, &e->computed, &counts, &lower, e->program);
    if (machine_run(e->machine, e->program, b, &error))
        fail_run(e, b, &error);
    else
        sample_run(e, b);
}

/* Under the host's clock a step ends when it is computed. Under the device's the plan holds: where
 * this host needed longer than all steps of the pass, the emulated clock stood still meanwhile. So
 * the emulated figures stay those of the machine, and the replicas whose steps are over by then go
 * on together, as one run of this host. */
static void stretch(struct engine *e)
{
    struct virt done = engine_now(e), planned = e->now;
    for (uint32_t i = 0; i < e->n_seqs; i++) {
        struct replica *r = &e->replicas[e->seqs[i].replica];
        if (e->o.clock == CLOCK_HOST) r->end = done;
        if (r->end.ns > planned.ns) planned = r->end;
    }
    if (done.ns > planned.ns) e->lag_ns += done.ns - planned.ns;
}

void engine_compute(struct engine *e)
{
    if (!e->n_seqs) return;
    struct wall from = wall_now();
    for (uint32_t first = 0; first < e->n_seqs;) {
        struct batch b = next_run(e, first);
        compute_run(e, &b);
        first += b.n_seqs;
    }
    e->stats.host_busy_ns += wall_now().ns - from.ns;
    if (e->o.clock != CLOCK_VIRTUAL) stretch(e);
    e->n_seqs = 0;
}

/* Prompt tokens that nobody computed for this request before. */
static uint32_t new_prompt_tokens(struct request *r, const struct sched_item *item)
{
    uint32_t end = item->start + item->rows, had = r->prompt_done;
    if (end > r->params.n_prompt) end = r->params.n_prompt;
    if (end <= had) return 0;
    r->prompt_done = end;
    return end - had;
}

static void finish_item(struct engine *e, struct replica *rep, struct request *r)
{
    sched_commit(rep->sched, r->item);
    r->item = NULL;
    if (!r->has_next) {
        engine_load(e, r);
        return;
    }
    r->ids[r->seq.tokens] = r->next.token;
    sched_token(rep->sched, &r->seq);
    engine_load(e, r);
    struct virt when = rep->end;
    if (e->o.clock != CLOCK_HOST && request_outputs(r) == 1) {
        uint64_t floor = r->arrived.ns + e->o.machine->ttft_floor_ns;
        if (when.ns < floor) when.ns = floor;
    }
    if (when.ns > e->now.ns)
        engine_hold(e, r, when);
    else
        engine_emit_token(e, r, when);
}

void engine_finish_step(struct engine *e, struct replica *rep)
{
    uint32_t index = (uint32_t)(rep - e->replicas), rows = 0, prefill = 0, prompt = 0, outputs = 0;
    for (uint32_t i = 0; i < rep->step.n; i++) {
        struct sched_item *item = &rep->step.items[i];
        rows += item->rows;
        if (item->rows > 1) prefill += item->rows;
        struct request *r = (struct request *)item->seq;
        if (!r) continue; /* cancelled meanwhile: the machine worked for it all the same */
        prompt += new_prompt_tokens(r, item);
        outputs += r->has_next;
        finish_item(e, rep, r);
    }
    rep->busy = false;
    rep->steps++;
    rep->tokens += outputs;
    rep->prompt_tokens += prompt;
    rep->busy_ns += rep->cost.total_ns;
    e->stats.steps++;
    e->stats.computed_prompt_tokens += prompt;
    hist_add(&e->stats.step_tokens_hist, rows);
    telemetry_step(e->telemetry, index, &rep->cost, prompt, outputs, (double)prefill / rows);
    telemetry_state(e->telemetry, index, CHIP_IDLE);
}
