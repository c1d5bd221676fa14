#include "worker/dry_run/stage/clock_library.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NAME "preload/stepped_clock.so"

bool clock_library_find(const char *given, char *path, size_t size, struct error *error)
{
    char program[4096];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    char *end = strrchr(program, '/');
    if (end != NULL)
        *end = '\0';
    for (size_t i = 0; given == NULL && i < 2; i++) {
        snprintf(path, size, i == 0 ? "%s/" NAME : "%s/../lib/holdfast/" NAME, program);
        if (access(path, R_OK) == 0)
            return true;
    }
    if (given != NULL && snprintf(path, size, "%s", given) < (int)size && access(path, R_OK) == 0)
        return true;
    if (given != NULL)
        return error_set(error, "%s: cannot be read: it steps the clock of a node", given);
    return error_set(error,
                     "the library that steps the clock of a node is missing: neither %s/" NAME
                     " nor %s/../lib/holdfast/" NAME " is there; `make install` puts it there",
                     program, program);
}
