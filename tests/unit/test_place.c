/* test_place.c - requests spread over replicas, and follow their cached prefix. */
#include "engine/place.h"

#include "tests/unit/tap.h"

START_TEST(table)
{
    static const struct {
        struct place_replica r[3];
        uint32_t prompt, last, want;
    } cases[] = {
        {{{0, 0, 0}, {0, 0, 0}, {0, 0, 0}}, 100, 2, 0},       /* in turn */
        {{{0, 0, 0}, {0, 0, 0}, {0, 0, 0}}, 100, 0, 1},       /* */
        {{{0, 0, 0}, {0, 0, 0}, {0, 0, 0}}, 100, 1, 2},       /* */
        {{{50, 0, 0}, {10, 0, 0}, {90, 0, 0}}, 100, 1, 1},    /* least to do */
        {{{50, 0, 0}, {10, 0, 0}, {10, 0, 0}}, 100, 1, 2},    /* a tie, the next */
        {{{50, 64, 0}, {10, 0, 0}, {10, 0, 0}}, 100, 0, 0},   /* the prefix outweighs the load */
        {{{500, 64, 0}, {10, 0, 0}, {10, 0, 0}}, 100, 0, 1},  /* the load outweighs the prefix */
        {{{10, 32, 0}, {10, 64, 0}, {10, 48, 0}}, 100, 1, 1}, /* the longest prefix */
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t got = place_pick(cases[i].r, 3, cases[i].prompt, cases[i].last);
        ck_assert_msg(got == cases[i].want, "case %u: %u, not %u", i, got, cases[i].want);
    }
}
END_TEST

START_TEST(every_replica_is_used)
{
    struct place_replica r[72] = {{0}};
    uint32_t last = 71;
    for (uint32_t i = 0; i < 7200; i++) {
        uint32_t prompt = 1 + i * 7919 % 300;
        last = place_pick(r, 72, prompt, last);
        r[last].outstanding_tokens += prompt;
    }
    for (uint32_t i = 0; i < 72; i++) {
        ck_assert_uint_ge(r[i].outstanding_tokens, 14800); /* 15,000 on average */
        ck_assert_uint_le(r[i].outstanding_tokens, 15200);
    }
}
END_TEST

START_TEST(idle_replicas_take_turns)
{
    struct place_replica r[8] = {{0}};
    uint32_t last = 7;
    for (uint32_t i = 0; i < 64; i++) {
        last = place_pick(r, 8, 10, last); /* each is done before the next comes */
        ck_assert_uint_eq(last, i % 8);
    }
}
END_TEST

/* One replica has everybody's prefix; the others still get a request now and then. */
START_TEST(a_shared_prefix_leaves_nobody_idle)
{
    struct place_replica r[8] = {{0, 90, 0}};
    uint32_t got[8] = {0}, last = 7;
    for (uint32_t i = 0; i < 8 * PLACE_ROUNDS * 4; i++) {
        last = place_pick(r, 8, 100, last);
        got[last]++;
        for (uint32_t k = 0; k < 8; k++)
            r[k].rest++;
        r[last].rest = 0;
    }
    for (uint32_t k = 1; k < 8; k++)
        ck_assert_uint_ge(got[k], 2);
    ck_assert_uint_ge(got[0], 8 * PLACE_ROUNDS * 3);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("place");
    TCase *t = tcase_create("place");
    tcase_add_test(t, table);
    tcase_add_test(t, every_replica_is_used);
    tcase_add_test(t, idle_replicas_take_turns);
    tcase_add_test(t, a_shared_prefix_leaves_nobody_idle);
    suite_add_tcase(s, t);
    return tap_run(s);
}
