/* clock.h - two clocks, two types. Wall time is measured on this host; virtual time is what the
 * emulated machine's clock shows. Mixing them does not compile. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

struct wall { /* nanoseconds of CLOCK_MONOTONIC */
    uint64_t ns;
};

struct virt { /* nanoseconds since the emulated machine started */
    uint64_t ns;
};

#define NS_PER_S 1000000000ull

static inline struct wall wall_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (struct wall){(uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec};
}

#endif
