#include "worker/dry_run/stage/temporary_directory.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/memory.h"

char *temporary_directory_make(struct error *error)
{
    const char *parent = getenv("TMPDIR");
    struct buffer path = {0};
    buffer_format(&path, "%s/holdfast-dry-XXXXXX", parent != NULL && parent[0] == '/' ? parent : "/tmp");
    char *made = memory_text(buffer_text(&path));
    buffer_fini(&path);
    if (mkdtemp(made) != NULL)
        return made;
    error_set(error, "%s: no directory can be made there for the nodes of the dry run: %s", made, strerror(errno));
    free(made);
    return NULL;
}

static int entry_remove(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status, (void)type, (void)place;
    return remove(path);
}

void temporary_directory_remove(const char *path)
{
    nftw(path, entry_remove, 8, FTW_DEPTH | FTW_PHYS);
}
