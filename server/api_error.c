/* api_error.c - the error object. Source: openai-api spec 1.5. */
#include "server/api_error.h"

#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool api_fail(struct api_error *e, int status, const char *code, const char *param, const char *fmt,
              ...)
{
    if (e->status) return false;
    e->status = status;
    e->code = code;
    snprintf(e->param, sizeof e->param, "%s", param ? param : "");
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->message, sizeof e->message, fmt, ap);
    va_end(ap);
    return false;
}

bool api_fail_err(struct api_error *e, enum err code, const struct error *cause, const char *param)
{
    const char *text = cause && cause->text[0] ? cause->text : err_text(code);
    switch (code) {
    case ERR_FULL:
        return api_fail(e, 429, "queue_full", NULL, "The server's queue is full: %s", text);
    case ERR_DRAINING:
        return api_fail(e, 503, "draining", NULL, "The server is shutting down.");
    case ERR_CONTEXT:
        return api_fail(e, 400, "context_length_exceeded", param, "%s", text);
    case ERR_INVAL:
    case ERR_RANGE:
    case ERR_PARSE:
        return api_fail(e, 400, "invalid_value", param, "%s", text);
    case ERR_UNSUPPORTED:
        return api_fail(e, 400, "unsupported_value", param, "%s", text);
    case ERR_NOTFOUND:
        return api_fail(e, 404, "not_found", param, "%s", text);
    case ERR_NOMEM:
        return api_fail(e, 503, "engine_unavailable", NULL, "The server is out of memory.");
    default:
        return api_fail(e, 500, "internal_error", NULL, "The server failed to do this.");
    }
}

uint32_t api_retry_after_s(const struct api_error *e)
{
    return e->status == 429 ? 1 : e->status == 503 ? 5 : 0;
}

static const char *type_of(int status)
{
    switch (status) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 408:
    case 504:
        return "timeout_error";
    case 409:
        return "conflict_error";
    case 429:
        return "rate_limit_error";
    default:
        return status < 500 ? "invalid_request_error" : "server_error";
    }
}

/* What is echoed may be cut in the middle of a character. */
static void add_text(struct buf *out, const char *s)
{
    struct buf clean = {0};
    utf8_take(&clean, s, strlen(s), true);
    buf_char(out, '"');
    if (clean.len) buf_json(out, clean.data, clean.len);
    buf_char(out, '"');
    buf_free(&clean);
}

void api_error_json(const struct api_error *e, struct buf *out)
{
    buf_str(out, "{\"error\":{\"message\":");
    add_text(out, e->message);
    buf_printf(out, ",\"type\":\"%s\",\"param\":", type_of(e->status));
    if (e->param[0])
        add_text(out, e->param);
    else
        buf_str(out, "null");
    if (e->code)
        buf_printf(out, ",\"code\":\"%s\"}}", e->code);
    else
        buf_str(out, ",\"code\":null}}");
}
