/* token_map.c - bytes -> token id by open addressing. */
#include "engine/token_map.h"

#include <stdlib.h>
#include <string.h>

/* FNV-1a, 64 bits folded to 32. Source: RFC draft eastlake-fnv. */
static uint32_t hash(const char *bytes, size_t len)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)bytes[i]) * 0x100000001b3u;
    return (uint32_t)(h ^ h >> 32);
}

/* The slot that holds these bytes, or the empty one where they would go. */
static uint32_t *slot(const struct token_map *m, const char *bytes, size_t len)
{
    uint32_t i = hash(bytes, len) & m->mask;
    for (; m->slots[i]; i = (i + 1) & m->mask) {
        const struct vocab_token *t = &m->tokens[m->slots[i] - 1];
        if (t->len == len && memcmp(t->bytes, bytes, len) == 0) break;
    }
    return &m->slots[i];
}

enum err token_map_build(struct token_map *m, const struct vocab *v, bool special)
{
    uint32_t used = 0, cap = 16;
    for (uint32_t id = 0; id < v->n; id++)
        used += v->tokens[id].bytes && v->tokens[id].special == special;
    while (cap / 2 < used && cap < 1u << 31)
        cap *= 2;
    *m = (struct token_map){v->tokens, calloc(cap, sizeof *m->slots), cap - 1};
    if (!m->slots) return ERR_NOMEM;
    for (uint32_t id = 0; id < v->n; id++) {
        const struct vocab_token *t = &v->tokens[id];
        if (!t->bytes || t->special != special) continue;
        uint32_t *s = slot(m, t->bytes, t->len);
        if (!*s) *s = id + 1;
    }
    return ERR_OK;
}

void token_map_free(struct token_map *m)
{
    free(m->slots);
    *m = (struct token_map){0};
}

uint32_t token_map_find(const struct token_map *m, const char *bytes, size_t len)
{
    return *slot(m, bytes, len) - 1; /* an empty slot holds 0: TOKEN_NONE */
}
