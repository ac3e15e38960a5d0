/* fuzz_json_request.c - bodies of chat and completions: whatever comes in, it is a call or a 4xx
 * with all four members, and a call can be answered. */
#include "server/answer.h"

#include "tests/unit/service.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good, const char *what)
{
    if (good) return;
    fprintf(stderr, "broken: %s\n", what);
    abort();
}

static void answer_all(const struct service *s, const struct call *c)
{
    struct answer_options o = {.service = s, .call = c, .id = "x", .created = 1};
    struct answer *a = answer_new(&o);
    struct buf out = {0};
    if (!a) return;
    uint32_t n = answer_choices(a);
    for (uint32_t i = 0; i < n; i++) {
        struct gen_event end = {.end = true, .finish = FINISH_STOP};
        for (uint32_t k = 0; k < c->prompts[0].n && k < 64;
             k++) { /* the model repeats the prompt */
            struct sampled t = {.token = c->prompts[0].ids[k]};
            if (answer_token(a, i, &t)) break;
        }
        answer_end(a, i, &end);
    }
    answer_frames(a);
    answer_close(a, &out);
    check(answer_done(a), "an answer without an end");
    buf_free(&out);
    answer_free(a);
}

static void try_door(const struct service *s, const char *body, size_t len,
                     bool (*door)(const struct service *, const char *, size_t, struct call *,
                                  struct api_error *))
{
    struct call c;
    struct api_error e = {0};
    struct buf out = {0};
    if (door(s, body, len, &c, &e)) {
        struct gen_request q;
        check(!e.status, "an error beside a call");
        check(c.n_prompts > 0 && c.n >= 1, "a call without a prompt");
        call_request(&c, s, c.n_prompts - 1, (uint32_t)c.n - 1, &q);
        check(q.n_prompt >= 1 && q.n_stops <= GEN_MAX_STOPS, "a request the engine refuses");
        if (c.n_prompts * (uint32_t)c.n <= 8) answer_all(s, &c);
    } else {
        check(e.status >= 400 && e.status < 500 && e.code && e.message[0],
              "an error without a reason");
        api_error_json(&e, &out);
        json_t *v = json_loadb(out.data, out.len, JSON_ALLOW_NUL, NULL);
        check(json_object_size(json_object_get(v, "error")) == 4, "an error object that is none");
        json_decref(v);
    }
    buf_free(&out);
    call_free(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct service s;
    if (!s.tokenizer) s = test_service(3000);
    try_door(&s, (const char *)data, size, api_chat_parse);
    try_door(&s, (const char *)data, size, api_text_parse);
    return 0;
}
