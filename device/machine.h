/* machine.h - FRONT DOOR. The emulated machine's data side: holds the views of the sharded weights,
 * the KV memory of all replicas and the activation buffers, and runs programs on the host's cores.
 * One thread, the engine's, owns it. Time is cost.h's business. */
#ifndef DEVICE_MACHINE_H
#define DEVICE_MACHINE_H

#include "base/err.h"
#include "device/batch.h"
#include "device/plan.h"
#include "device/program.h"
#include "device/weights.h"

struct machine;

struct machine_options {
    const struct model_shape *shape;     /* borrowed until machine_free */
    const struct model_weights *weights; /* borrowed until machine_free */
    struct plan plan;                    /* complete (plan_complete) */
    uint32_t block_tokens;               /* tokens a KV block [16] */
    uint32_t full_blocks, slide_blocks;  /* of all replicas together; memory is touched on use */
    uint32_t max_rows;                   /* most rows of one run */
    uint32_t max_logit_rows;
    uint32_t threads; /* host threads, the caller's included; 0 = all cores */
    const char *isa;  /* "auto", "portable", "avx2", "avx512" */
};

/* NULL on failure: ERR_NOMEM, ERR_INVAL (an ISA this host lacks, a plan the shape forbids). */
struct machine *machine_new(const struct machine_options *o, struct error *e);
void machine_free(struct machine *m);
const char *machine_isa(const struct machine *m);

/* Runs the program lowered from this batch. On return the logits of sequence i (if it wants them)
 * are at machine_logits(m, i), [vocab] f32, valid until the next run. The result of a row does not
 * depend on the other rows, on the plan, or on the number of threads: same bits. */
enum err machine_run(struct machine *m, const struct program *p, const struct batch *b,
                     struct error *e);
const float *machine_logits(const struct machine *m, uint32_t seq);

#endif
