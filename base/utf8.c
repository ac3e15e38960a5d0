/* utf8.c - UTF-8 decoding by the table of well-formed sequences (Unicode 15, table 3-7). */
#include "base/utf8.h"

/* Length of a sequence by its lead byte and the range its second byte must be in. */
static int lead(unsigned char c, unsigned char *lo, unsigned char *hi)
{
    *lo = 0x80;
    *hi = 0xBF;
    if (c < 0x80) return 1;
    if (c >= 0xC2 && c <= 0xDF) return 2;
    if (c == 0xE0) *lo = 0xA0;
    if (c == 0xED) *hi = 0x9F;
    if (c >= 0xE0 && c <= 0xEF) return 3;
    if (c == 0xF0) *lo = 0x90;
    if (c == 0xF4) *hi = 0x8F;
    return c >= 0xF0 && c <= 0xF4 ? 4 : 0;
}

int utf8_decode(const unsigned char *s, size_t n, uint32_t *cp)
{
    unsigned char lo, hi;
    int len = lead(s[0], &lo, &hi);
    if (len == 0) return -1;
    if (len == 1) {
        *cp = s[0];
        return 1;
    }
    uint32_t v = s[0] & (0x7Fu >> len);
    for (int i = 1; i < len; i++) {
        if ((size_t)i >= n) return 0;
        if (s[i] < lo || s[i] > hi) return -i;
        v = v << 6 | (s[i] & 0x3F);
        lo = 0x80;
        hi = 0xBF;
    }
    *cp = v;
    return len;
}

bool utf8_valid(const char *s, size_t n)
{
    uint32_t cp;
    for (size_t i = 0; i < n;) {
        int k = utf8_decode((const unsigned char *)s + i, n - i, &cp);
        if (k <= 0) return false;
        i += (size_t)k;
    }
    return true;
}

size_t utf8_take(struct buf *out, const char *s, size_t n, bool flush)
{
    size_t i = 0, plain = 0;
    uint32_t cp;
    while (i < n) {
        int k = utf8_decode((const unsigned char *)s + i, n - i, &cp);
        if (k > 0) {
            i += (size_t)k;
            continue;
        }
        buf_add(out, s + plain, i - plain);
        if (k == 0 && !flush) return i;
        buf_str(out, "\xEF\xBF\xBD");
        i = k == 0 ? n : i + (size_t)-k;
        plain = i;
    }
    buf_add(out, s + plain, i - plain);
    return i;
}
