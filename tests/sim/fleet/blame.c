/* Who is blamed for what became of a task, by the record that says so.
 *
 *   blame  the class of an error in `retry` or `dead` is one that this task, and no other, has brought about: a crash
 *          of the process that ran it, a program that did not start, a refusal of its own handler, a time limit that
 *          its class has, a lock that it had; and what is buried as poison was recovered from as many processes as
 *          that takes, and no more */
#include <string.h>

#include "tests/sim/fleet/fleet.h"

enum { POISON_DEATHS = 3 };

static bool may_have_failed(const struct fleet_task *task)
{
    return task->habit == HABIT_FAILS;
}

static bool may_be_buried(const struct fleet_task *task)
{
    return task->habit == HABIT_BURIES || task->is_unwanted; /* an operator may cancel it, too */
}

static bool may_have_crashed(const struct fleet_task *task)
{
    return task->crashes > 0;
}

static bool may_be_late(const struct fleet_task *task)
{
    return task->kind == CLASS_BRIEF;
}

/* Its program may be asked to stop while its lock is in danger, and end before its first step. */
static bool may_lose_its_lock(const struct fleet_task *task)
{
    bool has_one = fleet_locks_of(task, false) + fleet_locks_of(task, true) > 0;
    /* A process may be killed before it has begun what it was given. */
    return has_one && (task->begun + task->programs > 0 || fleet.isolation == CONFIG_ISOLATION_PROCESS);
}

static bool may_be_refused(const struct fleet_task *task)
{
    return task->resource_count > 0 && task->kind == CLASS_STRICT;
}

static bool may_be_unknown(const struct fleet_task *task)
{
    return task->kind == CLASS_NOBODY;
}

static bool may_run_once(const struct fleet_task *task)
{
    return task->kind == CLASS_ONCE; /* its claim is opened before it runs, and its worker may be stopped then */
}

/* What runs at most once is not put off when its process or program cannot be started: it had ended before. */
static bool may_not_have_started(const struct fleet_task *task)
{
    return task->refusals > 0 || may_run_once(task);
}

static bool may_be_abandoned(const struct fleet_task *task)
{
    return task->is_slow && task->begun > 0;
}

static bool may_be_poison(const struct fleet_task *task)
{
    return task->deaths >= POISON_DEATHS;
}

static const struct {
    const char *name;
    bool (*may_be)(const struct fleet_task *task);
} reasons[] = {
    {"HF::Failed", may_have_failed},      {"HF::Buried", may_be_buried},           {"HF::Crashed", may_have_crashed},
    {"HF::TimedOut", may_be_late},        {"HF::LockLost", may_lose_its_lock},     {"HF::LockRefused", may_be_refused},
    {"HF::UnknownClass", may_be_unknown}, {"HF::AtMostOnce", may_run_once},        {"HF::Abandoned", may_be_abandoned},
    {"HF::PoisonPill", may_be_poison},    {"HF::NotStarted", may_not_have_started}};

static bool lives(pid_t pid)
{
    for (unsigned i = 0; i < fleet.worker_count; i++)
        if (fleet.workers[i].process->pid == pid && fleet.workers[i].process->is_alive)
            return true;
    return false;
}

/* One process may be looked at twice. One that comes back did not die with it, and takes its count off again. */
static void recovered(struct fleet_task *task)
{
    bool is_another = task->died_with != task->claimer;
    task->deaths += is_another;
    task->sure_deaths += is_another && !lives(task->claimer);
    task->died_with = task->claimer;
    if (task->state != IN_DEAD && task->sure_deaths >= POISON_DEATHS && !task->was_forgotten)
        play_violated("blame", "%s comes back from the %u. process that died with it", task->jid, task->sure_deaths);
}

void fleet_blame_moved(struct fleet_task *task, enum fleet_state from, const char *script)
{
    if (from == IN_CLAIM && strcmp(script, "recover") == 0)
        recovered(task);
    if (task->blamed[0] == '\0')
        return;
    for (unsigned i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (strcmp(reasons[i].name, task->blamed) == 0 && reasons[i].may_be(task)) {
            play_count("blamed rightly", 1);
            return;
        }
    play_violated("blame", "%s is blamed for %s, after %u crashes and %u processes that died with it", task->jid,
                  task->blamed, task->crashes, task->deaths);
}
