/* harmony_pairs.h - which call of a conversation each tool result answers. Inside the engine. */
#ifndef ENGINE_HARMONY_PAIRS_H
#define ENGINE_HARMONY_PAIRS_H

#include "engine/harmony.h"

#define PAIR_NONE UINT32_MAX

struct harmony_result { /* of one message; only tool messages have one */
    const char *name;   /* of the function, borrowed from the chat */
    bool with_call;     /* rendered right behind its call, not where it stands */
    uint32_t next;      /* the next result of the same call, or PAIR_NONE */
};

struct harmony_pairs {
    struct harmony_result *results; /* [n_messages] */
    uint32_t *first;                /* [calls of the whole chat, in order] first result, or NONE */
    uint32_t *last;                 /* the end of each of these lists */
};

/* A result answers the nearest earlier call with its id; results of one assistant message with
 * equal ids answer them in turn. It moves to its call if only tool messages stand between.
 * ERR_INVAL names messages[i] when no call has the id and the message gives no name. */
enum err harmony_pairs_find(struct harmony_pairs *p, const struct chat *c, struct error *e);
void harmony_pairs_free(struct harmony_pairs *p);

#endif
