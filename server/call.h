/* call.h - one request to generate, as structs: what the door makes of a JSON body. Nothing of JSON
 * is left in it. */
#ifndef SERVER_CALL_H
#define SERVER_CALL_H

#include "server/api_error.h"
#include "server/arena.h"
#include "server/fields.h"
#include "server/service.h"

#include "engine/engine.h"

enum call_kind { CALL_CHAT, CALL_TEXT };

#define CALL_MAX_N        128
#define CALL_MAX_STOPS    32
#define CALL_MAX_STOP_LEN 1024
#define CALL_OWN_STOP_IDS 3 /* <|return|>, <|call|>, <|endoftext|> */
#define CALL_MAX_STOP_IDS (GEN_MAX_STOPS - CALL_OWN_STOP_IDS)
#define CALL_MAX_PROMPTS  128

struct call {
    enum call_kind kind;

    /* written by the field tables; -1 = not given, where it is not a value */
    double temperature, top_p, min_p;
    int64_t top_k, n, min_tokens, priority;
    int64_t seed;                              /* -1 = random */
    int64_t max_tokens, max_completion_tokens; /* -1 = what the context leaves */
    int64_t logprobs;                          /* alternatives a token, -1 = none */
    int64_t top_logprobs;                      /* chat; becomes logprobs */
    bool want_logprobs;                        /* chat */
    bool stream, ignore_eos, include_stop, echo, skip_special, include_reasoning;
    bool include_usage, continuous_usage, stream_options;
    uint64_t cache_salt; /* 0 = shared */
    struct chat_text stops[CALL_MAX_STOPS];
    uint32_t n_stops;
    uint32_t stop_ids[CALL_MAX_STOP_IDS];
    uint32_t n_stop_ids;
    enum chat_effort effort;
    const char *identity; /* NULL = the service's */
    bool no_tools;        /* tool_choice none */
    const char **tools;   /* names offered to the model */
    uint32_t n_tools;

    struct tokens *prompts; /* [n_prompts] */
    uint32_t n_prompts;
    uint32_t unknown_fields;
    struct arena arena; /* stops, names, identity */
};

/* Sets the defaults; call_free is right from here on. */
void call_init(struct call *c, enum call_kind kind, const struct service *s);
void call_free(struct call *c);

/* The rows that chat and completions share. */
struct field_table call_rows(void);

/* `model` is served here, or 404. Comes before all other fields. */
bool call_check_model(const json_t *root, const struct service *s, struct api_error *e);

/* What no single field can know: limits against each other. */
bool call_check(struct call *c, struct api_error *e);

/* The prompt leaves room for a token, or 400 context_length_exceeded under `param`. */
bool call_check_context(const struct call *c, const struct service *s, const char *param,
                        struct api_error *e);

/* Before tokenising: a text of so many bytes cannot fit. */
bool call_check_bytes(size_t bytes, const struct service *s, const char *param,
                      struct api_error *e);

/* The engine's request for sample `i` of prompt `prompt`: own seed, stop ids. */
void call_request(const struct call *c, const struct service *s, uint32_t prompt, uint32_t i,
                  struct gen_request *out);

/* The doors: body -> call. False and *e when it is refused. Any thread; no state. */
bool api_chat_parse(const struct service *s, const char *body, size_t len, struct call *out,
                    struct api_error *e);
bool api_text_parse(const struct service *s, const char *body, size_t len, struct call *out,
                    struct api_error *e);

#endif
