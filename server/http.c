/* http.c - libmicrohttpd on the loop: its epoll set is one watcher, its timeouts are one timer, and
 * it runs once before the loop sleeps, whatever made it due. Source: http spec 2, style spec B.4.
 */
#include "server/http.h"

#include "base/log.h"
#include "server/http_req.h"
#include "server/loop.h"

#include <assert.h>
#include <microhttpd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define POOL_BYTES   32768 /* a connection: headers with long tokens must pass */
#define BACKLOG      4096
#define MAX_PASSES   64 /* of MHD before other events get their turn */
#define DISCARD_MORE 4  /* times the body limit: so much of a refused body is read and dropped */

void http_suspend(struct http_req *r)
{
    r->suspended = true;
    MHD_suspend_connection(r->conn);
}

void http_resume(struct http_req *r)
{
    if (!r->suspended) return;
    r->suspended = false;
    MHD_resume_connection(r->conn);
    r->http->due = true;
}

void http_hang_up(struct http_req *r)
{
    shutdown(r->fd, SHUT_RDWR);
    http_resume(r);
    r->http->due = true;
}

static bool take_body(struct http_req *r, const char *data, size_t n)
{
    r->bytes_in += n;
    if (!r->response) {
        buf_add(&r->body, data, n);
        if (r->body.failed) { /* too long: its memory is not needed any more */
            free(r->body.data);
            r->body = (struct buf){.limit = r->body.limit, .failed = true};
        }
    }
    return r->bytes_in / DISCARD_MORE <= r->http->options.max_body_bytes;
}

static enum MHD_Result go_on(struct http_req *r)
{
    if (r->gone && !r->queued) return MHD_NO;
    if (r->response && (!r->is_stream || r->stream.started)) return http_req_send(r);
    if (r->is_stream && r->stream.cut) return MHD_NO;
    http_suspend(r);
    return MHD_YES;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *c, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *size, void **state)
{
    struct http *h = cls;
    struct http_req *r = *state;
    (void)version;
    if (!r) {
        r = *state = http_req_new(h, c, url, method);
        if (!r) return MHD_NO;
        h->hooks.begin(h->hooks.arg, r);
        /* who waits for leave to send gets the refusal instead; others have to be heard out */
        if (r->response && (r->expects || r->unclear)) return http_req_send(r);
        http_gone_add(r);
        return MHD_YES;
    }
    if (*size) {
        bool ok = take_body(r, data, *size);
        *size = 0;
        return ok ? MHD_YES : MHD_NO;
    }
    if (!r->ready) {
        r->ready = true;
        http_gone_remove(r);
        if (!r->response) h->hooks.ready(h->hooks.arg, r);
        if (!r->response && !r->owner) return MHD_NO; /* no memory for an answer */
    }
    return go_on(r);
}

static void on_completed(void *cls, struct MHD_Connection *c, void **state,
                         enum MHD_RequestTerminationCode why)
{
    struct http_req *r = *state;
    (void)cls;
    (void)c;
    if (!r) return;
    *state = NULL;
    r->complete = why == MHD_REQUEST_TERMINATED_COMPLETED_OK;
    http_req_finish(r);
    http_req_free(r);
}

/* MHD listens no more while it has all the connections it may have, and after one less only in its
 * next pass: without that it would never accept again once all of them are gone. */
static void on_connection(void *cls, struct MHD_Connection *c, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    (void)c;
    (void)context;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) ((struct http *)cls)->due = true;
}

static void on_timer(uv_timer_t *t)
{
    ((struct http *)t->data)->due = true;
}

/* A resumed connection needs two passes: its callback, then the send. */
static void drive(struct http *h)
{
    MHD_UNSIGNED_LONG_LONG ms = 0;
    enum MHD_Result timed = MHD_YES;
    for (int i = 0; i < MAX_PASSES && (h->due || (timed == MHD_YES && ms == 0)); i++) {
        h->due = false;
        MHD_run(h->daemon);
        timed = MHD_get_timeout(h->daemon, &ms);
    }
    if (h->due || timed == MHD_YES)
        uv_timer_start(&h->timer, on_timer, h->due ? 0 : ms, 0);
    else
        uv_timer_stop(&h->timer);
}

static void on_mhd(uv_poll_t *p, int status, int events)
{
    (void)status;
    (void)events;
    ((struct http *)p->data)->due = true;
}

static void before_poll(uv_prepare_t *p)
{
    struct http *h = p->data;
    if (h->due) drive(h);
}

__attribute__((format(printf, 2, 0))) static void on_mhd_log(void *cls, const char *fmt, va_list ap)
{
    (void)cls;
    if (!log_enabled(LOG_DEBUG)) return;
    char text[512];
    vsnprintf(text, sizeof text, fmt, ap);
    text[strcspn(text, "\n")] = 0;
    log_debug("http", "%s", text);
}

static bool start_daemon(struct http *h)
{
    h->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL, on_request, h,
        MHD_OPTION_EXTERNAL_LOGGER, on_mhd_log, NULL, /* first: later options may log */
        MHD_OPTION_LISTEN_SOCKET, (MHD_socket)h->options.listen_fd, MHD_OPTION_NOTIFY_COMPLETED,
        on_completed, NULL, MHD_OPTION_NOTIFY_CONNECTION, on_connection, h,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)h->options.max_connections,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)h->options.idle_s,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES, MHD_OPTION_LISTEN_BACKLOG_SIZE,
        (unsigned)BACKLOG, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_END);
    return h->daemon != NULL;
}

struct http *http_new(struct loop *l, const struct http_options *o, const struct http_hooks *hooks,
                      struct error *e)
{
    struct http *h = calloc(1, sizeof *h);
    if (!h) {
        err_set(e, ERR_NOMEM, "http: out of memory");
        return NULL;
    }
    *h = (struct http){.options = *o, .hooks = *hooks, .gone_fd = -1};
    h->mhd.data = h->timer.data = h->before_poll.data = h;
    if (!start_daemon(h)) {
        err_set(e, ERR_IO, "the HTTP library does not start");
        free(h);
        return NULL;
    }
    uv_loop_t *uv = loop_uv(l);
    int fd = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    uv_timer_init(uv, &h->timer);
    uv_prepare_init(uv, &h->before_poll);
    h->open_handles = 2;
    if (uv_poll_init(uv, &h->mhd, fd)) {
        err_set(e, ERR_IO, "cannot watch the HTTP library's sockets");
    } else {
        h->open_handles++;
        if (http_gone_init(h, e) == ERR_OK) {
            uv_poll_start(&h->mhd, UV_READABLE, on_mhd);
            uv_prepare_start(&h->before_poll, before_poll);
            h->due = true;
            return h;
        }
    }
    http_free(h);
    return NULL;
}

static void on_closed(uv_handle_t *handle)
{
    struct http *h = handle->data;
    if (--h->open_handles == 0) free(h);
}

static void close_handle(void *handle)
{
    uv_handle_t *h = handle;
    if (h->loop) uv_close(h, on_closed);
}

void http_free(struct http *h)
{
    if (!h) return;
    for (struct http_req *r = h->requests; r; r = r->next) {
        r->gone = true;
        if (r->owner && r->owner->gone) r->owner->gone(r->owner_arg);
        http_resume(r); /* MHD must not stop with a suspended connection */
    }
    MHD_run(h->daemon);
    close_handle(&h->timer);
    close_handle(&h->before_poll);
    close_handle(&h->mhd); /* while the descriptor is still MHD's */
    close_handle(&h->gone);
    MHD_stop_daemon(h->daemon);
    assert(!h->active);
    if (h->gone_fd >= 0) close(h->gone_fd);
}

uint32_t http_active(const struct http *h)
{
    return h->active;
}
