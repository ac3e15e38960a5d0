/* test_cost.c - prices of ops, by hand where a hand can; what the chips' counters add up to. */
#include "device/cost.h"
#include "device/telemetry.h"

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

/* A program of one op on a plan. */
static struct program *program_for(const char *plan, const struct prog_op *op)
{
    static struct program p;
    struct error e = {0};
    memset(&p, 0, sizeof p);
    p.shape = big;
    ck_assert_msg(!plan_parse(&p.plan, plan, &e), "%s", e.text);
    ck_assert_msg(!plan_complete(&p.plan, &big, &trn3, &e), "%s", e.text);
    p.rows = op->rows;
    p.seqs = 1;
    p.n_ops = 1;
    p.ops[0] = *op;
    return &p;
}

static struct cost price(const struct machine_spec *m, const char *plan, const struct prog_op *op)
{
    struct program *p = program_for(plan, op);
    return cost_op(m, p, &p->ops[0], 0);
}

static void near(double got, double want, double share, const char *what)
{
    ck_assert_msg(fabs(got - want) <= share * fabs(want), "%s: got %.6g, want %.6g within %g %%",
                  what, got, want, 100 * share);
}

START_TEST(distinct_experts_match_the_fits)
{
    /* hardware spec 4.3 */
    static const double rows[] = {4, 16, 64, 128};
    static const double uniform[] = {15.3, 51, 111, 126}, s10[] = {13.0, 35.7, 78.7, 103};
    static const double s12[] = {11.8, 30, 67, 90};
    for (int i = 0; i < 4; i++) {
        near(cost_distinct_experts(128, 4, 0, rows[i]), uniform[i], 0.02, "uniform");
        near(cost_distinct_experts(128, 4, 1.0, rows[i]), s10[i], 0.02, "s = 1.0");
        near(cost_distinct_experts(128, 4, 1.2, rows[i]), s12[i], 0.02, "s = 1.2");
    }
}
END_TEST

/* The definition without runs of equal weight, its t found by halving. */
static double distinct_by_definition(uint32_t e, uint32_t a, double s, double rows)
{
    double lo = 0, hi = 1e9, sum = 0;
    for (int i = 0; i < 200; i++) {
        double t = (lo + hi) / 2;
        sum = 0;
        for (uint32_t x = 1; x <= e; x++)
            sum += 1 - exp(-t * pow(x, -s));
        if (sum < a)
            lo = t;
        else
            hi = t;
    }
    sum = 0;
    for (uint32_t x = 1; x <= e; x++)
        sum += 1 - exp(-lo * rows * pow(x, -s));
    return sum;
}

START_TEST(distinct_experts_match_the_definition)
{
    static const uint32_t experts[] = {8, 32, 128, 257, 4096};
    for (int i = 0; i < 5; i++)
        for (uint32_t a = 1; a <= 7; a += 3)
            for (double s = 0; s <= 2; s += 0.5)
                for (double rows = 1; rows < 5000; rows *= 7)
                    near(cost_distinct_experts(experts[i], a, s, rows),
                         distinct_by_definition(experts[i], a, s, rows), 0.003, "distinct");
    ck_assert_double_eq(cost_distinct_experts(4, 4, 1, 1), 4);
    ck_assert_double_eq(cost_distinct_experts(128, 4, 1, 0), 0);
    ck_assert_double_eq_tol(cost_distinct_experts(128, 4, 1, 1), 4, 1e-6);
}
END_TEST

START_TEST(levels_follow_the_numbering)
{
    static const struct {
        uint32_t first, group, stride;
        enum link_level level;
    } cases[] = {{0, 4, 1, LINK_SLED},   {0, 5, 1, LINK_RACK},   {2, 2, 1, LINK_SLED},
                 {3, 2, 1, LINK_RACK},   {0, 72, 1, LINK_RACK},  {0, 73, 1, LINK_CROSS},
                 {71, 2, 1, LINK_CROSS}, {72, 72, 1, LINK_RACK}, {0, 18, 8, LINK_CROSS},
                 {0, 9, 8, LINK_RACK},   {143, 1, 1, LINK_SLED}, {0, 144, 1, LINK_CROSS}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_msg(cost_level(&trn3, cases[i].first, cases[i].group, cases[i].stride) ==
                          cases[i].level,
                      "case %u", i);
}
END_TEST

START_TEST(a_linear_op_turns_from_hbm_to_compute)
{
    /* [2880][2880] in BF16: 16,588,800 bytes at 4.22 TB/s x 0.8 are 4,913.7 ns; a row is 16,588,800
     * FLOPs at 671 TFLOPS x 0.6, 41.204 ns: rows 64 to 119 cost the bytes, 120 and more the FLOPs.
     */
    struct prog_op op = {.kind = OP_O_PROJ, .repeat = 1, .rows = 1, .n = 2880, .k = 2880};
    const double hbm_ns = 2880.0 * 2880 * 2 / (4.22e12 * 0.8) * 1e9;
    const double row_ns = 2880.0 * 2880 * 2 / (671e12 * 0.6) * 1e9;
    ck_assert(119 * row_ns < hbm_ns && hbm_ns < 120 * row_ns);
    for (uint32_t rows = 1; rows < 200; rows++) {
        op.rows = rows;
        struct cost c = price(&trn3, "1x1", &op);
        double want = rows < 120 ? hbm_ns : rows * row_ns;
        near(c.total_ns, want, 1e-9, "ns");
        near(c.ns[rows < 120 ? BOUND_HBM : BOUND_COMPUTE], want, 1e-9, "bound");
        near(c.hbm_bytes, 2880.0 * 2880 * 2, 1e-12, "bytes");
        near(c.flops, 2880.0 * 2880 * 2 * rows, 1e-12, "flops");
    }
}
END_TEST

START_TEST(experts_are_padded_packed_and_read_once)
{
    struct prog_op up = {
        .kind = OP_EXPERTS_UP, .repeat = 18, .rows = 4, .n = 5760, .k = 2880, .experts = 4};
    struct cost c = price(&trn3, "1x1", &up);
    near(c.hbm_bytes, 18 * 4 * 2 * 3072.0 * 3072 * 17 / 32, 1e-12, "MXFP4 bytes");
    near(c.flops, 18 * 4 * 2 * 5760.0 * 2880, 1e-12, "flops asked for");
    near(c.total_ns, c.hbm_bytes / (4.22e12 * 0.8) * 1e9, 1e-9, "HBM");
    c = price(&trn2, "1x1", &up);
    near(c.hbm_bytes, 18 * 4 * 2 * 3072.0 * 3072 * 2, 1e-12, "BF16 bytes");

    /* 64 rows an expert are paid: on a machine without bytes to wait for, that is the time */
    struct machine_spec m = trn3;
    m.hbm_bytes_per_s = 1e30;
    near(price(&m, "1x1", &up).total_ns,
         18 * 4 * 64 * 2 * 2 * 3072.0 * 3072 / (2517e12 * 0.5) * 1e9, 1e-9, "64 rows an expert");

    /* the MX path: 1,000 rows of 4 experts at 2,517 TFLOPS x 0.5 */
    up.rows = 1000;
    c = price(&trn3, "1x1", &up);
    near(c.ns[BOUND_COMPUTE], 18 * 1000 * 2 * 2 * 3072.0 * 3072 / (2517e12 * 0.5) * 1e9, 1e-9,
         "MX compute");
    up.experts = 0; /* nothing is routed here */
    ck_assert_double_eq(price(&trn3, "1x1", &up).total_ns, 0);
}
END_TEST

START_TEST(attention_reads_each_key_once)
{
    struct prog_op op = {.kind = OP_ATTENTION,
                         .repeat = 1,
                         .rows = 512,
                         .n = 2048,
                         .k = 512,
                         .kv_tokens = 512ull * 1000,
                         .kv_seq_tokens = 1256};
    struct cost c = price(&trn3, "1x2", &op);
    near(c.hbm_bytes, 1256 * 1024.0, 1e-12, "keys and values of half the heads");
    near(c.flops, 4.0 * 512 * 1000 * 2048, 1e-12, "flops");
    ck_assert_double_gt(c.ns[BOUND_COMPUTE], 0);
    op.rows = 1;
    op.kv_tokens = op.kv_seq_tokens = 1256;
    ck_assert_double_gt(price(&trn3, "1x2", &op).ns[BOUND_HBM], 0);
}
END_TEST

START_TEST(collectives_pay_for_the_level)
{
    struct prog_op op = {.kind = OP_COMBINE,
                         .repeat = 1,
                         .rows = 8,
                         .n = 2880,
                         .group = 2,
                         .stride = 1,
                         .link_bytes = 150000};
    struct cost c = price(&trn3, "72x2", &op);
    near(c.total_ns, 1000, 1e-9, "in the sled: 150 kB at 150 GB/s, the latency is in the layer's");
    near(c.link_bytes[LINK_SLED], 150000, 1e-12, "bytes");
    op.group = 8;
    c = price(&trn3, "18x8", &op);
    near(c.total_ns, 3000, 1e-9, "in the rack: 2 us more than in the sled");
    near(c.ns[BOUND_LINK], 3000, 1e-9, "bound");
    op.group = 144;
    c = price(&trn3, "1x144", &op);
    near(c.total_ns, 4000 + 150000 / 128e9 * 1e9, 1e-9, "across racks: 4 us more, 128 GB/s");
    near(c.link_bytes[LINK_CROSS], 150000, 1e-12, "bytes");
    op.group = 1;
    op.link_bytes = 0;
    ck_assert_double_eq(price(&trn3, "144x1", &op).total_ns, 0);
    /* tp groups of 2 in replicas of 6: chips 0 and 1 share a sled, so do 2 and 3, 4 and 5 */
    op = (struct prog_op){
        .kind = OP_ALL_REDUCE, .repeat = 1, .rows = 8, .n = 2880, .group = 2, .stride = 1};
    ck_assert_double_eq(price(&trn3, "24x6", &op).ns[BOUND_LINK], 0);
    /* with an odd first chip, one of them does not */
    struct program *p = program_for("24x6", &op);
    near(cost_op(&trn3, p, &p->ops[0], 3).total_ns, 2000, 1e-9, "the farthest group counts");
}
END_TEST

START_TEST(fixed_costs_are_added_once)
{
    struct prog_op op = {.kind = OP_NORM, .repeat = 36, .rows = 7};
    struct machine_spec m = trn3;
    m.step_fixed_ns = 5000;
    struct program *p = program_for("72x2", &op);
    p->seqs = 6;
    struct cost c = cost_step(&m, p, 0);
    near(c.ns[BOUND_FIXED], 36 * 100e3 + 25e3 * 6 / 2 + 5000, 1e-12, "fixed");
    ck_assert_double_eq(c.total_ns, c.ns[BOUND_FIXED]);
    p->rows = 0;
    ck_assert_double_eq(cost_step(&m, p, 0).total_ns, 0);
}
END_TEST

START_TEST(energy_is_power_times_time)
{
    near(cost_joules(&trn3, 1e9, 0, 0), 350, 1e-9, "decode");
    near(cost_joules(&trn3, 0, 1e9, 0), 616, 1e-9, "prefill");
    near(cost_joules(&trn3, 0, 0, 2e9), 392, 1e-9, "idle");
}
END_TEST

START_TEST(sums_over_chips_are_sums_over_steps)
{
    struct plan p;
    ck_assert_int_eq(plan_parse(&p, "20x7:tp=1", NULL), ERR_OK);
    ck_assert_int_eq(plan_complete(&p, &big, &trn3, NULL), ERR_OK);
    struct telemetry *t = telemetry_new(&trn3, &p, &big);
    ck_assert_ptr_nonnull(t);
    ck_assert_uint_eq(telemetry_chips(t), 144);
    uint64_t tokens = 0, prompt = 0, state = 1;
    double busy = 0, prefill = 0, flops = 0;
    for (int i = 0; i < 10000; i++) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        uint32_t r = (uint32_t)(state >> 33) % 20, n = (uint32_t)(state >> 40) % 300;
        struct cost c = {.ns = {64, 32, 16, 8}, .total_ns = 120, .flops = 1024, .hbm_bytes = 2};
        telemetry_step(t, r, &c, n / 3, n, 0.25);
        tokens += n;
        prompt += n / 3;
        busy += 7 * 120;
        prefill += 7 * 30;
        flops += 7 * 1024;
    }
    uint64_t lowest = UINT64_MAX, highest = 0;
    for (uint32_t i = 0; i < 144; i++) {
        const struct chip_counters *c = telemetry_chip(t, i);
        tokens -= c->tokens;
        prompt -= c->prompt_tokens;
        busy -= c->busy_ns;
        prefill -= c->busy_prefill_ns;
        flops -= c->flops;
        double bounds = c->busy_by[0] + c->busy_by[1] + c->busy_by[2] + c->busy_by[3];
        ck_assert_double_eq(bounds, c->busy_ns);
        ck_assert_int_eq(c->state, i < 140 ? CHIP_IDLE : CHIP_UNUSED);
        ck_assert_uint_eq(c->hbm_weight_bytes,
                          i < 140 ? plan_weight_bytes(&p, &big, &trn3, i % 7) : 0);
        if (i >= 7) continue; /* the first replica's chips share evenly */
        lowest = c->tokens < lowest ? c->tokens : lowest;
        highest = c->tokens > highest ? c->tokens : highest;
    }
    ck_assert_uint_eq(tokens, 0);
    ck_assert_uint_eq(prompt, 0);
    ck_assert_double_eq(busy, 0);
    ck_assert_double_eq(prefill, 0);
    ck_assert_double_eq(flops, 0);
    ck_assert_uint_le(highest - lowest, 1);
    telemetry_free(t);
}
END_TEST

START_TEST(states_and_memory_are_of_the_replica)
{
    struct plan p;
    ck_assert_int_eq(plan_parse(&p, "2x3", NULL), ERR_OK);
    ck_assert_int_eq(plan_complete(&p, &big, &trn3, NULL), ERR_OK);
    struct telemetry *t = telemetry_new(&trn3, &p, &big);
    telemetry_state(t, 1, CHIP_BUSY);
    telemetry_kv(t, 1, 12345);
    for (uint32_t i = 0; i < 6; i++) {
        ck_assert_int_eq(telemetry_chip(t, i)->state, i < 3 ? CHIP_IDLE : CHIP_BUSY);
        ck_assert_uint_eq(telemetry_chip(t, i)->hbm_kv_bytes, i < 3 ? 0 : 12345);
    }
    telemetry_free(t);
    telemetry_free(NULL);
    ck_assert_uint_eq(machine_sled(&trn3, 71), 17);
    ck_assert_uint_eq(machine_rack(&trn3, 71), 0);
    ck_assert_uint_eq(machine_rack(&trn3, 72), 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cost");
    TCase *t = tcase_create("cost");
    tcase_add_checked_fixture(t, load, NULL);
    tcase_add_test(t, distinct_experts_match_the_fits);
    tcase_add_test(t, distinct_experts_match_the_definition);
    tcase_add_test(t, levels_follow_the_numbering);
    tcase_add_test(t, a_linear_op_turns_from_hbm_to_compute);
    tcase_add_test(t, experts_are_padded_packed_and_read_once);
    tcase_add_test(t, attention_reads_each_key_once);
    tcase_add_test(t, collectives_pay_for_the_level);
    tcase_add_test(t, fixed_costs_are_added_once);
    tcase_add_test(t, energy_is_power_times_time);
    tcase_add_test(t, sums_over_chips_are_sums_over_steps);
    tcase_add_test(t, states_and_memory_are_of_the_replica);
    suite_add_tcase(s, t);
    return tap_run(s);
}
