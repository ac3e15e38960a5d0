/* app.h - the daemon: everything wired together, and its life from start to stop. */
#ifndef SERVER_APP_H
#define SERVER_APP_H

#include "conf/daemon.h"
#include "server/backend.h"
#include "server/gens.h"
#include "server/http.h"
#include "server/loop.h"
#include "server/metrics.h"

enum app_state {
    APP_LOADING,
    APP_READY,
    APP_DRAINING, /* told to stop: what runs may end */
    APP_ABORTING, /* out of patience: what is left was told so, its last bytes leave */
    APP_CLOSED
};

struct app {
    const struct conf *conf;
    struct loop *loop;
    struct http *http;
    struct gens *gens;
    struct metrics metrics;
    struct backend backend;
    enum app_state state;
    struct wall since; /* in this state */
    struct wall started;
    int64_t start_time; /* Unix seconds */
    struct error error; /* why loading failed */
    int exit_code;
    struct wall watched;
    uint64_t watchdog_us;
};

/* Runs until it is told to stop; the process's exit code. */
int app_run(const struct conf *c);

/* The engine works, or has nothing to do. */
bool app_alive(struct app *a);

#endif
