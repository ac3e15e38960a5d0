/* feed.h - feeds token ids to a machine the way the engine does: in chunks, among other sequences,
 * under any plan. Shared by tests and by the programs of tests/e2e and tests/bench. */
#ifndef TESTS_UNIT_FEED_H
#define TESTS_UNIT_FEED_H

#include "device/machine.h"
#include "engine/lower.h"

struct feed_options {
    const struct model_shape *shape;
    const struct model_weights *weights;
    const char *plan;      /* plan_parse */
    const char *isa;       /* [auto] */
    uint32_t threads;      /* [0: all cores] */
    uint32_t block_tokens; /* [16] */
    uint32_t max_tokens;   /* longest sequence */
    uint32_t seqs;         /* most sequences at once [1] */
    uint32_t max_rows;     /* of a step [512] */
};

struct feed;

/* Ends the process with a message when it cannot be made: a test has nothing else to do. */
struct feed *feed_new(const struct feed_options *o);
void feed_free(struct feed *f);

/* Adds rows to the step: the next n tokens of sequence s. The last one wants logits. */
void feed_add(struct feed *f, uint32_t s, const uint32_t *ids, uint32_t n);
/* Runs what was added; the i-th addition's logits. Ends the process if the machine refuses. */
void feed_step(struct feed *f);
const float *feed_logits(const struct feed *f, uint32_t i);

/* Sequence s starts again at position 0. */
void feed_restart(struct feed *f, uint32_t s);

#endif
