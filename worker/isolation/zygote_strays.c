/* Descendants that left their process group (setsid, a daemon), found by a mark that each child is born with.
 *
 * The mark is the soft limit RLIMIT_LOCKS, which Linux has not looked at since 2.4.25. It is inherited by fork and kept
 * by execve, an empty environment or a new session change nothing about it, the zygote may read it of every process of
 * the same user, and to set it takes no privilege. Who sets it anew (`ulimit -x`) is a stray without a mark, as all are
 * where the hard limit is too low for it: such a one is killed when no child is alive, at the latest at the end.
 *
 * An orphan becomes a child of the zygote before its parent can be reaped. So of what is left of a run there is always
 * somebody among the zygote's own children until nothing is left; each that dies leaves its children to the zygote. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "worker/isolation/zygote.h"

enum { STRAY_POLL_MS = 5, LIST_BYTES_MAX = 64 * 1024, NUMBER_BITS = 40 };

/* With the zygote's own number, because a run may have workers of its own. A process's number has 22 bits at most. */
uint64_t zygote_mark(uint64_t number)
{
    return (uint64_t)getpid() << NUMBER_BITS | (number & ((UINT64_C(1) << NUMBER_BITS) - 1));
}

/* Of the zygote's own children, those that are dead included, as text; "" when the kernel does not tell. */
static const char *children_list(void)
{
    static char text[LIST_BYTES_MAX];
    size_t length = 0;
    snprintf(text, sizeof text, "/proc/self/task/%d/children", (int)getpid());
    int file = open(text, O_RDONLY | O_CLOEXEC);
    for (ssize_t more = 1; file >= 0 && more > 0; length += more > 0 ? (size_t)more : 0)
        more = read(file, text + length, sizeof text - 1 - length);
    if (file >= 0)
        close(file);
    text[length] = '\0';
    return text;
}

/* 0 = the list is over. A number that was cut off has no space behind it; the rest is read the next time. */
static pid_t children_next(const char **list)
{
    char *end;
    long pid = strtol(*list, &end, 10);
    *list = end;
    return pid > 0 && *end == ' ' ? (pid_t)pid : 0;
}

static struct zygote_child *lingering_of(struct zygote_process *zygote, pid_t stray)
{
    struct rlimit limit;
    if (prlimit(stray, RLIMIT_LOCKS, NULL, &limit) != 0)
        return NULL;
    for (unsigned i = 0; i < zygote->count; i++)
        if (zygote->children[i].state == BIRTH_LINGERS && zygote_mark(zygote->children[i].number) == limit.rlim_cur)
            return &zygote->children[i];
    return NULL;
}

void zygote_strays_kill(struct zygote_process *zygote)
{
    for (unsigned i = 0; i < zygote->count; i++)
        zygote->children[i].has_strays = false;
    const char *list = children_list();
    for (pid_t pid; (pid = children_next(&list)) > 0;) {
        struct zygote_child *child = zygote_child_of_pid(zygote, pid) == NULL ? lingering_of(zygote, pid) : NULL;
        if (child == NULL)
            continue;
        child->has_strays = true;
        kill(pid, SIGKILL);
    }
}

/* Each that dies leaves its own children to the zygote, so there may be as many rounds as there are levels. */
bool zygote_strays_end(struct zygote_process *zygote, int64_t limit_ns)
{
    struct instant limit = instant_after(instant_now(), limit_ns);
    while (zygote_dead_reap(zygote)) {
        if (instant_reached(instant_now(), limit))
            return false;
        const char *list = children_list();
        for (pid_t pid; (pid = children_next(&list)) > 0;)
            kill(pid, SIGKILL);
        struct pollfd signals = {.fd = ZYGOTE_SIGNALS, .events = POLLIN};
        if (poll(&signals, 1, STRAY_POLL_MS) > 0) {
            char told[512];
            (void)!read(ZYGOTE_SIGNALS, told, sizeof told);
        }
    }
    return true;
}
