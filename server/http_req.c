/* http_req.c - a request's accessors, its answer and its end. */
#include "server/http_req.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* The client's own id when it is harmless, else 128 random bits. */
static void make_id(struct http_req *r)
{
    const char *given = http_header_in(r, "x-request-id");
    size_t n = given ? strlen(given) : 0;
    if (n >= 1 && n <= 128 &&
        n == strspn(given, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                           "abcdefghijklmnopqrstuvwxyz0123456789._:-")) {
        memcpy(r->id, given, n + 1);
        return;
    }
    unsigned char random[16] = {0};
    ssize_t got = getrandom(random, sizeof random, 0);
    (void)got; /* never short for so few bytes; an id is no secret */
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(r->id + 2 * i, 3, "%02x", random[i]);
}

static enum MHD_Result count_header(void *cls, enum MHD_ValueKind kind, const char *name,
                                    const char *value)
{
    unsigned *n = cls;
    (void)kind;
    if (!strcasecmp(name, "content-length")) n[0]++;
    if (!strcasecmp(name, "transfer-encoding")) n[1] += 1 + (strcasecmp(value, "chunked") != 0);
    return MHD_YES;
}

/* A body has one length or is chunked. MHD takes the first of two lengths, chunks before a length,
 * and a coding that it does not know as a body without an end. Source: RFC 9112, 6.3. */
static bool is_unclear(struct MHD_Connection *c)
{
    unsigned n[2] = {0};
    MHD_get_connection_values(c, MHD_HEADER_KIND, count_header, n);
    return n[0] + n[1] > 1;
}

struct http_req *http_req_new(struct http *h, struct MHD_Connection *c, const char *url,
                              const char *method)
{
    struct http_req *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    *r = (struct http_req){.http = h, .conn = c, .start = wall_now()};
    r->path = strdup(url);
    if (!r->path) {
        free(r);
        return NULL;
    }
    snprintf(r->method, sizeof r->method, "%s", method);
    r->fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    r->body.limit = h->options.max_body_bytes;
    const char *length = http_header_in(r, "content-length");
    if (length) r->announced = strtoull(length, NULL, 10);
    const char *expect = http_header_in(r, "expect");
    r->expects = expect && !strcasecmp(expect, "100-continue");
    r->unclear = is_unclear(c);
    make_id(r);
    r->next = h->requests;
    r->link = &h->requests;
    if (r->next) r->next->link = &r->next;
    h->requests = r;
    h->active++;
    return r;
}

void http_req_finish(struct http_req *r)
{
    http_gone_remove(r);
    if (!r->complete) r->status = 499;
    if (r->owner) r->owner->closed(r->owner_arg, r->complete);
    r->http->hooks.done(r->http->hooks.arg, r);
}

void http_req_free(struct http_req *r)
{
    *r->link = r->next;
    if (r->next) r->next->link = r->link;
    r->http->active--;
    if (r->response) MHD_destroy_response(r->response);
    buf_free(&r->body);
    buf_free(&r->stream.pending);
    free(r->path);
    free(r);
}

const char *http_id(const struct http_req *r)
{
    return r->id;
}

const char *http_method(const struct http_req *r)
{
    return r->method;
}

const char *http_path(const struct http_req *r)
{
    return r->path;
}

const char *http_header_in(const struct http_req *r, const char *name)
{
    return MHD_lookup_connection_value(r->conn, MHD_HEADER_KIND, name);
}

const char *http_query(const struct http_req *r, const char *name)
{
    return MHD_lookup_connection_value(r->conn, MHD_GET_ARGUMENT_KIND, name);
}

const char *http_remote(struct http_req *r, char out[64])
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(r->conn, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *sa = info ? info->client_addr : NULL;
    out[0] = 0;
    if (sa && sa->sa_family == AF_INET)
        inet_ntop(AF_INET, &((const struct sockaddr_in *)sa)->sin_addr, out, 64);
    else if (sa && sa->sa_family == AF_INET6)
        inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)sa)->sin6_addr, out, 64);
    return out;
}

bool http_too_large(const struct http_req *r)
{
    return r->announced > r->http->options.max_body_bytes || r->body.failed;
}

bool http_unclear(const struct http_req *r)
{
    return r->unclear;
}

char *http_take_body(struct http_req *r, size_t *len)
{
    return buf_take(&r->body, len);
}

void http_header(struct http_req *r, const char *name, const char *value)
{
    if (r->n_headers == HTTP_MAX_HEADERS) return;
    r->headers[r->n_headers].name = name;
    snprintf(r->headers[r->n_headers].value, sizeof r->headers[0].value, "%s", value);
    r->n_headers++;
}

static void add_headers(struct http_req *r, const char *type)
{
    MHD_add_response_header(r->response, "x-request-id", r->id);
    if (type) MHD_add_response_header(r->response, "content-type", type);
    for (uint32_t i = 0; i < r->n_headers; i++)
        MHD_add_response_header(r->response, r->headers[i].name, r->headers[i].value);
}

void http_reply(struct http_req *r, int status, const char *type, char *body, size_t len)
{
    if (r->response) { /* the first answer stands */
        free(body);
        return;
    }
    r->response = MHD_create_response_from_buffer(
        len, body ? body : (char *)"", body ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
    r->status = status;
    r->bytes_out = len;
    if (r->response)
        add_headers(r, type);
    else
        free(body);
    http_resume(r);
}

struct writer *http_stream(struct http_req *r, const char *type)
{
    if (r->response) return NULL;
    r->response = http_stream_response(r);
    if (!r->response) return NULL;
    r->status = 200;
    r->is_stream = true;
    add_headers(r, type);
    return &r->stream.writer;
}

void http_own(struct http_req *r, const struct http_owner *o, void *arg)
{
    r->owner = o;
    r->owner_arg = arg;
    http_gone_add(r);
}

int http_req_send(struct http_req *r)
{
    if (r->queued) return MHD_YES;
    r->queued = true;
    enum MHD_Result rc = MHD_queue_response(r->conn, (unsigned)r->status, r->response);
    MHD_destroy_response(r->response);
    r->response = NULL;
    return rc;
}

void http_account(const struct http_req *r, struct http_account *out)
{
    *out = (struct http_account){.status = r->status,
                                 .bytes_in = r->bytes_in,
                                 .bytes_out = r->bytes_out,
                                 .start = r->start,
                                 .owned = r->owner != NULL};
}

void http_set_tag(struct http_req *r, const void *tag)
{
    r->tag = tag;
}

const void *http_tag(const struct http_req *r)
{
    return r->tag;
}
