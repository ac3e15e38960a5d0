/* fuzz_safetensors.c - any bytes as a safetensors file and as an index; every byte that a tensor
 * claims is read. */
#include "engine/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tensors t = {0};
    struct error e = {0};
    if (!safetensors_read(data, size, "fuzz", &t, &e) && !tensors_seal(&t, &e))
        for (uint32_t i = 0; i < t.n; i++)
            for (uint64_t k = 0; k < t.items[i].bytes; k++)
                (void)((const volatile uint8_t *)t.items[i].data)[k];
    tensors_free(&t);
    struct safetensors_index x;
    if (!safetensors_index_read(data, size, "fuzz", &x, NULL)) safetensors_index_free(&x);
    return 0;
}
