/* job.h - a request that is answered by a pure function of its body, on the pool. */
#ifndef SERVER_JOB_H
#define SERVER_JOB_H

#include "server/api_error.h"
#include "server/app.h"

/* Appends the JSON answer, or says what is wrong. Any thread. */
typedef bool job_fn(const struct service *s, const char *body, size_t len, struct buf *out,
                    struct api_error *e);

void job_start(struct app *a, struct http_req *r, job_fn *fn);

#endif
