/* queue.c - bounded queue over a mutex. */
#include "base/queue.h"

#include <pthread.h>
#include <stdlib.h>

struct queue {
    pthread_mutex_t lock;
    uint32_t cap, head, len;
    void *items[];
};

struct queue *queue_new(uint32_t capacity)
{
    struct queue *q = calloc(1, sizeof *q + (size_t)capacity * sizeof q->items[0]);
    if (!q) return NULL;
    pthread_mutex_init(&q->lock, NULL);
    q->cap = capacity;
    return q;
}

void queue_free(struct queue *q)
{
    if (!q) return;
    pthread_mutex_destroy(&q->lock);
    free(q);
}

enum err queue_put(struct queue *q, void *item)
{
    pthread_mutex_lock(&q->lock);
    enum err rc = q->len == q->cap ? ERR_FULL : ERR_OK;
    if (rc == ERR_OK) q->items[(q->head + q->len++) % q->cap] = item;
    pthread_mutex_unlock(&q->lock);
    return rc;
}

uint32_t queue_take(struct queue *q, void **items, uint32_t max)
{
    pthread_mutex_lock(&q->lock);
    uint32_t n = q->len < max ? q->len : max;
    for (uint32_t i = 0; i < n; i++)
        items[i] = q->items[(q->head + i) % q->cap];
    q->head = q->cap ? (q->head + n) % q->cap : 0;
    q->len -= n;
    pthread_mutex_unlock(&q->lock);
    return n;
}

uint32_t queue_len(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    uint32_t n = q->len;
    pthread_mutex_unlock(&q->lock);
    return n;
}
