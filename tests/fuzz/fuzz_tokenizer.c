/* fuzz_tokenizer.c - the encoder on any bytes: no crash, the bytes come back, and the ids are those
 * of the plainest way to merge. */
#include "engine/presplit.h"
#include "engine/tokenizer.h"

#include "tests/byte_vocab.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t word_of(const struct tokenizer *t, uint32_t left, uint32_t right)
{
    uint32_t a, b, len;
    const char *x = tokenizer_bytes(t, left, &a), *y = tokenizer_bytes(t, right, &b);
    for (uint32_t id = 256; id < 256 + BYTE_VOCAB_WORDS; id++) {
        const char *w = tokenizer_bytes(t, id, &len);
        if (len == a + b && memcmp(w, x, a) == 0 && memcmp(w + a, y, b) == 0) return id;
    }
    return UINT32_MAX;
}

/* Merges ids[0..n) in place, the definition word for word. */
static uint32_t merge(const struct tokenizer *t, uint32_t *ids, uint32_t n)
{
    for (;;) {
        uint32_t best = UINT32_MAX, at = 0;
        for (uint32_t i = 0; i + 1 < n; i++) {
            uint32_t id = word_of(t, ids[i], ids[i + 1]);
            if (id >= best) continue;
            best = id;
            at = i;
        }
        if (best == UINT32_MAX) return n;
        ids[at] = best;
        memmove(ids + at + 1, ids + at + 2, (n - at - 2) * sizeof *ids);
        n--;
    }
}

static void check_plain(const struct tokenizer *t, const char *s, size_t n,
                        const struct tokens *got)
{
    uint32_t ids[512], k = 0;
    for (size_t at = 0, end; at < n; at = end) {
        end = presplit_next(s, n, at);
        if (end <= at || end > n) abort();
        if (end - at > 512) return;
        for (size_t i = at; i < end; i++)
            ids[i - at] = (unsigned char)s[i];
        uint32_t m = merge(t, ids, (uint32_t)(end - at));
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
    if (!t) t = byte_tokenizer();
    if (size > 4096) return 0;
    struct tokens ids = {0};
    tokenizer_encode(t, (const char *)data, size, &ids);
    check_bytes(t, (const char *)data, size, &ids);
    check_plain(t, (const char *)data, size, &ids);
    ids.n = 0;
    tokenizer_encode_special(t, (const char *)data, size, &ids);
    check_bytes(t, (const char *)data, size, &ids);
    tokens_free(&ids);
    return 0;
}
