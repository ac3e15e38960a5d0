/* inspect.h - `trnd inspect`. */
#ifndef SERVER_INSPECT_H
#define SERVER_INSPECT_H

#include "conf/daemon.h"

#include <stdio.h>

/* Prints what the model at `path` (a folder, a GGUF file, or a shape of models/) is made of; with a
 * plan what each chip holds; with `program` a decode step. The process's exit code. */
int inspect_run(const struct conf *c, const char *path, bool program, FILE *out);

#endif
