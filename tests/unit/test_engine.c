/* test_engine.c - what the engine promises its callers: every request ends once, no token is lost,
 * cancelled ones give their blocks back, refusals say why, time is kept. */
#include "tests/unit/engine_rig.h"
#include "tests/unit/tap.h"

#include <string.h>
#include <time.h>

static struct rig r;

/* Opens the usual model; a test without it has nothing to do. */
#define OPEN(plan) rig_open(&r, "tiny-0", plan)

static struct engine_stats stats(void)
{
    struct engine_stats s;
    engine_stats(r.engine, &s);
    return s;
}

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* ---- ends */

START_TEST(stop_and_length)
{
    OPEN("1x1");
    rig_start(&r);
    struct gen_request g = rig_request(&r, 0, 10, 12);
    rig_submit(&r, &g, 0);
    rig_wait_ends(&r, 1);
    struct talk free_run = r.talks[0];
    ck_assert_int_eq(free_run.end.finish, FINISH_LENGTH);
    ck_assert_uint_eq(free_run.n, 12);
    ck_assert_uint_eq(free_run.end.prompt_tokens, 10);

    uint32_t at = 0; /* the fifth token, or where it came first */
    while (free_run.tokens[at] != free_run.tokens[4])
        at++;
    g.stops[0] = free_run.tokens[4];
    g.n_stops = 1;
    rig_submit(&r, &g, 1);
    rig_wait_ends(&r, 2);
    ck_assert_int_eq(r.talks[1].end.finish, FINISH_STOP);
    ck_assert_uint_eq(r.talks[1].n, at + 1); /* the stop id is a token too */

    g.min_tokens = 12;
    rig_submit(&r, &g, 2);
    rig_wait_ends(&r, 3);
    ck_assert_uint_eq(r.talks[2].n, 12);
    g.min_tokens = at + 1; /* the stop id counts */
    rig_submit(&r, &g, 3);
    rig_wait_ends(&r, 4);
    ck_assert_uint_eq(r.talks[3].n, at + 1);
    rig_check_rest(&r, 4);
    rig_close(&r);
}
END_TEST

START_TEST(output_is_cut_to_the_context)
{
    OPEN("1x1");
    r.o.max_context = 32;
    rig_start(&r);
    ck_assert_uint_eq(engine_max_context(r.engine), 32);
    struct gen_request g = rig_request(&r, 0, 20, UINT32_MAX);
    rig_submit(&r, &g, 0);
    rig_wait_ends(&r, 1);
    ck_assert_int_eq(r.talks[0].end.finish, FINISH_LENGTH);
    ck_assert_uint_eq(r.talks[0].n, 12);
    rig_check_rest(&r, 1);
    rig_close(&r);
}
END_TEST

START_TEST(free_ends_everything_once)
{
    OPEN("2x2");
    r.o.max_seqs = 4;
    rig_start(&r);
    for (uint32_t i = 0; i < 40; i++) {
        struct gen_request g = rig_request(&r, i % 8, 30, 400);
        rig_submit(&r, &g, i);
    }
    rig_wait_tokens(&r, 0, 2);
    rig_stop(&r);
    ck_assert_uint_eq(r.ends, 40);
    for (uint32_t i = 0; i < 40; i++) {
        ck_assert_uint_eq(r.talks[i].ends, 1);
        ck_assert(r.talks[i].end.finish == FINISH_ABORT || r.talks[i].n == 400);
    }
    rig_close(&r);
}
END_TEST

/* ---- refusals */

static void expect_refusal(struct gen_request g, enum err want, const char *text)
{
    struct error e = {0};
    uint64_t id = 77;
    enum err rc = engine_submit(r.engine, &g, &id, &e);
    ck_assert_msg(rc == want && e.code == want, "%d, not %d: %s", rc, want, e.text);
    ck_assert_msg(strstr(e.text, text) != NULL, "\"%s\" is not in \"%s\"", text, e.text);
    ck_assert_uint_eq(id, 77);
}

START_TEST(refusals)
{
    OPEN("1x1");
    r.o.kv_blocks = 10; /* of 4 tokens */
    rig_start(&r);
    ck_assert_uint_eq(engine_max_context(r.engine), 40);
    struct gen_request ok = rig_request(&r, 0, 4, 4), g = rig_request(&r, 0, 45, 1);
    expect_refusal(g, ERR_CONTEXT, "maximum context length is 40 tokens");
    expect_refusal(g, ERR_CONTEXT, "45 tokens");
    g.n_prompt = 40; /* no room for one token of output */
    expect_refusal(g, ERR_CONTEXT, "40 tokens");
    g = ok;
    g.n_prompt = 0;
    expect_refusal(g, ERR_INVAL, "prompt");
    g = ok;
    uint32_t foreign[] = {1, 2, 320};
    g.prompt = foreign;
    g.n_prompt = 3;
    expect_refusal(g, ERR_INVAL, "prompt[2] is token 320");
    g = ok;
    g.max_tokens = 0;
    expect_refusal(g, ERR_INVAL, "max_tokens");
    g = ok;
    g.sample.temperature = -1;
    expect_refusal(g, ERR_INVAL, "temperature");
    g.sample.temperature = 0.0f / 0.0f;
    expect_refusal(g, ERR_INVAL, "temperature");
    g = ok;
    g.sample.top_p = 1.5f;
    expect_refusal(g, ERR_INVAL, "top_p");
    g = ok;
    g.sample.logprobs = 21;
    expect_refusal(g, ERR_INVAL, "logprobs");
    g = ok;
    g.n_stops = 65;
    expect_refusal(g, ERR_INVAL, "stop");
    g = rig_request(&r, 0, 39, 1); /* the largest that fits */
    rig_submit(&r, &g, 0);
    rig_wait_ends(&r, 1);
    ck_assert_uint_eq(r.talks[0].n, 1);
    rig_close(&r);
}
END_TEST

START_TEST(a_full_room_and_a_drain)
{
    OPEN("1x1");
    r.o.max_waiting = 3;
    r.o.hold = true;
    rig_start(&r);
    struct gen_request g = rig_request(&r, 0, 4, 4);
    for (uint32_t i = 0; i < 3; i++)
        rig_submit(&r, &g, i);
    expect_refusal(g, ERR_FULL, "3 requests are waiting");
    ck_assert_uint_eq(stats().waiting, 3);
    engine_start(r.engine);
    rig_wait_ends(&r, 3);
    rig_submit(&r, &g, 3);
    engine_drain(r.engine);
    expect_refusal(g, ERR_DRAINING, "shutting down");
    rig_wait_ends(&r, 4);
    ck_assert_int_eq(r.talks[3].end.finish, FINISH_LENGTH); /* what is inside goes on */
    rig_check_rest(&r, 4);
    rig_close(&r);
}
END_TEST

START_TEST(impossible_options)
{
    static const struct {
        uint32_t block, step, chunk, seqs, kv_blocks;
        uint64_t kv_bytes;
        const char *text;
    } cases[] = {
        {3, 64, 64, 4, 0, 1 << 20, "block_tokens"}, {4, 64, 65, 4, 0, 1 << 20, "chunk_tokens"},
        {4, 64, 0, 4, 0, 1 << 20, "chunk_tokens"},  {4, 64, 64, 65, 0, 1 << 20, "max_seqs"},
        {4, 64, 64, 4, 1, 1 << 20, "kv_blocks"},    {4, 64, 64, 4, 0, 100, "kv_host_bytes"},
    };
    OPEN("1x4:tp=2,dp=2");
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error e = {0};
        r.o.block_tokens = cases[i].block;
        r.o.step_tokens = cases[i].step;
        r.o.chunk_tokens = cases[i].chunk;
        r.o.max_seqs = cases[i].seqs;
        r.o.kv_blocks = cases[i].kv_blocks;
        r.o.kv_host_bytes = cases[i].kv_bytes;
        ck_assert_ptr_null(engine_new(&r.o, &e));
        ck_assert_msg(strstr(e.text, cases[i].text) != NULL, "case %u: %s", i, e.text);
    }
    rig_close(&r);
}
END_TEST

/* ---- cancels, in each phase; the clock is slow enough to hit it */

static void expect_abort(uint32_t talk, uint32_t ends)
{
    engine_cancel(r.engine, r.talks[talk].id);
    rig_wait_ends(&r, ends);
    ck_assert_int_eq(r.talks[talk].end.finish, FINISH_ABORT);
    struct engine_stats s = stats(); /* at once: no further step is needed */
    ck_assert_uint_eq(s.kv_blocks_used, 0);
    ck_assert_uint_eq(s.running + s.waiting, 0);
}

static void open_slow(void)
{
    r.machine.layer_fixed_ns = 5000000; /* 20 ms a step */
    r.o.clock = CLOCK_DEVICE;
}

START_TEST(cancel_in_the_inbox)
{
    OPEN("1x1");
    r.o.hold = true;
    rig_start(&r);
    struct gen_request g = rig_request(&r, 0, 10, 10);
    rig_submit(&r, &g, 0);
    engine_cancel(r.engine, r.talks[0].id);
    engine_start(r.engine);
    expect_abort(0, 1);
    ck_assert_uint_eq(r.talks[0].end.scheduled.ns, 0);
    rig_check_rest(&r, 1);
    rig_close(&r);
}
END_TEST

START_TEST(cancel_before_arrival)
{
    OPEN("1x1");
    r.o.clock = CLOCK_DEVICE;
    rig_start(&r);
    struct gen_request g = rig_request(&r, 0, 10, 10);
    g.arrive.ns = 3600 * NS_PER_S;
    rig_submit(&r, &g, 0);
    sleep_ms(5);
    expect_abort(0, 1);
    rig_check_rest(&r, 1);
    rig_close(&r);
}
END_TEST

START_TEST(cancel_while_waiting)
{
    OPEN("1x1");
    open_slow();
    r.o.max_seqs = 1;
    rig_start(&r);
    struct gen_request g = rig_request(&r, 0, 10, 500);
    rig_submit(&r, &g, 0);
    rig_wait_tokens(&r, 0, 1);
    rig_submit(&r, &g, 1);
    sleep_ms(30);
    engine_cancel(r.engine, r.talks[1].id);
    rig_wait_ends(&r, 1);
    ck_assert_uint_eq(r.talks[1].end.scheduled.ns, 0);
    ck_assert_uint_eq(stats().running, 1);
    expect_abort(0, 2);
    rig_check_rest(&r, 2);
    rig_close(&r);
}
END_TEST

START_TEST(cancel_in_prefill)
{
    OPEN("1x1");
    open_slow();
    r.o.chunk_tokens = 1;
    rig_start(&r);
    struct gen_request g = rig_request(&r, 0, 300, 5);
    rig_submit(&r, &g, 0);
    while (!stats().kv_blocks_used)
        sleep_ms(1);
    expect_abort(0, 1);
    ck_assert_uint_eq(r.talks[0].n, 0);
    ck_assert_uint_gt(r.talks[0].end.scheduled.ns, 0);
    rig_check_rest(&r, 1);
    rig_close(&r);
}
END_TEST

START_TEST(cancel_in_decode_and_in_a_step)
{
    OPEN("1x1");
    open_slow();
    rig_start(&r);
    struct gen_request g = rig_request(&r, 0, 10, 500);
    for (uint32_t i = 0; i < 5; i++) {
        rig_submit(&r, &g, i);
        rig_wait_tokens(&r, i, 2);
        sleep_ms(3 * i); /* a step takes 20 ms, and there is always one */
        expect_abort(i, i + 1);
    }
    ck_assert_uint_ge(stats().dropped_tokens, 1);
    engine_cancel(r.engine, r.talks[0].id); /* long gone */
    engine_cancel(r.engine, 0);
    engine_cancel(r.engine, UINT64_MAX);
    rig_check_rest(&r, 5);
    rig_close(&r);
}
END_TEST

START_TEST(cancel_while_the_first_token_is_held)
{
    OPEN("1x1");
    r.o.clock = CLOCK_DEVICE;
    r.machine.ttft_floor_ns = 3600 * NS_PER_S;
    rig_start(&r);
    struct gen_request g = rig_request(&r, 0, 10, 5);
    rig_submit(&r, &g, 0);
    while (!stats().steps)
        sleep_ms(1);
    expect_abort(0, 1);
    ck_assert_uint_eq(stats().dropped_tokens, 1);
    rig_check_rest(&r, 1);
    rig_close(&r);
}
END_TEST

/* ---- time */

START_TEST(the_device_clock_is_never_early)
{
    OPEN("2x2");
    r.machine.layer_fixed_ns = 1000000; /* 4 ms a step */
    r.o.clock = CLOCK_DEVICE;
    rig_start(&r);
    struct wall before = wall_now();
    for (uint32_t i = 0; i < 6; i++) {
        struct gen_request g = rig_request(&r, i, 10, 8);
        rig_submit(&r, &g, i);
    }
    rig_wait_ends(&r, 6);
    for (uint32_t i = 0; i < 6; i++) {
        const struct talk *t = &r.talks[i];
        uint64_t emulated = t->end.finished.ns - t->end.arrived.ns;
        ck_assert_uint_ge(emulated, 8 * 4000000);
        ck_assert_uint_ge(t->last.ns - before.ns, emulated);
        ck_assert_uint_ge(t->end.first_token.ns, t->end.scheduled.ns + 4000000);
    }
    rig_check_rest(&r, 6);
    rig_close(&r);
}
END_TEST

static uint64_t time_taken(enum engine_clock clock, uint64_t *lag_ns)
{
    r.o.clock = clock;
    rig_start(&r);
    struct gen_request g = rig_request(&r, 0, 10, 60);
    rig_submit(&r, &g, 0);
    rig_wait_ends(&r, 1);
    *lag_ns = stats().lag_ns;
    rig_stop(&r);
    return r.talks[0].end.finished.ns - r.talks[0].end.arrived.ns;
}

START_TEST(live_and_offline_agree)
{
    uint64_t lag = 0;
    OPEN("1x1");
    r.machine.layer_fixed_ns = 500000;
    r.machine.ttft_floor_ns = 20000000;
    uint64_t offline = time_taken(CLOCK_VIRTUAL, &lag);
    ck_assert_uint_eq(lag, 0);
    /* However late this host wakes up or computes: the emulated clock waits for it. */
    ck_assert_uint_eq(time_taken(CLOCK_DEVICE, &lag), offline);
    rig_close(&r);
}
END_TEST

START_TEST(a_step_lasts_what_it_costs)
{
    OPEN("1x1");
    r.o.clock = CLOCK_VIRTUAL;
    rig_start(&r);
    struct gen_request g = rig_request(&r, 0, 10, 101);
    rig_submit(&r, &g, 0);
    rig_wait_ends(&r, 1);
    struct engine_stats s = stats();
    double step = (double)(r.talks[0].end.finished.ns - r.talks[0].end.first_token.ns) / 100;
    ck_assert_double_gt(step, 425e3); /* four layers and a sequence, at least */
    ck_assert_double_lt(step, 525e3);
    ck_assert_uint_eq(s.lag_ns, 0);
    ck_assert_uint_eq(s.latency[LAT_ITL].total, 100);
    ck_assert_double_eq_tol(s.latency[LAT_TPOT].sum, step / 1e9, 1e-12);
    rig_close(&r);
}
END_TEST

START_TEST(the_first_token_has_a_floor)
{
    OPEN("1x1");
    r.o.clock = CLOCK_VIRTUAL;
    r.o.hold = true;
    r.machine.ttft_floor_ns = 100000000;
    rig_start(&r);
    struct gen_request g = rig_request(&r, 0, 10, 300);
    rig_submit(&r, &g, 0);
    g.arrive.ns = 150000000; /* the first one is decoding */
    g.max_tokens = 2;
    rig_submit(&r, &g, 1);
    g.max_tokens = 1;
    rig_submit(&r, &g, 2);
    engine_start(r.engine);
    rig_wait_ends(&r, 3);
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_uint_eq(r.talks[i].end.first_token.ns, r.talks[i].end.arrived.ns + 100000000);
    ck_assert_uint_gt(r.talks[1].end.finished.ns, r.talks[1].end.first_token.ns);
    ck_assert_uint_lt(r.talks[1].end.finished.ns, r.talks[1].end.first_token.ns + 2000000);
    /* 299 steps of half a millisecond: the holds of the others did not delay the first. */
    ck_assert_uint_lt(r.talks[0].end.finished.ns, 280000000);
    rig_check_rest(&r, 3);
    rig_close(&r);
}
END_TEST

START_TEST(every_replica_works)
{
    static struct replica_report replicas[72];
    OPEN("72x2");
    r.o.clock = CLOCK_VIRTUAL;
    rig_start(&r);
    for (uint32_t i = 0; i < 144; i++) {
        struct gen_request g = rig_request(&r, i % 8, 1, 4); /* no block is complete */
        rig_submit(&r, &g, i);
    }
    rig_wait_ends(&r, 144);
    ck_assert_uint_eq(engine_replicas(r.engine, replicas, 72), 72);
    for (uint32_t i = 0; i < 72; i++)
        ck_assert_uint_gt(replicas[i].steps, 0);
    rig_check_rest(&r, 144);
    rig_close(&r);
}
END_TEST

int main(void)
{
    if (!tap_has(RIG_MODEL)) return EXIT_SUCCESS;
    Suite *s = suite_create("engine");
    TCase *t = tcase_create("engine");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, stop_and_length);
    tcase_add_test(t, output_is_cut_to_the_context);
    tcase_add_test(t, free_ends_everything_once);
    tcase_add_test(t, refusals);
    tcase_add_test(t, a_full_room_and_a_drain);
    tcase_add_test(t, impossible_options);
    tcase_add_test(t, cancel_in_the_inbox);
    tcase_add_test(t, cancel_before_arrival);
    tcase_add_test(t, cancel_while_waiting);
    tcase_add_test(t, cancel_in_prefill);
    tcase_add_test(t, cancel_in_decode_and_in_a_step);
    tcase_add_test(t, cancel_while_the_first_token_is_held);
    tcase_add_test(t, the_device_clock_is_never_early);
    tcase_add_test(t, live_and_offline_agree);
    tcase_add_test(t, a_step_lasts_what_it_costs);
    tcase_add_test(t, the_first_token_has_a_floor);
    tcase_add_test(t, every_replica_works);
    suite_add_tcase(s, t);
    return tap_run(s);
}
