/* kernels_attention.h - the attention kernel: the part of kernels_impl.h that is about one query
 * row and the keys that it sees. Every sum over positions is in their order. */
#ifndef DEVICE_KERNELS_ATTENTION_H
#define DEVICE_KERNELS_ATTENTION_H

/* Scores -> weights exp(s - m), in place; returns their sum, the sink's share included. Summed in
 * double, by position: gpt-oss spec 2.5. */
static double softmax_with_sink(float *s, uint32_t n, float sink)
{
    float m = sink;
    for (uint32_t i = 0; i < n; i++)
        m = s[i] > m ? s[i] : m;
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        s[i] = expf(s[i] - m);
        sum += (double)s[i];
    }
    return sum + (double)expf(sink - m);
}

static const float *value_at(const struct attention_args *a, uint32_t pos)
{
    return a->v_blocks[pos / a->block_tokens] + (size_t)(pos % a->block_tokens) * a->d;
}

/* out[h] = sum over positions, in order, of p[h][i] * v[i], for `heads` heads and `vecs` vectors of
 * columns from c on; both are constants at each call. */
static ALWAYS_INLINE void weigh_values(const struct attention_args *a, uint32_t h, uint32_t c,
                                       const uint32_t heads, const uint32_t vecs)
{
    size_t n = a->last - a->first + 1;
    const float *p = a->scores + h * n;
    vec s[2][4];
    UNROLL for (uint32_t j = 0; j < heads; j++) UNROLL for (uint32_t i = 0; i < vecs; i++) s[j][i] =
        v_zero();
    for (uint32_t pos = a->first; pos <= a->last; pos++, p++) {
        const float *v = value_at(a, pos) + c;
        UNROLL for (uint32_t i = 0; i < vecs; i++)
        {
            vec vi = v_load(v + i * LANES);
            UNROLL for (uint32_t j = 0; j < heads; j++) s[j][i] =
                v_fma(v_set1(p[j * n]), vi, s[j][i]);
        }
    }
    UNROLL for (uint32_t j = 0; j < heads; j++) UNROLL for (uint32_t i = 0; i < vecs; i++)
        v_store(a->out + (size_t)(h + j) * a->d + c + i * LANES, s[j][i]);
}

/* The same for the last n columns of one head, fewer than a vector. */
static void weigh_tail(const struct attention_args *a, uint32_t h, uint32_t n)
{
    const float *p = a->scores + (size_t)h * (a->last - a->first + 1);
    vec s = v_zero();
    for (uint32_t pos = a->first; pos <= a->last; pos++)
        s = v_fma(v_set1(*p++), v_load_n(value_at(a, pos) + a->d - n, n), s);
    v_store_n(a->out + (size_t)(h + 1) * a->d - n, n, s);
}

static ALWAYS_INLINE void weigh_heads(const struct attention_args *a, uint32_t h,
                                      const uint32_t heads)
{
    uint32_t c = 0;
    for (; c + 4 * LANES <= a->d; c += 4 * LANES)
        weigh_values(a, h, c, heads, 4);
    for (; c + 2 * LANES <= a->d; c += 2 * LANES)
        weigh_values(a, h, c, heads, 2);
    for (; c + LANES <= a->d; c += LANES)
        weigh_values(a, h, c, heads, 1);
    for (uint32_t j = 0; j < heads && c < a->d; j++)
        weigh_tail(a, h + j, a->d - c);
}

static const float *key_at(const struct attention_args *a, uint32_t pos)
{
    return a->k_blocks[pos / a->block_tokens] + (size_t)(pos % a->block_tokens) * a->d;
}

/* The scores of the keys [pos, pos + 4) for head h, into scores: dot(), four at a time. */
static ALWAYS_INLINE void score_keys(const struct attention_args *a, const float *const k[4],
                                     const float *q, float *scores)
{
    vec s[4] = {v_zero(), v_zero(), v_zero(), v_zero()};
    uint32_t c = 0;
    for (; c + LANES <= a->d; c += LANES) {
        vec qv = v_load(q + c);
        UNROLL for (uint32_t i = 0; i < 4; i++) s[i] = v_fma(qv, v_load(k[i] + c), s[i]);
    }
    if (c < a->d) {
        vec qv = v_load_n(q + c, a->d - c);
        UNROLL for (uint32_t i = 0; i < 4; i++) s[i] =
            v_fma(qv, v_load_n(k[i] + c, a->d - c), s[i]);
    }
    quad sum = v_sum4(s) * a->scale;
    memcpy(scores, &sum, sizeof sum);
}

static void score(const struct attention_args *a)
{
    size_t n = a->last - a->first + 1;
    uint32_t pos = a->first;
    for (; pos + 3 <= a->last; pos += 4) {
        const float *k[4];
        for (uint32_t i = 0; i < 4; i++)
            k[i] = key_at(a, pos + i);
        for (uint32_t h = 0; h < a->g; h++)
            score_keys(a, k, a->q + (size_t)h * a->d, a->scores + h * n + (pos - a->first));
    }
    for (; pos <= a->last; pos++)
        for (uint32_t h = 0; h < a->g; h++)
            a->scores[h * n + (pos - a->first)] =
                dot(a->q + (size_t)h * a->d, key_at(a, pos), a->d) * a->scale;
}

static void attention(const struct attention_args *a)
{
    size_t n = a->last - a->first + 1;
    score(a);
    for (uint32_t h = 0; h < a->g; h++) {
        float *s = a->scores + h * n;
        float scale = (float)(1 / softmax_with_sink(s, (uint32_t)n, a->sinks[h]));
        for (size_t i = 0; i < n; i++)
            s[i] *= scale;
    }
    uint32_t h = 0;
    for (; h + 2 <= a->g; h += 2)
        weigh_heads(a, h, 2);
    for (; h < a->g; h++)
        weigh_heads(a, h, 1);
}

#endif
