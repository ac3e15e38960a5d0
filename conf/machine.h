/* machine.h - an emulated machine as plain data: what conf/machines/NAME.conf says. Every figure
 * has its source in that file. Rates are per chip, one direction. */
#ifndef CONF_MACHINE_H
#define CONF_MACHINE_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* The level of the fabric that a transfer must cross. */
enum link_level { LINK_SLED, LINK_RACK, LINK_CROSS, LINK_LEVELS };

struct link_spec {
    uint64_t alpha_ns;  /* of one small collective whose farthest pair is at this level */
    double bytes_per_s; /* of one chip */
};

struct machine_spec {
    char name[64];
    uint32_t chips;
    uint32_t chips_per_sled, sleds_per_rack; /* chips are numbered sled by sled, rack by rack */
    uint64_t hbm_bytes;                      /* of one chip */
    double hbm_bytes_per_s;                  /* effective cap */
    double hbm_efficiency;                   /* 0..1, of that cap */
    double bf16_flops, bf16_efficiency;
    double mx_flops, mx_efficiency; /* MXFP4 weights; equal to bf16 where mx_native is false */
    bool mx_native;                 /* false: MXFP4 is expanded to BF16 at load */
    uint32_t min_rows;              /* fewer rows cost as many */
    uint32_t pad_to;         /* hidden and intermediate are padded up to a multiple, 0 = no */
    uint64_t layer_fixed_ns; /* per layer and step, two in-sled collectives included */
    uint64_t step_fixed_ns;  /* per step on the host, not overlapped */
    uint64_t ttft_floor_ns;  /* a first token never leaves earlier than this after arrival */
    uint64_t seq_fixed_ns;   /* per sequence in a step, shared by the chips of the replica */
    double router_zipf_s;    /* skew of the experts chosen: 0 = uniform */
    double kv_fraction;      /* of the HBM that the weights leave: for KV blocks */
    struct link_spec link[LINK_LEVELS];
    double tdp_watts;
    double power_idle, power_decode, power_prefill; /* shares of tdp_watts */
};

/* Sled and rack of a chip. */
uint32_t machine_sled(const struct machine_spec *m, uint32_t chip);
uint32_t machine_rack(const struct machine_spec *m, uint32_t chip);

/* Reads a machine: a name that conf_find(CONF_MACHINE) knows, or a path. Errors name file, line and
 * rule. machine_load_file takes a path only. */
enum err machine_load(struct machine_spec *m, const char *name, struct error *e);
enum err machine_load_file(struct machine_spec *m, const char *path, struct error *e);

#endif
