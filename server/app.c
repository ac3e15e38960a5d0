/* app.c - start, drain and stop. Source: openai-api spec 9.2. */
#include "server/app.h"

#include "base/log.h"
#include "server/listen.h"
#include "server/notify.h"
#include "server/route.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define TICK_MS          250
#define IDLE_S           75              /* beyond the 60 s that most proxies wait */
#define FLUSH_NS         (2 * NS_PER_S)  /* for the last bytes of aborted requests */
#define WEDGED_NS        (60 * NS_PER_S) /* no step is longer, on any machine we emulate */
#define MAX_UNREAD_BYTES (1u << 20)
#define SPARE_FDS        64 /* files, epoll sets, pipes: not for connections */

static void enter(struct app *a, enum app_state s)
{
    a->state = s;
    a->since = wall_now();
}

static uint64_t in_state_ns(const struct app *a)
{
    return wall_now().ns - a->since.ns;
}

bool app_alive(struct app *a)
{
    if (!a->backend.engine || a->state == APP_LOADING) return true;
    struct engine_stats s;
    engine_stats(a->backend.engine, &s);
    return !s.has_work || !s.last_step.ns || wall_now().ns - s.last_step.ns < WEDGED_NS;
}

/* ---- loading, on the pool */

static void load(void *arg)
{
    struct app *a = arg;
    backend_open(&a->backend, a->conf, gens_deliver, a->gens, &a->error);
}

static void loaded(void *arg)
{
    struct app *a = arg;
    if (a->state == APP_CLOSED) return;
    if (a->error.code) {
        log_error("server", "%s", a->error.text);
        a->exit_code = 1;
        enter(a, APP_CLOSED);
        loop_stop(a->loop);
        return;
    }
    gens_serve(a->gens, &a->backend.service, a->backend.engine);
    if (a->state != APP_LOADING) return; /* told to stop meanwhile */
    enter(a, APP_READY);
    const struct backend *b = &a->backend;
    log_info("server",
             "ready after %.3f s: model=%s timed=%s machine=%s chips=%u plan=%s clock=%s isa=%s "
             "max_context=%u",
             (double)(a->since.ns - a->started.ns) * 1e-9, b->name, b->timed.name, b->machine.name,
             b->machine.chips, b->plan, backend_clock_name(b), engine_isa(b->engine),
             engine_max_context(b->engine));
    notify_ready("serving");
}

/* ---- stopping */

static void drain(struct app *a)
{
    log_info("server", "stopping: %u requests may go on for %.0f s", gens_active(a->gens),
             (double)a->conf->server.drain_timeout_ns * 1e-9);
    notify_stopping();
    if (a->backend.engine && a->state == APP_READY) engine_drain(a->backend.engine);
    enter(a, APP_DRAINING);
}

static void abort_rest(struct app *a)
{
    if (gens_active(a->gens))
        log_warn("server", "stopping: %u requests are ended with an error", gens_active(a->gens));
    gens_abort(a->gens);
    enter(a, APP_ABORTING);
}

static void check_stop(struct app *a)
{
    bool idle = !gens_active(a->gens) && !http_active(a->http);
    if (a->state == APP_DRAINING) {
        notify_extend(2 * FLUSH_NS / 1000);
        if (!idle && in_state_ns(a) >= a->conf->server.drain_timeout_ns) abort_rest(a);
    }
    if (a->state < APP_DRAINING || a->state == APP_CLOSED) return;
    if (idle || (a->state == APP_ABORTING && in_state_ns(a) > FLUSH_NS)) {
        enter(a, APP_CLOSED);
        loop_stop(a->loop);
    }
}

static void on_signal(void *arg, int signum)
{
    struct app *a = arg;
    log_info("server", "signal %s",
             signum == SIGTERM  ? "SIGTERM"
             : signum == SIGINT ? "SIGINT"
                                : "SIGHUP");
    if (a->state < APP_DRAINING)
        drain(a);
    else if (a->state == APP_DRAINING)
        abort_rest(a);
    else
        enter(a, APP_CLOSED);
    if (a->state == APP_CLOSED) loop_stop(a->loop);
    check_stop(a);
}

static void watch(struct app *a)
{
    if (!a->watchdog_us || (wall_now().ns - a->watched.ns) / 1000 < a->watchdog_us / 2) return;
    if (!app_alive(a)) return;
    a->watched = wall_now();
    notify_watchdog();
}

static void on_tick(void *arg)
{
    struct app *a = arg;
    gens_tick(a->gens);
    watch(a);
    check_stop(a);
}

static void on_wake(void *arg)
{
    struct app *a = arg;
    gens_wake(a->gens);
    check_stop(a);
}

/* ---- wiring */

/* As many connections as descriptors allow, at most what the configuration says. */
static uint32_t connection_limit(const struct conf *c)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r)) return c->server.max_connections;
    if (r.rlim_cur < r.rlim_max) {
        r.rlim_cur = r.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &r)) getrlimit(RLIMIT_NOFILE, &r);
    }
    uint64_t room = r.rlim_cur > SPARE_FDS ? r.rlim_cur - SPARE_FDS : 1;
    if (room >= c->server.max_connections) return c->server.max_connections;
    log_warn("server", "server.max_connections=%u but only %" PRIu64 " descriptors: using these",
             c->server.max_connections, room);
    return (uint32_t)room;
}

static enum err open_front(struct app *a, struct error *e)
{
    char url[96];
    int fd = notify_listen_fd();
    if (fd < 0) fd = listen_open(a->conf->server.listen, (uint16_t)a->conf->server.port, e);
    if (fd < 0) return ERR_IO;
    listen_tune(fd);
    bool open = listen_url(fd, url);
    struct http_options o = {.listen_fd = fd,
                             .max_connections = connection_limit(a->conf),
                             .idle_s = IDLE_S,
                             .max_body_bytes = a->conf->server.max_body_bytes};
    struct http_hooks hooks = {route_begin, route_ready, route_done, a};
    a->http = http_new(a->loop, &o, &hooks, e);
    if (!a->http) {
        close(fd);
        return ERR_IO;
    }
    log_info("server", "listening on %s", url);
    if (open) log_warn("server", "others can reach %s, and there is no authentication", url);
    return ERR_OK;
}

static enum err open_all(struct app *a, struct error *e)
{
    struct loop_hooks hooks = {on_wake, on_tick, on_signal, a};
    a->loop = loop_new(&hooks, TICK_MS, e);
    if (!a->loop) return ERR_IO;
    struct gens_options o = {.loop = a->loop,
                             .metrics = &a->metrics,
                             .keepalive_ns = a->conf->server.keepalive_ns,
                             .max_unread_bytes = MAX_UNREAD_BYTES,
                             .access_log = a->conf->server.access_log};
    a->gens = gens_new(&o);
    if (!a->gens) return err_set(e, ERR_NOMEM, "out of memory");
    enum err rc = open_front(a, e);
    if (!rc) rc = loop_work(a->loop, load, loaded, a);
    return rc;
}

/* Connections first: they let go of what they asked for. Then whatever still loads or is parsed,
 * then the engine, whose last events free the rest. */
static void close_all(struct app *a)
{
    http_free(a->http);
    loop_settle(a->loop);
    backend_close(&a->backend);
    if (a->gens) gens_wake(a->gens);
    gens_free(a->gens);
    loop_free(a->loop);
}

int app_run(const struct conf *c)
{
    struct app *a = calloc(1, sizeof *a);
    if (!a) return 1;
    a->conf = c;
    a->started = a->since = wall_now();
    a->start_time = (int64_t)time(NULL);
    a->watchdog_us = notify_watchdog_us();
    signal(SIGPIPE, SIG_IGN);
    metrics_init(&a->metrics);
    route_init(&a->metrics);
    struct error e = {0};
    if (open_all(a, &e)) {
        log_error("server", "%s", e.text[0] ? e.text : "cannot start");
        a->exit_code = 1;
    } else {
        loop_run(a->loop);
    }
    int rc = a->exit_code;
    close_all(a);
    if (!rc) log_info("server", "stopped");
    free(a);
    return rc;
}
