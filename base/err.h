/* err.h - how a function says that it failed, and why. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#define ERR_LIST(X)                                                                                \
    X(NOMEM, "out of memory")                                                                      \
    X(INVAL, "a value is not allowed")                                                             \
    X(RANGE, "a value is out of range")                                                            \
    X(FULL, "no room now, later perhaps")                                                          \
    X(PARSE, "the input is malformed")                                                             \
    X(IO, "reading or writing failed")                                                             \
    X(NOTFOUND, "there is no such thing")                                                          \
    X(UNSUPPORTED, "this is not supported")                                                        \
    X(CONTEXT, "the request does not fit the context")                                             \
    X(DRAINING, "the server is shutting down")

#define X(name, text) ERR_##name,
enum err { ERR_OK, ERR_LIST(X) ERR_COUNT };
#undef X

/* The first error of a call chain. Starts as {0}; a second error leaves the first as it is. */
struct error {
    enum err code;
    char text[512];
};

/* Sets *e, unless it is NULL or set already. Returns code, so that one line both says and returns
 * it. */
enum err err_set(struct error *e, enum err code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The fixed text of a code; never NULL. */
const char *err_text(enum err code);

#endif
