/* tap.h - a Check suite as a TAP program. */
#ifndef TESTS_UNIT_TAP_H
#define TESTS_UNIT_TAP_H

#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline int tap_run(Suite *s)
{
    SRunner *sr = srunner_create(s);
    srunner_set_tap(sr, "-");
    srunner_run_all(sr, CK_SILENT);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* Whether a generated file is there; else says that the program is skipped. To be asked first. */
static inline bool tap_has(const char *path)
{
    if (access(path, R_OK) == 0) return true;
    printf("1..0 # SKIP %s is missing: python3 with numpy makes it\n", path);
    return false;
}

#endif
