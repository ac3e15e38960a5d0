/* tensors.h - what lies in a model's files: tensors by name, as both containers give them. */
#ifndef ENGINE_TENSORS_H
#define ENGINE_TENSORS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TENSOR_MAX_DIMS 8

/* X(name, elements in a block, bytes of a block). The last dimension is a multiple of the block. */
#define TENSOR_TYPES(X)                                                                            \
    X(F32, 1, 4)                                                                                   \
    X(F16, 1, 2)                                                                                   \
    X(BF16, 1, 2)                                                                                  \
    X(Q8_0, 32, 34)                                                                                \
    X(MXFP4, 32, 17)                                                                               \
    X(U8, 1, 1)                                                                                    \
    X(I8, 1, 1)                                                                                    \
    X(BOOL, 1, 1)                                                                                  \
    X(F8_E4M3, 1, 1)                                                                               \
    X(F8_E5M2, 1, 1)                                                                               \
    X(I16, 1, 2)                                                                                   \
    X(U16, 1, 2)                                                                                   \
    X(I32, 1, 4)                                                                                   \
    X(U32, 1, 4)                                                                                   \
    X(I64, 1, 8)                                                                                   \
    X(U64, 1, 8)                                                                                   \
    X(F64, 1, 8)

#define X(name, elements, bytes) TT_##name,
enum tensor_type { TENSOR_TYPES(X) TT_COUNT };
#undef X

struct tensor {
    char *name;
    enum tensor_type type;
    uint32_t n_dims;
    uint64_t dims[TENSOR_MAX_DIMS]; /* row-major: the last one is contiguous */
    const uint8_t *data;            /* in the mapped file, any alignment */
    uint64_t bytes;
    uint64_t offset; /* of data, in its file's data section */
    bool used;       /* something in the model points at it */
};

struct tensors {
    struct tensor *items; /* sorted by name after tensors_seal() */
    uint32_t n, cap;
};

void tensors_free(struct tensors *t);

/* Copies *one in, its name too (name[0..name_len)). */
enum err tensors_add(struct tensors *t, const struct tensor *one, const char *name, size_t name_len,
                     struct error *e);

/* Sorts; ERR_PARSE when a name occurs twice or the bytes of two tensors overlap. */
enum err tensors_seal(struct tensors *t, struct error *e);

/* NULL when there is none. Only after tensors_seal(). */
struct tensor *tensors_find(const struct tensors *t, const char *name);

const char *tensor_type_name(enum tensor_type t);

/* The bytes of a tensor of this shape. False when the product overflows 63 bits or the last
 * dimension is not whole blocks. */
bool tensor_bytes(enum tensor_type t, const uint64_t *dims, uint32_t n_dims, uint64_t *bytes);

/* Writes "[2, 3]" and returns out. */
const char *tensor_dims_text(const uint64_t *dims, uint32_t n_dims, char *out, size_t cap);

#endif
