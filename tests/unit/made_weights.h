/* made_weights.h - weights of any shape from cheap random bytes, in memory: for benchmarks, and for
 * tests that need a model but no file. */
#ifndef TESTS_UNIT_MADE_WEIGHTS_H
#define TESTS_UNIT_MADE_WEIGHTS_H

#include "device/weights.h"

struct made_weights {
    struct model_weights w;
    struct layer_weights *layers;
    void **blocks; /* all memory, for made_weights_free */
    uint32_t n_blocks;
};

/* Matrices in the shape's types, values about 1 / sqrt(columns) in size. Aborts without memory. */
void made_weights(struct made_weights *m, const struct model_shape *s);
void made_weights_free(struct made_weights *m);

#endif
