/* What a handler can change for its whole process without meaning to: the directory, the umask, the blocked signals,
 * the locale, an alarm. Noted when the plugin has been opened, and put back after each run.
 *
 * What else a run leaves behind stays until the process is replaced: threads, open files, signal handlers, memory,
 * environment. Main thread of a runner process. */
#ifndef WORKER_RUNNER_SURROUNDINGS_H
#define WORKER_RUNNER_SURROUNDINGS_H

#include <limits.h>
#include <signal.h>
#include <sys/types.h>

struct runner_surroundings {
    char directory[PATH_MAX];
    mode_t mask;
    sigset_t blocked;
    char *locale;
};

void surroundings_note(struct runner_surroundings *noted);
void surroundings_restore(const struct runner_surroundings *noted);

#endif
