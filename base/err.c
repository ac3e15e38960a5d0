/* err.c - error codes and the first-error-wins message. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>

enum err err_set(struct error *e, enum err code, const char *fmt, ...)
{
    if (e && e->code == ERR_OK) {
        e->code = code;
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(e->text, sizeof e->text, fmt, ap);
        va_end(ap);
    }
    return code;
}

const char *err_text(enum err code)
{
#define X(name, text) [ERR_##name] = text,
    static const char *const texts[ERR_COUNT] = {[ERR_OK] = "ok", ERR_LIST(X)};
#undef X
    return (unsigned)code < ERR_COUNT ? texts[code] : "unknown error";
}
