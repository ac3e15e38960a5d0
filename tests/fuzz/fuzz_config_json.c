/* fuzz_config_json.c - any bytes as config.json; what is accepted must be a shape that the rest of
 * the house may trust. */
#include "engine/model_config.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct model_shape s;
    struct error e = {0};
    enum err rc = model_config_read(data, size, &s, &e);
    if (rc ? !e.text[0] : shape_check(&s, NULL) != ERR_OK) abort();
    return 0;
}
