/* queue.h - a bounded queue of pointers: many producers, one consumer, over a mutex. Full is an
 * answer (ERR_FULL), never a longer queue. */
#ifndef BASE_QUEUE_H
#define BASE_QUEUE_H

#include "base/err.h"

#include <stdint.h>

struct queue;

struct queue *queue_new(uint32_t capacity); /* NULL: no memory */
void queue_free(struct queue *q); /* what is still inside is the caller's to drain first */

enum err queue_put(struct queue *q, void *item);                  /* ERR_OK or ERR_FULL */
uint32_t queue_take(struct queue *q, void **items, uint32_t max); /* how many; oldest first */
uint32_t queue_len(struct queue *q);

#endif
