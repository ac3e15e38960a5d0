/* test_api_chat.c - what POST /v1/chat/completions accepts, and how it says no. */
#include "server/call.h"

#include "tests/unit/service.h"
#include "tests/unit/tap.h"

#include <stdio.h>
#include <string.h>

#define USER "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"

static struct api_error parse(const char *body, size_t len, struct call *c)
{
    struct service s = test_service(2000);
    struct api_error e = {0};
    bool ok = api_chat_parse(&s, body, len, c, &e);
    ck_assert_msg(ok == !e.status, "ok %d, status %d for %s", ok, e.status, body);
    test_service_free(&s);
    return e;
}

struct refusal {
    const char *body;
    int status;
    const char *code, *param;
};

static void check_refusal(const struct refusal *r)
{
    struct call c;
    struct api_error e = parse(r->body, strlen(r->body), &c);
    call_free(&c);
    ck_assert_msg(e.status == r->status && e.code && !strcmp(e.code, r->code) &&
                      !strcmp(e.param, r->param),
                  "%s\n gave %d %s '%s' (%s)\n want %d %s '%s'", r->body, e.status, e.code, e.param,
                  e.message, r->status, r->code, r->param);
    ck_assert_msg(e.message[0] && strlen(e.message) < 500, "message of %s", r->body);
}

#define BAD(fields, code, param)                                                                   \
    {                                                                                              \
        "{" USER "," fields "}", 400, code, param                                                  \
    }

static const struct refusal bodies[] = {
    {"", 400, "invalid_json", ""},
    {"x", 400, "invalid_json", ""},
    {"[]", 400, "invalid_json", ""},
    {"{} {}", 400, "invalid_json", ""},
    {"{\"a\":NaN}", 400, "invalid_json", ""},
    {"{\"seed\":99999999999999999999}", 400, "invalid_json", ""},
    {"{\"a\":\"\\ud800\"}", 400, "invalid_json", ""},
    {"{\"a\":\"\xff\"}", 400, "invalid_json", ""},
    {"{}", 400, "missing_required_parameter", "messages"},
    {"{\"messages\":null}", 400, "missing_required_parameter", "messages"},
    {"{\"messages\":{}}", 400, "invalid_type", "messages"},
    {"{\"messages\":[]}", 400, "empty_array", "messages"},
    {"{\"model\":\"gpt\"," USER "}", 404, "model_not_found", "model"},
    {"{\"model\":5," USER "}", 400, "invalid_type", "model"},
    {"{\"model\":\"gpt\",\"temperature\":9}", 404, "model_not_found", "model"},
};

static const struct refusal fields[] = {
    BAD("\"temperature\":2.5", "decimal_above_max_value", "temperature"),
    BAD("\"temperature\":-1", "decimal_below_min_value", "temperature"),
    BAD("\"temperature\":\"1\"", "invalid_type", "temperature"),
    BAD("\"temperature\":true", "invalid_type", "temperature"),
    BAD("\"top_p\":1.01", "decimal_above_max_value", "top_p"),
    BAD("\"top_k\":-2", "integer_below_min_value", "top_k"),
    BAD("\"top_k\":1.5", "invalid_type", "top_k"),
    BAD("\"min_p\":2", "decimal_above_max_value", "min_p"),
    BAD("\"n\":0", "integer_below_min_value", "n"),
    BAD("\"n\":129", "integer_above_max_value", "n"),
    BAD("\"seed\":1.5", "invalid_type", "seed"),
    BAD("\"max_tokens\":0", "integer_below_min_value", "max_tokens"),
    BAD("\"max_tokens\":\"5\"", "invalid_type", "max_tokens"),
    BAD("\"max_completion_tokens\":-5", "integer_below_min_value", "max_completion_tokens"),
    BAD("\"min_tokens\":5,\"max_tokens\":4", "invalid_value", "min_tokens"),
    BAD("\"priority\":3000000000", "integer_above_max_value", "priority"),
    BAD("\"stream\":1", "invalid_type", "stream"),
    BAD("\"stream\":true,\"stream_options\":5", "invalid_type", "stream_options"),
    BAD("\"stream\":true,\"stream_options\":{\"include_usage\":1}", "invalid_type",
        "stream_options"),
    BAD("\"stream_options\":{\"include_usage\":true}", "invalid_value", "stream_options"),
    BAD("\"stop\":5", "invalid_type", "stop"),
    BAD("\"stop\":\"\"", "string_below_min_length", "stop"),
    BAD("\"stop\":[\"a\",7]", "invalid_type", "stop[1]"),
    BAD("\"stop\":[\"a\",\"\"]", "string_below_min_length", "stop[1]"),
    BAD("\"stop_token_ids\":[-1]", "invalid_value", "stop_token_ids[0]"),
    BAD("\"stop_token_ids\":[1,99999]", "invalid_value", "stop_token_ids[1]"),
    BAD("\"stop_token_ids\":[\"1\"]", "invalid_type", "stop_token_ids[0]"),
    BAD("\"logprobs\":1", "invalid_type", "logprobs"),
    BAD("\"top_logprobs\":2", "invalid_value", "top_logprobs"),
    BAD("\"logprobs\":true,\"top_logprobs\":21", "integer_above_max_value", "top_logprobs"),
    BAD("\"cache_salt\":\"\"", "string_below_min_length", "cache_salt"),
    BAD("\"metadata\":{\"k\":5}", "invalid_type", "metadata.k"),
    BAD("\"presence_penalty\":3", "decimal_above_max_value", "presence_penalty"),
    BAD("\"presence_penalty\":0.5", "unsupported_parameter", "presence_penalty"),
    BAD("\"frequency_penalty\":\"a\"", "invalid_type", "frequency_penalty"),
    BAD("\"repetition_penalty\":1.1", "unsupported_parameter", "repetition_penalty"),
    BAD("\"logit_bias\":{\"5\":1}", "unsupported_parameter", "logit_bias"),
    BAD("\"logit_bias\":[1]", "invalid_type", "logit_bias"),
    BAD("\"response_format\":{\"type\":\"json_object\"}", "unsupported_parameter",
        "response_format"),
    BAD("\"response_format\":{}", "missing_required_parameter", "response_format.type"),
    BAD("\"response_format\":\"text\"", "invalid_type", "response_format"),
    BAD("\"structured_outputs\":{\"regex\":\"a\"}", "unsupported_parameter", "structured_outputs"),
    BAD("\"functions\":[{\"name\":\"f\"}]", "unsupported_parameter", "functions"),
    BAD("\"audio\":{\"voice\":\"a\"}", "unsupported_parameter", "audio"),
    BAD("\"echo\":true", "unsupported_parameter", "echo"),
    BAD("\"continue_final_message\":true", "unsupported_parameter", "continue_final_message"),
    BAD("\"add_generation_prompt\":false", "unsupported_parameter", "add_generation_prompt"),
    BAD("\"prompt_logprobs\":1", "unsupported_parameter", "prompt_logprobs"),
    BAD("\"modalities\":[\"text\",\"audio\"]", "unsupported_value", "modalities"),
    BAD("\"reasoning_effort\":\"huge\"", "unsupported_value", "reasoning_effort"),
    BAD("\"reasoning_effort\":3", "invalid_type", "reasoning_effort"),
    BAD("\"reasoning\":{\"effort\":\"x\"}", "unsupported_value", "reasoning.effort"),
    BAD("\"service_tier\":\"gold\"", "invalid_value", "service_tier"),
    BAD("\"verbosity\":\"loud\"", "invalid_value", "verbosity"),
    BAD("\"parallel_tool_calls\":1", "invalid_type", "parallel_tool_calls"),
    BAD("\"tool_choice\":\"required\"", "unsupported_value", "tool_choice"),
    BAD("\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}}",
        "unsupported_value", "tool_choice"),
    BAD("\"tool_choice\":\"maybe\"", "invalid_value", "tool_choice"),
    BAD("\"tool_choice\":3", "invalid_type", "tool_choice"),
};

#define TOOL(json, code, param)                                                                    \
    {                                                                                              \
        "{" USER ",\"tools\":" json "}", 400, code, param                                          \
    }
#define FN(name) "{\"type\":\"function\",\"function\":{\"name\":\"" name "\"}}"

static const struct refusal tools[] = {
    TOOL("{}", "invalid_type", "tools"),
    TOOL("[5]", "invalid_type", "tools[0]"),
    TOOL("[{}]", "missing_required_parameter", "tools[0].type"),
    TOOL("[{\"type\":\"web_search\"}]", "unsupported_value", "tools[0].type"),
    TOOL("[{\"type\":\"function\"}]", "missing_required_parameter", "tools[0].function"),
    TOOL("[{\"type\":\"function\",\"function\":{}}]", "missing_required_parameter",
         "tools[0].function.name"),
    TOOL("[" FN("a b") "]", "invalid_value", "tools[0].function.name"),
    TOOL("[" FN("a<|end|>") "]", "invalid_value", "tools[0].function.name"),
    TOOL("[" FN("f") "," FN("f") "]", "invalid_value", "tools[1].function.name"),
    TOOL("[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":5}}]",
         "invalid_function_parameters", "tools[0].function.parameters"),
};

#define MSG(json, code, param)                                                                     \
    {                                                                                              \
        "{\"messages\":[" json "]}", 400, code, param                                              \
    }

static const struct refusal messages[] = {
    MSG("5", "invalid_type", "messages[0]"),
    MSG("{}", "missing_required_parameter", "messages[0].role"),
    MSG("{\"role\":5}", "invalid_type", "messages[0].role"),
    MSG("{\"role\":\"bot\",\"content\":\"\"}", "invalid_value", "messages[0].role"),
    MSG("{\"role\":\"user\"}", "missing_required_parameter", "messages[0].content"),
    MSG("{\"role\":\"user\",\"content\":null}", "missing_required_parameter",
        "messages[0].content"),
    MSG("{\"role\":\"user\",\"content\":5}", "invalid_type", "messages[0].content"),
    MSG("{\"role\":\"user\",\"content\":[5]}", "invalid_type", "messages[0].content[0]"),
    MSG("{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}", "unsupported_value",
        "messages[0].content[0].type"),
    MSG("{\"role\":\"user\",\"content\":[{\"type\":\"zzz\"}]}", "invalid_value",
        "messages[0].content[0].type"),
    MSG("{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}", "missing_required_parameter",
        "messages[0].content[0].text"),
    MSG("{\"role\":\"user\",\"content\":[{\"text\":5}]}", "invalid_type",
        "messages[0].content[0].text"),
    MSG("{\"role\":\"assistant\",\"tool_calls\":5}", "invalid_type", "messages[0].tool_calls"),
    MSG("{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"a\"}]}", "missing_required_parameter",
        "messages[0].tool_calls[0].function"),
    MSG("{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"a\",\"function\":{}}]}",
        "missing_required_parameter", "messages[0].tool_calls[0].function.name"),
    MSG("{\"role\":\"tool\",\"content\":\"x\"}", "missing_required_parameter",
        "messages[0].tool_call_id"),
    MSG("{\"role\":\"user\",\"content\":\"\"},{\"role\":\"tool\",\"content\":\"x\","
        "\"tool_call_id\":\"zz\"}",
        "invalid_value", "messages[1].tool_call_id"),
    MSG("{\"role\":\"user\",\"content\":\"a\",\"name\":null},{\"role\":\"tool\"}",
        "missing_required_parameter", "messages[1].content"),
};

#define EACH(table) (int)(sizeof table / sizeof *table)

START_TEST(refuses_bodies)
{
    check_refusal(&bodies[_i]);
}
END_TEST

START_TEST(refuses_fields)
{
    check_refusal(&fields[_i]);
}
END_TEST

START_TEST(refuses_tools)
{
    check_refusal(&tools[_i]);
}
END_TEST

START_TEST(refuses_messages)
{
    check_refusal(&messages[_i]);
}
END_TEST

/* Each of these is what some client sends; none may be refused. */
static const char *const neutral[] = {
    "\"model\":\"alias\"",
    "\"model\":null",
    "\"temperature\":null,\"max_tokens\":null,\"tools\":null,\"stop\":null,\"logprobs\":null",
    "\"logit_bias\":{},\"functions\":[],\"tools\":[],\"presence_penalty\":0,\"audio\":null",
    "\"frequency_penalty\":0.0,\"repetition_penalty\":1,\"structured_outputs\":{}",
    "\"response_format\":{\"type\":\"text\"},\"modalities\":[\"text\"]",
    "\"stream_options\":{},\"stream\":false",
    "\"user\":\"u\",\"store\":true,\"metadata\":{\"a\":\"b\"},\"service_tier\":\"auto\"",
    "\"prompt_cache_key\":\"k\",\"safety_identifier\":\"s\",\"verbosity\":\"low\"",
    "\"chat_template_kwargs\":{\"enable_thinking\":true,\"model_identity\":\"I\"}",
    "\"reasoning_effort\":\"none\",\"parallel_tool_calls\":false,\"tool_choice\":\"auto\"",
    "\"max_tokens\":100.0,\"seed\":-1,\"top_k\":-1,\"unheard_of\":[1,2]",
    "\"function_call\":\"auto\",\"echo\":false,\"add_generation_prompt\":true",
};

START_TEST(accepts_neutral)
{
    char body[512];
    struct call c;
    snprintf(body, sizeof body, "{" USER ",%s}", neutral[_i]);
    struct api_error e = parse(body, strlen(body), &c);
    ck_assert_msg(!e.status, "%s: %s", body, e.message);
    ck_assert_uint_eq(c.n_prompts, 1);
    ck_assert_uint_gt(c.prompts[0].n, 10);
    call_free(&c);
}
END_TEST

START_TEST(reads_every_field)
{
    static const char body[] =
        "{" USER ",\"temperature\":0.001,\"top_p\":0.9,\"top_k\":40,\"min_p\":0.05,\"seed\":7,"
        "\"n\":3,\"max_tokens\":5,\"max_completion_tokens\":9,\"min_tokens\":2,\"priority\":-4,"
        "\"stream\":true,\"stream_options\":{\"include_usage\":true,"
        "\"continuous_usage_stats\":true,\"include_obfuscation\":false},"
        "\"stop\":[\"a\",\"b\\u0000c\"],\"stop_token_ids\":[65],\"ignore_eos\":false,"
        "\"logprobs\":true,\"top_logprobs\":4,\"reasoning_effort\":\"xhigh\",\"x\":1,\"y\":2,"
        "\"include_reasoning\":false,\"cache_salt\":\"s\",\"include_stop_str_in_output\":true}";
    struct call c;
    struct api_error e = parse(body, sizeof body - 1, &c);
    /* a stop string cannot hold U+0000 */
    ck_assert_str_eq(e.param, "stop[1]");
    call_free(&c);
    char *good = strdup(body);
    memcpy(strstr(good, "b\\u0000c"), "bcdefghi", 8);
    e = parse(good, strlen(good), &c);
    free(good);
    ck_assert_msg(!e.status, "%s", e.message);
    struct gen_request q;
    struct service s = test_service(2000);
    call_request(&c, &s, 0, 0, &q);
    ck_assert_double_eq_tol(q.sample.temperature, 0.01, 1e-6);
    ck_assert_double_eq_tol(q.sample.top_p, 0.9, 1e-6);
    ck_assert_double_eq_tol(q.sample.min_p, 0.05, 1e-6);
    ck_assert_uint_eq(q.sample.top_k, 40);
    ck_assert_uint_eq(q.sample.seed, 7);
    ck_assert_int_eq(q.sample.logprobs, 4);
    ck_assert_uint_eq(q.max_tokens, 9);
    ck_assert_uint_eq(q.min_tokens, 2);
    ck_assert_int_eq(q.priority, -4);
    ck_assert_uint_ne(q.cache_salt, 0);
    ck_assert_uint_eq(q.n_stops, 4);
    ck_assert_uint_eq(q.stops[3], 65);
    ck_assert(c.stream && c.include_usage && c.continuous_usage && c.include_stop);
    ck_assert(!c.include_reasoning);
    ck_assert_int_eq(c.effort, EFFORT_HIGH);
    ck_assert_uint_eq(c.n_stops, 2);
    ck_assert_uint_eq(c.stops[1].len, 8);
    ck_assert_uint_eq(c.unknown_fields, 2);
    struct gen_request second;
    call_request(&c, &s, 0, 1, &second);
    ck_assert_uint_ne(second.sample.seed, q.sample.seed);
    call_free(&c);
    test_service_free(&s);
}
END_TEST

/* The prompt that a body makes, as text. */
static void check_prompt(const char *body, const char *has, const char *lacks)
{
    struct service s = test_service(2000);
    struct api_error e = {0};
    struct call c;
    char text[4096] = "";
    ck_assert_msg(api_chat_parse(&s, body, strlen(body), &c, &e), "%s", e.message);
    for (uint32_t i = 0; i < c.prompts[0].n; i++) {
        uint32_t len;
        const char *p = tokenizer_bytes(s.tokenizer, c.prompts[0].ids[i], &len);
        strncat(text, p, len);
    }
    ck_assert_msg(strstr(text, has) != NULL, "no '%s' in %s", has, text);
    if (lacks) ck_assert_msg(!strstr(text, lacks), "'%s' in %s", lacks, text);
    call_free(&c);
    test_service_free(&s);
}

START_TEST(renders_messages)
{
    check_prompt("{" USER "}", "Current date: 2025-06-28", "# Tools");
    check_prompt("{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":"
                 "\"a\"},{\"text\":\"b\"},{\"type\":\"input_text\",\"text\":\"c\"}]}]}",
                 "<|message|>abc<|end|>", NULL);
    check_prompt("{\"messages\":[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\","
                 "\"content\":null,\"tool_calls\":[],\"reasoning\":\"\"},{\"role\":\"user\","
                 "\"content\":\"r\"}]}",
                 "q<|end|><|start|>user", NULL);
    check_prompt("{\"messages\":[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\","
                 "\"reasoning_content\":\"why\",\"tool_calls\":[{\"id\":\"c1\",\"type\":"
                 "\"function\",\"function\":{\"name\":\"f\",\"arguments\":{\"a\":[1,2]}}}]},"
                 "{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"out\"}]}",
                 "{\"a\":[1,2]}<|call|><|start|>functions.f to=assistant", NULL);
    check_prompt("{\"messages\":[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"function\","
                 "\"name\":\"g\",\"content\":\"out\"}]}",
                 "functions.g to=assistant", NULL);
}
END_TEST

START_TEST(tools_and_tool_choice)
{
    check_prompt("{" USER ",\"tools\":[" FN("f") "]}", "type f = () => any;", NULL);
    check_prompt("{" USER ",\"tools\":[" FN("f") "],\"tool_choice\":\"none\"}", "<|start|>user",
                 "type f");
}
END_TEST

START_TEST(context_is_checked)
{
    struct buf body = {0};
    buf_str(&body, "{\"max_tokens\":7,\"messages\":[{\"role\":\"user\",\"content\":\"");
    for (int i = 0; i < 2500; i++)
        buf_char(&body, (char)('a' + i * 7 % 26));
    buf_str(&body, "\"}]}");
    struct call c;
    struct api_error e = parse(body.data, body.len, &c);
    ck_assert_str_eq(e.code, "context_length_exceeded");
    ck_assert_str_eq(e.param, "messages");
    ck_assert_msg(strstr(e.message, "maximum context length is 2000 tokens") != NULL, "%s",
                  e.message);
    ck_assert_msg(strstr(e.message, "asks for 7 output tokens") != NULL, "%s", e.message);
    call_free(&c);
    buf_free(&body);
}
END_TEST

START_TEST(error_object_has_four_keys)
{
    struct api_error e = {0};
    struct buf out = {0};
    api_fail(&e, 400, "invalid_value", NULL, "a \"quote\" and half a character \xc3");
    api_fail(&e, 500, "internal_error", "x", "the first one stands");
    api_error_json(&e, &out);
    ck_assert_str_eq(out.data, "{\"error\":{\"message\":\"a \\\"quote\\\" and half a character "
                               "\xEF\xBF\xBD\",\"type\":\"invalid_request_error\",\"param\":null,"
                               "\"code\":\"invalid_value\"}}");
    buf_free(&out);
}
END_TEST

START_TEST(depth_and_size_are_bounded)
{
    struct buf body = {0};
    struct call c;
    buf_str(&body, "{\"x\":");
    for (int i = 0; i < 128; i++)
        buf_char(&body, '[');
    struct api_error e = parse(body.data, body.len, &c);
    ck_assert_msg(strstr(e.message, "deeper") != NULL, "%s", e.message);
    call_free(&c);
    buf_clear(&body);
    buf_str(&body, "{\"x\":[0");
    for (int i = 0; i < 1000001; i++)
        buf_str(&body, ",0");
    e = parse(body.data, body.len, &c);
    ck_assert_msg(strstr(e.message, "values") != NULL, "%s", e.message);
    call_free(&c);
    buf_free(&body);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("api_chat");
    TCase *t = tcase_create("chat");
    tcase_add_loop_test(t, refuses_bodies, 0, EACH(bodies));
    tcase_add_loop_test(t, refuses_fields, 0, EACH(fields));
    tcase_add_loop_test(t, refuses_tools, 0, EACH(tools));
    tcase_add_loop_test(t, refuses_messages, 0, EACH(messages));
    tcase_add_loop_test(t, accepts_neutral, 0, EACH(neutral));
    tcase_add_test(t, reads_every_field);
    tcase_add_test(t, renders_messages);
    tcase_add_test(t, tools_and_tool_choice);
    tcase_add_test(t, context_is_checked);
    tcase_add_test(t, error_object_has_four_keys);
    tcase_add_test(t, depth_and_size_are_bounded);
    suite_add_tcase(s, t);
    return tap_run(s);
}
