/* reply.h - whole answers in JSON or text. */
#ifndef SERVER_REPLY_H
#define SERVER_REPLY_H

#include "base/buf.h"
#include "server/api_error.h"
#include "server/http.h"

/* Takes the buffer's bytes; a buffer that failed becomes 500. */
void reply_json(struct http_req *r, int status, struct buf *body);
void reply_text(struct http_req *r, int status, const char *type, struct buf *body);

/* The error object, with Retry-After where it has one. */
void reply_error(struct http_req *r, const struct api_error *e);

#endif
