/* paths.h - where data files are: machines, model shapes, the bundled model, the daemon's own
 * configuration. */
#ifndef CONF_PATHS_H
#define CONF_PATHS_H

#include "base/err.h"

#include <stdbool.h>

#define CONF_PATH_BYTES 1024

enum conf_kind {
    CONF_MACHINE, /* machines/NAME.conf */
    CONF_SHAPE,   /* models/NAME.conf */
    CONF_WEIGHTS  /* NAME: a folder or a GGUF file */
};

/* Finds, in this order: a path taken literally; NAME in the folder that $TRND_DATA names; in the
 * source tree, when the program runs from its build tree; in the installed data folder.
 * ERR_NOTFOUND names every place that was looked at. */
enum err conf_find(enum conf_kind kind, const char *name, char out[CONF_PATH_BYTES],
                   struct error *e);

/* The installed configuration file, which need not exist; "" when the program runs from its build
 * tree. */
void conf_default_file(char out[CONF_PATH_BYTES]);

#endif
