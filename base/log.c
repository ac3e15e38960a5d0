/* log.c - one line an event. */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_int current_level = LOG_INFO;
static pthread_mutex_t sink_lock = PTHREAD_MUTEX_INITIALIZER;
static void (*sink_fn)(void *, enum log_level, const char *);
static void *sink_arg;

void log_set_level(enum log_level level)
{
    atomic_store_explicit(&current_level, (int)level, memory_order_relaxed);
}

bool log_enabled(enum log_level level)
{
    return (int)level <= atomic_load_explicit(&current_level, memory_order_relaxed);
}

void log_set_sink(void (*sink)(void *, enum log_level, const char *), void *arg)
{
    pthread_mutex_lock(&sink_lock);
    sink_fn = sink;
    sink_arg = arg;
    pthread_mutex_unlock(&sink_lock);
}

/* A peer's text may hold a newline or an escape sequence; a log line may not. */
static void escape_controls(char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || *s == 0x7f) *s = '?';
}

void log_at(enum log_level level, const char *subsystem, const char *fmt, ...)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    static const int priorities[] = {3, 4, 6, 7};
    if (!log_enabled(level)) return;
    char body[1024], line[1200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(body, sizeof body, fmt, ap);
    va_end(ap);
    escape_controls(body);
    snprintf(line, sizeof line, "%s %s: %s", names[level], subsystem, body);
    pthread_mutex_lock(&sink_lock);
    if (sink_fn) {
        sink_fn(sink_arg, level, line);
    } else {
        char out[1216];
        int n = getenv("JOURNAL_STREAM")
                    ? snprintf(out, sizeof out, "<%d>%s\n", priorities[level], line)
                    : snprintf(out, sizeof out, "%s\n", line);
        ssize_t rc = write(STDERR_FILENO, out, (size_t)n);
        (void)rc; /* nowhere to say that the log itself is gone */
    }
    pthread_mutex_unlock(&sink_lock);
}
