/* reader.c - INI text to struct. inih gets its lines from here, one by one and checked, because it
 * would cut long ones, join indented ones to the line before, and ignore what follows a "]". */
#include "conf/reader.h"
#include "base/buf.h"

#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <string.h>

#define FILE_LIMIT_BYTES (1u << 20)
#define MAX_ROWS         128

struct reading {
    const struct option_table *table;
    void *base;
    uint32_t *lines;
    const char *name;
    const char *next, *end;
    uint32_t line;
    struct error *e;
    enum err rc;
};

static void fail(struct reading *r, enum err code, const char *why)
{
    r->rc = err_set(r->e, code, "%s:%u: %s", r->name, r->line, why);
}

static const char *after_blanks(const char *s, const char *end)
{
    while (s < end && (*s == ' ' || *s == '\t'))
        s++;
    return s;
}

/* A line that begins with "[": the section must be in the table and nothing may follow it. */
static void check_section(struct reading *r, const char *s, const char *end)
{
    const char *close = memchr(s, ']', (size_t)(end - s));
    char text[160], name[80];
    if (!close) {
        fail(r, ERR_PARSE, "a section needs its \"]\"");
        return;
    }
    snprintf(name, sizeof name, "%.*s", (int)(close - s - 1), s + 1);
    if ((size_t)(close - s - 1) >= sizeof name || !option_section(r->table, name)) {
        snprintf(text, sizeof text, "there is no section [%s]", name);
        fail(r, ERR_PARSE, text);
        return;
    }
    const char *rest = after_blanks(close + 1, end);
    if (rest < end && *rest != ';' && *rest != '#' && *rest != '\r')
        fail(r, ERR_PARSE, "after a section's \"]\" the line must end");
}

/* Gives inih the next line, as fgets() would; NULL ends the reading. */
static char *next_line(char *out, int room, void *arg)
{
    struct reading *r = arg;
    if (r->rc || r->next >= r->end) return NULL;
    r->line++;
    const char *newline = memchr(r->next, '\n', (size_t)(r->end - r->next));
    const char *end = newline ? newline : r->end;
    if (r->line == 1 && end - r->next >= 3 && memcmp(r->next, "\xEF\xBB\xBF", 3) == 0)
        r->next += 3; /* a byte order mark */
    const char *s = after_blanks(r->next, end);
    r->next = newline ? newline + 1 : r->end;
    size_t len = (size_t)(end - s);
    if (len + 2 > (size_t)room) {
        char text[120];
        snprintf(text, sizeof text,
                 "the line has %zu bytes, at most %d are read: use a flag or the environment", len,
                 room - 2);
        fail(r, ERR_RANGE, text);
    } else if (memchr(s, '\0', len)) {
        fail(r, ERR_PARSE, "a NUL byte");
    } else if (len && *s == '[') {
        check_section(r, s, end);
    }
    if (r->rc) return NULL;
    memcpy(out, s, len);
    out[len] = '\n';
    out[len + 1] = '\0';
    return out;
}

/* Called for each "name = value". */
static int take(void *arg, const char *section, const char *name, const char *value)
{
    struct reading *r = arg;
    char text[256];
    if (r->rc) return 1;
    const struct option *o = option_find(r->table, section, name);
    if (!o) {
        snprintf(text, sizeof text, "there is no option \"%.80s\" in section [%.60s]", name,
                 section);
        fail(r, ERR_PARSE, text);
        return 1;
    }
    size_t row = (size_t)(o - r->table->rows);
    if (r->lines[row]) {
        snprintf(text, sizeof text, "%s.%s was set in line %u already", section, name,
                 r->lines[row]);
        fail(r, ERR_PARSE, text);
        return 1;
    }
    struct error why = {0};
    enum err rc = option_set(o, r->base, value, &why);
    if (rc)
        fail(r, rc, why.text);
    else
        r->lines[row] = r->line;
    return 1;
}

enum err reader_text(const struct option_table *t, void *base, const char *name, const char *text,
                     size_t len, uint32_t lines[], struct error *e)
{
    struct reading r = {.table = t,
                        .base = base,
                        .lines = lines,
                        .name = name,
                        .next = text,
                        .end = text + len,
                        .e = e};
    int bad_line = ini_parse_stream(next_line, &r, take, &r);
    if (r.rc || !bad_line) return r.rc;
    if (bad_line < 0) return err_set(e, ERR_NOMEM, "%s: out of memory", name);
    r.line = (uint32_t)bad_line;
    fail(&r, ERR_PARSE, "neither \"[section]\" nor \"name = value\"");
    return r.rc;
}

static enum err read_all(const char *path, struct buf *out, struct error *e)
{
    FILE *f = fopen(path, "rb");
    if (!f) return err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
    char part[4096];
    size_t n;
    enum err rc = ERR_OK;
    while ((n = fread(part, 1, sizeof part, f)) > 0 && !out->failed)
        buf_add(out, part, n);
    if (ferror(f)) rc = err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
    if (out->failed) rc = err_set(e, ERR_RANGE, "%s: longer than %u bytes", path, FILE_LIMIT_BYTES);
    fclose(f);
    return rc;
}

enum err reader_file(const struct option_table *t, void *base, const char *path, uint32_t lines[],
                     struct error *e)
{
    struct buf text = {.limit = FILE_LIMIT_BYTES};
    enum err rc = read_all(path, &text, e);
    if (!rc) rc = reader_text(t, base, path, text.data ? text.data : "", text.len, lines, e);
    buf_free(&text);
    return rc;
}

enum err reader_whole_file(const struct option_table *t, void *base, const char *path,
                           struct error *e)
{
    uint32_t lines[MAX_ROWS] = {0};
    if (t->n > MAX_ROWS) return err_set(e, ERR_RANGE, "%u options, at most %u", t->n, MAX_ROWS);
    option_defaults(t, base);
    enum err rc = reader_file(t, base, path, lines, e);
    for (uint32_t i = 0; i < t->n && !rc; i++)
        if (!t->rows[i].def && !lines[i])
            rc = err_set(e, ERR_INVAL, "%s: section [%s] lacks \"%s\"", path, t->rows[i].section,
                         t->rows[i].name);
    return rc;
}
