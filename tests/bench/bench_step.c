/* bench_step - tokens a second of whole steps on this host, weights of random bytes in memory.
 *   bench_step SHAPE [rows=1] [decode|prefill] [plan=1x1] [layers=all] [depth=0] [threads=0]
 * SHAPE: a name under conf/models or a path. With fewer layers than the shape has, the time of all
 * is what the measured ones and the head make it. */
#include "tests/unit/feed.h"
#include "tests/unit/made_weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static const char *argument(int argc, char **argv, const char *name, const char *otherwise)
{
    size_t n = strlen(name);
    for (int i = 2; i < argc; i++)
        if (strncmp(argv[i], name, n) == 0 && argv[i][n] == '=') return argv[i] + n + 1;
    return otherwise;
}

static uint32_t number(int argc, char **argv, const char *name, const char *otherwise)
{
    return (uint32_t)strtoul(argument(argc, argv, name, otherwise), NULL, 10);
}

/* Seconds of a step: the best of a few. */
static double best_step(struct feed *f, uint32_t rows, bool prefill, uint32_t vocab)
{
    uint32_t *ids = malloc(rows * sizeof *ids);
    double best = 1e9, end = now() + 2;
    for (int turn = 0; turn < 4 || (now() < end && turn < 1000); turn++) {
        for (uint32_t i = 0; i < rows; i++)
            ids[i] = (uint32_t)rand() % vocab;
        for (uint32_t s = 0; s < (prefill ? 1 : rows); s++)
            feed_add(f, s, prefill ? ids : ids + s, prefill ? rows : 1);
        double start = now();
        feed_step(f);
        double took = now() - start;
        if (took < best) best = took;
        if (prefill) feed_restart(f, 0);
    }
    free(ids);
    return best;
}

int main(int argc, char **argv)
{
    struct error e = {0};
    static struct model_shape s;
    if (argc < 2 || shape_load(&s, argv[1], &e)) {
        fprintf(stderr, "bench_step SHAPE [NAME=VALUE]...: %s\n", e.text);
        return 2;
    }
    uint32_t rows = number(argc, argv, "rows", "1"), depth = number(argc, argv, "depth", "0");
    uint32_t all = s.layers, layers = number(argc, argv, "layers", "0");
    bool prefill = strcmp(argument(argc, argv, "mode", "decode"), "prefill") == 0;
    if (layers && layers < all) s.layers = layers;
    struct made_weights w;
    made_weights(&w, &s);
    struct feed *f = feed_new(&(struct feed_options){.shape = &s,
                                                     .weights = &w.w,
                                                     .plan = argument(argc, argv, "plan", "1x1"),
                                                     .threads = number(argc, argv, "threads", "0"),
                                                     .isa = argument(argc, argv, "isa", "auto"),
                                                     .max_tokens = depth + (prefill ? rows : 1100),
                                                     .seqs = prefill ? 1 : rows,
                                                     .max_rows = rows > 512 ? rows : 512});
    for (uint32_t at = 0; at < depth && !prefill; at += 64)
        for (uint32_t q = 0; q < rows; q++) {
            uint32_t ids[64] = {0};
            feed_add(f, q, ids, 64);
            feed_step(f);
        }
    double step = best_step(f, rows, prefill, s.vocab);
    printf("%s %s rows %u depth %u, %u of %u layers: %.3f ms a step, %.1f tokens/s\n", s.name,
           prefill ? "prefill" : "decode", rows, depth, s.layers, all, step * 1e3, rows / step);
    feed_free(f);
    made_weights_free(&w);
    return 0;
}
