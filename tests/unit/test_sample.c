/* test_sample.c - which ids may come, how often, and that odd logits do no harm. Frequencies are
 * checked with fixed seeds, so a test passes always or never. */
#include "engine/sample.h"

#include "tests/unit/tap.h"

#include <math.h>
#include <string.h>

#define BIG 201088

static struct sample_top scratch[BIG];

static struct sample_params plain(void)
{
    return (struct sample_params){.temperature = 1, .top_p = 1, .seed = 1, .logprobs = -1};
}

static uint32_t draw(const float *logits, uint32_t n, const struct sample_params *p, uint64_t index)
{
    struct sampled s;
    sample_row(logits, n, NULL, p, index, scratch, &s);
    ck_assert_uint_lt(s.token, n);
    return s.token;
}

/* Chi square of 20,000 draws against weights; `limit` is the 99.9 % point for the kept ids. */
static void check_distribution(const float *logits, const double *weights, uint32_t n,
                               const struct sample_params *p, double limit)
{
    uint32_t seen[16] = {0};
    double sum = 0, chi = 0;
    const uint32_t draws = 20000;
    for (uint32_t i = 0; i < draws; i++)
        seen[draw(logits, n, p, i)]++;
    for (uint32_t i = 0; i < n; i++)
        sum += weights[i];
    for (uint32_t i = 0; i < n; i++) {
        double want = draws * weights[i] / sum;
        if (weights[i] <= 0) ck_assert_msg(!seen[i], "id %u came %u times", i, seen[i]);
        if (weights[i] > 0) chi += (seen[i] - want) * (seen[i] - want) / want;
    }
    ck_assert_msg(chi < limit, "chi square is %g, limit %g", chi, limit);
}

static const float six[] = {1, 3, -1, 2, 0.5f, 2}; /* ids 3 and 5 tie */

static void expect(double w[6], double temperature, const int keep[6])
{
    for (int i = 0; i < 6; i++)
        w[i] = keep[i] ? exp((double)six[i] / temperature) : 0;
}

START_TEST(greedy_takes_the_lowest_of_the_best)
{
    static const float logits[] = {0, 7, 3, 7, NAN, INFINITY, -INFINITY};
    struct sample_params p = plain();
    p.temperature = 0;
    ck_assert_uint_eq(draw(logits, 7, &p, 0), 1);
    p.temperature = 1;
    p.top_p = 0;
    ck_assert_uint_eq(draw(logits, 7, &p, 3), 1);
    p.top_p = 1;
    p.top_k = 1;
    ck_assert_uint_eq(draw(logits, 7, &p, 4), 1);
    p.top_k = 0;
    p.min_p = 1;
    for (uint64_t i = 0; i < 50; i++)
        ck_assert_uint_eq(draw(logits, 7, &p, i) % 2, 1); /* the two that tie */
}
END_TEST

START_TEST(temperature)
{
    static const int all[6] = {1, 1, 1, 1, 1, 1};
    static const double temperatures[] = {1, 0.5, 2};
    for (int i = 0; i < 3; i++) {
        struct sample_params p = plain();
        double w[6];
        p.temperature = (float)temperatures[i];
        p.seed = 10 + (uint64_t)i;
        expect(w, temperatures[i], all);
        check_distribution(six, w, 6, &p, 20.5); /* 5 degrees of freedom */
    }
}
END_TEST

START_TEST(top_k)
{
    static const int keep2[6] = {0, 1, 0, 1, 0, 0}; /* of the tie the lower id */
    static const int keep3[6] = {0, 1, 0, 1, 0, 1};
    struct sample_params p = plain();
    double w[6];
    p.top_k = 2;
    expect(w, 1, keep2);
    check_distribution(six, w, 6, &p, 10.8);
    p.top_k = 3;
    expect(w, 1, keep3);
    check_distribution(six, w, 6, &p, 13.8);
    p.top_k = 6; /* all of them: as if off */
    static const int all[6] = {1, 1, 1, 1, 1, 1};
    expect(w, 1, all);
    check_distribution(six, w, 6, &p, 20.5);
}
END_TEST

START_TEST(top_p)
{
    /* probabilities: .083 .490 .011 .180 .050 .180 */
    static const struct {
        float p;
        int keep[6];
        double limit;
    } cases[] = {
        {0.3f, {0, 1, 0, 0, 0, 0}, 1e-9},  {0.6f, {0, 1, 0, 1, 0, 0}, 10.8},
        {0.8f, {0, 1, 0, 1, 0, 1}, 13.8},  {0.9f, {1, 1, 0, 1, 0, 1}, 16.3},
        {0.95f, {1, 1, 0, 1, 1, 1}, 18.5}, {0.9999f, {1, 1, 1, 1, 1, 1}, 20.5},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sample_params p = plain();
        double w[6];
        p.top_p = cases[i].p;
        expect(w, 1, cases[i].keep);
        check_distribution(six, w, 6, &p, cases[i].limit);
    }
}
END_TEST

START_TEST(top_p_counts_what_top_k_leaves)
{
    static const int keep[6] = {0, 1, 0, 1, 0, 0};
    struct sample_params p = plain();
    double w[6];
    p.top_k = 3;    /* .577 .212 .212 of what is left */
    p.top_p = 0.7f; /* of all it would need three */
    expect(w, 1, keep);
    check_distribution(six, w, 6, &p, 10.8);
}
END_TEST

START_TEST(min_p)
{
    static const int keep[6] = {1, 1, 0, 1, 0, 1}; /* e^-2 = .135 stays, e^-2.5 = .082 goes */
    struct sample_params p = plain();
    double w[6];
    p.min_p = 0.1f;
    expect(w, 1, keep);
    check_distribution(six, w, 6, &p, 16.3);
    p.top_k = 5; /* through the other path */
    check_distribution(six, w, 6, &p, 16.3);
}
END_TEST

START_TEST(depends_on_seed_and_index_only)
{
    struct sample_params p = plain();
    uint32_t differ = 0;
    for (uint64_t i = 0; i < 200; i++) {
        uint32_t first = draw(six, 6, &p, i);
        draw(six, 6, &(struct sample_params){.temperature = 1, .top_p = 1, .seed = 77}, 5);
        ck_assert_uint_eq(draw(six, 6, &p, i), first);
        struct sample_params other = p;
        other.seed = 2;
        differ += draw(six, 6, &other, i) != first;
    }
    ck_assert_uint_gt(differ, 60);
}
END_TEST

START_TEST(odd_logits)
{
    static const float none[] = {NAN, INFINITY, -INFINITY, NAN};
    static const float one[] = {NAN, INFINITY, -3, -INFINITY};
    static const float huge[] = {3e38f, -3e38f, 3e38f, 0};
    uint64_t allowed = 0xc;
    struct sampled s;
    for (int t = 0; t <= 2; t++) {
        struct sample_params p = plain();
        p.temperature = (float)t;
        p.logprobs = 2;
        sample_row(none, 4, NULL, &p, 0, scratch, &s);
        ck_assert_uint_eq(s.token, 0);
        ck_assert(isfinite(s.logprob));
        sample_row(none, 4, &allowed, &p, 0, scratch, &s);
        ck_assert_uint_eq(s.token, 2);
        sample_row(one, 4, NULL, &p, 0, scratch, &s);
        ck_assert_uint_eq(s.token, 2);
        ck_assert_uint_eq(s.n_top, 1);
        sample_row(huge, 4, NULL, &p, 0, scratch, &s);
        ck_assert(s.token == 0 || s.token == 2);
        ck_assert(isfinite(s.logprob) && s.logprob >= -9999);
        ck_assert_uint_eq(s.n_top, 2);
    }
}
END_TEST

START_TEST(masks)
{
    uint64_t none = 0, some = 1u << 0 | 1u << 4;
    struct sample_params p = plain();
    struct sampled s;
    p.logprobs = 20;
    sample_row(six, 6, &none, &p, 0, scratch, &s);
    ck_assert_uint_eq(s.token, 0);
    for (uint64_t i = 0; i < 100; i++) {
        sample_row(six, 6, &some, &p, i, scratch, &s);
        ck_assert(s.token == 0 || s.token == 4);
        ck_assert_uint_eq(s.n_top, 2);
        ck_assert_uint_eq(s.top[0].token, 0);
        ck_assert_uint_eq(s.top[1].token, 4);
    }
}
END_TEST

START_TEST(logprobs_are_of_the_raw_distribution)
{
    struct sample_params p = plain();
    struct sampled s;
    double sum = 0;
    for (int i = 0; i < 6; i++)
        sum += exp((double)six[i]);
    p.temperature = 0.3f; /* changes nothing */
    p.logprobs = 4;
    sample_row(six, 6, NULL, &p, 1, scratch, &s);
    static const uint32_t order[] = {1, 3, 5, 0};
    ck_assert_uint_eq(s.n_top, 4);
    for (int i = 0; i < 4; i++) {
        ck_assert_uint_eq(s.top[i].token, order[i]);
        ck_assert_double_eq_tol((double)s.top[i].logprob, (double)six[order[i]] - log(sum), 1e-6);
    }
    ck_assert_double_eq_tol((double)s.logprob, (double)six[s.token] - log(sum), 1e-6);
    p.logprobs = 0;
    sample_row(six, 6, NULL, &p, 1, scratch, &s);
    ck_assert_uint_eq(s.n_top, 0);
    ck_assert(s.logprob < 0);
}
END_TEST

START_TEST(a_large_vocabulary)
{
    static float logits[BIG];
    uint64_t x = 9;
    for (uint32_t i = 0; i < BIG; i++) {
        x = x * 6364136223846793005 + 1442695040888963407;
        logits[i] = (float)(x >> 40) / (1 << 24) * 4;
    }
    for (uint32_t i = 0; i < 300; i++)
        logits[7 * i] = 14 + (float)(i % 10) / 10;
    struct sample_params p = plain();
    p.top_p = 0.5f;
    p.logprobs = 20;
    struct sampled s;
    for (uint64_t i = 0; i < 20; i++) {
        sample_row(logits, BIG, NULL, &p, i, scratch, &s);
        ck_assert_uint_eq(s.token % 7, 0);
        ck_assert_uint_lt(s.token, 2100);
        ck_assert_uint_eq(s.n_top, 20);
        for (int k = 0; k < 20; k++) /* the best are 9, 19, ...: the lowest ids of a tie first */
            ck_assert_uint_eq(s.top[k].token, 7 * (9 + 10 * (uint32_t)k));
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("sample");
    TCase *t = tcase_create("sample");
    tcase_add_test(t, greedy_takes_the_lowest_of_the_best);
    tcase_add_test(t, temperature);
    tcase_add_test(t, top_k);
    tcase_add_test(t, top_p);
    tcase_add_test(t, top_p_counts_what_top_k_leaves);
    tcase_add_test(t, min_p);
    tcase_add_test(t, depends_on_seed_and_index_only);
    tcase_add_test(t, odd_logits);
    tcase_add_test(t, masks);
    tcase_add_test(t, logprobs_are_of_the_raw_distribution);
    tcase_add_test(t, a_large_vocabulary);
    suite_add_tcase(s, t);
    return tap_run(s);
}
