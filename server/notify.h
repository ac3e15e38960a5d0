/* notify.h - tells systemd how the daemon is, and takes the sockets that it opened. Everything does
 * nothing when systemd did not start us. */
#ifndef SERVER_NOTIFY_H
#define SERVER_NOTIFY_H

#include <stdint.h>

void notify_ready(const char *status);
void notify_stopping(void);
void notify_extend(uint64_t timeout_us); /* stopping takes at most so much longer */
void notify_watchdog(void);
uint64_t notify_watchdog_us(void); /* 0 = nobody watches */
int notify_listen_fd(void);        /* a listening TCP socket passed in, or -1 */

#endif
