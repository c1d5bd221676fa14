/* Five cheap system calls a run: looking is as dear as setting, but for the directory. */
#include "worker/isolation/runner_surroundings.h"

#include <locale.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/memory.h"

void surroundings_note(struct runner_surroundings *noted)
{
    if (getcwd(noted->directory, sizeof noted->directory) == NULL)
        memcpy(noted->directory, "/", sizeof "/");
    noted->mask = umask(077);
    umask(noted->mask);
    sigprocmask(SIG_SETMASK, NULL, &noted->blocked);
    const char *locale = setlocale(LC_ALL, NULL);
    noted->locale = memory_text(locale != NULL ? locale : "C");
}

void surroundings_restore(const struct runner_surroundings *noted)
{
    char directory[PATH_MAX];
    const struct itimerval never = {.it_value = {.tv_sec = 0}};
    (void)setitimer(ITIMER_REAL, &never, NULL);
    sigprocmask(SIG_SETMASK, &noted->blocked, NULL);
    umask(noted->mask);
    if (getcwd(directory, sizeof directory) == NULL || strcmp(directory, noted->directory) != 0)
        (void)(chdir(noted->directory) == 0 || chdir("/") == 0);
    const char *locale = setlocale(LC_ALL, NULL);
    if (locale == NULL || strcmp(locale, noted->locale) != 0)
        setlocale(LC_ALL, noted->locale);
}
