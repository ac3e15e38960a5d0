/* main.c - the command line. The only file that ends the process. */
#include "server/app.h"
#include "server/inspect.h"

#include "base/log.h"
#include "config.h"

#include <stdio.h>
#include <string.h>

extern char **environ;

enum {
    SW_HELP,
    SW_VERSION,
    SW_CHECK,
    SW_PRINT,
    SW_PROGRAM,
    SW_SEQUENCES,
    SW_ROWS,
    SW_CONTEXT,
    SWITCHES
};

static const char usage[] =
    "usage: trnd [serve] [options]        serve a model on an emulated machine\n"
    "       trnd inspect PATH [options]   what a model is made of, and what a plan makes of it\n\n";

static int fail(const struct error *e)
{
    fprintf(stderr, "trnd: %s\n", e->text[0] ? e->text : err_text(e->code));
    return 1;
}

static void apply_log_level(const struct conf *c)
{
    static const enum log_level levels[] = {[CONF_LOG_ERROR] = LOG_ERROR,
                                            [CONF_LOG_WARN] = LOG_WARN,
                                            [CONF_LOG_INFO] = LOG_INFO,
                                            [CONF_LOG_DEBUG] = LOG_DEBUG};
    log_set_level(levels[c->server.log_level]);
}

/* Names that the configuration gives are looked up too, so that a start cannot fail by them. */
static int check(const struct conf *c)
{
    struct error e = {0};
    if (backend_check(c, &e)) return fail(&e);
    printf("the configuration is good\n");
    return 0;
}

static const struct conf_switch all_switches[SWITCHES] = {
    [SW_HELP] = {.name = "help", .help = "Print this and exit."},
    [SW_VERSION] = {.name = "version", .help = "Print the version and exit."},
    [SW_CHECK] = {.name = "check-config", .help = "Check the configuration and exit."},
    [SW_PRINT] = {.name = "print-config",
                  .help = "Print the configuration, each value with its origin, and exit."},
    [SW_PROGRAM] = {.name = "program", .help = "inspect: print a step's ops and their price."},
    [SW_SEQUENCES] = {.name = "sequences",
                      .value_name = "N",
                      .help = "inspect: sequences of a replica in that step. Default: 1."},
    [SW_ROWS] = {.name = "rows",
                 .value_name = "N",
                 .help = "inspect: tokens that each computes; 1 is decoding. Default: 1."},
    [SW_CONTEXT] = {.name = "context",
                    .value_name = "N",
                    .help = "inspect: tokens that each has before them. Default: 1500."},
};

int main(int argc, char **argv)
{
    struct conf_switch switches[SWITCHES];
    memcpy(switches, all_switches, sizeof switches);
    const char *command = argc > 1 && argv[1][0] != '-' ? argv[1] : NULL;
    bool inspect = command && !strcmp(command, "inspect");
    if (command && !inspect && strcmp(command, "serve") != 0) {
        fprintf(stderr, "trnd: there is no command '%s'\n%s", command, usage);
        return 2;
    }
    int skip = command ? 2 : 1;
    const char *path = inspect && argc > 2 && argv[2][0] != '-' ? argv[2] : NULL;
    skip += path != NULL;
    char file[CONF_PATH_BYTES];
    conf_default_file(file);
    struct conf_inputs in = {.argc = argc - skip,
                             .argv = argv + skip,
                             .envp = environ,
                             .default_file = file,
                             .switches = switches,
                             .n_switches = SWITCHES};
    static struct conf conf; /* 10 KB, and the app borrows it until the end */
    struct error e = {0};
    if (conf_load(&conf, &in, &e)) return fail(&e);
    if (switches[SW_HELP].given) {
        fputs(usage, stdout);
        conf_print_help(switches, SWITCHES, stdout);
        return 0;
    }
    if (switches[SW_VERSION].given) {
        puts("trnd " PACKAGE_VERSION);
        return 0;
    }
    apply_log_level(&conf);
    if (switches[SW_PRINT].given) {
        conf_print(&conf, stdout);
        return 0;
    }
    if (inspect)
        return inspect_run(&conf, path,
                           &(struct inspect_request){
                               .program = switches[SW_PROGRAM].given,
                               .sequences = switches[SW_SEQUENCES].value,
                               .rows = switches[SW_ROWS].value,
                               .context = switches[SW_CONTEXT].value,
                           },
                           stdout);
    if (switches[SW_CHECK].given) return check(&conf);
    return app_run(&conf);
}
