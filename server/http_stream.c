/* http_stream.c - a stream's writer over MHD's content reader: correct for every HTTP version.
 * Bytes wait in one buffer; when it is empty the connection sleeps until the next write. */
#include "server/http_req.h"

#include <microhttpd.h>
#include <string.h>

#define BLOCK_BYTES 1024 /* of HTTP/1.0 answers only: chunks are built in MHD's own memory */

static ssize_t read_pending(void *cls, uint64_t pos, char *out, size_t max)
{
    struct http_req *r = cls;
    struct http_stream *s = &r->stream;
    (void)pos;
    if (s->cut || r->gone) return MHD_CONTENT_READER_END_WITH_ERROR;
    size_t n = s->pending.len - s->sent;
    if (!n) {
        if (s->ended) return MHD_CONTENT_READER_END_OF_STREAM;
        http_suspend(r);
        return 0;
    }
    if (n > max) n = max;
    memcpy(out, s->pending.data + s->sent, n);
    s->sent += n;
    r->bytes_out += n;
    if (s->sent == s->pending.len) {
        buf_clear(&s->pending);
        s->sent = 0;
    }
    return (ssize_t)n;
}

static struct http_req *req_of(struct writer *w)
{
    return (struct http_req *)((char *)w - offsetof(struct http_req, stream.writer));
}

static size_t stream_write(struct writer *w, const char *bytes, size_t n)
{
    struct http_req *r = req_of(w);
    struct http_stream *s = &r->stream;
    if (s->sent > 65536) { /* a slow reader must not make the sent part grow */
        memmove(s->pending.data, s->pending.data + s->sent, s->pending.len - s->sent);
        s->pending.len -= s->sent;
        s->sent = 0;
    }
    buf_add(&s->pending, bytes, n);
    s->started = true;
    http_resume(r);
    return s->pending.failed ? 0 : s->pending.len - s->sent;
}

static void stream_end(struct writer *w)
{
    struct http_req *r = req_of(w);
    r->stream.ended = r->stream.started = true;
    http_resume(r);
}

static void stream_cut(struct writer *w)
{
    struct http_req *r = req_of(w);
    r->stream.cut = true;
    http_hang_up(r);
}

struct MHD_Response *http_stream_response(struct http_req *r)
{
    static const struct writer_ops ops = {stream_write, stream_end, stream_cut};
    r->stream.writer.ops = &ops;
    return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_pending, r, NULL);
}
