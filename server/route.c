/* route.c - the table of routes. */
#include "server/route.h"

#include "base/log.h"
#include "server/api.h"
#include "server/reply.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum {
    R_MODEL = 1, /* needs the loaded model */
    R_WORK = 2,  /* refused while draining */
    R_REST = 4,  /* the path may go on behind a slash */
    R_QUIET = 8, /* asked for all the time: not worth a log line */
    R_OWN_LOG = 16
};

struct route {
    const char *method, *path;
    void (*fn)(struct app *, struct http_req *);
    int flags;
    const char *label; /* of metrics; NULL = the path */
};

#define CHAT "/v1/chat/completions"

static const struct route routes[] = {
    {"POST", CHAT, api_chat, R_MODEL | R_WORK | R_OWN_LOG, NULL},
    {"POST", "/chat/completions", api_chat, R_MODEL | R_WORK | R_OWN_LOG, CHAT},
    {"POST", "/v1/completions", api_completions, R_MODEL | R_WORK | R_OWN_LOG, NULL},
    {"GET", "/v1/models", api_models, R_MODEL | R_REST, NULL},
    {"GET", "/v1/chips", api_chips, R_MODEL, NULL},
    {"POST", "/tokenize", api_tokenize, R_MODEL | R_WORK, NULL},
    {"POST", "/detokenize", api_detokenize, R_MODEL | R_WORK, NULL},
    {"GET", "/metrics", api_metrics, R_QUIET, NULL},
    {"GET", "/version", api_version, R_QUIET, NULL},
    {"GET", "/health", api_health, R_QUIET, NULL},
    {"GET", "/healthz", api_health, R_QUIET, "/health"},
    {"GET", "/readyz", api_health, R_QUIET, "/health"},
    {"GET", "/health/ready", api_health, R_QUIET, "/health"},
    {"GET", "/ping", api_health, R_QUIET, "/health"},
    {"GET", "/livez", api_live, R_QUIET, NULL},
    {"GET", "/health/live", api_live, R_QUIET, "/livez"},
};

#define N_ROUTES (sizeof routes / sizeof *routes)

static const struct route unknown = {"", "other", NULL, 0, NULL};

static const char *label_of(const struct route *r)
{
    return r->label ? r->label : r->path;
}

void route_init(struct metrics *m)
{
    for (size_t i = 0; i < N_ROUTES; i++)
        metrics_route(m, label_of(&routes[i]));
    metrics_route(m, label_of(&unknown));
}

/* A slash at the end is accepted: a redirect of a POST breaks clients. */
static bool path_matches(const struct route *r, const char *path)
{
    size_t n = strlen(r->path);
    if (strncmp(path, r->path, n) != 0) return false;
    return !path[n] || (path[n] == '/' && (!path[n + 1] || (r->flags & R_REST)));
}

/* The route, or NULL and the methods that this path knows ("" = the path is unknown). */
static const struct route *find(const char *method, const char *path, char allow[48])
{
    const char *want = strcmp(method, "HEAD") ? method : "GET";
    allow[0] = 0;
    for (size_t i = 0; i < N_ROUTES; i++) {
        if (!path_matches(&routes[i], path)) continue;
        if (!strcmp(routes[i].method, want)) return &routes[i];
        snprintf(allow, 48, "%s, OPTIONS",
                 strcmp(routes[i].method, "GET") ? routes[i].method : "GET, HEAD");
    }
    return NULL;
}

static void refuse_route(struct http_req *r, const char *allow)
{
    struct api_error e = {0};
    if (!allow[0]) {
        api_fail(&e, 404, "unknown_url", NULL, "Unknown request URL: %s %.200s.", http_method(r),
                 http_path(r));
    } else if (!strcmp(http_method(r), "OPTIONS")) {
        http_header(r, "allow", allow);
        http_reply(r, 204, NULL, NULL, 0);
        return;
    } else {
        http_header(r, "allow", allow);
        api_fail(&e, 405, "method_not_supported", NULL, "%s is not allowed here; use %s.",
                 http_method(r), allow);
    }
    reply_error(r, &e);
}

/* JSON with any parameters, or nothing said. */
static bool check_media(struct http_req *r, struct api_error *e)
{
    const char *coding = http_header_in(r, "content-encoding");
    if (coding && strcasecmp(coding, "identity") != 0)
        return api_fail(e, 415, "unsupported_media_type", NULL,
                        "The content encoding '%.64s' is not supported.", coding);
    const char *type = http_header_in(r, "content-type");
    size_t n = type ? strcspn(type, "; \t") : 0;
    if (!n || (n == 16 && !strncasecmp(type, "application/json", n)) ||
        (n == 10 && !strncasecmp(type, "text/plain", n)))
        return true;
    return api_fail(e, 415, "unsupported_media_type", NULL,
                    "The content type must be application/json, not '%.64s'.", type);
}

static bool check_framing(struct http_req *r, struct api_error *e)
{
    if (!http_unclear(r)) return true;
    http_header(r, "connection", "close");
    return api_fail(e, 400, "invalid_framing", NULL,
                    "A body has one Content-Length, or Transfer-Encoding: chunked, not both.");
}

static bool check_size(struct app *a, struct http_req *r, struct api_error *e)
{
    return !http_too_large(r) || api_fail(e, 413, "request_too_large", NULL,
                                          "The request body is longer than %llu bytes.",
                                          (unsigned long long)a->conf->server.max_body_bytes);
}

static bool check_state(struct app *a, const struct route *route, struct api_error *e)
{
    if ((route->flags & R_MODEL) && a->state == APP_LOADING) {
        a->metrics.rejected[REJECT_LOADING]++;
        return api_fail(e, 503, "loading_model", NULL, "The model is being loaded.");
    }
    if ((route->flags & R_WORK) && a->state != APP_READY) {
        a->metrics.rejected[REJECT_DRAINING]++;
        return api_fail_err(e, ERR_DRAINING, NULL, NULL);
    }
    if ((route->flags & R_MODEL) && !a->backend.service.tokenizer)
        return api_fail_err(e, ERR_DRAINING, NULL, NULL);
    return true;
}

void route_begin(void *app, struct http_req *r)
{
    struct app *a = app;
    char allow[48];
    const struct route *route = find(http_method(r), http_path(r), allow);
    http_set_tag(r, route ? route : &unknown);
    struct api_error e = {0};
    if (!check_framing(r, &e))
        reply_error(r, &e);
    else if (!route)
        refuse_route(r, allow);
    else if (!check_size(a, r, &e) || (!strcmp(route->method, "POST") && !check_media(r, &e)) ||
             !check_state(a, route, &e))
        reply_error(r, &e);
}

void route_ready(void *app, struct http_req *r)
{
    struct app *a = app;
    const struct route *route = http_tag(r);
    struct api_error e = {0};
    if (check_size(a, r, &e) && check_state(a, route, &e))
        route->fn(a, r);
    else
        reply_error(r, &e);
}

static void log_request(const struct app *a, struct http_req *r, const struct http_account *x,
                        double seconds)
{
    const struct route *route = http_tag(r);
    char remote[64];
    bool quiet = (route->flags & R_QUIET) && x->status < 500;
    enum log_level level = quiet ? LOG_DEBUG : LOG_INFO;
    if (!a->conf->server.access_log || !log_enabled(level) ||
        ((route->flags & R_OWN_LOG) && x->owned))
        return;
    log_at(level, "access", "req=%s remote=%s method=%s path=\"%.128s\" status=%d total_ms=%.3f",
           http_id(r), http_remote(r, remote), http_method(r), http_path(r), x->status,
           seconds * 1e3);
}

void route_done(void *app, struct http_req *r)
{
    struct app *a = app;
    struct http_account x;
    http_account(r, &x);
    double seconds = (double)(wall_now().ns - x.start.ns) * 1e-9;
    struct metrics *m = &a->metrics;
    int class = x.status / 100 - 1;
    if (class < 0 || class > 4) class = 4;
    m->requests[metrics_route(m, label_of(http_tag(r)))][class]++;
    hist_add(&m->duration, seconds);
    hist_add(&m->request_bytes, (double)x.bytes_in);
    hist_add(&m->response_bytes, (double)x.bytes_out);
    log_request(a, r, &x, seconds);
}
