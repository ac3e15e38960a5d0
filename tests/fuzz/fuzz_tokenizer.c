/* fuzz_tokenizer.c - the encoder on any bytes: no crash, the bytes come back, and the ids are those
 * of the plainest way to merge. */
#include "engine/presplit.h"
#include "engine/tokenizer.h"

#include "tests/byte_vocab.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define IDS (256 + BYTE_VOCAB_WORDS)

/* [left][right] the id of both together, or 0; made from the words as they stand. */
static uint32_t together[IDS][IDS];

static void fill_together(const struct tokenizer *t)
{
    for (uint32_t id = 256; id < IDS; id++) {
        uint32_t len, a, b;
        const char *w = tokenizer_bytes(t, id, &len);
        for (uint32_t l = 0; l < IDS; l++)
            for (uint32_t r = 0; r < IDS; r++) {
                const char *x = tokenizer_bytes(t, l, &a), *y = tokenizer_bytes(t, r, &b);
                if (a + b == len && memcmp(w, x, a) == 0 && memcmp(w + a, y, b) == 0)
                    together[l][r] = id;
            }
    }
}

/* Merges ids[0..n) in place, the definition word for word. */
static uint32_t merge(uint32_t *ids, uint32_t n)
{
    for (;;) {
        uint32_t best = UINT32_MAX, at = 0;
        for (uint32_t i = 0; i + 1 < n; i++) {
            uint32_t id = together[ids[i]][ids[i + 1]];
            if (id == 0 || id >= best) continue;
            best = id;
            at = i;
        }
        if (best == UINT32_MAX) return n;
        ids[at] = best;
        memmove(ids + at + 1, ids + at + 2, (n - at - 2) * sizeof *ids);
        n--;
    }
}

static void check_plain(const char *s, size_t n, const struct tokens *got)
{
    uint32_t ids[512], k = 0;
    for (size_t at = 0, end; at < n; at = end) {
        end = presplit_next(s, n, at);
        if (end <= at || end > n) abort();
        if (end - at > 512) return;
        for (size_t i = at; i < end; i++)
            ids[i - at] = (unsigned char)s[i];
        uint32_t m = merge(ids, (uint32_t)(end - at));
        if (k + m > got->n || memcmp(got->ids + k, ids, m * sizeof *ids) != 0) abort();
        k += m;
    }
    if (k != got->n) abort();
}

static void check_bytes(const struct tokenizer *t, const char *s, size_t n,
                        const struct tokens *got)
{
    size_t at = 0;
    for (uint32_t i = 0; i < got->n; i++) {
        uint32_t len;
        const char *bytes = tokenizer_bytes(t, got->ids[i], &len);
        if (len > n - at || memcmp(s + at, bytes, len) != 0) abort();
        at += len;
    }
    if (at != n) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tokenizer *t;
    if (!t) {
        t = byte_tokenizer();
        fill_together(t);
    }
    if (size > 4096) return 0;
    struct tokens ids = {0};
    tokenizer_encode(t, (const char *)data, size, &ids);
    check_bytes(t, (const char *)data, size, &ids);
    check_plain((const char *)data, size, &ids);
    ids.n = 0;
    tokenizer_encode_special(t, (const char *)data, size, &ids);
    check_bytes(t, (const char *)data, size, &ids);
    tokens_free(&ids);
    return 0;
}
