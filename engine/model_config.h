/* model_config.h - config.json of a Hugging Face folder -> model_shape. */
#ifndef ENGINE_MODEL_CONFIG_H
#define ENGINE_MODEL_CONFIG_H

#include "conf/shape.h"

#include <stddef.h>

/* Fills all of *out but name, dense_type and expert_type (they come from the tensors; BF16 and
 * MXFP4 are assumed) and checks it. Aliases and defaults: gpt-oss spec 1.1. Errors name the key. */
enum err model_config_read(const uint8_t *json, size_t size, struct model_shape *out,
                           struct error *e);

#endif
