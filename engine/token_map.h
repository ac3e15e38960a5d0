/* token_map.h - bytes -> token id, over tokens that somebody else owns. */
#ifndef ENGINE_TOKEN_MAP_H
#define ENGINE_TOKEN_MAP_H

#include "base/err.h"
#include "engine/vocab.h"

#define TOKEN_NONE UINT32_MAX

struct token_map {
    const struct vocab_token *tokens; /* borrowed */
    uint32_t *slots;                  /* id + 1, 0 = empty; owned */
    uint32_t mask;
};

/* Maps the tokens of the vocabulary that are special, or those that are not. Of two with the same
 * bytes the lower id wins. */
enum err token_map_build(struct token_map *m, const struct vocab *v, bool special);
void token_map_free(struct token_map *m);

/* The id of the token that is exactly these bytes, or TOKEN_NONE. */
uint32_t token_map_find(const struct token_map *m, const char *bytes, size_t len);

#endif
