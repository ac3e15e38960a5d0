/* test_harmony_parse.c - what sampled ids become: good, odd and random ones. */
#include "engine/harmony.h"

#include "base/utf8.h"
#include "tests/byte_vocab.h"
#include "tests/unit/tap.h"

#include <stdio.h>

static const char *const tools[] = {"f", "get_weather", "fs.read"};

struct transcript { /* [c]ontent [r]easoning [name( arguments )], pieces of a kind joined */
    struct buf text;
    int kind;
    bool bad_utf8;
};

static void note(void *arg, const struct harmony_delta *d)
{
    struct transcript *t = arg;
    t->bad_utf8 |= !utf8_valid(d->text, d->len);
    if (d->kind == HARMONY_CALL_BEGIN)
        buf_str(&t->text, "[");
    else if (d->kind == HARMONY_CONTENT && t->kind != HARMONY_CONTENT)
        buf_str(&t->text, "[c]");
    else if (d->kind == HARMONY_REASONING && t->kind != HARMONY_REASONING)
        buf_str(&t->text, "[r]");
    buf_add(&t->text, d->text, d->len);
    if (d->kind == HARMONY_CALL_BEGIN) buf_str(&t->text, "(");
    if (d->kind == HARMONY_CALL_END) buf_str(&t->text, ")]");
    t->kind = (int)d->kind;
}

struct run {
    struct transcript out;
    uint32_t reasoning_tokens, calls, anomalies;
};

/* Feeds the text, with control tokens by name, as one id a byte. Stops where the parser says so,
 * with "[stop]". */
static struct run parse(const char *s, uint32_t n_tools)
{
    struct tokenizer *t = byte_tokenizer();
    struct tokens ids = {0};
    struct run r = {.out.kind = -1};
    tokenizer_encode_special(t, s, strlen(s), &ids);
    struct harmony_parser_options o = {tools, n_tools, note, &r.out};
    struct harmony_parser *p = harmony_parser_new(t, &o);
    buf_str(&r.out.text, "");
    for (uint32_t i = 0; i < ids.n; i++) {
        if (!harmony_feed(p, ids.ids[i])) continue;
        buf_str(&r.out.text, "[stop]");
        break;
    }
    harmony_finish(p);
    harmony_finish(p);
    ck_assert(!r.out.bad_utf8 && !r.out.text.failed);
    r.reasoning_tokens = harmony_reasoning_tokens(p);
    r.calls = harmony_calls(p);
    r.anomalies = harmony_anomalies(p);
    harmony_parser_free(p);
    tokens_free(&ids);
    tokenizer_free(t);
    return r;
}

#define CH   "<|channel|>"
#define MSG  "<|message|>"
#define END  "<|end|>"
#define RET  "<|return|>"
#define CALL "<|call|>"
#define NEXT "<|start|>assistant"
#define TYPE "<|constrain|>"

static const struct {
    const char *sampled, *text;
    uint32_t calls;
    bool odd; /* counted as an anomaly */
} cases[] = {
    /* as trained */
    {CH "final" MSG "40 + 2 = 42." RET, "[c]40 + 2 = 42.", 0, 0},
    {CH "analysis" MSG "think" END NEXT CH "final" MSG "say" RET, "[r]think[c]say", 0, 0},
    {CH "commentary to=functions.f " TYPE "json" MSG "{\"a\":1}" CALL, "[f({\"a\":1})]", 1, 0},
    {" to=functions.f" CH "commentary " TYPE "json" MSG "{}" CALL, "[f({})]", 1, 0},
    {CH "commentary to=f json" MSG "{}" CALL, "[f({})]", 1, 0},
    {CH "commentary" MSG "Let me look." END NEXT CH "commentary to=functions.f" MSG "{}" CALL,
     "[c]Let me look.[f({})]", 1, 0},
    {CH "final " TYPE "json" MSG "{\"x\":2}" RET, "[c]{\"x\":2}", 0, 0},
    /* joins, between messages of one kind only */
    {CH "analysis" MSG "a" END NEXT CH "analysis" MSG "b" END NEXT CH "final" MSG "c" RET,
     "[r]a\nb[c]c", 0, 0},
    {CH "commentary" MSG "a" END NEXT CH "analysis" MSG "r" END NEXT CH "final" MSG "b" RET,
     "[c]a[r]r[c]\n\nb", 0, 0},
    {CH "analysis" MSG "" END NEXT CH "analysis" MSG "b" END NEXT CH "analysis" MSG END, "[r]b", 0,
     0},
    /* cut short */
    {CH "final" MSG "half a \xE2\x82", "[c]half a \xEF\xBF\xBD", 0, 0},
    {CH "commentary to=functions.f" MSG "{\"a\"", "[f({\"a\")]", 0, 0},
    {CH "commentary to=functions.f", "", 0, 0},
    {CH "fin", "[r]fin", 0, 1},
    {"", "", 0, 0},
    {CH, "", 0, 0},
    /* bytes stay in their message */
    {CH "analysis" MSG "a\xE2\x82" END NEXT CH "final" MSG "\xAC" RET,
     "[r]a\xEF\xBF\xBD[c]\xEF\xBF\xBD", 0, 0},
    /* no markup at all */
    {"Hello there", "[c]Hello there", 0, 1},
    {"to be or not", "[c]to be or not", 0, 1},
    {" assistants help", "[c] assistants help", 0, 1},
    {"json is a format" RET, "[c]json is a format", 0, 1},
    {"to", "[c]to", 0, 1},
    {"Hi" CH "final" MSG "Hello" RET, "[c]Hi\n\nHello", 0, 1},
    {CH "analysis" MSG "r" END "Hello" RET, "[r]r[c]Hello", 0, 1},
    {CH "analysis" MSG "r" END "assistant" CH "final" MSG "Hello" RET, "[r]r[c]Hello", 0, 0},
    {CH "analysis" MSG "r" END "\n" NEXT CH "final" MSG "Hello" RET, "[r]r[c]Hello", 0, 0},
    {CH "analysis" MSG "r" END MSG "Hello" RET, "[r]r[c]Hello", 0, 1},
    /* odd channels */
    {CH "commentary?commentary?" MSG "x" END, "[c]x", 0, 0},
    {CH "Final??" MSG "x" END, "[c]x", 0, 0},
    {CH "??" MSG "x" END, "[r]x", 0, 1},
    {CH MSG "x" END, "[r]x", 0, 1},
    {CH "I think so" MSG "x" END, "[r]I think so\nx", 0, 1},
    {MSG "x" END, "[c]x", 0, 1},
    {CH "commentary to=assistant" CH "analysis" MSG "x" END, "[r]x", 0, 0},
    {CH "final" CH "??" MSG "x" END, "[c]x", 0, 0},
    {CH "commentary Hello  there" MSG "x" END, "[c]Hello  there\n\nx", 0, 1},
    {CH "commentary to=functions.f Hello" MSG "{}" CALL, "[r]Hello[f({})]", 1, 1},
    {CH "final " TYPE "markdown" MSG "x" RET, "[c]x", 0, 0},
    {CH "analysis code" MSG "x" END, "[r]x", 0, 0},
    /* odd recipients */
    {CH "analysis to=functions.f" TYPE " json" MSG "{}" CALL, "[f({})]", 1, 0},
    {CH "commentaryto= functions.f" MSG "{}" CALL, "[f({})]", 1, 0},
    {CH "commentary to=functions.functions.f" MSG "{}" CALL, "[f({})]", 1, 0},
    {CH "commentary to=Get_Weather" MSG "{}" CALL, "[get_weather({})]", 1, 0},
    {CH "commentary to=functions.fs_read_54e2a4" MSG "{}" CALL, "[fs.read({})]", 1, 0},
    {CH "commentary to=functions.fs.read" MSG "{}" CALL, "[fs.read({})]", 1, 0},
    {CH "commentary to=container.exec" MSG "{}" CALL, "[container.exec({})]", 1, 1},
    {CH "commentary to=functions.nope" MSG "{}" CALL, "[nope({})]", 1, 1},
    {CH "commentary to=all" MSG "x" END, "[c]x", 0, 0},
    {CH "commentary to=functions.f" MSG "{}" END NEXT CH "commentary to=functions.f" MSG "1" CALL,
     "[f({})][f(1)]", 2, 0},
    /* <|message|> forgotten */
    {CH "final Hello  you" RET, "[c]Hello  you", 0, 1},
    {CH "final42" RET, "[c]42", 0, 1},
    {CH "analysis" END NEXT CH "final" MSG "x" RET, "[c]x", 0, 0},
    {CH "commentary to=functions.f " TYPE "json{\"a\":1}" CALL, "[f({\"a\":1})]", 1, 1},
    {CH "commentary to=functions.f{\"a\": 1}" CALL, "[f({\"a\": 1})]", 1, 1},
    {CH "commentary to=functions.f" CALL, "[f()]", 1, 1},
    {CH "commentary to=functions.f" END, "", 0, 0},
    {CH "final I say " NEXT CH "final" MSG "x" RET, "[c]I say [stop]", 0, 1},
    /* starts in odd places */
    {"<|start|>" NEXT CH "final" MSG "x" RET, "[c]x", 0, 0},
    {NEXT "assistant" CH "final" MSG "x" RET, "[c]x", 0, 0},
    {CH "analysis" MSG "r" NEXT CH "final" MSG "x" RET, "[r]r[c]x", 0, 1},
    {CH "analysis" MSG "r" CH "final" MSG "x" RET, "[r]r[c]x", 0, 1},
    /* stray control tokens */
    {CH "final" MSG "a" MSG "b" TYPE "c<|reserved|>d" RET, "[c]abcd", 0, 1},
    {CH "fi<|reserved|>nal" MSG "x" RET RET CALL "<|endoftext|>", "[c]x", 0, 1},
    {CH "final" MSG "x<|endoftext|>", "[c]x", 0, 0},
    /* the model speaks for others, or twice */
    {CH "final" MSG "x" END "<|start|>user" MSG "more", "[c]x[stop]", 0, 1},
    {CH "analysis" MSG "r" END "<|start|>functions.f to=assistant" CH "commentary" MSG "42",
     "[r]r[stop]", 0, 1},
    {"<|start|>python to=assistant" CH "analysis" MSG "42", "[stop]", 0, 1},
    {"<|start|>user:bob" END, "[stop]", 0, 1},
    {CH "final" MSG "x" END NEXT CH "final" MSG "y" RET, "[c]x[stop]", 0, 1},
    {CH "final" MSG END NEXT CH "final" MSG "y" RET, "[c]y", 0, 0},
    {CH "final" MSG "x" END NEXT CH "final y" RET, "[c]x[stop]", 0, 1},
    {CH "final" MSG "x" RET "\n\nand", "[c]x[stop]", 0, 1},
    {CH "final" MSG "x" RET "\n\n" NEXT CH "analysis" MSG "r", "[c]x[r]r", 0, 0},
    {"<|start|>hello" MSG "x" END, "[c]hello\n\nx", 0, 1},
};

START_TEST(cases_with_tools)
{
    struct run r = parse(cases[_i].sampled, 3);
    ck_assert_str_eq(r.out.text.data, cases[_i].text);
    ck_assert_uint_eq(r.calls, cases[_i].calls);
    ck_assert_msg((r.anomalies > 0) == cases[_i].odd, "%s: %u anomalies", cases[_i].sampled,
                  r.anomalies);
    buf_free(&r.out.text);
}
END_TEST

START_TEST(without_tools_a_call_is_reasoning)
{
    struct run r = parse(CH "commentary to=functions.f" MSG "{}" CALL, 0);
    ck_assert_str_eq(r.out.text.data, "[r]{}");
    ck_assert_uint_eq(r.calls, 0);
    buf_free(&r.out.text);
}
END_TEST

START_TEST(overlong_header_becomes_text)
{
    struct buf s = {0};
    buf_str(&s, CH "final ");
    for (int i = 0; i < 100; i++)
        buf_printf(&s, "word%d ", i);
    struct run r = parse(s.data, 0);
    ck_assert_str_eq(r.out.text.data + 3, s.data + strlen(CH "final "));
    buf_free(&r.out.text);
    buf_clear(&s);
    for (int i = 0; i < 100; i++)
        buf_str(&s, CH);
    buf_str(&s, "x");
    r = parse(s.data, 0);
    ck_assert_str_eq(r.out.text.data, "[r]x");
    buf_free(&r.out.text);
    buf_free(&s);
}
END_TEST

START_TEST(reasoning_tokens_from_header_to_end)
{
    /* <|channel|> analysis <|message|> r r <|end|>, one id a byte */
    struct run r = parse(CH "analysis" MSG "rr" END NEXT CH "final" MSG "x" RET, 0);
    ck_assert_uint_eq(r.reasoning_tokens, 1 + 8 + 1 + 2 + 1);
    buf_free(&r.out.text);
    r = parse(CH "final" MSG "x" END NEXT CH "analysis" MSG "r", 0);
    ck_assert_uint_eq(r.reasoning_tokens, 1 + 9 + 1 + 8 + 1 + 1);
    buf_free(&r.out.text);
}
END_TEST

START_TEST(place_says_where_an_id_went)
{
    struct tokenizer *t = byte_tokenizer();
    const struct harmony_ids *h = tokenizer_harmony(t);
    struct transcript out = {.kind = -1};
    struct harmony_parser_options o = {tools, 3, note, &out};
    struct harmony_parser *p = harmony_parser_new(t, &o);
    struct tokens ids = {0};
    const char s[] = CH "analysis" MSG "r" END NEXT CH "final" MSG "x<|reserved|>" END;
    tokenizer_encode_special(t, s, sizeof s - 1, &ids);
    char places[64];
    for (uint32_t i = 0; i < ids.n; i++) {
        harmony_feed(p, ids.ids[i]);
        places[i] = "-crf"[harmony_place(p)];
    }
    places[ids.n] = 0;
    ck_assert_str_eq(places, "----------r------------------c--");
    harmony_feed(p, h->message);
    harmony_feed(p, 'x');
    ck_assert_int_eq(harmony_place(p), PLACE_CONTENT);
    harmony_feed(p, UINT32_MAX); /* no id at all */
    ck_assert_int_eq(harmony_place(p), PLACE_MARKUP);
    harmony_parser_free(p);
    tokens_free(&ids);
    tokenizer_free(t);
    buf_free(&out.text);
}
END_TEST

/* Random ids. Every word of ours, w000 w001 ..., comes once and must come out once, in whatever
 * kind of text. Returns whether the parser stopped early: then the words from some place on are
 * missing, those of the header that made it stop and those never fed. */
static bool random_ids(uint32_t seed)
{
    static const char *const markup[] = {
        CH,
        MSG,
        END,
        RET,
        CALL,
        NEXT,
        "<|start|>",
        "final",
        "analysis",
        "commentary",
        " to=functions.f ",
        " to=get_weather ",
        "<|reserved|>",
        "<|endoftext|>",
        " ",
        "\n",
        " json ",
        "assistant",
        "?",
        CH "final" MSG,
        CH "analysis" MSG,
    };
    struct buf s = {0};
    uint32_t words = 0;
    for (int i = 0; i < 40; i++) {
        seed = seed * 1103515245u + 12345u;
        uint32_t r = seed >> 16;
        if (r % 3 == 0)
            buf_printf(&s, " w%03u ", words++);
        else
            buf_str(&s, markup[r / 3 % (sizeof markup / sizeof *markup)]);
    }
    struct run r = parse(s.data, 3);
    bool stopped = strstr(r.out.text.data, "[stop]") != NULL, missing = false;
    for (uint32_t k = 0; k < words; k++) {
        char word[16];
        snprintf(word, sizeof word, "w%03u", k);
        char *found = strstr(r.out.text.data, word);
        ck_assert_msg(found ? !missing : stopped, "words lost before %s: %s -> %s", word, s.data,
                      r.out.text.data);
        missing = !found;
        ck_assert_msg(!found || !strstr(found + 1, word), "%s twice: %s -> %s", word, s.data,
                      r.out.text.data);
    }
    buf_free(&r.out.text);
    buf_free(&s);
    return stopped;
}

START_TEST(no_word_is_lost)
{
    int whole = 0;
    for (uint32_t seed = 1; seed <= 10000; seed++)
        whole += !random_ids(seed);
    ck_assert_int_gt(whole, 1000);
}
END_TEST

/* header_parse.txt: what OpenAI's parser makes of a header. Where ours differs on purpose: */
static const struct {
    const char *header, *ours;
} deliberate[] = {
    /* a word is a recipient only after "to=", a type if it is one or stands after <|constrain|> */
    {"<|channel|>commentary json", "[c]b"},
    {"<|channel|>final <|constrain|>json", "[c]b"},
    {"<|channel|>final<|constrain|>json", "[c]b"},
    {"<|channel|>commentary to=functions.f <|constrain|> json", "[f(b)]"},
    {"<|channel|>commentary Hello there", "[c]Hello there\n\nb"},
    {"assistant to=functions.f code extra", "[r]extra[f(b)]"},
    /* a later channel replaces the first */
    {"<|channel|>commentary to=assistant<|channel|>analysis", "[r]b"},
    /* no error: an empty channel, a doubled author, other authors */
    {"<|channel|>", "[r]b"},
    {"<|channel|>commentary?commentary?", "[c]b"},
    {"assistantassistant<|channel|>final", "[c]b"},
    {"functions.f<|channel|>commentary", "[stop]"},
    {"user:alice", "[stop]"},
};

/* The value of Some("...") after the key, or "". */
static void field(const char *line, const char *key, char out[64])
{
    char pattern[64];
    snprintf(pattern, sizeof pattern, "%s: Some(\"", key);
    const char *s = strstr(line, pattern);
    out[0] = 0;
    if (s) sscanf(s + strlen(pattern), "%63[^\"]", out);
}

static void expected(const char *line, const char *header, char out[128])
{
    for (size_t i = 0; i < sizeof deliberate / sizeof *deliberate; i++)
        if (strcmp(deliberate[i].header, header) == 0) {
            strcpy(out, deliberate[i].ours);
            return;
        }
    char channel[64], recipient[64];
    field(line, "channel", channel);
    field(line, "recipient", recipient);
    const char *name = strncmp(recipient, "functions.", 10) == 0 ? recipient + 10 : recipient;
    if (!strstr(line, "role: Assistant"))
        strcpy(out, "[stop]");
    else if (recipient[0] && strcmp(recipient, "assistant") != 0)
        sprintf(out, "[%s(b)]", name);
    else
        sprintf(out, "[%c]b", strcmp(channel, "analysis") == 0 ? 'r' : 'c');
}

START_TEST(headers_as_the_library_reads_them)
{
    char path[512], line[1024];
    const char *src = getenv("srcdir");
    snprintf(path, sizeof path, "%s/tests/golden/header_parse.txt", src ? src : ".");
    FILE *f = fopen(path, "r");
    ck_assert_msg(f != NULL, "%s", path);
    int compared = 0;
    while (fgets(line, sizeof line, f)) {
        char header[256] = "", want[128], fed[512];
        char *s = strstr(line, "[hdr] \""); /* the [malformed] lines are its other mode */
        if (!s) continue;
        char *end = strstr(s, "\" => ");
        ck_assert(end != NULL && (size_t)(end - s) < sizeof header);
        memcpy(header, s + 7, (size_t)(end - s - 7));
        expected(end, header, want);
        bool sampled_author = strncmp(line, "None", 4) == 0;
        snprintf(fed, sizeof fed, "%s%s" MSG "b" END, sampled_author ? "<|start|>" : "", header);
        struct run r = parse(fed, 1);
        ck_assert_msg(strcmp(r.out.text.data, want) == 0, "%s: want %s, got %s", fed, want,
                      r.out.text.data);
        buf_free(&r.out.text);
        compared++;
    }
    fclose(f);
    ck_assert_int_ge(compared, 20);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("harmony_parse");
    TCase *c = tcase_create("parse");
    tcase_add_loop_test(c, cases_with_tools, 0, sizeof cases / sizeof *cases);
    tcase_add_test(c, without_tools_a_call_is_reasoning);
    tcase_add_test(c, overlong_header_becomes_text);
    tcase_add_test(c, reasoning_tokens_from_header_to_end);
    tcase_add_test(c, place_says_where_an_id_went);
    tcase_add_test(c, no_word_is_lost);
    tcase_add_test(c, headers_as_the_library_reads_them);
    suite_add_tcase(s, c);
    return tap_run(s);
}
