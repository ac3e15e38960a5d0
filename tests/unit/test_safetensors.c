/* test_safetensors.c - the container's rules, one file in memory at a time. */
#include "engine/safetensors.h"
#include "tests/unit/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bytes {
    uint8_t *data;
    size_t size;
};

/* A file of this header and `n` data bytes 0, 1, 2 ... Caller frees data. */
static struct bytes make(const char *header, size_t n)
{
    size_t h = strlen(header);
    struct bytes b = {calloc(1, 8 + h + n + 1), 8 + h + n};
    for (int i = 0; i < 8; i++)
        b.data[i] = (uint8_t)((uint64_t)h >> 8 * i);
    memcpy(b.data + 8, header, h);
    for (size_t i = 0; i < n; i++)
        b.data[8 + h + i] = (uint8_t)i;
    return b;
}

/* Reads an exact copy, so that a sanitizer sees a read past the end. */
static enum err read_exact(const uint8_t *data, size_t size, struct error *e)
{
    uint8_t *copy = malloc(size ? size : 1);
    memcpy(copy, data, size);
    struct tensors t = {0};
    enum err rc = safetensors_read(copy, size, "f", &t, e);
    if (!rc) rc = tensors_seal(&t, e);
    tensors_free(&t);
    free(copy);
    return rc;
}

#define GOOD                                                                                       \
    "{\"__metadata__\":{\"format\":\"pt\"},"                                                       \
    "\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"                               \
    "\"b.c\":{\"dtype\":\"BF16\",\"shape\":[2,1],\"data_offsets\":[3,7]},"                         \
    "\"s\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[7,11]}}  "

START_TEST(reads_names_shapes_and_places)
{
    struct bytes b = make(GOOD, 11);
    struct tensors t = {0};
    struct error e = {0};
    ck_assert_msg(!safetensors_read(b.data, b.size, "f", &t, &e) && !tensors_seal(&t, &e), "%s",
                  e.text);
    ck_assert_uint_eq(t.n, 3);
    const struct tensor *c = tensors_find(&t, "b.c");
    ck_assert(c && c->type == TT_BF16 && c->n_dims == 2 && c->dims[0] == 2 && c->dims[1] == 1);
    ck_assert_uint_eq(c->bytes, 4);
    ck_assert_uint_eq(c->data[0], 3); /* at an odd address: allowed */
    const struct tensor *s = tensors_find(&t, "s");
    ck_assert(s && s->n_dims == 0 && s->bytes == 4);
    ck_assert_ptr_null(tensors_find(&t, "__metadata__"));
    tensors_free(&t);
    free(b.data);
}
END_TEST

START_TEST(a_file_cut_anywhere_is_refused)
{
    struct bytes b = make(GOOD, 11);
    for (size_t n = 0; n < b.size; n++) {
        struct error e = {0};
        enum err rc = read_exact(b.data, n, &e);
        ck_assert_msg(rc == ERR_PARSE && strncmp(e.text, "f: ", 3) == 0, "%zu bytes: %d %s", n, rc,
                      e.text);
    }
    free(b.data);
}
END_TEST

#define ONE(body) "{\"w\":{" body "}}"

/* header, what the message must hold; every file has 8 data bytes */
static const struct {
    const char *header, *says;
} refused[] = {
    {"[]", "does not start with '{'"},
    {"{", "header, byte"},
    {"{\"w\":1}", "tensor w: is not an object"},
    {ONE("\"shape\":[1],\"data_offsets\":[0,4]"), "tensor w: dtype is missing"},
    {ONE("\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,4]"), "tensor w: dtype is missing"},
    {ONE("\"dtype\":\"F4\",\"shape\":[1],\"data_offsets\":[0,4]"), "tensor w: dtype F4 is unknown"},
    {ONE("\"dtype\":\"Q8_0\",\"shape\":[32],\"data_offsets\":[0,8]"), "dtype Q8_0 is unknown"},
    {ONE("\"dtype\":\"F32\",\"data_offsets\":[0,4]"), "tensor w: shape is not an array"},
    {ONE("\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]"),
     "9 dimensions, at most 8"},
    {ONE("\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]"), "dimension 0"},
    {ONE("\"dtype\":\"F32\",\"shape\":[1,1.5],\"data_offsets\":[0,4]"), "dimension 1"},
    {ONE("\"dtype\":\"F32\",\"shape\":[1]"), "data_offsets is not two"},
    {ONE("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]"), "data_offsets is not two"},
    {ONE("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,\"4\"]"), "data_offsets is not two"},
    {ONE("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]"), "[4, 0] is not inside the 8"},
    {ONE("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]"), "[-4, 0] is not inside"},
    {ONE("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[5,9]"), "[5, 9] is not inside the 8"},
    {ONE("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]"), "F32 [1] does not take 8"},
    {ONE("\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]"),
     "does not take 0 bytes"},
    {ONE("\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]"),
     "does not take 0 bytes"},
    {ONE("\"dtype\":\"U8\",\"shape\":[9223372036854775808],\"data_offsets\":[0,0]"),
     "header, byte"},
    {"{\"w\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
     "\"w\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
     "duplicate"},
    {"{\"w\":{\"dtype\":\"U8\",\"shape\":[5],\"data_offsets\":[0,5]},"
     "\"v\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[4,6]}}",
     "tensors w and v overlap"},
    {"{\"w\":{\"dtype\":\"U8\",\"shape\":[5],\"data_offsets\":[0,5]},"
     "\"v\":{\"dtype\":\"U8\",\"shape\":[5],\"data_offsets\":[0,5]}}",
     "overlap"},
};

START_TEST(what_is_wrong_is_named)
{
    struct bytes b = make(refused[_i].header, 8);
    struct error e = {0};
    enum err rc = read_exact(b.data, b.size, &e);
    ck_assert_msg(rc != ERR_OK && strstr(e.text, refused[_i].says), "%s\ngives %d \"%s\"",
                  refused[_i].header, rc, e.text);
    free(b.data);
}
END_TEST

START_TEST(a_huge_header_is_refused_before_it_is_read)
{
    uint8_t b[16] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, '{', '}'};
    struct error e = {0};
    ck_assert_int_eq(read_exact(b, sizeof b, &e), ERR_PARSE);
    ck_assert_msg(strstr(e.text, "over the limit"), "%s", e.text);
}
END_TEST

START_TEST(two_files_may_not_share_a_name)
{
    struct bytes b = make(GOOD, 11), c = make(GOOD, 11);
    struct tensors t = {0};
    struct error e = {0};
    ck_assert_int_eq(safetensors_read(b.data, b.size, "f", &t, &e), ERR_OK);
    ck_assert_int_eq(safetensors_read(c.data, c.size, "g", &t, &e), ERR_OK);
    ck_assert_int_eq(tensors_seal(&t, &e), ERR_PARSE);
    ck_assert_str_eq(e.text, "tensor a occurs twice");
    tensors_free(&t);
    free(b.data);
    free(c.data);
}
END_TEST

START_TEST(the_index_lists_files_once)
{
    static const char json[] = "{\"metadata\":{},\"weight_map\":{\"a\":\"x.safetensors\","
                               "\"b\":\"y.safetensors\",\"c\":\"x.safetensors\"}}";
    struct safetensors_index x;
    struct error e = {0};
    enum err rc = safetensors_index_read((const uint8_t *)json, sizeof json - 1, "i", &x, &e);
    ck_assert_msg(!rc, "%s", e.text);
    ck_assert_uint_eq(x.n_entries, 3);
    ck_assert_uint_eq(x.n_files, 2);
    ck_assert_str_eq(x.files[x.entries[2].file], "x.safetensors");
    safetensors_index_free(&x);
}
END_TEST

static const struct {
    const char *json, *says;
} bad_index[] = {
    {"", "i: line"},
    {"[]", "weight_map is missing"},
    {"{\"weight_map\":{}}", "weight_map is missing or empty"},
    {"{\"weight_map\":{\"a\":1}}", "a: \"\" is not a plain file name"},
    {"{\"weight_map\":{\"a\":\"\"}}", "is not a plain file name"},
    {"{\"weight_map\":{\"a\":\"../x\"}}", "\"../x\" is not a plain file name"},
    {"{\"weight_map\":{\"a\":\"/etc/x\"}}", "is not a plain file name"},
    {"{\"weight_map\":{\"a\":\"..\"}}", "is not a plain file name"},
    {"{\"weight_map\":{\"a\":\"d/x\"}}", "is not a plain file name"},
    {"{\"weight_map\":{\"a\":\"x\",\"a\":\"x\"}}", "duplicate"},
};

START_TEST(a_bad_index_is_refused)
{
    const char *json = bad_index[_i].json;
    struct safetensors_index x;
    struct error e = {0};
    enum err rc = safetensors_index_read((const uint8_t *)json, strlen(json), "i", &x, &e);
    ck_assert_msg(rc != ERR_OK && strstr(e.text, bad_index[_i].says), "%s\ngives %d \"%s\"", json,
                  rc, e.text);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("safetensors");
    TCase *t = tcase_create("safetensors");
    tcase_add_test(t, reads_names_shapes_and_places);
    tcase_add_test(t, a_file_cut_anywhere_is_refused);
    tcase_add_loop_test(t, what_is_wrong_is_named, 0, sizeof refused / sizeof *refused);
    tcase_add_test(t, a_huge_header_is_refused_before_it_is_read);
    tcase_add_test(t, two_files_may_not_share_a_name);
    tcase_add_test(t, the_index_lists_files_once);
    tcase_add_loop_test(t, a_bad_index_is_refused, 0, sizeof bad_index / sizeof *bad_index);
    suite_add_tcase(s, t);
    return tap_run(s);
}
