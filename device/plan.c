/* plan.c - which chip holds what, and how many bytes that is. */
#include "device/plan.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BF16_BYTES 2

static bool is_power_of_two(uint32_t v)
{
    return v && !(v & (v - 1));
}

/* Fills the missing factor of a product, or both; `prefer` decides when both are missing. */
static void fill_pair(uint32_t product, uint32_t *a, uint32_t *b, uint32_t prefer)
{
    assert(prefer > 0);
    if (!*a && !*b) *a = prefer;
    if (!*a) *a = product / *b;
    if (!*b) *b = product / *a;
}

static uint32_t default_attn_tp(uint32_t chips, uint32_t kv_heads)
{
    uint32_t tp = 1;
    while (chips % (2 * tp) == 0 && kv_heads % (2 * tp) == 0)
        tp *= 2;
    return tp;
}

static enum err check_products(const struct plan *p, struct error *e)
{
    if (!p->attn_tp || !p->attn_dp)
        return err_set(e, ERR_INVAL, "plan: %s %u is more than the %u chips of a replica",
                       p->attn_tp ? "tp" : "dp", p->attn_tp | p->attn_dp, p->chips);
    if (!p->ep || !p->moe_tp)
        return err_set(e, ERR_INVAL, "plan: %s %u is more than the %u chips of a replica",
                       p->ep ? "ep" : "mtp", p->ep | p->moe_tp, p->chips);
    if ((uint64_t)p->attn_tp * p->attn_dp != p->chips)
        return err_set(e, ERR_INVAL, "plan: tp %u x dp %u is not the %u chips of a replica",
                       p->attn_tp, p->attn_dp, p->chips);
    if ((uint64_t)p->ep * p->moe_tp != p->chips)
        return err_set(e, ERR_INVAL, "plan: ep %u x mtp %u is not the %u chips of a replica", p->ep,
                       p->moe_tp, p->chips);
    return ERR_OK;
}

enum err plan_complete(struct plan *p, const struct model_shape *s, const struct machine_spec *m,
                       struct error *e)
{
    if (!p->replicas || !p->chips)
        return err_set(e, ERR_INVAL, "plan: %u replicas of %u chips, both must be 1 or more",
                       p->replicas, p->chips);
    if ((uint64_t)p->replicas * p->chips > m->chips)
        return err_set(e, ERR_INVAL, "plan: %u x %u is %" PRIu64 " chips, machine %s has %u",
                       p->replicas, p->chips, (uint64_t)p->replicas * p->chips, m->name, m->chips);
    fill_pair(p->chips, &p->attn_tp, &p->attn_dp, default_attn_tp(p->chips, s->kv_heads));
    fill_pair(p->chips, &p->ep, &p->moe_tp, p->chips);
    enum err rc = check_products(p, e);
    if (rc) return rc;
    if (s->kv_heads % p->attn_tp)
        return err_set(e, ERR_INVAL, "plan: %u KV heads cannot be split over tp %u", s->kv_heads,
                       p->attn_tp);
    if (!is_power_of_two(p->moe_tp) || p->moe_tp > plan_moe_parts(s))
        return err_set(e, ERR_INVAL,
                       "plan: mtp %u must be a power of two, at most %u for intermediate %u",
                       p->moe_tp, plan_moe_parts(s), s->intermediate);
    return ERR_OK;
}

/* Reads a number of 1 to 7 digits; returns what follows it, or NULL. */
static const char *parse_count(const char *text, uint32_t *out)
{
    uint32_t v = 0, digits = 0;
    for (; *text >= '0' && *text <= '9'; text++) {
        if (++digits > 7) return NULL;
        v = 10 * v + (uint32_t)(*text - '0');
    }
    *out = v;
    return digits && v ? text : NULL;
}

/* Reads "tp=8" into the part that it names; returns what follows it, or NULL. */
static const char *parse_part(struct plan *p, const char *text)
{
    const struct {
        const char *name;
        uint32_t *part;
    } parts[] = {{"tp=", &p->attn_tp}, {"dp=", &p->attn_dp}, {"ep=", &p->ep}, {"mtp=", &p->moe_tp}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        size_t n = strlen(parts[i].name);
        if (strncmp(text, parts[i].name, n) == 0)
            return *parts[i].part ? NULL : parse_count(text + n, parts[i].part);
    }
    return NULL;
}

enum err plan_parse(struct plan *p, const char *text, struct error *e)
{
    *p = (struct plan){0};
    const char *s = parse_count(text, &p->replicas);
    if (s && *s == 'x')
        s = parse_count(s + 1, &p->chips);
    else
        s = NULL;
    for (char before = ':'; s && *s; before = ',')
        s = *s == before ? parse_part(p, s + 1) : NULL;
    if (s) return ERR_OK;
    return err_set(e, ERR_PARSE,
                   "plan \"%.80s\" is not REPLICASxCHIPS, like 72x2 or 18x8:tp=8,dp=1,ep=8,mtp=1",
                   text);
}

void plan_text(const struct plan *p, char out[PLAN_TEXT_BYTES])
{
    snprintf(out, PLAN_TEXT_BYTES, "%ux%u:tp=%u,dp=%u,ep=%u,mtp=%u", p->replicas, p->chips,
             p->attn_tp, p->attn_dp, p->ep, p->moe_tp);
}

uint32_t plan_moe_parts(const struct model_shape *s)
{
    uint32_t parts = 1;
    while (2 * parts <= PLAN_MOE_PARTS && 2 * parts <= s->intermediate / 32)
        parts *= 2;
    return parts;
}

static uint32_t border(uint64_t columns, uint32_t parts, uint32_t i)
{
    return (uint32_t)(columns / 32 * i / parts * 32);
}

uint32_t plan_moe_border(const struct model_shape *s, uint32_t i)
{
    return border(s->intermediate, plan_moe_parts(s), i);
}

/* Chip c's share of `columns` columns of F, at the borders that the partials have. */
static struct plan_range moe_share(const struct plan *p, uint32_t parts, uint64_t columns,
                                   uint32_t c)
{
    uint32_t each = parts / p->moe_tp, shard = c % p->moe_tp;
    uint32_t first = border(columns, parts, shard * each);
    return (struct plan_range){first, border(columns, parts, (shard + 1) * each) - first};
}

struct plan_range plan_kv_heads(const struct plan *p, const struct model_shape *s, uint32_t c)
{
    uint32_t n = s->kv_heads / p->attn_tp;
    return (struct plan_range){c % p->attn_tp * n, n};
}

struct plan_range plan_experts(const struct plan *p, const struct model_shape *s, uint32_t c)
{
    uint64_t place = c / p->moe_tp, experts = s->experts;
    if (p->ep > s->experts) return (struct plan_range){(uint32_t)(place % experts), 1};
    uint32_t first = (uint32_t)(place * experts / p->ep);
    return (struct plan_range){first, (uint32_t)((place + 1) * experts / p->ep) - first};
}

struct plan_range plan_moe_columns(const struct plan *p, const struct model_shape *s, uint32_t c)
{
    return moe_share(p, plan_moe_parts(s), s->intermediate, c);
}

struct plan_range plan_vocab_rows(const struct plan *p, const struct model_shape *s, uint32_t c)
{
    uint32_t each = s->vocab / p->chips, more = s->vocab % p->chips;
    return (struct plan_range){c * each + (c < more ? c : more), each + (c < more)};
}

uint64_t plan_pad(const struct machine_spec *m, uint64_t v)
{
    return m->pad_to ? (v + m->pad_to - 1) / m->pad_to * m->pad_to : v;
}

double plan_expert_element_bytes(const struct model_shape *s, const struct machine_spec *m)
{
    bool mx = s->expert_type == DT_MXFP4 || s->expert_type == DT_MXFP4_GGML;
    return mx && m->mx_native ? 17.0 / 32 : BF16_BYTES; /* 32 nibbles and one E8M0 scale */
}

struct plan_weights plan_weights(const struct plan *p, const struct model_shape *s,
                                 const struct machine_spec *m, uint32_t c)
{
    uint64_t hidden = s->hidden, padded = plan_pad(m, hidden);
    uint64_t kv = plan_kv_heads(p, s, c).n, q = s->q_heads / s->kv_heads * kv;
    uint64_t heads = (q + 2 * kv) * s->head_dim; /* rows of q, k, v */
    uint64_t experts = plan_experts(p, s, c).n;
    uint64_t columns = moe_share(p, plan_moe_parts(s), plan_pad(m, s->intermediate), c).n;
    uint64_t biases = BF16_BYTES * (2 * columns + padded);

    struct plan_weights w;
    w.embed = BF16_BYTES * s->vocab * hidden;
    /* norm, q k v and their biases, o and its bias, sinks */
    w.attention = BF16_BYTES * s->layers *
                  (hidden + heads * (hidden + 1) + hidden * (q * s->head_dim + 1) + q);
    w.router = BF16_BYTES * s->layers * (hidden + s->experts * (hidden + 1));
    w.experts =
        s->layers * experts *
        ((uint64_t)((double)(3 * columns * padded) * plan_expert_element_bytes(s, m)) + biases);
    w.head = BF16_BYTES * (plan_vocab_rows(p, s, c).n * hidden + hidden); /* and the last norm */
    return w;
}

uint64_t plan_weight_bytes(const struct plan *p, const struct model_shape *s,
                           const struct machine_spec *m, uint32_t c)
{
    struct plan_weights w = plan_weights(p, s, m, c);
    return w.embed + w.attention + w.router + w.experts + w.head;
}

static uint64_t kv_layer_bytes(const struct plan *p, const struct model_shape *s)
{
    return shape_kv_bytes_per_token_layer(s) / p->attn_tp;
}

uint64_t plan_kv_token_bytes(const struct plan *p, const struct model_shape *s)
{
    return shape_full_layers(s) * kv_layer_bytes(p, s);
}

uint64_t plan_kv_window_bytes(const struct plan *p, const struct model_shape *s)
{
    return (uint64_t)(s->layers - shape_full_layers(s)) * s->window * kv_layer_bytes(p, s);
}

enum err plan_kv_capacity(const struct plan *p, const struct model_shape *s,
                          const struct machine_spec *m, uint64_t *tokens, struct error *e)
{
    uint64_t most = 0, per_token = plan_kv_token_bytes(p, s);
    for (uint32_t c = 0; c < p->chips; c++) {
        uint64_t bytes = plan_weight_bytes(p, s, m, c);
        if (bytes > most) most = bytes;
    }
    if (most >= m->hbm_bytes)
        return err_set(e, ERR_RANGE,
                       "plan %ux%u: a chip would hold %.1f GB of weights, machine %s has %.1f GB "
                       "of HBM a chip: use more chips per replica",
                       p->replicas, p->chips, (double)most / 1e9, m->name,
                       (double)m->hbm_bytes / 1e9);
    double share = floor((double)(m->hbm_bytes - most) * m->kv_fraction);
    if (!per_token) per_token = 1; /* no full layer: the windows alone limit the sequences */
    *tokens = (uint64_t)share / per_token * p->attn_dp;
    return ERR_OK;
}
