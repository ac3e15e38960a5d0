/* test_engine_stress.c - many threads at the front door; a machine that fails. Run under TSan, too.
 */
#include "device/machine.h"
#include "tests/unit/engine_rig.h"
#include "tests/unit/tap.h"

#include <stdatomic.h>
#include <string.h>

static struct rig r;

/* The linker puts this in front of the machine's (-Wl,--wrap): each failing_every-th run fails. */
static uint32_t failing_every, runs;
enum err __real_machine_run(struct machine *m, const struct program *p, const struct batch *b,
                            struct error *e);
enum err __wrap_machine_run(struct machine *m, const struct program *p, const struct batch *b,
                            struct error *e);
enum err __wrap_machine_run(struct machine *m, const struct program *p, const struct batch *b,
                            struct error *e)
{
    if (failing_every && ++runs % failing_every == 0)
        return err_set(e, ERR_IO, "the machine is on fire");
    return __real_machine_run(m, p, b, e);
}

static uint32_t rnd(uint64_t *state, uint32_t n)
{
    *state = *state * 6364136223846793005 + 1442695040888963407;
    return (uint32_t)(*state >> 33) % n;
}

static void check_errors(uint32_t talks, uint32_t *failed)
{
    *failed = 0;
    for (uint32_t i = 0; i < talks; i++) {
        const struct gen_event *end = &r.talks[i].end;
        if (end->finish != FINISH_ERROR) continue;
        ck_assert_int_eq(end->error.code, ERR_IO);
        ck_assert_str_eq(end->error.text, "the machine is on fire");
        (*failed)++;
    }
}

START_TEST(a_failed_run_ends_its_requests_only)
{
    static const enum engine_clock clocks[] = {CLOCK_HOST, CLOCK_VIRTUAL};
    for (int c = 0; c < 2; c++) {
        uint32_t failed;
        rig_open(&r, "tiny-0", "4x2");
        r.o.clock = clocks[c];
        r.o.max_seqs = 2;
        rig_start(&r);
        failing_every = 45; /* a request takes 20 runs */
        runs = 0;
        for (uint32_t i = 0; i < 60; i++) {
            struct gen_request g = rig_request(&r, i % 8, 10, 20);
            rig_submit(&r, &g, i);
        }
        rig_wait_ends(&r, 60);
        failing_every = 0;
        check_errors(60, &failed);
        ck_assert_uint_gt(failed, 0);
        ck_assert_uint_lt(failed, 60);
        struct gen_request g = rig_request(&r, 0, 10, 5); /* the engine lives */
        rig_submit(&r, &g, 60);
        rig_wait_ends(&r, 61);
        ck_assert_int_eq(r.talks[60].end.finish, FINISH_LENGTH);
        rig_check_rest(&r, 61);
        rig_close(&r);
    }
}
END_TEST

/* ---- two that submit and cancel, one that looks */

#define EACH 500

static atomic_bool over;

static void *client(void *arg)
{
    uint32_t first = *(uint32_t *)arg;
    uint64_t state = first + 1;
    for (uint32_t i = first; i < first + EACH; i++) {
        struct gen_request g =
            rig_request(&r, rnd(&state, 8), 1 + rnd(&state, 60), 1 + rnd(&state, 12));
        g.priority = (int32_t)rnd(&state, 2);
        rig_submit(&r, &g, i);
        if (rnd(&state, 3) == 0) engine_cancel(r.engine, r.talks[i].id);
        if (rnd(&state, 3) == 0)
            engine_cancel(r.engine, r.talks[first + rnd(&state, i - first + 1)].id);
    }
    return NULL;
}

static void *onlooker(void *arg)
{
    static struct chip_report chips[144];
    static struct replica_report replicas[144];
    uint64_t seen = 0;
    (void)arg;
    while (!over) {
        struct engine_stats s;
        engine_stats(r.engine, &s);
        ck_assert_uint_ge(s.delivered_tokens, seen);
        ck_assert_uint_le(s.kv_blocks_used, s.kv_blocks_total);
        ck_assert_uint_ge(s.sampled_tokens, s.delivered_tokens + s.dropped_tokens);
        seen = s.delivered_tokens;
        engine_chips(r.engine, chips, 144);
        engine_replicas(r.engine, replicas, 144);
        nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    }
    return NULL;
}

static void storm(enum engine_clock clock)
{
    pthread_t clients[2], looks;
    uint32_t first[] = {0, EACH};
    rig_open(&r, "tiny-0", "2x2");
    for (uint32_t f = 0; f < 8; f++)
        rig_request(&r, f, 1, 1); /* the prompts are made before there are threads */
    r.o.clock = clock;
    r.o.kv_blocks = 80;
    rig_start(&r);
    over = false;
    pthread_create(&looks, NULL, onlooker, NULL);
    for (int i = 0; i < 2; i++)
        pthread_create(&clients[i], NULL, client, &first[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(clients[i], NULL);
    rig_wait_ends(&r, 2 * EACH);
    over = true;
    pthread_join(looks, NULL);
    rig_check_rest(&r, 2 * EACH);
    rig_close(&r);
}

START_TEST(storm_host)
{
    storm(CLOCK_HOST);
}
END_TEST

START_TEST(storm_device)
{
    storm(CLOCK_DEVICE);
}
END_TEST

START_TEST(storm_virtual)
{
    storm(CLOCK_VIRTUAL);
}
END_TEST

int main(void)
{
    if (!tap_has(RIG_MODEL)) return EXIT_SUCCESS;
    Suite *s = suite_create("engine_stress");
    TCase *t = tcase_create("stress");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, a_failed_run_ends_its_requests_only);
    tcase_add_test(t, storm_host);
    tcase_add_test(t, storm_device);
    tcase_add_test(t, storm_virtual);
    suite_add_tcase(s, t);
    return tap_run(s);
}
