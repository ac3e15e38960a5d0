/* api.h - handlers of the routes, one for each. */
#ifndef SERVER_API_H
#define SERVER_API_H

#include "server/app.h"

void api_chat(struct app *a, struct http_req *r);        /* POST /v1/chat/completions */
void api_completions(struct app *a, struct http_req *r); /* POST /v1/completions */
void api_models(struct app *a, struct http_req *r);      /* GET /v1/models, /v1/models/ID */
void api_version(struct app *a, struct http_req *r);
void api_health(struct app *a, struct http_req *r); /* is it ready? */
void api_live(struct app *a, struct http_req *r);   /* does it live? */
void api_metrics(struct app *a, struct http_req *r);
void api_chips(struct app *a, struct http_req *r);
void api_tokenize(struct app *a, struct http_req *r);
void api_detokenize(struct app *a, struct http_req *r);

#endif
