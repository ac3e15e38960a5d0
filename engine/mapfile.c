/* mapfile.c - mmap of whole files. */
#include "engine/mapfile.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Starts reading a file that fits in memory beside others; a larger one is left to demand, because
 * reading it ahead would push out its own first pages. */
static void read_ahead(const struct mapfile *m)
{
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page_bytes > 0 && m->size / (size_t)page_bytes < (size_t)pages / 2)
        (void)madvise((void *)(uintptr_t)m->data, m->size, MADV_WILLNEED);
}

enum err mapfile_open(const char *path, struct mapfile *out, struct error *e)
{
    *out = (struct mapfile){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not block us here */
    if (fd < 0)
        return err_set(e, errno == ENOENT ? ERR_NOTFOUND : ERR_IO, "%s: %s", path, strerror(errno));
    enum err rc = ERR_OK;
    struct stat st;
    if (fstat(fd, &st) != 0)
        rc = err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode))
        rc = err_set(e, ERR_INVAL, "%s: not a regular file", path);
    else if (st.st_size == 0)
        rc = err_set(e, ERR_INVAL, "%s: the file is empty", path);
    if (!rc) {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED)
            rc = err_set(e, ERR_IO, "%s: cannot be mapped: %s", path, strerror(errno));
        else
            *out = (struct mapfile){p, (size_t)st.st_size};
    }
    close(fd);
    if (!rc) read_ahead(out);
    return rc;
}

void mapfile_close(struct mapfile *m)
{
    if (m->data) munmap((void *)(uintptr_t)m->data, m->size);
    *m = (struct mapfile){0};
}
