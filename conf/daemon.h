/* daemon.h - FRONT DOOR. The daemon's configuration: flags win over the environment, that over the
 * file, that over the defaults. One table (conf_table) reads, prints and documents every option. */
#ifndef CONF_DAEMON_H
#define CONF_DAEMON_H

#include "conf/option.h"
#include "conf/paths.h"

#include <stdio.h>

enum conf_clock { CONF_CLOCK_HOST, CONF_CLOCK_DEVICE, CONF_CLOCK_VIRTUAL };
enum conf_effort { CONF_EFFORT_LOW, CONF_EFFORT_MEDIUM, CONF_EFFORT_HIGH };
enum conf_level { CONF_LOG_ERROR, CONF_LOG_WARN, CONF_LOG_INFO, CONF_LOG_DEBUG };

enum conf_source { CONF_FROM_DEFAULT, CONF_FROM_FILE, CONF_FROM_ENV, CONF_FROM_FLAG };

#define CONF_MAX_OPTIONS 64

/* Defaults, ranges and meanings: daemon_table.c. */
struct conf {
    struct {
        char listen[64];
        uint32_t port;
        uint64_t max_body_bytes;
        uint32_t max_connections;
        uint64_t drain_timeout_ns, keepalive_ns;
        char served_model_name[128]; /* "": the model's own */
        enum conf_level log_level;
        bool access_log;
    } server;
    struct {
        char path[CONF_PATH_BYTES]; /* for conf_find(CONF_WEIGHTS) */
        char timed[256];            /* for conf_find(CONF_SHAPE); "same", "auto" */
    } model;
    struct {
        char name[256]; /* for conf_find(CONF_MACHINE) */
        char plan[80];  /* for plan_parse() */
        enum conf_clock clock;
    } machine;
    struct {
        uint32_t block_tokens, step_tokens, chunk_tokens, max_seqs, max_waiting, max_context;
        bool prefix_cache;
        uint64_t kv_host_bytes;
    } scheduler;
    struct {
        uint32_t threads;
        char isa[16];
    } host;
    struct {
        char date[16]; /* "auto", "none" or YYYY-MM-DD */
        enum conf_effort effort;
    } harmony;

    char file[CONF_PATH_BYTES]; /* that was read; "": none */
    struct {
        enum conf_source source;
        uint32_t line;          /* of the file */
    } origin[CONF_MAX_OPTIONS]; /* of row i of conf_table() */
};

const struct option_table *conf_table(void);

/* A flag that is not an option of the table, such as --help; its owner is the caller, conf_load()
 * notes what was given. */
struct conf_switch {
    const char *name;       /* without the dashes */
    const char *value_name; /* NULL: it takes no value */
    const char *help;
    bool given;
    const char *value; /* of argv */
};

struct conf_inputs {
    int argc; /* after the program's name and the subcommand */
    char *const *argv;
    char *const *envp;
    const char *default_file; /* read if it exists and --config and $TRND_CONFIG name none */
    struct conf_switch *switches;
    uint32_t n_switches;
};

/* Knows --config FILE, -c FILE, the switches, --SECTION.NAME=VALUE and the short names, each with
 * "=VALUE" or the value as the next argument; a truth value is --NAME or --no-NAME, or has
 * "=VALUE". In names "-" and "_" are the same. Environment: TRND_SECTION_NAME. Every error says
 * where the wrong value stands. */
enum err conf_load(struct conf *c, const struct conf_inputs *in, struct error *e);

/* Where the value of "section.name" came from, for messages of whoever finds it wrong later:
 * "trnd.conf:12", "TRND_MACHINE_PLAN", "--machine.plan", "default". */
void conf_where(const struct conf *c, const char *option, char out[CONF_PATH_BYTES]);

/* The configuration as a file that reads back as the same, each value with its origin. */
void conf_print(const struct conf *c, FILE *out);

/* Texts generated from the table: the flags for --help, the installed trnd.conf, the options of the
 * man page (troff). */
void conf_print_help(const struct conf_switch *switches, uint32_t n, FILE *out);
void conf_print_template(FILE *out);
void conf_print_man(FILE *out);

#endif
