/* What is started between these two lives by the clock whose offset is in the file at `path`
 * (worker/dry_run/preload/stepped_clock.c).
 *
 * The loader takes blanks and colons in LD_PRELOAD for the end of a path, and the sources may lie below any; tests run
 * in their root, so the path from there is named. */
#ifndef SUPPORT_STEPPED_CLOCK_H
#define SUPPORT_STEPPED_CLOCK_H

#include <stdio.h>

#include "tests/support/test.h"

static inline void stepped_clock_enter(const char *path)
{
    char library[4200], here[4096] = "";
    const char *build = test_build();
    if (getcwd(here, sizeof here) == NULL)
        abort();
    size_t length = strlen(here);
    if (strncmp(build, here, length) == 0 && build[length] == '/')
        build += length + 1;
    snprintf(library, sizeof library, "%s/preload/stepped_clock.so", build);
    if (access(library, R_OK) != 0)
        abort();
    setenv("HOLDFAST_STEPPED_CLOCK", path, 1);
    setenv("LD_PRELOAD", library, 1);
}

static inline void stepped_clock_leave(void)
{
    unsetenv("LD_PRELOAD");
    unsetenv("HOLDFAST_STEPPED_CLOCK");
}

#endif
