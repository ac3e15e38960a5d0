/* kvstore.c - two mappings, one for each kind of layer. */
#include "device/kvstore.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/mman.h>

struct kind {
    float *data;
    size_t block_floats, bytes;
    uint32_t blocks, layers;
};

struct kvstore {
    struct kind kinds[2]; /* full, sliding */
    size_t head_floats;   /* K and V of one head of one layer */
    uint32_t heads;
    bool sliding[SHAPE_MAX_LAYERS];
    uint16_t index[SHAPE_MAX_LAYERS]; /* of a layer among those of its kind */
};

static enum err map_kind(struct kind *k, uint32_t blocks, size_t layer_floats, struct error *e)
{
    k->blocks = blocks;
    if (__builtin_mul_overflow(layer_floats, k->layers, &k->block_floats) ||
        __builtin_mul_overflow(k->block_floats, (size_t)blocks * sizeof(float), &k->bytes))
        return err_set(e, ERR_NOMEM, "kv: %u blocks of %u layers pass any memory", blocks,
                       k->layers);
    if (k->bytes == 0) return ERR_OK;
    void *p = mmap(NULL, k->bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return err_set(e, ERR_NOMEM, "kv: cannot reserve %zu bytes for %u blocks", k->bytes,
                       blocks);
    k->data = p;
    return ERR_OK;
}

struct kvstore *kvstore_new(const struct kvstore_options *o, struct error *e)
{
    const struct model_shape *m = o->shape;
    if (o->block_tokens == 0 || o->block_tokens > 1 << 16) {
        err_set(e, ERR_INVAL, "kv: block_tokens is %u, must be 1 to 65536", o->block_tokens);
        return NULL;
    }
    struct kvstore *s = calloc(1, sizeof *s);
    if (!s) {
        err_set(e, ERR_NOMEM, "kv: no memory");
        return NULL;
    }
    s->heads = m->kv_heads;
    s->head_floats = (size_t)2 * o->block_tokens * m->head_dim;
    for (uint32_t l = 0; l < m->layers; l++) {
        s->sliding[l] = m->sliding[l];
        s->index[l] = (uint16_t)s->kinds[m->sliding[l]].layers++;
    }
    size_t layer_floats = s->head_floats * s->heads; /* below 2^37 by shape_check */
    if (map_kind(&s->kinds[0], o->full_blocks, layer_floats, e) ||
        map_kind(&s->kinds[1], o->slide_blocks, layer_floats, e)) {
        kvstore_free(s);
        return NULL;
    }
    return s;
}

void kvstore_free(struct kvstore *s)
{
    if (!s) return;
    for (int i = 0; i < 2; i++)
        if (s->kinds[i].data) munmap(s->kinds[i].data, s->kinds[i].bytes);
    free(s);
}

float *kvstore_k(const struct kvstore *s, uint32_t layer, uint32_t head, uint32_t block)
{
    const struct kind *k = &s->kinds[s->sliding[layer]];
    assert(block < k->blocks && head < s->heads);
    return k->data + block * k->block_floats +
           ((size_t)s->index[layer] * s->heads + head) * s->head_floats;
}

float *kvstore_v(const struct kvstore *s, uint32_t layer, uint32_t head, uint32_t block)
{
    return kvstore_k(s, layer, head, block) + s->head_floats / 2;
}

uint32_t kvstore_blocks(const struct kvstore *s, bool sliding)
{
    return s->kinds[sliding].blocks;
}
