/* test_inspect.c - what `trnd inspect` prints: groups of equal chips, sums, refusals. */
#include "engine/inspect.h"

#include "tests/unit/tap.h"

#include <math.h>
#include <string.h>

static struct machine_spec trn3, trn2;
static struct model_shape big;
static char *text; /* what was printed last */

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

static void unload(void)
{
    free(text);
    text = NULL;
}

static struct inspect inspect_of(const struct machine_spec *m, const char *plan)
{
    struct inspect in = {.machine = m, .shape = &big};
    struct error e = {0};
    ck_assert_msg(!plan_parse(&in.plan, plan, &e), "%s", e.text);
    ck_assert_msg(!plan_complete(&in.plan, &big, m, &e), "%s", e.text);
    return in;
}

static enum err print_plan(const struct machine_spec *m, const char *plan, struct error *e)
{
    struct inspect in = inspect_of(m, plan);
    size_t n;
    unload();
    FILE *f = open_memstream(&text, &n);
    enum err rc = inspect_plan_print(f, &in, e);
    fclose(f);
    return rc;
}

static enum err print_step(const char *plan, struct inspect_step step, struct error *e)
{
    struct inspect in = inspect_of(&trn3, plan);
    size_t n;
    unload();
    FILE *f = open_memstream(&text, &n);
    enum err rc = inspect_program_print(f, &in, &step, e);
    fclose(f);
    return rc;
}

static void expect(const char *part)
{
    ck_assert_msg(strstr(text, part), "no \"%s\" in:\n%s", part, text);
}

START_TEST(equal_chips_share_a_line)
{
    ck_assert_int_eq(print_plan(&trn3, "72x2", NULL), ERR_OK);
    expect("machine trn3-ultraserver: 144 chips, 4 a sled, 72 a rack, 154.6 GB of HBM each\n");
    expect("plan    72x2:tp=2,dp=1,ep=2,mtp=1: each replica inside a sled; 0 chips unused\n");
    expect("  0-1\n");
    /* hardware spec 6.1: 69.3 GB of padded experts, half a chip; here with their biases */
    expect(" 34.696 GB ");
    expect("KV: 18432 bytes a token and chip, 2359296 more a sequence");

    ck_assert_int_eq(print_plan(&trn3, "1x140", NULL), ERR_OK);
    expect("each replica inside two racks; 4 chips unused\n");
    ck_assert_int_eq(print_plan(&trn3, "1x5:tp=1", NULL), ERR_OK); /* 25 or 26 experts a place */
    expect("  0,2\n");
    expect("  3-4\n"); /* fewer rows of the vocabulary than chip 1 */
    ck_assert_int_eq(print_plan(&trn3, "1x6:ep=6", NULL), ERR_OK);
    expect("  0-1,3\n"); /* 21 experts; every third place has 22 */
    expect("  2\n");
}
END_TEST

START_TEST(a_plan_that_does_not_fit_is_shown_and_refused)
{
    struct error e = {0};
    ck_assert_int_eq(print_plan(&trn2, "1x2", &e), ERR_RANGE);
    ck_assert_msg(strstr(e.text, "use more chips per replica"), "%s", e.text);
    expect("130."); /* GB of BF16 experts on each */
}
END_TEST

/* The microseconds of a line of the program's table, which follow n and k. */
static double us_of(const char *line)
{
    double us = 0;
    ck_assert_int_eq(sscanf(line + 57, "%lf", &us), 1);
    return us;
}

START_TEST(ops_add_up_to_the_step)
{
    static const char *const plans[] = {"144x1", "72x2", "18x8:mtp=2", "1x144"};
    for (int i = 0; i < 4; i++) {
        struct error e = {0};
        struct inspect_step step = {64, 1, 1500};
        ck_assert_msg(!print_step(plans[i], step, &e), "%s", e.text);
        double sum = 0, whole = 0;
        char *table = strstr(text, "\nop ");
        ck_assert_ptr_nonnull(table);
        char *line = strtok(strchr(table + 1, '\n') + 1, "\n");
        for (; line && strncmp(line, "step ", 5) != 0; line = strtok(NULL, "\n"))
            sum += us_of(line);
        ck_assert_ptr_nonnull(line);
        whole = us_of(line);
        ck_assert_msg(whole > 1000 && fabs(sum - whole) < 0.5, "%s: %g of %g us", plans[i], sum,
                      whole);
    }
}
END_TEST

START_TEST(the_step_is_told_in_words)
{
    ck_assert_int_eq(print_step("72x2", (struct inspect_step){32, 1, 1500}, NULL), ERR_OK);
    expect("step    sequences 32, rows of each 1, tokens before them 1500;");
    expect("\nexperts_up (sliding)     x18 ");
    expect("\nlogits                   x1 ");
    expect("bound by compute 0.0 %, hbm ");
    ck_assert_int_eq(print_step("72x2", (struct inspect_step){1, 8192, 0}, NULL), ERR_OK);
    expect(" compute ");
}
END_TEST

START_TEST(wrong_steps_are_refused)
{
    static const struct {
        struct inspect_step step;
        const char *want;
    } cases[] = {{{0, 1, 0}, "sequences = 0: must be 1 to 65536"},
                 {{1, 0, 0}, "rows = 0: must be 1 to 1048576"},
                 {{1, 1, UINT32_MAX}, "start = 4294967295: must be 0 to 16777216"},
                 {{65536, 1 << 20, 0}, "sequences x rows = 68719476736: must be at most 16777216"}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error e = {0};
        ck_assert_int_eq(print_step("72x2", cases[i].step, &e), ERR_RANGE);
        ck_assert_str_eq(e.text, cases[i].want);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("inspect");
    TCase *t = tcase_create("inspect");
    tcase_add_checked_fixture(t, load, unload);
    tcase_add_test(t, equal_chips_share_a_line);
    tcase_add_test(t, a_plan_that_does_not_fit_is_shown_and_refused);
    tcase_add_test(t, ops_add_up_to_the_step);
    tcase_add_test(t, the_step_is_told_in_words);
    tcase_add_test(t, wrong_steps_are_refused);
    suite_add_tcase(s, t);
    return tap_run(s);
}
