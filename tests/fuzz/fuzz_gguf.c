/* fuzz_gguf.c - any bytes as a GGUF file: first the container alone, from an exact copy in memory,
 * then the whole way through model_open() and the tokenizer, from a file. The saved inputs are
 * models of one layer, made by scripts/make-model --vocab 16 ... and cut or changed by hand. */
#include "config.h" /* memfd_create() is GNU */

#include "base/log.h"
#include "engine/model.h"
#include "engine/vocab_gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void container(const uint8_t *data, size_t size)
{
    struct gguf g;
    struct tensors t = {0};
    struct vocab v;
    if (gguf_read(data, size, "fuzz", &g, &t, NULL)) {
        tensors_free(&t);
        return;
    }
    if (!tensors_seal(&t, NULL))
        for (uint32_t i = 0; i < t.n; i++)
            for (uint64_t k = 0; k < t.items[i].bytes; k++)
                (void)((const volatile uint8_t *)t.items[i].data)[k];
    if (!vocab_from_gguf(&g, 1000, &v, NULL)) vocab_free(&v);
    gguf_free(&g);
    tensors_free(&t);
}

static void model(const uint8_t *data, size_t size)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0) return; /* no such kernel: the container was tested */
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (write(fd, data, size) == (ssize_t)size) {
        struct error e = {0};
        struct model *m = model_open(path, &e);
        if (m)
            tokenizer_free(model_tokenizer(m, NULL));
        else if (!e.code || !e.text[0])
            abort(); /* a refusal says why */
        model_free(m);
    }
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    log_set_level(LOG_ERROR);
    container(data, size);
    model(data, size);
    return 0;
}
