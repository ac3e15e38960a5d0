/* inspect.h - `trnd inspect`. */
#ifndef SERVER_INSPECT_H
#define SERVER_INSPECT_H

#include "conf/daemon.h"

#include <stdio.h>

struct inspect_request {
    bool program;                           /* print a step, too */
    const char *sequences, *rows, *context; /* of that step, as typed; NULL: the default */
};

/* Prints what the model at `path` (a folder, a GGUF file, or a shape of models/) is made of; with a
 * plan what each chip holds; with `program` a step of a replica. The process's exit code. */
int inspect_run(const struct conf *c, const char *path, const struct inspect_request *r, FILE *out);

#endif
