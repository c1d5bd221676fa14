#include "tests/support/private_directory.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

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

void private_file_copy(const char *from, const char *to)
{
    char bytes[4096];
    FILE *in = fopen(from, "re"), *out = fopen(to, "we");
    bool is_whole = in != NULL && out != NULL;
    for (size_t length; is_whole && (length = fread(bytes, 1, sizeof bytes, in)) > 0;)
        is_whole = fwrite(bytes, 1, length, out) == length;
    if (!is_whole || fclose(out) != 0 || chmod(to, 0644) != 0) {
        perror(is_whole ? to : from);
        abort();
    }
    fclose(in);
}
