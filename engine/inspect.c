/* inspect.c - prints plans and priced programs. */
#include "engine/inspect.h"
#include "device/cost.h"
#include "engine/lower.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void print_head(FILE *out, const struct inspect *in)
{
    const struct machine_spec *m = in->machine;
    const struct model_shape *s = in->shape;
    const struct plan *p = &in->plan;
    static const char *const inside[] = {"a sled", "a rack", "two racks"};
    char plan[PLAN_TEXT_BYTES];
    plan_text(p, plan);
    enum link_level widest = LINK_SLED;
    for (uint32_t r = 0; r < p->replicas; r++) {
        enum link_level level = cost_level(m, r * p->chips, p->chips, 1);
        widest = level > widest ? level : widest;
    }
    fprintf(out, "machine %s: %u chips, %u a sled, %u a rack, %.1f GB of HBM each\n", m->name,
            m->chips, m->chips_per_sled, m->chips_per_sled * m->sleds_per_rack,
            (double)m->hbm_bytes / 1e9);
    fprintf(out, "model   %s: %u layers, %u of them sliding, %u experts, %u a token\n", s->name,
            s->layers, s->layers - shape_full_layers(s), s->experts, s->experts_per_token);
    fprintf(out, "plan    %s: each replica inside %s; %u chips unused\n", plan, inside[widest],
            m->chips - p->replicas * p->chips);
}

/* Writes "0-63,72" for the chips of the replica that hold as many bytes as chip c. */
static void print_equal_chips(FILE *out, const struct plan_weights *w, uint32_t n, uint32_t c)
{
    const char *comma = "";
    for (uint32_t i = c; i < n; i++) {
        uint32_t last = i;
        if (memcmp(&w[i], &w[c], sizeof *w) != 0) continue;
        while (last + 1 < n && memcmp(&w[last + 1], &w[c], sizeof *w) == 0)
            last++;
        if (last > i)
            fprintf(out, "%s%u-%u", comma, i, last);
        else
            fprintf(out, "%s%u", comma, i);
        comma = ",";
        i = last;
    }
}

static bool seen_before(const struct plan_weights *w, uint32_t c)
{
    for (uint32_t i = 0; i < c; i++)
        if (memcmp(&w[i], &w[c], sizeof *w) == 0) return true;
    return false;
}

static void print_chips(FILE *out, const struct inspect *in, const struct plan_weights *w)
{
    const struct plan *p = &in->plan;
    fprintf(out, "\n%8s %8s %8s %8s  %9s %9s %9s %9s %9s %9s %9s  %s\n", "kv heads", "experts",
            "columns", "vocab", "embed", "attention", "router", "experts", "head", "weights",
            "free", "chips");
    for (uint32_t c = 0; c < p->chips; c++) {
        if (seen_before(w, c)) continue;
        uint64_t sum = plan_weight_bytes(p, in->shape, in->machine, c);
        fprintf(out, "%8u %8u %8u %8u ", plan_kv_heads(p, in->shape, c).n,
                plan_experts(p, in->shape, c).n, plan_moe_columns(p, in->shape, c).n,
                plan_vocab_rows(p, in->shape, c).n);
        const double gb[] = {(double)w[c].embed,
                             (double)w[c].attention,
                             (double)w[c].router,
                             (double)w[c].experts,
                             (double)w[c].head,
                             (double)sum,
                             (double)in->machine->hbm_bytes - (double)sum};
        for (unsigned i = 0; i < sizeof gb / sizeof *gb; i++)
            fprintf(out, " %6.3f GB", gb[i] / 1e9);
        fputs("  ", out);
        print_equal_chips(out, w, p->chips, c);
        fputc('\n', out);
    }
}

enum err inspect_plan_print(FILE *out, const struct inspect *in, struct error *e)
{
    const struct plan *p = &in->plan;
    struct plan_weights *w = malloc(p->chips * sizeof *w);
    uint64_t tokens = 0;
    if (!w) return err_set(e, ERR_NOMEM, "out of memory");
    for (uint32_t c = 0; c < p->chips; c++)
        w[c] = plan_weights(p, in->shape, in->machine, c);
    print_head(out, in);
    print_chips(out, in, w);
    free(w);
    enum err rc = plan_kv_capacity(p, in->shape, in->machine, &tokens, e);
    if (rc) return rc;
    fprintf(out,
            "\nKV: %" PRIu64 " bytes a token and chip, %" PRIu64 " more a sequence (windows); room "
            "for %" PRIu64 " tokens a replica, %" PRIu64 " in all\n",
            plan_kv_token_bytes(p, in->shape), plan_kv_window_bytes(p, in->shape), tokens,
            tokens * p->replicas);
    return ERR_OK;
}

/* ---- programs */

static enum err check_step(const struct inspect_step *s, struct error *e)
{
    const struct {
        const char *name;
        uint32_t v, lo, hi;
    } fields[] = {{"sequences", s->seqs, 1, 65536},
                  {"rows", s->rows, 1, 1 << 20},
                  {"start", s->start, 0, 1 << 24}};
    for (unsigned i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].v < fields[i].lo || fields[i].v > fields[i].hi)
            return err_set(e, ERR_RANGE, "%s = %u: must be %u to %u", fields[i].name, fields[i].v,
                           fields[i].lo, fields[i].hi);
    if ((uint64_t)s->seqs * s->rows > 1u << 24)
        return err_set(e, ERR_RANGE, "sequences x rows = %" PRIu64 ": must be at most %u",
                       (uint64_t)s->seqs * s->rows, 1u << 24);
    return ERR_OK;
}

/* Lowers the step of replica 0, its sequences dealt round the data-parallel groups. */
static enum err lower(const struct inspect *in, const struct inspect_step *s, struct program *p,
                      struct error *e)
{
    struct batch_seq *seqs = calloc(s->seqs, sizeof *seqs);
    if (!seqs) return err_set(e, ERR_NOMEM, "out of memory");
    for (uint32_t i = 0; i < s->seqs; i++) {
        seqs[i].dp = (uint16_t)(i % in->plan.attn_dp);
        seqs[i].rows = s->rows;
        seqs[i].start = s->start;
        seqs[i].wants_logits = true;
    }
    struct batch b = {.seqs = seqs, .n_seqs = s->seqs, .n_rows = s->seqs * s->rows};
    struct step_counts counts;
    struct lower_options o = {.router_zipf_s = in->machine->router_zipf_s, .fold = true};
    lower_count(&b, 0, &in->plan, in->shape->window, &counts);
    lower_step(in->shape, &in->plan, &counts, &o, p);
    free(seqs);
    return prog_check(p, e);
}

static const char *bound_of(const struct cost *c)
{
    enum cost_bound most = BOUND_COMPUTE;
    for (int b = 0; b < BOUNDS; b++)
        if (c->ns[b] > c->ns[most]) most = (enum cost_bound)b;
    return c->total_ns > 0 ? cost_bound_name(most) : "-";
}

static double link_sum(const struct cost *c)
{
    double sum = 0;
    for (int l = 0; l < LINK_LEVELS; l++)
        sum += c->link_bytes[l];
    return sum;
}

static void print_numbers(FILE *out, const struct cost *c, double step_ns)
{
    fprintf(out, " %11.2f %6.2f %-8s %10.3f %10.3f %10.3f\n", c->total_ns / 1e3,
            100 * c->total_ns / step_ns, bound_of(c), c->flops / 1e9, c->hbm_bytes / 1e6,
            link_sum(c) / 1e6);
}

static void print_op(FILE *out, const struct program *p, const struct prog_op *op,
                     const struct cost *c, double step_ns)
{
    bool of_layer = p->ops[0].kind != op->kind && op->kind < OP_HEAD_NORM;
    char name[48];
    snprintf(name, sizeof name, "%s%s", op_name(op->kind),
             !of_layer     ? ""
             : op->sliding ? " (sliding)"
                           : " (full)");
    fprintf(out, "%-24s x%-4u %8u %8u %8u", name, op->repeat, op->rows, op->n, op->k);
    print_numbers(out, c, step_ns);
}

static void print_sums(FILE *out, const struct program *p, const struct machine_spec *m,
                       const struct cost *step)
{
    struct cost fixed = {0};
    fixed.ns[BOUND_FIXED] = fixed.total_ns = step->ns[BOUND_FIXED];
    fprintf(out, "%-57s", "fixed: layers, sequences, step");
    print_numbers(out, &fixed, step->total_ns);
    fprintf(out, "%-57s", "step");
    print_numbers(out, step, step->total_ns);
    fputs("\nbound by", out);
    for (int b = 0; b < BOUNDS; b++)
        fprintf(out, "%s %s %.1f %%", b ? "," : "", cost_bound_name((enum cost_bound)b),
                100 * step->ns[b] / step->total_ns);
    double joules = cost_joules(m, step->total_ns, 0, 0);
    if (p->prefill_rows == p->rows) joules = cost_joules(m, 0, step->total_ns, 0);
    fprintf(out,
            "\n%.1f tokens/s a replica, %.1f a chip, %.3f J a token, at %u sequences a replica\n",
            p->rows / step->total_ns * 1e9, p->rows / step->total_ns * 1e9 / p->plan.chips,
            joules * p->plan.chips / p->rows, p->seqs);
}

enum err inspect_program_print(FILE *out, const struct inspect *in, const struct inspect_step *s,
                               struct error *e)
{
    enum err rc = check_step(s, e);
    struct program *p = rc ? NULL : calloc(1, sizeof *p);
    if (rc) return rc;
    if (!p) return err_set(e, ERR_NOMEM, "out of memory");
    rc = lower(in, s, p, e);
    if (rc) goto done;
    struct cost step = cost_step(in->machine, p, 0);
    print_head(out, in);
    fprintf(out,
            "step    sequences %u, rows of each %u, tokens before them %u; figures of the busiest "
            "chip\n\n",
            s->seqs, s->rows, s->start);
    fprintf(out, "%-24s %-5s %8s %8s %8s %11s %6s %-8s %10s %10s %10s\n", "op", "", "rows", "n",
            "k", "us", "%", "bound", "GFLOP", "HBM MB", "link MB");
    for (uint32_t i = 0; i < p->n_ops; i++) {
        struct cost c = cost_op(in->machine, p, &p->ops[i], 0);
        print_op(out, p, &p->ops[i], &c, step.total_ns);
    }
    print_sums(out, p, in->machine, &step);
done:
    free(p);
    return rc;
}
