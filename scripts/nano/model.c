/* Nano's parameters and one pass over a batch: forward, loss, backward. */
#include "model.h"
#include "matrix.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const float BALANCE = 0.01f; /* how strongly the experts are pushed to share the tokens */

/* What the backward pass needs of each layer. A slot is one of the two experts of one token. */
struct layer_state {
    float *in, *inverse1, *normed1, *qkv, *attended, *log_sum, *middle, *inverse2, *normed2;
    float *router, *gate, *expert_in, *gate_up, *active, *expert_out;
    int *chosen, *slot, first[EXPERTS + 1]; /* chosen[2 n + i]; slot: sorted by expert */
};
static struct layer_state states[LAYERS];
static float *last, *last_inverse, *last_normed, *picked, *dpicked, *logits;
static float *dx, *dnorm, *dqkv, *dattended, *dgate_up, *dactive, *dexpert_out, *dexpert_in;
static int *picked_row;

void *take_memory(long bytes)
{
    void *p = aligned_alloc(64, ((size_t)bytes + 63) & ~(size_t)63);
    if (!p) {
        fprintf(stderr, "no memory for %ld bytes\n", bytes);
        exit(1);
    }
    memset(p, 0, (size_t)bytes);
    return p;
}

static float *floats(long n)
{
    return take_memory(n * (long)sizeof(float));
}

static void take_states(void)
{
    for (int l = 0; l < LAYERS; l++) {
        struct layer_state *s = states + l;
        s->in = floats((long)MAX_TOKENS * HIDDEN);
        s->inverse1 = floats(MAX_TOKENS);
        s->normed1 = floats((long)MAX_TOKENS * HIDDEN);
        s->qkv = floats((long)MAX_TOKENS * QKV);
        s->attended = floats((long)MAX_TOKENS * OUT);
        s->log_sum = floats((long)MAX_TOKENS * Q_HEADS);
        s->middle = floats((long)MAX_TOKENS * HIDDEN);
        s->inverse2 = floats(MAX_TOKENS);
        s->normed2 = floats((long)MAX_TOKENS * HIDDEN);
        s->router = floats((long)MAX_TOKENS * EXPERTS);
        s->gate = floats(2L * MAX_TOKENS);
        s->expert_in = floats(2L * MAX_TOKENS * HIDDEN);
        s->gate_up = floats(2L * MAX_TOKENS * 2 * INNER);
        s->active = floats(2L * MAX_TOKENS * INNER);
        s->expert_out = floats(2L * MAX_TOKENS * HIDDEN);
        s->chosen = take_memory(2L * MAX_TOKENS * (long)sizeof(int));
        s->slot = take_memory(2L * MAX_TOKENS * (long)sizeof(int));
    }
    last = floats((long)MAX_TOKENS * HIDDEN);
    last_inverse = floats(MAX_TOKENS);
    last_normed = floats((long)MAX_TOKENS * HIDDEN);
    picked = floats((long)MAX_TOKENS * HIDDEN);
    dpicked = floats((long)MAX_TOKENS * HIDDEN);
    logits = floats((long)MAX_TOKENS * VOCAB);
    picked_row = take_memory((long)MAX_TOKENS * (long)sizeof(int));
    dx = floats((long)MAX_TOKENS * HIDDEN);
    dnorm = floats((long)MAX_TOKENS * HIDDEN);
    dqkv = floats((long)MAX_TOKENS * QKV);
    dattended = floats((long)MAX_TOKENS * OUT);
    dgate_up = floats(2L * MAX_TOKENS * 2 * INNER);
    dactive = floats(2L * MAX_TOKENS * INNER);
    dexpert_out = floats(2L * MAX_TOKENS * HIDDEN);
    dexpert_in = floats(2L * MAX_TOKENS * HIDDEN);
}

/* A sum of twelve uniform numbers is normal enough to start from, and needs no libm. */
static float near_normal(uint64_t *state)
{
    float s = 0;
    for (int i = 0; i < 12; i++) {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        s += (float)(*state >> 40) / 16777216.0f;
    }
    return s - 6.0f;
}

static uint64_t random_state;

static long place(struct model *m, long n)
{
    m->total += n;
    return m->total - n;
}

static void draw(struct model *m, long at, long n, float spread)
{
    for (long i = at; i < at + n; i++) {
        m->raw[i] = near_normal(&random_state) * spread;
        m->decays[i] = 1;
    }
}

static void ones(struct model *m, long at)
{
    for (int i = 0; i < HIDDEN; i++)
        m->raw[at + i] = 1;
}

/* The order of the flat array; export.py reads it in the same order. */
static void place_all(struct model *m)
{
    m->embed = place(m, VOCAB * HIDDEN);
    m->unembed = place(m, VOCAB * HIDDEN);
    for (int l = 0; l < LAYERS; l++) {
        struct layer_at *at = m->layer + l;
        at->norm1 = place(m, HIDDEN);
        at->norm2 = place(m, HIDDEN);
        at->qkv = place(m, QKV * HIDDEN);
        at->qkv_bias = place(m, QKV);
        at->out = place(m, HIDDEN * OUT);
        at->out_bias = place(m, HIDDEN);
        at->sinks = place(m, Q_HEADS);
        at->router = place(m, EXPERTS * HIDDEN);
        at->router_bias = place(m, EXPERTS);
        at->gate_up = place(m, EXPERTS * 2 * INNER * HIDDEN);
        at->gate_up_bias = place(m, EXPERTS * 2 * INNER);
        at->down = place(m, EXPERTS * HIDDEN * INNER);
        at->down_bias = place(m, EXPERTS * HIDDEN);
    }
    m->norm = place(m, HIDDEN);
}

static void draw_all(struct model *m)
{
    const float unit = 1.0f / sqrtf(HIDDEN), deep = 1.0f / sqrtf(2 * LAYERS);
    draw(m, m->embed, VOCAB * HIDDEN, 0.5f);
    draw(m, m->unembed, VOCAB * HIDDEN, 0.02f);
    for (int l = 0; l < LAYERS; l++) {
        const struct layer_at *at = m->layer + l;
        ones(m, at->norm1);
        ones(m, at->norm2);
        draw(m, at->qkv, QKV * HIDDEN, unit);
        draw(m, at->out, HIDDEN * OUT, deep / sqrtf(OUT));
        draw(m, at->router, EXPERTS * HIDDEN, unit);
        draw(m, at->gate_up, EXPERTS * 2 * INNER * HIDDEN, unit);
        draw(m, at->down, EXPERTS * HIDDEN * INNER, deep / sqrtf(INNER));
    }
    ones(m, m->norm);
}

struct model *model_new(uint64_t seed)
{
    struct model *m = take_memory(sizeof *m);
    place_all(m);
    m->raw = floats(m->total);
    m->used = floats(m->total);
    m->grad = floats(m->total);
    m->decays = take_memory(m->total);
    random_state = 88172645463325252ull + seed * 0x9e3779b97f4a7c15ull;
    draw_all(m);
    take_states();
    return m;
}

void model_use(struct model *m, int rounded)
{
    memcpy(m->used, m->raw, (size_t)m->total * sizeof(float));
    for (int l = 0; rounded && l < LAYERS; l++) {
        const struct layer_at *at = m->layer + l;
        mxfp4_round(m->raw + at->gate_up, m->used + at->gate_up, EXPERTS * 2L * INNER * HIDDEN);
        mxfp4_round(m->raw + at->down, m->used + at->down, (long)EXPERTS * HIDDEN * INNER);
    }
}

/* Chooses two experts for each token and sorts the slots by expert. */
static void route(const struct model *m, int l, int tokens)
{
    struct layer_state *s = states + l;
    const float *w = m->used + m->layer[l].router, *bias = m->used + m->layer[l].router_bias;
    int next[EXPERTS] = {0};
    for (int n = 0; n < tokens; n++) {
        float *r = s->router + (long)n * EXPERTS;
        for (int e = 0; e < EXPERTS; e++)
            r[e] = dot(s->normed2 + (long)n * HIDDEN, w + e * HIDDEN, HIDDEN) + bias[e];
        int best = 0;
        for (int e = 1; e < EXPERTS; e++)
            best = r[e] > r[best] ? e : best;
        int other = best ? 0 : 1;
        for (int e = 0; e < EXPERTS; e++)
            other = e != best && r[e] > r[other] ? e : other;
        float z = fast_exp(r[other] - r[best]);
        s->chosen[2 * n] = best;
        s->chosen[2 * n + 1] = other;
        s->gate[2 * n] = 1 / (1 + z);
        s->gate[2 * n + 1] = z / (1 + z);
        next[best]++;
        next[other]++;
    }
    s->first[0] = 0;
    for (int e = 0; e < EXPERTS; e++) {
        s->first[e + 1] = s->first[e] + next[e];
        next[e] = s->first[e];
    }
    for (int i = 0; i < 2 * tokens; i++) {
        int at = next[s->chosen[i]]++;
        s->slot[at] = i;
        memcpy(s->expert_in + (long)at * HIDDEN, s->normed2 + (long)(i / 2) * HIDDEN,
               HIDDEN * sizeof(float));
    }
}

static float clamp(float x)
{
    return x > 7 ? 7 : x < -7 ? -7 : x;
}

static void experts_forward(const struct model *m, int l, float *x)
{
    struct layer_state *s = states + l;
    const struct layer_at *at = m->layer + l;
    for (int e = 0; e < EXPERTS; e++) {
        int from = s->first[e], rows = s->first[e + 1] - from;
        float *gate_up = s->gate_up + (long)from * 2 * INNER;
        linear(s->expert_in + (long)from * HIDDEN, rows, HIDDEN, 2 * INNER,
               m->used + at->gate_up + (long)e * 2 * INNER * HIDDEN,
               m->used + at->gate_up_bias + e * 2 * INNER, gate_up);
        for (int i = 0; i < rows; i++) {
            const float *g = gate_up + (long)i * 2 * INNER, *u = g + INNER;
            float *active = s->active + (long)(from + i) * INNER;
            for (int j = 0; j < INNER; j++) {
                float gate = g[j] > 7 ? 7 : g[j];
                active[j] = (clamp(u[j]) + 1) * gate / (1 + fast_exp(-1.702f * gate));
            }
        }
        linear(s->active + (long)from * INNER, rows, INNER, HIDDEN,
               m->used + at->down + (long)e * HIDDEN * INNER, m->used + at->down_bias + e * HIDDEN,
               s->expert_out + (long)from * HIDDEN);
        for (int i = from; i < from + rows; i++) {
            const float *y = s->expert_out + (long)i * HIDDEN;
            float gate = s->gate[s->slot[i]], *to = x + (long)(s->slot[i] / 2) * HIDDEN;
            for (int j = 0; j < HIDDEN; j++)
                to[j] += gate * y[j];
        }
    }
}

static struct attention attention_of(const struct model *m, int l, const struct batch *b)
{
    return (struct attention){.batch = b,
                              .qkv = states[l].qkv,
                              .sinks = m->used + m->layer[l].sinks,
                              .out = states[l].attended,
                              .log_sum = states[l].log_sum,
                              .window = l % 2 == 0 ? WINDOW : MAX_CONTEXT};
}

static void layer_forward(const struct model *m, int l, const struct batch *b, float *next)
{
    struct layer_state *s = states + l;
    const struct layer_at *at = m->layer + l;
    const float *w = m->used;
    rms_forward(s->in, w + at->norm1, b->tokens, HIDDEN, s->normed1, s->inverse1);
    linear(s->normed1, b->tokens, HIDDEN, QKV, w + at->qkv, w + at->qkv_bias, s->qkv);
    rope(s->qkv, b, 0);
    struct attention a = attention_of(m, l, b);
    attention_forward(&a);
    linear(s->attended, b->tokens, OUT, HIDDEN, w + at->out, w + at->out_bias, s->middle);
    for (long i = 0; i < (long)b->tokens * HIDDEN; i++)
        s->middle[i] += s->in[i];
    rms_forward(s->middle, w + at->norm2, b->tokens, HIDDEN, s->normed2, s->inverse2);
    route(m, l, b->tokens);
    memcpy(next, s->middle, (size_t)b->tokens * HIDDEN * sizeof(float));
    experts_forward(m, l, next);
}

/* Gradients through the experts of one layer; dgate[2 n + i] gets those of the mixing weights. */
static void experts_backward(struct model *m, int l, float *dgate)
{
    struct layer_state *s = states + l;
    const struct layer_at *at = m->layer + l;
    for (int e = 0; e < EXPERTS; e++) {
        int from = s->first[e], rows = s->first[e + 1] - from;
        for (int i = from; i < from + rows; i++) {
            const float *d = dx + (long)(s->slot[i] / 2) * HIDDEN;
            float *to = dexpert_out + (long)(i - from) * HIDDEN, gate = s->gate[s->slot[i]];
            dgate[s->slot[i]] = dot(d, s->expert_out + (long)i * HIDDEN, HIDDEN);
            for (int j = 0; j < HIDDEN; j++)
                to[j] = gate * d[j];
        }
        long down = at->down + (long)e * HIDDEN * INNER;
        linear_backward(&(struct linear_back){.x = s->active + (long)from * INNER,
                                              .dy = dexpert_out,
                                              .rows = rows,
                                              .in = INNER,
                                              .out = HIDDEN,
                                              .w = m->used + down,
                                              .dw = m->grad + down,
                                              .dbias = m->grad + at->down_bias + e * HIDDEN,
                                              .dx = dactive});
        for (int i = 0; i < rows; i++) {
            const float *g = s->gate_up + (long)(from + i) * 2 * INNER, *u = g + INNER;
            const float *d = dactive + (long)i * INNER;
            float *dg = dgate_up + (long)i * 2 * INNER, *du = dg + INNER;
            for (int j = 0; j < INNER; j++) {
                float gate = g[j] > 7 ? 7 : g[j], sig = 1 / (1 + fast_exp(-1.702f * gate));
                du[j] = u[j] > 7 || u[j] < -7 ? 0 : d[j] * gate * sig;
                dg[j] =
                    g[j] > 7 ? 0 : d[j] * (clamp(u[j]) + 1) * sig * (1 + 1.702f * gate * (1 - sig));
            }
        }
        long gate_up = at->gate_up + (long)e * 2 * INNER * HIDDEN;
        linear_backward(&(struct linear_back){.x = s->expert_in + (long)from * HIDDEN,
                                              .dy = dgate_up,
                                              .rows = rows,
                                              .in = HIDDEN,
                                              .out = 2 * INNER,
                                              .w = m->used + gate_up,
                                              .dw = m->grad + gate_up,
                                              .dbias = m->grad + at->gate_up_bias + e * 2 * INNER,
                                              .dx = dexpert_in + (long)from * HIDDEN});
    }
}

/* Gradients through the router, with a push towards equal shares; adds to dnorm. */
static void route_backward(struct model *m, int l, int tokens, const float *dgate)
{
    struct layer_state *s = states + l;
    const float *w = m->used + m->layer[l].router;
    float *dw = m->grad + m->layer[l].router, *dbias = m->grad + m->layer[l].router_bias;
    float share[EXPERTS];
    for (int e = 0; e < EXPERTS; e++)
        share[e] = (float)(s->first[e + 1] - s->first[e]) / (2.0f * (float)tokens);
    for (int n = 0; n < tokens; n++) {
        const float *r = s->router + (long)n * EXPERTS, *x = s->normed2 + (long)n * HIDDEN;
        float p[EXPERTS], d[EXPERTS], sum = 0, mean = 0, *dn = dnorm + (long)n * HIDDEN;
        int best = s->chosen[2 * n], other = s->chosen[2 * n + 1];
        for (int e = 0; e < EXPERTS; e++)
            sum += p[e] = fast_exp(r[e] - r[best]);
        for (int e = 0; e < EXPERTS; e++)
            mean += (p[e] /= sum) * share[e];
        for (int e = 0; e < EXPERTS; e++)
            d[e] = BALANCE * EXPERTS / (float)tokens * p[e] * (share[e] - mean);
        float g0 = s->gate[2 * n], g1 = s->gate[2 * n + 1];
        float pull = g0 * dgate[2 * n] + g1 * dgate[2 * n + 1];
        d[best] += g0 * (dgate[2 * n] - pull);
        d[other] += g1 * (dgate[2 * n + 1] - pull);
        for (int e = 0; e < EXPERTS; e++) {
            dbias[e] += d[e];
            for (int i = 0; i < HIDDEN; i++) {
                dw[e * HIDDEN + i] += d[e] * x[i];
                dn[i] += d[e] * w[e * HIDDEN + i];
            }
        }
    }
}

static void layer_backward(struct model *m, int l, const struct batch *b)
{
    static float dgate[2 * MAX_TOKENS];
    struct layer_state *s = states + l;
    const struct layer_at *at = m->layer + l;
    const float *w = m->used;
    float *g = m->grad;
    experts_backward(m, l, dgate);
    memset(dnorm, 0, (size_t)b->tokens * HIDDEN * sizeof(float));
    for (int i = 0; i < 2 * b->tokens; i++) {
        float *to = dnorm + (long)(s->slot[i] / 2) * HIDDEN;
        for (int j = 0; j < HIDDEN; j++)
            to[j] += dexpert_in[(long)i * HIDDEN + j];
    }
    route_backward(m, l, b->tokens, dgate);
    rms_backward(&(struct rms_back){.x = s->middle,
                                    .w = w + at->norm2,
                                    .inverse = s->inverse2,
                                    .dy = dnorm,
                                    .rows = b->tokens,
                                    .width = HIDDEN,
                                    .dx = dx,
                                    .dw = g + at->norm2});
    linear_backward(&(struct linear_back){.x = s->attended,
                                          .dy = dx,
                                          .rows = b->tokens,
                                          .in = OUT,
                                          .out = HIDDEN,
                                          .w = w + at->out,
                                          .dw = g + at->out,
                                          .dbias = g + at->out_bias,
                                          .dx = dattended});
    struct attention a = attention_of(m, l, b);
    attention_backward(&a, dattended, dqkv, g + at->sinks);
    rope(dqkv, b, 1);
    linear_backward(&(struct linear_back){.x = s->normed1,
                                          .dy = dqkv,
                                          .rows = b->tokens,
                                          .in = HIDDEN,
                                          .out = QKV,
                                          .w = w + at->qkv,
                                          .dw = g + at->qkv,
                                          .dbias = g + at->qkv_bias,
                                          .dx = dnorm});
    rms_backward(&(struct rms_back){.x = s->in,
                                    .w = w + at->norm1,
                                    .inverse = s->inverse1,
                                    .dy = dnorm,
                                    .rows = b->tokens,
                                    .width = HIDDEN,
                                    .dx = dx,
                                    .dw = g + at->norm1});
}

/* Cross-entropy of `rows` rows of logits, which become their own gradient. */
static double loss_of(const struct batch *b, int rows)
{
    double loss = 0;
    for (int i = 0; i < rows; i++) {
        float *r = logits + (long)i * VOCAB, most = r[0], s[16] = {0}, sum = 0;
        int target = b->target[picked_row[i]];
        for (int k = 1; k < VOCAB; k++)
            most = r[k] > most ? r[k] : most;
        float right = r[target];
        for (int k = 0; k < VOCAB; k += 16)
            for (int j = 0; j < 16; j++)
                s[j] += r[k + j] = fast_exp(r[k + j] - most);
        for (int j = 0; j < 16; j++)
            sum += s[j];
        loss += logf(sum) + most - right;
        float scale = 1.0f / (sum * (float)rows);
        for (int k = 0; k < VOCAB; k++)
            r[k] *= scale;
        r[target] -= 1.0f / (float)rows;
    }
    return loss / rows;
}

double model_pass(struct model *m, const struct batch *b)
{
    for (int n = 0; n < b->tokens; n++)
        memcpy(states[0].in + (long)n * HIDDEN, m->used + m->embed + (long)b->id[n] * HIDDEN,
               HIDDEN * sizeof(float));
    for (int l = 0; l < LAYERS; l++)
        layer_forward(m, l, b, l + 1 < LAYERS ? states[l + 1].in : last);
    rms_forward(last, m->used + m->norm, b->tokens, HIDDEN, last_normed, last_inverse);
    int rows = 0;
    for (int n = 0; n < b->tokens; n++)
        if (b->learn[n]) {
            memcpy(picked + (long)rows * HIDDEN, last_normed + (long)n * HIDDEN,
                   HIDDEN * sizeof(float));
            picked_row[rows++] = n;
        }
    linear(picked, rows, HIDDEN, VOCAB, m->used + m->unembed, 0, logits);
    double loss = loss_of(b, rows);
    if (!m->grad) return loss;
    linear_backward(&(struct linear_back){.x = picked,
                                          .dy = logits,
                                          .rows = rows,
                                          .in = HIDDEN,
                                          .out = VOCAB,
                                          .w = m->used + m->unembed,
                                          .dw = m->grad + m->unembed,
                                          .dx = dpicked});
    memset(dnorm, 0, (size_t)b->tokens * HIDDEN * sizeof(float));
    memset(dx, 0, (size_t)b->tokens * HIDDEN * sizeof(float));
    for (int i = 0; i < rows; i++)
        memcpy(dnorm + (long)picked_row[i] * HIDDEN, dpicked + (long)i * HIDDEN,
               HIDDEN * sizeof(float));
    rms_backward(&(struct rms_back){.x = last,
                                    .w = m->used + m->norm,
                                    .inverse = last_inverse,
                                    .dy = dnorm,
                                    .rows = b->tokens,
                                    .width = HIDDEN,
                                    .dx = dx,
                                    .dw = m->grad + m->norm});
    for (int l = LAYERS - 1; l >= 0; l--)
        layer_backward(m, l, b);
    for (int n = 0; n < b->tokens; n++)
        for (int i = 0; i < HIDDEN; i++)
            m->grad[m->embed + (long)b->id[n] * HIDDEN + i] += dx[(long)n * HIDDEN + i];
    return loss;
}
