/* reader.h - reads an INI file into a struct through an option table. Nothing is skipped, cut or
 * guessed: what the table does not know ends the reading with "FILE:LINE: why". */
#ifndef CONF_READER_H
#define CONF_READER_H

#include "conf/option.h"

/* Sets the fields that the text names. `lines` has one entry a row: it gets the line of each option
 * that the text sets, others are left as they are; an option set before (its line is not 0) is a
 * duplicate. ERR_PARSE, ERR_RANGE and what option_set says. */
enum err reader_text(const struct option_table *t, void *base, const char *name, const char *text,
                     size_t len, uint32_t lines[], struct error *e);

/* The same from a file of at most 1 MiB; ERR_IO names it. */
enum err reader_file(const struct option_table *t, void *base, const char *path, uint32_t lines[],
                     struct error *e);

/* Defaults, then the file; ERR_INVAL names an option without a default that the file leaves out. */
enum err reader_whole_file(const struct option_table *t, void *base, const char *path,
                           struct error *e);

#endif
