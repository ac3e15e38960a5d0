/* test_plan.c - which chip holds what; the sums over chips; what fits the HBM. */
#include "device/plan.h"

#include "tests/unit/tap.h"

#include <string.h>

static struct model_shape gptoss120b(void)
{
    struct model_shape s = {.layers = 36,
                            .hidden = 2880,
                            .q_heads = 64,
                            .kv_heads = 8,
                            .head_dim = 64,
                            .experts = 128,
                            .experts_per_token = 4,
                            .intermediate = 2880,
                            .vocab = 201088,
                            .window = 128,
                            .dense_type = DT_BF16,
                            .expert_type = DT_MXFP4};
    for (unsigned l = 0; l < s.layers; l += 2)
        s.sliding[l] = true;
    return s;
}

static struct model_shape small(void) /* 2 KV heads, 8 experts */
{
    struct model_shape s = gptoss120b();
    s.layers = 4;
    s.hidden = s.intermediate = 128;
    s.q_heads = 4;
    s.kv_heads = 2;
    s.head_dim = 32;
    s.experts = 8;
    s.vocab = 1027; /* no chip count divides it */
    return s;
}

static struct model_shape tiny(void) /* one of everything */
{
    struct model_shape s = small();
    s.layers = s.q_heads = s.kv_heads = s.experts = s.experts_per_token = 1;
    s.head_dim = 2;
    s.hidden = s.intermediate = 32;
    s.vocab = 3;
    return s;
}

static const struct machine_spec trn3 = {.name = "trn3",
                                         .chips = 144,
                                         .hbm_bytes = 144ull << 30,
                                         .mx_native = true,
                                         .pad_to = 512,
                                         .kv_fraction = 0.9};
static const struct machine_spec trn2 = {
    .name = "trn2", .chips = 64, .hbm_bytes = 96ull << 30, .pad_to = 512, .kv_fraction = 0.9};

static struct plan complete(const char *text, const struct model_shape *s)
{
    struct plan p;
    struct error e = {0};
    ck_assert_msg(!plan_parse(&p, text, &e), "%s", e.text);
    ck_assert_msg(!plan_complete(&p, s, &trn3, &e), "%s: %s", text, e.text);
    return p;
}

static void check_texts(const struct model_shape *s, const char *const (*cases)[2], int n)
{
    for (int i = 0; i < n; i++) {
        struct plan p = complete(cases[i][0], s);
        char text[PLAN_TEXT_BYTES];
        plan_text(&p, text);
        ck_assert_str_eq(text, cases[i][1]);
        struct plan again;
        ck_assert_int_eq(plan_parse(&again, text, NULL), ERR_OK);
        ck_assert_mem_eq(&p, &again, sizeof p);
    }
}

START_TEST(missing_parts_are_filled)
{
    struct model_shape big = gptoss120b(), nano = small();
    static const char *const big_cases[][2] = {
        {"1x1", "1x1:tp=1,dp=1,ep=1,mtp=1"},
        {"1x8", "1x8:tp=8,dp=1,ep=8,mtp=1"},
        {"18x8", "18x8:tp=8,dp=1,ep=8,mtp=1"},
        {"72x2", "72x2:tp=2,dp=1,ep=2,mtp=1"},
        {"144x1", "144x1:tp=1,dp=1,ep=1,mtp=1"},
        {"1x144", "1x144:tp=8,dp=18,ep=144,mtp=1"},
        {"2x3", "2x3:tp=1,dp=3,ep=3,mtp=1"},
        {"18x8:mtp=4", "18x8:tp=8,dp=1,ep=2,mtp=4"},
        {"18x8:dp=4,ep=1", "18x8:tp=2,dp=4,ep=1,mtp=8"},
    };
    static const char *const small_cases[][2] = {
        {"1x144", "1x144:tp=2,dp=72,ep=144,mtp=1"},
        {"72x2", "72x2:tp=2,dp=1,ep=2,mtp=1"},
        {"1x6", "1x6:tp=2,dp=3,ep=6,mtp=1"},
    };
    check_texts(&big, big_cases, sizeof big_cases / sizeof *big_cases);
    check_texts(&nano, small_cases, sizeof small_cases / sizeof *small_cases);
}
END_TEST

START_TEST(bad_plans_name_rule_and_numbers)
{
    static const struct {
        const char *plan, *part;
    } cases[] = {
        {"145x1", "145 x 1 is 145 chips, machine trn3 has 144"},
        {"9999999x9999999", "machine trn3 has 144"},
        {"1x8:tp=3", "tp 3 x dp 2 is not the 8 chips"},
        {"1x9:tp=3", "8 KV heads cannot be split over tp 3"},
        {"1x16:tp=16", "8 KV heads cannot be split over tp 16"},
        {"1x8:ep=4,mtp=4", "ep 4 x mtp 4 is not the 8 chips"},
        {"1x6:mtp=6", "mtp 6 must be a power of two, at most 8 for intermediate 2880"},
        {"1x16:mtp=16", "mtp 16 must be a power of two, at most 8"},
    };
    struct model_shape s = gptoss120b();
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct plan p;
        struct error e = {0};
        ck_assert_int_eq(plan_parse(&p, cases[i].plan, &e), ERR_OK);
        ck_assert_int_eq(plan_complete(&p, &s, &trn3, &e), ERR_INVAL);
        ck_assert_msg(strstr(e.text, cases[i].part), "%s: got \"%s\"", cases[i].plan, e.text);
    }
}
END_TEST

START_TEST(bad_texts_are_refused)
{
    static const char *const bad[] = {"",        "x",           "72",         "72x",
                                      "0x2",     "2x0",         "72x2:",      "72x2,tp=2",
                                      "72x2:tp", "72x2:tp=",    "72x2:tp=0",  "72x2:tp=2,",
                                      "72X2",    "72x2:tq=2",   " 72x2",      "72x2 ",
                                      "-1x2",    "12345678x1",  "72x2:tp=1:", "1x2:tp=1,tp=2",
                                      "72x2x2",  "72x2:tp=2 dp"};
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct plan p;
        struct error e = {0};
        ck_assert_msg(plan_parse(&p, bad[i], &e) == ERR_PARSE, "\"%s\" was read", bad[i]);
        ck_assert_msg(strstr(e.text, "REPLICASxCHIPS"), "%s", e.text);
    }
}
END_TEST

/* Every expert, column of F, KV head and vocabulary row is held, by as many chips as the plan says,
 * and the place that serves an expert holds it. */
static void check_cover(const struct plan *p, const struct model_shape *s)
{
    static uint32_t held[4096], heads[64];
    memset(held, 0, sizeof held);
    memset(heads, 0, sizeof heads);
    uint32_t vocab = 0, columns = 0;
    for (uint32_t c = 0; c < p->chips; c++) {
        struct plan_range x = plan_experts(p, s, c), h = plan_kv_heads(p, s, c);
        struct plan_range v = plan_vocab_rows(p, s, c), f = plan_moe_columns(p, s, c);
        ck_assert_uint_ge(x.n, 1);
        for (uint32_t i = 0; i < x.n; i++)
            held[x.first + i] += f.n;
        for (uint32_t i = 0; i < h.n; i++)
            heads[h.first + i]++;
        ck_assert_uint_eq(v.first, vocab);
        vocab += v.n;
        ck_assert_uint_ge(f.n, 32);
        ck_assert_uint_eq(f.first % 32, 0);
        if (c < p->moe_tp) {
            ck_assert_uint_eq(f.first, columns);
            columns += f.n;
        }
    }
    ck_assert_uint_eq(vocab, s->vocab);
    ck_assert_uint_eq(columns, s->intermediate);
    for (uint32_t h = 0; h < s->kv_heads; h++)
        ck_assert_uint_eq(heads[h], p->attn_dp);
    for (uint32_t x = 0; x < s->experts; x++) {
        uint32_t copies = held[x] / s->intermediate, least = p->ep / s->experts;
        ck_assert_uint_eq(held[x] % s->intermediate, 0);
        ck_assert_uint_ge(copies, least ? least : 1);
        ck_assert_uint_le(copies, least + 1);
    }
}

START_TEST(shards_cover_the_model_once)
{
    static const char *const plans[] = {"1x1",          "1x8",        "18x8",       "72x2",
                                        "144x1",        "1x144",      "1x3",        "1x5",
                                        "1x100:dp=100", "18x8:mtp=2", "1x144:dp=72"};
    struct model_shape shapes[] = {gptoss120b(), small(), tiny()};
    for (unsigned k = 0; k < 3; k++)
        for (unsigned i = 0; i < sizeof plans / sizeof *plans; i++) {
            struct plan p;
            ck_assert_int_eq(plan_parse(&p, plans[i], NULL), ERR_OK);
            if (k == 2) p.attn_dp = p.chips; /* one head */
            if (k == 2) p.moe_tp = 1;        /* one block of 32 columns */
            struct error e = {0};
            ck_assert_msg(!plan_complete(&p, &shapes[k], &trn3, &e), "%s: %s", plans[i], e.text);
            check_cover(&p, &shapes[k]);
        }
}
END_TEST

START_TEST(moe_borders_are_blocks_of_32)
{
    struct model_shape s = gptoss120b();
    ck_assert_uint_eq(plan_moe_parts(&s), 8);
    ck_assert_uint_eq(plan_moe_border(&s, 0), 0);
    ck_assert_uint_eq(plan_moe_border(&s, 8), 2880);
    for (uint32_t f = 32; f <= 4096; f += 32) {
        s.intermediate = f;
        uint32_t parts = plan_moe_parts(&s);
        ck_assert(parts <= 8 && (parts & (parts - 1)) == 0 && parts <= f / 32);
        for (uint32_t i = 0; i < parts; i++) {
            ck_assert_uint_lt(plan_moe_border(&s, i), plan_moe_border(&s, i + 1));
            ck_assert_uint_eq(plan_moe_border(&s, i) % 32, 0);
        }
        ck_assert_uint_eq(plan_moe_border(&s, parts), f);
    }
}
END_TEST

static struct plan_weights total(const char *text, const struct model_shape *s,
                                 const struct machine_spec *m)
{
    struct plan p = complete(text, s);
    struct plan_weights sum = {0};
    for (uint32_t c = 0; c < p.chips; c++) {
        struct plan_weights w = plan_weights(&p, s, m, c);
        sum.embed += w.embed;
        sum.attention += w.attention;
        sum.router += w.router;
        sum.experts += w.experts;
        sum.head += w.head;
        ck_assert_uint_eq(plan_weight_bytes(&p, s, m, c),
                          w.embed + w.attention + w.router + w.experts + w.head);
    }
    return sum;
}

START_TEST(shards_add_up_to_the_whole)
{
    struct model_shape s = gptoss120b();
    struct plan_weights one = total("1x1", &s, &trn3);
    /* gpt-oss spec 1.2: parameters of the 120b; experts padded 2880 -> 3072, 4.25 bits an element
     */
    ck_assert_uint_eq(one.embed, 2ull * 579133440);
    ck_assert_uint_eq(one.attention, 2ull * 955908864);
    ck_assert_uint_eq(one.router, 2ull * 36 * (368768 + 2880));
    ck_assert_uint_eq(one.experts, 36ull * 128 * (3ull * 3072 * 3072 / 32 * 17 + 2 * 3 * 3072));
    ck_assert_uint_eq(one.head, 2ull * (579133440 + 2880));
    static const char *const plans[] = {"1x2", "1x8", "1x8:mtp=8,tp=8", "1x8:mtp=4,tp=4", "1x128"};
    for (unsigned i = 0; i < sizeof plans / sizeof *plans; i++) {
        struct plan p = complete(plans[i], &s);
        struct plan_weights sum = total(plans[i], &s, &trn3);
        ck_assert_uint_eq(sum.embed, p.chips * one.embed);
        ck_assert_uint_eq(sum.router, p.chips * one.router);
        /* biases of o and down, and the norms, are on each of the chips that share them */
        uint64_t norms = 2ull * 36 * 2 * 2880, down = 2ull * 36 * 128 * 3072, last = 2ull * 2880;
        ck_assert_uint_eq(sum.attention - p.chips * norms, p.attn_dp * (one.attention - norms));
        ck_assert_uint_eq(sum.experts - p.moe_tp * down, one.experts - down);
        ck_assert_uint_eq(sum.head - p.chips * last, one.head - last);
    }
    struct plan_weights wide = total("1x144", &s, &trn3);
    ck_assert_uint_eq(wide.experts, one.experts / 128 * 144);
}
END_TEST

START_TEST(gptoss120b_fits_one_trn3_chip_and_four_trn2_chips)
{
    struct model_shape s = gptoss120b();
    struct plan p = complete("1x1", &s);
    double gb = (double)plan_weight_bytes(&p, &s, &trn3, 0) / 1e9;
    ck_assert_msg(gb > 71 && gb < 75, "%.2f GB", gb); /* hardware spec 6.1: 72 */
    uint64_t tokens = 0;
    struct error e = {0};
    ck_assert_int_eq(plan_kv_capacity(&p, &s, &trn3, &tokens, &e), ERR_OK);
    /* 0.9 * (154.6 - 73.6) GB / 36,864 bytes a token */
    ck_assert_uint_eq(plan_kv_token_bytes(&p, &s), 36864);
    ck_assert_uint_eq(plan_kv_window_bytes(&p, &s), 18ull * 128 * 2048);
    ck_assert_msg(tokens > 1900000 && tokens < 2050000, "%lu", (unsigned long)tokens);

    p = complete("1x2", &s);
    ck_assert_uint_eq(plan_kv_token_bytes(&p, &s), 18432);
    ck_assert_int_eq(plan_kv_capacity(&p, &s, &trn2, &tokens, &e), ERR_RANGE);
    ck_assert_msg(strstr(e.text, "of weights, machine trn2 has 103.1 GB"), "%s", e.text);
    p = complete("1x4", &s);
    ck_assert_int_eq(plan_kv_capacity(&p, &s, &trn2, &tokens, NULL), ERR_OK);
    ck_assert_uint_gt(tokens, 131072);
}
END_TEST

START_TEST(data_parallel_groups_add_their_context)
{
    struct model_shape s = gptoss120b();
    uint64_t tp = 0, dp = 0;
    struct plan a = complete("1x8:tp=8", &s), b = complete("1x8:tp=4,dp=2", &s);
    ck_assert_int_eq(plan_kv_capacity(&a, &s, &trn3, &tp, NULL), ERR_OK);
    ck_assert_int_eq(plan_kv_capacity(&b, &s, &trn3, &dp, NULL), ERR_OK);
    ck_assert_uint_gt(tp, dp); /* the second copy of attention's weights costs context */
    ck_assert_double_eq_tol((double)dp / (double)tp, 1, 0.01);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("plan");
    TCase *t = tcase_create("plan");
    tcase_add_test(t, missing_parts_are_filled);
    tcase_add_test(t, bad_plans_name_rule_and_numbers);
    tcase_add_test(t, bad_texts_are_refused);
    tcase_add_test(t, shards_cover_the_model_once);
    tcase_add_test(t, moe_borders_are_blocks_of_32);
    tcase_add_test(t, shards_add_up_to_the_whole);
    tcase_add_test(t, gptoss120b_fits_one_trn3_chip_and_four_trn2_chips);
    tcase_add_test(t, data_parallel_groups_add_their_context);
    suite_add_tcase(s, t);
    return tap_run(s);
}
