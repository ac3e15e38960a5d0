/* Pool: each item once, whatever the threads; short jobs one after the other; a clean end. */
#include "device/pool.h"
#include "tests/unit/tap.h"

#include <stdatomic.h>
#include <string.h>

#define ITEMS 300

struct tally {
    uint32_t count[ITEMS]; /* plain: an item belongs to one thread, TSan would see two */
    _Atomic uint32_t bad_thread;
    uint32_t threads;
};

static void tally_item(void *arg, uint32_t item, uint32_t thread)
{
    struct tally *t = arg;
    t->count[item]++;
    if (thread >= t->threads) atomic_fetch_add(&t->bad_thread, 1);
}

START_TEST(each_item_once)
{
    struct error e = {0};
    struct pool *p = pool_new((uint32_t)_i, &e);
    ck_assert_msg(p != NULL, "%s", e.text);
    if (_i) ck_assert_uint_eq(pool_threads(p), (uint32_t)_i);
    static struct tally t;
    for (uint32_t job = 0; job < 500; job++) {
        uint32_t items = job * 7 % (ITEMS + 1);
        memset(&t, 0, sizeof t);
        t.threads = pool_threads(p);
        pool_run(p, tally_item, &t, items);
        for (uint32_t i = 0; i < ITEMS; i++)
            ck_assert_msg(t.count[i] == (i < items), "job %u of %u items: item %u ran %u times",
                          job, items, i, t.count[i]);
        ck_assert_uint_eq(atomic_load(&t.bad_thread), 0);
    }
    pool_free(p);
}
END_TEST

/* What an item wrote is seen by the caller, and by the next job whoever runs it. */
struct chain {
    uint32_t from[ITEMS], to[ITEMS];
};

static void chain_item(void *arg, uint32_t i, uint32_t thread)
{
    (void)thread;
    struct chain *c = arg;
    c->to[i] = c->from[(i + 1) % ITEMS] + 1;
}

START_TEST(jobs_are_ordered)
{
    struct pool *p = pool_new(4, NULL);
    static struct chain c;
    memset(&c, 0, sizeof c);
    for (uint32_t job = 1; job <= 300; job++) {
        pool_run(p, chain_item, &c, ITEMS);
        for (uint32_t i = 0; i < ITEMS; i++)
            ck_assert_uint_eq(c.to[i], job);
        memcpy(c.from, c.to, sizeof c.to);
    }
    pool_free(p);
}
END_TEST

START_TEST(made_and_ended)
{
    for (int i = 0; i < 100; i++) {
        struct pool *p = pool_new(3, NULL);
        static struct chain c;
        if (i % 2) pool_run(p, chain_item, &c, ITEMS);
        pool_free(p);
    }
    pool_free(NULL);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("pool");
    TCase *t = tcase_create("pool");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, each_item_once, 0, 6);
    tcase_add_test(t, jobs_are_ordered);
    tcase_add_test(t, made_and_ended);
    suite_add_tcase(s, t);
    return tap_run(s);
}
