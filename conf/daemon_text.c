/* daemon_text.c - what the option table says to people: --print-config, --help, trnd.conf, the man
 * page. */
#include "conf/daemon.h"

#include <string.h>

/* What the option's value is called: its own word, or its type's. */
static const char *value_name(const struct option *o)
{
    static const char *const names[] = {
        [OPT_BOOL] = "BOOL",   [OPT_UINT] = "N",     [OPT_BYTES] = "BYTES", [OPT_DURATION] = "TIME",
        [OPT_REAL] = "X",      [OPT_RATE] = "RATE",  [OPT_FLOPS] = "RATE",  [OPT_WATTS] = "POWER",
        [OPT_SHARE] = "SHARE", [OPT_STRING] = "TEXT"};
    if (o->type == OPT_ENUM) return o->choices;
    return o->value ? o->value : names[o->type];
}

/* Starts a new section in the output if this row does. */
static bool new_section(const struct option_table *t, uint32_t i)
{
    return i == 0 || strcmp(t->rows[i].section, t->rows[i - 1].section) != 0;
}

void conf_print(const struct conf *c, FILE *out)
{
    const struct option_table *t = conf_table();
    for (uint32_t i = 0; i < t->n; i++) {
        const struct option *o = &t->rows[i];
        char value[OPTION_TEXT_BYTES], name[128], where[CONF_PATH_BYTES];
        snprintf(name, sizeof name, "%s.%s", o->section, o->name);
        option_text(o, c, value);
        conf_where(c, name, where);
        if (new_section(t, i)) fprintf(out, "%s[%s]\n", i ? "\n" : "", o->section);
        fprintf(out, "# %s\n%s = %s\n", where, o->name, value);
    }
}

/* Prints the words of a text in lines of at most `width` characters that begin with `lead`. */
static void wrap(FILE *out, const char *lead, const char *text, size_t width)
{
    size_t column = 0;
    for (const char *s = text; *s;) {
        size_t n = strcspn(s, " ");
        if (column && column + 1 + n > width) {
            fputc('\n', out);
            column = 0;
        }
        column += (size_t)fprintf(out, "%s%.*s", column ? " " : lead, (int)n, s);
        s += n;
        while (*s == ' ')
            s++;
    }
    fputc('\n', out);
}

/* Help, range and default in one text; strings and truth values need no rule. */
static void describe(const struct option *o, char *out, size_t size)
{
    char rule[OPTION_TEXT_BYTES];
    option_rule(o, rule);
    bool ruled = o->type != OPT_STRING && o->type != OPT_BOOL;
    snprintf(out, size, "%s%s%.400s%s", o->help, ruled ? " May be " : "", ruled ? rule : "",
             ruled ? "." : "");
}

void conf_print_help(const struct conf_switch *switches, uint32_t n, FILE *out)
{
    const struct option_table *t = conf_table();
    for (uint32_t i = 0; i < n; i++) {
        const struct conf_switch *s = &switches[i];
        fprintf(out, "  --%s%s%s\n", s->name, s->value_name ? "=" : "",
                s->value_name ? s->value_name : "");
        wrap(out, "        ", s->help, 90);
    }
    fprintf(out, "  --config=FILE\n");
    wrap(out, "        ", "Read this file; without it $TRND_CONFIG or the installed trnd.conf.",
         90);
    for (uint32_t i = 0; i < t->n; i++) {
        const struct option *o = &t->rows[i];
        char text[2 * OPTION_TEXT_BYTES], whole[2 * OPTION_TEXT_BYTES + 100];
        if (new_section(t, i)) fprintf(out, "\n[%s]\n", o->section);
        fprintf(out, "  --%s.%s=%s", o->section, o->name, value_name(o));
        if (o->flag) fprintf(out, ", --%s", o->flag);
        fputc('\n', out);
        describe(o, text, sizeof text);
        snprintf(whole, sizeof whole, "%s Default: %s.", text, *o->def ? o->def : "empty");
        wrap(out, "        ", whole, 90);
    }
}

void conf_print_template(FILE *out)
{
    const struct option_table *t = conf_table();
    fputs("# trnd.conf - configuration of trnd(8). Each option is shown with its default.\n"
          "# Flags (--server.port=8000) and the environment (TRND_SERVER_PORT=8000) win over this "
          "file.\n"
          "# Check it with: trnd --check-config --config FILE\n",
          out);
    for (uint32_t i = 0; i < t->n; i++) {
        const struct option *o = &t->rows[i];
        char text[2 * OPTION_TEXT_BYTES];
        if (new_section(t, i)) fprintf(out, "\n[%s]\n", o->section);
        describe(o, text, sizeof text);
        wrap(out, "# ", text, 96);
        fprintf(out, "#%s =%s%s\n", o->name, *o->def ? " " : "", o->def);
    }
}

/* A text of the man page: a dash is a minus there, a leading point or quote no request. */
static void troff(FILE *out, const char *s)
{
    if (*s == '.' || *s == '\'') fputs("\\&", out);
    for (; *s; s++) {
        if (*s == '-')
            fputs("\\-", out);
        else if (*s == '\\')
            fputs("\\e", out);
        else
            fputc(*s, out);
    }
}

void conf_print_man(FILE *out)
{
    const struct option_table *t = conf_table();
    for (uint32_t i = 0; i < t->n; i++) {
        const struct option *o = &t->rows[i];
        char text[2 * OPTION_TEXT_BYTES];
        if (new_section(t, i)) fprintf(out, ".SS [%s]\n", o->section);
        fputs(".TP\n.B ", out);
        troff(out, o->name);
        fputs(" = ", out);
        troff(out, *o->def ? o->def : "(empty)");
        fputc('\n', out);
        describe(o, text, sizeof text);
        troff(out, text);
        fputc('\n', out);
        if (!o->flag) continue;
        fputs("Also\n.BR \\-\\-", out);
        troff(out, o->flag);
        fputs(" .\n", out);
    }
}
