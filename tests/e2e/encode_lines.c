/* encode_lines.c - our tokenizer as a filter, for tokenizer_parity.sh.
 * encode_lines TOKENIZER.json N_IDS: reads records from stdin, one line of output each. A record is
 * a letter, a 32-bit length in the host's byte order, and that many bytes:
 *   o  text -> ids, special strings inert       s  text -> ids, special strings as special tokens
 *   h  (empty) -> ids of the conversation of golden_chat.h
 *   t  text -> "tokens nanoseconds", of this process's CPU */
#include "engine/harmony.h"
#include "tests/golden_chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void print_ids(const struct tokens *ids)
{
    for (uint32_t i = 0; i < ids->n; i++)
        printf(i ? " %u" : "%u", ids->ids[i]);
    putchar('\n');
}

static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static bool answer(const struct tokenizer *t, char mode, const char *text, size_t len)
{
    struct tokens ids = {0};
    struct error e = {0};
    int64_t start = cpu_ns();
    if (mode == 'h')
        harmony_render(t, &golden_chat, &ids, &e);
    else if (mode == 's')
        tokenizer_encode_special(t, text, len, &ids);
    else
        tokenizer_encode(t, text, len, &ids);
    int64_t took_ns = cpu_ns() - start;
    if (mode == 't')
        printf("%u %lld\n", ids.n, (long long)took_ns);
    else
        print_ids(&ids);
    bool ok = !ids.failed && e.code == ERR_OK;
    if (!ok) fprintf(stderr, "encode_lines: %s\n", e.text);
    tokens_free(&ids);
    return ok;
}

int main(int argc, char **argv)
{
    struct vocab v;
    struct error e = {0};
    int64_t start = cpu_ns();
    if (argc != 3 ||
        vocab_from_json(argv[1], (uint32_t)strtoul(argv[2], NULL, 10), &v, &e) != ERR_OK) {
        fprintf(stderr, "encode_lines: %s\n", argc == 3 ? e.text : "two arguments wanted");
        return 1;
    }
    struct tokenizer *t = tokenizer_new(&v, &e);
    if (!t) {
        fprintf(stderr, "encode_lines: %s\n", e.text);
        return 1;
    }
    fprintf(stderr, "# loaded in %lld ms\n", (long long)(cpu_ns() - start) / 1000000);
    bool ok = true;
    char mode;
    uint32_t len;
    while (ok && fread(&mode, 1, 1, stdin) == 1 && fread(&len, sizeof len, 1, stdin) == 1) {
        char *text = malloc(len ? len : 1);
        ok = text && fread(text, 1, len, stdin) == len && answer(t, mode, text, len);
        free(text);
    }
    tokenizer_free(t);
    return ok ? 0 : 1;
}
