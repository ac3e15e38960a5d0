/* model_hf.c - a Hugging Face folder: config.json, safetensors, the names of spec 3.2. */
#include "engine/model_config.h"
#include "engine/model_parts.h"
#include "engine/safetensors.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* NULL: no memory. */
static char *join(const char *folder, const char *name)
{
    size_t n = strlen(folder) + strlen(name) + 2;
    char *path = malloc(n);
    if (path) snprintf(path, n, "%s/%s", folder, name);
    return path;
}

static enum err read_shape(struct model *m, struct error *e)
{
    char *path = join(m->path, "config.json");
    if (!path) return err_set(e, ERR_NOMEM, "out of memory");
    struct mapfile f;
    enum err rc = mapfile_open(path, &f, e);
    free(path);
    if (rc) return rc;
    rc = model_config_read(f.data, f.size, &m->shape, e);
    mapfile_close(&f);
    return rc;
}

static enum err read_file(struct model *m, const char *name, struct error *e)
{
    char *path = join(m->path, name);
    if (!path) return err_set(e, ERR_NOMEM, "out of memory");
    struct mapfile f;
    enum err rc = model_map(m, path, &f, e);
    free(path);
    return rc ? rc : safetensors_read(f.data, f.size, name, &m->tensors, e);
}

/* Every tensor of the index must lie in the file that the index says. */
static enum err read_indexed(struct model *m, const struct safetensors_index *x, struct error *e)
{
    enum err rc = ERR_OK;
    for (uint32_t i = 0; i < x->n_files && !rc; i++)
        rc = read_file(m, x->files[i], e); /* becomes maps[i] */
    if (!rc) rc = tensors_seal(&m->tensors, e);
    for (uint32_t i = 0; i < x->n_entries && !rc; i++) {
        const struct tensor *t = tensors_find(&m->tensors, x->entries[i].tensor);
        const struct mapfile *f = &m->maps[x->entries[i].file];
        if (!t || t->data < f->data || t->data + t->bytes > f->data + f->size)
            rc = err_set(e, ERR_NOTFOUND, "tensor %s is not in %s, as the index says",
                         x->entries[i].tensor, x->files[x->entries[i].file]);
    }
    return rc;
}

static enum err read_tensors(struct model *m, struct error *e)
{
    char *path = join(m->path, "model.safetensors.index.json");
    if (!path) return err_set(e, ERR_NOMEM, "out of memory");
    struct mapfile f;
    struct safetensors_index x = {0};
    enum err rc;
    if (access(path, F_OK) != 0 && errno == ENOENT) {
        rc = read_file(m, "model.safetensors", e);
        if (!rc) rc = tensors_seal(&m->tensors, e);
    } else {
        rc = mapfile_open(path, &f, e);
        if (!rc) {
            rc = safetensors_index_read(f.data, f.size, "model.safetensors.index.json", &x, e);
            mapfile_close(&f);
        }
        if (!rc) rc = read_indexed(m, &x, e);
        safetensors_index_free(&x);
    }
    free(path);
    return rc;
}

/* Experts of [rows][cols] in MXFP4: blocks and scales in two tensors. */
static struct weight_stack bind_experts(struct binder *b, const char *name, uint64_t rows,
                                        uint64_t cols)
{
    char blocks[100], scales[100];
    snprintf(blocks, sizeof blocks, "mlp.experts.%s_blocks", name);
    snprintf(scales, sizeof scales, "mlp.experts.%s_scales", name);
    const uint64_t dims[] = {b->m->shape.experts, rows, cols / 32, 16};
    const struct tensor *data = bind_tensor(b, blocks, dims, 4, 1u << TT_U8);
    const struct tensor *scale = bind_tensor(b, scales, dims, 3, 1u << TT_U8);
    if (!data || !scale) return (struct weight_stack){0};
    return (struct weight_stack){.first = {.type = DT_MXFP4,
                                           .data = data->data,
                                           .scales = scale->data,
                                           .rows = (uint32_t)rows,
                                           .cols = (uint32_t)cols,
                                           .row_step_bytes = dtype_row_bytes(DT_MXFP4, cols),
                                           .scale_step_bytes = dtype_scale_bytes(DT_MXFP4, cols)},
                                 .n = b->m->shape.experts,
                                 .step_bytes = rows * dtype_row_bytes(DT_MXFP4, cols),
                                 .scale_step_bytes = rows * dtype_scale_bytes(DT_MXFP4, cols)};
}

/* Every second matrix row, from row `first`: gate rows are the even ones, up rows the odd ones. */
static struct weight_stack every_second_row(struct weight_stack s, uint32_t first)
{
    s.first.data += first * s.first.row_step_bytes;
    s.first.scales += first * s.first.scale_step_bytes;
    s.first.rows /= 2;
    s.first.row_step_bytes *= 2;
    s.first.scale_step_bytes *= 2;
    return s;
}

static void bind_gate_up(struct binder *b, struct layer_weights *w)
{
    const struct model_shape *s = &b->m->shape;
    const uint64_t two_f = 2ull * s->intermediate, dims[] = {s->experts, two_f};
    struct weight_stack both = bind_experts(b, "gate_up_proj", two_f, s->hidden);
    const uint32_t floats = 1u << TT_F32 | 1u << TT_F16 | 1u << TT_BF16;
    const struct tensor *bias = bind_tensor(b, "mlp.experts.gate_up_proj_bias", dims, 2, floats);
    size_t n = (size_t)s->experts * s->intermediate;
    float *gate_bias = bind_alloc(b, n), *up_bias = bind_alloc(b, n);
    if (b->rc) return;
    tensor_to_f32(bias, 0, 2, n, gate_bias);
    tensor_to_f32(bias, 1, 2, n, up_bias);
    w->gate = every_second_row(both, 0);
    w->up = every_second_row(both, 1);
    w->gate_bias = gate_bias;
    w->up_bias = up_bias;
}

static void bind_layer(struct binder *b, struct layer_weights *w)
{
    const struct model_shape *s = &b->m->shape;
    const uint64_t d = s->hidden, q = (uint64_t)s->q_heads * s->head_dim;
    const uint64_t kv = (uint64_t)s->kv_heads * s->head_dim, experts = s->experts;
    const uint64_t heads = s->q_heads, e_d[] = {experts, d};
    w->attn_norm = bind_vector(b, "input_layernorm.weight", &d, 1);
    w->q = bind_matrix(b, "self_attn.q_proj.weight", q, d);
    w->k = bind_matrix(b, "self_attn.k_proj.weight", kv, d);
    w->v = bind_matrix(b, "self_attn.v_proj.weight", kv, d);
    w->o = bind_matrix(b, "self_attn.o_proj.weight", d, q);
    w->q_bias = bind_vector(b, "self_attn.q_proj.bias", &q, 1);
    w->k_bias = bind_vector(b, "self_attn.k_proj.bias", &kv, 1);
    w->v_bias = bind_vector(b, "self_attn.v_proj.bias", &kv, 1);
    w->o_bias = bind_vector(b, "self_attn.o_proj.bias", &d, 1);
    w->sinks = bind_vector(b, "self_attn.sinks", &heads, 1);
    w->mlp_norm = bind_vector(b, "post_attention_layernorm.weight", &d, 1);
    w->router = bind_matrix(b, "mlp.router.weight", experts, d);
    w->router_bias = bind_vector(b, "mlp.router.bias", &experts, 1);
    bind_gate_up(b, w);
    w->down = bind_experts(b, "down_proj", d, s->intermediate);
    w->down_bias = bind_vector(b, "mlp.experts.down_proj_bias", e_d, 2);
}

static enum err refuse_variants(const struct model *m, struct error *e)
{
    if (tensors_find(&m->tensors, "model.layers.0.mlp.experts.gate_up_proj"))
        return err_set(e, ERR_UNSUPPORTED,
                       "tensor model.layers.0.mlp.experts.gate_up_proj: an export with expanded "
                       "experts; the MXFP4 original (gate_up_proj_blocks, _scales) is needed");
    if (tensors_find(&m->tensors, "block.0.attn.qkv.weight"))
        return err_set(e, ERR_UNSUPPORTED,
                       "tensor block.0.attn.qkv.weight: the original OpenAI layout; the Hugging "
                       "Face layout (model.layers.0...) is needed");
    return ERR_OK;
}

enum err model_hf_open(struct model *m, struct error *e)
{
    static const struct model_names names = {"model.embed_tokens.weight", "lm_head.weight",
                                             "model.norm.weight", "model.layers.", bind_layer};
    enum err rc = read_shape(m, e);
    if (!rc) rc = read_tensors(m, e);
    if (!rc) rc = refuse_variants(m, e);
    return rc ? rc : model_bind(m, &names, e);
}
