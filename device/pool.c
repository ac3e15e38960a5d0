/* pool.c - a few threads, one job at a time, sleeping in between. */
#include "config.h" /* first: sched.h shows the affinity calls only with _GNU_SOURCE */

#include "device/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

struct worker {
    struct pool *pool;
    pthread_t thread;
    uint32_t index;
};

struct pool {
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    struct worker *workers; /* threads - 1 of them */
    uint32_t threads, started;
    /* Under the lock. A worker that wakes after the job was closed must not touch it, so the caller
     * need not wait for workers that slept through a short job. */
    uint64_t job;
    bool open, stop;
    uint32_t busy;
    /* Written under the lock before the job opens. */
    pool_fn *f;
    void *arg;
    uint32_t items;
    _Atomic uint32_t next;
};

static void claim_items(struct pool *p, uint32_t thread)
{
    for (;;) {
        uint32_t i = atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed);
        if (i >= p->items) return;
        p->f(p->arg, i, thread);
    }
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct pool *p = w->pool;
    uint64_t seen = 0;
    pthread_mutex_lock(&p->lock);
    while (!p->stop) {
        if (!p->open || p->job == seen) {
            pthread_cond_wait(&p->work, &p->lock);
            continue;
        }
        seen = p->job;
        p->busy++;
        pthread_mutex_unlock(&p->lock);
        claim_items(p, w->index);
        pthread_mutex_lock(&p->lock);
        if (--p->busy == 0) pthread_cond_signal(&p->done);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static uint32_t usable_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set)) return 1;
    return (uint32_t)CPU_COUNT(&set);
}

struct pool *pool_new(uint32_t threads, struct error *e)
{
    struct pool *p = calloc(1, sizeof *p);
    if (!p) goto fail;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->done, NULL);
    p->threads = threads ? threads : usable_cores();
    p->workers = calloc(p->threads, sizeof *p->workers);
    if (!p->workers) goto fail;
    for (uint32_t i = 0; i + 1 < p->threads; i++) {
        struct worker *w = &p->workers[i];
        *w = (struct worker){.pool = p, .index = i + 1};
        if (pthread_create(&w->thread, NULL, worker_main, w)) goto fail;
        p->started++;
    }
    return p;
fail:
    err_set(e, ERR_NOMEM, "pool: cannot start %u threads", threads);
    pool_free(p);
    return NULL;
}

void pool_free(struct pool *p)
{
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (uint32_t i = 0; i < p->started; i++)
        pthread_join(p->workers[i].thread, NULL);
    pthread_cond_destroy(&p->done);
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->lock);
    free(p->workers);
    free(p);
}

uint32_t pool_threads(const struct pool *p)
{
    return p->threads;
}

void pool_run(struct pool *p, pool_fn *f, void *arg, uint32_t items)
{
    if (p->threads == 1 || items < 2) {
        for (uint32_t i = 0; i < items; i++)
            f(arg, i, 0);
        return;
    }
    pthread_mutex_lock(&p->lock);
    p->f = f;
    p->arg = arg;
    p->items = items;
    atomic_store_explicit(&p->next, 0, memory_order_relaxed);
    p->job++;
    p->open = true;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);

    claim_items(p, 0);

    pthread_mutex_lock(&p->lock);
    p->open = false;
    while (p->busy)
        pthread_cond_wait(&p->done, &p->lock);
    pthread_mutex_unlock(&p->lock);
}
