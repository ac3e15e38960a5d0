/* model_gguf.c - a GGUF file of architecture gpt-oss, in one part or several: spec 3.6 to 3.8. */
#include "engine/model_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARCH "gpt-oss."

/* ---- files */

/* The place of "-00001-of-0000M.gguf" at the end of a path, or NULL. */
static const char *split_suffix(const char *path)
{
    static const char form[] = "-#####-of-#####.gguf";
    size_t n = strlen(path), k = sizeof form - 1;
    if (n < k) return NULL;
    const char *s = path + n - k;
    for (size_t i = 0; i < k; i++)
        if (form[i] == '#' ? s[i] < '0' || s[i] > '9' : s[i] != form[i]) return NULL;
    return s;
}

/* A split key of one part; 0 where it is absent. */
static enum err split_key(const struct gguf *g, const char *key, uint64_t *out, struct error *e)
{
    *out = 0;
    enum err rc = gguf_u64(g, key, out, e);
    return rc == ERR_NOTFOUND ? ERR_OK : rc;
}

static enum err read_part(struct model *m, const char *path, uint64_t no, uint64_t count,
                          struct error *e)
{
    struct mapfile f;
    struct gguf g;
    enum err rc = model_map(m, path, &f, e);
    if (!rc) rc = gguf_read(f.data, f.size, path, &g, &m->tensors, e);
    if (rc) return rc;
    uint64_t its_no = 0, its_count = 0;
    rc = split_key(&g, "split.no", &its_no, e);
    if (!rc) rc = split_key(&g, "split.count", &its_count, e);
    if (!rc && (its_no != no || its_count != count))
        rc = err_set(e, ERR_INVAL, "%s: says it is part %llu of %llu, not %llu of %llu", path,
                     (unsigned long long)its_no + 1, (unsigned long long)its_count,
                     (unsigned long long)no + 1, (unsigned long long)count);
    gguf_free(&g);
    return rc;
}

static enum err read_parts(struct model *m, uint64_t count, struct error *e)
{
    const char *suffix = split_suffix(m->path);
    if (!suffix || count > 99999)
        return err_set(e, ERR_INVAL,
                       "%s: the first of %llu parts must be named ...-00001-of-%05llu.gguf",
                       m->path, (unsigned long long)count, (unsigned long long)count);
    size_t stem = (size_t)(suffix - m->path), cap = stem + 32;
    char *path = malloc(cap);
    if (!path) return err_set(e, ERR_NOMEM, "out of memory");
    enum err rc = ERR_OK;
    for (uint64_t i = 1; i < count && !rc; i++) {
        snprintf(path, cap, "%.*s-%05u-of-%05u.gguf", (int)stem, m->path, (unsigned)i + 1,
                 (unsigned)count);
        rc = read_part(m, path, i, count, e);
    }
    free(path);
    uint64_t total = m->tensors.n;
    if (!rc) rc = gguf_u64(&m->gguf, "split.tensors.count", &total, e);
    if (rc == ERR_NOTFOUND) rc = ERR_OK;
    if (!rc && total != m->tensors.n)
        rc = err_set(e, ERR_INVAL, "%s: split.tensors.count is %llu, the parts hold %u", m->path,
                     (unsigned long long)total, m->tensors.n);
    return rc;
}

static enum err read_files(struct model *m, struct error *e)
{
    struct mapfile f;
    uint64_t no = 0, count = 0;
    enum err rc = model_map(m, m->path, &f, e);
    if (!rc) rc = gguf_read(f.data, f.size, m->path, &m->gguf, &m->tensors, e);
    if (!rc) rc = split_key(&m->gguf, "split.no", &no, e);
    if (!rc) rc = split_key(&m->gguf, "split.count", &count, e);
    if (!rc && no != 0)
        rc = err_set(e, ERR_INVAL, "%s: is part %llu of %llu: name the first part", m->path,
                     (unsigned long long)no + 1, (unsigned long long)count);
    if (!rc && count > 1) rc = read_parts(m, count, e);
    return rc ? rc : tensors_seal(&m->tensors, e);
}

/* ---- metadata */

static enum err check_arch(const struct gguf *g, struct error *e)
{
    struct gguf_string s = {"", 0};
    enum err rc = gguf_text(g, "general.architecture", &s, e);
    if (rc == ERR_NOTFOUND) return err_set(e, rc, "general.architecture is missing");
    if (rc) return rc;
    if (s.len == 7 && !memcmp(s.text, "gpt-oss", 7)) return ERR_OK;
    if (s.len == 6 && !memcmp(s.text, "gptoss", 6))
        return err_set(e, ERR_UNSUPPORTED,
                       "general.architecture is gptoss, ollama's own layout; a file of "
                       "architecture gpt-oss (ggml-org) is needed");
    return err_set(e, ERR_UNSUPPORTED, "general.architecture is %.*s, only gpt-oss is supported",
                   (int)(s.len < 40 ? s.len : 40), s.text);
}

struct whole_key {
    const char *key, *alias;
    uint32_t fallback; /* 0: the key must be there */
    uint32_t *to;
};

static enum err read_whole(const struct gguf *g, const struct whole_key *k, struct error *e)
{
    uint64_t v = k->fallback;
    enum err rc = gguf_u64(g, k->key, &v, e);
    if (rc == ERR_NOTFOUND && k->alias) rc = gguf_u64(g, k->alias, &v, e);
    if (rc == ERR_NOTFOUND)
        rc = k->fallback ? ERR_OK : err_set(e, ERR_NOTFOUND, "%s is missing", k->key);
    if (!rc && (v < 1 || v > UINT32_MAX))
        rc = err_set(e, ERR_RANGE, "%s is %llu, must be 1 to 4294967295", k->key,
                     (unsigned long long)v);
    if (!rc) *k->to = (uint32_t)v;
    return rc;
}

static enum err read_real(const struct gguf *g, const char *key, double fallback, double *out,
                          struct error *e)
{
    *out = fallback;
    enum err rc = gguf_f64(g, key, out, e);
    if (rc == ERR_NOTFOUND)
        return fallback > 0 ? ERR_OK : err_set(e, ERR_NOTFOUND, "%s is missing", key);
    if (!rc && (!isfinite(*out) || *out <= 0))
        rc = err_set(e, ERR_RANGE, "%s is %g, must be above 0", key, *out);
    return rc;
}

static enum err read_dims(const struct gguf *g, struct model_shape *s, struct error *e)
{
    uint32_t value_length, rotated;
    const struct whole_key keys[] = {
        {ARCH "block_count", NULL, 0, &s->layers},
        {ARCH "embedding_length", NULL, 0, &s->hidden},
        {ARCH "expert_feed_forward_length", ARCH "feed_forward_length", 0, &s->intermediate},
        {ARCH "attention.head_count", NULL, 0, &s->q_heads},
        {ARCH "attention.head_count_kv", NULL, 0, &s->kv_heads},
        {ARCH "expert_count", NULL, 0, &s->experts},
        {ARCH "expert_used_count", NULL, 0, &s->experts_per_token},
        {ARCH "attention.sliding_window", NULL, 0, &s->window},
        {ARCH "rope.scaling.original_context_length", NULL, 4096, &s->rope_original},
        {ARCH "context_length", NULL, 131072, &s->max_positions},
    };
    enum err rc = ERR_OK;
    for (size_t i = 0; i < sizeof keys / sizeof *keys && !rc; i++)
        rc = read_whole(g, &keys[i], e);
    if (rc) return rc;
    rc = read_whole(g,
                    &(struct whole_key){ARCH "attention.key_length", NULL, s->hidden / s->q_heads,
                                        &s->head_dim},
                    e);
    if (!rc)
        rc = read_whole(
            g, &(struct whole_key){ARCH "attention.value_length", NULL, s->head_dim, &value_length},
            e);
    if (!rc)
        rc = read_whole(
            g, &(struct whole_key){ARCH "rope.dimension_count", NULL, s->head_dim, &rotated}, e);
    if (!rc && (value_length != s->head_dim || rotated != s->head_dim))
        rc =
            err_set(e, ERR_UNSUPPORTED,
                    ARCH "attention.key_length is %u, but value_length %u and rope.dimension_count "
                         "%u differ: not supported",
                    s->head_dim, value_length, rotated);
    return rc;
}

/* A key that our forward pass takes as 1. */
static enum err must_be_one(const struct gguf *g, const char *key, struct error *e)
{
    double v = 1;
    enum err rc = gguf_f64(g, key, &v, e);
    if (rc == ERR_NOTFOUND) return ERR_OK;
    if (!rc && v != 1) rc = err_set(e, ERR_UNSUPPORTED, "%s is %g, only 1 is supported", key, v);
    return rc;
}

static enum err read_rope(const struct gguf *g, struct model_shape *s, struct error *e)
{
    double eps;
    enum err rc = read_real(g, ARCH "attention.layer_norm_rms_epsilon", 0, &eps, e);
    if (!rc) rc = read_real(g, ARCH "rope.freq_base", 0, &s->rope_theta, e);
    if (rc) return rc;
    s->rms_eps = (float)eps;
    s->swiglu_alpha = 1.702f; /* constants of the architecture: GGUF has no keys for them */
    s->swiglu_limit = 7.0f;
    s->rope_truncate = false; /* no key; OpenAI's reference does not round, spec 2.4 */
    s->rope_factor = 1;
    s->rope_beta_fast = 32;
    s->rope_beta_slow = 1;
    struct gguf_string type = {"none", 4};
    rc = gguf_text(g, ARCH "rope.scaling.type", &type, e);
    if (rc && rc != ERR_NOTFOUND) return rc;
    if (type.len == 4 && !memcmp(type.text, "none", 4)) return ERR_OK;
    if (type.len != 4 || memcmp(type.text, "yarn", 4) != 0)
        return err_set(e, ERR_UNSUPPORTED, ARCH "rope.scaling.type is %.*s, yarn or none is needed",
                       (int)(type.len < 40 ? type.len : 40), type.text);
    rc = read_real(g, ARCH "rope.scaling.factor", 0, &s->rope_factor, e);
    if (!rc) rc = read_real(g, ARCH "rope.scaling.yarn_beta_fast", 32, &s->rope_beta_fast, e);
    if (!rc) rc = read_real(g, ARCH "rope.scaling.yarn_beta_slow", 1, &s->rope_beta_slow, e);
    if (!rc) rc = must_be_one(g, ARCH "rope.scaling.yarn_ext_factor", e);
    return rc ? rc : must_be_one(g, ARCH "rope.scaling.yarn_attn_factor", e);
}

/* One period for all (all but the last layer of each period slide, 0 = all slide), or one flag for
 * each layer. */
static enum err read_pattern(const struct gguf *g, struct model_shape *s, struct error *e)
{
    static const char key[] = ARCH "attention.sliding_window_pattern";
    if (s->layers > SHAPE_MAX_LAYERS)
        return err_set(e, ERR_RANGE, ARCH "block_count is %u, at most %d are supported", s->layers,
                       SHAPE_MAX_LAYERS);
    const struct gguf_pair *p = gguf_find(g, key);
    uint64_t period = 2;
    if (p && p->is_array) {
        if (p->n != s->layers || p->type == GGUF_STRING || p->type == GGUF_F32 ||
            p->type == GGUF_F64)
            return err_set(e, ERR_INVAL, "%s: %u flags are expected, the file has %llu", key,
                           s->layers, (unsigned long long)p->n);
        const uint8_t *at = p->value;
        for (uint32_t i = 0; i < s->layers; i++)
            s->sliding[i] = gguf_next_int(p, &at) != 0;
        return ERR_OK;
    }
    enum err rc = gguf_u64(g, key, &period, e);
    if (rc && rc != ERR_NOTFOUND) return rc;
    for (uint32_t i = 0; i < s->layers; i++)
        s->sliding[i] = period == 0 || i % period < period - 1;
    return ERR_OK;
}

static enum err read_shape(struct model *m, struct error *e)
{
    struct model_shape *s = &m->shape;
    struct gguf_string name = {"gpt-oss", 7};
    enum err rc = check_arch(&m->gguf, e);
    if (!rc) rc = read_dims(&m->gguf, s, e);
    if (!rc) rc = read_rope(&m->gguf, s, e);
    if (!rc) rc = read_pattern(&m->gguf, s, e);
    if (!rc) rc = gguf_text(&m->gguf, "general.name", &name, e);
    if (rc && rc != ERR_NOTFOUND) return rc;
    snprintf(s->name, sizeof s->name, "%.*s", (int)(name.len < 63 ? name.len : 63), name.text);
    const struct tensor *embed = tensors_find(&m->tensors, "token_embd.weight");
    if (!embed) return err_set(e, ERR_NOTFOUND, "tensor token_embd.weight is missing");
    if (embed->n_dims != 2 || embed->dims[0] > UINT32_MAX)
        return err_set(e, ERR_INVAL, "tensor token_embd.weight: two dimensions are expected");
    s->vocab = (uint32_t)embed->dims[0]; /* no key is sure to hold it */
    s->dense_type = DT_F32; /* until the tensors say: the checks of block types are theirs */
    s->expert_type = DT_F32;
    return shape_check(s, e);
}

/* ---- tensors */

static struct weight_stack bind_experts(struct binder *b, const char *name, uint64_t rows,
                                        uint64_t cols)
{
    static const enum dtype dtype_of[TT_COUNT] = {[TT_F32] = DT_F32,
                                                  [TT_F16] = DT_F16,
                                                  [TT_BF16] = DT_BF16,
                                                  [TT_Q8_0] = DT_Q8_0,
                                                  [TT_MXFP4] = DT_MXFP4_GGML};
    const uint64_t dims[] = {b->m->shape.experts, rows, cols};
    const uint32_t any =
        1u << TT_F32 | 1u << TT_F16 | 1u << TT_BF16 | 1u << TT_Q8_0 | 1u << TT_MXFP4;
    const struct tensor *t = bind_tensor(b, name, dims, 3, any);
    if (!t) return (struct weight_stack){0};
    enum dtype type = dtype_of[t->type];
    return (struct weight_stack){.first = {.type = type,
                                           .data = t->data,
                                           .rows = (uint32_t)rows,
                                           .cols = (uint32_t)cols,
                                           .row_step_bytes = dtype_row_bytes(type, cols)},
                                 .n = b->m->shape.experts,
                                 .step_bytes = rows * dtype_row_bytes(type, cols)};
}

static void bind_layer(struct binder *b, struct layer_weights *w)
{
    const struct model_shape *s = &b->m->shape;
    const uint64_t d = s->hidden, q = (uint64_t)s->q_heads * s->head_dim, f = s->intermediate;
    const uint64_t kv = (uint64_t)s->kv_heads * s->head_dim, experts = s->experts;
    const uint64_t heads = s->q_heads, e_f[] = {experts, f}, e_d[] = {experts, d};
    w->attn_norm = bind_vector(b, "attn_norm.weight", &d, 1);
    w->q = bind_matrix(b, "attn_q.weight", q, d);
    w->k = bind_matrix(b, "attn_k.weight", kv, d);
    w->v = bind_matrix(b, "attn_v.weight", kv, d);
    w->o = bind_matrix(b, "attn_output.weight", d, q);
    w->q_bias = bind_vector(b, "attn_q.bias", &q, 1);
    w->k_bias = bind_vector(b, "attn_k.bias", &kv, 1);
    w->v_bias = bind_vector(b, "attn_v.bias", &kv, 1);
    w->o_bias = bind_vector(b, "attn_output.bias", &d, 1);
    w->sinks = bind_vector(b, "attn_sinks.weight", &heads, 1);
    w->mlp_norm = bind_vector(b, "post_attention_norm.weight", &d, 1);
    w->router = bind_matrix(b, "ffn_gate_inp.weight", experts, d);
    w->router_bias = bind_vector(b, "ffn_gate_inp.bias", &experts, 1);
    w->gate = bind_experts(b, "ffn_gate_exps.weight", f, d);
    w->up = bind_experts(b, "ffn_up_exps.weight", f, d);
    w->down = bind_experts(b, "ffn_down_exps.weight", d, f);
    w->gate_bias = bind_vector(b, "ffn_gate_exps.bias", e_f, 2);
    w->up_bias = bind_vector(b, "ffn_up_exps.bias", e_f, 2);
    w->down_bias = bind_vector(b, "ffn_down_exps.bias", e_d, 2);
}

static enum err refuse_fused(const struct model *m, struct error *e)
{
    static const char *const fused[] = {"blk.0.attn_qkv.weight", "blk.0.ffn_gate_up_exps.weight"};
    for (size_t i = 0; i < sizeof fused / sizeof *fused; i++)
        if (tensors_find(&m->tensors, fused[i]))
            return err_set(e, ERR_UNSUPPORTED,
                           "tensor %s: fused matrices are not supported; convert without fusing",
                           fused[i]);
    return ERR_OK;
}

enum err model_gguf_open(struct model *m, struct error *e)
{
    static const struct model_names names = {"token_embd.weight", "output.weight",
                                             "output_norm.weight", "blk.", bind_layer};
    enum err rc = read_files(m, e);
    if (!rc) rc = read_shape(m, e);
    if (!rc) rc = refuse_fused(m, e);
    return rc ? rc : model_bind(m, &names, e);
}
