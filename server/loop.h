/* loop.h - the I/O thread's event loop: signals, a wake-up from other threads, a tick, and a pool
 * of threads for what grows with a body. */
#ifndef SERVER_LOOP_H
#define SERVER_LOOP_H

#include "base/err.h"

#include <stdint.h>

struct loop;
struct uv_loop_s;

struct loop_hooks { /* all on the loop's thread */
    void (*wake)(void *arg);
    void (*tick)(void *arg);
    void (*signal)(void *arg, int signal); /* SIGTERM, SIGINT, SIGHUP */
    void *arg;
};

struct loop *loop_new(const struct loop_hooks *hooks, uint32_t tick_ms, struct error *e);
/* No more ticks and signals; returns when all work of the pool is done. What was put on the loop
 * must have been freed before. loop_wake() is still allowed. */
void loop_settle(struct loop *l);
void loop_free(struct loop *l); /* after loop_settle */

void loop_run(struct loop *l); /* until loop_stop */
void loop_stop(struct loop *l);
void loop_wake(struct loop *l); /* from any thread; many calls may become one wake-up */

/* Runs work(arg) on a thread of the pool, then done(arg) on the loop's. */
enum err loop_work(struct loop *l, void (*work)(void *), void (*done)(void *), void *arg);

struct uv_loop_s *loop_uv(struct loop *l); /* for http.c, which puts its own watchers on it */

#endif
