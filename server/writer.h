/* writer.h - where the bytes of a stream go. An interface, so that the way to the socket can
 * change without what is above it noticing. */
#ifndef SERVER_WRITER_H
#define SERVER_WRITER_H

#include <stddef.h>

struct writer;

struct writer_ops {
    /* Queues the bytes; the first call sends status and headers. Returns how many bytes wait for
     * the client to read, these included; 0 without memory, which is the end of the stream. */
    size_t (*write)(struct writer *w, const char *bytes, size_t n);
    void (*end)(struct writer *w); /* the body is complete */
    void (*cut)(struct writer *w); /* the body will never be complete: close the connection */
};

struct writer {
    const struct writer_ops *ops;
};

#endif
