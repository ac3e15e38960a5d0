/* engine_stats.c - copies of counters and gauges for other threads, made once a pass. */
#include "engine/engine_state.h"

#include <string.h>

/* Chips and replicas are copied no more often than this while steps run. */
#define CHIPS_EVERY_NS 10000000

#define COUNT(a) ((uint32_t)(sizeof(a) / sizeof *(a)))

/* Bounds: vLLM's, so that its dashboards fit; inter-token times have some more below 10 ms. */
static const double ttft_bounds[] = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                                     1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
static const double itl_bounds[] = {.0005, .001, .0025, .005, .01, .025, .05, .075, .1, .15, .2, .3,
                                    .4,    .5,   .75,   1,    2.5, 5,    7.5, 10,   20, 40,  80};
static const double long_bounds[] = {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                     30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
static const double token_bounds[] = {1,    2,    5,    10,    20,    50,    100,    200,   500,
                                      1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000};
static const double step_bounds[] = {1,   8,    16,   32,   64,   128,  256,
                                     512, 1024, 2048, 4096, 8192, 16384};

void engine_stats_init(struct engine_stats *s)
{
    memset(s, 0, sizeof *s);
    for (unsigned i = 0; i < LATENCIES; i++)
        hist_init(&s->latency[i], long_bounds, COUNT(long_bounds));
    hist_init(&s->latency[LAT_TTFT], ttft_bounds, COUNT(ttft_bounds));
    hist_init(&s->latency[LAT_TPOT], itl_bounds, COUNT(itl_bounds));
    hist_init(&s->latency[LAT_ITL], itl_bounds, COUNT(itl_bounds));
    hist_init(&s->prompt_hist, token_bounds, COUNT(token_bounds));
    hist_init(&s->output_hist, token_bounds, COUNT(token_bounds));
    hist_init(&s->step_tokens_hist, step_bounds, COUNT(step_bounds));
}

static double share(double part, double whole)
{
    return whole > 0 ? part < whole ? part / whole : 1 : 0;
}

static void report_replica(const struct engine *e, uint32_t index, struct replica_report *out)
{
    const struct replica *r = &e->replicas[index];
    *out = (struct replica_report){.replica = index,
                                   .first_chip = index * e->o.plan.chips,
                                   .chips = e->o.plan.chips,
                                   .running = sched_running(r->sched),
                                   .waiting = sched_waiting(r->sched),
                                   .tokens = r->tokens,
                                   .prompt_tokens = r->prompt_tokens,
                                   .steps = r->steps,
                                   .busy_share = share(r->busy_ns, (double)e->now.ns)};
    for (uint32_t g = 0; g < e->computed.attn_dp; g++) {
        struct kv_counts c = kv_full(r->kv[g]);
        out->kv_blocks_used += c.used;
        out->kv_blocks_total += c.total;
    }
}

/* What the running sequences hold on the chips of the fullest group, in the timed machine's HBM.
 * Where the timed plan has other groups, sequences are taken to be spread evenly over them. */
static uint64_t kv_chip_bytes(const struct engine *e, const struct replica *r)
{
    const struct engine_options *o = &e->o;
    uint64_t full = plan_kv_token_bytes(&o->plan, o->timed) * o->block_tokens, most = 0, sum = 0;
    uint64_t slide = plan_kv_window_bytes(&o->plan, o->timed) / o->timed->window * o->block_tokens;
    for (uint32_t g = 0; g < e->computed.attn_dp; g++) {
        uint64_t bytes = kv_full(r->kv[g]).used * full + kv_slide(r->kv[g]).used * slide;
        if (bytes > most) most = bytes;
        sum += bytes;
    }
    return e->computed.attn_dp == o->plan.attn_dp ? most : sum / o->plan.attn_dp;
}

static void report_chip(const struct engine *e, uint32_t chip, struct chip_report *out)
{
    static const char *const states[] = {
        [CHIP_IDLE] = "idle", [CHIP_BUSY] = "busy", [CHIP_UNUSED] = "unused"};
    const struct chip_counters *c = telemetry_chip(e->telemetry, chip);
    *out = (struct chip_report){.chip = chip,
                                .sled = machine_sled(e->o.machine, chip),
                                .rack = machine_rack(e->o.machine, chip),
                                .replica = chip / e->o.plan.chips,
                                .state = states[c->state],
                                .tokens = c->tokens,
                                .prompt_tokens = c->prompt_tokens,
                                .busy_share = share(c->busy_ns, (double)e->now.ns),
                                .hbm_used_bytes = c->hbm_weight_bytes + c->hbm_kv_bytes,
                                .hbm_total_bytes = e->o.machine->hbm_bytes,
                                .flops = c->flops,
                                .hbm_read_bytes = c->hbm_read_bytes};
    if (e->now.ns) out->tokens_per_s = (double)c->tokens / ((double)e->now.ns / NS_PER_S);
    for (unsigned l = 0; l < LINK_LEVELS; l++)
        out->link_bytes[l] = (uint64_t)c->link_bytes[l];
    double idle = (double)e->now.ns - c->busy_ns;
    out->joules = cost_joules(e->o.machine, c->busy_ns - c->busy_prefill_ns, c->busy_prefill_ns,
                              idle > 0 ? idle : 0);
}

static void publish_chips(struct engine *e)
{
    for (uint32_t i = 0; i < e->o.plan.replicas; i++) {
        telemetry_kv(e->telemetry, i, kv_chip_bytes(e, &e->replicas[i]));
        report_replica(e, i, &e->published.replicas[i]);
    }
    for (uint32_t c = 0; c < telemetry_chips(e->telemetry); c++)
        report_chip(e, c, &e->published.chips[c]);
}

void engine_publish(struct engine *e, bool all)
{
    struct engine_stats *s = &e->stats;
    struct wall now = wall_now();
    bool idle = true;
    uint32_t queued = e->n_future;
    s->now = e->now;
    s->running = 0;
    s->kv_blocks_used = s->kv_blocks_total = 0;
    for (uint32_t i = 0; i < e->o.plan.replicas; i++) {
        const struct replica *r = &e->replicas[i];
        s->running += sched_running(r->sched);
        queued += sched_waiting(r->sched);
        idle = idle && !r->busy;
        for (uint32_t g = 0; g < e->computed.attn_dp; g++) {
            struct kv_counts c = kv_full(r->kv[g]);
            s->kv_blocks_used += c.used;
            s->kv_blocks_total += c.total;
        }
    }
    e->queued = queued;
    s->last_step = now;
    s->lag_ns = e->lag_ns;
    e->published.stats = *s;
    bool working = e->n_live && !idle;
    if (!all && working && now.ns - e->chips_published.ns < CHIPS_EVERY_NS) return;
    publish_chips(e);
    e->chips_published = now;
}

/* The thread of an idle engine sleeps and publishes nothing; the machine's time goes on. Lock held.
 */
static struct virt idle_now(const struct engine *e)
{
    const struct engine_stats *s = &e->published.stats;
    bool work = s->running || e->queued || e->inbox_len;
    return work || e->o.clock == CLOCK_VIRTUAL ? s->now : engine_now(e);
}

void engine_stats(struct engine *e, struct engine_stats *out)
{
    pthread_mutex_lock(&e->lock);
    *out = e->published.stats;
    out->now = idle_now(e);
    out->submitted = e->submitted;
    out->waiting = e->queued + e->inbox_len;
    out->has_work = out->running || out->waiting;
    pthread_mutex_unlock(&e->lock);
}

uint32_t engine_chips(struct engine *e, struct chip_report *out, uint32_t max)
{
    uint32_t n = e->o.machine->chips;
    pthread_mutex_lock(&e->lock);
    if (max > n) max = n;
    if (max) memcpy(out, e->published.chips, max * sizeof *out);
    double then = (double)e->published.stats.now.ns, now = (double)idle_now(e).ns;
    for (uint32_t i = 0; i < max && now > then; i++) {
        out[i].tokens_per_s *= then / now;
        out[i].busy_share *= then / now;
        out[i].joules += cost_joules(e->o.machine, 0, 0, now - then);
    }
    pthread_mutex_unlock(&e->lock);
    return n;
}

uint32_t engine_replicas(struct engine *e, struct replica_report *out, uint32_t max)
{
    uint32_t n = e->o.plan.replicas;
    pthread_mutex_lock(&e->lock);
    if (max > n) max = n;
    if (max) memcpy(out, e->published.replicas, max * sizeof *out);
    double then = (double)e->published.stats.now.ns, now = (double)idle_now(e).ns;
    for (uint32_t i = 0; i < max && now > then; i++)
        out[i].busy_share *= then / now;
    pthread_mutex_unlock(&e->lock);
    return n;
}
