/* inspect.c - `trnd inspect`. */
#include "server/inspect.h"

#include "engine/inspect.h"
#include "engine/model.h"
#include "server/backend.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool is_shape_name(const char *path)
{
    size_t n = strlen(path);
    struct stat st;
    return (n > 5 && !strcmp(path + n - 5, ".conf")) || stat(path, &st) != 0;
}

/* The shape of a file of models/, or of weights, which are printed too. */
static enum err read_shape(const char *path, struct model_shape *shape, FILE *out, struct error *e)
{
    char file[CONF_PATH_BYTES];
    if (is_shape_name(path) && conf_find(CONF_WEIGHTS, path, file, NULL))
        return shape_load(shape, path, e);
    enum err rc = conf_find(CONF_WEIGHTS, path, file, e);
    if (rc) return rc;
    if (is_shape_name(file)) return shape_load_file(shape, file, e);
    struct model *m = model_open(file, e);
    if (!m) return e->code ? e->code : ERR_NOMEM;
    *shape = *model_shape(m);
    model_print(m, out);
    model_free(m);
    return ERR_OK;
}

static bool says_plan(const struct conf *c)
{
    char plan[CONF_PATH_BYTES], machine[CONF_PATH_BYTES];
    conf_where(c, "machine.plan", plan);
    conf_where(c, "machine.name", machine);
    return strcmp(plan, "default") != 0 || strcmp(machine, "default") != 0;
}

static enum err read_count(const char *flag, const char *text, uint32_t *out, struct error *e)
{
    char *end;
    if (!text) return ERR_OK;
    unsigned long v = strtoul(text, &end, 10);
    if (end == text || *end || text[0] == '-' || v > UINT32_MAX)
        return err_set(e, ERR_INVAL, "--%s: \"%.40s\" is not a whole number", flag, text);
    *out = (uint32_t)v;
    return ERR_OK;
}

static enum err read_step(const struct inspect_request *r, struct inspect_step *step,
                          struct error *e)
{
    *step = (struct inspect_step){.seqs = 1, .rows = 1, .start = 1500};
    enum err rc = read_count("sequences", r->sequences, &step->seqs, e);
    if (!rc) rc = read_count("rows", r->rows, &step->rows, e);
    return rc ? rc : read_count("context", r->context, &step->start, e);
}

static enum err print_plan(const struct conf *c, const struct model_shape *shape,
                           const struct inspect_request *r, FILE *out, struct error *e)
{
    struct machine_spec machine;
    struct inspect in = {.machine = &machine, .shape = shape};
    struct inspect_step step;
    enum err rc = read_step(r, &step, e);
    if (!rc) rc = machine_load(&machine, c->machine.name, e);
    if (!rc) rc = plan_parse(&in.plan, c->machine.plan, e);
    if (!rc) rc = plan_complete(&in.plan, shape, &machine, e);
    if (rc) return rc;
    rc = inspect_plan_print(out, &in, e);
    if (!rc && r->program) {
        fputc('\n', out);
        rc = inspect_program_print(out, &in, &step, e);
    }
    return rc;
}

int inspect_run(const struct conf *c, const char *path, const struct inspect_request *r, FILE *out)
{
    static struct model_shape shape;
    struct error e = {0};
    if (!path) path = c->model.path;
    enum err rc = read_shape(path, &shape, out, &e);
    if (!rc && (r->program || says_plan(c) || is_shape_name(path)))
        rc = print_plan(c, &shape, r, out, &e);
    if (rc) fprintf(stderr, "trnd: %s\n", e.text[0] ? e.text : err_text(rc));
    return rc || fflush(out) ? 1 : 0;
}
