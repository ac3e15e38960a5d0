/* http.h - HTTP on the loop: requests come in whole, answers go out whole or as a stream. Knows no
 * routes and no JSON. Everything here belongs to the loop's thread. */
#ifndef SERVER_HTTP_H
#define SERVER_HTTP_H

#include "base/clock.h"
#include "base/err.h"
#include "server/writer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http;
struct http_req;
struct loop;

struct http_hooks {
    /* The headers are here. http_reply() now refuses the request before its body is kept. */
    void (*begin)(void *arg, struct http_req *r);
    /* The body is here too: answer now, or take the request (http_own) and answer later. */
    void (*ready)(void *arg, struct http_req *r);
    /* It is over: answered, or the client left. `r` is freed after this. */
    void (*done)(void *arg, struct http_req *r);
    void *arg;
};

struct http_options {
    int listen_fd;            /* bound and listening; taken over */
    uint32_t max_connections; /* more are refused by closing them */
    uint32_t idle_s;          /* a connection that is silent so long is closed */
    uint64_t max_body_bytes;
};

struct http *http_new(struct loop *l, const struct http_options *o, const struct http_hooks *hooks,
                      struct error *e);
void http_free(struct http *h);             /* closes every connection; each request gets `done` */
uint32_t http_active(const struct http *h); /* requests between begin and done */

/* ---- the request */
const char *http_id(const struct http_req *r); /* x-request-id, the client's or a new one */
const char *http_method(const struct http_req *r);
const char *http_path(const struct http_req *r); /* decoded, without the query */
const char *http_header_in(const struct http_req *r, const char *name);
const char *http_query(const struct http_req *r, const char *name);
const char *http_remote(struct http_req *r, char out[64]);
bool http_too_large(const struct http_req *r); /* the body, announced or received */
/* Does a proxy before us perhaps see another end of its body? Never read on after it. */
bool http_unclear(const struct http_req *r);
char *http_take_body(struct http_req *r, size_t *len); /* the caller frees it */

/* ---- the answer */
void http_header(struct http_req *r, const char *name, const char *value); /* before the reply */
/* `body` is malloced and taken over; NULL = empty. Once for each request. */
void http_reply(struct http_req *r, int status, const char *type, char *body, size_t len);
/* Answers with a stream: status 200; head and bytes leave with the first write. The writer dies
 * with the request. */
struct writer *http_stream(struct http_req *r, const char *type);

/* Who answers later. `gone`: the client closed its side, in whatever phase; the connection closes.
 * `closed`: r is no longer valid; `complete` = the answer was sent to its end. */
struct http_owner {
    void (*gone)(void *arg);
    void (*closed)(void *arg, bool complete);
};
void http_own(struct http_req *r, const struct http_owner *o, void *arg);

/* ---- for accounts */
struct http_account {
    int status; /* 499 = the client left before the answer was complete */
    uint64_t bytes_in, bytes_out;
    struct wall start;
    bool owned;
};
void http_account(const struct http_req *r, struct http_account *out);
void http_set_tag(struct http_req *r, const void *tag); /* the caller's own mark */
const void *http_tag(const struct http_req *r);

#endif
