/* cost.h - FRONT DOOR. Prices a program on a machine: pure, no data, no clock, no heap.
 *
 * Time of an op on a chip = max(FLOPs / rate, HBM bytes / bandwidth); of a collective = bytes /
 * link bandwidth of the level it crosses, plus that level's latency beyond what layer_fixed_ns
 * already holds. A step adds layer_fixed_ns a layer, seq_fixed_ns a sequence, step_fixed_ns once.
 * Source: hardware spec sections 6.3 and 7. */
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

/* One op, all its repeats, without the fixed costs. `first` is the replica's first machine chip. */
struct cost cost_op(const struct machine_spec *m, const struct program *p, const struct prog_op *op,
                    uint32_t first);

/* The whole step of one replica, fixed costs included. */
struct cost cost_step(const struct machine_spec *m, const struct program *p, uint32_t first);

/* Distinct experts that `rows` rows of `a` choices hit among e experts under a Zipf(s) router:
 * sum over i of 1 - (1 - p_i)^rows, p_i the chance that a row chooses expert i. Hardware spec 4.3:
 * s = 1.0, e = 128, a = 4: 13.0, 35.7, 78.7, 103 at 4, 16, 64, 128 rows. */
double cost_distinct_experts(uint32_t e, uint32_t a, double s, double rows);

/* Joules of one chip over `total_ns`, busy with prefill rows or decode rows by share. */
double cost_joules(const struct machine_spec *m, double busy_decode_ns, double busy_prefill_ns,
                   double idle_ns);

#endif
