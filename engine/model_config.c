/* model_config.c - the keys of config.json, their aliases and defaults. */
#include "engine/model_config.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#define MAX_CONFIG_BYTES (1u << 20)

/* The first of two names that has a value (null counts as none). */
static const json_t *get(const json_t *o, const char *key, const char *alias)
{
    const json_t *v = json_object_get(o, key);
    if ((!v || json_is_null(v)) && alias) v = json_object_get(o, alias);
    return v && !json_is_null(v) ? v : NULL;
}

/* A whole number from 1 to 2^32 - 1. With `fallback` 0 the key must be there. */
static enum err whole(const json_t *v, const char *key, uint32_t fallback, uint32_t *out,
                      struct error *e)
{
    *out = fallback;
    if (!v) return fallback ? ERR_OK : err_set(e, ERR_NOTFOUND, "%s is missing", key);
    if (!json_is_integer(v)) return err_set(e, ERR_INVAL, "%s is not a whole number", key);
    json_int_t n = json_integer_value(v);
    if (n < 1 || n > UINT32_MAX)
        return err_set(e, ERR_RANGE, "%s is %lld, must be 1 to 4294967295", key, (long long)n);
    *out = (uint32_t)n;
    return ERR_OK;
}

static enum err real(const json_t *v, const char *key, double fallback, double *out,
                     struct error *e)
{
    *out = fallback;
    if (!v) return ERR_OK;
    if (!json_is_number(v)) return err_set(e, ERR_INVAL, "%s is not a number", key);
    double x = json_number_value(v);
    if (!isfinite(x) || x <= 0) return err_set(e, ERR_RANGE, "%s is %g, must be above 0", key, x);
    *out = x;
    return ERR_OK;
}

/* `must` is the only value that our forward pass computes. */
static enum err fixed_text(const json_t *v, const char *key, const char *must, struct error *e)
{
    if (!v) return ERR_OK;
    const char *s = json_string_value(v);
    if (s && !strcmp(s, must)) return ERR_OK;
    return err_set(e, ERR_UNSUPPORTED, "%s is %.40s, only %s is supported", key,
                   s ? s : "not a string", must);
}

static enum err read_dims(const json_t *o, struct model_shape *s, struct error *e)
{
    const struct {
        const char *key, *alias;
        uint32_t fallback;
        uint32_t *to;
    } dims[] = {
        {"num_hidden_layers", NULL, 0, &s->layers},
        {"hidden_size", NULL, 0, &s->hidden},
        {"intermediate_size", NULL, 0, &s->intermediate},
        {"num_attention_heads", NULL, 0, &s->q_heads},
        {"num_key_value_heads", NULL, 0, &s->kv_heads},
        {"num_local_experts", "num_experts", 0, &s->experts},
        {"num_experts_per_tok", "experts_per_token", 0, &s->experts_per_token},
        {"vocab_size", NULL, 0, &s->vocab},
        {"sliding_window", NULL, 0, &s->window},
    };
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        enum err rc =
            whole(get(o, dims[i].key, dims[i].alias), dims[i].key, dims[i].fallback, dims[i].to, e);
        if (rc) return rc;
    }
    const json_t *d = get(o, "head_dim", NULL);
    if (!d && s->hidden % s->q_heads) return err_set(e, ERR_NOTFOUND, "head_dim is missing");
    return whole(d, "head_dim", s->hidden / s->q_heads, &s->head_dim, e);
}

static enum err read_reals(const json_t *o, struct model_shape *s, struct error *e)
{
    double eps, alpha, limit;
    enum err rc = real(get(o, "rms_norm_eps", NULL), "rms_norm_eps", 1e-5, &eps, e);
    if (!rc) rc = real(get(o, "swiglu_alpha", NULL), "swiglu_alpha", 1.702, &alpha, e);
    if (!rc) rc = real(get(o, "swiglu_limit", NULL), "swiglu_limit", 7.0, &limit, e);
    if (rc) return rc;
    s->rms_eps = (float)eps;
    s->swiglu_alpha = (float)alpha;
    s->swiglu_limit = (float)limit;
    if (!isfinite(s->swiglu_alpha) || !isfinite(s->swiglu_limit))
        return err_set(e, ERR_RANGE, "swiglu_alpha or swiglu_limit does not fit a float");
    return ERR_OK;
}

static enum err read_yarn(const json_t *r, struct model_shape *s, struct error *e)
{
    if (get(r, "attention_factor", NULL) || get(r, "mscale", "mscale_all_dim"))
        return err_set(e, ERR_UNSUPPORTED,
                       "rope_scaling: attention_factor and mscale are not supported");
    const json_t *truncate = get(r, "truncate", NULL);
    if (truncate && !json_is_boolean(truncate))
        return err_set(e, ERR_INVAL, "rope_scaling.truncate is not true or false");
    s->rope_truncate = !truncate || json_is_true(truncate); /* as transformers reads it */
    if (!get(r, "factor", NULL)) return err_set(e, ERR_NOTFOUND, "rope_scaling.factor is missing");
    enum err rc = real(get(r, "factor", NULL), "rope_scaling.factor", 1, &s->rope_factor, e);
    if (!rc)
        rc = real(get(r, "beta_fast", NULL), "rope_scaling.beta_fast", 32, &s->rope_beta_fast, e);
    if (!rc)
        rc = real(get(r, "beta_slow", NULL), "rope_scaling.beta_slow", 1, &s->rope_beta_slow, e);
    return rc;
}

static enum err read_rope(const json_t *o, struct model_shape *s, struct error *e)
{
    const json_t *r = get(o, "rope_scaling", "rope_parameters");
    if (r && !json_is_object(r)) return err_set(e, ERR_INVAL, "rope_scaling is not an object");
    s->rope_factor = 1;
    s->rope_beta_fast = 32;
    s->rope_beta_slow = 1;
    const json_t *theta = get(o, "rope_theta", NULL);
    if (!theta) theta = get(r, "rope_theta", NULL);
    enum err rc = theta ? real(theta, "rope_theta", 0, &s->rope_theta, e)
                        : err_set(e, ERR_NOTFOUND, "rope_theta is missing");
    if (rc) return rc;
    const json_t *type = get(r, "rope_type", "type");
    const char *name = type ? json_string_value(type) : "default";
    if (name && !strcmp(name, "yarn")) {
        rc = read_yarn(r, s, e);
    } else if (!name || strcmp(name, "default") != 0) {
        rc = err_set(e, ERR_UNSUPPORTED,
                     "rope_scaling.rope_type is %.40s, yarn or default is needed",
                     name ? name : "not a string");
    }
    const json_t *original = get(r, "original_max_position_embeddings", NULL);
    if (!original) original = get(o, "initial_context_length", NULL);
    if (!rc) rc = whole(original, "original_max_position_embeddings", 4096, &s->rope_original, e);
    if (rc) return rc;
    double product = s->rope_original * (s->rope_factor > 1 ? s->rope_factor : 1);
    return whole(get(o, "max_position_embeddings", NULL), "max_position_embeddings",
                 product < UINT32_MAX ? (uint32_t)product : UINT32_MAX, &s->max_positions, e);
}

static enum err read_layers(const json_t *o, struct model_shape *s, struct error *e)
{
    const json_t *types = get(o, "layer_types", NULL);
    if (s->layers > SHAPE_MAX_LAYERS)
        return err_set(e, ERR_RANGE, "num_hidden_layers is %u, at most %d are supported", s->layers,
                       SHAPE_MAX_LAYERS);
    if (types && json_array_size(types) != s->layers)
        return err_set(e, ERR_INVAL, "layer_types has %zu entries for %u layers",
                       json_array_size(types), s->layers);
    for (uint32_t i = 0; i < s->layers; i++) {
        const char *t = types ? json_string_value(json_array_get(types, i)) : NULL;
        if (!types)
            s->sliding[i] = i % 2 == 0;
        else if (t && !strcmp(t, "sliding_attention"))
            s->sliding[i] = true;
        else if (!t || strcmp(t, "full_attention") != 0)
            return err_set(
                e, ERR_UNSUPPORTED,
                "layer_types[%u] is %.40s, sliding_attention or full_attention is needed", i,
                t ? t : "not a string");
    }
    return ERR_OK;
}

/* What the architecture fixes: another value would give wrong numbers silently. */
static enum err check_fixed(const json_t *o, struct error *e)
{
    const json_t *type = get(o, "model_type", NULL);
    if (!type)
        return err_set(e, ERR_NOTFOUND,
                       "model_type is missing: not the config.json of a Hugging "
                       "Face gpt_oss folder");
    enum err rc = fixed_text(type, "model_type", "gpt_oss", e);
    if (!rc) rc = fixed_text(get(o, "hidden_act", NULL), "hidden_act", "silu", e);
    if (rc) return rc;
    if (json_is_true(json_object_get(o, "tie_word_embeddings")))
        return err_set(e, ERR_UNSUPPORTED, "tie_word_embeddings is true, not supported");
    if (json_is_false(json_object_get(o, "attention_bias")))
        return err_set(e, ERR_UNSUPPORTED, "attention_bias is false, not supported");
    const json_t *q = get(o, "quantization_config", NULL);
    return fixed_text(get(q, "quant_method", NULL), "quantization_config.quant_method", "mxfp4", e);
}

static enum err read_object(const json_t *o, struct model_shape *out, struct error *e)
{
    if (!json_is_object(o)) return err_set(e, ERR_PARSE, "not a JSON object");
    enum err rc = check_fixed(o, e);
    if (!rc) rc = read_dims(o, out, e);
    if (!rc) rc = read_reals(o, out, e);
    if (!rc) rc = read_rope(o, out, e);
    if (!rc) rc = read_layers(o, out, e);
    return rc ? rc : shape_check(out, e);
}

enum err model_config_read(const uint8_t *json, size_t size, struct model_shape *out,
                           struct error *e)
{
    *out = (struct model_shape){.dense_type = DT_BF16, .expert_type = DT_MXFP4};
    if (size > MAX_CONFIG_BYTES)
        return err_set(e, ERR_PARSE, "config.json: %zu bytes, over the limit of %u", size,
                       MAX_CONFIG_BYTES);
    json_error_t why;
    json_t *root = json_loadb((const char *)json, size, JSON_REJECT_DUPLICATES, &why);
    if (!root) return err_set(e, ERR_PARSE, "config.json: line %d: %s", why.line, why.text);
    struct error inner = {0};
    enum err rc = read_object(root, out, &inner);
    json_decref(root);
    return rc ? err_set(e, rc, "config.json: %s", inner.text) : ERR_OK;
}
