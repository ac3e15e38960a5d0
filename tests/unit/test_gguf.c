/* test_gguf.c - the container's rules and the vocabulary inside, one file in memory at a time. */
#include "base/buf.h"
#include "engine/gguf.h"
#include "engine/vocab_gguf.h"
#include "tests/unit/tap.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a writer: little-endian, as the format is; beyond 8 bytes, zeros */

static void put(struct buf *b, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        buf_char(b, i < 8 ? (char)(v >> 8 * i) : 0);
}

static void put_text(struct buf *b, const char *s)
{
    put(b, strlen(s), 8);
    buf_str(b, s);
}

static void put_key(struct buf *b, const char *key, enum gguf_type type)
{
    put_text(b, key);
    put(b, type, 4);
}

static void put_array(struct buf *b, const char *key, enum gguf_type type, uint64_t n)
{
    put_key(b, key, GGUF_ARRAY);
    put(b, type, 4);
    put(b, n, 8);
}

static void put_tensor(struct buf *b, const char *name, uint64_t ne0, uint64_t ne1, uint32_t type,
                       uint64_t offset)
{
    put_text(b, name);
    put(b, 2, 4);
    put(b, ne0, 8);
    put(b, ne1, 8);
    put(b, type, 4);
    put(b, offset, 8);
}

static void put_head(struct buf *b, uint32_t version, uint64_t tensors, uint64_t keys)
{
    buf_str(b, "GGUF");
    put(b, version, 4);
    put(b, tensors, 8);
    put(b, keys, 8);
}

static void put_data(struct buf *b, size_t n)
{
    while (b->len % 32)
        buf_char(b, 0);
    for (size_t i = 0; i < n; i++)
        buf_char(b, (char)i);
}

/* Reads an exact copy, so that a sanitizer sees a read past the end; frees the buffer. */
static enum err read_buf(struct buf *b, size_t size, struct error *e)
{
    uint8_t *copy = malloc(size ? size : 1);
    memcpy(copy, b->data, size);
    struct tensors t = {0};
    struct gguf g;
    enum err rc = gguf_read(copy, size, "f", &g, &t, e);
    if (!rc) rc = tensors_seal(&t, e);
    gguf_free(&g);
    tensors_free(&t);
    free(copy);
    return rc;
}

static void refuse(struct buf *b, const char *says)
{
    struct error e = {0};
    enum err rc = read_buf(b, b->len, &e);
    ck_assert_msg(rc != ERR_OK && strstr(e.text, says), "wanted \"%s\", got %d \"%s\"", says, rc,
                  e.text);
    buf_free(b);
}

static struct buf good(void)
{
    struct buf b = {0};
    put_head(&b, 3, 2, 9);
    put_key(&b, "u8", GGUF_U8);
    put(&b, 200, 1);
    put_key(&b, "i16", GGUF_I16);
    put(&b, (uint64_t)-2, 2);
    put_key(&b, "u32", GGUF_U32);
    put(&b, 4000000000u, 4);
    put_key(&b, "u64", GGUF_U64);
    put(&b, UINT64_MAX, 8);
    put_key(&b, "f32", GGUF_F32);
    put(&b, 0x3fc00000, 4); /* 1.5 */
    put_key(&b, "f64", GGUF_F64);
    put(&b, 0xc000000000000000ull, 8); /* -2 */
    put_key(&b, "text", GGUF_STRING);
    put_text(&b, "hello");
    put_array(&b, "words", GGUF_STRING, 2);
    put_text(&b, "x");
    put_text(&b, "");
    put_array(&b, "flags", GGUF_BOOL, 3);
    put(&b, 0x010001, 3);
    put_tensor(&b, "w", 32, 2, 8, 0);
    put_tensor(&b, "v", 3, 1, 0, 96);
    put_data(&b, 96 + 12);
    return b;
}

START_TEST(reads_keys_and_tensors)
{
    struct buf b = good();
    struct gguf g;
    struct tensors t = {0};
    struct error e = {0};
    enum err rc = gguf_read((const uint8_t *)b.data, b.len, "f", &g, &t, &e);
    if (!rc) rc = tensors_seal(&t, &e);
    ck_assert_msg(!rc, "%s", e.text);
    uint64_t u = 7;
    double d;
    struct gguf_string s;
    ck_assert(!gguf_u64(&g, "u8", &u, &e) && u == 200);
    ck_assert(!gguf_u64(&g, "u32", &u, &e) && u == 4000000000u);
    ck_assert(!gguf_f64(&g, "f32", &d, &e) && d == 1.5);
    ck_assert(!gguf_f64(&g, "f64", &d, &e) && d == -2);
    ck_assert(!gguf_f64(&g, "u8", &d, &e) && d == 200);
    ck_assert(!gguf_text(&g, "text", &s, &e) && s.len == 5 && !memcmp(s.text, "hello", 5));
    const struct gguf_pair *p = gguf_find(&g, "words");
    const uint8_t *at = p->value;
    ck_assert(p->is_array && p->n == 2 && gguf_next_string(&at).len == 1);
    ck_assert(gguf_next_string(&at).len == 0 && at == p->value_end);
    p = gguf_find(&g, "flags");
    at = p->value;
    ck_assert(gguf_next_int(p, &at) == 1 && gguf_next_int(p, &at) == 0);
    ck_assert(gguf_next_int(p, &at) == 1 && at == p->value_end);

    struct error none = {0};
    ck_assert_int_eq(gguf_u64(&g, "absent", &u, &none), ERR_NOTFOUND);
    ck_assert_int_eq(none.code, ERR_OK);
    static const char *const wrong[] = {"i16", "u64", "f32", "text", "words"};
    for (int i = 0; i < 5; i++) {
        struct error why = {0};
        ck_assert_int_eq(gguf_u64(&g, wrong[i], &u, &why), ERR_INVAL);
        ck_assert_msg(!strncmp(why.text, wrong[i], strlen(wrong[i])), "%s", why.text);
    }
    ck_assert_uint_eq(u, 4000000000u); /* untouched by what failed */
    ck_assert_int_eq(gguf_text(&g, "u8", &s, NULL), ERR_INVAL);
    ck_assert_int_eq(gguf_f64(&g, "text", &d, NULL), ERR_INVAL);

    const struct tensor *w = tensors_find(&t, "w"), *v = tensors_find(&t, "v");
    ck_assert(w->type == TT_Q8_0 && w->dims[0] == 2 && w->dims[1] == 32 && w->bytes == 68);
    ck_assert(v->type == TT_F32 && v->bytes == 12 && v->data[0] == 96);
    tensors_free(&t);
    gguf_free(&g);
    buf_free(&b);
}
END_TEST

START_TEST(a_file_cut_anywhere_is_refused)
{
    struct buf b = good();
    for (size_t n = 0; n < b.len; n++) {
        struct error e = {0};
        enum err rc = read_buf(&b, n, &e);
        ck_assert_msg(rc == ERR_PARSE && !strncmp(e.text, "f: ", 3), "%zu: %d %s", n, rc, e.text);
    }
    struct error e = {0};
    ck_assert_msg(read_buf(&b, b.len, &e) == ERR_OK, "%s", e.text);
    buf_free(&b);
}
END_TEST

START_TEST(versions_and_strangers)
{
    struct buf b = {0};
    buf_str(&b, "GGML");
    put(&b, 3, 20);
    refuse(&b, "not a GGUF file");
    put_head(&b, 1, 0, 0);
    refuse(&b, "GGUF version 1");
    put_head(&b, 4, 0, 0);
    refuse(&b, "GGUF version 4");
    put_head(&b, 0x03000000, 0, 0); /* a big-endian file */
    refuse(&b, "GGUF version 50331648");
    put_head(&b, 2, 0, 0);
    struct error e = {0};
    ck_assert_msg(read_buf(&b, b.len, &e) == ERR_OK, "%s", e.text);
    buf_free(&b);
}
END_TEST

START_TEST(keys_that_lie)
{
    struct buf b = {0};
    put_head(&b, 3, 0, UINT64_MAX);
    refuse(&b, "more keys than the file has room for");
    put_head(&b, 3, 0, 1);
    put(&b, UINT64_MAX, 8);
    put(&b, 0, 8);
    refuse(&b, "a string is longer than the file");
    put_head(&b, 3, 0, 1);
    put_key(&b, "", GGUF_U32);
    put(&b, 0, 8);
    refuse(&b, "a key is empty");
    put_head(&b, 3, 0, 1);
    put_key(&b, "k", 13);
    put(&b, 0, 8);
    refuse(&b, "key k: value type 13 is unknown");
    put_head(&b, 3, 0, 1);
    put_array(&b, "k", GGUF_ARRAY, 1);
    put(&b, 0, 8);
    refuse(&b, "key k: value type 9 is an array inside an array");
    put_head(&b, 3, 0, 1);
    put_array(&b, "k", GGUF_U64, 1ull << 61); /* times 8 would be 0 */
    put(&b, 0, 8);
    refuse(&b, "a value is longer than the file");
    put_head(&b, 3, 0, 1);
    put_array(&b, "k", GGUF_STRING, UINT64_MAX);
    put(&b, 0, 8);
    refuse(&b, "the file is cut off here");
    put_head(&b, 3, 0, 2);
    for (int i = 0; i < 2; i++) {
        put_key(&b, "twin", GGUF_U8);
        put(&b, 0, 1);
    }
    refuse(&b, "key twin occurs twice");
}
END_TEST

/* One tensor "w" in a file with 64 data bytes. */
static void refuse_tensor(uint64_t ne0, uint64_t ne1, uint32_t type, uint64_t offset,
                          const char *says)
{
    struct buf b = {0};
    put_head(&b, 3, 1, 0);
    put_tensor(&b, "w", ne0, ne1, type, offset);
    put_data(&b, 64);
    refuse(&b, says);
}

START_TEST(tensors_that_lie)
{
    refuse_tensor(4, 4, 12, 0, "tensor w: ggml type 12 is not supported");
    refuse_tensor(4, 4, 4, 0, "tensor w: ggml type 4 is not supported");
    refuse_tensor(33, 1, 8, 0, "tensor w: Q8_0 [1, 33] overflows or does not end");
    refuse_tensor(31, 1, 39, 0, "tensor w: MXFP4 [1, 31]");
    refuse_tensor(1ull << 62, 4, 0, 0, "tensor w: F32 [4, 4611686018427387904] overflows");
    refuse_tensor(1ull << 32, 1ull << 31, 1, 0, "overflows");
    refuse_tensor(4, 4, 0, 16, "tensor w: offset 16 is not a multiple of 32");
    refuse_tensor(4, 4, 0, 32, "tensor w: 64 bytes from 32 are not inside the 64");
    refuse_tensor(4, 5, 0, 0, "tensor w: 80 bytes from 0 are not inside the 64");
    refuse_tensor(4, 4, 0, 0xffffffffffffffe0ull, "are not inside the 64");

    struct buf b = {0};
    put_head(&b, 3, 1, 0);
    put_text(&b, "w");
    put(&b, 5, 4);
    put(&b, 1, 64);
    refuse(&b, "tensor w: 5 dimensions, 1 to 4 are allowed");
    put_head(&b, 3, 2, 0);
    put_tensor(&b, "w", 4, 4, 0, 0);
    put_tensor(&b, "v", 4, 1, 0, 32);
    put_data(&b, 64);
    refuse(&b, "tensors w and v overlap");
    put_head(&b, 3, 2, 0);
    put_tensor(&b, "w", 4, 1, 0, 0);
    put_tensor(&b, "w", 4, 1, 0, 32);
    put_data(&b, 64);
    refuse(&b, "tensor w occurs twice");
    put_head(&b, 3, UINT64_MAX, 0);
    refuse(&b, "the file is cut off here");
}
END_TEST

START_TEST(alignment_is_a_power_of_two)
{
    static const uint32_t bad[] = {0, 3, 48, 1u << 31};
    for (int i = 0; i < 4; i++) {
        struct buf b = {0};
        put_head(&b, 3, 0, 1);
        put_key(&b, "general.alignment", GGUF_U32);
        put(&b, bad[i], 4);
        refuse(&b, "general.alignment is");
    }
    struct buf b = {0};
    put_head(&b, 3, 1, 1);
    put_key(&b, "general.alignment", GGUF_U32);
    put(&b, 8, 4);
    put_tensor(&b, "w", 1, 1, 0, 8);
    while (b.len % 8)
        buf_char(&b, 0);
    put(&b, 0, 12);
    struct error e = {0};
    ck_assert_msg(read_buf(&b, b.len, &e) == ERR_OK, "%s", e.text);
    buf_free(&b);
}
END_TEST

/* ---- the vocabulary */

struct words {
    const char *token[4], *merge[2];
    int32_t type[4];
};

static enum err read_vocab(const struct words *w, uint32_t n_ids, struct vocab *v, struct error *e)
{
    struct buf b = {0};
    uint64_t n = 0, merges = 0;
    while (n < 4 && w->token[n])
        n++;
    while (merges < 2 && w->merge[merges])
        merges++;
    put_head(&b, 3, 0, 3);
    put_array(&b, "tokenizer.ggml.tokens", GGUF_STRING, n);
    for (uint64_t i = 0; i < n; i++)
        put_text(&b, w->token[i]);
    put_array(&b, "tokenizer.ggml.token_type", GGUF_I32, n);
    for (uint64_t i = 0; i < n; i++)
        put(&b, (uint64_t)w->type[i], 4);
    put_array(&b, "tokenizer.ggml.merges", GGUF_STRING, merges);
    for (uint64_t i = 0; i < merges; i++)
        put_text(&b, w->merge[i]);
    struct gguf g;
    struct tensors t = {0};
    enum err rc = gguf_read((const uint8_t *)b.data, b.len, "f", &g, &t, e);
    ck_assert_int_eq(rc, ERR_OK);
    rc = vocab_from_gguf(&g, n_ids, v, e);
    gguf_free(&g);
    tensors_free(&t);
    buf_free(&b);
    return rc;
}

START_TEST(vocabulary_is_decoded)
{
    const struct words w = {
        .token = {"\u0120", "a", "\u0120a", "<|x|>"}, .type = {1, 1, 1, 3}, .merge = {"\u0120 a"}};
    struct vocab v;
    struct error e = {0};
    ck_assert_msg(!read_vocab(&w, 6, &v, &e), "%s", e.text);
    ck_assert_uint_eq(v.n, 6);
    ck_assert(v.tokens[2].len == 2 && !memcmp(v.tokens[2].bytes, " a", 2) && !v.tokens[2].special);
    ck_assert(v.tokens[3].len == 5 && v.tokens[3].special);
    ck_assert(!v.tokens[4].bytes && !v.tokens[5].bytes);
    ck_assert(v.n_merges == 1 && v.merges[0][0] == 0 && v.merges[0][1] == 1);
    vocab_free(&v);
}
END_TEST

START_TEST(vocabulary_types)
{
    const struct words w = {.token = {"[PAD]", "<|end|>", "<|other|>", "<0x41>"},
                            .type = {5, 1, 4, 6}};
    struct vocab v;
    struct error e = {0};
    ck_assert_msg(!read_vocab(&w, 4, &v, &e), "%s", e.text);
    ck_assert_ptr_null(v.tokens[0].bytes);
    ck_assert(v.tokens[1].special); /* by its name */
    ck_assert(v.tokens[2].special); /* user-defined */
    ck_assert_ptr_null(v.tokens[3].bytes);
    vocab_free(&v);
}
END_TEST

static const struct {
    struct words words;
    uint32_t n_ids;
    const char *says;
} bad_words[] = {
    {{.token = {"a", "b"}, .type = {1, 1}}, 1, "tokens has 2 entries, the model has ids below 1"},
    {{.token = {""}, .type = {1}}, 4, "tokens[0] has 0 bytes"},
    {{.token = {"a", "\n"}, .type = {1, 1}}, 4, "tokens[1] is not in the byte-level alphabet"},
    {{.token = {"a", "\xff"}, .type = {1, 1}}, 4, "tokens[1] is not in the byte-level alphabet"},
    {{.token = {"a", "b"}, .type = {1, 1}, .merge = {"a c"}}, 4, "merges[0] \"a c\" is not a pair"},
    {{.token = {"a", "b"}, .type = {1, 1}, .merge = {"a b", "ab"}}, 4, "merges[1] \"ab\""},
    {{.token = {"a", "b"}, .type = {1, 3}, .merge = {"a b"}}, 4, "merges[0]"},
};

START_TEST(bad_vocabulary_is_refused)
{
    struct vocab v;
    struct error e = {0};
    enum err rc = read_vocab(&bad_words[_i].words, bad_words[_i].n_ids, &v, &e);
    ck_assert_msg(rc != ERR_OK && strstr(e.text, bad_words[_i].says),
                  "wanted \"%s\", got %d \"%s\"", bad_words[_i].says, rc, e.text);
}
END_TEST

START_TEST(vocabulary_keys_of_the_wrong_kind)
{
    struct buf b = {0};
    put_head(&b, 3, 0, 1);
    put_array(&b, "tokenizer.ggml.tokens", GGUF_U8, 0);
    struct gguf g;
    struct tensors t = {0};
    struct vocab v;
    struct error e = {0};
    ck_assert_int_eq(gguf_read((const uint8_t *)b.data, b.len, "f", &g, &t, &e), ERR_OK);
    ck_assert_int_eq(vocab_from_gguf(&g, 1, &v, &e), ERR_INVAL);
    ck_assert_str_eq(e.text, "tokenizer.ggml.tokens: an array of strings is expected");
    gguf_free(&g);
    struct gguf empty = {0};
    struct error none = {0};
    ck_assert_int_eq(vocab_from_gguf(&empty, 1, &v, &none), ERR_NOTFOUND);
    ck_assert_str_eq(none.text, "tokenizer.ggml.tokens is missing");
    buf_free(&b);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("gguf");
    TCase *t = tcase_create("gguf");
    tcase_add_test(t, reads_keys_and_tensors);
    tcase_add_test(t, a_file_cut_anywhere_is_refused);
    tcase_add_test(t, versions_and_strangers);
    tcase_add_test(t, keys_that_lie);
    tcase_add_test(t, tensors_that_lie);
    tcase_add_test(t, alignment_is_a_power_of_two);
    tcase_add_test(t, vocabulary_is_decoded);
    tcase_add_test(t, vocabulary_types);
    tcase_add_loop_test(t, bad_vocabulary_is_refused, 0, sizeof bad_words / sizeof *bad_words);
    tcase_add_test(t, vocabulary_keys_of_the_wrong_kind);
    suite_add_tcase(s, t);
    return tap_run(s);
}
