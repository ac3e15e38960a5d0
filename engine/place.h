/* place.h - which replica a new request goes to. Pure. */
#ifndef ENGINE_PLACE_H
#define ENGINE_PLACE_H

#include <stdint.h>

struct place_replica {
    uint64_t outstanding_tokens; /* that its requests have yet to compute, about */
    uint32_t cached_tokens;      /* of the new request's prompt, in its prefix cache */
    uint64_t rest;               /* requests placed elsewhere since it got its last one */
};

/* The replica with the least to do once it has the request: what it has, and the part of the prompt
 * that it would have to compute. A cached prefix so weighs as much as it saves. Ties go round:
 * `last` is the replica chosen before. But a prefix that all share must not leave replicas idle for
 * ever: one with nothing to do that was passed over PLACE_ROUNDS * n times comes first. n >= 1. */
#define PLACE_ROUNDS 4

uint32_t place_pick(const struct place_replica *replicas, uint32_t n, uint32_t prompt_tokens,
                    uint32_t last);

#endif
