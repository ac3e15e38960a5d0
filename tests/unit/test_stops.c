/* test_stops.c - stop strings in text that comes in pieces, against a plain search of the whole. */
#include "server/stops.h"

#include "tests/unit/tap.h"

#include <stdio.h>
#include <string.h>

static const char *const sets[][3] = {
    {"ab", NULL, NULL}, {"aab", "ba", NULL}, {"abab", "bb", "aaa"}, {"a", "aa", "b"}, {NULL}};

/* Where the stop string begins that is complete first; of several that end there, the longest. */
static size_t first_match(const char *text, const char *const set[3], int *which)
{
    for (size_t end = 1; end <= strlen(text); end++) {
        *which = -1;
        for (int i = 0; i < 3 && set[i]; i++) {
            size_t n = strlen(set[i]);
            if (n <= end && !memcmp(text + end - n, set[i], n) &&
                (*which < 0 || n > strlen(set[*which])))
                *which = i;
        }
        if (*which >= 0) return end - strlen(set[*which]);
    }
    *which = -1;
    return strlen(text);
}

START_TEST(every_text_in_every_piece_size)
{
    const char *const *set = sets[_i];
    struct chat_text strings[3];
    uint32_t n = 0;
    for (; n < 3 && set[n]; n++)
        strings[n] = (struct chat_text){set[n], strlen(set[n])};
    struct stops *stops = stops_new(strings, n);
    for (unsigned bits = 0; bits < 1 << 9; bits++) {
        char text[10] = "";
        for (int i = 0; i < 9; i++)
            text[i] = bits >> i & 1 ? 'a' : 'b';
        int want_which;
        size_t want = first_match(text, set, &want_which);
        for (size_t piece = 1; piece <= 9; piece++) {
            struct stops_state *t = stops_start(stops);
            struct buf out = {0};
            int which = -1;
            for (size_t at = 0; at < 9 && which < 0; at += piece)
                which = stops_feed(t, text + at, at + piece > 9 ? 9 - at : piece, false, &out);
            if (which < 0) stops_flush(t, &out);
            ck_assert_msg(which == want_which && out.len == want && !memcmp(out.data, text, want),
                          "'%s' in pieces of %zu: stop %d after %zu bytes, want %d after %zu", text,
                          piece, which, out.len, want_which, want);
            buf_free(&out);
            stops_end(t);
        }
    }
    stops_free(stops);
}
END_TEST

START_TEST(holds_back_no_more_than_it_must)
{
    struct chat_text s = {"\nUser:", 6};
    struct stops *stops = stops_new(&s, 1);
    struct stops_state *t = stops_start(stops);
    struct buf out = {0};
    ck_assert_int_eq(stops_feed(t, "hello", 5, false, &out), -1);
    ck_assert_str_eq(out.data, "hello");
    ck_assert_int_eq(stops_feed(t, " you\nUs", 7, false, &out), -1);
    ck_assert_str_eq(out.data, "hello you");
    ck_assert_int_eq(stops_feed(t, "e it", 4, false, &out), -1);
    ck_assert_str_eq(out.data, "hello you\nUse it");
    ck_assert_int_eq(stops_feed(t, "\nUser: no", 9, true, &out), 0);
    ck_assert_str_eq(out.data, "hello you\nUse it\nUser:");
    ck_assert_int_eq(stops_feed(t, "more", 4, true, &out), -1);
    ck_assert_str_eq(out.data, "hello you\nUse it\nUser:");
    buf_free(&out);
    stops_end(t);
    stops_free(stops);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("stops");
    TCase *t = tcase_create("stops");
    tcase_add_loop_test(t, every_text_in_every_piece_size, 0, 5);
    tcase_add_test(t, holds_back_no_more_than_it_must);
    suite_add_tcase(s, t);
    return tap_run(s);
}
