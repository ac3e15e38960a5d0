/* model_parts.h - what an open model is made of, and how tensors become weights; for the model_*.c
 * files only. */
#ifndef ENGINE_MODEL_PARTS_H
#define ENGINE_MODEL_PARTS_H

#include "engine/gguf.h"
#include "engine/mapfile.h"
#include "engine/model.h"
#include "engine/tensors.h"

enum model_format { MODEL_HF, MODEL_GGUF };

struct model {
    enum model_format format;
    char *path; /* as given */
    struct model_shape shape;
    struct model_weights weights;
    struct layer_weights *layers;
    struct tensors tensors;
    struct mapfile *maps; /* of the files with tensors */
    uint32_t n_maps;
    float **vectors; /* converted to F32 */
    uint32_t n_vectors, cap_vectors;
    struct gguf gguf; /* of the first part; empty for MODEL_HF */
};

/* Fill everything of a zeroed model whose path is set. */
enum err model_hf_open(struct model *m, struct error *e);
enum err model_gguf_open(struct model *m, struct error *e);

/* Maps a file and keeps it with the model; *out is a borrowed copy. */
enum err model_map(struct model *m, const char *path, struct mapfile *out, struct error *e);

/* ---- binding: each takes the tensor of a name, marks it used, and checks its shape and type.
 * After the first failure (kept in rc, its text in *e) all of them do nothing and return zeros. */
struct binder {
    struct model *m;
    struct error *e;
    enum err rc;
    const char *prefix; /* put before every name, e.g. "blk.3." */
};

/* Type among the set bits of `types` (1u << TT_x). NULL after a failure. */
const struct tensor *bind_tensor(struct binder *b, const char *name, const uint64_t *dims,
                                 uint32_t n_dims, uint32_t types);

/* A vector or table of numbers as F32: in place when it lies so in the file, else converted into
 * memory of the model. */
const float *bind_vector(struct binder *b, const char *name, const uint64_t *dims, uint32_t n_dims);

/* A matrix of any dense type (F32, F16, BF16, Q8_0). */
struct weight bind_matrix(struct binder *b, const char *name, uint64_t rows, uint64_t cols);

/* A zeroed array of floats that lives as long as the model; NULL after a failure. */
float *bind_alloc(struct binder *b, size_t n);

/* What a file format calls the tensors outside the layers, and how it binds one layer. */
struct model_names {
    const char *embed, *head, *final_norm;
    const char *layer; /* before a layer's number: "blk." */
    void (*bind_layer)(struct binder *b, struct layer_weights *w);
};

/* Binds every weight of a model whose shape and tensors are read. */
enum err model_bind(struct model *m, const struct model_names *names, struct error *e);

/* The numbers of t[from], t[from + step], ... as F32. Dense types F32, F16 and BF16. */
void tensor_to_f32(const struct tensor *t, size_t from, size_t step, size_t n, float *out);

#endif
