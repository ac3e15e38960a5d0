/* Machine: the same bits under odd shapes and plans, without any file; RoPE's figures; windows; the
 * cache; and what machine_new and machine_run refuse. */
#include "device/exec.h"
#include "tests/unit/feed.h"
#include "tests/unit/made_weights.h"
#include "tests/unit/tap.h"

#include <math.h>
#include <string.h>

/* Nothing here is a power of two or divides anything by accident: d 24, 5 query heads a KV head,
 * 3 KV heads, 5 layers, V 77. */
static struct model_shape odd_shape(void)
{
    struct model_shape s = {.name = "odd",
                            .layers = 5,
                            .hidden = 96,
                            .q_heads = 15,
                            .kv_heads = 3,
                            .head_dim = 24,
                            .experts = 7,
                            .experts_per_token = 3,
                            .intermediate = 352,
                            .vocab = 77,
                            .window = 5,
                            .max_positions = 1000,
                            .rms_eps = 1e-5f,
                            .rope_theta = 150000,
                            .rope_factor = 32,
                            .rope_beta_fast = 32,
                            .rope_beta_slow = 1,
                            .rope_original = 4096,
                            .swiglu_alpha = 1.702f,
                            .swiglu_limit = 7,
                            .dense_type = DT_BF16,
                            .expert_type = DT_MXFP4,
                            .sliding = {true, false, true, true, false}};
    return s;
}

static uint32_t ids[64];

static void fill_ids(uint32_t n, uint32_t vocab, uint32_t salt)
{
    for (uint32_t i = 0; i < n; i++)
        ids[i] = (i * i * 31 + i * 7 + salt) % vocab;
}

#define TOKENS 40

/* The last token's logits after TOKENS tokens in chunks of `chunk`; caller frees. */
static float *last_logits(const struct feed_options *o, uint32_t chunk)
{
    uint32_t V = o->shape->vocab;
    struct feed *f = feed_new(o);
    float *out = malloc(V * sizeof *out);
    for (uint32_t at = 0; at < TOKENS; at += chunk) {
        feed_add(f, 0, ids + at, TOKENS - at < chunk ? TOKENS - at : chunk);
        feed_step(f);
    }
    memcpy(out, feed_logits(f, 0), V * sizeof *out);
    feed_free(f);
    return out;
}

static void assert_same(const float *a, const float *b, uint32_t n, const char *what)
{
    for (uint32_t i = 0; i < n; i++)
        ck_assert_msg(memcmp(&a[i], &b[i], sizeof *a) == 0, "%s: logit %u: %.9g, was %.9g", what, i,
                      (double)b[i], (double)a[i]);
}

/* ---- shapes, types, plans */

static const enum dtype types[][2] = {{DT_F32, DT_F32},    {DT_F16, DT_F16},
                                      {DT_BF16, DT_MXFP4}, {DT_Q8_0, DT_MXFP4_GGML},
                                      {DT_BF16, DT_Q8_0},  {DT_F32, DT_MXFP4}};
static const char *const odd_plans[] = {
    "1x3:tp=3,dp=1,ep=3,mtp=1",  "1x2:tp=1,dp=2,ep=1,mtp=2",    "1x24:tp=3,dp=8,ep=3,mtp=8",
    "2x12:tp=3,dp=4,ep=3,mtp=4", "1x10:tp=1,dp=10,ep=10,mtp=1", "1x99:tp=3,dp=33,ep=99,mtp=1"};

START_TEST(odd_bits)
{
    struct model_shape s = odd_shape();
    struct made_weights w;
    s.dense_type = types[_i][0];
    s.expert_type = types[_i][1];
    if (s.dense_type == DT_Q8_0) s.head_dim = 32; /* 15 * 24 is no multiple of 32 */
    made_weights(&w, &s);
    fill_ids(TOKENS, s.vocab, 0);
    struct feed_options o = {
        .shape = &s, .weights = &w.w, .plan = "1x1", .threads = 1, .max_tokens = 64};
    float *want = last_logits(&o, 1);
    for (uint32_t i = 0; i < s.vocab; i++)
        ck_assert_msg(isfinite(want[i]), "logit %u is %g", i, (double)want[i]);
    for (size_t p = 0; p < sizeof odd_plans / sizeof *odd_plans; p++) {
        o.plan = odd_plans[p];
        o.threads = 1 + (uint32_t)p % 3;
        o.block_tokens = 1 + 3 * (uint32_t)p;
        float *got = last_logits(&o, 1 + 6 * (uint32_t)p);
        assert_same(want, got, s.vocab, o.plan);
        free(got);
    }
    free(want);
    made_weights_free(&w);
}
END_TEST

/* Enough work that the pool takes part. */
START_TEST(wide_bits)
{
    struct model_shape s = odd_shape();
    struct made_weights w;
    s.layers = 2;
    s.hidden = 640;
    s.vocab = 3000;
    made_weights(&w, &s);
    fill_ids(TOKENS, s.vocab, 0);
    struct feed_options o = {
        .shape = &s, .weights = &w.w, .plan = "1x1", .threads = 1, .max_tokens = 64};
    float *want = last_logits(&o, 1);
    o.threads = 4;
    for (uint32_t chunk = 1; chunk <= TOKENS; chunk += 13) {
        o.plan = chunk % 2 ? "1x3:tp=3,dp=1,ep=3,mtp=1" : "1x1";
        float *got = last_logits(&o, chunk);
        assert_same(want, got, s.vocab, o.plan);
        free(got);
    }
    free(want);
    made_weights_free(&w);
}
END_TEST

/* ---- windows and the cache */

/* One sliding layer: a token is seen by the `window` positions that begin with it, and by no other.
 */
START_TEST(window_ends)
{
    struct model_shape s = odd_shape();
    struct made_weights w;
    s.layers = 1;
    made_weights(&w, &s);
    struct feed_options o = {.shape = &s,
                             .weights = &w.w,
                             .plan = "1x1",
                             .threads = 1,
                             .max_tokens = 64,
                             .seqs = 2,
                             .block_tokens = 2};
    struct feed *f = feed_new(&o);
    fill_ids(TOKENS, s.vocab, 0);
    for (uint32_t pos = 0; pos < 12; pos++) {
        uint32_t other = pos == 3 ? (ids[pos] + 1) % s.vocab : ids[pos];
        feed_add(f, 0, &ids[pos], 1);
        feed_add(f, 1, &other, 1);
        feed_step(f);
        bool same = memcmp(feed_logits(f, 0), feed_logits(f, 1), s.vocab * sizeof(float)) == 0;
        ck_assert_msg(same == (pos < 3 || pos >= 3 + s.window), "position %u: %s", pos,
                      same ? "does not see token 3" : "sees token 3");
    }
    feed_free(f);
    made_weights_free(&w);
}
END_TEST

/* What was computed again after a preemption, in other chunks, is the same. */
START_TEST(again)
{
    struct model_shape s = odd_shape();
    struct made_weights w;
    made_weights(&w, &s);
    fill_ids(TOKENS, s.vocab, 5);
    struct feed_options o = {
        .shape = &s, .weights = &w.w, .plan = "1x1", .threads = 1, .max_tokens = 64};
    struct feed *f = feed_new(&o);
    float want[77];
    for (uint32_t i = 0; i < 30; i++) {
        feed_add(f, 0, ids + i, 1);
        feed_step(f);
    }
    memcpy(want, feed_logits(f, 0), sizeof want);
    feed_restart(f, 0);
    feed_add(f, 0, ids, 29);
    feed_step(f);
    feed_add(f, 0, ids + 29, 1);
    feed_step(f);
    assert_same(want, feed_logits(f, 0), s.vocab, "after a restart");
    feed_free(f);
    made_weights_free(&w);
}
END_TEST

START_TEST(cache_cells)
{
    struct model_shape s = odd_shape();
    struct kvstore_options o = {
        .shape = &s, .block_tokens = 3, .full_blocks = 4, .slide_blocks = 6};
    struct kvstore *kv = kvstore_new(&o, NULL);
    size_t n = (size_t)o.block_tokens * s.head_dim;
    ck_assert_uint_eq(kvstore_blocks(kv, false), 4);
    ck_assert_uint_eq(kvstore_blocks(kv, true), 6);
    for (int check = 0; check < 2; check++)
        for (uint32_t l = 0; l < s.layers; l++)
            for (uint32_t h = 0; h < s.kv_heads; h++)
                for (uint32_t b = 0; b < kvstore_blocks(kv, s.sliding[l]); b++) {
                    float mark = (float)((l * 3 + h) * 6 + b + 1);
                    float *k = kvstore_k(kv, l, h, b), *v = kvstore_v(kv, l, h, b);
                    for (size_t i = 0; i < n; i++) {
                        if (check) ck_assert(k[i] == mark && v[i] == -mark);
                        k[i] = mark;
                        v[i] = -mark;
                    }
                }
    kvstore_free(kv);
    kvstore_free(NULL);
    o.block_tokens = 0;
    struct error e = {0};
    ck_assert_ptr_null(kvstore_new(&o, &e));
    ck_assert_int_eq(e.code, ERR_INVAL);
}
END_TEST

/* ---- RoPE: gpt-oss spec 2.4 */

static const double inv_64[32] = {
    1.000000000e+00, 6.890443059e-01, 4.747820555e-01, 3.271458719e-01, 2.254180002e-01,
    1.553229895e-01, 1.070244215e-01, 7.374456821e-02, 5.081327482e-02, 3.170569618e-02,
    1.933500113e-02, 1.159204926e-02, 6.794959490e-03, 3.860359317e-03, 2.093792379e-03,
    1.052602101e-03, 4.564839192e-04, 1.293187012e-04, 3.830881237e-05, 2.639646903e-05,
    1.818833668e-05, 1.253256982e-05, 8.635495875e-06, 5.950239261e-06, 4.099978482e-06,
    2.825066827e-06, 1.946596211e-06, 1.341291035e-06, 9.242089502e-07, 6.368209146e-07,
    4.387978251e-07, 3.023511428e-07};
static const double rounded_64[9] = {3.162075228e-02, 1.945096754e-02, 1.179219110e-02,
                                     7.015713911e-03, 4.069554715e-03, 2.277271936e-03,
                                     1.206130969e-03, 5.809475019e-04, 2.279477958e-04};

static void check_inv(const float *inv, uint32_t i, double want)
{
    ck_assert_msg(fabs((double)inv[i] - want) <= 1e-7 * want, "inv[%u] is %.9g, expected %.9g", i,
                  (double)inv[i], want);
}

START_TEST(rope_frequencies)
{
    struct model_shape s = odd_shape();
    float inv[32];
    s.head_dim = 64;
    ck_assert(fabs((double)exec_rope_table(&s, inv) - 1.3465735902799727) < 1e-7);
    for (uint32_t i = 0; i < 32; i++)
        check_inv(inv, i, inv_64[i]);
    s.rope_truncate = true;
    exec_rope_table(&s, inv);
    for (uint32_t i = 0; i < 32; i++)
        check_inv(inv, i, i >= 9 && i <= 17 ? rounded_64[i - 9] : inv_64[i]);
    s.rope_factor = 1; /* plain RoPE */
    ck_assert(exec_rope_table(&s, inv) == 1);
    for (uint32_t i = 0; i < 32; i++)
        check_inv(inv, i, pow(150000, -(double)i / 32));
}
END_TEST

START_TEST(rope_angles)
{
    static const struct {
        uint32_t pos, i;
        double c, s;
    } want[] = {
        {1, 0, 0.7275568, 1.1331026},      {1, 8, 1.3448355, 0.0683944},
        {1, 12, 1.3465425, 0.0091498},     {1, 17, 1.3465736, 0.0001741},
        {1000, 0, 0.7572848, 1.1134542},   {1000, 8, 1.1495380, 0.7013008},
        {1000, 12, 1.1740466, 0.6594506},  {1000, 17, 1.3353297, 0.1736522},
        {4096, 0, 1.0826325, -0.8007292},  {4096, 8, 0.9515423, 0.9527999},
        {4096, 12, -1.2170616, 0.5762132}, {4096, 31, 1.3465726, 0.0016676},
    };
    struct model_shape s = odd_shape();
    struct machine m = {.shape = &s};
    float inv[32], c[32], sn[32];
    s.head_dim = 64;
    m.rope_inv = inv;
    m.rope_cos = c;
    m.rope_sin = sn;
    m.rope_scale = exec_rope_table(&s, inv);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        struct batch_row row = {.pos = want[i].pos};
        struct batch b = {.rows = &row, .n_rows = 1};
        exec_rope_rows(&m, &b);
        /* f32 angles: at 4096 they are good to 2.5e-4 of a radian at the worst */
        double most = want[i].pos > 1 ? 3e-4 : 2e-7;
        ck_assert_msg(fabs((double)c[want[i].i] - want[i].c) <= most &&
                          fabs((double)sn[want[i].i] - want[i].s) <= most,
                      "position %u pair %u: (%.7f, %.7f), expected (%.7f, %.7f)", want[i].pos,
                      want[i].i, (double)c[want[i].i], (double)sn[want[i].i], want[i].c, want[i].s);
    }
}
END_TEST

/* ---- refusals */

START_TEST(new_refuses)
{
    static const char *const rules[] = {
        "plan: tp 2 x dp 1 is not the 1 chips of a replica",
        "plan: 3 KV heads cannot be split over tp 2",
        "isa: \"mmx\" is not one of auto, portable, avx2, avx512",
        "kv: block_tokens is 0, must be 1 to 65536",
        "machine: max_rows 0 (1 to 1048576), max_logit_rows 1 (at most)",
        "machine: max_rows 4 (1 to 1048576), max_logit_rows 5 (at most)",
        "machine: weights of 4 layers, the shape has 5",
        "machine: router is F32 [7][96], the shape makes it [8][96]",
        "machine: down is MXFP4 [96][320], the shape makes it [96][352]",
        "machine: head is BF16 [78][96], the shape makes it [77][96]",
        "hidden (97) and intermediate (352) must be multiples of 32",
    };
    struct model_shape s = odd_shape();
    struct made_weights w;
    struct error e = {0};
    made_weights(&w, &s);
    struct machine_options o = {.shape = &s,
                                .weights = &w.w,
                                .plan = {1, 1, 1, 1, 1, 1},
                                .block_tokens = 16,
                                .full_blocks = 1,
                                .slide_blocks = 1,
                                .max_rows = 4,
                                .max_logit_rows = 1,
                                .threads = 1,
                                .isa = "auto"};
    struct machine *m = machine_new(&o, &e);
    ck_assert_msg(m != NULL, "%s", e.text);
    machine_free(m);
    if (_i == 0) o.plan.attn_tp = 2;
    if (_i == 1) o.plan = (struct plan){1, 2, 2, 1, 2, 1};
    if (_i == 2) o.isa = "mmx";
    if (_i == 3) o.block_tokens = 0;
    if (_i == 4) o.max_rows = 0;
    if (_i == 5) o.max_logit_rows = 5;
    if (_i == 6) w.w.n_layers = 4;
    if (_i == 7) s.experts = 8;
    if (_i == 8) w.layers[2].down.first.cols = 320;
    if (_i == 9) w.w.head.rows = 78;
    if (_i == 10) s.hidden = 97;
    ck_assert_ptr_null(machine_new(&o, &e));
    ck_assert_str_eq(e.text, rules[_i]);
    made_weights_free(&w);
}
END_TEST

/* A batch of two sequences that runs; then one thing about it is changed. */
struct two {
    struct model_shape s;
    struct made_weights w;
    struct machine *m;
    struct program p;
    struct batch_seq seqs[2];
    struct batch_row rows[5];
    struct batch b;
    uint32_t blocks[2];
};

static const struct plan alone = {1, 1, 1, 1, 1, 1};

static void lower_two(struct two *t, struct plan plan, bool fold)
{
    struct step_counts c;
    lower_count(&t->b, LOWER_ALL_REPLICAS, &plan, t->s.window, &c);
    lower_step(&t->s, &plan, &c, &(struct lower_options){.fold = fold}, &t->p);
}

static void two_new(struct two *t)
{
    struct error e = {0};
    *t = (struct two){.s = odd_shape(), .blocks = {0, 1}};
    made_weights(&t->w, &t->s);
    t->m = machine_new(&(struct machine_options){.shape = &t->s,
                                                 .weights = &t->w.w,
                                                 .plan = {1, 1, 1, 1, 1, 1},
                                                 .block_tokens = 4,
                                                 .full_blocks = 2,
                                                 .slide_blocks = 2,
                                                 .max_rows = 5,
                                                 .max_logit_rows = 1,
                                                 .threads = 1,
                                                 .isa = "auto"},
                       &e);
    ck_assert_msg(t->m != NULL, "%s", e.text);
    t->seqs[0] = (struct batch_seq){.rows = 3,
                                    .wants_logits = true,
                                    .full_blocks = &t->blocks[0],
                                    .slide_blocks = &t->blocks[0]};
    t->seqs[1] = (struct batch_seq){
        .first_row = 3, .rows = 2, .full_blocks = &t->blocks[1], .slide_blocks = &t->blocks[1]};
    for (uint32_t i = 0; i < 5; i++)
        t->rows[i] = (struct batch_row){i, i < 3 ? i : i - 3, i >= 3};
    t->b = (struct batch){t->seqs, t->rows, 2, 5};
    lower_two(t, alone, false);
    ck_assert_msg(!machine_run(t->m, &t->p, &t->b, &e), "%s", e.text);
    ck_assert_ptr_nonnull(machine_logits(t->m, 0));
    ck_assert_ptr_null(machine_logits(t->m, 1)); /* does not want any */
    ck_assert_ptr_null(machine_logits(t->m, 2));
}

START_TEST(run_refuses)
{
    static const char *const rules[] = {
        "batch: row 1: token 77 of sequence 0 at 1, expected below 77, of 0 at 1",
        "batch: row 2: token 2 of sequence 0 at 9, expected below 77, of 0 at 2",
        "batch: row 4: token 4 of sequence 0 at 1, expected below 77, of 1 at 1",
        "batch: position 0: full block id 2, there are 2",
        "batch: position 0: sliding block id 4294967295, there are 2",
        "batch: sequence 1: positions 999 + 2, the model has 1000",
        "batch: sequence 1: rows 4 + 2 of 5",
        "batch: 4 rows of 2 sequences, the program has 5 of 2, most 5",
        "batch: more than 1 rows want logits",
        "program: folded, it can only be priced",
        "program: made for another model or plan",
        "batch: sequence 1: rows 3 + 0 of 5",
        "batch: 5 rows, 4 in sequences",
    };
    struct two *t = malloc(sizeof *t);
    uint32_t far = _i == 3 ? 2 : UINT32_MAX;
    struct error e = {0};
    two_new(t);
    if (_i == 0) t->rows[1].token = 77;
    if (_i == 1) t->rows[2].pos = 9;
    if (_i == 2) t->rows[4].seq = 0;
    if (_i == 3) t->seqs[1].full_blocks = &far;
    if (_i == 4) t->seqs[1].slide_blocks = &far;
    if (_i == 5) t->seqs[1].start = 999;
    if (_i == 6) t->seqs[1].first_row = 4;
    if (_i == 7) t->b.n_rows = 4;
    if (_i == 8) t->seqs[1].wants_logits = true;
    if (_i == 9) lower_two(t, alone, true);
    if (_i == 10) lower_two(t, (struct plan){1, 2, 1, 2, 2, 1}, false);
    if (_i == 11) t->seqs[1].rows = 0;
    if (_i == 12) t->seqs[1].rows = 1;
    ck_assert_int_ne(machine_run(t->m, &t->p, &t->b, &e), ERR_OK);
    ck_assert_str_eq(e.text, rules[_i]);
    machine_free(t->m);
    made_weights_free(&t->w);
    free(t);
}
END_TEST

START_TEST(nothing_to_run)
{
    struct two *t = malloc(sizeof *t);
    struct error e = {0};
    two_new(t);
    t->b.n_rows = t->b.n_seqs = 0;
    lower_two(t, alone, false);
    ck_assert_msg(!machine_run(t->m, &t->p, &t->b, &e), "%s", e.text);
    ck_assert_ptr_null(machine_logits(t->m, 0));
    machine_free(t->m);
    made_weights_free(&t->w);
    free(t);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("machine");
    TCase *t = tcase_create("machine");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, odd_bits, 0, sizeof types / sizeof *types);
    tcase_add_test(t, wide_bits);
    tcase_add_test(t, window_ends);
    tcase_add_test(t, again);
    tcase_add_test(t, cache_cells);
    tcase_add_test(t, rope_frequencies);
    tcase_add_test(t, rope_angles);
    tcase_add_loop_test(t, new_refuses, 0, 11);
    tcase_add_loop_test(t, run_refuses, 0, 13);
    tcase_add_test(t, nothing_to_run);
    suite_add_tcase(s, t);
    return tap_run(s);
}
