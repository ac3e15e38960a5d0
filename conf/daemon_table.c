/* daemon_table.c - every option of the daemon, one row each. */
#include "conf/daemon.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#define KIB   1024.0
#define MIB   (1024 * KIB)
#define GIB   (1024 * MIB)
#define SEC   1e9
#define AT(f) OPT_FIELD(struct conf, f)

static const char *check_address(const void *field)
{
    unsigned char parsed[16];
    const char *text = field;
    bool good = inet_pton(AF_INET, text, parsed) == 1 || inet_pton(AF_INET6, text, parsed) == 1;
    return good ? NULL : "an IPv4 or IPv6 address, such as 127.0.0.1, 0.0.0.0 or ::1";
}

static const char *check_power_of_two(const void *field)
{
    uint32_t v = *(const uint32_t *)field;
    return v & (v - 1) ? "a power of two" : NULL;
}

static const char *check_not_empty(const void *field)
{
    return *(const char *)field ? NULL : "a name or a path, not empty";
}

/* Days of a month; 0 for a month that there is not. */
static int days(int year, int month)
{
    static const int n[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (month < 1 || month > 12) return 0;
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return n[month - 1] + (month == 2 && leap);
}

static const char *check_date(const void *field)
{
    static const char *const rule = "auto, none or a date YYYY-MM-DD";
    const char *s = field;
    if (strcmp(s, "auto") == 0 || strcmp(s, "none") == 0) return NULL;
    if (strlen(s) != 10) return rule;
    for (int i = 0; i < 10; i++)
        if (i == 4 || i == 7 ? s[i] != '-' : s[i] < '0' || s[i] > '9') return rule;
    int day = atoi(s + 8);
    return day >= 1 && day <= days(atoi(s), atoi(s + 5)) ? NULL : rule;
}

static const struct option rows[] = {
    {"server", "listen", OPT_STRING, AT(server.listen), .def = "127.0.0.1", .flag = "listen",
     .value = "ADDRESS", .check = check_address,
     .help = "Address to listen on. Anything but a loopback address lets others in: there is no "
             "authentication."},
    {"server", "port", OPT_UINT, AT(server.port), 0, 65535, .def = "8000", .flag = "port",
     .help = "TCP port; 0 takes any free one and logs which."},
    {"server", "max_body", OPT_BYTES, AT(server.max_body_bytes), KIB, GIB, .def = "16 MiB",
     .help = "Longest request body; longer ones are answered 413."},
    {"server", "max_connections", OPT_UINT, AT(server.max_connections), 1, 1000000, .def = "4096",
     .help = "Most open connections. Each takes a file descriptor."},
    {"server", "drain_timeout", OPT_DURATION, AT(server.drain_timeout_ns), 0, 86400 * SEC,
     .def = "30 s",
     .help = "At a stop, how long requests that run may go on. Keep it below TimeoutStopSec of the "
             "systemd unit."},
    {"server", "keepalive", OPT_DURATION, AT(server.keepalive_ns), 0, 3600 * SEC, .def = "10 s",
     .help = "A stream that is silent for so long gets a comment line, so that proxies keep it "
             "open; 0 sends none."},
    {"server", "served_model_name", OPT_STRING, AT(server.served_model_name), .def = "",
     .flag = "served-model-name", .value = "NAME",
     .help = "Name of the model in the API; empty takes the model's own."},
    {"server", "log_level", OPT_ENUM, AT(server.log_level), .choices = "error|warn|info|debug",
     .def = "info", .flag = "log-level", .help = "Least severe messages that are logged."},
    {"server", "access_log", OPT_BOOL, AT(server.access_log), .def = "true",
     .help = "Log one line a request when it ends. Texts are never logged."},

    {"model", "path", OPT_STRING, AT(model.path), .def = "nano", .flag = "model", .value = "PATH",
     .check = check_not_empty,
     .help = "The model that is computed: a Hugging Face folder, a GGUF file, or the name of a "
             "bundled model."},
    {"model", "timed", OPT_STRING, AT(model.timed), .def = "auto", .flag = "timed-model",
     .value = "NAME", .check = check_not_empty,
     .help =
         "The model shape that the emulated machine is charged for: a name in models/, a file, "
         "\"same\" for the model that is computed, or \"auto\": gpt-oss-120b for nano, the same "
         "for any other."},

    {"machine", "name", OPT_STRING, AT(machine.name), .def = "trn3-ultraserver", .flag = "machine",
     .value = "NAME", .check = check_not_empty,
     .help = "The emulated machine: a name in machines/ or a file."},
    {"machine", "plan", OPT_STRING, AT(machine.plan), .def = "72x2", .flag = "plan",
     .value = "PLAN", .check = check_not_empty,
     .help = "How the chips are used: REPLICASxCHIPS, and if wanted how a replica is split, as in "
             "18x8:tp=8,dp=1,ep=8,mtp=1."},
    {"machine", "clock", OPT_ENUM, AT(machine.clock), .choices = "host|device|virtual",
     .def = "device", .flag = "clock",
     .help = "When tokens leave: as fast as this host can, when the emulated machine would have "
             "them, or offline, jumping from event to event."},

    {"scheduler", "block_tokens", OPT_UINT, AT(scheduler.block_tokens), 1, 1024, .def = "16",
     .check = check_power_of_two, .help = "Tokens of a KV block, a power of two."},
    {"scheduler", "step_tokens", OPT_UINT, AT(scheduler.step_tokens), 1, 65536, .def = "512",
     .help = "Most tokens that one replica computes in a step."},
    {"scheduler", "chunk_tokens", OPT_UINT, AT(scheduler.chunk_tokens), 1, 65536, .def = "512",
     .help = "Most prompt tokens of one sequence in a step; at most step_tokens."},
    {"scheduler", "max_seqs", OPT_UINT, AT(scheduler.max_seqs), 1, 65536, .def = "256",
     .help = "Most sequences that run on one replica."},
    {"scheduler", "max_waiting", OPT_UINT, AT(scheduler.max_waiting), 1, 1000000, .def = "1024",
     .help = "Most requests that wait; the next one is answered 429."},
    {"scheduler", "max_context", OPT_UINT, AT(scheduler.max_context), 0, 1 << 24, .def = "0",
     .flag = "max-context", .value = "TOKENS",
     .help = "Most tokens of prompt and output together; 0 is what the model and the KV memory "
             "allow."},
    {"scheduler", "prefix_cache", OPT_BOOL, AT(scheduler.prefix_cache), .def = "true",
     .flag = "prefix-cache", .help = "Keep KV blocks of prompts for requests that begin alike."},
    {"scheduler", "kv_host", OPT_BYTES, AT(scheduler.kv_host_bytes), MIB, 1024 * GIB,
     .def = "1 GiB",
     .help = "Most memory of this host for KV blocks, all replicas together. It is taken as it is "
             "used; the prefix cache alone takes an eighth of it at most."},

    {"host", "threads", OPT_UINT, AT(host.threads), 0, 1024, .def = "0", .flag = "threads",
     .help = "Threads that compute; 0 is one a core."},
    {"host", "isa", OPT_STRING, AT(host.isa), .def = "auto", .flag = "isa", .value = "NAME",
     .check = check_not_empty,
     .help = "Kernels to compute with: auto, portable, avx2, avx512. The results are the same."},

    {"harmony", "date", OPT_STRING, AT(harmony.date), .def = "auto", .value = "DATE",
     .check = check_date,
     .help = "The current date that the system message states: auto (today, UTC), none, or a fixed "
             "YYYY-MM-DD, which keeps prompts the same from day to day."},
    {"harmony", "effort", OPT_ENUM, AT(harmony.effort), .choices = "low|medium|high",
     .def = "medium", .help = "Reasoning effort of requests that do not say one."},
};

const struct option_table *conf_table(void)
{
    static const struct option_table table = {rows, sizeof rows / sizeof *rows};
    _Static_assert(sizeof rows / sizeof *rows <= CONF_MAX_OPTIONS, "CONF_MAX_OPTIONS is too small");
    return &table;
}
