/* Killing on time. The worker rings only for what is due before `wakes_at`, so that word must be believed by both: it
 * is stored first, and then the board is looked at once more. An alarm that is set for too early is left alone; it
 * goes off for nothing, and is set anew then. */
#include <signal.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "worker/isolation/zygote.h"

static void overdue_kill(struct zygote_child *child, const struct board_verdict *verdict)
{
    /* Who cannot die now, waiting for a disk, needs no second signal. */
    if (child == NULL || child->is_killed)
        return;
    child->is_killed = true;
    child->end.killed_run = verdict->run;
    child->end.killed_berth = verdict->berth;
    kill(-child->pid, SIGKILL);
}

/* Returns when to look again. An occupant that is not known is on its way in an order, or has just ended. */
static struct instant overdue_kill_all(struct zygote_process *zygote)
{
    struct instant now = instant_now();
    for (unsigned from = 0;;) {
        struct board_verdict verdict = board_look(zygote->options.board, from, now);
        if (verdict.child == 0)
            return verdict.next;
        overdue_kill(zygote_child_find(zygote, verdict.child), &verdict);
        from = verdict.berth + 1;
    }
}

static void alarm_set(struct zygote_process *zygote, struct instant at)
{
    struct itimerspec when = {.it_value = {.tv_sec = at.ns / NS_PER_S, .tv_nsec = at.ns % NS_PER_S}};
    if (at.ns <= 0)
        when.it_value.tv_nsec = 1; /* zero would switch it off */
    timerfd_settime(ZYGOTE_ALARM, TFD_TIMER_ABSTIME, &when, NULL);
    zygote->armed = at;
}

void zygote_deadlines_keep(struct zygote_process *zygote)
{
    struct instant next = overdue_kill_all(zygote), wakes;
    do {
        wakes = instant_earlier(next, zygote->armed);
        atomic_store(&zygote->options.board->wakes_at, wakes.ns);
        next = overdue_kill_all(zygote);
    } while (instant_before(next, wakes));
    if (instant_before(wakes, zygote->armed))
        alarm_set(zygote, wakes);
}

void zygote_alarm_rang(struct zygote_process *zygote)
{
    uint64_t times;
    if (read(ZYGOTE_ALARM, &times, sizeof times) == sizeof times)
        zygote->armed = INSTANT_NEVER;
}
