/* Trains nano on the batches of data.py (stdin): AdamW, a constant rate and then a fall to zero.

   usage: train DIR LAST_STEP FALL_FROM [RATE]
          train DIR check
   Goes on from DIR/state.bin if there is one; data.py must start at the same step. Writes
   DIR/state.bin and DIR/weights.bin (fp32, the running mean until the rate has fallen) at every
   SAVE_EVERY steps and at the end. `check` compares gradients with finite differences. */
#include "model.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WARM_UP = 200, ROUND_FROM = 1500, SAVE_EVERY = 500, TELL_EVERY = 100, SEED = 1 };
static const float DECAY = 0.05f, BETA1 = 0.9f, BETA2 = 0.98f, MEAN_KEEP = 0.998f;

struct trainer {
    struct model *model;
    float *moment1, *moment2, *mean;
    int step, last_step, fall_from;
    float rate;
    char state_path[512], weights_path[512];
};

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void read_ints(int32_t *to, long n)
{
    if (fread(to, sizeof *to, (size_t)n, stdin) != (size_t)n) {
        fprintf(stderr, "the batches on stdin ended too early\n");
        exit(1);
    }
}

static void read_batch(struct batch *b)
{
    int32_t head[2];
    read_ints(head, 2);
    b->tokens = head[0];
    b->segments = head[1];
    if (b->tokens < 1 || b->tokens > MAX_TOKENS || b->segments < 1 || b->segments > MAX_TOKENS) {
        fprintf(stderr, "a batch of %d tokens, %d segments\n", b->tokens, b->segments);
        exit(1);
    }
    read_ints(b->id, b->tokens);
    read_ints(b->target, b->tokens);
    read_ints(b->learn, b->tokens);
    read_ints(b->position, b->tokens);
    read_ints((int32_t *)b->segment, 4L * b->segments);
}

/* Writes beside the file and renames, so that a reader never sees half of it. */
static void write_floats(const char *path, const float *const *arrays, long n, int32_t step)
{
    char part[520];
    snprintf(part, sizeof part, "%s.part", path);
    FILE *f = fopen(part, "wb");
    if (!f) fail(part);
    int good = step < 0 || fwrite(&step, sizeof step, 1, f) == 1;
    for (int i = 0; arrays[i] && good; i++)
        good = fwrite(arrays[i], sizeof(float), (size_t)n, f) == (size_t)n;
    if (fclose(f) != 0 || !good || rename(part, path) != 0) fail(path);
}

static void save(const struct trainer *t)
{
    const struct model *m = t->model;
    int fallen = t->step >= t->last_step;
    write_floats(t->state_path, (const float *const[]){m->raw, t->moment1, t->moment2, t->mean, 0},
                 m->total, t->step);
    write_floats(t->weights_path, (const float *const[]){fallen ? m->raw : t->mean, 0}, m->total,
                 -1);
}

static void resume(struct trainer *t)
{
    FILE *f = fopen(t->state_path, "rb");
    if (!f) return;
    size_t n = (size_t)t->model->total;
    int32_t step;
    if (fread(&step, sizeof step, 1, f) != 1 || fread(t->model->raw, 4, n, f) != n ||
        fread(t->moment1, 4, n, f) != n || fread(t->moment2, 4, n, f) != n ||
        fread(t->mean, 4, n, f) != n)
        fail(t->state_path);
    fclose(f);
    t->step = step;
}

static float rate_at(const struct trainer *t)
{
    if (t->step < WARM_UP) return t->rate * (float)(t->step + 1) / WARM_UP;
    if (t->step < t->fall_from) return t->rate;
    float done = (float)(t->step - t->fall_from) / (float)(t->last_step - t->fall_from);
    return t->rate * (1 - sqrtf(done));
}

static void update(struct trainer *t)
{
    struct model *m = t->model;
    double square = 0;
    for (long i = 0; i < m->total; i++)
        square += (double)m->grad[i] * m->grad[i];
    float norm = (float)sqrt(square), clip = norm > 1 ? 1 / norm : 1, rate = rate_at(t);
    float correct1 = 1 / (1 - powf(BETA1, (float)(t->step + 1)));
    float correct2 = 1 / (1 - powf(BETA2, (float)(t->step + 1)));
    float keep = t->step < 1000 ? 0.98f : MEAN_KEEP; /* forget the start quickly */
    for (long i = 0; i < m->total; i++) {
        float g = m->grad[i] * clip;
        t->moment1[i] = BETA1 * t->moment1[i] + (1 - BETA1) * g;
        t->moment2[i] = BETA2 * t->moment2[i] + (1 - BETA2) * g * g;
        float move = t->moment1[i] * correct1 / (sqrtf(t->moment2[i] * correct2) + 1e-9f);
        m->raw[i] -= rate * (move + DECAY * (float)m->decays[i] * m->raw[i]);
        t->mean[i] = keep * t->mean[i] + (1 - keep) * m->raw[i];
    }
}

static void train(struct trainer *t, struct batch *b)
{
    double start = seconds(CLOCK_MONOTONIC), smooth = 0, tokens = 0;
    int first = t->step;
    while (t->step < t->last_step) {
        read_batch(b);
        model_use(t->model, t->step >= ROUND_FROM);
        memset(t->model->grad, 0, (size_t)t->model->total * sizeof(float));
        double loss = model_pass(t->model, b);
        update(t);
        smooth = t->step == first ? loss : 0.98 * smooth + 0.02 * loss;
        tokens += b->tokens;
        t->step++;
        if (t->step % TELL_EVERY == 0 || t->step == t->last_step) {
            double wall = seconds(CLOCK_MONOTONIC) - start;
            printf("step %d loss %.4f smooth %.4f rate %.1e wall %.0f s cpu %.0f s tokens %.1f M "
                   "steps/s %.2f\n",
                   t->step, loss, smooth, (double)rate_at(t), wall,
                   seconds(CLOCK_PROCESS_CPUTIME_ID), tokens / 1e6, (t->step - first) / wall);
            fflush(stdout);
        }
        if (t->step % SAVE_EVERY == 0 || t->step == t->last_step) save(t);
    }
}

/* The slope along the gradient by central differences should equal the gradient's length, group by
   group. It does for what lies behind the last routing; before that it jumps where a token changes
   its expert, and the push for balance among experts has no part in the loss. */
static void check(struct trainer *t, struct batch *b)
{
    struct model *m = t->model;
    const struct layer_at *at = m->layer + 1;
    const struct {
        const char *name;
        long from, n;
    } groups[] = {{"embed", m->embed, VOCAB * HIDDEN},
                  {"unembed", m->unembed, VOCAB * HIDDEN},
                  {"norm1", at->norm1, HIDDEN},
                  {"qkv", at->qkv, QKV * HIDDEN},
                  {"qkv bias", at->qkv_bias, QKV},
                  {"out", at->out, HIDDEN * OUT},
                  {"sinks", at->sinks, Q_HEADS},
                  {"router", at->router, EXPERTS * HIDDEN},
                  {"gate up", at->gate_up, EXPERTS * 2L * INNER * HIDDEN},
                  {"down", at->down, (long)EXPERTS * HIDDEN * INNER},
                  {"down bias", at->down_bias, EXPERTS * HIDDEN},
                  {"norm", m->norm, HIDDEN}};
    read_batch(b);
    model_use(m, 0);
    model_pass(m, b);
    float *grad = m->grad;
    m->grad = 0;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        double square = 0, side[2];
        for (long k = groups[i].from; k < groups[i].from + groups[i].n; k++)
            square += (double)grad[k] * grad[k];
        double length = sqrt(square), step = 2e-3 / (length > 1e-3 ? length : 1e-3);
        for (int s = 0; s < 2; s++) {
            for (long k = groups[i].from; k < groups[i].from + groups[i].n; k++)
                m->used[k] = m->raw[k] + (float)((s ? -step : step) * grad[k] / length);
            side[s] = model_pass(m, b);
        }
        model_use(m, 0);
        printf("%-10s gradient %.6f slope %.6f\n", groups[i].name, length,
               (side[0] - side[1]) / (2 * step));
    }
}

int main(int argc, char **argv)
{
    int checking = argc == 3 && !strcmp(argv[2], "check");
    if (argc != 4 && argc != 5 && !checking) {
        fprintf(stderr, "usage: %s DIR LAST_STEP FALL_FROM [RATE] | DIR check\n", argv[0]);
        return 2;
    }
    struct trainer t = {.model = model_new(SEED), .rate = argc > 4 ? (float)atof(argv[4]) : 3e-3f};
    if (!checking) {
        t.last_step = atoi(argv[2]);
        t.fall_from = atoi(argv[3]);
    }
    long bytes = t.model->total * (long)sizeof(float);
    t.moment1 = take_memory(bytes);
    t.moment2 = take_memory(bytes);
    t.mean = take_memory(bytes);
    snprintf(t.state_path, sizeof t.state_path, "%s/state.bin", argv[1]);
    snprintf(t.weights_path, sizeof t.weights_path, "%s/weights.bin", argv[1]);
    struct batch b;
    long ints = MAX_TOKENS * (long)sizeof(int32_t);
    b.id = take_memory(ints);
    b.target = take_memory(ints);
    b.learn = take_memory(ints);
    b.position = take_memory(ints);
    b.segment = take_memory(4 * ints);
    memcpy(t.mean, t.model->raw, (size_t)bytes);
    resume(&t);
    if (checking)
        check(&t, &b);
    else
        train(&t, &b);
    return 0;
}
