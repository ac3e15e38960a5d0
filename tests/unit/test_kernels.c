/* Kernels: linear and the number formats, every table that this machine can run against double,
 * over random shapes. Buffers have their exact size, so a sanitizer sees a read beyond; weights
 * start at odd addresses. */
#include "tests/unit/kernels_input.h"

#include <math.h>
#include <string.h>

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
    tcase_add_loop_test(t, unpacking, 0, 3);
    tcase_add_test(t, halves);
    tcase_add_test(t, mxfp4_examples);
    tcase_add_test(t, get);
    suite_add_tcase(s, t);
    return tap_run(s);
}
