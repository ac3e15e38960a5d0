/* fuzz_harmony.c - the first byte chooses: 0 any ids to the parser, 1 any text as a tool's schema,
 * 2 any texts as a conversation. */
#include "base/utf8.h"
#include "engine/harmony.h"

#include "tests/byte_vocab.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct tokenizer *tokenizer(void)
{
    static struct tokenizer *t;
    if (!t) t = byte_tokenizer();
    return t;
}

struct seen {
    bool in_call;
    size_t bytes;
};

static void note(void *arg, const struct harmony_delta *d)
{
    struct seen *s = arg;
    if (!utf8_valid(d->text, d->len)) abort();
    bool call = d->kind == HARMONY_CALL_TEXT || d->kind == HARMONY_CALL_END;
    if (call != s->in_call) abort();
    if (!d->len && d->kind != HARMONY_CALL_BEGIN && d->kind != HARMONY_CALL_END) abort();
    if (d->kind == HARMONY_CALL_BEGIN) s->in_call = true;
    if (d->kind == HARMONY_CALL_END) s->in_call = false;
    s->bytes += d->len;
}

/* Bytes are ids, but those that UTF-8 has no use for are control tokens and whole words. */
static void parse(const uint8_t *data, size_t size, uint32_t n_tools)
{
    static const char *const tools[] = {"f", "get.weather"};
    static const char *const words[] = {"final", "analysis", "commentary", " to=functions.f",
                                        "assistant"};
    struct seen seen = {0};
    struct harmony_parser_options o = {tools, n_tools, note, &seen};
    struct harmony_parser *p = harmony_parser_new(tokenizer(), &o);
    if (!p) abort();
    size_t fed = 0;
    for (size_t i = 0; i < size; i++) {
        if (data[i] >= 0xF5 && data[i] < 0xF5 + BYTE_VOCAB_SPECIALS)
            harmony_feed(p, 256u + BYTE_VOCAB_WORDS + data[i] - 0xF5u);
        else if (data[i] == 0xFF)
            harmony_feed(p, UINT32_MAX);
        else if (data[i] >= 1 && data[i] <= 5)
            for (const char *w = words[data[i] - 1]; *w; w++, fed++)
                harmony_feed(p, (unsigned char)*w);
        else
            harmony_feed(p, data[i]), fed++;
    }
    harmony_finish(p);
    if (seen.in_call || harmony_place(p) > PLACE_CALL) abort();
    /* at worst each byte becomes U+FFFD and each message brings a joint */
    if (seen.bytes > 3 * fed + 16 * size) abort();
    harmony_parser_free(p);
}

static void schema(const char *text)
{
    struct chat_tool tool = {"f", text, text};
    struct buf out = {0};
    struct error e = {0};
    enum err rc = harmony_tools_text(&tool, 1, &out, &e);
    if (rc != ERR_OK && (!e.text[0] || out.len)) abort();
    if (rc == ERR_OK && out.len == 0) abort();
    buf_free(&out);
}

/* A line a message: its first letter is the role, the rest content, id and name. */
static void render(char *text)
{
    struct chat_message m[64] = {0};
    struct chat_call calls[64];
    uint32_t n = 0;
    for (char *line = strtok(text, "\n"); line && n < 64; line = strtok(NULL, "\n"), n++) {
        m[n].role = (enum chat_role)((unsigned char)line[0] % 5);
        m[n].content = (struct chat_text){line + 1, strlen(line + 1)};
        m[n].reasoning = line[0] & 8 ? m[n].content : (struct chat_text){0};
        m[n].call_id = line + 1;
        m[n].tool_name = line[0] & 16 ? line + 1 : NULL;
        calls[n] = (struct chat_call){line + 1, line + 1, m[n].content};
        m[n].calls = &calls[n];
        m[n].n_calls = m[n].role == ROLE_ASSISTANT && line[0] & 32;
    }
    struct chat c = {.messages = m, .n_messages = n, .effort = EFFORT_LOW};
    struct tokens ids = {0};
    struct error e = {0};
    const struct harmony_ids *h = tokenizer_harmony(tokenizer());
    if (harmony_render(tokenizer(), &c, &ids, &e) == ERR_OK) {
        uint32_t open = 0, bodies = 0;
        for (uint32_t i = 0; i < ids.n; i++) {
            open += ids.ids[i] == h->start;
            bodies += ids.ids[i] == h->message;
        }
        if (open != bodies + 1) abort();
    } else if (!e.text[0]) {
        abort();
    }
    tokens_free(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > 4096) return 0;
    char *text = calloc(1, size);
    if (!text) abort();
    memcpy(text, data + 1, size - 1);
    if (data[0] % 3 == 0)
        parse(data + 1, size - 1, data[0] / 3 % 3);
    else if (data[0] % 3 == 1)
        schema(text);
    else
        render(text);
    free(text);
    return 0;
}
