#include "tests/support/private_directory.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

/* Below /tmp when TMPDIR is too long. */
static void pattern_write(char path[PRIVATE_DIRECTORY_MAX])
{
    static const char *const form = "%s/holdfast-test-XXXXXX";
    const char *above = getenv("TMPDIR");
    if (above == NULL || snprintf(path, PRIVATE_DIRECTORY_MAX, form, above) >= PRIVATE_DIRECTORY_MAX)
        snprintf(path, PRIVATE_DIRECTORY_MAX, form, "/tmp");
}

void private_directory_create(char path[PRIVATE_DIRECTORY_MAX])
{
    pattern_write(path);
    if (mkdtemp(path) == NULL) {
        perror(path);
        abort();
    }
}

int private_file_create(char path[PRIVATE_DIRECTORY_MAX])
{
    pattern_write(path);
    int file = mkostemp(path, O_CLOEXEC);
    if (file < 0) {
        perror(path);
        abort();
    }
    return file;
}
