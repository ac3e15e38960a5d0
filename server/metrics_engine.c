/* metrics_engine.c - the engine's figures under the names that dashboards for vLLM know. All times
 * are of the emulated machine; each HELP says so. */
#include "server/metrics.h"

#include <stdio.h>
#include <string.h>

#define E "emulated: "

struct page {
    struct buf *out;
    char labels[320]; /* model_name="...",engine="0" */
};

static void value(struct page *p, const char *type, const char *name, const char *help, double v)
{
    metric_head(p->out, name, type, help);
    buf_printf(p->out, "%s{%s} %.15g\n", name, p->labels, v);
}

static void hist(struct page *p, const char *name, const char *help, const struct hist *h)
{
    metric_head(p->out, name, "histogram", help);
    metric_hist(p->out, name, p->labels, h);
}

static void print_gauges(struct page *p, const struct metrics_page *m)
{
    const struct engine_stats *s = m->stats;
    double use = s->kv_blocks_total ? (double)s->kv_blocks_used / (double)s->kv_blocks_total : 0;
    value(p, "gauge", "vllm:num_requests_running", "Requests in a batch.", s->running);
    value(p, "gauge", "vllm:num_requests_waiting", "Requests that wait.", s->waiting);
    value(p, "gauge", "vllm:kv_cache_usage_perc", "KV blocks in use, 0 to 1.", use);
    metric_head(p->out, "vllm:cache_config_info", "gauge", "How the KV memory is cut.");
    buf_printf(p->out,
               "vllm:cache_config_info{%s,block_size=\"%u\",num_gpu_blocks=\"%llu\","
               "cache_dtype=\"bfloat16\",enable_prefix_caching=\"%s\"} 1\n",
               p->labels, m->options->block_tokens, (unsigned long long)s->kv_blocks_total,
               m->options->prefix_cache ? "True" : "False");
}

static void print_counters(struct page *p, const struct metrics_page *m)
{
    static const char *const reasons[FINISH_ERROR + 1] = {[FINISH_STOP] = "stop",
                                                          [FINISH_LENGTH] = "length",
                                                          [FINISH_ABORT] = "abort",
                                                          [FINISH_ERROR] = "error"};
    const struct engine_stats *s = m->stats;
    value(p, "counter", "vllm:prompt_tokens_total", "Prompt tokens of admitted requests.",
          (double)s->prompt_tokens);
    value(p, "counter", "vllm:prompt_tokens_cached_total", "Of these, found in the prefix cache.",
          (double)s->cached_tokens);
    value(p, "counter", "vllm:generation_tokens_total", "Sampled tokens that were delivered.",
          (double)s->delivered_tokens);
    value(p, "counter", "vllm:num_preemptions_total", "Sequences set back to waiting.",
          (double)s->preemptions);
    value(p, "counter", "vllm:prefix_cache_queries_total", "Prompt tokens looked up.",
          (double)s->prefix_queries_tokens);
    value(p, "counter", "vllm:prefix_cache_hits_total", "Prompt tokens found.",
          (double)s->prefix_hits_tokens);
    metric_head(p->out, "vllm:request_success_total", "counter", "Ended requests by reason.");
    for (int i = FINISH_STOP; i <= FINISH_ERROR; i++)
        buf_printf(p->out, "vllm:request_success_total{%s,finished_reason=\"%s\"} %llu\n",
                   p->labels, reasons[i], (unsigned long long)m->own->finished[i]);
}

static void print_hists(struct page *p, const struct metrics_page *m)
{
    static const struct {
        enum latency which;
        const char *name, *help;
    } times[] = {
        {LAT_TTFT, "vllm:time_to_first_token_seconds", E "arrival to first token."},
        {LAT_ITL, "vllm:inter_token_latency_seconds", E "between two tokens of a request."},
        {LAT_TPOT, "vllm:request_time_per_output_token_seconds",
         E "mean time of a request's tokens after its first."},
        {LAT_E2E, "vllm:e2e_request_latency_seconds", E "arrival to last token."},
        {LAT_QUEUE, "vllm:request_queue_time_seconds", E "arrival to first step."},
        {LAT_PREFILL, "vllm:request_prefill_time_seconds", E "first step to first token."},
        {LAT_DECODE, "vllm:request_decode_time_seconds", E "first token to last token."},
    };
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        hist(p, times[i].name, times[i].help, &m->stats->latency[times[i].which]);
    hist(p, "vllm:request_prompt_tokens", "Prompt tokens of a request.", &m->stats->prompt_hist);
    hist(p, "vllm:request_generation_tokens", "Sampled tokens of a request.",
         &m->stats->output_hist);
    hist(p, "vllm:iteration_tokens_total", "Tokens computed in a step.",
         &m->stats->step_tokens_hist);
    hist(p, "vllm:request_params_n", "'n' of requests.", &m->own->n);
    hist(p, "vllm:request_params_max_tokens", "'max_tokens' of requests that say it.",
         &m->own->max_tokens);
}

static void plain(struct buf *out, const char *type, const char *name, const char *help, double v)
{
    metric_head(out, name, type, help);
    buf_printf(out, "%s %.15g\n", name, v);
}

void metrics_print_engine(const struct metrics_page *m, struct buf *out)
{
    const struct engine_stats *s = m->stats;
    struct page p = {.out = out};
    struct buf name = {0};
    buf_json(&name, m->model_name, strlen(m->model_name));
    snprintf(p.labels, sizeof p.labels, "model_name=\"%.256s\",engine=\"0\"",
             name.data ? name.data : "");
    buf_free(&name);
    print_gauges(&p, m);
    print_counters(&p, m);
    print_hists(&p, m);
    plain(out, "counter", "trnd_steps_total", "Steps, all replicas.", (double)s->steps);
    plain(out, "counter", "trnd_emulated_seconds_total", "Clock of the emulated machine.",
          (double)s->now.ns * 1e-9);
    plain(out, "counter", "trnd_emulated_lag_seconds_total",
          "How much emulated time was stretched because this host was slower.",
          (double)s->lag_ns * 1e-9);
    plain(out, "counter", "trnd_host_busy_seconds_total", "Measured time spent computing.",
          (double)s->host_busy_ns * 1e-9);
    plain(out, "counter", "trnd_sampled_tokens_total", "Sampled tokens: delivered and dropped.",
          (double)s->sampled_tokens);
    plain(out, "counter", "trnd_dropped_tokens_total",
          "Sampled tokens that were dropped because their request was cancelled.",
          (double)s->dropped_tokens);
    plain(out, "counter", "trnd_computed_prompt_tokens_total", "Prompt tokens that were computed.",
          (double)s->computed_prompt_tokens);
}
