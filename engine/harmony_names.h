/* harmony_names.h - function names as the model may write them, and back. Inside the engine. */
#ifndef ENGINE_HARMONY_NAMES_H
#define ENGINE_HARMONY_NAMES_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

/* Appends the name as the prompt shows it: itself when it is made of [A-Za-z0-9_-]; else every
 * other byte becomes '_' and a hash of the name follows, so that two names never meet and the alias
 * is the same in every request. */
void harmony_alias(struct buf *out, const char *name);

/* The offered tool that a recipient means: by alias, by name, the same without "functions." (also
 * doubled), last without regard to case. NULL: none. */
const char *harmony_find_tool(const char *const *tools, uint32_t n, const char *recipient,
                              size_t len);

/* Cuts a leading "functions." off. */
bool harmony_strip_namespace(const char **name, size_t *len);

#endif
