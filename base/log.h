/* log.h - events, one line each, on stderr: "level subsystem message key=value ...". When stderr is
 * the journal each line starts with its syslog priority "<N>". Control characters are escaped.
 * Safe from every thread. The level and the sink are the process's only global state. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* Lines above `level` cost one comparison. Default LOG_INFO. */
void log_set_level(enum log_level level);
bool log_enabled(enum log_level level);

/* Sends every line to `sink` instead of stderr (tests); NULL restores stderr. `line` has no
 * newline and lives only during the call. */
void log_set_sink(void (*sink)(void *arg, enum log_level level, const char *line), void *arg);

void log_at(enum log_level level, const char *subsystem, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#define log_error(sub, ...) log_at(LOG_ERROR, sub, __VA_ARGS__)
#define log_warn(sub, ...)  log_at(LOG_WARN, sub, __VA_ARGS__)
#define log_info(sub, ...)  log_at(LOG_INFO, sub, __VA_ARGS__)
#define log_debug(sub, ...)                                                                        \
    do {                                                                                           \
        if (log_enabled(LOG_DEBUG)) log_at(LOG_DEBUG, sub, __VA_ARGS__);                           \
    } while (0)

#endif
