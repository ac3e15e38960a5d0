/* test_answer.c - from sampled tokens to what a client reads: a stream's deltas joined are the
 * whole object's texts, for every sequence of tokens and every way of cutting it into batches. */
#include "server/answer.h"

#include "tests/unit/service.h"
#include "tests/unit/tap.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

static struct service service;

static void setup(void)
{
    service = test_service(100000);
}

static void teardown(void)
{
    test_service_free(&service);
}

struct script { /* what the model says in each choice */
    struct tokens tokens[4];
    enum gen_finish finish;
};

static void script_free(struct script *s)
{
    for (int i = 0; i < 4; i++)
        tokens_free(&s->tokens[i]);
}

static struct script say(const char *text)
{
    struct script s = {.finish = FINISH_STOP};
    for (int i = 0; i < 4; i++)
        tokenizer_encode_special(service.tokenizer, text, strlen(text), &s.tokens[i]);
    return s;
}

static struct sampled sample(uint32_t token)
{
    struct sampled s = {.token = token, .logprob = -0.25f, .n_top = 2};
    s.top[0] = (struct sample_top){token, -0.25f};
    s.top[1] = (struct sample_top){(token + 1) % 256, -2.5f};
    return s;
}

/* The answer's bytes after all choices took their tokens in turn, flushed after every `every`. */
static void play(const struct call *c, const struct script *s, uint32_t every, struct buf *out)
{
    struct answer_options o = {.service = &service, .call = c, .id = "chatcmpl-t", .created = 7};
    struct answer *a = answer_new(&o);
    ck_assert_ptr_nonnull(a);
    bool over[8] = {false};
    uint32_t n = answer_choices(a), longest = 0, fed = 0;
    for (uint32_t i = 0; i < n; i++)
        if (s->tokens[i % 4].n > longest) longest = s->tokens[i % 4].n;
    for (uint32_t t = 0; t < longest; t++)
        for (uint32_t i = 0; i < n; i++) {
            if (over[i] || t >= s->tokens[i % 4].n) continue;
            struct sampled token = sample(s->tokens[i % 4].ids[t]);
            over[i] = answer_token(a, i, &token);
            if (++fed % every) continue;
            struct buf *frames = answer_frames(a);
            buf_add(out, frames->data, frames->len);
            buf_clear(frames);
        }
    for (uint32_t i = 0; i < n; i++) {
        struct gen_event end = {.end = true, .finish = over[i] ? FINISH_ABORT : s->finish};
        end.cached_tokens = 2;
        answer_end(a, i, &end);
    }
    ck_assert(answer_done(a) && !answer_error(a));
    answer_frames(a);
    answer_close(a, out);
    struct buf *frames = answer_frames(a);
    buf_add(out, frames->data, frames->len);
    ck_assert(!out->failed);
    answer_free(a);
}

static void add_text(json_t *choice, const char *key, const json_t *more)
{
    if (!json_is_string(more)) return;
    const json_t *old = json_object_get(choice, key);
    struct buf b = {0};
    if (old) buf_add(&b, json_string_value(old), json_string_length(old));
    buf_add(&b, json_string_value(more), json_string_length(more));
    json_object_set_new(choice, key, json_stringn(b.data, b.len));
    buf_free(&b);
}

static void add_list(json_t *choice, const char *key, const json_t *more)
{
    if (!json_is_array(more)) return;
    if (!json_object_get(choice, key)) json_object_set_new(choice, key, json_array());
    json_array_extend(json_object_get(choice, key), (json_t *)more);
}

static void add_calls(json_t *choice, const json_t *calls)
{
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *c = json_array_get(calls, i), *f = json_object_get(c, "function");
        const json_t *index = json_object_get(c, "index");
        char key[32];
        size_t at = index ? (size_t)json_integer_value(index) : i;
        snprintf(key, sizeof key, "call%zu.id", at);
        ck_assert(!json_object_get(c, "id") || !json_object_get(choice, key));
        add_text(choice, key, json_object_get(c, "id"));
        snprintf(key, sizeof key, "call%zu.name", at);
        add_text(choice, key, json_object_get(f, "name"));
        snprintf(key, sizeof key, "call%zu.arguments", at);
        add_text(choice, key, json_object_get(f, "arguments"));
    }
}

/* Folds a message, a delta or a text choice into one form that both can be compared in. */
static void fold(json_t *into, const json_t *c)
{
    const json_t *m = json_object_get(c, "message"), *lp = json_object_get(c, "logprobs");
    if (!m) m = json_object_get(c, "delta");
    if (!m) m = c;
    add_text(into, "content", json_object_get(m, "content"));
    add_text(into, "text", json_object_get(m, "text"));
    add_text(into, "reasoning", json_object_get(m, "reasoning"));
    add_text(into, "reasoning_content", json_object_get(m, "reasoning_content"));
    add_calls(into, json_object_get(m, "tool_calls"));
    add_list(into, "lp", json_object_get(lp, "content"));
    add_list(into, "tokens", json_object_get(lp, "tokens"));
    add_list(into, "offsets", json_object_get(lp, "text_offset"));
    if (json_is_string(json_object_get(c, "finish_reason"))) {
        json_object_set(into, "finish", json_object_get(c, "finish_reason"));
        json_object_set(into, "why", json_object_get(c, "stop_reason"));
    }
}

static json_t *slot(json_t *root, const json_t *choice)
{
    char key[16];
    snprintf(key, sizeof key, "%d", (int)json_integer_value(json_object_get(choice, "index")));
    if (!json_object_get(root, key)) json_object_set_new(root, key, json_object());
    return json_object_get(root, key);
}

/* An empty text, or an empty list, is the same as none. */
static void drop_empty(json_t *root)
{
    const char *k, *key;
    json_t *choice, *v;
    void *tmp;
    json_object_foreach(root, k, choice) json_object_foreach_safe(
        choice, tmp, key, v) if ((json_is_string(v) && !json_string_length(v)) ||
                                 (json_is_array(v) && !json_array_size(v)))
        json_object_del(choice, key);
}

static json_t *parse_one(const char *s, size_t n)
{
    json_error_t je;
    json_t *v = json_loadb(s, n, JSON_ALLOW_NUL, &je);
    ck_assert_msg(v != NULL, "%.80s in %.*s", je.text, n < 300 ? (int)n : 300, s);
    return v;
}

static json_t *fold_object(const struct buf *b, json_t **usage)
{
    json_t *o = parse_one(b->data, b->len), *root = json_object();
    json_t *choices = json_object_get(o, "choices");
    for (size_t i = 0; i < json_array_size(choices); i++)
        fold(slot(root, json_array_get(choices, i)), json_array_get(choices, i));
    *usage = json_incref(json_object_get(o, "usage"));
    json_decref(o);
    drop_empty(root);
    return root;
}

/* Checks a frame's place in the order too. */
static void fold_frame(json_t *root, const json_t *frame, bool chat)
{
    const json_t *c = json_array_get(json_object_get(frame, "choices"), 0);
    json_t *into = slot(root, c);
    const json_t *delta = json_object_get(c, "delta");
    bool first = json_object_size(into) == 0, role = json_object_get(delta, "role");
    ck_assert_msg(!chat || first == role, "role in the first frame and only there");
    ck_assert_msg(!json_object_get(into, "finish"), "a frame after the finish reason");
    if (!first && chat) {
        const json_t *text = json_object_get(delta, "content");
        ck_assert_msg(!text || json_string_length(text), "an empty delta");
    }
    fold(into, c);
    if (first) json_object_set_new(into, "begun", json_true());
}

static json_t *fold_stream(const struct buf *b, bool chat, json_t **usage)
{
    json_t *root = json_object();
    const char *p = b->data, *end;
    bool done = false;
    *usage = NULL;
    for (; (end = strstr(p, "\n\n")) != NULL; p = end + 2) {
        ck_assert_msg(!strncmp(p, "data: ", 6) && !done, "frame '%.60s'", p);
        p += 6;
        ck_assert_msg(!memchr(p, '\n', (size_t)(end - p)), "a newline in a frame");
        done = !strncmp(p, "[DONE]", 6);
        if (done) continue;
        json_t *frame = parse_one(p, (size_t)(end - p));
        if (json_array_size(json_object_get(frame, "choices")))
            fold_frame(root, frame, chat);
        else
            *usage = json_incref(json_object_get(frame, "usage"));
        json_decref(frame);
    }
    ck_assert_msg(done && !*p, "the stream ends with [DONE]");
    const char *k;
    json_t *choice;
    json_object_foreach(root, k, choice) json_object_del(choice, "begun");
    drop_empty(root);
    return root;
}

static void parse(const char *body, bool stream, struct call *c)
{
    struct api_error e = {0};
    struct buf full = {0};
    buf_printf(&full, "{%s,\"seed\":1%s}", body,
               stream ? ",\"stream\":true,\"stream_options\":{\"include_usage\":true}" : "");
    bool ok = strstr(body, "\"prompt\"") ? api_text_parse(&service, full.data, full.len, c, &e)
                                         : api_chat_parse(&service, full.data, full.len, c, &e);
    ck_assert_msg(ok, "%s", e.message);
    buf_free(&full);
}

/* The object, after every cutting of the stream was found equal to it. */
static json_t *same(const char *body, const struct script *s)
{
    struct call c;
    struct buf out = {0};
    json_t *usage, *want;
    parse(body, false, &c);
    play(&c, s, 1, &out);
    call_free(&c);
    want = fold_object(&out, &usage);
    for (uint32_t every = 1; every < 200; every = every < 8 ? every + 1 : every * 5) {
        json_t *stream_usage, *got;
        buf_clear(&out);
        parse(body, true, &c);
        play(&c, s, every, &out);
        got = fold_stream(&out, c.kind == CALL_CHAT, &stream_usage);
        call_free(&c);
        if (!json_equal(got, want) || !json_equal(usage, stream_usage)) {
            char *g = json_dumps(got, JSON_SORT_KEYS), *w = json_dumps(want, JSON_SORT_KEYS);
            ck_abort_msg("flushed every %u:\nstream %.900s\nobject %.900s", every, g, w);
        }
        json_decref(got);
        json_decref(stream_usage);
    }
    buf_free(&out);
    json_object_set_new(want, "usage", usage);
    return want;
}

static void check_json(const char *body, const char *text, const char *expected)
{
    struct script s = say(text);
    json_t *got = same(body, &s), *want = parse_one(expected, strlen(expected));
    const char *key;
    json_t *v;
    json_object_foreach(want, key, v)
    {
        json_t *have = json_object_get(json_object_get(got, "0"), key);
        if (have ? json_equal(have, v) : json_is_null(v)) continue;
        ck_abort_msg("%s of '%s': %.900s", key, text, json_dumps(got, JSON_SORT_KEYS));
    }
    json_decref(got);
    json_decref(want);
    script_free(&s);
}

#define USER   "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define THINK  "<|channel|>analysis<|message|>Think\xC3\xA9.<|end|><|start|>assistant"
#define ANSWER "<|channel|>final<|message|>"
#define TOOLS                                                                                      \
    ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"add\"}},"                         \
    "{\"type\":\"function\",\"function\":{\"name\":\"sub\"}}]"

START_TEST(text_and_reasoning)
{
    check_json(USER, THINK ANSWER "Hello <\"w\xC3\xB6rld\">\n\xF0\x9F\x8E\x89<|return|>",
               "{\"content\":\"Hello <\\\"w\xC3\xB6rld\\\">\\n\xF0\x9F\x8E\x89\","
               "\"reasoning\":\"Think\xC3\xA9.\",\"reasoning_content\":\"Think\xC3\xA9.\","
               "\"finish\":\"stop\",\"why\":null}");
    check_json(USER ",\"include_reasoning\":false", THINK ANSWER "a<|return|>",
               "{\"content\":\"a\",\"reasoning\":null}");
    check_json(USER, ANSWER "\xE2\x80\xA8half \xF0\x9F<|return|>",
               "{\"content\":\"\xE2\x80\xA8half \xEF\xBF\xBD\"}");
    check_json(USER, "no markup at all<|return|>", "{\"finish\":\"stop\"}");
}
END_TEST

START_TEST(tool_calls)
{
    check_json(USER TOOLS,
               THINK "<|channel|>commentary to=functions.add <|constrain|>json<|message|>"
                     "{\"a\": \"\xC3\xA9\"}<|call|>",
               "{\"content\":null,\"call0.name\":\"add\",\"call0.arguments\":"
               "\"{\\\"a\\\": \\\"\xC3\xA9\\\"}\",\"finish\":\"tool_calls\",\"call1.id\":null}");
    check_json(USER TOOLS ",\"ignore_eos\":true",
               "<|channel|>commentary to=functions.add<|message|>{}<|call|><|start|>assistant"
               "<|channel|>commentary to=functions.add<|message|>{\"b\":1}<|call|>",
               "{\"call0.name\":\"add\",\"call0.arguments\":\"{}\",\"call1.name\":\"add\","
               "\"call1.arguments\":\"{\\\"b\\\":1}\",\"finish\":\"tool_calls\"}");
}
END_TEST

START_TEST(cut_by_length)
{
    struct script s = say(THINK ANSWER "Half an answ");
    s.finish = FINISH_LENGTH;
    json_t *got = same(USER, &s);
    ck_assert_str_eq(json_string_value(json_object_get(json_object_get(got, "0"), "finish")),
                     "length");
    json_decref(got);
    script_free(&s);
    s = say("<|channel|>commentary to=functions.add<|message|>{\"a\"");
    s.finish = FINISH_LENGTH;
    got = same(USER TOOLS, &s);
    json_t *c = json_object_get(got, "0");
    ck_assert_str_eq(json_string_value(json_object_get(c, "finish")), "length");
    ck_assert_str_eq(json_string_value(json_object_get(c, "call0.arguments")), "{\"a\"");
    json_decref(got);
    script_free(&s);
}
END_TEST

START_TEST(stop_strings)
{
    /* only over the visible text; the longest match wins; the end is held back no further */
    check_json(USER ",\"stop\":[\"Think\",\"zz\"]", THINK ANSWER "a Think b<|return|>",
               "{\"content\":\"a \",\"reasoning\":\"Think\xC3\xA9.\",\"finish\":\"stop\","
               "\"why\":\"Think\"}");
    check_json(USER ",\"stop\":[\"<x>\",\"x>y\"]", ANSWER "1<x 2<x>y<|return|>",
               "{\"content\":\"1<x 2\",\"why\":\"<x>\"}");
    check_json(USER ",\"stop\":\"END\",\"include_stop_str_in_output\":true",
               ANSWER "go END more<|return|>", "{\"content\":\"go END\",\"why\":\"END\"}");
    check_json(USER ",\"stop\":\"abab\"", ANSWER "xababab<|return|>", "{\"content\":\"x\"}");
    check_json(USER ",\"stop\":\"abc\"", ANSWER "xab<|return|>",
               "{\"content\":\"xab\",\"why\":null}");
    check_json(USER ",\"stop\":\"\xC3\xA9t\"", ANSWER "caf\xC3\xA9 \xC3\xA9t\xC3\xA9<|return|>",
               "{\"content\":\"caf\xC3\xA9 \"}");
    check_json(USER ",\"stop_token_ids\":[120]", ANSWER "abx", "{\"content\":\"ab\",\"why\":120}");
}
END_TEST

START_TEST(logprobs_follow_their_text)
{
    struct script s = say(THINK ANSWER "h\xC3\xB6 stop");
    json_t *got = same(USER ",\"logprobs\":true,\"top_logprobs\":2,\"stop\":\"top\"", &s);
    json_t *lp = json_object_get(json_object_get(got, "0"), "lp");
    struct buf bytes = {0};
    for (size_t i = 0; i < json_array_size(lp); i++) {
        json_t *b = json_object_get(json_array_get(lp, i), "bytes");
        for (size_t k = 0; k < json_array_size(b); k++)
            buf_char(&bytes, (char)json_integer_value(json_array_get(b, k)));
        ck_assert_uint_eq(json_array_size(json_object_get(json_array_get(lp, i), "top_logprobs")),
                          2);
    }
    ck_assert_str_eq(bytes.data, "h\xC3\xB6 s"); /* content only, and nothing of the stop string */
    buf_free(&bytes);
    json_decref(got);
    script_free(&s);
}
END_TEST

START_TEST(completions)
{
    check_json("\"prompt\":\"the \",\"echo\":true", "caf\xC3\xA9<|end|>!<|return|>",
               "{\"text\":\"the caf\xC3\xA9!\",\"finish\":\"stop\"}");
    check_json("\"prompt\":\"x\",\"skip_special_tokens\":false", "a<|end|>b<|return|>",
               "{\"text\":\"a<|end|>b\"}");
    check_json("\"prompt\":\"x\",\"logprobs\":2,\"stop\":\"d\"",
               "\xC3\xB6"
               "b cd<|return|>",
               "{\"text\":\"\xC3\xB6"
               "b c\",\"tokens\":[\"\xEF\xBF\xBD\",\"\xEF\xBF\xBD\",\"b\","
               "\" \",\"c\"],\"offsets\":[0,0,1,2,3]}");
}
END_TEST

START_TEST(many_choices)
{
    struct script s = {.finish = FINISH_STOP};
    static const char *const texts[4] = {
        ANSWER "one<|return|>", THINK ANSWER "two STOP x",
        "<|channel|>commentary to=functions.add<|message|>{}<|call|>", ""};
    for (int i = 0; i < 4; i++)
        tokenizer_encode_special(service.tokenizer, texts[i], strlen(texts[i]), &s.tokens[i]);
    json_t *got = same(USER TOOLS ",\"n\":4,\"stop\":\"STOP\"", &s);
    static const char *const finish[4] = {"stop", "stop", "tool_calls", "stop"};
    for (int i = 0; i < 4; i++) {
        char key[4] = {(char)('0' + i)};
        json_t *c = json_object_get(got, key);
        ck_assert_str_eq(json_string_value(json_object_get(c, "finish")), finish[i]);
    }
    json_decref(got);
    script_free(&s);
    s = say("y<|return|>");
    got = same("\"prompt\":[\"a\",\"b\"],\"n\":2", &s);
    ck_assert_uint_eq(json_object_size(got), 5);
    json_decref(got);
    script_free(&s);
}
END_TEST

START_TEST(usage_counts_everything)
{
    struct script s = say(THINK ANSWER "ok<|return|>");
    json_t *got = same(USER, &s), *u = json_object_get(got, "usage");
    ck_assert_int_eq(json_integer_value(json_object_get(u, "completion_tokens")), s.tokens[0].n);
    json_t *d = json_object_get(u, "completion_tokens_details");
    int64_t reasoning = json_integer_value(json_object_get(d, "reasoning_tokens"));
    ck_assert_int_gt(reasoning, 5);
    ck_assert_int_lt(reasoning, s.tokens[0].n);
    d = json_object_get(u, "prompt_tokens_details");
    ck_assert_int_eq(json_integer_value(json_object_get(d, "cached_tokens")), 2);
    json_decref(got);
    script_free(&s);
}
END_TEST

/* Whatever the model says: both ways say the same. */
START_TEST(random_tokens)
{
    static const char *const bodies[] = {USER, USER TOOLS ",\"stop\":[\"a\",\"the\",\"\xC3\xA9\"]",
                                         USER TOOLS
                                         ",\"logprobs\":true,\"ignore_eos\":true,\"n\":2",
                                         "\"prompt\":\"x\",\"logprobs\":1,\"stop\":[\"aa\",\"b\"]",
                                         "\"prompt\":\"x\",\"skip_special_tokens\":false,\"n\":2"};
    uint64_t r = 88172645463325252ull + (uint64_t)_i;
    for (size_t b = 0; b < sizeof bodies / sizeof *bodies; b++) {
        struct script s = {.finish = _i % 2 ? FINISH_STOP : FINISH_LENGTH};
        for (int i = 0; i < 4; i++)
            for (int k = 0; k < 60; k++) {
                r ^= r << 13, r ^= r >> 7, r ^= r << 17;
                uint32_t special = 256 + BYTE_VOCAB_WORDS + (uint32_t)(r >> 8) % 9;
                uint32_t plain = "aabt the\xC3\xA9\xF0\x9F{}\n"[(r >> 20) % 16] & 0xff;
                uint32_t any = (uint32_t)(r >> 30) % 290, id = r % 5   ? plain
                                                               : r % 3 ? special
                                                                       : any;
                /* jansson cannot read a NUL in a key, which a map of tokens would need */
                tokens_add(&s.tokens[i], id || b < 3 ? id : 'z');
            }
        json_decref(same(bodies[b], &s));
        script_free(&s);
    }
}
END_TEST

START_TEST(an_error_of_the_engine_is_seen)
{
    struct call c;
    parse(USER, false, &c);
    struct answer_options o = {.service = &service, .call = &c, .id = "x", .created = 7};
    struct answer *a = answer_new(&o);
    struct gen_event end = {.end = true, .finish = FINISH_ERROR};
    err_set(&end.error, ERR_IO, "broken");
    answer_end(a, 0, &end);
    ck_assert(answer_done(a));
    ck_assert_str_eq(answer_error(a)->text, "broken");
    answer_free(a);
    call_free(&c);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("answer");
    TCase *t = tcase_create("answer");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, text_and_reasoning);
    tcase_add_test(t, tool_calls);
    tcase_add_test(t, cut_by_length);
    tcase_add_test(t, stop_strings);
    tcase_add_test(t, logprobs_follow_their_text);
    tcase_add_test(t, completions);
    tcase_add_test(t, many_choices);
    tcase_add_test(t, usage_counts_everything);
    tcase_add_loop_test(t, random_tokens, 0, 40);
    tcase_add_test(t, an_error_of_the_engine_is_seen);
    suite_add_tcase(s, t);
    return tap_run(s);
}
