/* fuzz_tokenizer_json.c - any bytes as a tokenizer.json: refused with a reason, or a tokenizer that
 * gives the bytes of a text back. */
#include "engine/tokenizer.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const struct tokenizer *t)
{
    static const char text[] = "Hello, the hello's 123 <|start|>\xC3\xA9\xFF\n\n  abc abc";
    struct tokens ids = {0};
    size_t at = 0;
    tokenizer_encode(t, text, sizeof text - 1, &ids);
    for (uint32_t i = 0; i < ids.n; i++) {
        uint32_t len;
        const char *bytes = tokenizer_bytes(t, ids.ids[i], &len);
        if (tokenizer_is_special(t, ids.ids[i]) || len > sizeof text - 1 - at ||
            memcmp(text + at, bytes, len) != 0)
            abort();
        at += len;
    }
    if (at != sizeof text - 1) abort();
    tokenizer_encode_special(t, text, sizeof text - 1, &ids);
    tokens_free(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct vocab v;
    struct error e = {0};
    enum err rc = vocab_from_json_text((const char *)data, size, 400, &v, &e);
    if ((rc != ERR_OK) != (e.text[0] != 0)) abort();
    if (rc != ERR_OK) return 0;
    struct tokenizer *t = tokenizer_new(&v, &e);
    if (!t && !e.text[0]) abort();
    if (t) use(t);
    tokenizer_free(t);
    return 0;
}
