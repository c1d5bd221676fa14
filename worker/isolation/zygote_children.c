/* Children from their births to the last word about them.
 *
 * A child leads a process group. When it has ended, the group is killed while the dead leader is still unreaped, so
 * that its number cannot belong to anybody else; then the leader is reaped. Others of the group become the zygote's
 * children as their parents die (it is a subreaper) and are reaped like them, and so does what left its group: a stray
 * (zygote_strays.c). The end is told when the group is empty and no stray is left. */
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "worker/isolation/zygote.h"

enum { CAPACITY_FIRST = 64 };

static const int64_t LINGER_NS = 10 * NS_PER_S;
static const int64_t STRAYS_NS = NS_PER_S / 5;

struct zygote_child *zygote_child_add(struct zygote_process *zygote, uint64_t number)
{
    if (zygote->count == zygote->capacity) {
        zygote->capacity = zygote->capacity == 0 ? CAPACITY_FIRST : zygote->capacity * 2;
        zygote->children = memory_resize(zygote->children, zygote->capacity, sizeof *zygote->children);
    }
    struct zygote_child *child = &zygote->children[zygote->count++];
    *child = (struct zygote_child){.number = number};
    return child;
}

struct zygote_child *zygote_child_find(struct zygote_process *zygote, uint64_t number)
{
    for (unsigned i = 0; i < zygote->count; i++)
        if (zygote->children[i].number == number && zygote->children[i].state == BIRTH_ALIVE)
            return &zygote->children[i];
    return NULL;
}

void zygote_children_kill_all(struct zygote_process *zygote)
{
    for (unsigned i = 0; i < zygote->count; i++)
        if (zygote->children[i].state == BIRTH_ALIVE)
            kill(-zygote->children[i].pid, SIGKILL);
}

/* --- reaping ---------------------------------------------------------------------------------------------------- */

struct zygote_child *zygote_child_of_pid(struct zygote_process *zygote, pid_t pid)
{
    for (unsigned i = 0; i < zygote->count; i++)
        if (zygote->children[i].pid == pid && zygote->children[i].state == BIRTH_ALIVE)
            return &zygote->children[i];
    return NULL;
}

static int64_t time_ns(struct timeval time)
{
    return time.tv_sec * NS_PER_S + time.tv_usec * NS_PER_US;
}

static void end_record(struct zygote_child *child, int wait_status, const struct rusage *usage)
{
    child->end.wait_status = wait_status;
    child->end.memory_peak = usage->ru_maxrss * INT64_C(1024);
    child->end.cpu_ns = time_ns(usage->ru_utime) + time_ns(usage->ru_stime);
    if (!WIFSIGNALED(wait_status) || WTERMSIG(wait_status) != SIGKILL)
        child->end.killed_run = child->end.killed_berth = 0; /* it was faster */
}

static void dead_reap(struct zygote_process *zygote, pid_t pid)
{
    struct zygote_child *child = zygote_child_of_pid(zygote, pid);
    if (child != NULL)
        kill(-pid, SIGKILL);
    int status = 0;
    struct rusage usage;
    while (wait4(pid, &status, 0, &usage) < 0)
        if (errno != EINTR)
            return;
    if (child == NULL)
        return;
    end_record(child, status, &usage);
    child->state = BIRTH_LINGERS;
    child->lingers_until = instant_after(instant_now(), LINGER_NS);
    zygote->alive--;
    zygote->lingering++;
}

/* A number that still names a group cannot be given to another process. Who has been reaped by now has left all its
 * children to the zygote, so the strays are looked for after that. */
static void lingering_look(struct zygote_process *zygote)
{
    if (zygote->lingering > 0)
        zygote_strays_kill(zygote);
    for (unsigned i = 0; i < zygote->count && zygote->lingering > 0; i++) {
        struct zygote_child *child = &zygote->children[i];
        if (child->state != BIRTH_LINGERS)
            continue;
        bool has_left = child->has_strays || kill(-child->pid, 0) == 0;
        if (has_left && !instant_reached(instant_now(), child->lingers_until))
            continue;
        child->state = BIRTH_ENDED;
        zygote->lingering--;
        zygote->has_news = true;
    }
}

bool zygote_dead_reap(struct zygote_process *zygote)
{
    for (;;) {
        siginfo_t info = {0};
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 && errno != EINTR)
            return false;
        if (info.si_pid == 0)
            return true;
        dead_reap(zygote, info.si_pid);
    }
}

void zygote_children_reap(struct zygote_process *zygote)
{
    bool has_others = zygote_dead_reap(zygote);
    if (has_others && zygote->alive == 0)
        (void)zygote_strays_end(zygote, STRAYS_NS);
    lingering_look(zygote);
}

/* --- reports ---------------------------------------------------------------------------------------------------- */

/* A worker that is gone takes everything. */
static bool report_send(struct zygote_process *zygote, const struct zygote_report *report)
{
    ssize_t sent = send(ZYGOTE_SOCKET, report, sizeof *report, MSG_DONTWAIT | MSG_NOSIGNAL);
    zygote->is_blocked = sent < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM || errno == EINTR);
    return !zygote->is_blocked;
}

static bool birth_report(struct zygote_process *zygote, struct zygote_child *child)
{
    struct zygote_report report = {
        .kind = REPORT_SPAWNED, .number = child->number, .pid = child->pid, .failure = child->failure};
    child->is_announced = child->is_announced || report_send(zygote, &report);
    return child->is_announced;
}

static bool end_report(struct zygote_process *zygote, const struct zygote_child *child)
{
    struct zygote_report report = {
        .kind = REPORT_EXITED, .number = child->number, .pid = child->pid, .end = child->end};
    return report_send(zygote, &report);
}

void zygote_children_tell(struct zygote_process *zygote)
{
    zygote->is_blocked = false;
    if (!zygote->has_news)
        return;
    for (unsigned i = 0; i < zygote->count;) {
        struct zygote_child *child = &zygote->children[i];
        if (!birth_report(zygote, child) || (child->state == BIRTH_ENDED && !end_report(zygote, child)))
            return;
        if (child->state == BIRTH_ENDED || child->state == BIRTH_FAILED)
            *child = zygote->children[--zygote->count];
        else
            i++;
    }
    zygote->has_news = false;
}
