/* paths.c - looks for data files. The folders are fixed when the program is built (-D in room.am);
 * TRND_SOURCE_DIR counts only for a program that still lies beside config.status. */
#include "conf/paths.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool in_build_tree(void)
{
    char path[CONF_PATH_BYTES];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - sizeof "config.status");
    if (n <= 0 || (size_t)n >= sizeof path - sizeof "config.status") return false;
    path[n] = '\0';
    char *slash = strrchr(path, '/');
    if (!slash) return false;
    strcpy(slash + 1, "config.status");
    return access(path, F_OK) == 0;
}

/* The kinds that are described by a file must not be a folder of the same name: a checkpoint in the
 * working directory is often called like its shape. */
static bool fits(enum conf_kind kind, const char *path)
{
    struct stat st;
    if (stat(path, &st)) return false;
    return S_ISREG(st.st_mode) || (kind == CONF_WEIGHTS && S_ISDIR(st.st_mode));
}

static bool look_in(const char *folder, enum conf_kind kind, const char *name,
                    char out[CONF_PATH_BYTES])
{
    static const char *const before[] = {"/machines/", "/models/", "/"};
    int n = snprintf(out, CONF_PATH_BYTES, "%s%s%s%s", folder, before[kind], name,
                     kind == CONF_WEIGHTS ? "" : ".conf");
    return n < CONF_PATH_BYTES && fits(kind, out);
}

enum err conf_find(enum conf_kind kind, const char *name, char out[CONF_PATH_BYTES],
                   struct error *e)
{
    static const char *const what[] = {"machine", "model shape", "model"};
    if (strlen(name) >= CONF_PATH_BYTES || !*name)
        return err_set(e, ERR_INVAL, "%s: the name is empty or too long", what[kind]);
    snprintf(out, CONF_PATH_BYTES, "%s", name);
    if (fits(kind, out)) return ERR_OK;
    if (strchr(name, '/'))
        return err_set(e, ERR_NOTFOUND, "%s %s: %s", what[kind], name,
                       access(name, F_OK) ? strerror(errno) : "not a file of this kind");

    const char *data = getenv("TRND_DATA");
    if (data && *data && look_in(data, kind, name, out)) return ERR_OK;
    bool build = in_build_tree();
    if (build && look_in(TRND_SOURCE_DIR "/conf", kind, name, out)) return ERR_OK;
    if (look_in(TRND_DATA_DIR, kind, name, out)) return ERR_OK;
    return err_set(e, ERR_NOTFOUND, "there is no %s \"%.100s\": not a path, nor in %s%s%s%s",
                   what[kind], name, data && *data ? data : "", data && *data ? ", " : "",
                   build ? TRND_SOURCE_DIR "/conf, " : "", TRND_DATA_DIR);
}

void conf_default_file(char out[CONF_PATH_BYTES])
{
    snprintf(out, CONF_PATH_BYTES, "%s", in_build_tree() ? "" : TRND_CONF_DIR "/trnd.conf");
}
