/* replay.c - runs one fuzz target over its saved inputs, $srcdir/tests/fuzz/NAME.in, as a TAP
 * program. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) return -1;
    static uint8_t buf[1 << 20];
    size_t n = fread(buf, 1, sizeof buf, f);
    fclose(f);
    /* an exact-size copy, so that a read past the end is seen by the sanitizer */
    uint8_t *exact = malloc(n ? n : 1);
    if (!exact) return -1;
    memcpy(exact, buf, n);
    int rc = LLVMFuzzerTestOneInput(exact, n);
    free(exact);
    return rc;
}

int main(int argc, char **argv)
{
    (void)argc;
    const char *src = getenv("srcdir"), *name = strrchr(argv[0], '/');
    name = name ? name + 1 : argv[0];
    char dir[512], path[1024];
    snprintf(dir, sizeof dir, "%s/tests/fuzz/%s.in", src ? src : ".", name);
    DIR *d = opendir(dir);
    if (!d) return 99;
    int n = 0;
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        printf("%s %d - %s\n", run(path) == 0 ? "ok" : "not ok", ++n, e->d_name);
        fflush(stdout);
    }
    closedir(d);
    printf("1..%d\n", n);
    return 0;
}
