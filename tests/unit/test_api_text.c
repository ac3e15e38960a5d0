/* test_api_text.c - what POST /v1/completions accepts, and how it says no. */
#include "server/call.h"

#include "tests/unit/service.h"
#include "tests/unit/tap.h"

#include <string.h>

struct refusal {
    const char *body;
    int status;
    const char *code, *param;
};

static const struct refusal refusals[] = {
    {"{}", 400, "missing_required_parameter", "prompt"},
    {"{\"prompt\":null}", 400, "missing_required_parameter", "prompt"},
    {"{\"prompt\":\"\"}", 400, "invalid_value", "prompt"},
    {"{\"prompt\":[]}", 400, "empty_array", "prompt"},
    {"{\"prompt\":[[]]}", 400, "empty_array", "prompt[0]"},
    {"{\"prompt\":5}", 400, "invalid_type", "prompt"},
    {"{\"prompt\":[\"a\",5]}", 400, "invalid_type", "prompt[1]"},
    {"{\"prompt\":[1,\"a\"]}", 400, "invalid_type", "prompt"},
    {"{\"prompt\":[[1],\"a\"]}", 400, "invalid_type", "prompt[1]"},
    {"{\"prompt\":[-1]}", 400, "invalid_value", "prompt"},
    {"{\"prompt\":[1,99999]}", 400, "invalid_value", "prompt"},
    {"{\"prompt\":\"a\",\"max_tokens\":-1}", 400, "integer_below_min_value", "max_tokens"},
    {"{\"prompt\":\"a\",\"logprobs\":true}", 400, "invalid_type", "logprobs"},
    {"{\"prompt\":\"a\",\"logprobs\":21}", 400, "integer_above_max_value", "logprobs"},
    {"{\"prompt\":\"a\",\"echo\":true,\"logprobs\":1}", 400, "unsupported_value", "logprobs"},
    {"{\"prompt\":\"a\",\"best_of\":2}", 400, "unsupported_value", "best_of"},
    {"{\"prompt\":\"a\",\"suffix\":\"b\"}", 400, "unsupported_parameter", "suffix"},
    {"{\"prompt\":[\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\",\"h\",\"i\"],\"n\":128}", 400,
     "invalid_value", "n"},
    {"{\"prompt\":\"a\",\"model\":\"x\"}", 404, "model_not_found", "model"},
    {"{\"prompt\":\"a\",\"stop\":[\"\"]}", 400, "string_below_min_length", "stop[0]"},
};

START_TEST(refuses)
{
    const struct refusal *r = &refusals[_i];
    struct service s = test_service(100);
    struct api_error e = {0};
    struct call c;
    ck_assert_msg(!api_text_parse(&s, r->body, strlen(r->body), &c, &e), "%s", r->body);
    ck_assert_msg(e.status == r->status && !strcmp(e.code, r->code) && !strcmp(e.param, r->param),
                  "%s\n gave %d %s '%s' (%s)\n want %d %s '%s'", r->body, e.status, e.code, e.param,
                  e.message, r->status, r->code, r->param);
    call_free(&c);
    test_service_free(&s);
}
END_TEST

static struct service service;
static struct call call;

static void setup(void)
{
    service = test_service(100);
}

static void teardown(void)
{
    call_free(&call);
    test_service_free(&service);
}

static void accept(const char *body)
{
    struct api_error e = {0};
    ck_assert_msg(api_text_parse(&service, body, strlen(body), &call, &e), "%s: %s", body,
                  e.message);
}

START_TEST(reads_strings)
{
    accept("{\"prompt\":[\"ab\",\"<|end|>\"]}");
    ck_assert_uint_eq(call.n_prompts, 2);
    ck_assert_uint_eq(call.prompts[0].n, 2);
    ck_assert_uint_eq(call.prompts[1].n, 1); /* a special token, not its letters */
    ck_assert_uint_eq(call.prompts[1].ids[0], tokenizer_harmony(service.tokenizer)->end);
    ck_assert_int_eq(call.max_tokens, 16);
}
END_TEST

START_TEST(reads_ids)
{
    accept("{\"prompt\":[65,66.0,67],\"max_tokens\":null}");
    ck_assert_uint_eq(call.n_prompts, 1);
    ck_assert_uint_eq(call.prompts[0].n, 3);
    ck_assert_uint_eq(call.prompts[0].ids[1], 66);
    ck_assert_int_eq(call.max_tokens, 16);
}
END_TEST

START_TEST(reads_lists_of_ids)
{
    accept("{\"prompt\":[[65],[66,67]],\"max_tokens\":0,\"echo\":true,\"best_of\":1}");
    ck_assert_uint_eq(call.n_prompts, 2);
    ck_assert_uint_eq(call.prompts[1].n, 2);
    ck_assert(call.echo);
    ck_assert_int_eq(call.max_tokens, 0);
}
END_TEST

START_TEST(a_full_context_may_be_scored_but_not_continued)
{
    struct buf body = {0};
    struct api_error e = {0};
    buf_str(&body, "{\"max_tokens\":0,\"prompt\":[65");
    for (int i = 1; i < 100; i++)
        buf_str(&body, ",65");
    buf_str(&body, "]}");
    ck_assert(api_text_parse(&service, body.data, body.len, &call, &e));
    call_free(&call);
    body.data[14] = '1';
    ck_assert(!api_text_parse(&service, body.data, body.len, &call, &e));
    ck_assert_str_eq(e.code, "context_length_exceeded");
    buf_free(&body);
}
END_TEST

START_TEST(ignore_eos_leaves_no_stop_ids)
{
    struct gen_request q;
    accept("{\"prompt\":\"a\",\"ignore_eos\":true,\"logprobs\":0}");
    call_request(&call, &service, 0, 0, &q);
    ck_assert_uint_eq(q.n_stops, 0);
    ck_assert_int_eq(q.sample.logprobs, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("api_text");
    TCase *t = tcase_create("refuses"), *a = tcase_create("accepts");
    tcase_add_loop_test(t, refuses, 0, (int)(sizeof refusals / sizeof *refusals));
    tcase_add_checked_fixture(a, setup, teardown);
    tcase_add_test(a, reads_strings);
    tcase_add_test(a, reads_ids);
    tcase_add_test(a, reads_lists_of_ids);
    tcase_add_test(a, a_full_context_may_be_scored_but_not_continued);
    tcase_add_test(a, ignore_eos_leaves_no_stop_ids);
    suite_add_tcase(s, t);
    suite_add_tcase(s, a);
    return tap_run(s);
}
