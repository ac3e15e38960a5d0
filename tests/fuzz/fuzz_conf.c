/* fuzz_conf.c - any bytes as a configuration file: refused with a line, or printed so that they
 * read back as the same. */
#include "conf/daemon.h"
#include "conf/reader.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum err read_text(struct conf *c, const char *text, size_t len, struct error *e)
{
    uint32_t lines[CONF_MAX_OPTIONS] = {0};
    memset(c, 0, sizeof *c);
    option_defaults(conf_table(), c);
    return reader_text(conf_table(), c, "f", text, len, lines, e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct conf c, back;
    struct error e = {0};
    if (read_text(&c, (const char *)data, size, &e)) {
        if (strncmp(e.text, "f:", 2) != 0) abort();
        return 0;
    }
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    if (!f) return 0;
    conf_print(&c, f);
    fclose(f);
    enum err rc = read_text(&back, text, n, &e);
    /* "a=b" is printed as "a = b", which may pass the longest line */
    bool too_long = rc == ERR_RANGE && strstr(e.text, ": the line has ");
    if (!too_long && (rc || memcmp(&c, &back, sizeof c) != 0)) abort();
    free(text);
    return 0;
}
