/* feed.c - a scheduler of three lines: what is added runs. */
#include "tests/unit/feed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct feed {
    struct feed_options o;
    struct plan plan;
    struct machine *machine;
    struct program *program;
    struct batch batch;
    uint32_t blocks;        /* of a sequence */
    uint32_t *full, *slide; /* [seqs][blocks]: ids; slide is what a step sees */
    uint32_t *position;     /* [seqs] */
};

static void die(const char *what, const struct error *e)
{
    fprintf(stderr, "Bail out! %s: %s\n", what, e->text);
    exit(2);
}

static void *take(size_t n, size_t each)
{
    void *p = calloc(n, each);
    if (!p) {
        fprintf(stderr, "Bail out! no memory for the test\n");
        exit(2);
    }
    return p;
}

struct feed *feed_new(const struct feed_options *o)
{
    struct error e = {0};
    struct feed *f = take(1, sizeof *f);
    f->o = *o;
    if (!f->o.seqs) f->o.seqs = 1;
    if (!f->o.block_tokens) f->o.block_tokens = 16;
    if (!f->o.max_rows) f->o.max_rows = 512;
    struct machine_spec any = {.name = "any", .chips = UINT32_MAX};
    if (plan_parse(&f->plan, o->plan, &e) || plan_complete(&f->plan, o->shape, &any, &e))
        die(o->plan, &e);
    f->blocks = o->max_tokens / f->o.block_tokens + 1;
    f->machine = machine_new(&(struct machine_options){.shape = o->shape,
                                                       .weights = o->weights,
                                                       .plan = f->plan,
                                                       .block_tokens = f->o.block_tokens,
                                                       .full_blocks = f->blocks * f->o.seqs,
                                                       .slide_blocks = f->blocks * f->o.seqs,
                                                       .max_rows = f->o.max_rows,
                                                       .max_logit_rows = f->o.seqs,
                                                       .threads = o->threads,
                                                       .isa = o->isa ? o->isa : "auto"},
                             &e);
    if (!f->machine) die("machine_new", &e);
    f->program = take(1, sizeof *f->program);
    f->batch.seqs = take(f->o.seqs, sizeof *f->batch.seqs);
    f->batch.rows = take(f->o.max_rows, sizeof *f->batch.rows);
    f->full = take((size_t)f->o.seqs * f->blocks, sizeof *f->full);
    f->slide = take((size_t)f->o.seqs * f->blocks, sizeof *f->slide);
    f->position = take(f->o.seqs, sizeof *f->position);
    for (uint32_t i = 0; i < f->o.seqs * f->blocks; i++) /* not in the order of positions */
        f->full[i] = f->o.seqs * f->blocks - 1 - i;
    return f;
}

void feed_free(struct feed *f)
{
    machine_free(f->machine);
    free(f->program);
    free(f->batch.seqs);
    free(f->batch.rows);
    free(f->full);
    free(f->slide);
    free(f->position);
    free(f);
}

/* Blocks that fell out of the window get an id that does not exist: nobody may look at it. */
static void slide_window(struct feed *f, uint32_t s)
{
    uint32_t window = f->o.shape->window, start = f->position[s];
    uint32_t first = start >= window ? (start - window + 1) / f->o.block_tokens : 0;
    for (uint32_t i = 0; i < f->blocks; i++)
        f->slide[s * f->blocks + i] = i < first ? UINT32_MAX : i * f->o.seqs + s;
}

void feed_add(struct feed *f, uint32_t s, const uint32_t *ids, uint32_t n)
{
    struct batch *b = &f->batch;
    uint32_t dp = f->plan.attn_dp;
    if (s >= f->o.seqs || f->position[s] + n > f->o.max_tokens || b->n_rows + n > f->o.max_rows) {
        fprintf(stderr, "Bail out! the test adds more than it asked room for\n");
        exit(2);
    }
    slide_window(f, s);
    b->seqs[b->n_seqs] = (struct batch_seq){.replica = s / dp % f->plan.replicas,
                                            .dp = (uint16_t)(s % dp),
                                            .first_row = b->n_rows,
                                            .rows = n,
                                            .start = f->position[s],
                                            .wants_logits = true,
                                            .full_blocks = f->full + (size_t)s * f->blocks,
                                            .slide_blocks = f->slide + (size_t)s * f->blocks};
    for (uint32_t i = 0; i < n; i++)
        b->rows[b->n_rows++] = (struct batch_row){ids[i], f->position[s] + i, b->n_seqs};
    f->position[s] += n;
    b->n_seqs++;
}

void feed_step(struct feed *f)
{
    struct error e = {0};
    struct step_counts counts;
    lower_count(&f->batch, LOWER_ALL_REPLICAS, &f->plan, f->o.shape->window, &counts);
    lower_step(f->o.shape, &f->plan, &counts, &(struct lower_options){.router_zipf_s = 1},
               f->program);
    if (machine_run(f->machine, f->program, &f->batch, &e)) die("machine_run", &e);
    f->batch.n_seqs = f->batch.n_rows = 0;
}

const float *feed_logits(const struct feed *f, uint32_t i)
{
    return machine_logits(f->machine, i);
}

void feed_restart(struct feed *f, uint32_t s)
{
    f->position[s] = 0;
}
