/* The keys of entries of `classes`; see config_table.c. */
#include "base/clock.h"
#include "queue/envelope.h"
#include "worker/config/config_table.h"

static const char *const lock_modes[] = {"handler", "required", "optional", "none", NULL};
static const char *const answers[] = {"handler", "yes", "no", NULL};
static const char *const fences[] = {"lock", "yes", "no", NULL};
static const char *const lost_roads[] = {"retry", "requeue", "dead", NULL};
static const char *const modes[] = {"handler", "correctness", "efficiency", "none", NULL};
static const char *const conflicts[] = {"handler", "park", "skip", "delay", "fail", NULL};
static const char *const no_quorums[] = {"closed", "open", NULL};
static const char *const isolations[] = {"handler", "thread", "process", NULL};
static const char *const crowds[] = {"dead", "drop", "delay", NULL};

_Static_assert(CONFIG_FENCE_BY_LOCK == 0 && CONFIG_FENCE_NO == 2, "fences lists enum config_fence");
_Static_assert(CONFIG_LOST_RETRY == 0 && CONFIG_LOST_DEAD == 2, "lost_roads lists enum config_on_lost");
_Static_assert(CONFIG_LOCK_BY_HANDLER == 0 && CONFIG_LOCK_NONE == 3, "lock_modes lists enum config_lock_mode");
_Static_assert(CONFIG_MODE_BY_HANDLER == 0 && CONFIG_MODE_NONE == 3, "modes lists enum config_mode");
_Static_assert(CONFIG_CONFLICT_BY_HANDLER == 0 && CONFIG_CONFLICT_FAIL == 4, "conflicts lists enum config_on_conflict");
_Static_assert(CONFIG_QUORUM_CLOSED == 0 && CONFIG_QUORUM_OPEN == 1, "no_quorums lists enum config_on_no_quorum");
_Static_assert(CONFIG_ISOLATION_BY_HANDLER == 0 && CONFIG_ISOLATION_PROCESS == 2,
               "isolations lists enum config_isolation");
_Static_assert(CONFIG_CROWD_DEAD == 0 && CONFIG_CROWD_DELAY == 2, "crowds lists enum config_on_crowd");

#define MIB         (INT64_C(1024) * 1024)
#define GIB         (1024 * MIB)
#define DAYS(count) ((count)*INT64_C(24) * 3600 * NS_PER_S)

#define FIELD(member) .offset = offsetof(struct config_class, member)
const struct config_key config_class_keys[] = {
    {.name = "class",
     .type = CONFIG_TEXT,
     FIELD(name),
     .min = 1,
     .max = 256,
     .is_required = true,
     .example = "transfer",
     .in_sample = true,
     .is_reloadable = true,
     .help = "The class of tasks that this entry is about."},
    {.name = "lock",
     .type = CONFIG_CHOICE,
     FIELD(lock),
     .fallback = "handler",
     .choices = lock_modes,
     .is_reloadable = true,
     .help = "required: a task that names no resource is buried, never run. optional: locked if it names one. none: "
             "never locked, which is how to see what a lock is good for. handler: required or optional, as the plugin "
             "says."},
    {.name = "retry",
     .type = CONFIG_TEXT,
     FIELD(retry),
     .fallback = "handler",
     .max = 7,
     .is_reloadable = true,
     .help =
         "How often a failed task is tried again, if it names no number itself: a number in quotes; no, so that "
         "the first failure is final; handler, as the plugin says, which is 25 times mostly. A task with \"retry\": "
         "true says nothing in this sense, one with false is never tried again."},
    {.name = "retry_for",
     .type = CONFIG_DURATION,
     FIELD(retry_for_ns),
     .fallback = "0s",
     .min = 0,
     .max = DAYS(3653),
     .is_reloadable = true,
     .help = "Instead of a number: for how long after its first failure. 0s: as the plugin says."},
    {.name = "retry_queue",
     .type = CONFIG_TEXT,
     FIELD(retry_queue),
     .max = 128,
     .example = "low",
     .is_reloadable = true,
     .help = "The queue in which it is tried again, if it names none itself. Default: as the plugin says, which is the "
             "queue it came from mostly."},
    {.name = "dead",
     .type = CONFIG_CHOICE,
     FIELD(dead),
     .fallback = "handler",
     .choices = answers,
     .is_reloadable = true,
     .help = "Whether a task that failed for good is put into the dead set. no: it is discarded. A task with \"dead\": "
             "false is discarded in any case."},
    {.name = "backtrace",
     .type = CONFIG_COUNT,
     FIELD(backtrace),
     .fallback = "0",
     .min = 0,
     .max = ENVELOPE_BACKTRACE_ALL,
     .is_reloadable = true,
     .help = "How many lines of the call stack are kept in the record of a failure, if the task does not say."},
    {.name = "expires_in",
     .type = CONFIG_DURATION,
     FIELD(expires_in_ns),
     .fallback = "0s",
     .min = 0,
     .max = DAYS(3653),
     .is_reloadable = true,
     .help = "A task that was not started so long after it was put into its queue ends as expired, if it does not say "
             "otherwise itself. 0s: as the plugin says, which is never mostly."},
    {.name = "at_most_once",
     .type = CONFIG_CHOICE,
     FIELD(at_most_once),
     .fallback = "handler",
     .choices = answers,
     .is_reloadable = true,
     .help = "yes: the task is finished before it runs, so that neither a failure nor a crash ever runs it twice. A "
             "failure goes to the dead set; a crash loses the task. no: it is finished after it ran, whatever the "
             "plugin says."},
    {.name = "fence",
     .type = CONFIG_CHOICE,
     FIELD(fence),
     .fallback = "lock",
     .choices = fences,
     .is_reloadable = true,
     .help = "Whether the locks of its tasks have fencing tokens. lock: as lock.fence says."},
    {.name = "max_hold",
     .type = CONFIG_DURATION,
     FIELD(max_hold_ns),
     .fallback = "0s",
     .min = 0,
     .max = DAYS(3653),
     .example = "10m",
     .is_reloadable = true,
     .help = "How long its tasks may hold their locks at most, extensions included; at least lock.ttl. 0s: as "
             "lock.max_hold says."},
    {.name = "on_lost",
     .type = CONFIG_CHOICE,
     FIELD(on_lost),
     .fallback = "retry",
     .choices = lost_roads,
     .is_reloadable = true,
     .help = "Where a task goes whose lock was lost while it ran; its result is refused in any case. retry: it is "
             "tried again after the usual delay, which uses up a retry only when it held its lock for longer than "
             "max_hold. requeue: back to the head of its queue, as if it had not run. dead: to the dead set, for a "
             "person to look at what it has done."},
    {.name = "mode",
     .type = CONFIG_CHOICE,
     FIELD(mode),
     .fallback = "handler",
     .choices = modes,
     .is_reloadable = true,
     .help = "What its locks are for: docs/contention.md. correctness: two of its tasks at one resource would do harm; "
             "needs three lock nodes and tokens, and never runs without its lock. efficiency: they would only do work "
             "twice. none: no lock, as lock = \"none\". handler: as the plugin says; if it says nothing, correctness "
             "where its locks have tokens from three lock nodes or more, else efficiency."},
    {.name = "resource",
     .type = CONFIG_WORDS,
     FIELD(resource),
     .max = 16,
     .item_max = 512,
     .may_be_one = true,
     .example = "\"account:{0}\"",
     .is_reloadable = true,
     .help = "What its tasks lock that name no resource themselves: a text, or a list of up to 16. {0} is their first "
             "argument, {1.a.b} the member b of the member a of the second; {{ is a brace. Only texts and whole "
             "numbers can stand there: a task whose arguments have something else, or nothing, is buried. Default: as "
             "the plugin says."},
    {.name = "on_conflict",
     .type = CONFIG_CHOICE,
     FIELD(on_conflict),
     .fallback = "handler",
     .choices = conflicts,
     .is_reloadable = true,
     .help =
         "What becomes of a task whose lock somebody else holds. park: it waits in line, occupies no thread, and is "
         "woken. skip: it ends as skipped, which is counted; not in mode correctness. delay: it comes again after "
         "conflict_delay, in no order. fail: as if its handler had failed. handler: as the plugin says, which is "
         "park mostly."},
    {.name = "conflict_delay",
     .type = CONFIG_DURATION,
     FIELD(conflict_delay_ns),
     .fallback = "0s",
     .min = 0,
     .max = 3600 * NS_PER_S,
     .example = "5s",
     .is_reloadable = true,
     .help = "The pause of on_conflict and on_crowd = \"delay\". 0s: as lock.park_delay says."},
    {.name = "hold_at_least",
     .type = CONFIG_DURATION,
     FIELD(hold_at_least_ns),
     .fallback = "0s",
     .min = 0,
     .max = 60 * NS_PER_S,
     .example = "10s",
     .is_reloadable = true,
     .help = "In mode efficiency only: the lock of a task that went well stays for so long, counted from when it was "
             "taken, so that the same work is not done again at once. A task that failed frees it at its end. At most "
             "the max_ttl of the lock nodes. 0s: as the plugin says, which is not at all mostly."},
    {.name = "on_no_quorum",
     .type = CONFIG_CHOICE,
     FIELD(on_no_quorum),
     .fallback = "closed",
     .choices = no_quorums,
     .is_reloadable = true,
     .help =
         "When a majority of the lock nodes cannot be reached. closed: its tasks wait until one can. open: they run "
         "without lock; in mode efficiency only."},
    {.name = "max_waiters",
     .type = CONFIG_COUNT,
     FIELD(waiters_max),
     .fallback = "0",
     .min = 0,
     .max = 100000000,
     .is_reloadable = true,
     .help = "How many tasks may wait for one of its resources, all hosts together. 0: as lock.max_waiters says."},
    {.name = "on_crowd",
     .type = CONFIG_CHOICE,
     FIELD(on_crowd),
     .fallback = "dead",
     .choices = crowds,
     .is_reloadable = true,
     .help = "Where a task goes when so many wait already. dead: to the dead set. drop: it ends as dropped. delay: it "
             "comes again after conflict_delay."},
    {.name = "share",
     .type = CONFIG_COUNT,
     FIELD(share),
     .fallback = "100",
     .min = 1,
     .max = 100,
     .is_reloadable = true,
     .help = "Percent of the threads of a process that its tasks may occupy at once, rounded down, but at least one: "
             "the others stay free for other classes."},
    {.name = "isolation",
     .type = CONFIG_CHOICE,
     FIELD(isolation),
     .fallback = "handler",
     .choices = isolations,
     .is_reloadable = true,
     .help =
         "Where its handler runs: docs/handlers.md. thread: in the worker, which is cheapest, and a crash takes the "
         "worker down. process: in a process beside it, so that a crash costs that run only, and a run that does "
         "not stop is killed. handler: as the plugin says; if it says nothing, process."},
    {.name = "program",
     .type = CONFIG_WORDS,
     FIELD(program),
     .min = 1,
     .max = 64,
     .item_max = 4095,
     .may_be_one = true,
     .example = "[\"/usr/local/bin/resize\", \"--fast\"]",
     .is_reloadable = true,
     .help = "Instead of a plugin: the absolute path of a program that is started for each of its tasks, and its first "
             "arguments. The task's arguments are on its standard input as JSON; what it ends with decides: "
             "docs/handlers.md."},
    {.name = "timeout",
     .type = CONFIG_DURATION,
     FIELD(timeout_ns),
     .fallback = "0s",
     .min = 0,
     .max = DAYS(366),
     .example = "5m",
     .is_reloadable = true,
     .help = "A run that takes longer is cancelled, and killed when the grace is over, where it runs in a process. It "
             "counts as a failure. 0s: as the plugin says, which is never mostly."},
    {.name = "grace",
     .type = CONFIG_DURATION,
     FIELD(grace_ns),
     .fallback = "0s",
     .min = 0,
     .max = 3600 * NS_PER_S,
     .is_reloadable = true,
     .help = "How long a run in a process may go on after it was asked to stop, before it is killed; never beyond the "
             "end of its lock. 0s: as the plugin says, which is 5 s mostly."},
    {.name = "tasks_per_process",
     .type = CONFIG_COUNT,
     FIELD(tasks_per_process),
     .fallback = "0",
     .min = 0,
     .max = 100000000,
     .is_reloadable = true,
     .help = "A process that has run so many of its tasks is replaced by a new one. 0: any number."},
    {.name = "memory_per_process",
     .type = CONFIG_SIZE,
     FIELD(memory_per_process),
     .fallback = "0",
     .min = 0,
     .max = 1024 * GIB,
     .example = "200MiB",
     .is_reloadable = true,
     .help = "A process that has more memory than this when a run has ended is replaced by a new one. 0: any."},
    {.name = "memory_limit",
     .type = CONFIG_SIZE,
     FIELD(memory_limit),
     .fallback = "0",
     .min = 0,
     .max = 1024 * GIB,
     .example = "1GiB",
     .is_reloadable = true,
     .help = "The address space that its processes may have; what they ask for beyond is refused them. 0: as the "
             "worker has. At least 64 MiB."},
    {.name = "open_files_limit",
     .type = CONFIG_COUNT,
     FIELD(open_files_limit),
     .fallback = "0",
     .min = 0,
     .max = 1048576,
     .is_reloadable = true,
     .help = "The file descriptors that its processes may have. 0: as the worker has. At least 16."},
    {.name = "result_ttl",
     .type = CONFIG_DURATION,
     FIELD(result_ttl_ns),
     .fallback = "24h",
     .min = 0,
     .max = DAYS(366),
     .is_reloadable = true,
     .help = "How long what a task reports as its result is kept for holdfast result. 0s: not at all."},
    {.name = NULL},
};
#undef FIELD
