/* arena.h - memory that is freed all at once: what one request carries from the door to its end. */
#ifndef SERVER_ARENA_H
#define SERVER_ARENA_H

#include <stddef.h>

struct arena_block;
struct arena { /* starts as {0} */
    struct arena_block *blocks;
};

/* Zeroed, aligned for any type; NULL without memory or when n * size overflows. */
void *arena_alloc(struct arena *a, size_t n, size_t size);
/* A copy with a NUL behind it. */
char *arena_copy(struct arena *a, const char *bytes, size_t n);
void arena_free(struct arena *a);

#endif
