/* mapfile.h - a file as bytes in memory, mapped, read only. A file that someone shortens while it
 * is mapped makes later reads fail with SIGBUS: model files must be replaced (rename), not
 * rewritten. */
#ifndef ENGINE_MAPFILE_H
#define ENGINE_MAPFILE_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct mapfile {
    const uint8_t *data;
    size_t size; /* above 0 */
};

/* ERR_IO or ERR_INVAL (not a regular file, empty) with the path in the message. */
enum err mapfile_open(const char *path, struct mapfile *out, struct error *e);
void mapfile_close(struct mapfile *m); /* {0} is fine */

#endif
