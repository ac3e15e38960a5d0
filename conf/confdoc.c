/* confdoc.c - prints what is generated from the option table; `make update-docs` writes it into the
 * source tree, and a test compares. */
#include "conf/daemon.h"

#include <string.h>

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "template") == 0) {
        conf_print_template(stdout);
    } else if (argc == 2 && strcmp(argv[1], "man") == 0) {
        conf_print_man(stdout);
    } else {
        fputs("usage: confdoc template|man\n", stderr);
        return 2;
    }
    return fflush(stdout) ? 1 : 0;
}
