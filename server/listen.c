/* listen.c - opens the socket ourselves, so that errors are clear and port 0 can be told. */
#include "server/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 4096
#define SEND_BYTES                                                                                 \
    131072 /* of a connection, inherited; the kernel doubles it, and left alone grows              \
              it to megabytes: seconds of a stream */

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static socklen_t make_address(const char *text, uint16_t port, union address *a)
{
    memset(a, 0, sizeof *a);
    if (inet_pton(AF_INET, text, &a->v4.sin_addr) == 1) {
        a->v4.sin_family = AF_INET;
        a->v4.sin_port = htons(port);
        return sizeof a->v4;
    }
    if (inet_pton(AF_INET6, text, &a->v6.sin6_addr) == 1) {
        a->v6.sin6_family = AF_INET6;
        a->v6.sin6_port = htons(port);
        return sizeof a->v6;
    }
    return 0;
}

int listen_open(const char *address, uint16_t port, struct error *e)
{
    union address a;
    socklen_t len = make_address(address, port, &a);
    if (!len) {
        err_set(e, ERR_INVAL, "server.listen: '%s' is no IPv4 or IPv6 address", address);
        return -1;
    }
    int fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
    if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd < 0 || bind(fd, &a.any, len) || listen(fd, BACKLOG)) {
        err_set(e, ERR_IO, "cannot listen on %s port %u: %s", address, port, strerror(errno));
        if (fd >= 0) close(fd);
        return -1;
    }
    return fd;
}

void listen_tune(int fd)
{
    int bytes = SEND_BYTES;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

bool listen_url(int fd, char out[96])
{
    union address a = {0};
    socklen_t len = sizeof a;
    char host[64] = "";
    if (getsockname(fd, &a.any, &len)) return false;
    if (a.any.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &a.v6.sin6_addr, host, sizeof host);
        snprintf(out, 96, "http://[%s]:%u", host, ntohs(a.v6.sin6_port));
        return !IN6_IS_ADDR_LOOPBACK(&a.v6.sin6_addr);
    }
    inet_ntop(AF_INET, &a.v4.sin_addr, host, sizeof host);
    snprintf(out, 96, "http://%s:%u", host, ntohs(a.v4.sin_port));
    return ntohl(a.v4.sin_addr.s_addr) >> 24 != 127;
}
