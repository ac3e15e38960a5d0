/* loop.c - libuv. */
#include "server/loop.h"

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <uv.h>

#define N_SIGNALS 3

struct loop {
    uv_loop_t uv;
    uv_async_t wake;
    uv_timer_t tick;
    uv_signal_t signals[N_SIGNALS];
    struct loop_hooks hooks;
};

struct work {
    uv_work_t uv;
    void (*work)(void *), (*done)(void *);
    void *arg;
};

static void on_wake(uv_async_t *h)
{
    struct loop *l = h->data;
    l->hooks.wake(l->hooks.arg);
}

static void on_tick(uv_timer_t *h)
{
    struct loop *l = h->data;
    l->hooks.tick(l->hooks.arg);
}

static void on_signal(uv_signal_t *h, int signum)
{
    struct loop *l = h->data;
    l->hooks.signal(l->hooks.arg, signum);
}

/* Under nohup a terminal that closes is to be nothing. SIGINT is heard all the same: a shell
 * ignores it for whatever it puts in the background. */
static bool is_ignored(int signum)
{
    struct sigaction now;
    return signum == SIGHUP && sigaction(signum, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

struct loop *loop_new(const struct loop_hooks *hooks, uint32_t tick_ms, struct error *e)
{
    static const int signums[N_SIGNALS] = {SIGTERM, SIGINT, SIGHUP};
    struct loop *l = calloc(1, sizeof *l);
    if (!l || uv_loop_init(&l->uv)) {
        free(l);
        err_set(e, ERR_NOMEM, "cannot make the event loop");
        return NULL;
    }
    l->hooks = *hooks;
    l->wake.data = l->tick.data = l;
    int rc = uv_async_init(&l->uv, &l->wake, on_wake);
    if (!rc) rc = uv_timer_init(&l->uv, &l->tick);
    if (!rc) rc = uv_timer_start(&l->tick, on_tick, tick_ms, tick_ms);
    for (int i = 0; i < N_SIGNALS && !rc; i++) {
        rc = uv_signal_init(&l->uv, &l->signals[i]);
        l->signals[i].data = l;
        if (!rc && !is_ignored(signums[i]))
            rc = uv_signal_start(&l->signals[i], on_signal, signums[i]);
    }
    if (!rc) return l;
    err_set(e, ERR_IO, "event loop: %s", uv_strerror(rc));
    loop_free(l);
    return NULL;
}

static void close_handle(uv_handle_t *h, void *keep)
{
    if (h != keep && !uv_is_closing(h)) uv_close(h, NULL);
}

void loop_settle(struct loop *l)
{
    if (!l) return;
    uv_walk(&l->uv, close_handle, &l->wake);
    uv_unref((uv_handle_t *)&l->wake);
    uv_run(&l->uv, UV_RUN_DEFAULT);
}

void loop_free(struct loop *l)
{
    if (!l) return;
    uv_walk(&l->uv, close_handle, NULL);
    uv_run(&l->uv, UV_RUN_DEFAULT);
    uv_loop_close(&l->uv);
    free(l);
}

void loop_run(struct loop *l)
{
    uv_run(&l->uv, UV_RUN_DEFAULT);
}

void loop_stop(struct loop *l)
{
    uv_stop(&l->uv);
}

void loop_wake(struct loop *l)
{
    uv_async_send(&l->wake);
}

static void run_work(uv_work_t *w)
{
    struct work *work = w->data;
    work->work(work->arg);
}

static void end_work(uv_work_t *w, int status)
{
    struct work *work = w->data;
    (void)status; /* never cancelled */
    work->done(work->arg);
    free(work);
}

enum err loop_work(struct loop *l, void (*work)(void *), void (*done)(void *), void *arg)
{
    struct work *w = malloc(sizeof *w);
    if (!w) return ERR_NOMEM;
    *w = (struct work){.work = work, .done = done, .arg = arg};
    w->uv.data = w;
    if (!uv_queue_work(&l->uv, &w->uv, run_work, end_work)) return ERR_OK;
    free(w);
    return ERR_NOMEM;
}

struct uv_loop_s *loop_uv(struct loop *l)
{
    return &l->uv;
}
