/* notify.c - libsystemd. */
#include "server/notify.h"

#include <inttypes.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>

void notify_ready(const char *status)
{
    sd_notifyf(0, "READY=1\nSTATUS=%s", status);
}

void notify_stopping(void)
{
    sd_notify(0, "STOPPING=1\nSTATUS=finishing the requests that run");
}

void notify_extend(uint64_t timeout_us)
{
    sd_notifyf(0, "EXTEND_TIMEOUT_USEC=%" PRIu64, timeout_us);
}

void notify_watchdog(void)
{
    sd_notify(0, "WATCHDOG=1");
}

uint64_t notify_watchdog_us(void)
{
    uint64_t us = 0;
    return sd_watchdog_enabled(0, &us) > 0 ? us : 0;
}

int notify_listen_fd(void)
{
    int n = sd_listen_fds(1);
    for (int fd = SD_LISTEN_FDS_START; fd < SD_LISTEN_FDS_START + n; fd++)
        if (sd_is_socket(fd, AF_UNSPEC, SOCK_STREAM, 1) > 0) return fd;
    return -1;
}
