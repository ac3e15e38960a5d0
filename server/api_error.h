/* api_error.h - what a client is told when something is wrong: HTTP status, OpenAI type and code,
 * the field, and one sentence. The only place that knows all of them. */
#ifndef SERVER_API_ERROR_H
#define SERVER_API_ERROR_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct api_error {
    int status;       /* HTTP; 0 = no error */
    const char *code; /* static text */
    char param[128];  /* "" = null */
    char message[640];
};

/* Records the error unless there is one already; returns false, so that a check can end with it.
 * `code` is a literal; `param` may be NULL. */
bool api_fail(struct api_error *e, int status, const char *code, const char *param, const char *fmt,
              ...) __attribute__((format(printf, 5, 6)));

/* The same for an error of the rooms below: full queue 429, context 400, draining 503 ... */
bool api_fail_err(struct api_error *e, enum err code, const struct error *cause, const char *param);

/* Seconds for Retry-After, 0 = the header is not sent. */
uint32_t api_retry_after_s(const struct api_error *e);

/* Appends {"error":{...}}: all four keys, always. */
void api_error_json(const struct api_error *e, struct buf *out);

#endif
