/* messages.h - the `messages` and `tools` of a chat request. Texts are borrowed from the JSON tree
 * or live in the call's arena. Source: openai-api spec 2.2 and 2.4. */
#ifndef SERVER_MESSAGES_H
#define SERVER_MESSAGES_H

#include "server/call.h"

#include "engine/harmony.h"

bool messages_read(struct call *c, const json_t *v, struct chat *out, struct api_error *e);

/* Fills out->tools and the names in the call. */
bool tools_read(struct call *c, const json_t *v, struct chat *out, struct api_error *e);

#endif
