/* model.c - opens either kind of model, owns what belongs to it, prints it. */
#include "engine/model.h"
#include "base/log.h"
#include "engine/model_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum err model_map(struct model *m, const char *path, struct mapfile *out, struct error *e)
{
    struct mapfile *maps = realloc(m->maps, (m->n_maps + 1) * sizeof *maps);
    if (!maps) return err_set(e, ERR_NOMEM, "out of memory");
    m->maps = maps;
    enum err rc = mapfile_open(path, &maps[m->n_maps], e);
    if (!rc) *out = maps[m->n_maps++];
    return rc;
}

/* The last word of the path, without ".gguf" and trailing slashes. */
static void name_from_path(const char *path, char *out, size_t cap)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    size_t start = n;
    while (start > 0 && path[start - 1] != '/')
        start--;
    size_t len = n - start < cap - 1 ? n - start : cap - 1;
    memcpy(out, path + start, len);
    out[len] = 0;
}

static void warn_unused(const struct model *m)
{
    const char *first = NULL;
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->tensors.n; i++) {
        if (m->tensors.items[i].used) continue;
        if (!first) first = m->tensors.items[i].name;
        n++;
    }
    if (n) log_warn("model", "tensors that are not used were found count=%u first=%s", n, first);
}

static enum err open_path(struct model *m, struct error *e)
{
    struct stat st;
    if (stat(m->path, &st) != 0)
        return err_set(e, errno == ENOENT ? ERR_NOTFOUND : ERR_IO, "%s: %s", m->path,
                       strerror(errno));
    m->format = S_ISDIR(st.st_mode) ? MODEL_HF : MODEL_GGUF;
    enum err rc = m->format == MODEL_HF ? model_hf_open(m, e) : model_gguf_open(m, e);
    if (rc) return rc;
    if (!m->shape.name[0]) name_from_path(m->path, m->shape.name, sizeof m->shape.name);
    m->shape.dense_type = m->layers[0].q.type;
    m->shape.expert_type = m->layers[0].gate.first.type;
    return shape_check(&m->shape, e);
}

struct model *model_open(const char *path, struct error *e)
{
    struct model *m = calloc(1, sizeof *m);
    if (m) m->path = strdup(path);
    if (!m || !m->path) {
        err_set(e, ERR_NOMEM, "%s: out of memory", path);
        model_free(m);
        return NULL;
    }
    struct error why = {0};
    enum err rc = open_path(m, &why);
    if (rc) {
        bool named = !strncmp(why.text, path, strlen(path));
        err_set(e, rc, "%s%s%s", named ? "" : path, named ? "" : ": ", why.text);
        model_free(m);
        return NULL;
    }
    warn_unused(m);
    return m;
}

void model_free(struct model *m)
{
    if (!m) return;
    for (uint32_t i = 0; i < m->n_vectors; i++)
        free(m->vectors[i]);
    for (uint32_t i = 0; i < m->n_maps; i++)
        mapfile_close(&m->maps[i]);
    free(m->vectors);
    free(m->maps);
    free(m->layers);
    free(m->path);
    tensors_free(&m->tensors);
    gguf_free(&m->gguf);
    free(m);
}

const struct model_shape *model_shape(const struct model *m)
{
    return &m->shape;
}

const struct model_weights *model_weights(const struct model *m)
{
    return &m->weights;
}

uint64_t model_bytes(const struct model *m)
{
    uint64_t sum = 0; /* cannot overflow: the tensors lie in mapped files and do not overlap */
    for (uint32_t i = 0; i < m->tensors.n; i++)
        sum += m->tensors.items[i].bytes;
    return sum;
}

static void print_shape(const struct model *m, FILE *out)
{
    const struct model_shape *s = &m->shape;
    fprintf(out, "model       %s (%s, %u file%s)\n", s->name,
            m->format == MODEL_HF ? "Hugging Face" : "GGUF", m->n_maps, m->n_maps == 1 ? "" : "s");
    fprintf(out, "layers      %u (%u full attention, %u sliding over %u keys)\n", s->layers,
            shape_full_layers(s), s->layers - shape_full_layers(s), s->window);
    fprintf(out, "hidden      %u\n", s->hidden);
    fprintf(out, "attention   %u query heads, %u KV heads, %u each\n", s->q_heads, s->kv_heads,
            s->head_dim);
    fprintf(out, "experts     %u, %u per token, intermediate %u, swiglu alpha %g limit %g\n",
            s->experts, s->experts_per_token, s->intermediate, (double)s->swiglu_alpha,
            (double)s->swiglu_limit);
    fprintf(out, "vocabulary  %u\n", s->vocab);
    fprintf(out, "positions   %u\n", s->max_positions);
    fprintf(out, "rope        theta %g", s->rope_theta);
    if (s->rope_factor > 1)
        fprintf(out, ", yarn factor %g over %u, beta %g and %g, bounds %s", s->rope_factor,
                s->rope_original, s->rope_beta_fast, s->rope_beta_slow,
                s->rope_truncate ? "rounded" : "exact");
    fprintf(out, "\nrms eps     %g\n", (double)s->rms_eps);
    fprintf(out, "types       %s, experts %s\n", dtype_name(s->dense_type),
            dtype_name(s->expert_type));
}

void model_print(const struct model *m, FILE *out)
{
    uint64_t by_type[TT_COUNT] = {0};
    uint32_t count[TT_COUNT] = {0};
    char dims[200];
    print_shape(m, out);
    fprintf(out, "\n%-52s %-6s %-24s %15s\n", "tensor", "type", "shape", "bytes");
    for (uint32_t i = 0; i < m->tensors.n; i++) {
        const struct tensor *t = &m->tensors.items[i];
        fprintf(out, "%-52s %-6s %-24s %15llu%s\n", t->name, tensor_type_name(t->type),
                tensor_dims_text(t->dims, t->n_dims, dims, sizeof dims),
                (unsigned long long)t->bytes, t->used ? "" : "  not used");
        by_type[t->type] += t->bytes;
        count[t->type]++;
    }
    fprintf(out, "\n");
    for (int i = 0; i < TT_COUNT; i++)
        if (count[i])
            fprintf(out, "%5u tensors of %-6s %20llu bytes\n", count[i],
                    tensor_type_name((enum tensor_type)i), (unsigned long long)by_type[i]);
    fprintf(out, "%5u tensors %27llu bytes\n", m->tensors.n, (unsigned long long)model_bytes(m));
}
