/* job.c - body in, JSON out, off the I/O thread. */
#include "server/job.h"

#include "server/reply.h"

#include <stdlib.h>

struct job {
    job_fn *fn;
    const struct service *service;
    struct http_req *req; /* NULL: the connection is over */
    char *body;
    size_t len;
    struct buf out;
    struct api_error error;
};

static void on_closed(void *arg, bool complete)
{
    struct job *j = arg;
    (void)complete;
    j->req = NULL;
    if (!j->service) free(j); /* it ran, and was only waiting for this */
}

static void run(void *arg)
{
    struct job *j = arg;
    j->fn(j->service, j->body, j->len, &j->out, &j->error);
}

static void ran(void *arg)
{
    struct job *j = arg;
    j->service = NULL;
    free(j->body);
    j->body = NULL;
    if (!j->req) {
        buf_free(&j->out);
        free(j);
    } else if (j->error.status) {
        buf_free(&j->out);
        reply_error(j->req, &j->error);
    } else {
        reply_json(j->req, 200, &j->out);
    }
}

void job_start(struct app *a, struct http_req *r, job_fn *fn)
{
    static const struct http_owner owner = {NULL, on_closed};
    struct job *j = calloc(1, sizeof *j);
    if (!j) return; /* the HTTP side closes the connection */
    *j = (struct job){.fn = fn, .service = &a->backend.service, .req = r};
    j->body = http_take_body(r, &j->len);
    http_own(r, &owner, j);
    if (!j->body) api_fail(&j->error, 500, "internal_error", NULL, "The server is out of memory.");
    if (j->error.status || loop_work(a->loop, run, ran, j) != ERR_OK) ran(j);
}
