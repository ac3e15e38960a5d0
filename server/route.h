/* route.h - which request goes where, and what is refused before its body is read. The hooks of the
 * HTTP side; their argument is the app. Source: openai-api spec 1.1, 1.2, 1.6. */
#ifndef SERVER_ROUTE_H
#define SERVER_ROUTE_H

#include "server/http.h"
#include "server/metrics.h"

void route_init(struct metrics *m); /* registers the labels */
void route_begin(void *app, struct http_req *r);
void route_ready(void *app, struct http_req *r);
void route_done(void *app, struct http_req *r);

#endif
