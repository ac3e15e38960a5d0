/* inspect.h - FRONT DOOR of `trnd inspect`: what each chip holds under a plan, and where the time
 * of a step goes. Nothing is loaded and nothing runs. */
#ifndef ENGINE_INSPECT_H
#define ENGINE_INSPECT_H

#include "base/err.h"
#include "conf/machine.h"
#include "conf/shape.h"
#include "device/plan.h"

#include <stdio.h>

struct inspect {
    const struct machine_spec *machine;
    const struct model_shape *shape;
    struct plan plan; /* complete (plan_complete) */
};

/* Machine, model and plan in one line each, then bytes by kind for each group of equal chips of a
 * replica, then the room for KV. ERR_RANGE, after the table, when the weights do not fit. */
enum err inspect_plan_print(FILE *out, const struct inspect *in, struct error *e);

/* One step of one replica: `seqs` sequences that each compute `rows` tokens after `start`. */
struct inspect_step {
    uint32_t seqs;  /* [1] 1 to 65536 */
    uint32_t rows;  /* [1] tokens of each: 1 is decoding; 1 to 2^20 */
    uint32_t start; /* [1500] tokens before them */
};

/* The step's program, equal layers once, each op with its time, its share of the step, what bounds
 * it and what it moves; then the sums. ERR_RANGE names the field. */
enum err inspect_program_print(FILE *out, const struct inspect *in, const struct inspect_step *s,
                               struct error *e);

#endif
