/* harmony.h - the chat format of GPT-OSS. Renders a conversation to token ids (only the renderer
 * makes special ids) and turns sampled ids back into typed text, one id at a time. The parser is
 * total: any sequence of ids gives text, never an error, and no text is lost.
 * Source: gpt-oss spec section 5, openai-api spec sections 7.2 to 7.6. */
#ifndef ENGINE_HARMONY_H
#define ENGINE_HARMONY_H

#include "base/buf.h"
#include "base/err.h"
#include "engine/tokenizer.h"

#include <stdbool.h>
#include <stdint.h>

enum chat_role { ROLE_SYSTEM, ROLE_DEVELOPER, ROLE_USER, ROLE_ASSISTANT, ROLE_TOOL };
enum chat_effort { EFFORT_LOW, EFFORT_MEDIUM, EFFORT_HIGH };

struct chat_text { /* not NUL-terminated; text NULL = absent */
    const char *text;
    size_t len;
};

struct chat_call {
    const char *id;   /* NUL-terminated, may be NULL */
    const char *name; /* as the client wrote it, without "functions." */
    struct chat_text arguments;
};

struct chat_message {
    enum chat_role role;
    struct chat_text content;
    struct chat_text reasoning;    /* assistant: its analysis */
    const struct chat_call *calls; /* assistant */
    uint32_t n_calls;
    const char *call_id;   /* tool: the call it answers */
    const char *tool_name; /* tool: function name, when the client gave it */
};

struct chat_tool {
    const char *name, *description; /* description may be NULL */
    const char *parameters; /* JSON text of the schema, keys in order; NULL = no arguments */
};

struct chat {
    const struct chat_message *messages;
    uint32_t n_messages;
    const struct chat_tool *tools;
    uint32_t n_tools;
    enum chat_effort effort;
    const char *date;     /* "2025-06-28"; NULL = no date line */
    const char *identity; /* NULL = harmony's own */
};

/* Appends the prompt, ending with <|start|>assistant. Applies the rule for old analysis (dropped
 * before the last final), pairs tool results with their calls. ERR_INVAL with a message that names
 * messages[i] when a tool result matches no call and no name is given. */
enum err harmony_render(const struct tokenizer *t, const struct chat *c, struct tokens *out,
                        struct error *e);

/* The TypeScript-like text of a tools section ("# Tools ...", without instructions); used by the
 * renderer, open for the golden tests. Nothing when there are no tools. ERR_INVAL with a message
 * that names tools[i].parameters: no JSON, no object, nested too deep. */
enum err harmony_tools_text(const struct chat_tool *tools, uint32_t n, struct buf *out,
                            struct error *e);

/* ---- parsing of what the model samples, after a prompt that ends with <|start|>assistant */

enum harmony_kind {
    HARMONY_CONTENT,    /* user-visible text (final, or a preamble on commentary) */
    HARMONY_REASONING,  /* analysis */
    HARMONY_CALL_BEGIN, /* a tool call starts: text = the function's name */
    HARMONY_CALL_TEXT,  /* a piece of its arguments */
    HARMONY_CALL_END
};

struct harmony_delta { /* valid UTF-8, whole characters; lives during the call of emit */
    enum harmony_kind kind;
    const char *text;
    size_t len;
};

struct harmony_parser_options {
    const char *const *tools; /* names offered, borrowed until the parser is freed */
    uint32_t n_tools;
    void (*emit)(void *arg, const struct harmony_delta *d);
    void *arg;
};

struct harmony_parser;
struct harmony_parser *harmony_parser_new(const struct tokenizer *t,
                                          const struct harmony_parser_options *o);
void harmony_parser_free(struct harmony_parser *p);

/* Where the last id went: what kind of text it is part of, or markup. */
enum harmony_place { PLACE_MARKUP, PLACE_CONTENT, PLACE_REASONING, PLACE_CALL };

/* Feeds one sampled id (stop ids included); may emit deltas. Returns true when generation should
 * stop here although no stop id came (the model starts to speak for someone else, or a second final
 * answer); fed on nevertheless, the former's text is reasoning and the latter's content. */
bool harmony_feed(struct harmony_parser *p, uint32_t id);
enum harmony_place harmony_place(const struct harmony_parser *p);

/* No more ids: emits what is held back (an open header's words, half a character as U+FFFD) and
 * ends an open call, which does not count as complete. */
void harmony_finish(struct harmony_parser *p);

uint32_t harmony_reasoning_tokens(const struct harmony_parser *p);
uint32_t harmony_calls(const struct harmony_parser *p);     /* complete calls so far */
uint32_t harmony_anomalies(const struct harmony_parser *p); /* malformed places repaired */

#endif
