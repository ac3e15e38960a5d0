/* metrics_http.c - what is measured at the front door, and the process itself. */
#include "server/metrics.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

static void counter(struct buf *out, const char *name, const char *help, uint64_t v)
{
    metric_head(out, name, "counter", help);
    buf_printf(out, "%s %llu\n", name, (unsigned long long)v);
}

static void labelled(struct buf *out, const char *name, const char *label,
                     const char *const *values, const uint64_t *counts, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        buf_printf(out, "%s{%s=\"%s\"} %llu\n", name, label, values[i],
                   (unsigned long long)counts[i]);
}

static void print_requests(const struct metrics *m, struct buf *out)
{
    static const char *const classes[5] = {"1xx", "2xx", "3xx", "4xx", "5xx"};
    metric_head(out, "trnd_http_requests_total", "counter", "HTTP requests by route and status.");
    for (uint32_t r = 0; r < m->n_routes; r++)
        for (int c = 1; c < 5; c++)
            if (c != 2)
                buf_printf(out, "trnd_http_requests_total{handler=\"%s\",status=\"%s\"} %llu\n",
                           m->routes[r], classes[c], (unsigned long long)m->requests[r][c]);
    static const struct {
        const char *name, *help;
        size_t offset;
    } hists[] = {
        {"trnd_http_request_duration_seconds",
         "Measured time from a request's headers to the end of its answer.",
         offsetof(struct metrics, duration)},
        {"trnd_http_time_to_first_token_seconds",
         "Measured time from a request's headers to its first token.",
         offsetof(struct metrics, first_byte)},
        {"trnd_http_request_size_bytes", "Bodies of requests.",
         offsetof(struct metrics, request_bytes)},
        {"trnd_http_response_size_bytes", "Bodies of answers.",
         offsetof(struct metrics, response_bytes)},
    };
    for (size_t i = 0; i < sizeof hists / sizeof *hists; i++) {
        metric_head(out, hists[i].name, "histogram", hists[i].help);
        metric_hist(out, hists[i].name, "",
                    (const struct hist *)((const char *)m + hists[i].offset));
    }
}

static void print_events(const struct metrics *m, struct buf *out)
{
    static const char *const phases[PHASES] = {"body", "queue", "prefill", "decode"};
    static const char *const reasons[REJECTS] = {"queue_full", "draining", "loading", "context"};
    metric_head(out, "trnd_http_disconnects_total", "counter",
                "Clients that left before their answer was complete, by phase.");
    labelled(out, "trnd_http_disconnects_total", "phase", phases, m->disconnects, PHASES);
    metric_head(out, "trnd_http_rejected_total", "counter",
                "Requests refused although they were well formed, by reason.");
    labelled(out, "trnd_http_rejected_total", "reason", reasons, m->rejected, REJECTS);
    counter(out, "trnd_http_slow_readers_total",
            "Streams cut off because their client read too slowly.", m->slow_readers);
    counter(out, "trnd_http_keepalives_total", "Keep-alive comments sent.", m->keepalives);
    counter(out, "trnd_http_unknown_fields_total", "Fields of requests that were ignored.",
            m->unknown_fields);
    counter(out, "trnd_harmony_anomalies_total",
            "Malformed places of the model's output that were repaired.", m->anomalies);
    counter(out, "trnd_reasoning_tokens_total", "Sampled tokens that were reasoning.",
            m->reasoning_tokens);
    counter(out, "trnd_tool_calls_total", "Complete tool calls of the model.", m->tool_calls);
    metric_head(out, "trnd_http_requests_in_flight", "gauge", "Requests to generate, not ended.");
    buf_printf(out, "trnd_http_requests_in_flight %u\n", m->in_flight);
}

static uint64_t resident_bytes(void)
{
    unsigned long long size = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f) return 0;
    int n = fscanf(f, "%llu %llu", &size, &resident);
    fclose(f);
    return n == 2 ? resident * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static uint64_t open_files(void)
{
    DIR *d = opendir("/proc/self/fd");
    uint64_t n = 0;
    if (!d) return 0;
    while (readdir(d))
        n++;
    closedir(d);
    return n > 3 ? n - 3 : 0; /* ".", ".." and the one that was counting */
}

static void print_process(const struct metrics_page *p, struct buf *out)
{
    struct rusage ru;
    struct rlimit files;
    getrusage(RUSAGE_SELF, &ru);
    getrlimit(RLIMIT_NOFILE, &files);
    metric_head(out, "process_cpu_seconds_total", "counter", "CPU time, user and system.");
    buf_printf(out, "process_cpu_seconds_total %.6f\n",
               (double)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) +
                   1e-6 * (double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec));
    metric_head(out, "process_resident_memory_bytes", "gauge", "Resident memory.");
    buf_printf(out, "process_resident_memory_bytes %llu\n", (unsigned long long)resident_bytes());
    metric_head(out, "process_open_fds", "gauge", "Open file descriptors.");
    buf_printf(out, "process_open_fds %llu\n", (unsigned long long)open_files());
    metric_head(out, "process_max_fds", "gauge", "Most file descriptors that may be open.");
    buf_printf(out, "process_max_fds %llu\n", (unsigned long long)files.rlim_cur);
    metric_head(out, "process_start_time_seconds", "gauge", "Start of the process, Unix time.");
    buf_printf(out, "process_start_time_seconds %lld\n", (long long)p->start_time);
    metric_head(out, "trnd_ready", "gauge", "1 when requests to generate are accepted.");
    buf_printf(out, "trnd_ready %d\n", p->ready);
}

void metrics_print_http(const struct metrics_page *p, struct buf *out)
{
    print_process(p, out);
    print_requests(p->own, out);
    print_events(p->own, out);
}
