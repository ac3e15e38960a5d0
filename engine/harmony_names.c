/* harmony_names.c - aliases of tool names that would not survive in a header. */
#include "engine/harmony_names.h"

#include <string.h>
#include <strings.h>

static bool plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

void harmony_alias(struct buf *out, const char *name)
{
    bool changed = *name == 0;
    uint32_t hash = 0x811c9dc5u; /* FNV-1a */
    for (const char *s = name; *s; s++) {
        buf_char(out, plain(*s) ? *s : '_');
        changed |= !plain(*s);
        hash = (hash ^ (unsigned char)*s) * 0x01000193u;
    }
    if (changed) buf_printf(out, "_%06x", hash & 0xFFFFFF);
}

bool harmony_strip_namespace(const char **name, size_t *len)
{
    static const char prefix[] = "functions.";
    const size_t n = sizeof prefix - 1;
    if (*len <= n || memcmp(*name, prefix, n) != 0) return false;
    *name += n;
    *len -= n;
    return true;
}

static bool same(const char *tool, const char *name, size_t len, bool fold)
{
    if (strlen(tool) != len) return false;
    return fold ? strncasecmp(tool, name, len) == 0 : memcmp(tool, name, len) == 0;
}

static const char *find(const char *const *tools, uint32_t n, const char *name, size_t len,
                        bool fold)
{
    struct buf alias = {0};
    const char *found = NULL;
    for (uint32_t i = 0; i < n && !found; i++) {
        buf_clear(&alias);
        harmony_alias(&alias, tools[i]);
        if (!alias.failed && same(alias.data, name, len, fold)) found = tools[i];
    }
    for (uint32_t i = 0; i < n && !found; i++)
        if (same(tools[i], name, len, fold)) found = tools[i];
    buf_free(&alias);
    return found;
}

const char *harmony_find_tool(const char *const *tools, uint32_t n, const char *recipient,
                              size_t len)
{
    for (int fold = 0; fold < 2; fold++) {
        const char *name = recipient;
        size_t left = len;
        do {
            const char *found = find(tools, n, name, left, fold);
            if (found) return found;
        } while (harmony_strip_namespace(&name, &left));
    }
    return NULL;
}
