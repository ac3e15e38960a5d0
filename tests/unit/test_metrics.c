/* test_metrics.c - the Prometheus page: well formed, complete from the start, emulated and measured
 * times apart. */
#include "server/metrics.h"

#include "tests/unit/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double bounds[] = {0.01, 0.1, 1};

static struct metrics own;
static struct engine_stats stats;
static struct engine_options options = {.block_tokens = 16, .prefix_cache = true};
static struct chip_report chips[144];
static struct replica_report replicas[72];
static struct buf page;

static void setup(void)
{
    metrics_init(&own);
    metrics_route(&own, "/v1/chat/completions");
    metrics_route(&own, "other");
    memset(&stats, 0, sizeof stats);
    for (int i = 0; i < LATENCIES; i++)
        hist_init(&stats.latency[i], bounds, 3);
    hist_init(&stats.prompt_hist, bounds, 3);
    hist_init(&stats.output_hist, bounds, 3);
    hist_init(&stats.step_tokens_hist, bounds, 3);
    memset(chips, 0, sizeof chips);
    memset(replicas, 0, sizeof replicas);
    for (uint32_t i = 0; i < 144; i++)
        chips[i].chip = i;
    for (uint32_t i = 0; i < 72; i++)
        replicas[i].replica = i;
}

static void teardown(void)
{
    buf_free(&page);
}

static void print(bool loaded)
{
    struct metrics_page p = {.own = &own, .start_time = 5, .ready = true};
    if (loaded) {
        p.stats = &stats;
        p.options = &options;
        p.model_name = "na\"no";
        p.chips = chips;
        p.n_chips = 144;
        p.replicas = replicas;
        p.n_replicas = 72;
    }
    buf_clear(&page);
    metrics_print(&p, &page);
    ck_assert(!page.failed);
}

static void has(const char *line)
{
    struct buf whole = {0};
    buf_printf(&whole, "\n%s\n", line);
    ck_assert_msg(strstr(page.data, whole.data) != NULL, "no line '%s'", line);
    buf_free(&whole);
}

/* The name of a sample belongs to the TYPE before it; series are unique. */
START_TEST(page_is_well_formed)
{
    char type[128] = "", kind[16] = "", seen[200][128];
    int families = 0;
    stats.latency[LAT_TTFT].counts[1] = 3;
    stats.latency[LAT_TTFT].total = 3;
    print(true);
    ck_assert_int_eq(page.data[page.len - 1], '\n');
    for (char *save, *line = strtok_r(page.data, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        char name[128], rest[64];
        double value;
        if (!strncmp(line, "# HELP ", 7)) continue;
        if (sscanf(line, "# TYPE %127s %15s", name, kind) == 2) {
            for (int i = 0; i < families; i++)
                ck_assert_msg(strcmp(seen[i], name) != 0, "%s twice", name);
            strcpy(seen[families++], name);
            strcpy(type, name);
            ck_assert_msg(strcmp(kind, "counter") || strstr(name, "_total"), "counter %s", name);
            continue;
        }
        ck_assert_msg(sscanf(line, "%127[a-zA-Z0-9_:]", name) == 1, "line '%s'", line);
        const char *end = name + strlen(type);
        ck_assert_msg(!strncmp(name, type, strlen(type)) &&
                          (!*end || (!strcmp(kind, "histogram") &&
                                     (!strcmp(end, "_bucket") || !strcmp(end, "_sum") ||
                                      !strcmp(end, "_count")))),
                      "%s under TYPE %s", name, type);
        const char *space = strrchr(line, ' ');
        ck_assert_msg(space && sscanf(space, "%lf%63s", &value, rest) == 1, "value of '%s'", line);
    }
    ck_assert_int_gt(families, 40);
}
END_TEST

START_TEST(everything_is_there_from_the_start)
{
    print(true);
    has("vllm:num_requests_running{model_name=\"na\\\"no\",engine=\"0\"} 0");
    has("vllm:num_requests_waiting{model_name=\"na\\\"no\",engine=\"0\"} 0");
    has("vllm:kv_cache_usage_perc{model_name=\"na\\\"no\",engine=\"0\"} 0");
    has("vllm:generation_tokens_total{model_name=\"na\\\"no\",engine=\"0\"} 0");
    static const char *const reasons[] = {"stop", "length", "abort", "error"};
    for (int i = 0; i < 4; i++) {
        char line[128];
        snprintf(line, sizeof line,
                 "vllm:request_success_total{model_name=\"na\\\"no\",engine=\"0\","
                 "finished_reason=\"%s\"} 0",
                 reasons[i]);
        has(line);
    }
    has("trnd_http_requests_total{handler=\"/v1/chat/completions\",status=\"5xx\"} 0");
    has("trnd_http_disconnects_total{phase=\"prefill\"} 0");
    has("trnd_http_rejected_total{reason=\"queue_full\"} 0");
    has("trnd_chip_tokens_total{chip=\"143\"} 0");
    has("trnd_ready 1");
    ck_assert_ptr_nonnull(strstr(page.data, "\nvllm:time_to_first_token_seconds_bucket{"));
}
END_TEST

START_TEST(figures_arrive)
{
    stats.delivered_tokens = 1234567890123;
    stats.kv_blocks_total = 8;
    stats.kv_blocks_used = 2;
    stats.latency[LAT_TTFT].counts[0] = 1;
    stats.latency[LAT_TTFT].counts[3] = 2;
    stats.latency[LAT_TTFT].total = 3;
    stats.latency[LAT_TTFT].sum = 4.5;
    chips[7].tokens = 18446744073709551615ull;
    chips[7].link_bytes[LINK_RACK] = 42;
    chips[7].joules = 1.5;
    own.finished[FINISH_ABORT] = 3;
    own.requests[0][1] = 9;
    print(true);
#define L "model_name=\"na\\\"no\",engine=\"0\""
    has("vllm:generation_tokens_total{" L "} 1234567890123");
    has("vllm:kv_cache_usage_perc{" L "} 0.25");
    has("vllm:time_to_first_token_seconds_bucket{" L ",le=\"0.01\"} 1");
    has("vllm:time_to_first_token_seconds_bucket{" L ",le=\"1\"} 1");
    has("vllm:time_to_first_token_seconds_bucket{" L ",le=\"+Inf\"} 3");
    has("vllm:time_to_first_token_seconds_sum{" L "} 4.5");
    has("vllm:time_to_first_token_seconds_count{" L "} 3");
    has("vllm:request_success_total{" L ",finished_reason=\"abort\"} 3");
    has("trnd_chip_tokens_total{chip=\"7\"} 18446744073709551615");
    has("trnd_chip_link_bytes_total{chip=\"7\",level=\"rack\"} 42");
    has("trnd_chip_energy_joules_total{chip=\"7\"} 1.5");
    has("trnd_http_requests_total{handler=\"/v1/chat/completions\",status=\"2xx\"} 9");
}
END_TEST

START_TEST(emulated_and_measured_stay_apart)
{
    print(true);
    for (const char *p = page.data; (p = strstr(p, "# HELP ")) != NULL; p++) {
        char name[128], help[256];
        ck_assert_int_eq(sscanf(p, "# HELP %127s %255[^\n]", name, help), 2);
        bool time = strstr(name, "_seconds") != NULL, emulated = strstr(help, "mulated") != NULL;
        if (time && !strncmp(name, "vllm:", 5)) ck_assert_msg(emulated, "%s: %s", name, help);
        if (!strncmp(name, "trnd_http_", 10)) ck_assert_msg(!emulated, "%s: %s", name, help);
    }
}
END_TEST

START_TEST(while_loading_the_rest_is_there)
{
    print(false);
    ck_assert_ptr_nonnull(strstr(page.data, "\nprocess_resident_memory_bytes "));
    ck_assert_ptr_nonnull(strstr(page.data, "\ntrnd_http_requests_in_flight 0\n"));
    ck_assert_ptr_null(strstr(page.data, "vllm:"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("metrics");
    TCase *t = tcase_create("metrics");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, page_is_well_formed);
    tcase_add_test(t, everything_is_there_from_the_start);
    tcase_add_test(t, figures_arrive);
    tcase_add_test(t, emulated_and_measured_stay_apart);
    tcase_add_test(t, while_loading_the_rest_is_there);
    suite_add_tcase(s, t);
    return tap_run(s);
}
