/* Kernels: every table that this machine can run against double, over random shapes. Buffers have
 * their exact size, so a sanitizer sees a read beyond; weights start at odd addresses. */
#include "device/kernels.h"
#include "tests/unit/tap.h"

#include <math.h>
#include <string.h>

static const char *const isas[] = {"portable", "avx2", "avx512"};

/* The i-th table, or NULL: this host lacks it (test_get proves that "auto" finds one). */
static const struct kernels *table(int i)
{
    return kernels_get(isas[i], NULL);
}

/* ---- random input, the same in every run */

static uint32_t seed;

static uint32_t rnd(uint32_t below)
{
    seed = seed * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)(seed >> 8) * below >> 24);
}

static float rnd_float(void)
{
    return (float)rnd(2001) / 1000.0f - 1;
}

static void *room(size_t bytes)
{
    void *p = malloc(bytes ? bytes : 1);
    ck_assert(p != NULL);
    return p;
}

static float *rnd_floats(size_t n)
{
    float *p = room(n * sizeof *p);
    for (size_t i = 0; i < n; i++)
        p[i] = rnd_float();
    return p;
}

/* ---- weights and their values, decoded here by the letter of the format */

struct matrix {
    struct weight w;
    uint8_t *data, *scales; /* owned; w points one byte inside */
};

static double half_value(uint16_t h)
{
    int exp = h >> 10 & 31, man = h & 1023;
    double v = exp ? ldexp(1 + man / 1024.0, exp - 15) : ldexp(man / 1024.0, -14);
    return h & 0x8000 ? -v : v;
}

static double fp4_value(uint8_t code)
{
    static const double v[] = {0, .5, 1, 1.5, 2, 3, 4, 6};
    return code & 8 ? -v[code & 7] : v[code & 7];
}

static double value(const struct weight *w, uint32_t r, uint32_t c)
{
    const uint8_t *row = w->data + r * w->row_step_bytes, *block;
    uint32_t i = c % 32;
    float f;
    uint16_t h;
    switch (w->type) {
    case DT_F32:
        memcpy(&f, row + 4 * c, 4);
        return (double)f;
    case DT_F16:
        memcpy(&h, row + 2 * c, 2);
        return half_value(h);
    case DT_BF16:
        memcpy(&h, row + 2 * c, 2);
        return (double)bf16_to_f32(h);
    case DT_Q8_0:
        block = row + c / 32 * 34;
        memcpy(&h, block, 2);
        return half_value(h) * (int8_t)block[2 + i];
    case DT_MXFP4:
        block = row + c / 32 * 16;
        return ldexp(fp4_value(i % 2 ? block[i / 2] >> 4 : block[i / 2] & 15),
                     w->scales[r * w->scale_step_bytes + c / 32] - 127);
    case DT_MXFP4_GGML:
        block = row + c / 32 * 17;
        return ldexp(fp4_value(i < 16 ? block[1 + i] & 15 : block[1 + i - 16] >> 4),
                     block[0] - 127);
    }
    return 0;
}

static void fill_row(enum dtype t, uint8_t *row, uint8_t *scales, uint32_t cols)
{
    for (uint32_t c = 0; c < cols && !dtype_has_blocks(t); c++) {
        float f = rnd_float();
        uint32_t u;
        memcpy(&u, &f, 4);
        uint16_t h = t == DT_BF16 ? (uint16_t)(u >> 16)
                                  : (uint16_t)(rnd(2) << 15 | (10 + rnd(6)) << 10 | rnd(1024));
        if (t == DT_F32)
            memcpy(row + 4 * c, &f, 4);
        else
            memcpy(row + 2 * c, &h, 2);
    }
    for (uint32_t b = 0; b < cols / 32 && dtype_has_blocks(t); b++) {
        uint32_t bytes = t == DT_Q8_0 ? 34 : t == DT_MXFP4 ? 16 : 17;
        uint16_t d = (uint16_t)((4 + rnd(4)) << 10 | rnd(1024));
        for (uint32_t i = 0; i < bytes; i++)
            row[b * bytes + i] = (uint8_t)rnd(256);
        if (t == DT_Q8_0) memcpy(row + b * bytes, &d, 2);
        if (t == DT_MXFP4_GGML) row[b * bytes] = (uint8_t)(120 + rnd(8));
        if (t == DT_MXFP4) scales[b] = (uint8_t)(120 + rnd(8));
    }
}

/* `gap` rows of something else lie between two rows, as gate and up do in the HF files. */
static struct matrix matrix_new(enum dtype t, uint32_t rows, uint32_t cols, uint32_t gap)
{
    size_t bytes = dtype_row_bytes(t, cols), scale_bytes = dtype_scale_bytes(t, cols);
    struct matrix m = {.w = {.type = t,
                             .rows = rows,
                             .cols = cols,
                             .row_step_bytes = bytes * (1 + gap),
                             .scale_step_bytes = scale_bytes * (1 + gap)}};
    size_t last = (size_t)(rows - 1) * (1 + gap) + 1;
    m.data = room(1 + last * bytes);
    m.scales = room(1 + last * scale_bytes);
    m.w.data = m.data + 1;
    m.w.scales = t == DT_MXFP4 ? m.scales + 1 : NULL;
    memset(m.data, 0xff, 1 + last * bytes);
    memset(m.scales, 0xff, 1 + last * scale_bytes);
    for (uint32_t r = 0; r < rows; r++)
        fill_row(t, m.data + 1 + r * m.w.row_step_bytes, m.scales + 1 + r * m.w.scale_step_bytes,
                 cols);
    return m;
}

static void matrix_free(struct matrix *m)
{
    free(m->data);
    free(m->scales);
}

/* ---- linear */

static const enum dtype types[] = {DT_F32, DT_F16, DT_BF16, DT_Q8_0, DT_MXFP4, DT_MXFP4_GGML};

/* One random call with all that it needs; y is [parts or 1][n][outs]. */
struct call {
    struct matrix m;
    struct linear_args a;
    uint32_t border[6], pick[80];
    float *x, *bias, *y;
    size_t y_floats;
};

static void call_new(struct call *c, enum dtype t)
{
    bool blocks = dtype_has_blocks(t);
    uint32_t unit = blocks ? 32 : 1 + rnd(20), cols = unit * (1 + rnd(blocks ? 40 : 70));
    uint32_t rows = 1 + rnd(40), x_rows = 1 + rnd(80), parts = 1 + rnd(5), n = 1 + rnd(80);
    c->m = matrix_new(t, rows, cols, rnd(2));
    struct linear_args *a = &c->a;
    *a = (struct linear_args){.w = &c->m.w, .n = n, .border = c->border, .parts = parts};
    a->out0 = rnd(rows);
    a->out1 = a->out0 + 1 + rnd(rows - a->out0);
    /* Ascending borders; those of the o projection may lie inside a block. */
    uint32_t step = blocks && rnd(2) ? 8 : unit;
    for (uint32_t i = 0; i <= parts; i++)
        c->border[i] = rnd(cols / step + 1) * step;
    for (uint32_t i = 0; i <= parts; i++)
        for (uint32_t j = 0; j < i; j++)
            if (c->border[j] > c->border[i]) {
                uint32_t b = c->border[i];
                c->border[i] = c->border[j];
                c->border[j] = b;
            }
    a->col0 = c->border[0];
    a->ldx = c->border[parts] - a->col0 + rnd(3);
    for (uint32_t r = 0; r < n; r++)
        c->pick[r] = rnd(x_rows);
    if (rnd(2) || n > x_rows) a->pick = c->pick;
    c->x = rnd_floats((x_rows - 1) * a->ldx + (c->border[parts] - a->col0));
    a->x = c->x;
    c->bias = rnd_floats(rows);
    a->add_parts = rnd(2);
    if (rnd(2)) a->bias = c->bias;
    a->ldy = a->out1 - a->out0 + rnd(3);
    a->part_step = n * a->ldy;
    c->y_floats = (a->add_parts ? 1 : parts) * a->part_step;
    c->y = room(c->y_floats * sizeof *c->y);
    memset(c->y, 0xff, c->y_floats * sizeof *c->y);
    a->y = c->y;
}

static void call_free(struct call *c)
{
    matrix_free(&c->m);
    free(c->x);
    free(c->bias);
    free(c->y);
}

static void check_output(const struct call *c, const char *isa, uint32_t r, uint32_t o)
{
    const struct linear_args *a = &c->a;
    const float *x = a->x + (a->pick ? a->pick[r] : r) * a->ldx;
    double sum = 0, size = 0;
    for (uint32_t p = 0; p < a->parts; p++) {
        for (uint32_t k = a->border[p]; k < a->border[p + 1]; k++) {
            double v = value(a->w, o, k) * (double)x[k - a->col0];
            sum += v;
            size += fabs(v);
        }
        if (p + 1 == a->parts && a->add_parts && a->bias) {
            sum += (double)a->bias[o];
            size += fabs((double)a->bias[o]);
        }
        if (a->add_parts && p + 1 < a->parts) continue;
        float got = a->y[(a->add_parts ? 0 : p * a->part_step) + r * a->ldy + (o - a->out0)];
        ck_assert_msg(fabs((double)got - sum) <= 1e-5 * size + 1e-30,
                      "%s %s: row %u output %u part %u: %.9g, double says %.9g (terms %.3g)", isa,
                      dtype_name(a->w->type), r, o, p, (double)got, sum, size);
        if (!a->add_parts) sum = size = 0;
    }
}

START_TEST(linear_against_double)
{
    const struct kernels *k = table(_i / 6);
    if (!k) return;
    seed = 1000u + (uint32_t)_i;
    for (int turn = 0; turn < 40; turn++) {
        struct call c;
        call_new(&c, types[_i % 6]);
        k->linear(&c.a);
        for (uint32_t r = 0; r < c.a.n; r++)
            for (uint32_t o = c.a.out0; o < c.a.out1; o++)
                check_output(&c, k->name, r, o);
        call_free(&c);
    }
}
END_TEST

/* Each output computed alone has the same bits as in the whole. */
START_TEST(linear_alone)
{
    const struct kernels *k = table(_i / 6);
    if (!k) return;
    seed = 2000u + (uint32_t)_i;
    for (int turn = 0; turn < 10; turn++) {
        struct call c;
        call_new(&c, types[_i % 6]);
        k->linear(&c.a);
        for (uint32_t r = 0; r < c.a.n; r++)
            for (uint32_t o = c.a.out0; o < c.a.out1; o++) {
                float y[5];
                struct linear_args a = c.a;
                a.out0 = o;
                a.out1 = o + 1;
                a.n = 1;
                a.x = c.a.x + (c.a.pick ? c.a.pick[r] : r) * c.a.ldx;
                a.pick = NULL;
                a.y = y;
                a.ldy = a.part_step = 1;
                k->linear(&a);
                for (uint32_t p = 0; p < (a.add_parts ? 1 : a.parts); p++) {
                    const float *in = &c.y[p * c.a.part_step + r * c.a.ldy + (o - c.a.out0)];
                    ck_assert_msg(memcmp(in, &y[p], sizeof *in) == 0,
                                  "%s %s: row %u output %u part %u: %.9g together, %.9g alone",
                                  k->name, dtype_name(a.w->type), r, o, p, (double)*in,
                                  (double)y[p]);
                }
            }
        call_free(&c);
    }
}
END_TEST

/* Parts added inside are the parts added outside, in order, then the bias. */
START_TEST(linear_parts)
{
    const struct kernels *k = table(_i / 6);
    if (!k) return;
    seed = 3000u + (uint32_t)_i;
    for (int turn = 0; turn < 20; turn++) {
        struct call c;
        call_new(&c, types[_i % 6]);
        struct linear_args a = c.a;
        float *parts = room(a.parts * a.part_step * sizeof *parts);
        a.y = parts;
        a.add_parts = false;
        c.a.add_parts = true;
        c.a.bias = c.bias;
        k->linear(&c.a);
        k->linear(&a);
        for (uint32_t r = 0; r < a.n; r++)
            for (uint32_t o = a.out0; o < a.out1; o++) {
                size_t at = r * a.ldy + (o - a.out0);
                float sum = parts[at];
                for (uint32_t p = 1; p < a.parts; p++)
                    sum = sum + parts[p * a.part_step + at];
                sum += c.bias[o];
                ck_assert_msg(memcmp(&sum, &c.y[at], sizeof sum) == 0,
                              "%s: %.9g outside, %.9g inside", k->name, (double)sum,
                              (double)c.y[at]);
            }
        free(parts);
        call_free(&c);
    }
}
END_TEST

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

/* ---- formats */

START_TEST(halves)
{
    for (uint32_t h = 0; h < 1 << 16; h++) {
        float f = f16_to_f32((uint16_t)h);
        if ((h >> 10 & 31) == 31)
            ck_assert((h & 1023) ? isnan(f) : isinf(f) && (f < 0) == (h >> 15));
        else
            ck_assert_msg((double)f == half_value((uint16_t)h) && !signbit(f) == !(h >> 15),
                          "0x%04x: %.9g", h, (double)f);
    }
    for (uint32_t e = 0; e < 255; e++)
        ck_assert((double)e8m0_to_f32((uint8_t)e) == ldexp(1, (int)e - 127));
    ck_assert(isnan(e8m0_to_f32(255)));
}
END_TEST

/* The examples of spec 3.4, second: the same numbers in both layouts. */
START_TEST(mxfp4_examples)
{
    static const uint8_t hf[16] = {0x07, 0x1f, 0x32, 0x54, 0x86, 0xa9, 0xcb, 0xed,
                                   0x11, 0x11, 0x22, 0x22, 0x00, 0x00, 0x67, 0x45};
    static const uint8_t scale[1] = {125};
    static const uint8_t ggml[17] = {0x7d, 0x17, 0x10, 0x1f, 0x11, 0x22, 0x23, 0x24, 0x25,
                                     0x06, 0x08, 0x09, 0x0a, 0x7b, 0x6c, 0x5d, 0x4e};
    static const float want[32] = {1.5f,  0,     -1.5f,  .125f, .25f,   .375f, .5f,   .75f,
                                   1,     -0.f,  -.125f, -.25f, -.375f, -.5f,  -.75f, -1,
                                   .125f, .125f, .125f,  .125f, .25f,   .25f,  .25f,  .25f,
                                   0,     0,     0,      0,     1.5f,   1,     .75f,  .5f};
    struct weight w = {.type = DT_MXFP4, .data = hf, .scales = scale, .rows = 1, .cols = 32};
    struct weight g = {.type = DT_MXFP4_GGML, .data = ggml, .rows = 1, .cols = 32};
    float a[32], b[32];
    weight_row(&w, 0, a);
    weight_row(&g, 0, b);
    for (int i = 0; i < 32; i++) {
        ck_assert_msg(a[i] == want[i], "HF element %d: %g, expected %g", i, (double)a[i],
                      (double)want[i]);
        ck_assert_msg(b[i] == want[i], "ggml element %d: %g, expected %g", i, (double)b[i],
                      (double)want[i]);
    }
}
END_TEST

/* Every table unpacks every code, scale, half and byte to the same float as the portable one. */
START_TEST(unpacking)
{
    const struct kernels *k = table(_i);
    if (!k) return;
    const uint32_t rows = 255, cols = 32; /* row r: a block with scale r */
    uint8_t *bytes = room(rows * 64), *scales = room(rows);
    for (int t = 0; t < 6; t++) {
        struct weight w = {.type = types[t],
                           .data = bytes,
                           .scales = scales,
                           .rows = rows,
                           .cols = cols,
                           .row_step_bytes = dtype_row_bytes(types[t], cols),
                           .scale_step_bytes = 1};
        if (types[t] == DT_F32) continue; /* copied */
        seed = 7000;
        for (uint32_t i = 0; i < rows * 64; i++)
            bytes[i] = (uint8_t)rnd(256);
        for (uint32_t r = 0; r < rows; r++) {
            scales[r] = (uint8_t)r;
            if (types[t] == DT_MXFP4_GGML) bytes[r * w.row_step_bytes] = (uint8_t)r;
        }
        const uint32_t border[] = {0, cols};
        float row[32], unit[32] = {0}, y;
        for (uint32_t r = 0; r < rows; r++) {
            weight_row(&w, r, row);
            for (uint32_t c = 0; c < cols; c++) {
                if (!isfinite(row[c])) continue; /* and 0 times its neighbours is not a number */
                bool finite = true;
                for (uint32_t i = 0; i < cols; i++)
                    finite = finite && isfinite(row[i]);
                if (!finite) continue;
                unit[c] = 1;
                k->linear(&(struct linear_args){.w = &w,
                                                .out0 = r,
                                                .out1 = r + 1,
                                                .x = unit,
                                                .n = 1,
                                                .border = border,
                                                .parts = 1,
                                                .y = &y,
                                                .ldy = 1});
                unit[c] = 0;
                ck_assert_msg(y == row[c], "%s %s: scale %u element %u: %.9g, portable %.9g",
                              k->name, dtype_name(types[t]), r, c, (double)y, (double)row[c]);
            }
        }
    }
    free(bytes);
    free(scales);
}
END_TEST

START_TEST(get)
{
    struct error e = {0};
    const struct kernels *best = kernels_get("auto", &e);
    ck_assert(best != NULL);
    ck_assert_ptr_eq(kernels_get(best->name, &e), best);
    ck_assert_str_eq(kernels_get("portable", &e)->name, "portable");
    ck_assert_ptr_null(kernels_get("sse9", &e));
    ck_assert_int_eq(e.code, ERR_INVAL);
    ck_assert_str_eq(e.text, "isa: \"sse9\" is not one of auto, portable, avx2, avx512");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("kernels");
    TCase *t = tcase_create("kernels");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, linear_against_double, 0, 18);
    tcase_add_loop_test(t, linear_alone, 0, 18);
    tcase_add_loop_test(t, linear_parts, 0, 18);
    tcase_add_loop_test(t, attention_against_double, 0, 3);
    tcase_add_loop_test(t, attention_sink, 0, 3);
    tcase_add_loop_test(t, norm, 0, 3);
    tcase_add_loop_test(t, rotation, 0, 3);
    tcase_add_loop_test(t, activation, 0, 3);
    tcase_add_loop_test(t, addition, 0, 3);
    tcase_add_loop_test(t, unpacking, 0, 3);
    tcase_add_test(t, router);
    tcase_add_test(t, halves);
    tcase_add_test(t, mxfp4_examples);
    tcase_add_test(t, get);
    suite_add_tcase(s, t);
    return tap_run(s);
}
