/* Kernels: attention, norm, RoPE, SwiGLU, axpy, router: every table that this machine can run
 * against double and the specification's figures. */
#include "tests/unit/kernels_input.h"

#include <math.h>
#include <string.h>

/* ---- attention */

#define BLOCK 4

static void check_head(const struct attention_args *a, const char *isa, uint32_t h)
{
    uint32_t n = a->last - a->first + 1;
    double *s = room(n * sizeof *s), most = (double)a->sinks[h];
    for (uint32_t i = 0; i < n; i++) {
        uint32_t pos = a->first + i;
        s[i] = 0;
        for (uint32_t c = 0; c < a->d; c++)
            s[i] += (double)a->q[h * a->d + c] *
                    (double)a->k_blocks[pos / BLOCK][pos % BLOCK * a->d + c];
        s[i] *= (double)a->scale;
        most = fmax(most, s[i]);
    }
    double sum = exp((double)a->sinks[h] - most);
    for (uint32_t i = 0; i < n; i++)
        sum += s[i] = exp(s[i] - most);
    for (uint32_t c = 0; c < a->d; c++) {
        double out = 0;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t pos = a->first + i;
            out += s[i] / sum * (double)a->v_blocks[pos / BLOCK][pos % BLOCK * a->d + c];
        }
        ck_assert_msg(fabs((double)a->out[h * a->d + c] - out) <= 1e-5,
                      "%s: d %u g %u keys %u to %u: head %u column %u: %.9g, double says %.9g", isa,
                      a->d, a->g, a->first, a->last, h, c, (double)a->out[h * a->d + c], out);
    }
    free(s);
}

START_TEST(attention_against_double)
{
    const struct kernels *k = table(_i);
    if (!k) return;
    seed = 4000;
    for (int turn = 0; turn < 60; turn++) {
        static const uint32_t dims[] = {2, 6, 16, 32, 34, 64, 70, 80, 128};
        uint32_t d = dims[rnd(9)], g = 1 + rnd(9), last = rnd(70), first = rnd(last + 1);
        const float *kb[20], *vb[20];
        for (uint32_t b = first / BLOCK; b <= last / BLOCK; b++) {
            kb[b] = rnd_floats((size_t)BLOCK * d);
            vb[b] = rnd_floats((size_t)BLOCK * d);
        }
        float *q = rnd_floats((size_t)g * d), *sinks = rnd_floats(g);
        struct attention_args a = {.q = q,
                                   .g = g,
                                   .d = d,
                                   .k_blocks = kb,
                                   .v_blocks = vb,
                                   .block_tokens = BLOCK,
                                   .first = first,
                                   .last = last,
                                   .sinks = sinks,
                                   .scale = rnd_float(),
                                   .scores = room((size_t)g * (last - first + 1) * sizeof(float)),
                                   .out = room((size_t)g * d * sizeof(float))};
        k->attention(&a);
        for (uint32_t h = 0; h < g; h++)
            check_head(&a, k->name, h);
        for (uint32_t b = first / BLOCK; b <= last / BLOCK; b++) {
            free((void *)(uintptr_t)kb[b]);
            free((void *)(uintptr_t)vb[b]);
        }
        free(q);
        free(sinks);
        free(a.scores);
        free(a.out);
    }
}
END_TEST

/* Scores s and sink z by the spec's 2.5: with d = 2, q = (1, 0), scale 1, a key (s, .) has score s;
 * value j is the unit vector of key j, so the output is the weights. */
static void check_sink(const struct kernels *k, const float s[2], uint32_t n, float z,
                       const double want[2])
{
    float q[2] = {1, 0}, keys[4] = {s[0], 9, s[1], 9}, values[4] = {1, 0, 0, 1}, scores[2], out[2];
    const float *kb = keys, *vb = values;
    k->attention(&(struct attention_args){.q = q,
                                          .g = 1,
                                          .d = 2,
                                          .k_blocks = &kb,
                                          .v_blocks = &vb,
                                          .block_tokens = 2,
                                          .last = n - 1,
                                          .sinks = &z,
                                          .scale = 1,
                                          .scores = scores,
                                          .out = out});
    for (uint32_t i = 0; i < n; i++)
        ck_assert_msg(fabs((double)out[i] - want[i]) <= 1e-6 * want[i],
                      "%s: sink %g: weight %u %.9g, %.9g", k->name, (double)z, i, (double)out[i],
                      want[i]);
}

START_TEST(attention_sink)
{
    const struct kernels *k = table(_i);
    if (!k) return;
    check_sink(k, (float[]){1, 2}, 2, 0.5f, (double[]){0.23122390, 0.62853172});
    check_sink(k, (float[]){0, 0}, 1, 0, (double[]){0.5, 0});
    check_sink(k, (float[]){-3, 0}, 1, 5, (double[]){0.00033535013, 0});
    double e = exp(-1);
    check_sink(k, (float[]){1, 2}, 2, -1e30f, (double[]){e / (1 + e), 1 / (1 + e)});
    check_sink(k, (float[]){500, -500}, 1, 0, (double[]){1, 0}); /* exp() alone would overflow */
}
END_TEST

/* ---- the small ones */

START_TEST(norm)
{
    const struct kernels *k = table(_i);
    if (!k) return;
    const float x[] = {1, -2, 3, -4}, one[] = {1, 1, 1, 1};
    const double want[] = {0.36514813, -0.73029626, 1.09544438, -1.46059251}; /* spec 2.2 */
    float out[4];
    k->rmsnorm(x, one, 1e-5f, 4, out);
    for (int i = 0; i < 4; i++)
        ck_assert_msg(fabs((double)out[i] - want[i]) <= 2e-7 * fabs(want[i]), "%s: %.9g", k->name,
                      (double)out[i]);
    seed = 5000;
    for (uint32_t n = 1; n < 130; n += 1 + n / 20) {
        float *v = rnd_floats(n), *w = rnd_floats(n), *y = room(n * sizeof *y);
        double sum = 0;
        for (uint32_t i = 0; i < n; i++)
            sum += (double)v[i] * (double)v[i];
        k->rmsnorm(v, w, 1e-5f, n, y);
        for (uint32_t i = 0; i < n; i++) {
            double ref = (double)v[i] / sqrt(sum / n + 1e-5) * (double)w[i];
            ck_assert_msg(fabs((double)y[i] - ref) <= 1e-6 * fabs(ref), "%s: n %u: %.9g, %.9g",
                          k->name, n, (double)y[i], ref);
        }
        free(v);
        free(w);
        free(y);
    }
}
END_TEST

START_TEST(rotation)
{
    const struct kernels *k = table(_i);
    if (!k) return;
    float x[] = {1, 2, 3, 10, 20, 30}, c[] = {2, 0, -1}, s[] = {.5f, 1, 0};
    /* pairs (1, 10), (2, 20), (3, 30): halves, not neighbours */
    const float want[] = {2 - 5, -20, -3, 20 + .5f, 2, -30};
    k->rope(x, c, s, 6);
    for (int i = 0; i < 6; i++)
        ck_assert_msg(x[i] == want[i], "%s: element %d: %g, expected %g", k->name, i, (double)x[i],
                      (double)want[i]);
}
END_TEST

START_TEST(activation)
{
    const struct kernels *k = table(_i);
    if (!k) return;
    static const float in[][2] = {{1, 0},  {1, 1},       {-1, 2},    {2, -1}, {8, 0},
                                  {7, 0},  {-8, 0},      {-20, 3},   {3, 7},  {3, 9},
                                  {3, -9}, {.5f, -.25f}, {100, 100}, {-60, 2}};
    static const double want[] = {0.845795766, 1.69159153, -0.462612702,    0,
                                  6.99995313,  6.99995313, -9.76642887e-06, -1.3173641e-13,
                                  23.8554295,  23.8554295, -17.8915721,     0.262791327,
                                  55.999625,   0}; /* spec 2.8; the last overflows exp() */
    enum { N = sizeof want / sizeof *want };
    float gate[N], up[N], a[N];
    for (int i = 0; i < N; i++) {
        gate[i] = in[i][0];
        up[i] = in[i][1];
    }
    k->swiglu(gate, up, N, 1.702f, 7, a);
    for (int i = 0; i < N; i++)
        ck_assert_msg(fabs((double)a[i] - want[i]) <= 3e-6 * fabs(want[i]) + 1e-30,
                      "%s: (%g, %g): %.9g, %.9g", k->name, (double)gate[i], (double)up[i],
                      (double)a[i], want[i]);
}
END_TEST

START_TEST(addition)
{
    const struct kernels *k = table(_i);
    if (!k) return;
    seed = 6000;
    for (uint32_t n = 1; n < 70; n++) {
        float *x = rnd_floats(n), *y = rnd_floats(n), *was = room(n * sizeof *was), s = rnd_float();
        memcpy(was, y, n * sizeof *y);
        k->axpy(s, x, n, y);
        for (uint32_t i = 0; i < n; i++) {
            double ref = (double)s * (double)x[i] + (double)was[i];
            ck_assert_msg(fabs((double)y[i] - ref) <= 2e-7, "%s: %.9g, %.9g", k->name, (double)y[i],
                          ref);
        }
        memcpy(was, y, n * sizeof *y);
        k->axpy(1, x, n, y); /* a plain addition: the collectives rely on it */
        for (uint32_t i = 0; i < n; i++)
            ck_assert(y[i] == was[i] + x[i]);
        free(x);
        free(y);
        free(was);
    }
}
END_TEST

START_TEST(router)
{
    const float r[] = {0.1f, 2, -1, 1.5f, 0.7f, -0.3f, 2, 0.69f}; /* spec 2.7; 1 and 6 tie */
    const uint32_t experts[] = {1, 6, 3, 4};
    const double weights[] = {0.34733529, 0.34733529, 0.21066950, 0.09465991};
    uint32_t e[8];
    float w[8];
    route_top(r, 8, 4, e, w);
    for (int i = 0; i < 4; i++) {
        ck_assert_uint_eq(e[i], experts[i]);
        ck_assert_msg(fabs((double)w[i] - weights[i]) < 5e-8, "weight %d: %.9g", i, (double)w[i]);
    }
    route_top(r, 8, 8, e, w); /* all of them: each once */
    uint32_t seen = 0;
    for (int i = 0; i < 8; i++)
        seen |= 1u << e[i];
    ck_assert_uint_eq(seen, 0xff);
    const float odd[] = {NAN, 1, NAN, 3, -INFINITY, NAN}; /* a broken model must not run wild */
    for (uint32_t a = 1; a <= 6; a++) {
        route_top(odd, 6, a, e, w);
        for (uint32_t i = 0; i < a; i++)
            ck_assert_uint_lt(e[i], 6);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("kernels_small");
    TCase *t = tcase_create("kernels_small");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, attention_against_double, 0, 3);
    tcase_add_loop_test(t, attention_sink, 0, 3);
    tcase_add_loop_test(t, norm, 0, 3);
    tcase_add_loop_test(t, rotation, 0, 3);
    tcase_add_loop_test(t, activation, 0, 3);
    tcase_add_loop_test(t, addition, 0, 3);
    tcase_add_test(t, router);
    suite_add_tcase(s, t);
    return tap_run(s);
}
