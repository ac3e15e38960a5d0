/* safetensors.h - the container of Hugging Face models: a JSON header, then the tensors' bytes.
 * Source: gpt-oss spec 3.1. Both readers work on bytes in memory, which must outlive the tensors.
 */
#ifndef ENGINE_SAFETENSORS_H
#define ENGINE_SAFETENSORS_H

#include "base/err.h"
#include "engine/tensors.h"

/* Adds the tensors of one file to *out (not sealed). `file` names it in messages. Checked: sizes,
 * ranges inside the file, known types, names that occur once. */
enum err safetensors_read(const uint8_t *data, size_t size, const char *file, struct tensors *out,
                          struct error *e);

/* model.safetensors.index.json: which tensor is in which file. */
struct safetensors_index {
    struct safetensors_entry {
        char *tensor;
        uint32_t file; /* index into files */
    } * entries;
    uint32_t n_entries;
    char **files; /* plain names inside the folder, each once */
    uint32_t n_files;
};

enum err safetensors_index_read(const uint8_t *data, size_t size, const char *file,
                                struct safetensors_index *out, struct error *e);
void safetensors_index_free(struct safetensors_index *x);

#endif
