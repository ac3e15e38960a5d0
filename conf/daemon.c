/* daemon.c - loads the daemon's configuration from flags, environment and file. */
#include "conf/daemon.h"
#include "conf/reader.h"

#include <assert.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define NAME_BYTES 128

struct loading {
    struct conf *c;
    const struct conf_inputs *in;
    bool options;       /* pass 1 takes the switches, pass 2 the options */
    const char *config; /* file that a flag names */
    struct error *e;
};

static char env_case(char c)
{
    if (c == '.' || c == '-') return '_';
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

/* TRND_SECTION_NAME of a row. */
static void env_name(const struct option *o, char out[NAME_BYTES])
{
    snprintf(out, NAME_BYTES, "TRND_%s_%s", o->section, o->name);
    for (char *c = out; *c; c++)
        *c = env_case(*c);
}

/* Equal but for "-" and "_"? */
static bool same_name(const char *a, const char *b)
{
    for (; *a && *b; a++, b++)
        if (*a != *b && !((*a == '-' || *a == '_') && (*b == '-' || *b == '_'))) return false;
    return *a == *b;
}

/* The row that --NAME means. */
static const struct option *find_flag(const char *name)
{
    const struct option_table *t = conf_table();
    for (uint32_t i = 0; i < t->n; i++) {
        const struct option *o = &t->rows[i];
        char full[NAME_BYTES];
        snprintf(full, sizeof full, "%s.%s", o->section, o->name);
        if (same_name(full, name) || (o->flag && same_name(o->flag, name))) return o;
    }
    return NULL;
}

static enum err set_from(struct conf *c, const struct option *o, const char *text,
                         enum conf_source from, struct error *why)
{
    enum err rc = option_set(o, c, text, why);
    if (!rc) c->origin[o - conf_table()->rows].source = from;
    return rc;
}

static struct conf_switch *find_switch(const struct conf_inputs *in, const char *name)
{
    for (uint32_t i = 0; i < in->n_switches; i++)
        if (same_name(in->switches[i].name, name)) return &in->switches[i];
    return NULL;
}

/* One flag: its name, its value after "=" or NULL, the argument after it or NULL. Sets *used when
 * it took that argument. */
struct flag {
    char name[NAME_BYTES];
    const char *value, *next;
    bool used;
};

static enum err need_value(struct loading *l, struct flag *f)
{
    if (f->value) return ERR_OK;
    if (!f->next) return err_set(l->e, ERR_PARSE, "--%s needs a value", f->name);
    f->value = f->next;
    f->used = true;
    return ERR_OK;
}

static enum err take_switch(struct loading *l, struct conf_switch *s, struct flag *f)
{
    if (s->value_name) {
        enum err rc = need_value(l, f);
        if (rc) return rc;
    } else if (f->value) {
        return err_set(l->e, ERR_PARSE, "--%s takes no value", f->name);
    }
    s->given = true;
    s->value = f->value;
    return ERR_OK;
}

static enum err take_option(struct loading *l, const struct option *o, struct flag *f,
                            const char *bare)
{
    struct error why = {0};
    if (o->type == OPT_BOOL && !f->value) f->value = bare;
    enum err rc = need_value(l, f);
    if (rc || !l->options) return rc;
    rc = set_from(l->c, o, f->value, CONF_FROM_FLAG, &why);
    return rc ? err_set(l->e, rc, "--%s: %s", f->name, why.text) : ERR_OK;
}

static enum err take_flag(struct loading *l, struct flag *f)
{
    if (strcmp(f->name, "config") == 0) {
        enum err rc = need_value(l, f);
        l->config = f->value;
        return rc;
    }
    struct conf_switch *s = find_switch(l->in, f->name);
    if (s) return take_switch(l, s, f);
    const struct option *o = find_flag(f->name);
    if (o) return take_option(l, o, f, "true");
    if (strncmp(f->name, "no-", 3) == 0) o = find_flag(f->name + 3);
    if (o && o->type == OPT_BOOL && !f->value) return take_option(l, o, f, "false");
    return err_set(l->e, ERR_PARSE, "there is no flag --%s", f->name);
}

static enum err walk_flags(struct loading *l)
{
    for (int i = 0; i < l->in->argc; i++) {
        const char *arg = l->in->argv[i];
        struct flag f = {.next = i + 1 < l->in->argc ? l->in->argv[i + 1] : NULL};
        if (strcmp(arg, "-c") == 0) arg = "--config";
        if (strncmp(arg, "--", 2) != 0)
            return err_set(l->e, ERR_PARSE, "unexpected argument \"%.100s\"", arg);
        size_t n = strcspn(arg + 2, "=");
        if (!n || n >= sizeof f.name)
            return err_set(l->e, ERR_PARSE, "there is no flag %.100s", arg);
        memcpy(f.name, arg + 2, n);
        if (arg[2 + n] == '=') f.value = arg + 2 + n + 1;
        enum err rc = take_flag(l, &f);
        if (rc) return rc;
        i += f.used;
    }
    return ERR_OK;
}

/* "TRND_SERVER_PORT=1" sets server.port. A variable that begins like one of ours but is none is an
 * error, as an unknown name in the file is. */
static enum err take_variable(struct loading *l, const char *text)
{
    const struct option_table *t = conf_table();
    size_t n = strcspn(text, "=");
    bool ours = false;
    for (uint32_t i = 0; i < t->n; i++) {
        char name[NAME_BYTES];
        env_name(&t->rows[i], name);
        if (strlen(name) == n && strncmp(name, text, n) == 0) {
            struct error why = {0};
            enum err rc = set_from(l->c, &t->rows[i], text + n + 1, CONF_FROM_ENV, &why);
            return rc ? err_set(l->e, rc, "%s: %s", name, why.text) : ERR_OK;
        }
        size_t section = strlen("TRND_") + strlen(t->rows[i].section) + 1;
        ours |= n > section && strncmp(name, text, section) == 0;
    }
    if (!ours) return ERR_OK;
    return err_set(l->e, ERR_PARSE, "environment: there is no option for %.*s",
                   n < 100 ? (int)n : 100, text);
}

static enum err read_environment(struct loading *l)
{
    for (char *const *v = l->in->envp; v && *v; v++) {
        if (strncmp(*v, "TRND_", 5) != 0 || !strchr(*v, '=')) continue;
        enum err rc = take_variable(l, *v);
        if (rc) return rc;
    }
    return ERR_OK;
}

static const char *environment_file(const struct conf_inputs *in)
{
    for (char *const *v = in->envp; v && *v; v++)
        if (strncmp(*v, "TRND_CONFIG=", 12) == 0 && (*v)[12]) return *v + 12;
    return NULL;
}

static enum err read_file(struct loading *l)
{
    const char *path = l->config ? l->config : environment_file(l->in);
    uint32_t lines[CONF_MAX_OPTIONS] = {0};
    if (!path && l->in->default_file && access(l->in->default_file, F_OK) == 0)
        path = l->in->default_file;
    if (!path || !*path) return ERR_OK;
    if (strlen(path) >= sizeof l->c->file)
        return err_set(l->e, ERR_RANGE, "the configuration file's name is too long");
    enum err rc = reader_file(conf_table(), l->c, path, lines, l->e);
    if (rc) return rc;
    snprintf(l->c->file, sizeof l->c->file, "%s", path);
    for (uint32_t i = 0; i < conf_table()->n; i++)
        if (lines[i]) {
            l->c->origin[i].source = CONF_FROM_FILE;
            l->c->origin[i].line = lines[i];
        }
    return ERR_OK;
}

/* Rules between options. */
static enum err check_together(const struct conf *c, struct error *e)
{
    if (c->scheduler.chunk_tokens <= c->scheduler.step_tokens) return ERR_OK;
    char where[CONF_PATH_BYTES];
    conf_where(c, "scheduler.chunk_tokens", where);
    if (strcmp(where, "default") == 0) conf_where(c, "scheduler.step_tokens", where);
    return err_set(e, ERR_RANGE,
                   "%.200s: scheduler.chunk_tokens = %u: must be at most step_tokens, %u", where,
                   c->scheduler.chunk_tokens, c->scheduler.step_tokens);
}

enum err conf_load(struct conf *c, const struct conf_inputs *in, struct error *e)
{
    memset(c, 0, sizeof *c);
    option_defaults(conf_table(), c);
    struct loading l = {.c = c, .in = in, .e = e};
    enum err rc = walk_flags(&l);
    if (!rc) rc = read_file(&l);
    if (!rc) rc = read_environment(&l);
    l.options = true;
    if (!rc) rc = walk_flags(&l);
    return rc ? rc : check_together(c, e);
}

void conf_where(const struct conf *c, const char *option, char out[CONF_PATH_BYTES])
{
    const struct option *o = find_flag(option);
    assert(o && "an option that is not in the table");
    size_t row = (size_t)(o - conf_table()->rows);
    switch (c->origin[row].source) {
    case CONF_FROM_FILE:
        snprintf(out, CONF_PATH_BYTES, "%.1000s:%u", c->file, c->origin[row].line);
        return;
    case CONF_FROM_ENV:
        env_name(o, out);
        return;
    case CONF_FROM_FLAG:
        snprintf(out, CONF_PATH_BYTES, "--%s.%s", o->section, o->name);
        return;
    case CONF_FROM_DEFAULT:
        snprintf(out, CONF_PATH_BYTES, "default");
        return;
    }
}
