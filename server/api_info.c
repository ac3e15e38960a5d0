/* api_info.c - what the server is and how it feels: models, version, health, metrics. Source:
 * openai-api spec 5. */
#include "server/api.h"
#include "server/reply.h"

#include "config.h"

#include <stdlib.h>
#include <string.h>

void api_chat(struct app *a, struct http_req *r)
{
    gens_start(a->gens, r, CALL_CHAT);
}

void api_completions(struct app *a, struct http_req *r)
{
    gens_start(a->gens, r, CALL_TEXT);
}

static void add_card(const struct service *s, struct buf *out)
{
    size_t n = strlen(s->names[0]);
    buf_str(out, "{\"id\":\"");
    buf_json(out, s->names[0], n);
    buf_printf(out, "\",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"trnd\",\"root\":\"",
               (long long)s->created);
    buf_json(out, s->names[0], n);
    buf_printf(out, "\",\"parent\":null,\"max_model_len\":%u,\"permission\":[]}", s->max_context);
}

void api_models(struct app *a, struct http_req *r)
{
    const struct service *s = &a->backend.service;
    const char *id = http_path(r) + strlen("/v1/models");
    struct buf body = {0};
    if (id[0] == '/' && id[1]) {
        size_t n = strlen(++id);
        n -= id[n - 1] == '/';
        for (uint32_t i = 0; i < s->n_names; i++)
            if (strlen(s->names[i]) == n && !strncmp(s->names[i], id, n)) {
                add_card(s, &body);
                reply_json(r, 200, &body);
                return;
            }
        struct api_error e = {0};
        api_fail(&e, 404, "model_not_found", "model", "The model '%.100s' does not exist here.",
                 id);
        reply_error(r, &e);
        return;
    }
    buf_str(&body, "{\"object\":\"list\",\"data\":[");
    add_card(s, &body);
    buf_str(&body, "]}");
    reply_json(r, 200, &body);
}

void api_version(struct app *a, struct http_req *r)
{
    struct buf body = {0};
    (void)a;
    buf_str(&body, "{\"version\":\"" PACKAGE_VERSION "\",\"name\":\"trnd\"}");
    reply_json(r, 200, &body);
}

static void reply_state(struct http_req *r, bool ok, const char *code, const char *message)
{
    struct buf body = {0};
    if (ok) {
        buf_str(&body, "{\"status\":\"ok\"}");
        reply_json(r, 200, &body);
        return;
    }
    struct api_error e = {0};
    api_fail(&e, 503, code, NULL, "%s", message);
    reply_error(r, &e);
}

void api_live(struct app *a, struct http_req *r)
{
    reply_state(r, app_alive(a), "engine_unavailable", "The engine does not make progress.");
}

void api_health(struct app *a, struct http_req *r)
{
    if (a->state == APP_LOADING)
        reply_state(r, false, "loading_model", "The model is being loaded.");
    else if (a->state != APP_READY)
        reply_state(r, false, "draining", "The server is shutting down.");
    else
        api_live(a, r);
}

void api_metrics(struct app *a, struct http_req *r)
{
    struct metrics_page p = {
        .own = &a->metrics, .ready = a->state == APP_READY, .start_time = a->start_time};
    struct engine_stats stats;
    struct chip_report *chips = NULL;
    struct replica_report *replicas = NULL;
    struct engine *e = a->state == APP_LOADING ? NULL : a->backend.engine;
    if (e) {
        engine_stats(e, &stats);
        p.stats = &stats;
        p.options = &a->backend.options;
        p.model_name = a->backend.name;
        uint32_t n = a->backend.machine.chips, m = a->backend.options.plan.replicas;
        chips = calloc(n, sizeof *chips);
        replicas = calloc(m, sizeof *replicas);
        if (chips) p.n_chips = engine_chips(e, chips, n);
        if (replicas) p.n_replicas = engine_replicas(e, replicas, m);
        p.chips = chips;
        p.replicas = replicas;
    }
    struct buf body = {0};
    metrics_print(&p, &body);
    free(chips);
    free(replicas);
    reply_text(r, 200, "text/plain; version=0.0.4; charset=utf-8", &body);
}
