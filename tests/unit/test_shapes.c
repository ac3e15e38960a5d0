/* test_shapes.c - the shape file of the bundled model says what its config.json says. */
#include "conf/shape.h"
#include "engine/model.h"

#include "tests/unit/tap.h"

#include <string.h>

START_TEST(nano_shape_equals_its_model)
{
    const char *src = getenv("srcdir") ? getenv("srcdir") : ".";
    char path[1024];
    struct model_shape want;
    struct error e = {0};
    snprintf(path, sizeof path, "%s/conf/models/nano.conf", src);
    ck_assert_msg(!shape_load_file(&want, path, &e), "%s", e.text);
    snprintf(path, sizeof path, "%s/conf/nano", src);
    struct model *m = model_open(path, &e);
    ck_assert_msg(m, "%s", e.text);
    const struct model_shape *got = model_shape(m);
#define SAME(field) ck_assert_msg(got->field == want.field, "%s differs", #field)
    SAME(layers);
    SAME(hidden);
    SAME(q_heads);
    SAME(kv_heads);
    SAME(head_dim);
    SAME(experts);
    SAME(experts_per_token);
    SAME(intermediate);
    SAME(vocab);
    SAME(window);
    SAME(max_positions);
    SAME(rms_eps);
    SAME(rope_theta);
    SAME(rope_factor);
    SAME(rope_beta_fast);
    SAME(rope_beta_slow);
    SAME(rope_original);
    SAME(rope_truncate);
    SAME(swiglu_alpha);
    SAME(swiglu_limit);
    SAME(dense_type);
    SAME(expert_type);
    ck_assert_mem_eq(got->sliding, want.sliding, got->layers * sizeof *want.sliding);
    model_free(m);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("shapes");
    TCase *t = tcase_create("shapes");
    tcase_add_test(t, nano_shape_equals_its_model);
    suite_add_tcase(s, t);
    return tap_run(s);
}
