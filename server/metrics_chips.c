/* metrics_chips.c - one series a chip and figure: 144 chips make some 1400 lines, so that integers
 * are written by hand. */
#include "server/metrics.h"

#include <stdio.h>
#include <string.h>

/* name{chip="N" */
static void series(struct buf *out, const char *name, const struct chip_report *c)
{
    buf_str(out, name);
    buf_str(out, "{chip=\"");
    metric_u64(out, c->chip);
    buf_char(out, '"');
}

static void print_integers(const struct metrics_page *p, struct buf *out)
{
    static const struct {
        const char *name, *type, *help;
        size_t offset;
    } rows[] = {
        {"trnd_chip_tokens_total", "counter", "Output tokens counted on the chip.",
         offsetof(struct chip_report, tokens)},
        {"trnd_chip_prompt_tokens_total", "counter", "Computed prompt tokens of the chip.",
         offsetof(struct chip_report, prompt_tokens)},
        {"trnd_chip_hbm_used_bytes", "gauge", "emulated: HBM in use.",
         offsetof(struct chip_report, hbm_used_bytes)},
        {"trnd_chip_hbm_total_bytes", "gauge", "emulated: HBM of the chip.",
         offsetof(struct chip_report, hbm_total_bytes)},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        metric_head(out, rows[r].name, rows[r].type, rows[r].help);
        for (uint32_t i = 0; i < p->n_chips; i++) {
            uint64_t v;
            memcpy(&v, (const char *)&p->chips[i] + rows[r].offset, sizeof v);
            series(out, rows[r].name, &p->chips[i]);
            buf_str(out, "} ");
            metric_u64(out, v);
            buf_char(out, '\n');
        }
    }
}

static void print_reals(const struct metrics_page *p, struct buf *out)
{
    static const struct {
        const char *name, *type, *help;
        size_t offset;
    } rows[] = {
        {"trnd_chip_busy_ratio", "gauge",
         "emulated: share of the time since start that it computed.",
         offsetof(struct chip_report, busy_share)},
        {"trnd_chip_flops_total", "counter", "emulated: operations.",
         offsetof(struct chip_report, flops)},
        {"trnd_chip_hbm_read_bytes_total", "counter", "emulated: bytes read from HBM.",
         offsetof(struct chip_report, hbm_read_bytes)},
        {"trnd_chip_energy_joules_total", "counter", "emulated: energy.",
         offsetof(struct chip_report, joules)},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        metric_head(out, rows[r].name, rows[r].type, rows[r].help);
        for (uint32_t i = 0; i < p->n_chips; i++) {
            double v;
            memcpy(&v, (const char *)&p->chips[i] + rows[r].offset, sizeof v);
            series(out, rows[r].name, &p->chips[i]);
            buf_printf(out, "} %.9g\n", v);
        }
    }
}

static void print_links(const struct metrics_page *p, struct buf *out)
{
    static const char *const levels[LINK_LEVELS] = {"sled", "rack", "cross"};
    metric_head(out, "trnd_chip_link_bytes_total", "counter",
                "emulated: bytes sent, by fabric level.");
    for (uint32_t i = 0; i < p->n_chips; i++)
        for (int l = 0; l < LINK_LEVELS; l++) {
            series(out, "trnd_chip_link_bytes_total", &p->chips[i]);
            buf_str(out, ",level=\"");
            buf_str(out, levels[l]);
            buf_str(out, "\"} ");
            metric_u64(out, p->chips[i].link_bytes[l]);
            buf_char(out, '\n');
        }
}

static void print_replicas(const struct metrics_page *p, struct buf *out)
{
    static const struct {
        const char *name, *help;
        size_t offset;
    } rows[] = {
        {"trnd_replica_requests_running", "Sequences in the replica's batch.",
         offsetof(struct replica_report, running)},
        {"trnd_replica_requests_waiting", "Requests that wait for the replica.",
         offsetof(struct replica_report, waiting)},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        metric_head(out, rows[r].name, "gauge", rows[r].help);
        for (uint32_t i = 0; i < p->n_replicas; i++) {
            uint32_t v;
            memcpy(&v, (const char *)&p->replicas[i] + rows[r].offset, sizeof v);
            buf_printf(out, "%s{replica=\"%u\"} %u\n", rows[r].name, p->replicas[i].replica, v);
        }
    }
    metric_head(out, "trnd_replica_tokens_total", "counter", "Output tokens of the replica.");
    for (uint32_t i = 0; i < p->n_replicas; i++)
        buf_printf(out, "trnd_replica_tokens_total{replica=\"%u\"} %llu\n", p->replicas[i].replica,
                   (unsigned long long)p->replicas[i].tokens);
}

void metrics_print_chips(const struct metrics_page *p, struct buf *out)
{
    print_integers(p, out);
    print_reals(p, out);
    print_links(p, out);
    print_replicas(p, out);
}
