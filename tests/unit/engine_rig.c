/* engine_rig.c - the rig of the engine's tests. */
#include "tests/unit/engine_rig.h"

#include "tests/unit/tap.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct machine_spec rig_machine(void)
{
    return (struct machine_spec){.name = "trn3",
                                 .chips = 144,
                                 .chips_per_sled = 4,
                                 .sleds_per_rack = 18,
                                 .hbm_bytes = 144ull << 30,
                                 .hbm_bytes_per_s = 4.2e12,
                                 .hbm_efficiency = 0.8,
                                 .bf16_flops = 671e12,
                                 .bf16_efficiency = 0.6,
                                 .mx_flops = 2517e12,
                                 .mx_efficiency = 0.5,
                                 .mx_native = true,
                                 .min_rows = 64,
                                 .pad_to = 512,
                                 .layer_fixed_ns = 100000,
                                 .seq_fixed_ns = 25000,
                                 .router_zipf_s = 1,
                                 .kv_fraction = 0.9,
                                 .link = {{8000, 150e9}, {10000, 150e9}, {12000, 128e9}},
                                 .tdp_watts = 700,
                                 .power_idle = 0.3,
                                 .power_decode = 0.5,
                                 .power_prefill = 0.9};
}

static void note(struct rig *r, struct talk *t, const struct gen_event *ev)
{
    ck_assert_msg(!t->ends, "an event after the end");
    t->last = wall_now();
    if (ev->end) {
        t->ends++;
        t->end = *ev;
        r->ends++;
        return;
    }
    ck_assert_uint_lt(t->n, RIG_MAX_TOKENS);
    t->logprobs[t->n] = ev->token.logprob;
    t->tokens[t->n++] = ev->token.token;
    r->tokens++;
}

static void deliver(void *arg, struct gen_batch *b)
{
    struct rig *r = arg;
    pthread_mutex_lock(&r->lock);
    r->batches++;
    for (uint32_t i = 0; i < b->n; i++)
        note(r, b->events[i].user, &b->events[i]);
    pthread_cond_broadcast(&r->moved);
    pthread_mutex_unlock(&r->lock);
    gen_batch_free(b);
}

void rig_open(struct rig *r, const char *model, const char *plan)
{
    char path[256];
    snprintf(path, sizeof path, "tests/models/%s/public.gguf", model);
    rig_open_path(r, path, plan);
}

void rig_open_path(struct rig *r, const char *path, const char *plan)
{
    struct error e = {0};
    memset(r, 0, sizeof *r);
    r->model = model_open(path, &e);
    ck_assert_msg(r->model != NULL, "%s", e.text);
    r->machine = rig_machine();
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->moved, NULL);
    r->o = (struct engine_options){.shape = model_shape(r->model),
                                   .weights = model_weights(r->model),
                                   .timed = model_shape(r->model),
                                   .machine = &r->machine,
                                   .clock = CLOCK_HOST,
                                   .block_tokens = 4,
                                   .step_tokens = 64,
                                   .chunk_tokens = 64,
                                   .max_seqs = 16,
                                   .max_waiting = RIG_MAX_TALKS,
                                   .kv_host_bytes = 256 << 20,
                                   .prefix_cache = true,
                                   .threads = 1,
                                   .isa = "auto",
                                   .deliver = deliver,
                                   .deliver_arg = r};
    ck_assert_msg(!plan_parse(&r->o.plan, plan, &e), "%s", e.text);
    ck_assert_msg(!plan_complete(&r->o.plan, r->o.shape, &r->machine, &e), "%s", e.text);
}

void rig_start(struct rig *r)
{
    struct error e = {0};
    memset(r->talks, 0, sizeof r->talks);
    r->ends = r->batches = 0;
    r->tokens = 0;
    r->engine = engine_new(&r->o, &e);
    ck_assert_msg(r->engine != NULL, "%s", e.text);
}

void rig_stop(struct rig *r)
{
    engine_free(r->engine);
    r->engine = NULL;
}

void rig_close(struct rig *r)
{
    rig_stop(r);
    model_free(r->model);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->moved);
}

struct gen_request rig_request(struct rig *r, uint32_t family, uint32_t n, uint32_t max_tokens)
{
    static uint32_t prompts[8][RIG_MAX_TOKENS];
    uint32_t vocab = r->o.shape->vocab;
    ck_assert(family < 8 && n <= RIG_MAX_TOKENS);
    for (uint32_t i = 0; i < RIG_MAX_TOKENS && !prompts[family][RIG_MAX_TOKENS - 1]; i++)
        prompts[family][i] = 1 + (i * i * 31 + i * 7 + family * 1013) % (vocab - 1);
    return (struct gen_request){
        .prompt = prompts[family],
        .n_prompt = n,
        .max_tokens = max_tokens,
        .sample = {.temperature = 1, .top_p = 1, .seed = family, .logprobs = 0}};
}

void rig_submit(struct rig *r, struct gen_request *g, uint32_t talk)
{
    struct error e = {0};
    g->user = &r->talks[talk];
    enum err rc = engine_submit(r->engine, g, &r->talks[talk].id, &e);
    ck_assert_msg(!rc, "%s", e.text);
}

static void wait_more(struct rig *r, const char *what, uint32_t n)
{
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_sec += 120;
    int rc = pthread_cond_timedwait(&r->moved, &r->lock, &at);
    ck_assert_msg(rc == 0, "waited two minutes for %s %u", what, n);
}

void rig_wait_ends(struct rig *r, uint32_t ends)
{
    pthread_mutex_lock(&r->lock);
    while (r->ends < ends)
        wait_more(r, "end", ends);
    pthread_mutex_unlock(&r->lock);
}

void rig_wait_tokens(struct rig *r, uint32_t talk, uint32_t n)
{
    pthread_mutex_lock(&r->lock);
    while (r->talks[talk].n < n && !r->talks[talk].ends)
        wait_more(r, "token", n);
    pthread_mutex_unlock(&r->lock);
}

static void check_chips(struct rig *r, const struct engine_stats *s)
{
    static struct chip_report chips[144];
    static struct replica_report replicas[144];
    uint64_t tokens = 0, prompt = 0, of_replicas = 0, steps = 0;
    uint32_t n = engine_chips(r->engine, chips, 144);
    for (uint32_t i = 0; i < n; i++) {
        tokens += chips[i].tokens;
        prompt += chips[i].prompt_tokens;
    }
    n = engine_replicas(r->engine, replicas, 144);
    for (uint32_t i = 0; i < n; i++) {
        of_replicas += replicas[i].tokens;
        steps += replicas[i].steps;
        ck_assert_uint_eq(replicas[i].kv_blocks_used, 0);
    }
    ck_assert_uint_eq(tokens, of_replicas);
    ck_assert_uint_eq(prompt, s->computed_prompt_tokens);
    ck_assert_uint_eq(steps, s->steps);
    ck_assert_uint_le(tokens, s->sampled_tokens); /* less what was cancelled in its step */
    ck_assert_uint_ge(tokens + s->dropped_tokens, s->sampled_tokens);
}

void rig_check_rest(struct rig *r, uint32_t talks)
{
    struct engine_stats s;
    uint64_t finished = 0;
    engine_stats(r->engine, &s);
    for (unsigned i = 0; i <= FINISH_ERROR; i++)
        finished += s.finished[i];
    for (uint32_t i = 0; i < talks; i++) {
        ck_assert_uint_eq(r->talks[i].ends, 1);
        ck_assert_uint_eq(r->talks[i].end.output_tokens, r->talks[i].n);
        ck_assert_uint_eq(r->talks[i].end.id, r->talks[i].id);
    }
    ck_assert_uint_eq(s.submitted, talks);
    ck_assert_uint_eq(finished, talks);
    ck_assert_uint_eq(s.delivered_tokens, r->tokens);
    ck_assert_uint_eq(s.sampled_tokens, s.delivered_tokens + s.dropped_tokens);
    ck_assert_uint_eq(s.running, 0);
    ck_assert_uint_eq(s.waiting, 0);
    ck_assert_uint_eq(s.kv_blocks_used, 0);
    ck_assert(!s.has_work);
    if (!s.finished[FINISH_ABORT] && !s.finished[FINISH_ERROR])
        ck_assert_uint_eq(s.prompt_tokens, s.cached_tokens + s.computed_prompt_tokens);
    check_chips(r, &s);
}
