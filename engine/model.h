/* model.h - opens a model as the public ships it: a Hugging Face folder (sharded safetensors,
 * config.json, tokenizer.json) or a GGUF file of architecture gpt-oss (split files: name the
 * first). The files are mapped, not copied; only one-dimensional tensors that are not F32 already
 * are converted. Everything truncated, overlapping, wrongly shaped or foreign is refused with a
 * message that names the tensor and the reason. */
#ifndef ENGINE_MODEL_H
#define ENGINE_MODEL_H

#include "base/err.h"
#include "conf/shape.h"
#include "device/weights.h"
#include "engine/tokenizer.h"

#include <stdio.h>

struct model;

struct model *model_open(const char *path, struct error *e); /* NULL and *e on failure */
void model_free(struct model *m);

const struct model_shape *model_shape(const struct model *m);
const struct model_weights *model_weights(const struct model *m);
uint64_t model_bytes(const struct model *m); /* tensor data in the files */

/* The model's own tokenizer (tokenizer.json of the folder, or the GGUF's). Caller frees. */
struct tokenizer *model_tokenizer(const struct model *m, struct error *e);

/* Shape, tensors (name, type, shape, bytes), totals: for `trnd inspect`. */
void model_print(const struct model *m, FILE *out);

#endif
