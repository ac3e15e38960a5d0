/* test_step_cost.c - whole steps of gpt-oss-120b, lowered and priced: against published
 * measurements and the model column of the hardware specification, and against common sense. */
#include "device/cost.h"
#include "engine/lower.h"

#include "tests/unit/tap.h"

#include <math.h>
#include <string.h>

static struct machine_spec trn3, trn2;
static struct model_shape big;

static void load(void)
{
    const char *src = getenv("srcdir") ? getenv("srcdir") : ".";
    char path[1024];
    struct error e = {0};
    snprintf(path, sizeof path, "%s/conf/machines/trn3-ultraserver.conf", src);
    ck_assert_msg(!machine_load_file(&trn3, path, &e), "%s", e.text);
    snprintf(path, sizeof path, "%s/conf/machines/trn2-ultraserver.conf", src);
    ck_assert_msg(!machine_load_file(&trn2, path, &e), "%s", e.text);
    snprintf(path, sizeof path, "%s/conf/models/gpt-oss-120b.conf", src);
    ck_assert_msg(!shape_load_file(&big, path, &e), "%s", e.text);
}

/* A step of `seqs` sequences, each with `rows` new rows after `start` tokens, round the dp groups.
 */
struct step {
    const char *plan;
    uint32_t seqs, rows, start;
    bool unfolded;
};

static struct program *lower(const struct machine_spec *m, const struct step *s)
{
    static struct program p;
    static struct batch_seq seqs[4096];
    struct plan plan;
    struct error e = {0};
    ck_assert_msg(!plan_parse(&plan, s->plan, &e), "%s", e.text);
    ck_assert_msg(!plan_complete(&plan, &big, m, &e), "%s", e.text);
    for (uint32_t i = 0; i < s->seqs; i++)
        seqs[i] = (struct batch_seq){.dp = (uint16_t)(i % plan.attn_dp),
                                     .rows = s->rows,
                                     .start = s->start,
                                     .wants_logits = true};
    struct batch b = {.seqs = seqs, .n_seqs = s->seqs, .n_rows = s->seqs * s->rows};
    struct step_counts counts;
    lower_count(&b, 0, &plan, big.window, &counts);
    struct lower_options o = {.router_zipf_s = m->router_zipf_s, .fold = !s->unfolded};
    lower_step(&big, &plan, &counts, &o, &p);
    ck_assert_msg(!prog_check(&p, &e), "%s", e.text);
    return &p;
}

static double step_ms(const struct machine_spec *m, struct step s)
{
    return cost_step(m, lower(m, &s), 0).total_ns / 1e6;
}

static void near(double got, double want, double share, const char *what)
{
    ck_assert_msg(fabs(got - want) <= share * want, "%s: got %.4f, want %.4f within %g %%", what,
                  got, want, 100 * share);
}

START_TEST(trn2_decodes_in_the_measured_time)
{
    /* hardware spec 3.3, T1: 4 chips, BF16, 512 in and 128 out, one request: 7.00 ms a token */
    near(step_ms(&trn2, (struct step){"1x4", 1, 1, 576, false}), 7.00, 0.05, "T1");
    /* the experts' split changes what a chip reads by little */
    near(step_ms(&trn2, (struct step){"1x4:mtp=4", 1, 1, 576, false}), 7.00, 0.05, "T1, mtp");
}
END_TEST

START_TEST(trn3_decodes_as_the_model_column_says)
{
    /* hardware spec 6.3: batch 1, 1.5k context, by layer overhead */
    static const struct {
        const char *plan;
        uint64_t layer_us;
        double ms;
    } cases[] = {{"1x2", 160, 6.56}, {"1x2", 100, 4.40}, {"1x2", 60, 2.96},
                 {"1x2", 35, 2.06},  {"1x4", 60, 2.56},  {"1x4", 35, 1.66}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct machine_spec m = trn3;
        m.layer_fixed_ns = cases[i].layer_us * 1000;
        near(step_ms(&m, (struct step){cases[i].plan, 1, 1, 1500, false}), cases[i].ms, 0.05,
             cases[i].plan);
    }
}
END_TEST

START_TEST(trn3_decodes_a_smaller_model_in_about_the_measured_time)
{
    /* hardware spec 3.3, T3: gpt-oss-20b in BF16 on one chip, a fused kernel; gate: 20 % */
    static const struct {
        uint32_t context;
        double ms;
    } cases[] = {{640, 5.88}, {2048, 4.92}, {4096, 4.85}, {8192, 4.98}};
    struct machine_spec m = trn3;
    m.mx_native = false;
    big.layers = 24;
    big.experts = 32;
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        near(step_ms(&m, (struct step){"1x1", 1, 1, cases[i].context, false}), cases[i].ms, 0.20,
             "T3");
}
END_TEST

START_TEST(folded_layers_cost_the_same)
{
    static const char *const plans[] = {"1x1", "72x2", "18x8", "1x144"};
    for (int i = 0; i < 4; i++) {
        struct step s = {plans[i], 37, 3, 1000, false};
        struct cost folded = cost_step(&trn3, lower(&trn3, &s), 0);
        s.unfolded = true;
        struct cost whole = cost_step(&trn3, lower(&trn3, &s), 0);
        near(folded.total_ns, whole.total_ns, 1e-9, "ns");
        near(folded.flops, whole.flops, 1e-9, "flops");
        near(folded.hbm_bytes, whole.hbm_bytes, 1e-9, "bytes");
        for (int l = 0; l < LINK_LEVELS; l++)
            near(folded.link_bytes[l], whole.link_bytes[l], 1e-9, "link");
    }
}
END_TEST

/* Never cheaper when one of the three grows. */
START_TEST(more_work_never_costs_less)
{
    static const char *const plans[] = {"1x1", "72x2", "18x8", "18x8:mtp=8", "1x144", "2x72:tp=1"};
    for (unsigned i = 0; i < sizeof plans / sizeof *plans; i++) {
        double before = 0, now;
        for (uint32_t seqs = 1; seqs <= 600; seqs += 1 + seqs / 3, before = now) {
            now = step_ms(&trn3, (struct step){plans[i], seqs, 1, 1500, false});
            ck_assert_msg(now >= before, "%s: %u sequences %g ms, fewer %g", plans[i], seqs, now,
                          before);
        }
        before = 0;
        for (uint32_t rows = 1; rows <= 8192; rows *= 2, before = now) {
            now = step_ms(&trn3, (struct step){plans[i], 1, rows, 0, false});
            ck_assert_msg(now >= before, "%s: %u rows %g ms, fewer %g", plans[i], rows, now,
                          before);
        }
        before = 0;
        for (uint32_t start = 0; start <= 131072; start = 2 * start + 1, before = now) {
            now = step_ms(&trn3, (struct step){plans[i], 8, 1, start, false});
            ck_assert_msg(now >= before, "%s: %u tokens before %g ms, fewer %g", plans[i], start,
                          now, before);
        }
    }
}
END_TEST

START_TEST(throughput_and_prefill_are_plausible)
{
    /* batching pays: 64 sequences in a step take less than 4 times as long as one */
    double one = step_ms(&trn3, (struct step){"72x2", 1, 1, 1500, false});
    double many = step_ms(&trn3, (struct step){"72x2", 64, 1, 1500, false});
    ck_assert_msg(many < 4 * one, "1: %g ms, 64: %g ms", one, many);
    /* prefill, per token and chip: hardware spec 6.5 says 20 us with MX experts, 50 us in BF16, at
     * 30 % of the peak; here it is half of that for the products, and the links come on top */
    double trn3_us = step_ms(&trn3, (struct step){"1x2", 1, 8192, 0, false}) * 1e3 / 8192 * 2;
    double trn2_us = step_ms(&trn2, (struct step){"1x4", 1, 8192, 0, false}) * 1e3 / 8192 * 4;
    ck_assert_msg(trn3_us > 8 && trn3_us < 25, "Trn3: %g us", trn3_us);
    ck_assert_msg(trn2_us > 25 && trn2_us < 65, "Trn2: %g us", trn2_us);
    /* more chips are faster, but not for free */
    double two = step_ms(&trn3, (struct step){"1x2", 64, 1, 1500, false});
    double eight = step_ms(&trn3, (struct step){"1x8", 64, 1, 1500, false});
    ck_assert_msg(eight < two && eight > two / 4, "2 chips: %g ms, 8: %g ms", two, eight);
}
END_TEST

START_TEST(a_replica_across_racks_pays_for_it)
{
    struct step s = {"18x8", 16, 1, 500, false};
    struct program *p = lower(&trn3, &s);
    struct cost inside = cost_step(&trn3, p, 0), across = cost_step(&trn3, p, 68);
    ck_assert_double_gt(across.total_ns, inside.total_ns);
    ck_assert_double_eq(across.link_bytes[LINK_RACK], 0);
    near(across.link_bytes[LINK_CROSS], inside.link_bytes[LINK_RACK], 1e-9, "bytes");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("step_cost");
    TCase *t = tcase_create("step_cost");
    tcase_add_checked_fixture(t, load, NULL);
    tcase_add_test(t, trn2_decodes_in_the_measured_time);
    tcase_add_test(t, trn3_decodes_as_the_model_column_says);
    tcase_add_test(t, trn3_decodes_a_smaller_model_in_about_the_measured_time);
    tcase_add_test(t, folded_layers_cost_the_same);
    tcase_add_test(t, more_work_never_costs_less);
    tcase_add_test(t, throughput_and_prefill_are_plausible);
    tcase_add_test(t, a_replica_across_racks_pays_for_it);
    suite_add_tcase(s, t);
    return tap_run(s);
}
