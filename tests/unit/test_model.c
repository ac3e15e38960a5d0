/* test_model.c - whole models as scripts/make-model writes them: every format holds the same
 * numbers; what is missing, misshapen or foreign is refused by name. */
#include "base/buf.h"
#include "engine/model.h"
#include "tests/unit/tap.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MODELS "tests/models/"

/* ---- the numbers behind a weight, straight from the formats' definitions */

static float f32_at(const uint8_t *p)
{
    float v;
    memcpy(&v, p, sizeof v);
    return v;
}

static double f16_at(const uint8_t *p)
{
    int h = p[0] | p[1] << 8, exponent = h >> 10 & 31, fraction = h & 1023;
    double v = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return h & 0x8000 ? -v : v;
}

static double mx_value(int code, int scale)
{
    static const double magnitude[] = {0, .5, 1, 1.5, 2, 3, 4, 6};
    return ldexp(code & 8 ? -magnitude[code & 7] : magnitude[code & 7], scale - 127);
}

static double value(const struct weight *w, uint32_t r, uint32_t c)
{
    const uint8_t *p = w->data + r * w->row_step_bytes;
    uint32_t block = c / 32, i = c % 32;
    switch (w->type) {
    case DT_F32:
        return (double)f32_at(p + 4 * c);
    case DT_F16:
        return f16_at(p + 2 * c);
    case DT_BF16: {
        uint8_t wide[4] = {0, 0, p[2 * c], p[2 * c + 1]};
        return (double)f32_at(wide);
    }
    case DT_Q8_0:
        return f16_at(p + 34 * block) * (int8_t)p[34 * block + 2 + i];
    case DT_MXFP4:
        return mx_value(p[16 * block + i / 2] >> 4 * (i % 2) & 15,
                        w->scales[r * w->scale_step_bytes + block]);
    case DT_MXFP4_GGML:
        return mx_value(p[17 * block + 1 + i % 16] >> 4 * (i / 16) & 15, p[17 * block]);
    }
    return NAN;
}

static struct model *must_open(const char *path)
{
    struct error e = {0};
    struct model *m = model_open(path, &e);
    ck_assert_msg(m != NULL, "%s", e.text);
    return m;
}

static void same_matrix(const struct weight *a, const struct weight *b, double tolerance,
                        const char *what)
{
    ck_assert_msg(a->rows == b->rows && a->cols == b->cols, "%s: %ux%u and %ux%u", what, a->rows,
                  a->cols, b->rows, b->cols);
    for (uint32_t r = 0; r < a->rows; r++)
        for (uint32_t c = 0; c < a->cols; c++) {
            double x = value(a, r, c), y = value(b, r, c);
            ck_assert_msg(fabs(x - y) <= tolerance, "%s[%u][%u]: %.9g and %.9g", what, r, c, x, y);
        }
}

static void same_stack(const struct weight_stack *a, const struct weight_stack *b, const char *what)
{
    ck_assert_uint_eq(a->n, b->n);
    for (uint32_t i = 0; i < a->n; i++) {
        struct weight x = weight_at(a, i), y = weight_at(b, i);
        same_matrix(&x, &y, 0, what);
    }
}

static void same_vector(const float *a, const float *b, size_t n, const char *what)
{
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(a[i] == b[i], "%s[%zu]: %.9g and %.9g", what, i, (double)a[i], (double)b[i]);
}

static void same_layer(const struct model_shape *s, const struct layer_weights *a,
                       const struct layer_weights *b, double tolerance)
{
    size_t q = (size_t)s->q_heads * s->head_dim, kv = (size_t)s->kv_heads * s->head_dim;
    same_vector(a->attn_norm, b->attn_norm, s->hidden, "attn_norm");
    same_matrix(&a->q, &b->q, tolerance, "q");
    same_matrix(&a->k, &b->k, tolerance, "k");
    same_matrix(&a->v, &b->v, tolerance, "v");
    same_matrix(&a->o, &b->o, tolerance, "o");
    same_vector(a->q_bias, b->q_bias, q, "q_bias");
    same_vector(a->k_bias, b->k_bias, kv, "k_bias");
    same_vector(a->v_bias, b->v_bias, kv, "v_bias");
    same_vector(a->o_bias, b->o_bias, s->hidden, "o_bias");
    same_vector(a->sinks, b->sinks, s->q_heads, "sinks");
    same_vector(a->mlp_norm, b->mlp_norm, s->hidden, "mlp_norm");
    same_matrix(&a->router, &b->router, 1e-7, "router"); /* 1e-7: F16 rounds what is below 2^-14 */
    same_vector(a->router_bias, b->router_bias, s->experts, "router_bias");
    same_stack(&a->gate, &b->gate, "gate");
    same_stack(&a->up, &b->up, "up");
    same_stack(&a->down, &b->down, "down");
    same_vector(a->gate_bias, b->gate_bias, (size_t)s->experts * s->intermediate, "gate_bias");
    same_vector(a->up_bias, b->up_bias, (size_t)s->experts * s->intermediate, "up_bias");
    same_vector(a->down_bias, b->down_bias, (size_t)s->experts * s->hidden, "down_bias");
}

static void same_model(const char *path_a, const char *path_b, double tolerance)
{
    struct model *a = must_open(path_a), *b = must_open(path_b);
    const struct model_shape *s = model_shape(a), *t = model_shape(b);
    const struct model_weights *x = model_weights(a), *y = model_weights(b);
    ck_assert_uint_eq(s->layers, t->layers);
    ck_assert_uint_eq(s->vocab, t->vocab);
    ck_assert_uint_eq(s->window, t->window);
    ck_assert_uint_eq(s->max_positions, t->max_positions);
    ck_assert_uint_eq(s->experts_per_token, t->experts_per_token);
    ck_assert_uint_eq(s->rope_original, t->rope_original);
    ck_assert(s->rope_theta == t->rope_theta && s->rope_factor == t->rope_factor);
    ck_assert(s->rope_beta_fast == t->rope_beta_fast && s->rope_beta_slow == t->rope_beta_slow);
    ck_assert(!s->rope_truncate && !t->rope_truncate);
    ck_assert(s->rms_eps == t->rms_eps && s->swiglu_limit == t->swiglu_limit);
    ck_assert(memcmp(s->sliding, t->sliding, sizeof s->sliding) == 0);
    same_matrix(&x->embed, &y->embed, 4 * tolerance, "embed");
    same_matrix(&x->head, &y->head, tolerance, "head");
    same_vector(x->final_norm, y->final_norm, s->hidden, "final_norm");
    for (uint32_t i = 0; i < s->layers; i++)
        same_layer(s, &x->layers[i], &y->layers[i], tolerance);
    model_free(a);
    model_free(b);
}

START_TEST(every_format_holds_the_same_numbers)
{
    same_model(MODELS "tiny-0/hf", MODELS "tiny-0/f32.gguf", 0);
    same_model(MODELS "tiny-0/hf", MODELS "tiny-0/bf16.gguf", 0);
    same_model(MODELS "tiny-0/hf", MODELS "tiny-0/f16.gguf", 1e-7);
    same_model(MODELS "tiny-0/hf", MODELS "tiny-0/public.gguf", 0.01);
    same_model(MODELS "tiny8kv-0/hf", MODELS "tiny8kv-0/f32.gguf", 0);
    same_model(MODELS "tiny-0/hf", MODELS "parts-0/hf", 0); /* two shards and one */
    same_model(MODELS "tiny-0/public.gguf", MODELS "parts-0/public-00001-of-00003.gguf", 0);
}
END_TEST

START_TEST(the_shape_is_that_of_the_file)
{
    struct model *m = must_open(MODELS "tiny-0/public.gguf");
    const struct model_shape *s = model_shape(m);
    ck_assert_uint_eq(s->layers, 4);
    ck_assert_uint_eq(s->hidden, 64);
    ck_assert_uint_eq(s->intermediate, 96);
    ck_assert_uint_eq(s->q_heads, 8);
    ck_assert_uint_eq(s->kv_heads, 2);
    ck_assert_uint_eq(s->head_dim, 32);
    ck_assert_uint_eq(s->experts, 8);
    ck_assert_uint_eq(s->vocab, 320);
    ck_assert(s->sliding[0] && !s->sliding[1] && s->sliding[2] && !s->sliding[3]);
    ck_assert_int_eq(s->dense_type, DT_Q8_0);
    ck_assert_int_eq(s->expert_type, DT_MXFP4_GGML);
    model_free(m);
}
END_TEST

START_TEST(print_names_every_tensor_and_adds_up)
{
    struct model *m = must_open(MODELS "tiny-0/public.gguf");
    char *text = NULL, total[80];
    size_t n;
    FILE *f = open_memstream(&text, &n);
    model_print(m, f);
    fclose(f);
    snprintf(total, sizeof total, "79 tensors %27llu bytes\n", (unsigned long long)model_bytes(m));
    ck_assert_msg(strstr(text, total) != NULL, "no \"%s\" in\n%s", total, text);
    ck_assert_msg(strstr(text, "blk.3.ffn_down_exps.weight") != NULL, "%s", text);
    ck_assert_msg(strstr(text, "12 tensors of MXFP4") != NULL, "%s", text);
    ck_assert_uint_eq(model_bytes(m), 581632);
    free(text);
    model_free(m);
}
END_TEST

/* Both formats' vocabularies must cut the same text into the same ids. */
START_TEST(the_tokenizer_comes_with_the_model)
{
    static const char text[] = "the <|start|> h\xc3\xa9llo or\n an other";
    static const char *const paths[] = {MODELS "tiny-0/hf", MODELS "tiny-0/public.gguf"};
    struct tokens ids[2] = {{0}, {0}};
    for (int i = 0; i < 2; i++) {
        struct error e = {0};
        struct model *m = must_open(paths[i]);
        struct tokenizer *t = model_tokenizer(m, &e);
        ck_assert_msg(t != NULL, "%s", e.text);
        ck_assert_uint_eq(tokenizer_size(t), 320);
        ck_assert_uint_eq(tokenizer_harmony(t)->call, 319);
        ck_assert_uint_eq(tokenizer_harmony(t)->ret, 313);
        ck_assert(tokenizer_is_special(t, 319) && !tokenizer_is_special(t, 310));
        ck_assert(!tokenizer_is_used(t, 300)); /* [PAD300] */
        tokenizer_encode(t, text, sizeof text - 1, &ids[i]);
        struct buf back = {0};
        for (uint32_t k = 0; k < ids[i].n; k++) {
            uint32_t n;
            const char *bytes = tokenizer_bytes(t, ids[i].ids[k], &n);
            buf_add(&back, bytes, n);
        }
        ck_assert_str_eq(back.data, text);
        buf_free(&back);
        tokenizer_free(t);
        model_free(m);
    }
    ck_assert_uint_eq(ids[0].n, ids[1].n);
    ck_assert_mem_eq(ids[0].ids, ids[1].ids, ids[0].n * sizeof *ids[0].ids);
    ck_assert_uint_lt(ids[0].n, sizeof text - 1); /* merges were used */
    tokens_free(&ids[0]);
    tokens_free(&ids[1]);
}
END_TEST

int main(void)
{
    if (!tap_has(MODELS "tiny-0.stamp")) return EXIT_SUCCESS;
    Suite *s = suite_create("model");
    TCase *t = tcase_create("model");
    tcase_add_test(t, every_format_holds_the_same_numbers);
    tcase_add_test(t, the_shape_is_that_of_the_file);
    tcase_add_test(t, print_names_every_tensor_and_adds_up);
    tcase_add_test(t, the_tokenizer_comes_with_the_model);
    suite_add_tcase(s, t);
    return tap_run(s);
}
