/* Attention with sinks, sliding windows and YaRN, forward and backward, one segment at a time. */
#include "matrix.h"
#include "model.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static float scores[MAX_CONTEXT * MAX_CONTEXT], dscores[MAX_CONTEXT * MAX_CONTEXT];
static float keys[MAX_CONTEXT * HEAD], values[MAX_CONTEXT * HEAD];
static float keys_t[MAX_CONTEXT * HEAD], values_t[MAX_CONTEXT * HEAD];
static float dkeys[MAX_CONTEXT * HEAD], dvalues[MAX_CONTEXT * HEAD];

/* One key head of one segment: its rows gathered so that prefix and talk lie side by side. */
struct view {
    const struct attention *a;
    const struct segment *s;
    int head, queries, length, padded;
};

static int row_of(const struct segment *s, int i)
{
    int before = s->prefix_from == s->from ? 0 : s->prefix_to - s->prefix_from;
    return i < before ? s->prefix_from + i : s->from + i - before;
}

static struct view view_of(const struct attention *a, const struct segment *s, int head)
{
    int before = s->prefix_from == s->from ? 0 : s->prefix_to - s->prefix_from;
    struct view v = {a, s, head, s->to - s->from, before + s->to - s->from, 0};
    if (v.length > MAX_CONTEXT) {
        fprintf(stderr, "a talk of %d tokens is longer than %d\n", v.length, MAX_CONTEXT);
        exit(1);
    }
    v.padded = (v.length + 15) & ~15;
    for (int d = 0; d < HEAD; d++)
        for (int i = v.length; i < v.padded; i++)
            keys_t[d * v.padded + i] = values_t[d * v.padded + i] = 0;
    for (int i = 0; i < v.length; i++) {
        const float *k = a->qkv + (long)row_of(s, i) * QKV + (Q_HEADS + head) * HEAD;
        const float *w = k + KV_HEADS * HEAD;
        memcpy(keys + i * HEAD, k, HEAD * sizeof(float));
        memcpy(values + i * HEAD, w, HEAD * sizeof(float));
        for (int d = 0; d < HEAD; d++) {
            keys_t[d * v.padded + i] = k[d];
            values_t[d * v.padded + i] = w[d];
        }
    }
    return v;
}

/* The keys [*from, *to) that query i of the segment may see. */
static void visible(const struct view *v, int i, int *from, int *to)
{
    *to = v->length - v->queries + i + 1;
    *from = *to > v->a->window ? *to - v->a->window : 0;
}

/* out[queries][n] = q[queries][HEAD] times side[HEAD][padded] */
static void against(const struct view *v, const float *q, long q_row, const float *side, float *out)
{
    gemm(&(struct gemm){.m = v->queries,
                        .n = v->padded,
                        .k = HEAD,
                        .a = q,
                        .a_row = q_row,
                        .a_col = 1,
                        .b = side,
                        .b_row = v->padded,
                        .c = out,
                        .c_row = v->padded});
}

static void forward_head(const struct view *v, int q)
{
    const struct attention *a = v->a;
    const float scale = 1.0f / sqrtf(HEAD), sink = a->sinks[q];
    against(v, a->qkv + (long)v->s->from * QKV + q * HEAD, QKV, keys_t, scores);
    for (int i = 0; i < v->queries; i++) {
        float *row = scores + (long)i * v->padded, most = sink, sum = 0;
        int from, to;
        visible(v, i, &from, &to);
        for (int j = from; j < to; j++) {
            row[j] *= scale;
            most = row[j] > most ? row[j] : most;
        }
        for (int j = from; j < to; j++)
            row[j] = fast_exp(row[j] - most);
        for (int j = from; j < to; j++)
            sum += row[j];
        sum += fast_exp(sink - most);
        float share = 1.0f / sum;
        for (int j = from; j < to; j++)
            row[j] *= share;
        memset(row, 0, (size_t)from * sizeof(float));
        memset(row + to, 0, (size_t)(v->padded - to) * sizeof(float));
        a->log_sum[(long)(v->s->from + i) * Q_HEADS + q] = most + logf(sum);
    }
    gemm(&(struct gemm){.m = v->queries,
                        .n = HEAD,
                        .k = v->length,
                        .a = scores,
                        .a_row = v->padded,
                        .a_col = 1,
                        .b = values,
                        .b_row = HEAD,
                        .c = a->out + (long)v->s->from * OUT + q * HEAD,
                        .c_row = OUT});
}

void attention_forward(const struct attention *a)
{
    for (int s = 0; s < a->batch->segments; s++)
        for (int h = 0; h < KV_HEADS; h++) {
            struct view v = view_of(a, a->batch->segment + s, h);
            for (int q = h * GROUP; q < (h + 1) * GROUP; q++)
                forward_head(&v, q);
        }
}

/* Turns scores into probabilities and dscores into their gradients; returns the sink's gradient. */
static float backward_rows(const struct view *v, int q, const float *dout)
{
    const struct attention *a = v->a;
    const float scale = 1.0f / sqrtf(HEAD);
    float dsink = 0;
    for (int i = 0; i < v->queries; i++) {
        float *p = scores + (long)i * v->padded, *d = dscores + (long)i * v->padded;
        float lse = a->log_sum[(long)(v->s->from + i) * Q_HEADS + q];
        float pull =
            dot(dout + (long)i * OUT, a->out + (long)(v->s->from + i) * OUT + q * HEAD, HEAD);
        int from, to;
        visible(v, i, &from, &to);
        for (int j = from; j < to; j++) {
            p[j] = fast_exp(p[j] * scale - lse);
            d[j] = p[j] * (d[j] - pull) * scale;
        }
        memset(p, 0, (size_t)from * sizeof(float));
        memset(d, 0, (size_t)from * sizeof(float));
        memset(p + to, 0, (size_t)(v->padded - to) * sizeof(float));
        memset(d + to, 0, (size_t)(v->padded - to) * sizeof(float));
        dsink -= fast_exp(a->sinks[q] - lse) * pull;
    }
    return dsink;
}

/* side[length][HEAD] += weights[queries][length]^T rows[queries][HEAD] */
static void collect(const struct view *v, const float *weights, const float *rows, long row,
                    float *side)
{
    gemm(&(struct gemm){.m = v->length,
                        .n = HEAD,
                        .k = v->queries,
                        .a = weights,
                        .a_row = 1,
                        .a_col = v->padded,
                        .b = rows,
                        .b_row = row,
                        .c = side,
                        .c_row = HEAD,
                        .add = true});
}

void attention_backward(const struct attention *a, const float *dout, float *dqkv, float *dsinks)
{
    memset(dqkv, 0, (size_t)a->batch->tokens * QKV * sizeof(float));
    for (int s = 0; s < a->batch->segments; s++)
        for (int h = 0; h < KV_HEADS; h++) {
            struct view v = view_of(a, a->batch->segment + s, h);
            memset(dkeys, 0, (size_t)v.length * HEAD * sizeof(float));
            memset(dvalues, 0, (size_t)v.length * HEAD * sizeof(float));
            for (int q = h * GROUP; q < (h + 1) * GROUP; q++) {
                const float *query = a->qkv + (long)v.s->from * QKV + q * HEAD;
                const float *dq_out = dout + (long)v.s->from * OUT + q * HEAD;
                against(&v, query, QKV, keys_t, scores);
                against(&v, dq_out, OUT, values_t, dscores);
                dsinks[q] += backward_rows(&v, q, dq_out);
                gemm(&(struct gemm){.m = v.queries,
                                    .n = HEAD,
                                    .k = v.length,
                                    .a = dscores,
                                    .a_row = v.padded,
                                    .a_col = 1,
                                    .b = keys,
                                    .b_row = HEAD,
                                    .c = dqkv + (long)v.s->from * QKV + q * HEAD,
                                    .c_row = QKV});
                collect(&v, dscores, query, QKV, dkeys);
                collect(&v, scores, dq_out, OUT, dvalues);
            }
            for (int i = 0; i < v.length; i++) {
                float *dk = dqkv + (long)row_of(v.s, i) * QKV + (Q_HEADS + h) * HEAD;
                for (int d = 0; d < HEAD; d++) {
                    dk[d] += dkeys[i * HEAD + d];
                    dk[KV_HEADS * HEAD + d] += dvalues[i * HEAD + d];
                }
            }
        }
}

static float cosines[MAX_CONTEXT][HEAD / 2], sines[MAX_CONTEXT][HEAD / 2];

/* YaRN as gpt-oss has it: theta 150000, factor 32, 4096 positions, correction bounds not rounded.
 */
static void fill_yarn(void)
{
    const double theta = 150000, factor = 32, original = 4096, half = HEAD / 2.0;
    const double concentration = 0.1 * log(factor) + 1;
    const double low = half * log(original / (32 * 2 * M_PI)) / log(theta);
    const double high = half * log(original / (2 * M_PI)) / log(theta);
    for (int i = 0; i < HEAD / 2; i++) {
        double f = pow(theta, 2.0 * i / HEAD), ramp = (i - low) / (high - low);
        ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
        double inverse = ramp / (factor * f) + (1 - ramp) / f;
        for (int t = 0; t < MAX_CONTEXT; t++) {
            cosines[t][i] = (float)(cos(t * inverse) * concentration);
            sines[t][i] = (float)(sin(t * inverse) * concentration);
        }
    }
}

void rope(float *qkv, const struct batch *b, int backward)
{
    if (cosines[0][0] == 0) fill_yarn();
    for (int n = 0; n < b->tokens; n++) {
        const float *c = cosines[b->position[n]], *s = sines[b->position[n]];
        for (int h = 0; h < Q_HEADS + KV_HEADS; h++) {
            float *x = qkv + (long)n * QKV + h * HEAD, *y = x + HEAD / 2;
            for (int i = 0; i < HEAD / 2; i++) {
                float p = x[i], q = y[i], t = backward ? -s[i] : s[i];
                x[i] = p * c[i] - q * t;
                y[i] = q * c[i] + p * t;
            }
        }
    }
}
