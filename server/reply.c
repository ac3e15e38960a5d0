/* reply.c - whole answers. Source: openai-api spec 1.3. */
#include "server/reply.h"

#include <stdio.h>

void reply_text(struct http_req *r, int status, const char *type, struct buf *body)
{
    size_t len;
    char *bytes = buf_take(body, &len);
    if (bytes) {
        http_reply(r, status, type, bytes, len);
        return;
    }
    struct api_error e = {0};
    api_fail(&e, 500, "internal_error", NULL, "The server is out of memory.");
    reply_error(r, &e);
}

void reply_json(struct http_req *r, int status, struct buf *body)
{
    http_header(r, "cache-control", "no-store");
    reply_text(r, status, "application/json", body);
}

void reply_error(struct http_req *r, const struct api_error *e)
{
    struct buf body = {0};
    api_error_json(e, &body);
    if (body.failed) { /* no memory for the words: the status must do */
        buf_free(&body);
        http_reply(r, e->status, NULL, NULL, 0);
        return;
    }
    uint32_t wait = api_retry_after_s(e);
    char text[16];
    snprintf(text, sizeof text, "%u", wait);
    if (wait) http_header(r, "retry-after", text);
    /* no client of a server that goes away should come back on this connection */
    if (e->status == 503) http_header(r, "connection", "close");
    reply_json(r, e->status, &body);
}
