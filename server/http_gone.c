/* http_gone.c - MHD does not look at a suspended connection, so an epoll set of our own does: every
 * request that is answered later is in it from the end of its body to the end of its answer. A
 * client that closes only its sending side counts as gone. Source: http spec 2.
 *
 * Before that, MHD misses an end that arrives together with the last bytes: its set is edge
 * triggered and a short read ends its interest. So a request is in ours while its body is read,
 * there level triggered: MHD is woken until it has read up to the end. */
#include "server/http_req.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_EVENTS 64

static void on_gone(uv_poll_t *p, int status, int events)
{
    struct http *h = p->data;
    (void)status;
    (void)events;
    struct epoll_event ev[MAX_EVENTS];
    /* Once: what is left calls again, after MHD had its turn with those that it was woken for. */
    int n = epoll_wait(h->gone_fd, ev, MAX_EVENTS, 0);
    for (int i = 0; i < n; i++) {
        struct http_req *r = ev[i].data.ptr;
        if (r->gone || !(ev[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))) continue;
        if (!r->ready) { /* closes nothing that is not closed, but is an edge */
            shutdown(r->fd, SHUT_RD);
            continue;
        }
        r->gone = true;
        if (r->owner && r->owner->gone) r->owner->gone(r->owner_arg);
        http_hang_up(r);
    }
}

enum err http_gone_init(struct http *h, struct error *e)
{
    h->gone_fd = epoll_create1(EPOLL_CLOEXEC);
    if (h->gone_fd < 0) return err_set(e, ERR_IO, "epoll_create1: %s", strerror(errno));
    h->gone.data = h;
    if (uv_poll_init(h->mhd.loop, &h->gone, h->gone_fd))
        return err_set(e, ERR_IO, "cannot watch for clients that leave");
    h->open_handles++;
    uv_poll_start(&h->gone, UV_READABLE, on_gone);
    return ERR_OK;
}

void http_gone_add(struct http_req *r)
{
    if (r->watched) return;
    struct epoll_event ev = {.events = EPOLLRDHUP, .data.ptr = r};
    if (r->ready) ev.events |= EPOLLET;
    r->watched = epoll_ctl(r->http->gone_fd, EPOLL_CTL_ADD, r->fd, &ev) == 0;
}

void http_gone_remove(struct http_req *r)
{
    if (r->watched) epoll_ctl(r->http->gone_fd, EPOLL_CTL_DEL, r->fd, NULL);
    r->watched = false;
}
