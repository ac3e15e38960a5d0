/* unit.h - numbers with units as text and back: "16 MiB", "17.5 us", "4.9 TB/s", "671 TFLOPS",
 * "80 %". What is printed reads back as the same number. */
#ifndef CONF_UNIT_H
#define CONF_UNIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum unit_kind {
    UNIT_NONE,     /* a plain number */
    UNIT_BYTES,    /* B, kB to TB, KiB to TiB; whole bytes; without a unit: bytes */
    UNIT_DURATION, /* ns, us, ms, s, min, h; whole nanoseconds; the unit is needed, but for 0 */
    UNIT_RATE,     /* B/s, kB/s to PB/s */
    UNIT_FLOPS,    /* FLOPS, kFLOPS to PFLOPS */
    UNIT_WATTS,    /* W, kW */
    UNIT_SHARE     /* a plain number of 0 to 1, or % */
};

/* Space enough for every number that is printed. */
#define UNIT_TEXT_BYTES 48

/* False, and *rule says what a right text would be. Whole numbers: UNIT_NONE, UNIT_BYTES,
 * UNIT_DURATION. */
bool unit_parse_whole(enum unit_kind kind, const char *text, uint64_t *out, const char **rule);
bool unit_parse_real(enum unit_kind kind, const char *text, double *out, const char **rule);

/* 0 is printed without a unit. */
void unit_print_whole(enum unit_kind kind, uint64_t v, char out[UNIT_TEXT_BYTES]);
void unit_print_real(enum unit_kind kind, double v, char out[UNIT_TEXT_BYTES]);

#endif
