/* vocab.c - the byte-level alphabet, and the end of a vocabulary. */
#include "engine/vocab.h"
#include "base/utf8.h"

#include <stdlib.h>

void vocab_free(struct vocab *v)
{
    free(v->tokens);
    free(v->merges);
    free(v->arena);
    *v = (struct vocab){0};
}

/* Printable Latin-1 stands for itself; the other 68 bytes, in order, for U+0100 to U+0143.
 * Source: gpt-oss spec section 4.6. */
static int byte_of(uint32_t cp)
{
    if ((cp >= 0x21 && cp <= 0x7E) || (cp >= 0xA1 && cp <= 0xAC) || (cp >= 0xAE && cp <= 0xFF))
        return (int)cp;
    if (cp < 0x100 || cp > 0x143) return -1;
    cp -= 0x100;
    if (cp <= 0x20) return (int)cp;
    return cp == 0x43 ? 0xAD : (int)(cp - 0x21 + 0x7F);
}

int vocab_bytes(const char *text, size_t len, char *out)
{
    int n = 0;
    for (size_t i = 0; i < len;) {
        uint32_t cp;
        int k = utf8_decode((const unsigned char *)text + i, len - i, &cp);
        int byte = k > 0 ? byte_of(cp) : -1;
        if (byte < 0) return -1;
        out[n++] = (char)byte;
        i += (size_t)k;
    }
    return n;
}
