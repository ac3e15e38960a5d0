/* sample.h - logits -> token. Pure: what comes out depends on the logits, the parameters and the
 * position in the request's own random stream, nothing else. */
#ifndef ENGINE_SAMPLE_H
#define ENGINE_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#define SAMPLE_MAX_TOP 20

struct sample_params {
    float temperature; /* 0 = greedy (lowest id on ties), else up to 2 [1] */
    float top_p;       /* 0..1, 1 = off; 0 = as greedy [1] */
    float min_p;       /* 0..1, 0 = off [0] */
    uint32_t top_k;    /* 0 = off [0] */
    uint64_t seed;
    int logprobs; /* -1 = none, else how many alternatives, up to SAMPLE_MAX_TOP */
};

struct sample_top {
    uint32_t token;
    float logprob;
};

struct sampled {
    uint32_t token;
    float logprob; /* of the distribution before temperature; finite, >= -9999 */
    uint32_t n_top;
    struct sample_top top[SAMPLE_MAX_TOP]; /* descending */
};

/* `index` is the number of the sampled token in its request, from 0. `allowed` is a bitmap of ids
 * that may be sampled (NULL = all). `scratch` holds vocab entries. Logits that are not finite count
 * as minus infinity; when none is finite the lowest allowed id is taken. */
void sample_row(const float *logits, uint32_t vocab, const uint64_t *allowed,
                const struct sample_params *p, uint64_t index, struct sample_top *scratch,
                struct sampled *out);

#endif
