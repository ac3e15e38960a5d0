/* test_tokenizer.c - splitting, merging, special text, tokenizer.json. */
#include "engine/presplit.h"
#include "engine/tokenizer.h"

#include "tests/byte_vocab.h"
#include "tests/unit/tap.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* Cuts the text and writes the pieces with '|' between them. */
static void split(const char *s, size_t n, char *out)
{
    for (size_t at = 0, end; at < n; at = end) {
        end = presplit_next(s, n, at);
        ck_assert_uint_gt(end, at);
        ck_assert_uint_le(end, n);
        if (at) *out++ = '|';
        memcpy(out, s + at, end - at);
        out += end - at;
    }
    *out = 0;
}

/* What the o200k regular expression gives (oracle: tiktoken's pieces of these texts). */
static const struct {
    const char *text, *pieces;
} cuts[] = {
    {"hello world", "hello| world"},
    {"Hello, World!", "Hello|,| World|!"},
    {"trailing ", "trailing| "},
    {"a  b", "a| | b"},
    {"a\n\nb", "a|\n\n|b"},
    {"a \n b", "a| \n| b"},
    {"\n \n\n", "\n \n\n"},
    {"x\r\ny", "x|\r\n|y"},
    {"  \t tab", "  \t| tab"},
    {" \n \n x", " \n \n| x"},
    {"don't DON'T we'LL I'Ve", "don't| DON'T| we'LL| I'Ve"},
    {"12'34", "12|'|34"},
    {"'s 't 'LL", "'s| '|t| '|LL"},
    {"HTTPServer getURLFor", "HTTPServer| get|URLFor"},
    {"iPhone ABCdef", "i|Phone| ABCdef"},
    {"aBc", "a|Bc"},
    {"1234567", "123|456|7"},
    {"word123abc", "word|123|abc"},
    {"3.14159", "3|.|141|59"},
    {"\xC2\xBD\xC2\xB2", "\xC2\xBD\xC2\xB2"},
    {"foo_bar::baz", "foo|_bar|::|baz"},
    {"path/to//file\n/", "path|/to|//|file|\n|/"},
    {"!!!\n\n//", "!!!\n\n//"},
    {"#include <stdio.h>\n", "#include| <|stdio|.h|>\n"},
    {"<|start|>", "<||start||>"},
    {"cafe\xCC\x81 x", "cafe\xCC\x81| x"},
    {"a\xC2\xA0"
     "b",
     "a|\xC2\xA0"
     "b"},
    {"a\xE3\x80\x80 b", "a|\xE3\x80\x80| b"},
    {"a\xEF\xBB\xBF"
     "b",
     "a|\xEF\xBB\xBF"
     "b"},
    {"\xE0\xB8\xAA\xE0\xB8\xA7\xE0\xB8\xB1\xE0\xB8\xAA",
     "\xE0\xB8\xAA\xE0\xB8\xA7\xE0\xB8\xB1\xE0\xB8\xAA"},
    {"\xF0\x9F\x98\x80!", "\xF0\x9F\x98\x80!"},
    /* ill-formed: each maximal subpart alone, the text around it as if it were the whole text */
    {"ab\xFF"
     "cd",
     "ab|\xFF|cd"},
    {"a  \xE2\x82", "a|  |\xE2\x82"},
    {"\xE2\x82\xC0\x80x", "\xE2\x82|\xC0|\x80|x"},
};

START_TEST(splitting)
{
    char got[128];
    split(cuts[_i].text, strlen(cuts[_i].text), got);
    ck_assert_str_eq(got, cuts[_i].pieces);
}
END_TEST

static void encode(const struct tokenizer *t, const char *s, size_t n, struct tokens *out)
{
    out->n = 0;
    tokenizer_encode(t, s, n, out);
    ck_assert(!out->failed);
}

static void check_round_trip(const struct tokenizer *t, const char *s, size_t n, struct tokens *ids)
{
    encode(t, s, n, ids);
    size_t at = 0;
    for (uint32_t i = 0; i < ids->n; i++) {
        uint32_t len;
        const char *bytes = tokenizer_bytes(t, ids->ids[i], &len);
        ck_assert(!tokenizer_is_special(t, ids->ids[i]));
        ck_assert_uint_le(at + len, n);
        ck_assert_mem_eq(bytes, s + at, len);
        at += len;
    }
    ck_assert_uint_eq(at, n);
}

START_TEST(any_bytes_round_trip)
{
    static const char alphabet[] = "aathe hello'sS12 \n\t<|start|>\xC3\xA9\xE2\x82\xAC\xFF\xCC\x81";
    struct tokenizer *t = byte_tokenizer();
    struct tokens ids = {0};
    uint32_t seed = 1;
    for (int round = 0; round < 3000; round++) {
        char s[200];
        size_t n = (seed >> 16) % sizeof s;
        for (size_t i = 0; i < n; i++) {
            seed = seed * 1103515245u + 12345u;
            uint32_t r = seed >> 16;
            s[i] = round % 2 ? (char)r : alphabet[r % (sizeof alphabet - 1)];
        }
        seed = seed * 1103515245u + 12345u;
        check_round_trip(t, s, n, &ids);
    }
    tokens_free(&ids);
    tokenizer_free(t);
}
END_TEST

static void check_ids(const struct tokens *ids, const char *want)
{
    char got[256] = "";
    for (uint32_t i = 0; i < ids->n; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), i ? " %u" : "%u", ids->ids[i]);
    ck_assert_str_eq(got, want);
}

START_TEST(lowest_rank_first_leftmost_on_ties)
{
    struct tokenizer *t = byte_tokenizer();
    struct tokens ids = {0};
    encode(t, "the", 3, &ids); /* th, then the */
    check_ids(&ids, "257");
    encode(t, "aaa", 3, &ids); /* the left pair */
    check_ids(&ids, "259 97");
    encode(t, "aaaaaa", 6, &ids);
    check_ids(&ids, "260 259");
    encode(t, "hello", 5, &ids); /* he blocks the way to hello: merging decides, not the list */
    check_ids(&ids, "261 108 108 111");
    tokens_free(&ids);
    tokenizer_free(t);
}
END_TEST

/* The same piece by scanning (up to 64 bytes) and with the heap (beyond). */
START_TEST(long_pieces_merge_like_short_ones)
{
    struct tokenizer *t = byte_tokenizer();
    struct tokens part = {0}, whole = {0};
    char s[64 * 3 + 1];
    for (int i = 0; i < 64 * 3; i++)
        s[i] = "thehellx"[i % 8];
    encode(t, s, 64, &part); /* 64 = a multiple of the period: cuts of the whole fall on it */
    encode(t, s, sizeof s - 1, &whole);
    ck_assert_uint_eq(whole.n, 3 * part.n);
    for (uint32_t i = 0; i < whole.n; i++)
        ck_assert_uint_eq(whole.ids[i], part.ids[i % part.n]);
    tokens_free(&part);
    tokens_free(&whole);
    tokenizer_free(t);
}
END_TEST

START_TEST(one_long_piece_is_not_quadratic)
{
    struct tokenizer *t = byte_tokenizer();
    struct tokens ids = {0};
    size_t n = 1 << 20;
    char *s = malloc(n);
    memset(s, 'a', n);
    clock_t start = clock();
    encode(t, s, n, &ids);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    printf("# 1 MiB of one letter: %.3f s of processor time\n", seconds);
    ck_assert_uint_eq(ids.n, n / 4);
    ck_assert_msg(seconds < 20, "1 MiB of one letter took %.1f s", seconds);
    free(s);
    tokens_free(&ids);
    tokenizer_free(t);
}
END_TEST

START_TEST(of_two_equal_merges_the_first_counts)
{
    struct vocab v = byte_vocab();
    uint32_t list[][2] = {{'t', 'h'}, {'h', 'e'}, {'t', 'h'}};
    v.merges = malloc(sizeof list);
    memcpy(v.merges, list, sizeof list);
    v.n_merges = 3;
    struct error e = {0};
    struct tokenizer *t = tokenizer_new(&v, &e);
    ck_assert_msg(t != NULL, "%s", e.text);
    struct tokens ids = {0};
    encode(t, "the", 3, &ids); /* th goes first; the is a token, but no merge makes it */
    check_ids(&ids, "256 101");
    tokens_free(&ids);
    tokenizer_free(t);
}
END_TEST

START_TEST(special_text_is_inert_unless_asked)
{
    struct tokenizer *t = byte_tokenizer();
    const struct harmony_ids *h = tokenizer_harmony(t);
    struct tokens ids = {0};
    const char s[] = "a<|end|><|star<|start|>b<|";
    check_round_trip(t, s, sizeof s - 1, &ids);
    ids.n = 0;
    tokenizer_encode_special(t, s, sizeof s - 1, &ids);
    uint32_t want[] = {'a', h->end, '<', '|', 's', 't', 'a', 'r', h->start, 'b', '<', '|'};
    ck_assert_uint_eq(ids.n, sizeof want / sizeof *want);
    ck_assert_mem_eq(ids.ids, want, sizeof want);
    uint32_t len;
    ck_assert_mem_eq(tokenizer_bytes(t, h->end, &len), "<|end|>", 7);
    ck_assert_uint_eq(len, 7);
    ck_assert(tokenizer_is_used(t, h->end) && !tokenizer_is_used(t, BYTE_VOCAB_UNUSED));
    tokenizer_bytes(t, BYTE_VOCAB_UNUSED, &len);
    ck_assert_uint_eq(len, 0);
    tokens_free(&ids);
    tokenizer_free(t);
}
END_TEST

START_TEST(bad_vocabularies_are_named)
{
    struct error e = {0};
    struct vocab v = byte_vocab();
    v.tokens[0x41].bytes = NULL;
    ck_assert_ptr_null(tokenizer_new(&v, &e));
    ck_assert_str_eq(e.text, "the vocabulary has no token for byte 0x41");
    e = (struct error){0};
    v = byte_vocab();
    v.tokens[256 + BYTE_VOCAB_WORDS].bytes = NULL;
    ck_assert_ptr_null(tokenizer_new(&v, &e));
    ck_assert_str_eq(e.text, "the vocabulary has no special token <|start|>");
    e = (struct error){0};
    v = byte_vocab();
    v.merges = calloc(1, sizeof *v.merges);
    v.n_merges = 1; /* 0 and 0: no token */
    ck_assert_ptr_null(tokenizer_new(&v, &e));
    ck_assert_str_eq(e.text, "merge 0: ids 0 and 0 together are no token");
    ck_assert_int_eq(e.code, ERR_PARSE);
}
END_TEST

#define SPECIALS                                                                                   \
    "\"added_tokens\":[{\"id\":256,\"content\":\"<|start|>\",\"special\":true},"                   \
    "{\"id\":257,\"content\":\"<|end|>\"},{\"id\":258,\"content\":\"<|message|>\"},"               \
    "{\"id\":259,\"content\":\"<|channel|>\"},{\"id\":260,\"content\":\"<|constrain|>\"},"         \
    "{\"id\":261,\"content\":\"<|return|>\"},{\"id\":262,\"content\":\"<|call|>\"},"               \
    "{\"id\":263,\"content\":\"<|endoftext|>\"}]"

/* A tokenizer.json with all bytes, " a" and "ab" and "abc" and the merges given. */
static size_t make_json(char *out, const char *merges)
{
    char *p = out + sprintf(out, "{%s,\"model\":{\"type\":\"BPE\",\"vocab\":{", SPECIALS);
    for (int c = 0, other = 0; c < 256; c++) {
        bool self = (c >= 0x21 && c <= 0x7E) || (c >= 0xA1 && c != 0xAD);
        p += sprintf(p, "\"\\u%04x\":%d,", self ? c : 0x100 + other, c);
        other += !self;
    }
    p += sprintf(p, "\"\\u0120a\":264,\"ab\":265,\"abc\":266,\"bc\":267},\"merges\":%s}}", merges);
    return (size_t)(p - out);
}

static const char *const merge_forms[] = {
    "[[\"b\",\"c\"],[\"a\",\"b\"],[\"a\",\"bc\"],[\"\\u0120\",\"a\"]]",
    "[\"b c\",\"a b\",\"a bc\",\"\\u0120 a\"]",
};

START_TEST(json_merges_in_both_forms)
{
    static char text[1 << 16];
    size_t n = make_json(text, merge_forms[_i]);
    struct vocab v;
    struct error e = {0};
    ck_assert_msg(vocab_from_json_text(text, n, 300, &v, &e) == ERR_OK, "%s", e.text);
    struct tokenizer *t = tokenizer_new(&v, &e);
    ck_assert_msg(t != NULL, "%s", e.text);
    struct tokens ids = {0};
    encode(t, "abc a", 5, &ids); /* bc before ab, as listed */
    check_ids(&ids, "266 264");
    encode(t, "ab", 2, &ids);
    check_ids(&ids, "265");
    ck_assert_uint_eq(tokenizer_size(t), 300);
    ck_assert(!tokenizer_is_used(t, 299));
    for (unsigned c = 0; c < 256; c++) {
        encode(t, &(char){(char)c}, 1, &ids);
        ck_assert_uint_eq(ids.ids[0], c);
    }
    tokens_free(&ids);
    tokenizer_free(t);
}
END_TEST

static const struct {
    const char *text, *error;
} bad_json[] = {
    {"{", "tokenizer: line 1 column 1: string or '}' expected near end of file"},
    {"{}", "tokenizer: key \"model\" is missing or no object"},
    {"{\"model\":{}}", "tokenizer: key \"model.vocab\" is missing or no object"},
    {"{\"model\":{\"type\":\"Unigram\"}}", "tokenizer: model.type is \"Unigram\", must be \"BPE\""},
    {"{\"model\":{\"vocab\":{\"a\":300}}}",
     "tokenizer: model.vocab \"a\" has id 300, the model has ids below 300"},
    {"{\"model\":{\"vocab\":{\"a\":-1}}}",
     "tokenizer: model.vocab \"a\" has id -1, the model has ids below 300"},
    {"{\"model\":{\"vocab\":{\"a\":\"x\"}}}", "tokenizer: model.vocab \"a\" has no integer id"},
    {"{\"model\":{\"vocab\":{\"a\":1,\"b\":1}}}", "tokenizer: model.vocab has id 1 twice (\"b\")"},
    {"{\"model\":{\"vocab\":{\"a b\":1}}}",
     "tokenizer: model.vocab \"a b\" is not in the byte-level alphabet"},
    {"{\"model\":{\"vocab\":{\"a\":1},\"merges\":[[\"a\",\"q\"]]}}",
     "tokenizer: model.merges[0] is not a pair of tokens of model.vocab"},
    {"{\"model\":{\"vocab\":{\"a\":1},\"merges\":[\"aa\"]}}",
     "tokenizer: model.merges[0] is not a pair of tokens of model.vocab"},
    {"{\"model\":{\"vocab\":{\"a\":1}},\"added_tokens\":[{\"id\":2}]}",
     "tokenizer: added_tokens[0].content is no text"},
};

START_TEST(bad_json_is_named)
{
    struct vocab v;
    struct error e = {0};
    enum err rc = vocab_from_json_text(bad_json[_i].text, strlen(bad_json[_i].text), 300, &v, &e);
    ck_assert_int_ne(rc, ERR_OK);
    ck_assert_str_eq(e.text, bad_json[_i].error);
    ck_assert_ptr_null(v.tokens);
}
END_TEST

START_TEST(missing_file_is_named)
{
    struct vocab v;
    struct error e = {0};
    ck_assert_int_eq(vocab_from_json("no/such/tokenizer.json", 1, &v, &e), ERR_IO);
    ck_assert_str_eq(e.text, "no/such/tokenizer.json: No such file or directory");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("tokenizer");
    TCase *c = tcase_create("tokenizer");
    tcase_add_loop_test(c, splitting, 0, sizeof cuts / sizeof *cuts);
    tcase_add_test(c, any_bytes_round_trip);
    tcase_add_test(c, lowest_rank_first_leftmost_on_ties);
    tcase_add_test(c, long_pieces_merge_like_short_ones);
    tcase_add_test(c, one_long_piece_is_not_quadratic);
    tcase_add_test(c, of_two_equal_merges_the_first_counts);
    tcase_add_test(c, special_text_is_inert_unless_asked);
    tcase_add_test(c, bad_vocabularies_are_named);
    tcase_add_loop_test(c, json_merges_in_both_forms, 0, 2);
    tcase_add_loop_test(c, bad_json_is_named, 0, sizeof bad_json / sizeof *bad_json);
    tcase_add_test(c, missing_file_is_named);
    suite_add_tcase(s, c);
    return tap_run(s);
}
