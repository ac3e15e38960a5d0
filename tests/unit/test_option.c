/* test_option.c - numbers with units, rows of option tables: read, refuse, print, read again. */
#include "conf/option.h"
#include "conf/unit.h"

#include "tests/unit/tap.h"

#include <float.h>
#include <string.h>

START_TEST(whole_numbers_are_read_exactly)
{
    static const struct {
        enum unit_kind kind;
        const char *text;
        uint64_t want;
    } cases[] = {{UNIT_NONE, "0", 0},
                 {UNIT_NONE, "18446744073709551615", UINT64_MAX},
                 {UNIT_BYTES, "16 MiB", 16 << 20},
                 {UNIT_BYTES, "16MiB", 16 << 20},
                 {UNIT_BYTES, "1.5 GiB", 3ull << 29},
                 {UNIT_BYTES, "4096", 4096},
                 {UNIT_BYTES, "2 kB", 2000},
                 {UNIT_BYTES, "0", 0},
                 {UNIT_DURATION, "17.5 us", 17500},
                 {UNIT_DURATION, "30 s", 30000000000},
                 {UNIT_DURATION, "1.5 min", 90000000000},
                 {UNIT_DURATION, "0", 0},
                 {UNIT_DURATION, "8\tus", 8000}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t v = 1;
        const char *rule;
        ck_assert_msg(unit_parse_whole(cases[i].kind, cases[i].text, &v, &rule), "\"%s\": %s",
                      cases[i].text, rule);
        ck_assert_uint_eq(v, cases[i].want);
    }
}
END_TEST

START_TEST(wrong_numbers_are_refused_with_the_rule)
{
    static const struct {
        enum unit_kind kind;
        const char *text;
    } whole[] = {{UNIT_NONE, ""},          {UNIT_NONE, "-1"},
                 {UNIT_NONE, " 1"},        {UNIT_NONE, "1.5"},
                 {UNIT_NONE, "0x10"},      {UNIT_NONE, "18446744073709551616"},
                 {UNIT_NONE, "1 MiB"},     {UNIT_BYTES, "16 mib"},
                 {UNIT_BYTES, "16 MiBs"},  {UNIT_BYTES, "0.3 KiB"},
                 {UNIT_BYTES, "1. KiB"},   {UNIT_BYTES, "20000000 TiB"},
                 {UNIT_BYTES, "MiB"},      {UNIT_BYTES, "1e3"},
                 {UNIT_DURATION, "30"},    {UNIT_DURATION, "1.5 ns"},
                 {UNIT_DURATION, "30 S"},  {UNIT_DURATION, "1.0000001 h"},
                 {UNIT_DURATION, "5 s s"}, {UNIT_DURATION, "30 min 5 s"}};
    for (unsigned i = 0; i < sizeof whole / sizeof *whole; i++) {
        uint64_t v = 77;
        const char *rule = NULL;
        ck_assert_msg(!unit_parse_whole(whole[i].kind, whole[i].text, &v, &rule), "\"%s\" was read",
                      whole[i].text);
        ck_assert_uint_eq(v, 77);
        ck_assert_ptr_nonnull(rule);
    }
    static const char *const real[] = {"",    "inf",       "nan",   "0x1p3", ".5",  "5.",
                                       "1e",  "1e9999",    "1e400", "--1",   "+1",  "1 TB",
                                       "1,5", "1 TB/s TB", "TB/s",  " 1",    "1e-", "4.9 tb/s"};
    for (unsigned i = 0; i < sizeof real / sizeof *real; i++) {
        double v;
        const char *rule = NULL;
        ck_assert_msg(!unit_parse_real(UNIT_RATE, real[i], &v, &rule), "\"%s\" was read", real[i]);
    }
    double v;
    const char *rule;
    ck_assert(!unit_parse_real(UNIT_NONE, "5 %", &v, &rule));
    ck_assert(!unit_parse_real(UNIT_RATE, "5", &v, &rule));
}
END_TEST

START_TEST(real_numbers_are_rounded_once)
{
    static const struct {
        enum unit_kind kind;
        const char *text;
        double want;
    } cases[] = {{UNIT_RATE, "4.9 TB/s", 4.9e12},
                 {UNIT_RATE, "128GB/s", 128e9},
                 {UNIT_FLOPS, "2517 TFLOPS", 2517e12},
                 {UNIT_FLOPS, "2.517 PFLOPS", 2.517e15},
                 {UNIT_WATTS, "1.2 kW", 1200},
                 {UNIT_SHARE, "80 %", 0.80},
                 {UNIT_SHARE, "80%", 0.80},
                 {UNIT_SHARE, "0.3", 0.3},
                 {UNIT_NONE, "1e-5", 1e-5},
                 {UNIT_NONE, "-2.5E+3", -2500},
                 {UNIT_RATE, "1e3 kB/s", 1e6}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        double v = 0;
        const char *rule;
        ck_assert_msg(unit_parse_real(cases[i].kind, cases[i].text, &v, &rule), "\"%s\": %s",
                      cases[i].text, rule);
        ck_assert_double_eq(v, cases[i].want);
    }
}
END_TEST

START_TEST(printed_numbers_are_short)
{
    char out[UNIT_TEXT_BYTES];
    static const struct {
        enum unit_kind kind;
        uint64_t v;
        const char *want;
    } whole[] = {{UNIT_BYTES, 16 << 20, "16 MiB"},
                 {UNIT_BYTES, 3000, "3 kB"},
                 {UNIT_BYTES, 1, "1 B"},
                 {UNIT_DURATION, 17500, "17500 ns"},
                 {UNIT_DURATION, 90000000000, "90 s"},
                 {UNIT_DURATION, 0, "0"},
                 {UNIT_DURATION, 3600000000000, "1 h"},
                 {UNIT_NONE, 8000, "8000"}};
    for (unsigned i = 0; i < sizeof whole / sizeof *whole; i++) {
        unit_print_whole(whole[i].kind, whole[i].v, out);
        ck_assert_str_eq(out, whole[i].want);
    }
    static const struct {
        enum unit_kind kind;
        double v;
        const char *want;
    } real[] = {{UNIT_RATE, 4.22e12, "4.22 TB/s"}, {UNIT_FLOPS, 671e12, "671 TFLOPS"},
                {UNIT_SHARE, 0.8, "0.8"},          {UNIT_WATTS, 700, "700 W"},
                {UNIT_NONE, 1e-5, "1e-05"},        {UNIT_RATE, 0, "0 B/s"}};
    for (unsigned i = 0; i < sizeof real / sizeof *real; i++) {
        unit_print_real(real[i].kind, real[i].v, out);
        ck_assert_str_eq(out, real[i].want);
    }
}
END_TEST

START_TEST(printed_numbers_read_back_the_same)
{
    uint64_t state = 42;
    for (int i = 0; i < 20000; i++) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        char text[UNIT_TEXT_BYTES];
        const char *rule;
        uint64_t whole = state >> (state >> 58), back = 0;
        enum unit_kind kind = (enum unit_kind)(i % 3);
        unit_print_whole(kind, whole, text);
        ck_assert_msg(unit_parse_whole(kind, text, &back, &rule) && back == whole, "\"%s\"", text);

        static const enum unit_kind kinds[] = {UNIT_NONE, UNIT_RATE, UNIT_FLOPS, UNIT_WATTS,
                                               UNIT_SHARE};
        double real = (double)(state >> 11) * (i % 2 ? 1e-10 : 1e3), again = 0;
        unit_print_real(kinds[i % 5], real, text);
        ck_assert_msg(unit_parse_real(kinds[i % 5], text, &again, &rule) && again == real,
                      "\"%s\" is not %.17g", text, real);
    }
}
END_TEST

struct sample {
    bool on;
    uint32_t count;
    uint64_t size, wait;
    double speed;
    float eps;
    char word[8];
    enum { RED, GREEN, BLUE } color;
};

static const char *check_even(const void *field)
{
    return *(const uint32_t *)field % 2 ? "even" : NULL;
}

static const struct option rows[] = {
    {"a", "on", OPT_BOOL, OPT_FIELD(struct sample, on), .def = "true"},
    {"a", "count", OPT_UINT, OPT_FIELD(struct sample, count), 2, 100, .def = "4",
     .check = check_even},
    {"a", "size", OPT_BYTES, OPT_FIELD(struct sample, size), 1024, 1 << 20, .def = "4 KiB"},
    {"b", "wait", OPT_DURATION, OPT_FIELD(struct sample, wait), .def = "1 ms"},
    {"b", "speed", OPT_RATE, OPT_FIELD(struct sample, speed), 1e3, 1e12, .def = "1 GB/s"},
    {"b", "eps", OPT_REAL, OPT_FIELD(struct sample, eps), .def = "1e-5"},
    {"b", "word", OPT_STRING, OPT_FIELD(struct sample, word), .def = ""},
    {"b", "color", OPT_ENUM, OPT_FIELD(struct sample, color), .choices = "red|green|blue",
     .def = "green"},
};
static const struct option_table table = {rows, sizeof rows / sizeof *rows};

START_TEST(every_type_is_set_and_printed)
{
    static const struct {
        const char *section, *name, *text, *printed;
    } cases[] = {
        {"a", "on", "no", "false"},          {"a", "on", "yes", "true"},
        {"a", "count", "100", "100"},        {"a", "size", "1 MiB", "1 MiB"},
        {"b", "wait", "1500 us", "1500 us"}, {"b", "speed", "2500 MB/s", "2.5 GB/s"},
        {"b", "eps", "0.1", "0.100000001"},  {"b", "word", "\xC3\xA4;bcde", "\xC3\xA4;bcde"},
        {"b", "color", "blue", "blue"}};
    struct sample s;
    memset(&s, 0, sizeof s);
    option_defaults(&table, &s);
    ck_assert(s.on && s.count == 4 && s.size == 4096 && s.wait == 1000000 && s.speed == 1e9);
    ck_assert(s.eps == 1e-5f && s.word[0] == '\0' && s.color == GREEN);
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct option *o = option_find(&table, cases[i].section, cases[i].name);
        char text[OPTION_TEXT_BYTES];
        struct error e = {0};
        ck_assert_msg(!option_set(o, &s, cases[i].text, &e), "%s", e.text);
        option_text(o, &s, text);
        ck_assert_str_eq(text, cases[i].printed);
        struct sample again = s;
        ck_assert_int_eq(option_set(o, &again, text, NULL), ERR_OK);
        ck_assert_mem_eq(&s, &again, sizeof s);
    }
}
END_TEST

START_TEST(errors_name_option_value_and_rule)
{
    static const struct {
        const char *section, *name, *text, *want;
    } cases[] = {
        {"a", "on", "maybe", "a.on = \"maybe\": must be true or false"},
        {"a", "count", "101", "a.count = \"101\": must be 2 to 100"},
        {"a", "count", "5", "a.count = \"5\": must be even"},
        {"a", "count", "4294967298", "must be 2 to 100"},
        {"a", "size", "1 B", "a.size = \"1 B\": must be 1 KiB to 1 MiB"},
        {"b", "wait", "5", "a whole number of nanoseconds, with ns, us, ms, s, min or h"},
        {"b", "speed", "1 B/s", "must be 1 kB/s to 1 TB/s"},
        {"b", "eps", "tiny", "b.eps = \"tiny\": must be a number"},
        {"b", "word", "too long", "must be UTF-8 text of at most 7 bytes"},
        {"b", "word", "a\nb", "without control characters"},
        {"b", "word", "a ;b", "without control characters and \" ;\""},
        {"b", "word", "\xFF", "must be UTF-8"},
        {"b", "color", "blu", "must be red, green or blue"},
        {"b", "color", "red|green", "must be red, green or blue"},
        {"b", "color", "", "must be red, green or blue"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sample s, before;
        memset(&s, 0, sizeof s);
        option_defaults(&table, &s);
        before = s;
        struct error e = {0};
        const struct option *o = option_find(&table, cases[i].section, cases[i].name);
        ck_assert_int_ne(option_set(o, &s, cases[i].text, &e), ERR_OK);
        ck_assert_msg(strstr(e.text, cases[i].want), "%s: got \"%s\"", cases[i].text, e.text);
        ck_assert_mem_eq(&s, &before, sizeof s);
    }
    ck_assert_ptr_null(option_find(&table, "a", "color"));
    ck_assert(option_section(&table, "b") && !option_section(&table, ""));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("option");
    TCase *t = tcase_create("option");
    tcase_add_test(t, whole_numbers_are_read_exactly);
    tcase_add_test(t, wrong_numbers_are_refused_with_the_rule);
    tcase_add_test(t, real_numbers_are_rounded_once);
    tcase_add_test(t, printed_numbers_are_short);
    tcase_add_test(t, printed_numbers_read_back_the_same);
    tcase_add_test(t, every_type_is_set_and_printed);
    tcase_add_test(t, errors_name_option_value_and_rule);
    suite_add_tcase(s, t);
    return tap_run(s);
}
