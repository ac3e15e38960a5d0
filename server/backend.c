/* backend.c - from names in the configuration to a running engine. */
#include "server/backend.h"

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The bundled model has nobody's shape: it speaks for this one. Any other speaks for itself. */
#define DEMO_MODEL "nano"
#define DEMO_TIMED "gpt-oss-120b"

/* Says where the wrong value stands, in front of what is wrong with it. */
static enum err blame(const struct conf *c, const char *option, enum err rc,
                      const struct error *cause, struct error *e)
{
    char where[CONF_PATH_BYTES];
    conf_where(c, option, where);
    return err_set(e, rc, "%s (%.160s): %.300s", option, where,
                   cause->text[0] ? cause->text : err_text(rc));
}

static enum err read_shapes(struct backend *b, const struct conf *c,
                            const struct model_shape *computed, struct error *e)
{
    struct error cause = {0};
    enum err rc = machine_load(&b->machine, c->machine.name, &cause);
    if (rc) return blame(c, "machine.name", rc, &cause, e);
    const char *timed = c->model.timed;
    if (!strcmp(timed, "auto")) timed = strcmp(c->model.path, DEMO_MODEL) ? "same" : DEMO_TIMED;
    if (!strcmp(timed, "same")) {
        b->timed = *computed;
        return ERR_OK;
    }
    rc = shape_load(&b->timed, timed, &cause);
    return rc ? blame(c, "model.timed", rc, &cause, e) : ERR_OK;
}

static enum err make_plan(struct backend *b, const struct conf *c,
                          const struct model_shape *computed, struct error *e)
{
    struct error cause = {0};
    struct plan *p = &b->options.plan;
    enum err rc = read_shapes(b, c, computed, e);
    if (rc) return rc;
    rc = plan_parse(p, c->machine.plan, &cause);
    if (!rc) rc = plan_complete(p, &b->timed, &b->machine, &cause);
    if (rc) return blame(c, "machine.plan", rc, &cause, e);
    snprintf(b->plan, sizeof b->plan, "%ux%u:tp=%u,dp=%u,ep=%u,mtp=%u", p->replicas, p->chips,
             p->attn_tp, p->attn_dp, p->ep, p->moe_tp);
    return ERR_OK;
}

static enum err open_model(struct backend *b, const struct conf *c, struct error *e)
{
    char path[CONF_PATH_BYTES];
    struct error cause = {0};
    enum err rc = conf_find(CONF_WEIGHTS, c->model.path, path, &cause);
    if (!rc) {
        b->model = model_open(path, &cause);
        if (b->model) b->tokenizer = model_tokenizer(b->model, &cause);
        if (!b->tokenizer) rc = cause.code ? cause.code : ERR_NOMEM;
    }
    if (rc) return blame(c, "model.path", rc, &cause, e);
    const char *base = strrchr(c->model.path, '/');
    base = base && base[1] ? base + 1 : c->model.path;
    snprintf(b->name, sizeof b->name, "%.127s",
             c->server.served_model_name[0] ? c->server.served_model_name : base);
    return ERR_OK;
}

static enum err map_allowed(struct backend *b, uint32_t *longest, struct error *e)
{
    uint32_t vocab = model_shape(b->model)->vocab, size = tokenizer_size(b->tokenizer);
    b->allowed = calloc(vocab / 64 + 1, sizeof *b->allowed);
    if (!b->allowed) return err_set(e, ERR_NOMEM, "no memory for the vocabulary's map");
    for (uint32_t id = 0; id < size && id < vocab; id++) {
        if (!tokenizer_is_used(b->tokenizer, id)) continue;
        uint32_t len;
        b->allowed[id / 64] |= 1ull << (id % 64);
        tokenizer_bytes(b->tokenizer, id, &len);
        if (len > *longest) *longest = len;
    }
    return ERR_OK;
}

static void fill_options(struct backend *b, const struct conf *c)
{
    static const enum engine_clock clocks[] = {[CONF_CLOCK_HOST] = CLOCK_HOST,
                                               [CONF_CLOCK_DEVICE] = CLOCK_DEVICE,
                                               [CONF_CLOCK_VIRTUAL] = CLOCK_VIRTUAL};
    struct engine_options *o = &b->options;
    o->shape = model_shape(b->model);
    o->weights = model_weights(b->model);
    o->timed = &b->timed;
    o->machine = &b->machine;
    o->clock = clocks[c->machine.clock];
    o->block_tokens = c->scheduler.block_tokens;
    o->step_tokens = c->scheduler.step_tokens;
    o->chunk_tokens = c->scheduler.chunk_tokens;
    o->max_seqs = c->scheduler.max_seqs;
    o->max_waiting = c->scheduler.max_waiting;
    o->max_context = c->scheduler.max_context;
    o->kv_host_bytes = c->scheduler.kv_host_bytes;
    o->prefix_cache = c->scheduler.prefix_cache;
    o->threads = c->host.threads;
    o->isa = c->host.isa;
    o->allowed = b->allowed;
}

/* FNV-1a over what changes answers: build, shape, kernels. */
static void make_fingerprint(struct backend *b)
{
    uint64_t h = 14695981039346656037ull;
    const struct model_shape *s = model_shape(b->model);
    char text[256];
    snprintf(text, sizeof text, "%s|%s|%u|%u|%u|%u|%llu", PACKAGE_VERSION, s->name, s->layers,
             s->hidden, s->experts, s->vocab, (unsigned long long)model_bytes(b->model));
    for (const char *p = text; *p; p++)
        h = (h ^ (unsigned char)*p) * 1099511628211ull;
    snprintf(b->fingerprint, sizeof b->fingerprint, "fp_%010llx",
             (unsigned long long)(h & 0xffffffffffull));
}

static void fill_service(struct backend *b, const struct conf *c, uint32_t longest)
{
    static const enum chat_effort efforts[] = {[CONF_EFFORT_LOW] = EFFORT_LOW,
                                               [CONF_EFFORT_MEDIUM] = EFFORT_MEDIUM,
                                               [CONF_EFFORT_HIGH] = EFFORT_HIGH};
    make_fingerprint(b);
    b->service = (struct service){
        .names = {b->name},
        .n_names = 1,
        .tokenizer = b->tokenizer,
        .max_context = engine_max_context(b->engine),
        .longest_token = longest,
        .created = (int64_t)time(NULL),
        .fingerprint = b->fingerprint,
        .temperature = 1, /* OpenAI's recommendation for the family */
        .top_p = 1,
        .effort = efforts[c->harmony.effort],
        .date = c->harmony.date,
    };
}

enum err backend_open(struct backend *b, const struct conf *c,
                      void (*deliver)(void *, struct gen_batch *), void *arg, struct error *e)
{
    uint32_t longest = 1;
    enum err rc = open_model(b, c, e);
    if (!rc) rc = make_plan(b, c, model_shape(b->model), e);
    if (!rc) rc = map_allowed(b, &longest, e);
    if (rc) return rc;
    fill_options(b, c);
    b->options.deliver = deliver;
    b->options.deliver_arg = arg;
    b->engine = engine_new(&b->options, e);
    if (!b->engine) return e && e->code ? e->code : ERR_NOMEM;
    fill_service(b, c, longest);
    return ERR_OK;
}

enum err backend_check(const struct conf *c, struct error *e)
{
    struct backend b = {0};
    enum err rc = open_model(&b, c, e);
    if (!rc) rc = make_plan(&b, c, model_shape(b.model), e);
    backend_close(&b);
    return rc;
}

const char *backend_clock_name(const struct backend *b)
{
    static const char *const names[] = {
        [CLOCK_HOST] = "host", [CLOCK_DEVICE] = "device", [CLOCK_VIRTUAL] = "virtual"};
    return names[b->options.clock];
}

void backend_close(struct backend *b)
{
    engine_free(b->engine);
    tokenizer_free(b->tokenizer);
    model_free(b->model);
    free(b->allowed);
    *b = (struct backend){0};
}
