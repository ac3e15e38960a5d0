/* place.c - least to do after placement, ties in turn, nobody forgotten. */
#include "engine/place.h"

/* The idle replica that was passed over for longest, if for too long; n if none was. */
static uint32_t forgotten(const struct place_replica *replicas, uint32_t n)
{
    uint32_t found = n;
    uint64_t longest = (uint64_t)PLACE_ROUNDS * n;
    for (uint32_t r = 0; r < n; r++) {
        if (replicas[r].outstanding_tokens || replicas[r].rest <= longest) continue;
        longest = replicas[r].rest;
        found = r;
    }
    return found;
}

uint32_t place_pick(const struct place_replica *replicas, uint32_t n, uint32_t prompt_tokens,
                    uint32_t last)
{
    uint32_t best = forgotten(replicas, n);
    if (best < n) return best;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 1; i <= n; i++) {
        uint32_t r = (last + i) % n;
        uint64_t todo = replicas[r].outstanding_tokens + prompt_tokens - replicas[r].cached_tokens;
        if (todo < least) {
            least = todo;
            best = r;
        }
    }
    return best;
}
