/* test_engine_same.c - the same request with the same seed gives the same tokens, whatever the
 * plan, the batch, the chunks, the clock, preemption or cached prefixes; a virtual run gives the
 * same events to the nanosecond. */
#include "tests/unit/engine_rig.h"
#include "tests/unit/tap.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SUBJECTS 4
#define OTHERS   8
#define OUTPUT   24

struct variant {
    const char *plan;
    uint32_t chunk, kv_blocks;
    enum engine_clock clock;
    bool others, prefix_cache, preempts;
};

static struct gen_request subject(struct rig *r, uint32_t i)
{
    static const uint32_t lengths[SUBJECTS] = {3, 21, 40, 64};
    struct gen_request g = rig_request(r, i, lengths[i], OUTPUT);
    if (i == 1) g.sample.temperature = 0;
    if (i == 2) g.sample.top_p = 0.7f;
    return g;
}

static void submit_all(struct rig *r, bool others)
{
    uint32_t talk = SUBJECTS;
    for (uint32_t i = 0; i < SUBJECTS; i++) {
        for (uint32_t k = 0; others && k < OTHERS / SUBJECTS; k++) {
            struct gen_request o = rig_request(r, (i + k) % 6, 30 + i, 40 - i);
            o.sample.seed = 99 + k;
            rig_submit(r, &o, talk++);
        }
        struct gen_request g = subject(r, i);
        rig_submit(r, &g, i);
    }
}

static void run(struct rig *r, const struct variant *v)
{
    r->o.chunk_tokens = v->chunk;
    r->o.kv_blocks = v->kv_blocks;
    r->o.clock = v->clock;
    r->o.prefix_cache = v->prefix_cache;
    uint32_t n = v->others ? SUBJECTS + OTHERS : SUBJECTS, rounds = v->prefix_cache ? 2 : 1;
    rig_start(r);
    for (uint32_t round = 0; round < rounds; round++) { /* again: now the prefixes are known */
        submit_all(r, v->others);
        rig_wait_ends(r, n * (round + 1));
        if (round + 1 < rounds) memset(r->talks, 0, sizeof r->talks);
    }
    struct engine_stats s;
    engine_stats(r->engine, &s);
    if (v->prefix_cache) ck_assert_uint_gt(s.prefix_hits_tokens, 0);
    if (v->preempts) ck_assert_uint_gt(s.preemptions, 0);
    rig_stop(r);
}

static void compare(const struct talk *want, const struct talk *got, const char *what)
{
    for (uint32_t i = 0; i < SUBJECTS; i++) {
        ck_assert_msg(got[i].n == OUTPUT, "%s: request %u gave %u tokens", what, i, got[i].n);
        for (uint32_t k = 0; k < OUTPUT; k++) {
            ck_assert_msg(got[i].tokens[k] == want[i].tokens[k],
                          "%s: request %u, token %u is %u, alone it was %u", what, i, k,
                          got[i].tokens[k], want[i].tokens[k]);
            ck_assert_msg(got[i].logprobs[k] == want[i].logprobs[k],
                          "%s: request %u, token %u: logprob %.9g, alone %.9g", what, i, k,
                          (double)got[i].logprobs[k], (double)want[i].logprobs[k]);
        }
    }
}

static void check_variants(const char *model, const struct variant *variants, unsigned n)
{
    static struct rig r;
    static struct talk alone[SUBJECTS];
    struct variant base = {"1x1", 64, 0, CLOCK_HOST, false, false, false};
    rig_open(&r, model, base.plan);
    run(&r, &base);
    memcpy(alone, r.talks, sizeof alone);
    compare(alone, r.talks, "base");
    rig_close(&r);
    for (unsigned i = 0; i < n; i++) {
        char what[100];
        const struct variant *v = &variants[i];
        snprintf(what, sizeof what, "%s %s chunk %u, variant %u", model, v->plan, v->chunk, i);
        rig_open(&r, model, v->plan);
        run(&r, v);
        compare(alone, r.talks, what);
        rig_close(&r);
    }
}

START_TEST(two_kv_heads)
{
    static const struct variant variants[] = {
        {"1x1", 64, 0, CLOCK_VIRTUAL, false, false, false},
        {"1x1", 1, 0, CLOCK_HOST, true, false, false},
        {"1x1", 64, 0, CLOCK_HOST, true, true, false},
        {"1x1", 7, 0, CLOCK_HOST, true, true, false},
        {"1x1", 64, 26, CLOCK_HOST, true, false, true},
        {"1x1", 5, 30, CLOCK_VIRTUAL, true, true, true},
        {"72x2", 64, 0, CLOCK_VIRTUAL, true, true, false},
        {"144x1", 64, 0, CLOCK_HOST, true, false, false},
        {"18x8:tp=2,dp=4", 64, 0, CLOCK_VIRTUAL, true, true, false},
        {"1x8:tp=1,dp=8,ep=4,mtp=2", 16, 0, CLOCK_HOST, true, true, false},
    };
    check_variants("tiny-0", variants, sizeof variants / sizeof *variants);
}
END_TEST

START_TEST(eight_kv_heads)
{
    static const struct variant variants[] = {
        {"1x8", 64, 0, CLOCK_HOST, true, true, false},
        {"18x8", 64, 0, CLOCK_VIRTUAL, true, false, false},
        {"72x2", 1, 0, CLOCK_VIRTUAL, true, true, false},
        {"144x1", 64, 0, CLOCK_VIRTUAL, true, true, false},
        {"1x8:tp=2,dp=4", 9, 0, CLOCK_HOST, true, true, false},
    };
    check_variants("tiny8kv-0", variants, sizeof variants / sizeof *variants);
}
END_TEST

START_TEST(wide_experts)
{
    static const struct variant variants[] = {
        {"1x144", 64, 0, CLOCK_VIRTUAL, true, true, false},
        {"1x144", 64, 0, CLOCK_HOST, true, false, false},
        {"18x8", 64, 0, CLOCK_HOST, true, true, false},
    };
    check_variants("tiny128e-0", variants, sizeof variants / sizeof *variants);
}
END_TEST

/* The timed shape has 8 KV heads and is split over 8 chips; the computed one has 2 and cannot be.
 */
START_TEST(timed_plan_of_another_shape)
{
    static struct rig r;
    static struct talk alone[SUBJECTS];
    static struct model_shape timed;
    struct error e = {0};
    struct variant v = {"1x1", 64, 0, CLOCK_VIRTUAL, true, false, false};
    rig_open(&r, "tiny-0", v.plan);
    run(&r, &v);
    memcpy(alone, r.talks, sizeof alone);
    timed = *r.o.shape;
    timed.kv_heads = timed.q_heads = 8;
    r.o.timed = &timed;
    r.o.plan = (struct plan){.replicas = 1, .chips = 8};
    ck_assert_msg(!plan_complete(&r.o.plan, &timed, &r.machine, &e), "%s", e.text);
    ck_assert_uint_eq(r.o.plan.attn_tp, 8);
    ck_assert_int_ne(plan_complete(&r.o.plan, r.o.shape, &r.machine, NULL), ERR_OK);
    run(&r, &v);
    compare(alone, r.talks, "timed plan 1x8 of 8 heads");
    rig_close(&r);
}
END_TEST

/* A prompt longer than any chunk and, many times over, than the window. */
START_TEST(a_long_prompt)
{
    static const struct {
        const char *plan;
        uint32_t chunk, kv_blocks;
        bool prefix_cache;
    } runs[] = {{"1x1", 512, 0, false}, {"1x1", 1, 0, false},    {"1x1", 512, 0, true},
                {"72x2", 512, 0, true}, {"1x1", 100, 160, true}, {"144x1", 7, 0, false}};
    static struct rig r;
    static struct talk first;
    for (unsigned i = 0; i < sizeof runs / sizeof *runs; i++) {
        rig_open(&r, "tiny-0", runs[i].plan);
        r.o.step_tokens = 512;
        r.o.chunk_tokens = runs[i].chunk;
        r.o.kv_blocks = runs[i].kv_blocks;
        r.o.prefix_cache = runs[i].prefix_cache;
        rig_start(&r);
        struct gen_request g = rig_request(&r, 1, 600, 20);
        rig_submit(&r, &g, 0);
        rig_submit(&r, &g, 1);
        rig_wait_ends(&r, 2);
        if (i == 0) first = r.talks[0];
        for (uint32_t t = 0; t < 2; t++)
            ck_assert_msg(r.talks[t].n == 20 && memcmp(r.talks[t].tokens, first.tokens, 80) == 0 &&
                              memcmp(r.talks[t].logprobs, first.logprobs, 80) == 0,
                          "%s, chunk %u, blocks %u: other tokens", runs[i].plan, runs[i].chunk,
                          runs[i].kv_blocks);
        rig_stop(&r);
        rig_close(&r);
    }
}
END_TEST

/* ---- a virtual run is a function of what was submitted */

static void print_run(struct rig *r, uint32_t threads, char *out, size_t room)
{
    struct engine_stats s;
    size_t n = 0;
    r->o.threads = threads;
    rig_start(r);
    for (uint32_t i = 0; i < 60; i++) {
        struct gen_request g = rig_request(r, i % 6, 4 + i * 7 % 60, 5 + i % 20);
        g.arrive.ns = 1 + i / 2 * 900000;
        g.sample.seed = i;
        rig_submit(r, &g, i);
    }
    engine_start(r->engine);
    rig_wait_ends(r, 60);
    engine_stats(r->engine, &s);
    for (uint32_t i = 0; i < 60; i++) {
        const struct talk *t = &r->talks[i];
        n += (size_t)snprintf(out + n, room - n,
                              "%u: %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " cached %u:", i,
                              t->end.arrived.ns, t->end.scheduled.ns, t->end.first_token.ns,
                              t->end.finished.ns, t->end.cached_tokens);
        for (uint32_t k = 0; k < t->n; k++)
            n += (size_t)snprintf(out + n, room - n, " %u", t->tokens[k]);
        n += (size_t)snprintf(out + n, room - n, "\n");
    }
    snprintf(out + n, room - n, "steps %" PRIu64 " preemptions %" PRIu64 " ttft %.17g\n", s.steps,
             s.preemptions, s.latency[LAT_TTFT].sum);
    rig_check_rest(r, 60);
    rig_stop(r);
}

START_TEST(virtual_runs_are_identical)
{
    static struct rig r;
    static char first[20000], second[20000];
    rig_open(&r, "tiny-0", "2x2");
    r.machine.ttft_floor_ns = 3000000;
    r.o.clock = CLOCK_VIRTUAL;
    r.o.hold = true;
    r.o.kv_blocks = 60;
    print_run(&r, 1, first, sizeof first);
    print_run(&r, 2, second, sizeof second);
    ck_assert_str_eq(first, second);
    ck_assert_ptr_null(strstr(first, "preemptions 0 "));
    rig_close(&r);
}
END_TEST

int main(void)
{
    if (!tap_has(RIG_MODEL)) return EXIT_SUCCESS;
    Suite *s = suite_create("engine_same");
    TCase *t = tcase_create("same");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, two_kv_heads);
    tcase_add_test(t, eight_kv_heads);
    tcase_add_test(t, wide_experts);
    tcase_add_test(t, timed_plan_of_another_shape);
    tcase_add_test(t, a_long_prompt);
    tcase_add_test(t, virtual_runs_are_identical);
    suite_add_tcase(s, t);
    return tap_run(s);
}
