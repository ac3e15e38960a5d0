/* listen.h - the listening socket. */
#ifndef SERVER_LISTEN_H
#define SERVER_LISTEN_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* Binds and listens on an IPv4 or IPv6 address; port 0 = any free one. The descriptor, or -1 and
 * *e. */
int listen_open(const char *address, uint16_t port, struct error *e);

/* For a socket of our own or one passed in: accept() never waits, and a client that does not read
 * holds little of the kernel's memory. */
void listen_tune(int fd);

/* "http://127.0.0.1:8000" of a listening socket; true when others than this host can reach it. */
bool listen_url(int fd, char out[96]);

#endif
