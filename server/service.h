/* service.h - what is served: facts that do not change once the model is loaded. Every thread may
 * read it. Plain data, owned by the app. */
#ifndef SERVER_SERVICE_H
#define SERVER_SERVICE_H

#include "engine/harmony.h"
#include "engine/tokenizer.h"

#include <stdint.h>

#define SERVICE_MAX_NAMES 16

struct service {
    const char *names[SERVICE_MAX_NAMES]; /* the first is the model's id, the rest are aliases */
    uint32_t n_names;
    const struct tokenizer *tokenizer;
    uint32_t max_context;      /* prompt + output tokens of one request */
    uint32_t longest_token;    /* bytes: a prompt of more than max_context times this cannot fit */
    int64_t created;           /* Unix seconds */
    const char *fingerprint;   /* "fp_..." of model and build */
    double temperature, top_p; /* when a request does not say */
    enum chat_effort effort;   /* likewise */
    const char *date;          /* "YYYY-MM-DD"; "auto" = today (UTC); "none" = no date line */
    const char *identity;      /* NULL = harmony's own */
};

#endif
