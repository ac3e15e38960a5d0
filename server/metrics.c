/* metrics.c - counters, and how a series is written. */
#include "server/metrics.h"

#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const double seconds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
                                 1,     2.5,    5,     10,   30,    60,   120, 300,  600};
static const double bytes[] = {256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216};
static const double samples[] = {1, 2, 5, 10, 20, 50, 128};
static const double tokens[] = {1,   2,    5,    10,   20,    50,    100,   200,
                                500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};

void metrics_init(struct metrics *m)
{
    *m = (struct metrics){0};
    hist_init(&m->duration, seconds, COUNT(seconds));
    hist_init(&m->first_byte, seconds, COUNT(seconds));
    hist_init(&m->request_bytes, bytes, COUNT(bytes));
    hist_init(&m->response_bytes, bytes, COUNT(bytes));
    hist_init(&m->n, samples, COUNT(samples));
    hist_init(&m->max_tokens, tokens, COUNT(tokens));
}

uint32_t metrics_route(struct metrics *m, const char *label)
{
    for (uint32_t i = 0; i < m->n_routes; i++)
        if (!strcmp(m->routes[i], label)) return i;
    if (m->n_routes == METRICS_MAX_ROUTES) return m->n_routes - 1;
    m->routes[m->n_routes] = label;
    return m->n_routes++;
}

void metrics_answer(struct metrics *m, const struct answer_totals *t)
{
    for (int i = 0; i <= FINISH_ERROR; i++)
        m->finished[i] += t->finished[i];
    m->anomalies += t->anomalies;
    m->reasoning_tokens += t->reasoning;
    m->tool_calls += t->calls;
}

void metric_head(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_str(out, "# HELP ");
    buf_str(out, name);
    buf_char(out, ' ');
    buf_str(out, help);
    buf_str(out, "\n# TYPE ");
    buf_str(out, name);
    buf_char(out, ' ');
    buf_str(out, type);
    buf_char(out, '\n');
}

void metric_u64(struct buf *out, uint64_t v)
{
    char text[20];
    size_t i = sizeof text;
    do {
        text[--i] = (char)('0' + v % 10);
        v /= 10;
    } while (v);
    buf_add(out, text + i, sizeof text - i);
}

void metric_hist(struct buf *out, const char *name, const char *labels, const struct hist *h)
{
    uint64_t sum = 0;
    const char *comma = labels[0] ? "," : "";
    for (uint32_t i = 0; i <= h->n; i++) {
        sum += h->counts[i];
        buf_printf(out, "%s_bucket{%s%sle=\"", name, labels, comma);
        if (i < h->n)
            buf_printf(out, "%.12g", h->bounds[i]);
        else
            buf_str(out, "+Inf");
        buf_str(out, "\"} ");
        metric_u64(out, sum);
        buf_char(out, '\n');
    }
    const char *open = labels[0] ? "{" : "", *shut = labels[0] ? "}" : "";
    buf_printf(out, "%s_sum%s%s%s %.12g\n", name, open, labels, shut, h->sum);
    buf_printf(out, "%s_count%s%s%s ", name, open, labels, shut);
    metric_u64(out, h->total);
    buf_char(out, '\n');
}

void metrics_print(const struct metrics_page *p, struct buf *out)
{
    metrics_print_http(p, out);
    if (!p->stats) return;
    metrics_print_engine(p, out);
    metrics_print_chips(p, out);
}
