/* Logits: against the float64 oracle of the generated models, and the same bits under every plan,
 * chunk size, company and number of threads. */
#include "device/kernels.h"
#include "engine/model.h"
#include "tests/unit/feed.h"
#include "tests/unit/tap.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MODELS "tests/models/"
#define MOST   256 /* tokens of an oracle */

/* A file of the model folder, whole. */
static void *slurp(const char *model, const char *file, size_t *bytes)
{
    char path[256];
    snprintf(path, sizeof path, MODELS "%s/%s", model, file);
    FILE *f = fopen(path, "rb");
    ck_assert_msg(f != NULL, "%s cannot be opened", path);
    ck_assert(fseek(f, 0, SEEK_END) == 0);
    long n = ftell(f);
    rewind(f);
    void *p = malloc((size_t)n);
    ck_assert(p && fread(p, 1, (size_t)n, f) == (size_t)n);
    fclose(f);
    *bytes = (size_t)n;
    return p;
}

static struct model *open_model(const char *model, const char *file)
{
    char path[256];
    struct error e = {0};
    snprintf(path, sizeof path, MODELS "%s/%s", model, file);
    struct model *m = model_open(path, &e);
    ck_assert_msg(m != NULL, "%s: %s", path, e.text);
    return m;
}

static uint32_t *oracle_ids(const char *model, uint32_t *n)
{
    size_t bytes;
    uint32_t *ids = slurp(model, "ids.u32", &bytes);
    *n = (uint32_t)(bytes / sizeof *ids);
    return ids;
}

/* How a prompt is fed. */
struct way {
    const char *plan, *isa;
    uint32_t chunk, threads, company, block_tokens;
};

/* Logits [n][V]; rows inside a chunk, which have none, stay 0. The company are other sequences,
 * with other tokens, that take 1, 2, 3 ... rows a step. */
static float *run(const struct model *m, const uint32_t *ids, uint32_t n, const struct way *w)
{
    uint32_t V = model_shape(m)->vocab, other[8];
    float *out = calloc((size_t)n * V, sizeof *out);
    ck_assert(out != NULL);
    struct feed *f = feed_new(&(struct feed_options){.shape = model_shape(m),
                                                     .weights = model_weights(m),
                                                     .plan = w->plan,
                                                     .isa = w->isa,
                                                     .threads = w->threads,
                                                     .block_tokens = w->block_tokens,
                                                     .max_tokens = 8 * MOST,
                                                     .seqs = 1 + w->company,
                                                     .max_rows = w->chunk + 8 * w->company});
    for (uint32_t at = 0; at < n; at += w->chunk) {
        uint32_t rows = n - at < w->chunk ? n - at : w->chunk, mine = w->company / 2;
        for (uint32_t s = 0; s <= w->company; s++) {
            if (s == mine) {
                feed_add(f, s, ids + at, rows);
                continue;
            }
            for (uint32_t i = 0; i < 8; i++)
                other[i] = (7 * at + 31 * s + i) % V;
            feed_add(f, s, other, 1 + s % 8);
        }
        feed_step(f);
        memcpy(out + (size_t)(at + rows - 1) * V, feed_logits(f, mine), V * sizeof *out);
    }
    feed_free(f);
    return out;
}

/* gpt-oss spec 6.2: at most 1e-4 of the largest logit, and the same argmax. */
static void compare(const char *what, const float *got, const double *want, uint32_t n, uint32_t V)
{
    double worst = 0;
    for (uint32_t t = 0; t < n; t++, got += V, want += V) {
        double most = 0, delta = 0;
        uint32_t best_got = 0, best_want = 0;
        for (uint32_t i = 0; i < V; i++) {
            most = fmax(most, fabs(want[i]));
            delta = fmax(delta, fabs((double)got[i] - want[i]));
            if (got[i] > got[best_got]) best_got = i;
            if (want[i] > want[best_want]) best_want = i;
        }
        ck_assert_msg(delta <= 1e-4 * most, "%s: token %u: off by %g, largest logit %g", what, t,
                      delta, most);
        ck_assert_msg(best_got == best_want, "%s: token %u: argmax %u, oracle %u", what, t,
                      best_got, best_want);
        worst = fmax(worst, delta / most);
    }
    printf("# %s: worst relative deviation %.2g\n", what, worst);
}

static void against_oracle(const char *model, const char *file, const char *logits)
{
    static const char *const isas[] = {"portable", "avx2", "avx512"};
    size_t bytes;
    uint32_t n;
    struct model *m = open_model(model, file);
    uint32_t *ids = oracle_ids(model, &n);
    double *want = slurp(model, logits, &bytes);
    ck_assert_uint_eq(bytes, (size_t)n * model_shape(m)->vocab * sizeof *want);
    for (int i = 0; i < 3; i++) {
        struct way way = {.plan = "1x1", .isa = isas[i], .chunk = 1, .threads = 1};
        if (!kernels_get(isas[i], NULL)) continue;
        char what[128];
        snprintf(what, sizeof what, "%s/%s %s", model, file, isas[i]);
        float *got = run(m, ids, n, &way);
        compare(what, got, want, n, model_shape(m)->vocab);
        free(got);
    }
    free(want);
    free(ids);
    model_free(m);
}

static const struct {
    const char *model, *file, *logits;
} oracles[] = {
    {"tiny-0", "hf", "logits.f64"},
    {"tiny-0", "f32.gguf", "logits.f64"},
    {"tiny-0", "bf16.gguf", "logits.f64"},
    {"tiny-0", "f16.gguf", "logits.f64"},
    {"tiny-0", "public.gguf", "logits-public.f64"},
    {"neutral-0", "f32.gguf", "logits.f64"},
    {"tiny-1", "hf", "logits.f64"},
    {"tiny-1", "f32.gguf", "logits.f64"},
    {"tiny-1", "public.gguf", "logits-public.f64"},
    {"tiny-2", "hf", "logits.f64"},
    {"tiny-2", "f32.gguf", "logits.f64"},
    {"tiny-2", "public.gguf", "logits-public.f64"},
    {"tiny8kv-0", "hf", "logits.f64"},
    {"tiny8kv-0", "f32.gguf", "logits.f64"},
    {"tiny8kv-0", "public.gguf", "logits-public.f64"},
    {"tiny128e-0", "hf", "logits.f64"},
    {"tiny128e-0", "bf16.gguf", "logits.f64"},
    {"tiny128e-0", "public.gguf", "logits-public.f64"},
};

START_TEST(oracle)
{
    against_oracle(oracles[_i].model, oracles[_i].file, oracles[_i].logits);
}
END_TEST

/* Rows of two runs, where both have logits, must be the same bits. */
static void same_bits(const struct model *m, const float *one, const struct way *a,
                      const uint32_t *ids, uint32_t n)
{
    uint32_t V = model_shape(m)->vocab;
    float *two = run(m, ids, n, a);
    for (uint32_t t = 0; t < n; t++) {
        if (t + 1 < n && (t + 1) % a->chunk) continue;
        const float *p = one + (size_t)t * V, *q = two + (size_t)t * V;
        if (memcmp(p, q, V * sizeof *p) == 0) continue;
        for (uint32_t i = 0; i < V; i++)
            ck_assert_msg(memcmp(p + i, q + i, sizeof *p) == 0,
                          "plan %s chunk %u threads %u company %u block %u: token %u logit %u: "
                          "%.9g, was %.9g",
                          a->plan, a->chunk, a->threads, a->company, a->block_tokens, t, i,
                          (double)q[i], (double)p[i]);
    }
    free(two);
}

static const struct {
    const char *model, *file;
    const char *plans[12];
} invariant[] = {
    {"tiny-0",
     "hf",
     {"1x1", "1x2", "2x2", "1x8", "1x2:tp=1,dp=2,ep=2,mtp=1", "1x4:tp=2,dp=2,ep=4,mtp=1", "72x2",
      "1x2:tp=2,dp=1,ep=1,mtp=2", "18x8", "1x144", NULL}},
    {"tiny8kv-0",
     "public.gguf",
     {"1x1", "1x8", "2x4", "1x16:tp=8,dp=2,ep=16,mtp=1", "1x2:tp=1,dp=2,ep=1,mtp=2", "9x16", NULL}},
    {"tiny128e-0",
     "bf16.gguf",
     {"1x1", "1x8:tp=8,dp=1,ep=1,mtp=8", "1x16:tp=8,dp=2,ep=8,mtp=2", "1x144",
      "1x4:tp=4,dp=1,ep=1,mtp=4", NULL}},
};

START_TEST(plans_and_company)
{
    static const uint32_t chunks[] = {1, 7, 512}, companies[] = {0, 3, 20};
    uint32_t n;
    const char *isa = _i % 2 ? "portable" : "auto";
    struct model *m = open_model(invariant[_i / 2].model, invariant[_i / 2].file);
    uint32_t *ids = oracle_ids(invariant[_i / 2].model, &n);
    n = n < 45 ? n : 45;
    struct way alone = {.plan = "1x1", .isa = isa, .chunk = 1, .threads = 1};
    float *want = run(m, ids, n, &alone);
    uint32_t turn = 0;
    for (int p = 0; invariant[_i / 2].plans[p]; p++)
        for (int c = 0; c < 3; c++, turn++) {
            if (_i % 2 && turn % 3 != (uint32_t)p % 3) continue; /* the slow table: a third of it */
            struct way w = {.plan = invariant[_i / 2].plans[p],
                            .isa = isa,
                            .chunk = chunks[c],
                            .threads = 1 + turn % 3,
                            .company = companies[(turn / 3 + turn) % 3],
                            .block_tokens = turn % 2 ? 16 : 4};
            same_bits(m, want, &w, ids, n);
        }
    free(want);
    free(ids);
    model_free(m);
}
END_TEST

int main(void)
{
    if (!tap_has(MODELS "tiny-0.stamp")) return EXIT_SUCCESS;
    Suite *s = suite_create("logits");
    TCase *t = tcase_create("oracle");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, oracle, 0, sizeof oracles / sizeof *oracles);
    suite_add_tcase(s, t);
    t = tcase_create("bits");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, plans_and_company, 0, 2 * sizeof invariant / sizeof *invariant);
    suite_add_tcase(s, t);
    return tap_run(s);
}
