/* unit.c - numbers with units as text and back. The process never calls setlocale(), so that
 * strtod() and printf() know only the point. */
#include "conf/unit.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct whole_unit {
    const char *name;
    uint64_t factor;
};

static const struct whole_unit byte_units[] = {
    {"B", 1},
    {"kB", 1000},
    {"KiB", 1ull << 10},
    {"MB", 1000000},
    {"MiB", 1ull << 20},
    {"GB", 1000000000},
    {"GiB", 1ull << 30},
    {"TB", 1000000000000},
    {"TiB", 1ull << 40},
    {NULL, 0},
};

static const struct whole_unit duration_units[] = {
    {"ns", 1},         {"us", 1000},         {"ms", 1000000},
    {"s", 1000000000}, {"min", 60000000000}, {"h", 3600000000000},
    {NULL, 0},
};

struct real_unit {
    const char *name;
    int exponent; /* of ten */
};

static const struct real_unit rate_units[] = {{"B/s", 0},   {"kB/s", 3},  {"MB/s", 6}, {"GB/s", 9},
                                              {"TB/s", 12}, {"PB/s", 15}, {NULL, 0}};
static const struct real_unit flops_units[] = {{"FLOPS", 0},  {"kFLOPS", 3},  {"MFLOPS", 6},
                                               {"GFLOPS", 9}, {"TFLOPS", 12}, {"PFLOPS", 15},
                                               {NULL, 0}};
static const struct real_unit watt_units[] = {{"W", 0}, {"kW", 3}, {NULL, 0}};
static const struct real_unit share_units[] = {{"%", -2}, {"", 0}, {NULL, 0}};
static const struct real_unit no_units[] = {{"", 0}, {NULL, 0}};

static const struct whole_unit *whole_units(enum unit_kind kind)
{
    return kind == UNIT_BYTES ? byte_units : kind == UNIT_DURATION ? duration_units : NULL;
}

static const struct real_unit *real_units(enum unit_kind kind)
{
    switch (kind) {
    case UNIT_RATE:
        return rate_units;
    case UNIT_FLOPS:
        return flops_units;
    case UNIT_WATTS:
        return watt_units;
    case UNIT_SHARE:
        return share_units;
    case UNIT_NONE:
    case UNIT_BYTES:
    case UNIT_DURATION:
        break;
    }
    return no_units;
}

static const char *rule_of(enum unit_kind kind)
{
    static const char *const rules[] = {
        [UNIT_NONE] = "a number",
        [UNIT_BYTES] = "a whole number of bytes, with B, kB, MB, GB, TB, KiB, MiB, GiB or TiB",
        [UNIT_DURATION] = "a whole number of nanoseconds, with ns, us, ms, s, min or h",
        [UNIT_RATE] = "a number with B/s, kB/s, MB/s, GB/s, TB/s or PB/s",
        [UNIT_FLOPS] = "a number with FLOPS, kFLOPS, MFLOPS, GFLOPS, TFLOPS or PFLOPS",
        [UNIT_WATTS] = "a number with W or kW",
        [UNIT_SHARE] = "a number of 0 to 1, or of 0 to 100 with %",
    };
    return rules[kind];
}

static const char *skip_blanks(const char *s)
{
    while (*s == ' ' || *s == '\t')
        s++;
    return s;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Adds the fraction "digits" of `factor` to *v; false unless the sum is whole and fits. */
static bool add_fraction(const char *digits, size_t n, uint64_t factor, uint64_t *v)
{
    uint64_t fraction = 0, scale = 1;
    if (n > 6) return false; /* 10^6 times the largest factor still fits 64 bits */
    for (size_t i = 0; i < n; i++, scale *= 10)
        fraction = 10 * fraction + (uint64_t)(digits[i] - '0');
    if (fraction * factor % scale) return false;
    return !__builtin_add_overflow(*v, fraction * factor / scale, v);
}

bool unit_parse_whole(enum unit_kind kind, const char *text, uint64_t *out, const char **rule)
{
    *rule = kind == UNIT_NONE ? "a whole number" : rule_of(kind);
    uint64_t v = 0;
    const char *s = text;
    if (!is_digit(*s)) return false;
    for (; is_digit(*s); s++)
        if (__builtin_mul_overflow(v, 10u, &v) ||
            __builtin_add_overflow(v, (uint64_t)(*s - '0'), &v))
            return false;
    const char *fraction = s;
    size_t n = 0;
    if (*s == '.') {
        fraction = ++s;
        while (is_digit(*s))
            s++;
        n = (size_t)(s - fraction);
        if (!n) return false;
    }
    const struct whole_unit *u = whole_units(kind);
    s = skip_blanks(s);
    uint64_t factor = 1;
    if (*s) {
        while (u && u->name && strcmp(u->name, s) != 0)
            u++;
        if (!u || !u->name) return false;
        factor = u->factor;
    } else if (kind == UNIT_DURATION && v) {
        return false;
    }
    if (__builtin_mul_overflow(v, factor, &v)) return false;
    if (!add_fraction(fraction, n, factor, &v)) return false;
    *out = v;
    return true;
}

/* The end of a decimal number, or NULL; *mantissa is where its own exponent begins. */
static const char *scan_real(const char *s, const char **mantissa)
{
    if (*s == '-') s++;
    if (!is_digit(*s)) return NULL;
    while (is_digit(*s))
        s++;
    if (*s == '.') {
        if (!is_digit(*++s)) return NULL;
        while (is_digit(*s))
            s++;
    }
    *mantissa = s;
    if (*s != 'e' && *s != 'E') return s;
    s++;
    if (*s == '-' || *s == '+') s++;
    const char *digits = s;
    while (is_digit(*s))
        s++;
    return s > digits && s - digits <= 3 ? s : NULL;
}

bool unit_parse_real(enum unit_kind kind, const char *text, double *out, const char **rule)
{
    *rule = rule_of(kind);
    const char *mantissa = NULL, *end = scan_real(text, &mantissa);
    if (!end || mantissa - text > 40) return false;
    const char *name = skip_blanks(end);
    const struct real_unit *u = real_units(kind);
    while (u->name && strcmp(u->name, name) != 0)
        u++;
    if (!u->name) return false;
    /* The unit goes into the exponent, so that the decimal text is rounded once. */
    int own = mantissa < end ? atoi(mantissa + 1) : 0;
    char number[64];
    snprintf(number, sizeof number, "%.*se%d", (int)(mantissa - text), text, own + u->exponent);
    *out = strtod(number, NULL);
    return isfinite(*out);
}

void unit_print_whole(enum unit_kind kind, uint64_t v, char out[UNIT_TEXT_BYTES])
{
    const struct whole_unit *u = whole_units(kind), *best = u;
    for (; u && u->name; u++)
        if (v && v % u->factor == 0) best = u;
    if (best && v)
        snprintf(out, UNIT_TEXT_BYTES, "%" PRIu64 " %s", v / best->factor, best->name);
    else
        snprintf(out, UNIT_TEXT_BYTES, "%" PRIu64, v);
}

/* Prints v in unit u with as few digits as read back the same; false if none do. */
static bool print_in(enum unit_kind kind, const struct real_unit *u, double v, char *out)
{
    for (int digits = 6; digits <= 17; digits++) {
        char number[32];
        snprintf(number, sizeof number, "%.*g", digits, v / pow(10, u->exponent));
        snprintf(out, UNIT_TEXT_BYTES, "%s%s%s", number, *u->name ? " " : "", u->name);
        const char *rule;
        double back;
        if (unit_parse_real(kind, out, &back, &rule) && back == v) return true;
    }
    return false;
}

void unit_print_real(enum unit_kind kind, double v, char out[UNIT_TEXT_BYTES])
{
    const struct real_unit *units = real_units(kind), *u = units;
    bool plain = kind == UNIT_SHARE; /* without a unit, which is the last */
    while (u[1].name && (plain || fabs(v) >= pow(10, u[1].exponent)))
        u++;
    for (; u > units; u--)
        if (print_in(kind, u, v, out)) return;
    print_in(kind, u, v, out); /* the base unit reads back with 17 digits */
}
