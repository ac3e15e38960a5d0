/* gen_reply.c - from a generation to its client: the head leaves with the first bytes, so that
 * everything that goes wrong before is an HTTP status; after that it is a frame. */
#include "server/gen.h"

#include "base/log.h"
#include "server/reply.h"

#include <inttypes.h>
#include <string.h>

static void count_rejection(struct metrics *m, const struct api_error *e)
{
    if (e->status == 429) m->rejected[REJECT_QUEUE_FULL]++;
    if (e->status == 503) m->rejected[REJECT_DRAINING]++;
    if (e->status == 400 && e->code && !strcmp(e->code, "context_length_exceeded"))
        m->rejected[REJECT_CONTEXT]++;
}

static void cut_slow_reader(struct gen *g)
{
    g->owner->options.metrics->slow_readers++;
    log_warn("server", "req=%s cut off: its client leaves more than %u bytes unread", g->id,
             g->owner->options.max_unread_bytes);
    g->answered = true;
    gen_cancel(g);
    g->writer->ops->cut(g->writer);
}

static void write_out(struct gen *g, const char *bytes, size_t n)
{
    if (!n || g->answered) return;
    if (!g->writer) {
        http_header(g->req, "cache-control", "no-cache, no-transform");
        http_header(g->req, "x-accel-buffering", "no");
        g->writer = http_stream(g->req, "text/event-stream; charset=utf-8");
        if (!g->writer) {
            struct api_error e = {0};
            api_fail(&e, 500, "internal_error", NULL, "The server is out of memory.");
            reply_error(g->req, &e);
            g->answered = true;
            gen_cancel(g);
            return;
        }
        g->status = 200;
    }
    g->last_write = wall_now();
    size_t unread = g->writer->ops->write(g->writer, bytes, n);
    if (!unread || unread > g->owner->options.max_unread_bytes) cut_slow_reader(g);
}

void gen_fail(struct gen *g, const struct api_error *e)
{
    if (!g->error.status) g->error = *e;
    gen_cancel(g);
    if (g->answered || !g->req) return;
    if (!g->writer) {
        g->status = e->status;
        g->answered = true;
        count_rejection(g->owner->options.metrics, e);
        reply_error(g->req, e);
        return;
    }
    struct buf frame = {0};
    buf_str(&frame, "data: ");
    api_error_json(e, &frame);
    buf_str(&frame, "\n\ndata: [DONE]\n\n");
    write_out(g, frame.data, frame.failed ? 0 : frame.len);
    buf_free(&frame);
    if (g->answered) return;
    g->answered = true;
    g->writer->ops->end(g->writer);
}

static bool out_of_memory(struct gen *g, const struct buf *b)
{
    if (!b->failed) return false;
    struct api_error e = {0};
    api_fail(&e, 500, "internal_error", NULL, "The server is out of memory.");
    gen_fail(g, &e);
    return true;
}

static void flush_stream(struct gen *g)
{
    struct buf *frames = answer_frames(g->answer);
    bool done = answer_done(g->answer);
    if (done) answer_close(g->answer, NULL);
    if (out_of_memory(g, frames)) return;
    write_out(g, frames->data, frames->len);
    buf_clear(frames);
    if (!done || g->answered) return;
    g->answered = true;
    g->writer->ops->end(g->writer);
}

static void flush_object(struct gen *g)
{
    if (!answer_done(g->answer)) return;
    struct buf object = {0};
    answer_frames(g->answer); /* the last deltas become text */
    answer_close(g->answer, &object);
    if (out_of_memory(g, &object)) {
        buf_free(&object);
        return;
    }
    g->answered = true;
    g->status = 200;
    reply_json(g->req, 200, &object);
}

void gen_flush(struct gen *g)
{
    if (g->answered || !g->req || g->gone) return;
    const struct error *cause = answer_error(g->answer);
    if (cause) {
        struct api_error e = {0};
        api_fail_err(&e, cause->code, cause, NULL);
        gen_fail(g, &e);
    } else if (g->call.stream) {
        flush_stream(g);
    } else {
        flush_object(g);
    }
}

void gen_keep_alive(struct gen *g, struct wall now)
{
    static const char comment[] = ": keep-alive\n\n";
    uint64_t every = g->owner->options.keepalive_ns;
    if (!every || !g->answer || !g->call.stream || g->answered || g->gone || !g->req) return;
    if (now.ns - g->last_write.ns < every) return;
    g->owner->options.metrics->keepalives++;
    write_out(g, comment, sizeof comment - 1);
}

static double ms(uint64_t from, uint64_t to)
{
    return to > from ? (double)(to - from) * 1e-6 : 0;
}

void gen_log(const struct gen *g)
{
    static const char *const phases[PHASES] = {"body", "queue", "prefill", "decode"};
    if (!g->owner->options.access_log) return;
    struct answer_totals t = {0};
    if (g->answer) answer_totals(g->answer, &t);
    struct wall end = wall_now();
    bool left = !g->complete;
    log_info("access",
             "req=%s remote=%s method=POST path=%s status=%d stream=%d n=%u prompt_tokens=%" PRIu64
             " cached_tokens=%" PRIu64 " completion_tokens=%" PRIu64 " reasoning_tokens=%" PRIu64
             " finish=%s code=%s emulated_queue_ms=%.3f emulated_ttft_ms=%.3f "
             "emulated_e2e_ms=%.3f ttft_ms=%.3f total_ms=%.3f%s%s",
             g->id, g->remote, g->kind == CALL_CHAT ? "/v1/chat/completions" : "/v1/completions",
             left ? 499 : g->status, g->call.stream, g->answer ? answer_choices(g->answer) : 0,
             t.prompt, t.cached, t.completion, t.reasoning,
             left              ? "abort"
             : g->error.status ? "error"
             : t.finish        ? t.finish
                               : "none",
             g->error.code ? g->error.code : "none", ms(g->arrived.ns, g->scheduled.ns),
             ms(g->arrived.ns, g->first_token.ns), ms(g->arrived.ns, g->finished.ns),
             g->first.ns ? ms(g->start.ns, g->first.ns) : 0, ms(g->start.ns, end.ns),
             left ? " left_in=" : "", left ? phases[g->phase] : "");
}
