/* A configuration that the program writes by itself is read like any other: so there are no rules of its own for what
 * may be in it. It is in memory only. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/config/config.h"

struct config *config_read_written(const struct buffer *text, struct findings *findings)
{
    char path[64];
    struct config *config = NULL;
    int fd = memfd_create("configuration", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fd >= 0 && fchmod(fd, 0600) == 0 && write(fd, text->bytes, text->length) == (ssize_t)text->length)
        config = config_read(path, findings);
    else
        findings_error(findings, "the configuration of this run cannot be kept: %s", strerror(errno));
    if (fd >= 0)
        close(fd);
    return config;
}
