/* test_gpu_cost.c - the cost model against what others measured: gpt-oss-120b on H100, H200, B200,
 * 151 points, four fitted constants a machine. */
#include "device/cost.h"
#include "engine/lower.h"

#include "tests/unit/tap.h"

#include <math.h>
#include <string.h>

#define MAX_CONC 4096

struct point {
    char hw[16], framework[16];
    unsigned isl, osl, tp, ep, dp_attention, conc;
    double tpot_ms;
};

struct profile {
    const char *hw, *framework, *machine;
    double most; /* mean of the absolute relative errors */
};

static struct model_shape big;

static const char *source_dir(void)
{
    return getenv("srcdir") ? getenv("srcdir") : ".";
}

static void load(struct machine_spec *m, const char *name)
{
    char path[1024];
    struct error e = {0};
    snprintf(path, sizeof path, "%s/conf/models/gpt-oss-120b.conf", source_dir());
    ck_assert_msg(!shape_load_file(&big, path, &e), "%s", e.text);
    snprintf(path, sizeof path, "%s/conf/machines/%s.conf", source_dir(), name);
    ck_assert_msg(!machine_load_file(m, path, &e), "%s", e.text);
}

static struct plan plan_of(const struct machine_spec *m, const struct point *x)
{
    struct plan p = {.replicas = 1, .chips = x->tp};
    struct error e = {0};
    p.attn_tp = x->dp_attention ? 1 : x->tp;
    p.ep = x->ep; /* 1: each expert's rows are split over all GPUs */
    ck_assert_msg(!plan_complete(&p, &big, m, &e), "%s", e.text);
    return p;
}

static double step_ms(const struct machine_spec *m, const struct plan *plan, uint32_t seqs,
                      uint32_t rows, uint32_t start)
{
    static struct batch_seq q[MAX_CONC];
    static struct program p;
    ck_assert_uint_le(seqs, MAX_CONC);
    for (uint32_t i = 0; i < seqs; i++)
        q[i] = (struct batch_seq){.dp = (uint16_t)(i % plan->attn_dp),
                                  .rows = rows,
                                  .start = start,
                                  .wants_logits = true};
    struct batch b = {.seqs = q, .n_seqs = seqs, .n_rows = seqs * rows};
    struct step_counts counts;
    struct lower_options o = {.router_zipf_s = m->router_zipf_s, .fold = true};
    lower_count(&b, 0, plan, big.window, &counts);
    lower_step(&big, plan, &counts, &o, &p);
    return cost_step(m, &p, 0).total_ns / 1e6;
}

/* Milliseconds from token to token with `conc` requests running: a decode step in the middle of the
 * output, and the prompts of the others, which come at the rate at which requests end. They share
 * their steps with decoding, so their fixed cost is paid already. */
static double tpot_ms(const struct machine_spec *m, const struct point *x)
{
    struct plan p = plan_of(m, x);
    struct machine_spec free = *m;
    free.layer_fixed_ns = free.seq_fixed_ns = 0;
    uint32_t isl = x->isl * 9 / 10, osl = x->osl * 9 / 10;
    double prompt = step_ms(&free, &p, p.attn_dp, isl, 0) / p.attn_dp;
    return step_ms(m, &p, x->conc, 1, isl + osl / 2) + prompt * x->conc / osl;
}

/* Reads the next point; false at the end. */
static bool next_point(FILE *f, struct point *x)
{
    char line[256];
    while (fgets(line, sizeof line, f)) {
        if (line[0] == '#' || strncmp(line, "hw,", 3) == 0) continue;
        int n = sscanf(line, "%15[^,],%15[^,],%u,%u,%u,%u,%u,%u,%lf", x->hw, x->framework, &x->isl,
                       &x->osl, &x->tp, &x->ep, &x->dp_attention, &x->conc, &x->tpot_ms);
        ck_assert_msg(n == 9, "bad line: %s", line);
        return true;
    }
    return false;
}

static FILE *open_points(void)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/tests/golden/cost/gpu_points.csv", source_dir());
    FILE *f = fopen(path, "r");
    ck_assert_msg(f, "%s cannot be read", path);
    return f;
}

START_TEST(token_times_match_the_measured_ones)
{
    static const struct profile profiles[] = {{"h100", "vllm", "h100-vllm", 0.04},
                                              {"h200", "vllm", "h200-vllm", 0.04},
                                              {"b200", "vllm", "b200-vllm", 0.06},
                                              {"b200", "trt", "b200-trtllm", 0.08}};
    for (unsigned i = 0; i < sizeof profiles / sizeof *profiles; i++) {
        const struct profile *want = &profiles[i];
        struct machine_spec m;
        struct point x;
        double sum = 0, worst = 0;
        int n = 0;
        load(&m, want->machine);
        FILE *f = open_points();
        while (next_point(f, &x)) {
            if (strcmp(x.hw, want->hw) != 0 || strcmp(x.framework, want->framework) != 0) continue;
            double error = fabs(tpot_ms(&m, &x) / x.tpot_ms - 1);
            sum += error;
            worst = error > worst ? error : worst;
            n++;
        }
        fclose(f);
        ck_assert_int_ge(n, 30);
        ck_assert_msg(sum / n <= want->most, "%s: mean error %.1f %% of %d points, at most %.0f %%",
                      want->machine, 100 * sum / n, n, 100 * want->most);
        ck_assert_msg(worst < 0.4, "%s: worst error %.0f %%", want->machine, 100 * worst);
    }
}
END_TEST

START_TEST(machines_rank_as_measured)
{
    /* hardware spec 7: B200-TRT before B200-vLLM before H200 before H100, same work */
    static const char *const names[] = {"b200-trtllm", "b200-vllm", "h200-vllm", "h100-vllm"};
    for (unsigned conc = 4; conc <= 64; conc *= 4) {
        double before = 0;
        for (int i = 0; i < 4; i++) {
            struct machine_spec m;
            struct point x = {.isl = 1024, .osl = 1024, .tp = 2, .ep = 1, .conc = conc};
            load(&m, names[i]);
            double now = tpot_ms(&m, &x);
            ck_assert_msg(now > before, "%s at %u: %g ms, the one before %g", names[i], conc, now,
                          before);
            before = now;
        }
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("gpu_cost");
    TCase *t = tcase_create("gpu_cost");
    tcase_add_test(t, token_times_match_the_measured_ones);
    tcase_add_test(t, machines_rank_as_measured);
    suite_add_tcase(s, t);
    return tap_run(s);
}
