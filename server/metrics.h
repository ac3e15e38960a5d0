/* metrics.h - what the daemon counts about itself, and the Prometheus text. Times of the emulated
 * machine come from the engine's snapshots and keep the names that vLLM's dashboards know; times
 * measured here are trnd_http_*. The two never share a name. Source: openai-api spec 9.1. */
#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

#include "base/hist.h"
#include "engine/engine.h"
#include "server/answer.h"

#define METRICS_MAX_ROUTES 32

enum gen_phase { PHASE_BODY, PHASE_QUEUE, PHASE_PREFILL, PHASE_DECODE, PHASES };
enum reject_reason { REJECT_QUEUE_FULL, REJECT_DRAINING, REJECT_LOADING, REJECT_CONTEXT, REJECTS };

/* Counters of the I/O thread; no lock, one owner. */
struct metrics {
    const char *routes[METRICS_MAX_ROUTES]; /* labels; the last one is for unknown paths */
    uint32_t n_routes;
    uint64_t requests[METRICS_MAX_ROUTES][5];                        /* by status class 1xx..5xx */
    struct hist duration, first_byte, request_bytes, response_bytes; /* seconds and bytes */
    struct hist n, max_tokens;                                       /* of requests to generate */
    uint64_t disconnects[PHASES], rejected[REJECTS];
    uint64_t slow_readers, anomalies, reasoning_tokens, tool_calls, unknown_fields, keepalives;
    uint64_t finished[FINISH_ERROR + 1]; /* choices, as the client saw them */
    uint32_t in_flight;                  /* requests to generate */
};

void metrics_init(struct metrics *m);
uint32_t metrics_route(struct metrics *m, const char *label); /* at start only */
void metrics_answer(struct metrics *m, const struct answer_totals *t);

struct metrics_page {
    const struct metrics *own;
    const char *model_name;
    const struct engine_stats *stats;
    const struct engine_options *options; /* for cache_config_info */
    const struct chip_report *chips;
    uint32_t n_chips;
    const struct replica_report *replicas;
    uint32_t n_replicas;
    bool ready;
    int64_t start_time;
};

/* The whole page; without an engine (still loading) only what the daemon knows itself. */
void metrics_print(const struct metrics_page *p, struct buf *out);

/* The parts, one file each. */
void metrics_print_engine(const struct metrics_page *p, struct buf *out);
void metrics_print_chips(const struct metrics_page *p, struct buf *out);
void metrics_print_http(const struct metrics_page *p, struct buf *out);

/* Helpers of the parts. */
void metric_head(struct buf *out, const char *name, const char *type, const char *help);
void metric_u64(struct buf *out, uint64_t v);
void metric_hist(struct buf *out, const char *name, const char *labels, const struct hist *h);

#endif
