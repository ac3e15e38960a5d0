/* machine.c - conf/machines/NAME.conf to struct machine_spec. */
#include "conf/machine.h"
#include "conf/paths.h"
#include "conf/reader.h"

#include <string.h>

#define AT(f) OPT_FIELD(struct machine_spec, f)
#define HOUR  3600e9

static const char *check_block(const void *field)
{
    return *(const uint32_t *)field % 32 ? "a multiple of 32, the MX block" : NULL;
}

static const char *check_above_zero(const void *field)
{
    return *(const double *)field > 0 ? NULL : "above 0";
}

static const struct option rows[] = {
    {"machine", "name", OPT_STRING, AT(name)},
    {"machine", "chips", OPT_UINT, AT(chips), 1, 65536},
    {"machine", "chips_per_sled", OPT_UINT, AT(chips_per_sled), 1, 65536},
    {"machine", "sleds_per_rack", OPT_UINT, AT(sleds_per_rack), 1, 65536},

    {"hbm", "size", OPT_BYTES, AT(hbm_bytes), 1 << 20, 1e15},
    {"hbm", "bandwidth", OPT_RATE, AT(hbm_bytes_per_s), 1e6, 1e18},
    {"hbm", "efficiency", OPT_SHARE, AT(hbm_efficiency), 0, 1, .check = check_above_zero},
    {"hbm", "kv_fraction", OPT_SHARE, AT(kv_fraction), 0, 1},

    {"compute", "bf16", OPT_FLOPS, AT(bf16_flops), 1e6, 1e21},
    {"compute", "bf16_efficiency", OPT_SHARE, AT(bf16_efficiency), 0, 1, .check = check_above_zero},
    {"compute", "mx_native", OPT_BOOL, AT(mx_native)},
    {"compute", "mx", OPT_FLOPS, AT(mx_flops), 0, 1e21, .def = "0 FLOPS"},
    {"compute", "mx_efficiency", OPT_SHARE, AT(mx_efficiency), 0, 1, .def = "0"},
    {"compute", "min_rows", OPT_UINT, AT(min_rows), 1, 4096},
    {"compute", "pad_to", OPT_UINT, AT(pad_to), 0, 65536, .check = check_block},

    {"overhead", "layer", OPT_DURATION, AT(layer_fixed_ns), 0, HOUR},
    {"overhead", "step", OPT_DURATION, AT(step_fixed_ns), 0, HOUR},
    {"overhead", "sequence", OPT_DURATION, AT(seq_fixed_ns), 0, HOUR},
    {"overhead", "first_token", OPT_DURATION, AT(ttft_floor_ns), 0, HOUR},

    {"router", "zipf", OPT_REAL, AT(router_zipf_s), 0, 10},

    {"link.sled", "latency", OPT_DURATION, AT(link[LINK_SLED].alpha_ns), 0, HOUR},
    {"link.sled", "bandwidth", OPT_RATE, AT(link[LINK_SLED].bytes_per_s), 1e6, 1e18},
    {"link.rack", "latency", OPT_DURATION, AT(link[LINK_RACK].alpha_ns), 0, HOUR},
    {"link.rack", "bandwidth", OPT_RATE, AT(link[LINK_RACK].bytes_per_s), 1e6, 1e18},
    {"link.cross", "latency", OPT_DURATION, AT(link[LINK_CROSS].alpha_ns), 0, HOUR},
    {"link.cross", "bandwidth", OPT_RATE, AT(link[LINK_CROSS].bytes_per_s), 1e6, 1e18},

    {"power", "tdp", OPT_WATTS, AT(tdp_watts), 1, 1e6},
    {"power", "idle", OPT_SHARE, AT(power_idle), 0, 1},
    {"power", "decode", OPT_SHARE, AT(power_decode), 0, 1},
    {"power", "prefill", OPT_SHARE, AT(power_prefill), 0, 1},
};

static enum err check(struct machine_spec *m, const char *path, struct error *e)
{
    if (m->chips % m->chips_per_sled)
        return err_set(e, ERR_INVAL, "%s: %u chips are not whole sleds of %u", path, m->chips,
                       m->chips_per_sled);
    if (m->mx_native && (m->mx_flops <= 0 || m->mx_efficiency <= 0))
        return err_set(e, ERR_INVAL,
                       "%s: mx_native needs mx and mx_efficiency above 0 in section [compute]",
                       path);
    if (!m->mx_native) {
        m->mx_flops = m->bf16_flops;
        m->mx_efficiency = m->bf16_efficiency;
    }
    for (int i = LINK_RACK; i < LINK_LEVELS; i++)
        if (m->link[i].alpha_ns < m->link[i - 1].alpha_ns)
            return err_set(e, ERR_INVAL, "%s: a farther link has a shorter latency", path);
    if (m->power_idle > m->power_decode || m->power_decode > m->power_prefill)
        return err_set(e, ERR_INVAL, "%s: power must not fall from idle to decode to prefill",
                       path);
    return ERR_OK;
}

enum err machine_load_file(struct machine_spec *m, const char *path, struct error *e)
{
    static const struct option_table table = {rows, sizeof rows / sizeof *rows};
    memset(m, 0, sizeof *m);
    enum err rc = reader_whole_file(&table, m, path, e);
    return rc ? rc : check(m, path, e);
}

enum err machine_load(struct machine_spec *m, const char *name, struct error *e)
{
    char path[CONF_PATH_BYTES];
    enum err rc = conf_find(CONF_MACHINE, name, path, e);
    return rc ? rc : machine_load_file(m, path, e);
}

uint32_t machine_sled(const struct machine_spec *m, uint32_t chip)
{
    return chip / m->chips_per_sled;
}

uint32_t machine_rack(const struct machine_spec *m, uint32_t chip)
{
    return machine_sled(m, chip) / m->sleds_per_rack;
}
