/* test_conf.c - the reader's complaints, precedence, the files that are shipped, generated texts.
 */
#include "conf/daemon.h"
#include "conf/machine.h"
#include "conf/reader.h"
#include "conf/shape.h"

#include "tests/unit/tap.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *source_dir(void)
{
    return getenv("srcdir") ? getenv("srcdir") : ".";
}

/* Reads a text into a configuration with its defaults. */
static enum err read_text(struct conf *c, const char *text, size_t len, struct error *e)
{
    uint32_t lines[CONF_MAX_OPTIONS] = {0};
    memset(c, 0, sizeof *c);
    option_defaults(conf_table(), c);
    return reader_text(conf_table(), c, "x.conf", text, len, lines, e);
}

START_TEST(forms_of_a_file_that_are_read)
{
    static const char text[] = "\xEF\xBB\xBF# comment\r\n"
                               "[server]  ; comment\r\n"
                               "\r\n"
                               "  port=81\r\n"
                               "\tlog_level : debug ; comment\r\n"
                               "served_model_name =\n"
                               "[machine] # comment\n"
                               "plan = 18x8:tp=8,dp=1\n"
                               "[server]\n"
                               "drain_timeout = 1 min";
    struct conf c;
    struct error e = {0};
    ck_assert_msg(!read_text(&c, text, sizeof text - 1, &e), "%s", e.text);
    ck_assert_uint_eq(c.server.port, 81);
    ck_assert_int_eq(c.server.log_level, CONF_LOG_DEBUG);
    ck_assert_str_eq(c.machine.plan, "18x8:tp=8,dp=1");
    ck_assert_uint_eq(c.server.drain_timeout_ns, 60000000000);
    ck_assert_int_eq(read_text(&c, "", 0, NULL), ERR_OK);
}
END_TEST

START_TEST(complaints_name_file_and_line)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"port = 1\n", "x.conf:1: there is no option \"port\" in section []"},
        {"[server]\nprot = 1\n", "x.conf:2: there is no option \"prot\" in section [server]"},
        {"[server]\n\n[sever]\n", "x.conf:3: there is no section [sever]"},
        {"[server\nport = 1\n", "x.conf:1: a section needs its \"]\""},
        {"[server] port = 1\n", "x.conf:1: after a section's \"]\" the line must end"},
        {"[server]\nport\n", "x.conf:2: neither \"[section]\" nor \"name = value\""},
        {"[server]\nport = 80\n port = 81\n", "x.conf:3: server.port was set in line 2 already"},
        {"[server]\nport = 80\n[model]\n[server]\nport = 80\n",
         "x.conf:5: server.port was set in line 2 already"},
        {"[server]\nport = 65536\n", "x.conf:2: server.port = \"65536\": must be 0 to 65535"},
        {"[server]\nport = 80 # no comment\n", "x.conf:2: server.port = \"80 # no comment\""},
        {"[server]\ndrain_timeout = 30\n", "x.conf:2: server.drain_timeout = \"30\": must be 0 to"},
        {"[server]\nlisten = localhost\n", "must be an IPv4 or IPv6 address"},
        {"[harmony]\ndate = 2026-02-29\n", "x.conf:2: harmony.date = \"2026-02-29\": must be auto"},
        {"[harmony]\ndate = 2026-13-01\n", "must be auto, none or a date"},
        {"[harmony]\ndate = 26-1-1\n", "must be auto, none or a date"},
        {"[scheduler]\nblock_tokens = 24\n", "must be a power of two"},
        {"[model]\npath =\n", "must be a name or a path, not empty"},
        {"\n= 5\n", "x.conf:2: there is no option \"\""},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct conf c;
        struct error e = {0};
        ck_assert_msg(read_text(&c, cases[i].text, strlen(cases[i].text), &e), "%s was read",
                      cases[i].text);
        ck_assert_msg(strstr(e.text, cases[i].want), "want \"%s\", got \"%s\"", cases[i].want,
                      e.text);
    }
}
END_TEST

START_TEST(nothing_is_cut)
{
    struct conf c;
    struct error e = {0};
    char text[5000] = "[model]\npath = ";
    size_t start = strlen(text);
    /* every length is read whole or refused with its line */
    bool refused = false;
    for (size_t n = 1; n < 1200; n += 7) {
        memset(text + start, 'p', n);
        text[start + n] = '\n';
        e = (struct error){0};
        if (read_text(&c, text, start + n + 1, &e)) {
            ck_assert_msg(strstr(e.text, "x.conf:2: "), "%s", e.text);
            refused = true;
        } else {
            ck_assert_uint_eq(strlen(c.model.path), n);
        }
    }
    ck_assert(refused);
    e = (struct error){0};
    ck_assert_int_ne(read_text(&c, "[server]\nport = 8\0000\n", 21, &e), ERR_OK);
    ck_assert_str_eq(e.text, "x.conf:2: a NUL byte");
    /* inih would cut names of 50 characters and more to 49 */
    const char *longest =
        "[server]\nporttttttttttttttttttttttttttttttttttttttttttttttttttttttt = 8";
    ck_assert_int_ne(read_text(&c, longest, strlen(longest), NULL), ERR_OK);
}
END_TEST

/* ---- loading */

struct given {
    const char *argv[9];
    const char *envp[9];
};

static enum err load(struct conf *c, const struct given *g, struct conf_switch *switches,
                     uint32_t n_switches, struct error *e)
{
    struct conf_inputs in = {.argv = (char *const *)g->argv,
                             .envp = (char *const *)g->envp,
                             .default_file = "/nonexistent/trnd.conf",
                             .switches = switches,
                             .n_switches = n_switches};
    while (in.argc < 8 && g->argv[in.argc])
        in.argc++;
    return conf_load(c, &in, e);
}

/* A file in the working directory with this text; the caller removes it. */
static void write_file(const char *name, const char *text)
{
    FILE *f = fopen(name, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    ck_assert_int_eq(fclose(f), 0);
}

#define FILE_NAME "test_conf.tmp.conf"

START_TEST(flags_win_over_environment_over_file_over_defaults)
{
    write_file(FILE_NAME, "[server]\nport = 1\nmax_connections = 1\nmax_body = 1 MiB\n");
    struct given g = {
        {"--port", "3", "--config", FILE_NAME},
        {"TRND_SERVER_PORT=2", "TRND_SERVER_MAX_CONNECTIONS=2", "HOME=/", "TRND_DATA=/x"}};
    struct conf c;
    struct error e = {0};
    enum err rc = load(&c, &g, NULL, 0, &e);
    remove(FILE_NAME);
    ck_assert_msg(!rc, "%s", e.text);
    ck_assert_uint_eq(c.server.port, 3);
    ck_assert_uint_eq(c.server.max_connections, 2);
    ck_assert_uint_eq(c.server.max_body_bytes, 1 << 20);
    ck_assert_uint_eq(c.scheduler.block_tokens, 16);
    char where[CONF_PATH_BYTES];
    conf_where(&c, "server.port", where);
    ck_assert_str_eq(where, "--server.port");
    conf_where(&c, "server.max_connections", where);
    ck_assert_str_eq(where, "TRND_SERVER_MAX_CONNECTIONS");
    conf_where(&c, "server.max_body", where);
    ck_assert_str_eq(where, FILE_NAME ":4");
    conf_where(&c, "scheduler.block_tokens", where);
    ck_assert_str_eq(where, "default");
}
END_TEST

START_TEST(every_form_of_a_flag)
{
    struct conf c;
    struct error e = {0};
    struct given g = {{"--server.port=5", "--server.served-model-name", "m", "--no-prefix-cache",
                       "--log_level=warn", "--server.access_log=off"},
                      {NULL}};
    ck_assert_msg(!load(&c, &g, NULL, 0, &e), "%s", e.text);
    ck_assert_uint_eq(c.server.port, 5);
    ck_assert_str_eq(c.server.served_model_name, "m");
    ck_assert(!c.scheduler.prefix_cache && !c.server.access_log);
    ck_assert_int_eq(c.server.log_level, CONF_LOG_WARN);

    struct conf_switch switches[] = {{.name = "help"}, {.name = "out", .value_name = "FILE"}};
    struct given h = {{"--help", "--out", "a", "--prefix-cache", "--port=6", "--port", "7"},
                      {NULL}};
    ck_assert_msg(!load(&c, &h, switches, 2, &e), "%s", e.text);
    ck_assert(switches[0].given && switches[1].given);
    ck_assert_str_eq(switches[1].value, "a");
    ck_assert_uint_eq(c.server.port, 7); /* the last one counts */
}
END_TEST

START_TEST(wrong_flags_and_variables_say_where)
{
    static const struct {
        struct given given;
        const char *want;
    } cases[] = {
        {{{"--prot=5"}, {NULL}}, "there is no flag --prot"},
        {{{"serve"}, {NULL}}, "unexpected argument \"serve\""},
        {{{"-p"}, {NULL}}, "unexpected argument \"-p\""},
        {{{"--"}, {NULL}}, "there is no flag --"},
        {{{"--=3"}, {NULL}}, "there is no flag --=3"},
        {{{"--port"}, {NULL}}, "--port needs a value"},
        {{{"--port", "x"}, {NULL}}, "--port: server.port = \"x\": must be 0 to 65535"},
        {{{"--no-port"}, {NULL}}, "there is no flag --no-port"},
        {{{"--no-prefix-cache=true"}, {NULL}}, "there is no flag --no-prefix-cache"},
        {{{"--config"}, {NULL}}, "--config needs a value"},
        {{{"--config=/nonexistent/x"}, {NULL}}, "/nonexistent/x: No such file"},
        {{{"--config=."}, {NULL}}, ".: "},
        {{{NULL}, {"TRND_CONFIG=/nonexistent/y"}}, "/nonexistent/y: No such file"},
        {{{NULL}, {"TRND_SERVER_PORT=x"}}, "TRND_SERVER_PORT: server.port = \"x\""},
        {{{NULL}, {"TRND_SERVER_PROT=1"}}, "environment: there is no option for TRND_SERVER_PROT"},
        {{{"--scheduler.chunk_tokens=600"}, {NULL}},
         "--scheduler.chunk_tokens: scheduler.chunk_tokens = 600: must be at most step_tokens, "
         "512"},
        {{{NULL}, {"TRND_SCHEDULER_STEP_TOKENS=100"}},
         "TRND_SCHEDULER_STEP_TOKENS: scheduler.chunk_tokens = 512: must be at most"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct conf c;
        struct error e = {0};
        ck_assert_msg(load(&c, &cases[i].given, NULL, 0, &e), "case %u was taken", i);
        ck_assert_msg(strstr(e.text, cases[i].want), "want \"%s\", got \"%s\"", cases[i].want,
                      e.text);
    }
}
END_TEST

static char *printed(const struct conf *c)
{
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    conf_print(c, f);
    fclose(f);
    return text;
}

START_TEST(a_printed_configuration_reads_back)
{
    struct given g = {{"--port=0", "--model=/models/my model", "--plan=1x144", "--isa=portable",
                       "--harmony.date=2024-02-29", "--scheduler.kv_host=1.5 GiB",
                       "--server.keepalive=1500 ms", "--served-model-name=a;b"},
                      {NULL}};
    struct conf c, back;
    struct error e = {0};
    ck_assert_msg(!load(&c, &g, NULL, 0, &e), "%s", e.text);
    char *text = printed(&c);
    ck_assert_msg(!read_text(&back, text, strlen(text), &e), "%s", e.text);
    ck_assert_ptr_nonnull(strstr(text, "# --server.keepalive\nkeepalive = 1500 ms\n"));
    memset(c.origin, 0, sizeof c.origin);
    ck_assert_mem_eq(&c, &back, sizeof c);
    free(text);
}
END_TEST

/* ---- shipped files */

START_TEST(every_machine_and_model_loads)
{
    static const char *const machines[] = {"trn3-ultraserver", "trn2-ultraserver", "h100-vllm",
                                           "h200-vllm",        "b200-vllm",        "b200-trtllm"};
    static const char *const models[] = {"gpt-oss-120b", "gpt-oss-20b", "nano"};
    char data[1024];
    snprintf(data, sizeof data, "%s/conf", source_dir());
    setenv("TRND_DATA", data, 1);
    for (unsigned i = 0; i < sizeof machines / sizeof *machines; i++) {
        struct machine_spec m;
        struct error e = {0};
        ck_assert_msg(!machine_load(&m, machines[i], &e), "%s", e.text);
        ck_assert_str_eq(m.name, machines[i]);
    }
    for (unsigned i = 0; i < sizeof models / sizeof *models; i++) {
        struct model_shape s;
        struct error e = {0};
        ck_assert_msg(!shape_load(&s, models[i], &e), "%s", e.text);
        ck_assert_str_eq(s.name, models[i]);
        ck_assert_uint_eq(shape_full_layers(&s), s.layers / 2);
        ck_assert(s.sliding[0] && !s.sliding[1]);
    }
}
END_TEST

START_TEST(figures_are_those_of_the_specification)
{
    struct machine_spec m;
    struct model_shape s;
    char path[1024];
    snprintf(path, sizeof path, "%s/conf/machines/trn3-ultraserver.conf", source_dir());
    ck_assert_int_eq(machine_load_file(&m, path, NULL), ERR_OK);
    ck_assert_uint_eq(m.chips, 144);
    ck_assert_double_eq_tol(m.chips * m.mx_flops, 362.4e15, 0.1e15); /* AWS: 362.4 PFLOPS */
    ck_assert_double_eq_tol(m.chips * m.bf16_flops, 96.6e15, 0.1e15);
    ck_assert_uint_eq(m.chips * (m.hbm_bytes >> 30), 20736);
    ck_assert_uint_eq(m.link[LINK_CROSS].alpha_ns, 12000);
    snprintf(path, sizeof path, "%s/conf/machines/trn2-ultraserver.conf", source_dir());
    ck_assert_int_eq(machine_load_file(&m, path, NULL), ERR_OK);
    ck_assert(!m.mx_native);
    ck_assert_double_eq(m.mx_flops, m.bf16_flops);
    ck_assert_double_eq(m.mx_efficiency, m.bf16_efficiency);
    snprintf(path, sizeof path, "%s/conf/models/gpt-oss-120b.conf", source_dir());
    ck_assert_int_eq(shape_load_file(&s, path, NULL), ERR_OK);
    ck_assert_uint_eq(shape_kv_bytes_per_token_layer(&s), 2048);
    ck_assert_float_eq(s.rms_eps, 1e-5f);
}
END_TEST

/* The shipped file with one text replaced, or the first line that begins with it dropped. */
static void change_file(const char *name, const char *from, const char *to)
{
    char path[1024], line[1024];
    snprintf(path, sizeof path, "%s/conf/%s", source_dir(), name);
    FILE *in = fopen(path, "r"), *out = fopen(FILE_NAME, "w");
    ck_assert(in && out);
    bool done = false;
    while (fgets(line, sizeof line, in)) {
        if (!done && strncmp(line, from, strlen(from)) == 0) {
            done = true;
            fputs(to, out);
        } else {
            fputs(line, out);
        }
    }
    fclose(in);
    fclose(out);
    ck_assert_msg(done, "%s has no %s", name, from);
}

START_TEST(wrong_machines_and_shapes_are_refused)
{
    static const struct {
        const char *file, *from, *to, *want;
    } cases[] = {
        {"machines/trn3-ultraserver.conf", "size", "", "section [hbm] lacks \"size\""},
        {"machines/trn3-ultraserver.conf", "chips =", "chips = 143\n", "not whole sleds of 4"},
        {"machines/trn3-ultraserver.conf", "chips =", "chips = 0\n", "must be 1 to 65536"},
        {"machines/trn3-ultraserver.conf", "pad_to", "pad_to = 100\n", "a multiple of 32"},
        {"machines/trn3-ultraserver.conf", "mx =", "", "mx_native needs mx"},
        {"machines/trn3-ultraserver.conf", "efficiency", "efficiency = 0\n", "must be above 0"},
        {"machines/trn3-ultraserver.conf", "idle", "idle = 0.6\n", "power must not fall"},
        {"machines/trn3-ultraserver.conf", "latency", "latency = 1 ms\n", "shorter latency"},
        {"models/gpt-oss-20b.conf", "hidden", "hidden = 2881\n", "must be multiples of 32"},
        {"models/gpt-oss-20b.conf", "layers", "layers = 257\n", "layers is 257, must be 1 to 256"},
        {"models/gpt-oss-20b.conf", "kv_heads", "kv_heads = 7\n", "not a multiple of kv_heads (7)"},
        {"models/gpt-oss-20b.conf", "sliding", "sliding = odds\n", "even, odd, all or none"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        change_file(cases[i].file, cases[i].from, cases[i].to);
        struct machine_spec m;
        struct model_shape s;
        struct error e = {0};
        enum err rc = cases[i].file[1] == 'a' ? machine_load_file(&m, FILE_NAME, &e)
                                              : shape_load_file(&s, FILE_NAME, &e);
        ck_assert_msg(rc, "case %u was taken", i);
        ck_assert_msg(strstr(e.text, cases[i].want), "want \"%s\", got \"%s\"", cases[i].want,
                      e.text);
        ck_assert_msg(strncmp(e.text, FILE_NAME ":", strlen(FILE_NAME) + 1) == 0, "%s", e.text);
    }
    remove(FILE_NAME);
}
END_TEST

START_TEST(data_files_are_found_in_order)
{
    char path[CONF_PATH_BYTES], data[1024];
    struct error e = {0};
    snprintf(data, sizeof data, "%s/conf", source_dir());
    setenv("TRND_DATA", data, 1);
    ck_assert_int_eq(conf_find(CONF_SHAPE, "gpt-oss-20b", path, &e), ERR_OK);
    ck_assert_msg(strstr(path, "/conf/models/gpt-oss-20b.conf"), "%s", path);
    write_file(FILE_NAME, "");
    ck_assert_int_eq(conf_find(CONF_SHAPE, FILE_NAME, path, &e), ERR_OK);
    ck_assert_str_eq(path, FILE_NAME);
    remove(FILE_NAME);
    /* a folder is a model, but no machine */
    ck_assert_int_eq(conf_find(CONF_WEIGHTS, data, path, &e), ERR_OK);
    ck_assert_int_eq(conf_find(CONF_MACHINE, data, path, &e), ERR_NOTFOUND);
    ck_assert_msg(strstr(e.text, "not a file of this kind"), "%s", e.text);
    e = (struct error){0};
    ck_assert_int_eq(conf_find(CONF_MACHINE, "trn9", path, &e), ERR_NOTFOUND);
    ck_assert_msg(strstr(e.text, "there is no machine \"trn9\"") && strstr(e.text, data), "%s",
                  e.text);
    e = (struct error){0};
    ck_assert_int_eq(conf_find(CONF_WEIGHTS, "/nonexistent/m", path, &e), ERR_NOTFOUND);
    ck_assert_msg(strstr(e.text, "/nonexistent/m: No such file"), "%s", e.text);
    ck_assert_int_eq(conf_find(CONF_MACHINE, "", path, NULL), ERR_INVAL);
    unsetenv("TRND_DATA");
}
END_TEST

/* ---- generated texts */

static void check_generated(const char *name, void (*print)(FILE *))
{
    char path[1024], *want = NULL, *got = NULL;
    size_t want_len, got_len;
    FILE *f = open_memstream(&want, &want_len);
    print(f);
    fclose(f);
    snprintf(path, sizeof path, "%s/conf/%s", source_dir(), name);
    FILE *in = fopen(path, "r");
    ck_assert_msg(in, "%s cannot be read", path);
    got = calloc(1, want_len + 2);
    got_len = fread(got, 1, want_len + 1, in);
    fclose(in);
    ck_assert_msg(got_len == want_len && memcmp(got, want, got_len) == 0,
                  "%s is not what the table says: run make update-docs", name);
    free(got);
    free(want);
}

START_TEST(shipped_texts_equal_the_table)
{
    check_generated("trnd.conf", conf_print_template);
    check_generated("options.man", conf_print_man);
}
END_TEST

START_TEST(the_template_uncommented_is_the_defaults)
{
    char *text = NULL, *out = NULL;
    size_t n, m;
    FILE *f = open_memstream(&text, &n);
    conf_print_template(f);
    fclose(f);
    f = open_memstream(&out, &m);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        fprintf(f, "%s\n", line[0] == '#' && line[1] != ' ' ? line + 1 : line);
    fclose(f);
    struct conf c, defaults;
    struct error e = {0};
    ck_assert_msg(!read_text(&c, out, m, &e), "%s", e.text);
    ck_assert_int_eq(read_text(&defaults, "", 0, NULL), ERR_OK);
    ck_assert_mem_eq(&c, &defaults, sizeof c);
    uint32_t set = 0;
    for (char *s = out; (s = strstr(s, " =")); s++)
        set++;
    ck_assert_uint_ge(set, conf_table()->n);
    free(text);
    free(out);
}
END_TEST

START_TEST(help_names_every_option)
{
    char *text = NULL;
    size_t n;
    struct conf_switch switches[] = {{.name = "check-config", .help = "Check, then exit."}};
    FILE *f = open_memstream(&text, &n);
    conf_print_help(switches, 1, f);
    fclose(f);
    ck_assert_ptr_nonnull(strstr(text, "  --check-config\n        Check, then exit.\n"));
    for (uint32_t i = 0; i < conf_table()->n; i++) {
        const struct option *o = &conf_table()->rows[i];
        char flag[128];
        snprintf(flag, sizeof flag, "--%s.%s=", o->section, o->name);
        ck_assert_msg(strstr(text, flag), "no %s", flag);
    }
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        ck_assert_msg(strlen(line) <= 100, "too long: %s", line);
    free(text);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("conf");
    TCase *t = tcase_create("conf");
    tcase_add_test(t, forms_of_a_file_that_are_read);
    tcase_add_test(t, complaints_name_file_and_line);
    tcase_add_test(t, nothing_is_cut);
    tcase_add_test(t, flags_win_over_environment_over_file_over_defaults);
    tcase_add_test(t, every_form_of_a_flag);
    tcase_add_test(t, wrong_flags_and_variables_say_where);
    tcase_add_test(t, a_printed_configuration_reads_back);
    tcase_add_test(t, every_machine_and_model_loads);
    tcase_add_test(t, figures_are_those_of_the_specification);
    tcase_add_test(t, wrong_machines_and_shapes_are_refused);
    tcase_add_test(t, data_files_are_found_in_order);
    tcase_add_test(t, shipped_texts_equal_the_table);
    tcase_add_test(t, the_template_uncommented_is_the_defaults);
    tcase_add_test(t, help_names_every_option);
    suite_add_tcase(s, t);
    return tap_run(s);
}
