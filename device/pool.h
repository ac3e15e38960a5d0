/* pool.h - host threads that share the items of one op. They sleep when there is none; the caller
 * takes part. Items are claimed one by one, so a core that others slow down does not hold up the
 * step; each item writes its own outputs, so who computes it cannot change a result. */
#ifndef DEVICE_POOL_H
#define DEVICE_POOL_H

#include "base/err.h"

#include <stdint.h>

struct pool;

typedef void pool_fn(void *arg, uint32_t item, uint32_t thread);

/* `threads` includes the caller; 0 = as many as this process may run on. */
struct pool *pool_new(uint32_t threads, struct error *e);
void pool_free(struct pool *p);
uint32_t pool_threads(const struct pool *p);

/* Calls f(arg, i, thread) once for each i < items, thread < pool_threads(); returns when all have
 * returned. One caller at a time. */
void pool_run(struct pool *p, pool_fn *f, void *arg, uint32_t items);

#endif
