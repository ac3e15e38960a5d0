/* telemetry.h - what each emulated chip did: counters that only grow, plus HBM in use. Owned by the
 * engine's thread; snapshots are copies. All times are of the emulated machine. */
#ifndef DEVICE_TELEMETRY_H
#define DEVICE_TELEMETRY_H

#include "device/cost.h"

enum chip_state { CHIP_IDLE, CHIP_BUSY, CHIP_UNUSED }; /* unused: the plan leaves it out */

struct chip_counters {
    uint64_t tokens;        /* output tokens counted on this chip: a replica's go round its chips */
    uint64_t prompt_tokens; /* likewise, computed prompt tokens */
    double busy_ns, busy_prefill_ns; /* the second is part of the first */
    double busy_by[BOUNDS];          /* busy_ns by what bound it */
    double flops, hbm_read_bytes;
    double link_bytes[LINK_LEVELS];
    uint64_t hbm_weight_bytes, hbm_kv_bytes; /* in use now */
    enum chip_state state;
};

struct telemetry;

/* NULL when there is no memory. The plan is complete. */
struct telemetry *telemetry_new(const struct machine_spec *m, const struct plan *p,
                                const struct model_shape *timed);
void telemetry_free(struct telemetry *t);

/* Replica r ran one step: every chip of it is charged the step's cost; the tokens that the step
 * made go round the replica's chips one by one, so that sums over chips are exact. */
void telemetry_step(struct telemetry *t, uint32_t r, const struct cost *c, uint32_t prompt_tokens,
                    uint32_t new_tokens, double prefill_share);
void telemetry_kv(struct telemetry *t, uint32_t r, uint64_t kv_bytes_per_chip);
void telemetry_state(struct telemetry *t, uint32_t r, enum chip_state s);

uint32_t telemetry_chips(const struct telemetry *t);
const struct chip_counters *telemetry_chip(const struct telemetry *t, uint32_t chip);

#endif
