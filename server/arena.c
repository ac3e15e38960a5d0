/* arena.c - a list of allocations. */
#include "server/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct arena_block {
    struct arena_block *next;
    max_align_t data[];
};

void *arena_alloc(struct arena *a, size_t n, size_t size)
{
    if (size && n > (SIZE_MAX - sizeof(struct arena_block)) / size) return NULL;
    struct arena_block *b = calloc(1, sizeof *b + n * size);
    if (!b) return NULL;
    b->next = a->blocks;
    a->blocks = b;
    return b->data;
}

char *arena_copy(struct arena *a, const char *bytes, size_t n)
{
    char *p = arena_alloc(a, n + 1, 1);
    if (p && n) memcpy(p, bytes, n);
    return p;
}

void arena_free(struct arena *a)
{
    while (a->blocks) {
        struct arena_block *b = a->blocks;
        a->blocks = b->next;
        free(b);
    }
}
