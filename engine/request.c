/* request.c - checks what a client asks for, and copies it. */
#include "engine/request.h"

#include <stdlib.h>
#include <string.h>

static enum err check_range(struct error *e, const char *field, double v, double lo, double hi)
{
    if (v >= lo && v <= hi) return ERR_OK; /* NaN fails */
    return err_set(e, ERR_INVAL, "%s is %g, must be %g to %g", field, v, lo, hi);
}

static enum err check_prompt(const struct gen_request *g, const struct request_limits *l,
                             struct error *e)
{
    if (!g->n_prompt) return err_set(e, ERR_INVAL, "the prompt is empty");
    if (g->n_prompt >= l->max_context)
        return err_set(e, ERR_CONTEXT,
                       "This model's maximum context length is %u tokens. However, the prompt has "
                       "%u tokens, and at least 1 token of output must fit too.",
                       l->max_context, g->n_prompt);
    for (uint32_t i = 0; i < g->n_prompt; i++)
        if (g->prompt[i] >= l->vocab)
            return err_set(e, ERR_INVAL, "prompt[%u] is token %u, the vocabulary has %u", i,
                           g->prompt[i], l->vocab);
    return ERR_OK;
}

static enum err check(const struct gen_request *g, const struct request_limits *l, struct error *e)
{
    const struct sample_params *s = &g->sample;
    enum err rc = check_prompt(g, l, e);
    if (!rc) rc = check_range(e, "max_tokens", g->max_tokens, 1, UINT32_MAX);
    if (!rc) rc = check_range(e, "temperature", (double)s->temperature, 0, 2);
    if (!rc) rc = check_range(e, "top_p", (double)s->top_p, 0, 1);
    if (!rc) rc = check_range(e, "min_p", (double)s->min_p, 0, 1);
    if (!rc) rc = check_range(e, "logprobs", s->logprobs, -1, SAMPLE_MAX_TOP);
    if (!rc) rc = check_range(e, "number of stop ids", g->n_stops, 0, GEN_MAX_STOPS);
    return rc;
}

enum err request_new(const struct gen_request *g, const struct request_limits *l,
                     struct request **out, struct error *e)
{
    *out = NULL;
    enum err rc = check(g, l, e);
    if (rc) return rc;
    uint32_t room = l->max_context - g->n_prompt;
    size_t most = g->n_prompt + (g->max_tokens < room ? g->max_tokens : room);
    size_t blocks = most / l->block_tokens + 1;
    struct request *r = calloc(1, sizeof *r);
    if (r) {
        *r = (struct request){.params = *g};
        r->ids = malloc(most * sizeof *r->ids);
        r->seq.kv.full = calloc(2 * blocks, sizeof *r->seq.kv.full);
        r->seq.kv.hashes = malloc(blocks * sizeof *r->seq.kv.hashes);
    }
    if (!r || !r->ids || !r->seq.kv.full || !r->seq.kv.hashes) {
        request_free(r);
        return err_set(e, ERR_NOMEM, "a request of %zu tokens", most);
    }
    memcpy(r->ids, g->prompt, g->n_prompt * sizeof *r->ids);
    r->params.prompt = r->seq.ids = r->ids;
    r->params.max_tokens = (uint32_t)most - g->n_prompt;
    r->seq.kv.slide = r->seq.kv.full + blocks;
    r->seq.salt = g->cache_salt;
    r->seq.priority = g->priority;
    r->seq.tokens = g->n_prompt;
    if (l->prefix_cache)
        kv_hash_tokens(&r->seq.kv, r->ids, r->seq.tokens, l->block_tokens, r->seq.salt);
    *out = r;
    return ERR_OK;
}

void request_free(struct request *r)
{
    if (!r) return;
    free(r->ids);
    free(r->seq.kv.full); /* slide is its second half */
    free(r->seq.kv.hashes);
    free(r);
}

uint32_t request_outputs(const struct request *r)
{
    return r->seq.tokens - r->params.n_prompt;
}

enum gen_finish request_finish(const struct request *r)
{
    const struct gen_request *g = &r->params;
    uint32_t n = request_outputs(r), last = r->ids[r->seq.tokens - 1];
    for (uint32_t i = 0; n && n >= g->min_tokens && i < g->n_stops; i++)
        if (g->stops[i] == last) return FINISH_STOP;
    return n >= g->max_tokens ? FINISH_LENGTH : FINISH_NONE;
}
