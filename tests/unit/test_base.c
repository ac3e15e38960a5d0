/* test_base.c - buffers, UTF-8, queues, histograms, errors. */
#include "base/buf.h"
#include "base/err.h"
#include "base/hist.h"
#include "base/log.h"
#include "base/quant.h"
#include "base/utf8.h"

#include "tests/unit/tap.h"

#include <string.h>

START_TEST(first_error_wins)
{
    struct error e = {0};
    ck_assert_int_eq(err_set(&e, ERR_RANGE, "first %d", 1), ERR_RANGE);
    ck_assert_int_eq(err_set(&e, ERR_IO, "second"), ERR_IO);
    ck_assert_int_eq(e.code, ERR_RANGE);
    ck_assert_str_eq(e.text, "first 1");
    ck_assert_str_eq(err_text(ERR_FULL), "no room now, later perhaps");
    ck_assert_str_eq(err_text((enum err)999), "unknown error");
}
END_TEST

START_TEST(buf_limit_keeps_content)
{
    struct buf b = {.limit = 5};
    buf_str(&b, "abc");
    buf_str(&b, "defg");
    ck_assert(b.failed);
    ck_assert_str_eq(b.data, "abc");
    buf_free(&b);
}
END_TEST

START_TEST(buf_json_escapes)
{
    struct buf b = {0};
    const char in[] = "a\"b\\\n\x01\xE2\x80\xA8\xC2\x85\xE2\x82\xAC";
    buf_json(&b, in, sizeof in - 1);
    ck_assert_str_eq(b.data, "a\\\"b\\\\\\n\\u0001\\u2028\\u0085\xE2\x82\xAC");
    buf_free(&b);
}
END_TEST

/* By the bit layout of Unicode 15, table 3-6. Returns the length. */
static int encode(uint32_t cp, char out[4])
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    int len = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    for (int i = len - 1; i > 0; i--, cp >>= 6)
        out[i] = (char)(0x80 | (cp & 0x3F));
    out[0] = (char)((0xF00u >> len & 0xF0) | cp);
    return len;
}

START_TEST(utf8_all_code_points_round_trip)
{
    uint32_t wrong = 0, first_wrong = 0;
    for (uint32_t cp = 0; cp < 0x110000; cp++) {
        if (cp >= 0xD800 && cp < 0xE000) continue;
        char s[4];
        uint32_t back = ~0u;
        int n = encode(cp, s);
        bool ok = utf8_decode((unsigned char *)s, (size_t)n, &back) == n && back == cp;
        for (int k = 1; k < n; k++)
            ok &= utf8_decode((unsigned char *)s, (size_t)k, &back) == 0;
        if (!ok && !wrong++) first_wrong = cp;
    }
    ck_assert_msg(wrong == 0, "%u code points, the first U+%04X", wrong, first_wrong);
}
END_TEST

/* However a byte string is cut, the text that comes out is the same. */
START_TEST(utf8_take_is_independent_of_cuts)
{
    static const char in[] =
        "a\xF0\x9F\x92\x96z\xE2\x82x\xC0\xED\xA0\x80\xF4\x90\xFF\xE2\x82\xAC\xF0\x9F";
    size_t n = sizeof in - 1;
    struct buf whole = {0};
    ck_assert_uint_eq(utf8_take(&whole, in, n, true), n);
    for (size_t cut = 0; cut <= n; cut++) {
        struct buf parts = {0};
        size_t used = utf8_take(&parts, in, cut, false);
        ck_assert_uint_le(cut - used, 3);
        utf8_take(&parts, in + used, n - used, true);
        ck_assert_uint_eq(parts.len, whole.len);
        ck_assert(memcmp(parts.data ? parts.data : "", whole.data, whole.len) == 0);
        buf_free(&parts);
    }
    ck_assert(utf8_valid(whole.data, whole.len));
    buf_free(&whole);
}
END_TEST

START_TEST(hist_counts_up_to_each_bound)
{
    static const double bounds[] = {1, 2, 4};
    static const double values[] = {0.5, 1, 1.5, 4, 100};
    static const uint64_t want[] = {2, 1, 1, 1};
    struct hist h;
    hist_init(&h, bounds, 3);
    for (unsigned i = 0; i < sizeof values / sizeof *values; i++)
        hist_add(&h, values[i]);
    for (unsigned i = 0; i < 4; i++)
        ck_assert_uint_eq(h.counts[i], want[i]);
    ck_assert_uint_eq(h.total, 5);
    ck_assert(h.sum == 107);
}
END_TEST

/* 1 ms to 10 s, evenly: every quantile is within the promised 2.2 %. */
START_TEST(quant_is_right_within_its_width)
{
    static struct quant q;
    ck_assert(quant_at(&q, 0.5) == 0);
    for (int i = 1; i <= 10000; i++)
        quant_add(&q, i * 1e-3);
    static const double shares[] = {0.01, 0.5, 0.9, 0.99, 1};
    for (unsigned i = 0; i < sizeof shares / sizeof *shares; i++) {
        double got = quant_at(&q, shares[i]), want = shares[i] * 10;
        ck_assert_msg(got > want * 0.978 && got < want * 1.022, "%g: %g, not %g", shares[i], got,
                      want);
    }
    ck_assert(q.max == 10);
    static struct quant one;
    quant_add(&one, 0.1);
    ck_assert(quant_at(&one, 0.5) == 0.1);
    quant_add(&q, -1);
    quant_add(&q, 1e9);
    ck_assert_uint_eq(q.total, 10001);
}
END_TEST

static void catch_line(void *arg, enum log_level level, const char *line)
{
    (void)level;
    strcpy(arg, line);
}

START_TEST(log_escapes_control_characters)
{
    char got[2048] = "";
    log_set_sink(catch_line, got);
    log_info("http", "path=%s", "/a\nb\x1b[31m");
    log_set_sink(NULL, NULL);
    ck_assert_str_eq(got, "info http: path=/a?b?[31m");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("base");
    TCase *t = tcase_create("base");
    tcase_add_test(t, first_error_wins);
    tcase_add_test(t, buf_limit_keeps_content);
    tcase_add_test(t, buf_json_escapes);
    tcase_add_test(t, utf8_all_code_points_round_trip);
    tcase_add_test(t, utf8_take_is_independent_of_cuts);
    tcase_add_test(t, hist_counts_up_to_each_bound);
    tcase_add_test(t, quant_is_right_within_its_width);
    tcase_add_test(t, log_escapes_control_characters);
    suite_add_tcase(s, t);
    return tap_run(s);
}
