/* api_chips.c - GET /v1/chips: what each emulated chip did and what clients of the emulated machine
 * waited for, as JSON or as a table for people. Every time in it is emulated. */
#include "server/api.h"
#include "server/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct page {
    const struct backend *b;
    struct engine_stats stats;
    struct chip_report *chips;
    struct replica_report *replicas;
    uint32_t n_chips, n_replicas;
    double seconds; /* emulated */
};

static double mean(const struct quant *q)
{
    return q->total ? q->sum / (double)q->total : 0;
}

static void add_latency(struct buf *out, const char *name, const struct quant *q)
{
    buf_printf(out, "\"%s\":{\"mean\":%.9g,\"p50\":%.9g,\"p90\":%.9g,\"p99\":%.9g}", name, mean(q),
               quant_at(q, 0.5), quant_at(q, 0.9), quant_at(q, 0.99));
}

/* The host's pace while there were requests: emulated time that went by for each second that really
 * did; 1 = it kept up. */
static double pace(const struct page *p)
{
    double active = (double)p->stats.active_ns, lag = (double)p->stats.lag_ns;
    return active > 0 ? active / (active + lag) : 1;
}

#define STRETCHED_BELOW 0.99 /* wake-ups of a busy host cost less than this */

static void add_name(struct buf *out, const char *key, const char *name)
{
    buf_printf(out, ",\"%s\":\"", key);
    buf_json(out, name, strlen(name));
    buf_char(out, '"');
}

/* The plan leaves some chips out. */
static const char *replica_text(const struct page *p, const struct chip_report *c, const char *none,
                                char out[12])
{
    snprintf(out, 12, "%u", c->replica);
    return c->replica < p->n_replicas ? out : none;
}

static void add_chip(struct buf *out, const struct page *p, const struct chip_report *c)
{
    char replica[12];
    buf_printf(out,
               "{\"id\":%u,\"sled\":%u,\"rack\":%u,\"replica\":%s,\"state\":\"%s\",\"tokens\":%llu,"
               "\"prompt_tokens\":%llu,\"tokens_per_s\":%.9g,\"busy_share\":%.9g,"
               "\"hbm_used_bytes\":%llu,\"hbm_total_bytes\":%llu,\"link_bytes\":{\"sled\":%llu,"
               "\"rack\":%llu,\"cross\":%llu},\"flops\":%.9g,\"hbm_read_bytes\":%.9g,"
               "\"joules\":%.9g}",
               c->chip, c->sled, c->rack, replica_text(p, c, "null", replica), c->state,
               (unsigned long long)c->tokens, (unsigned long long)c->prompt_tokens, c->tokens_per_s,
               c->busy_share, (unsigned long long)c->hbm_used_bytes,
               (unsigned long long)c->hbm_total_bytes, (unsigned long long)c->link_bytes[LINK_SLED],
               (unsigned long long)c->link_bytes[LINK_RACK],
               (unsigned long long)c->link_bytes[LINK_CROSS], c->flops, c->hbm_read_bytes,
               c->joules);
}

static void add_replica(struct buf *out, const struct replica_report *r)
{
    buf_printf(out,
               "{\"id\":%u,\"first_chip\":%u,\"chips\":%u,\"running\":%u,\"waiting\":%u,"
               "\"tokens\":%llu,\"prompt_tokens\":%llu,\"steps\":%llu,\"kv_blocks_used\":%llu,"
               "\"kv_blocks_total\":%llu,\"busy_share\":%.9g}",
               r->replica, r->first_chip, r->chips, r->running, r->waiting,
               (unsigned long long)r->tokens, (unsigned long long)r->prompt_tokens,
               (unsigned long long)r->steps, (unsigned long long)r->kv_blocks_used,
               (unsigned long long)r->kv_blocks_total, r->busy_share);
}

struct totals {
    uint64_t tokens, prompt_tokens;
    double joules;
};

static struct totals add_up(const struct page *p)
{
    struct totals t = {0};
    for (uint32_t i = 0; i < p->n_chips; i++) {
        t.tokens += p->chips[i].tokens;
        t.prompt_tokens += p->chips[i].prompt_tokens;
        t.joules += p->chips[i].joules;
    }
    return t;
}

static void print_tail(const struct page *p, struct buf *out)
{
    const struct engine_stats *s = &p->stats;
    struct totals t = add_up(p);
    buf_printf(out,
               "],\"totals\":{\"tokens\":%llu,\"prompt_tokens\":%llu,\"tokens_per_s\":%.9g,"
               "\"joules\":%.9g,\"running\":%u,\"waiting\":%u,\"preemptions\":%llu,"
               "\"steps\":%llu},\"response_time\":{",
               (unsigned long long)t.tokens, (unsigned long long)t.prompt_tokens,
               p->seconds > 0 ? (double)t.tokens / p->seconds : 0, t.joules, s->running, s->waiting,
               (unsigned long long)s->preemptions, (unsigned long long)s->steps);
    add_latency(out, "ttft_s", &s->ttft);
    buf_char(out, ',');
    add_latency(out, "tpot_s", &s->tpot);
    buf_char(out, ',');
    add_latency(out, "e2e_s", &s->e2e);
    buf_printf(out, ",\"requests\":%llu}}", (unsigned long long)s->e2e.total);
}

static void print_json(const struct page *p, struct buf *out)
{
    const struct backend *b = p->b;
    buf_printf(out,
               "{\"object\":\"chips\",\"emulated_seconds\":%.9g,\"lag_seconds\":%.9g,"
               "\"pace\":%.4g,\"stretched\":%s",
               p->seconds, (double)p->stats.lag_ns * 1e-9, pace(p),
               pace(p) < STRETCHED_BELOW ? "true" : "false");
    add_name(out, "machine", b->machine.name);
    add_name(out, "plan", b->plan);
    add_name(out, "clock", backend_clock_name(b));
    add_name(out, "computed_model", b->name);
    add_name(out, "timed_model", b->timed.name);
    buf_str(out, ",\"chips\":[");
    for (uint32_t i = 0; i < p->n_chips; i++) {
        if (i) buf_char(out, ',');
        add_chip(out, p, &p->chips[i]);
    }
    buf_str(out, "],\"replicas\":[");
    for (uint32_t i = 0; i < p->n_replicas; i++) {
        if (i) buf_char(out, ',');
        add_replica(out, &p->replicas[i]);
    }
    print_tail(p, out);
}

static void print_row(struct buf *out, const struct page *p, const struct chip_report *c)
{
    char replica[12];
    double link = 0;
    for (int i = 0; i < LINK_LEVELS; i++)
        link += (double)c->link_bytes[i];
    buf_printf(out, "%5u %4u %4u %7s  %-6s %10llu %10llu %10.1f %6.2f %7.1f/%-5.0f %10.3f %9.1f\n",
               c->chip, c->sled, c->rack, replica_text(p, c, "-", replica), c->state,
               (unsigned long long)c->tokens, (unsigned long long)c->prompt_tokens, c->tokens_per_s,
               100 * c->busy_share, (double)c->hbm_used_bytes * 1e-9,
               (double)c->hbm_total_bytes * 1e-9, link * 1e-9, c->joules);
}

static void print_text(const struct page *p, struct buf *out)
{
    const struct {
        const char *name;
        const struct quant *q;
    } times[] = {{"TTFT", &p->stats.ttft}, {"TPOT", &p->stats.tpot}, {"E2E", &p->stats.e2e}};
    const struct backend *b = p->b;
    struct totals t = add_up(p);
    buf_printf(out,
               "machine %s  plan %s  clock %s\ntokens come from %s, time is charged for %s\n"
               "emulated %.3f s",
               b->machine.name, b->plan, backend_clock_name(b), b->name, b->timed.name, p->seconds);
    if (pace(p) < STRETCHED_BELOW)
        buf_printf(out, ", stretched: this host kept %.0f %% of the pace", 100 * pace(p));
    buf_printf(out, "  tokens %llu (%.1f/s)  prompt tokens %llu  energy of all chips %.1f J\n",
               (unsigned long long)t.tokens, p->seconds > 0 ? (double)t.tokens / p->seconds : 0,
               (unsigned long long)t.prompt_tokens, t.joules);
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        const struct quant *q = times[i].q;
        buf_printf(out, "%-4s mean %9.3f ms  p50 %9.3f  p90 %9.3f  p99 %9.3f  (%llu)\n",
                   times[i].name, 1e3 * mean(q), 1e3 * quant_at(q, 0.5), 1e3 * quant_at(q, 0.9),
                   1e3 * quant_at(q, 0.99), (unsigned long long)q->total);
    }
    buf_str(out, "\n chip sled rack replica  state      tokens     prompt   tokens/s  busy%"
                 "    HBM GB        link GB    joules\n");
    for (uint32_t i = 0; i < p->n_chips; i++)
        print_row(out, p, &p->chips[i]);
}

static bool wants_text(const struct http_req *r)
{
    const char *format = http_query(r, "format"), *accept = http_header_in(r, "accept");
    if (format) return !strcmp(format, "text");
    return accept && !strncmp(accept, "text/plain", 10);
}

void api_chips(struct app *a, struct http_req *r)
{
    struct page p = {.b = &a->backend};
    struct engine *e = a->backend.engine;
    uint32_t n = a->backend.machine.chips, m = a->backend.options.plan.replicas;
    p.chips = calloc(n, sizeof *p.chips);
    p.replicas = calloc(m, sizeof *p.replicas);
    engine_stats(e, &p.stats);
    p.n_chips = p.chips ? engine_chips(e, p.chips, n) : 0;
    p.n_replicas = p.replicas ? engine_replicas(e, p.replicas, m) : 0;
    p.seconds = (double)p.stats.now.ns * 1e-9;
    struct buf body = {0};
    if (wants_text(r)) {
        print_text(&p, &body);
        http_header(r, "cache-control", "no-store");
        reply_text(r, 200, "text/plain; charset=utf-8", &body);
    } else {
        print_json(&p, &body);
        reply_json(r, 200, &body);
    }
    free(p.chips);
    free(p.replicas);
}
