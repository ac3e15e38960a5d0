/* cost.h - FRONT DOOR. Prices a program on a machine: pure, no data, no clock, no heap.
 *
 * Time of an op on a chip = max(FLOPs / rate, HBM bytes / bandwidth). FLOPs that take time are
 * those of the padded shapes, with at least min_rows rows for each matrix; those that are counted
 * are what the model asks for, so that counted / peak is the utilisation. HBM bytes are the
 * weights, once an op, and the KV cache: activations stay in SBUF. A collective = bytes / link
 * bandwidth of the level it crosses, plus that level's latency beyond the sled's, which
 * layer_fixed_ns already holds. A step adds layer_fixed_ns a layer, step_fixed_ns once, and
 * seq_fixed_ns for each sequence, shared by the chips of the replica. Source: hardware spec
 * sections 4.3, 6.3 and 7. */
#ifndef DEVICE_COST_H
#define DEVICE_COST_H

#include "conf/machine.h"
#include "device/program.h"

#include <stdint.h>

enum cost_bound { BOUND_COMPUTE, BOUND_HBM, BOUND_LINK, BOUND_FIXED, BOUNDS };

struct cost {          /* of one op, or summed over a step; of the busiest chip */
    double ns[BOUNDS]; /* time by what bound it */
    double total_ns;
    double flops, hbm_bytes;
    double link_bytes[LINK_LEVELS];
};

/* The level that the farthest pair of a group of `group` chips, `stride` apart, starting at machine
 * chip `first`, must cross. */
enum link_level cost_level(const struct machine_spec *m, uint32_t first, uint32_t group,
                           uint32_t stride);
const char *cost_bound_name(enum cost_bound b);

/* One op, all its repeats, without the fixed costs. `first` is the replica's first machine chip. */
struct cost cost_op(const struct machine_spec *m, const struct program *p, const struct prog_op *op,
                    uint32_t first);

/* The whole step of one replica, fixed costs included. */
struct cost cost_step(const struct machine_spec *m, const struct program *p, uint32_t first);

/* Distinct experts that `rows` rows of `a` choices hit among e experts under a Zipf(s) router: a
 * row draws experts by weight i^-s until it has `a` different ones, which gives expert i the chance
 * 1 - exp(-t i^-s), with t so that the chances add up to `a`. Hardware spec 4.3: s = 1.0, e = 128,
 * a = 4: 13.0, 35.7, 78.7, 103 at 4, 16, 64, 128 rows. Within 0.3 % of the full sum. */
double cost_distinct_experts(uint32_t e, uint32_t a, double s, double rows);

/* Joules of one chip that was busy with decode rows, busy with prefill rows, idle for so long. */
double cost_joules(const struct machine_spec *m, double busy_decode_ns, double busy_prefill_ns,
                   double idle_ns);

#endif
