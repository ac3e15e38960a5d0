/* http_req.h - inside of http*.c: one request on one connection. */
#ifndef SERVER_HTTP_REQ_H
#define SERVER_HTTP_REQ_H

#include "base/buf.h"
#include "server/http.h"

#include <uv.h>

struct MHD_Connection;
struct MHD_Daemon;
struct MHD_Response;

#define HTTP_MAX_HEADERS 8

struct http {
    struct MHD_Daemon *daemon;
    struct http_options options;
    struct http_hooks hooks;
    uv_poll_t mhd, gone; /* MHD's epoll set; ours, of clients that may leave */
    uv_timer_t timer;
    uv_prepare_t before_poll;
    int gone_fd, open_handles;
    bool due; /* MHD has something to do */
    struct http_req *requests;
    uint32_t active;
};

struct http_stream {
    struct writer writer;
    struct buf pending;
    size_t sent; /* of pending */
    bool started, ended, cut;
};

struct http_req {
    struct http *http;
    struct http_req *next, **link;
    struct MHD_Connection *conn;
    char id[129];
    char *path, method[16];
    struct buf body;
    uint64_t bytes_in, bytes_out, announced; /* announced: Content-Length */
    bool expects;                            /* it waits for "100 Continue" */
    bool unclear; /* where its body ends is not certain: nothing of it is read */
    bool ready, suspended, queued, gone, watched, complete;
    int fd;

    int status;
    struct {
        const char *name;
        char value[192];
    } headers[HTTP_MAX_HEADERS];
    uint32_t n_headers;
    struct MHD_Response *response; /* made by http_reply or http_stream, ours until queued */
    bool is_stream;
    struct http_stream stream;

    const struct http_owner *owner;
    void *owner_arg;
    const void *tag;
    struct wall start;
};

/* http.c: lets MHD go on with it; harmless when it is not suspended. */
void http_resume(struct http_req *r);
void http_suspend(struct http_req *r);
/* Ends the connection. MHD may be waiting for a client that does not read to make room, and would
 * not look at anything else before its timeout: so the socket itself says that it is over. */
void http_hang_up(struct http_req *r);

/* http_req.c */
struct http_req *http_req_new(struct http *h, struct MHD_Connection *c, const char *url,
                              const char *method);
void http_req_free(struct http_req *r);
void http_req_finish(struct http_req *r); /* owner and hooks hear of the end */
int http_req_send(struct http_req *r);    /* queues the response: enum MHD_Result */

/* http_gone.c: notices that a client left while nothing is read from it or written to it. */
enum err http_gone_init(struct http *h, struct error *e);
void http_gone_add(struct http_req *r);
void http_gone_remove(struct http_req *r);

/* http_stream.c */
struct MHD_Response *http_stream_response(struct http_req *r);

#endif
