/* place.c - least to do after placement, ties in turn. */
#include "engine/place.h"

uint32_t place_pick(const struct place_replica *replicas, uint32_t n, uint32_t prompt_tokens,
                    uint32_t last)
{
    uint32_t best = 0;
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
