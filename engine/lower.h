/* lower.h - model shape x plan x batch -> program. Pure. */
#ifndef ENGINE_LOWER_H
#define ENGINE_LOWER_H

#include "device/batch.h"
#include "device/program.h"

/* What a step of one replica is made of, for the busiest chip where groups differ. */
struct step_counts {
    uint32_t rows, prefill_rows, seqs, logit_rows;
    uint32_t dp_rows, dp_logit_rows;    /* of the busiest data-parallel group */
    uint64_t full_kv, slide_kv;         /* keys read: sum over rows of the busiest dp group */
    uint64_t full_kv_seq, slide_kv_seq; /* distinct keys: sum over its sequences */
};

/* Every sequence of the batch, whatever its replica: for the program that is run (host fusion). Its
 * dp groups of the same number count as one. */
#define LOWER_ALL_REPLICAS UINT32_MAX

/* Counts the sequences of `replica` in the batch. */
void lower_count(const struct batch *b, uint32_t replica, const struct plan *p, uint32_t window,
                 struct step_counts *out);

struct lower_options {
    double router_zipf_s; /* expected distinct experts when no tokens are computed */
    bool fold;            /* equal layers become one op with `repeat`: for pricing only; a
                             program that is run has every layer */
};

/* Writes the whole program (no heap). prog_check() passes on it. */
void lower_step(const struct model_shape *s, const struct plan *p, const struct step_counts *c,
                const struct lower_options *o, struct program *out);

#endif
