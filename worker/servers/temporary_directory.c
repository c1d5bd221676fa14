#include "worker/servers/temporary_directory.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/memory.h"

char *temporary_directory_path(const char *run)
{
    const char *parent = getenv("TMPDIR");
    struct buffer path = {0};
    buffer_format(&path, "%s/holdfast-dry-%s", parent != NULL && parent[0] == '/' ? parent : "/tmp", run);
    char *copy = memory_text(buffer_text(&path));
    buffer_fini(&path);
    return copy;
}

bool temporary_directory_make(const char *path, struct error *error)
{
    return mkdir(path, 0700) == 0 ||
           error_set(error, "%s: no directory can be made there for the nodes of the dry run: %s", path,
                     strerror(errno));
}

static int entry_remove(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status, (void)type, (void)place;
    return remove(path);
}

bool temporary_directory_remove(const char *path)
{
    struct stat status;
    if (lstat(path, &status) != 0)
        return errno == ENOENT;
    if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid())
        return true;
    return nftw(path, entry_remove, 8, FTW_DEPTH | FTW_PHYS) == 0;
}
