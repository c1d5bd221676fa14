/* SPDX-License-Identifier: MIT */
/* job.h: everything a Holdfast job handler needs. Version 1.0 of the interface.
 *
 * A plugin is a shared library (.so) that exports one symbol, `holdfast_plugin`, and links nothing of ours: what the
 * host offers is reached through a table that it passes to open(). The header uses libc types only and is clean C
 * and C++.
 *
 *     static int run(hf_job *job, void *state) {
 *         (void)state;
 *         job_api->log(job, HF_LOG_INFO, "hello");
 *         return HF_OK;
 *     }
 *     static const hf_handler hello = {.size = sizeof hello, .name = "hello", .run = run};
 *     static const hf_handler *const handlers[] = {&hello, NULL};
 *     HF_EXPORT const hf_plugin holdfast_plugin = {
 *         HF_PLUGIN_HEAD("hello", "1.0"), .open = open_plugin, .handlers = handlers};
 *
 * Compile: cc -shared -fPIC -fvisibility=hidden -I <where job.h is> hello.c -o hello.so
 *
 * Versions. The host loads a plugin whose abi_major equals its own and whose abi_minor is not newer. Structs carry
 * their size; the host reads only what both know. New host functions appear under new names or at the end of a
 * table, new members at the end of a struct, and then the minor number grows; nothing that is here changes its
 * meaning or goes while abi_major is 1. So what was compiled once goes on working. A plugin that uses what a later
 * minor brought looks at `size` of the table first, if it may meet an older host.
 *
 * Where it runs. Unless the handler or the configuration says `thread`, in a process of its own kind: the worker
 * keeps a few processes for each plugin, and each runs one task at a time, so a crash, an exit() or a loop for ever
 * costs that task's run and nothing else, and a run that does not listen is killed. In a thread of the worker
 * hand-over is cheaper, several runs share one address space, and a crash takes all of them down. docs/handlers.md
 * compares the kinds.
 *
 * Life of a task in a handler. run() is called while the task's lock is held, and is called for several tasks at
 * once unless the handler says HF_SERIAL. It may block. The lock is extended in the background; if it is lost all
 * the same, cancelled() turns true *before* another worker can take the lock, judged by the clock. From then on the
 * handler must not write anything: it returns, and its result is refused. Ask cancelled() or valid_for_ms() before
 * every irreversible step. A task may run again after a crash: make the effect idempotent by recording jid() in the
 * same transaction.
 *
 * How a lock ends under a handler (docs/handlers.md has examples):
 *
 * - in_danger(): no extension succeeded for two thirds of the ttl, or the longest time that its class may hold a lock
 *   is nearly over. Nothing is lost yet. Begin nothing new; bring to an end, or to a point from which a later run can
 *   go on, what fits into valid_for_ms().
 * - lost: cancelled() is true with HF_LOCK_LOST or HF_HELD_TOO_LONG, valid_for_ms() is 0, descriptor() is readable.
 *   All of it by the clock of the machine, also when the rest of the worker is stuck, or the process or the machine
 *   stood still. Write nothing, free what you have and return: until then the resource stays occupied in this process.
 *   Where the task goes then, its class says in the configuration (on_lost).
 * - Between a look at the clock and a write, a process can be stopped for any time. Two things help. fence() gives a
 *   number that is larger than that of every earlier hold of the resource: a store that keeps the largest one and
 *   refuses writes with a smaller one cannot be harmed by a late writer (docs/fencing.md). verify() asks a majority
 *   of the lock nodes now, for a step that cannot be undone and cannot check a number; it narrows the gap and does
 *   not close it.
 *
 * A task that runs without a lock has no such deadline. That others have it (HF_CLAIM_LOST) is known by the clock
 * only to a process that stood still; a worker that is cut off from the queue node learns it when the node answers
 * again, and until then two workers may run the task. Work that must not overlap needs a resource to lock.
 *
 * If the process dies inside run(), the task is still claimed on the queue node and nothing of it is lost; it runs
 * again. A class that must never run twice says HF_AT_MOST_ONCE, and then it is lost instead. */
#ifndef HOLDFAST_JOB_H
#define HOLDFAST_JOB_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HF_MAGIC     UINT32_C(0x48464a42)
#define HF_ABI_MAJOR 1
#define HF_ABI_MINOR 0
#define HF_EXPORT    __attribute__((visibility("default")))

/* What run() returns. */
enum hf_code {
    HF_OK,        /* done */
    HF_FAIL,      /* failed: tried again with a growing delay, as often as the task's `retry` says, then dead */
    HF_DISCARD,   /* not worth trying again: ends as discarded */
    HF_BURY,      /* to the dead set now, for a person to look at */
    HF_CANCELLED, /* it stopped because cancelled() said so: goes back to its queue, or where the reason says */
    HF_SNOOZE,    /* not now: it comes again after retry_in(), else half a minute, and no retry is used
                   * up; a time by which it must have been started still counts */
};

enum hf_log_level { HF_LOG_DEBUG, HF_LOG_INFO, HF_LOG_WARN, HF_LOG_ERROR };

/* Why cancelled() is true. More may come in later versions: treat what you do not know like HF_USER. */
enum hf_cancel_reason {
    HF_NOT_CANCELLED,
    HF_LOCK_LOST,     /* write nothing any more: the result will be refused */
    HF_SHUTDOWN,      /* the worker must stop: the task goes back to its queue */
    HF_CLAIM_LOST,    /* the worker was away (stopped, cut off) for so long that others may have the task now. A process
                    * that stood still knows by the clock; one that was cut off learns it from the queue node */
    HF_USER,          /* somebody cancelled the task: HF_CANCELLED ends it for good */
    HF_HELD_TOO_LONG, /* the lock is lost because the run held it for as long as its class may (max_hold) */
    HF_TIMEOUT,       /* the run took longer than its class may: ends as a failure, whatever run() returns but HF_OK */
};

typedef struct hf_job hf_job; /* one run of one task; valid inside run() only */

typedef struct hf_field {
    const char *key, *value;
} hf_field;

/* Facts of the task: api("job", 1). Texts are NUL-terminated, owned by the host, valid until run() returns. */
typedef struct hf_job_api {
    size_t size;
    const char *(*jid)(const hf_job *job);
    const char *(*class_name)(const hf_job *job);
    const char *(*queue)(const hf_job *job);
    const char *(*args)(const hf_job *job, size_t *length); /* the JSON array, byte for byte as it was pushed */
    /* 0 on the first run, n on the n-th retry. A retry by hand has the number of the run before it, but never 0. */
    unsigned (*attempt)(const hf_job *job);
    /* Reads one element of args: true and the value if args[index] is of that type. A text is unescaped UTF-8 and
     * belongs to the host until run() returns. */
    int (*arg_integer)(const hf_job *job, unsigned index, int64_t *value);
    int (*arg_text)(const hf_job *job, unsigned index, const char **text);
    void (*log)(hf_job *job, enum hf_log_level level, const char *format, ...) __attribute__((format(printf, 3, 4)));
    /* The same with fields that a machine can read: a line `job_event event=NAME jid=... class=... KEY=VALUE ...`.
     * Names and keys are words of letters, digits and _; of up to 16 fields, what does not fit a line is left out. */
    void (*event)(hf_job *job, enum hf_log_level level, const char *name, const hf_field *fields, size_t count);
    /* Why run() is about to return HF_FAIL or HF_BURY; kept in the task's record. Of a run that ends because a fence
     * refused its write the class is "HF::FencedOff" (HF_FENCED_OFF of holdfast/fence.h): the worker counts these. */
    void (*error)(hf_job *job, const char *error_class, const char *format, ...) __attribute__((format(printf, 3, 4)));
} hf_job_api;

/* The lock under which the task runs: api("lock", 1). */
typedef struct hf_lock_api {
    size_t size;
    /* How long the lock is still certain, in milliseconds; 0 when it is lost. INT64_MAX when the task runs without. */
    int64_t (*valid_for_ms)(const hf_job *job);
    /* Number of locked resources and their names, sorted. */
    unsigned (*resources)(const hf_job *job, const char *const **names);

    /* True when the lock may soon be lost, and once it is. Cheap: compares the clock with a word. */
    int (*in_danger)(const hf_job *job);
    /* The fencing token of resource `resource`, counted from 0 in the order of resources(): a decimal number below 2^53
     * as text, larger than that of every earlier hold of the resource, and the same for the whole run. "" when the
     * class is configured without, when the task runs without lock, or when there is no such resource. Compare tokens
     * as numbers, not as texts. What to do with it: holdfast/fence.h. The text is the host's, valid until run()
     * returns. */
    const char *(*fence)(const hf_job *job, unsigned resource);
    /* Asks a majority of the lock nodes whether the lock is still held: 1 when it is, and then it was also extended
     * just now; 0 when that is not certain, be it lost or be it that too few nodes answered, or the worker itself did
     * not. A 0 is no loss yet, if cancelled() is false: ask again, or give up. Blocks for at most the slowest lock
     * node's timeout and a fifth of a second; costs a request to each node. 1 without asking when the task runs without
     * lock. */
    int (*verify)(hf_job *job);
    /* A descriptor that the kernel makes readable when the lock is lost, for poll() beside the handler's own: also when
     * the worker is stuck. It says nothing about other reasons to stop: give poll() a timeout, and ask cancelled(). The
     * same one at every call of a run, made by the first; do not read, close or change it, and forget it when run()
     * returns. -1 when the task runs without lock, or when the process has no descriptor left. */
    int (*descriptor)(const hf_job *job);
} hf_lock_api;

/* Being asked to stop: api("cancel", 1). */
typedef struct hf_cancel_api {
    size_t size;
    int (*cancelled)(const hf_job *job); /* true once reason() has one */
    enum hf_cancel_reason (*reason)(const hf_job *job);
} hf_cancel_api;

/* Saying how far the work is, and what came of it: api("report", 1). */
typedef struct hf_report_api {
    size_t size;
    /* What run() has reached, as a JSON text of at most 4096 bytes: {"done":40,"total":100}. Dashboards show it. Cheap,
     * so it may be called often: the host keeps the last text and writes it every few seconds and when run() returns.
     * False, and nothing is changed, when the text is not JSON or too long, or the handler lacks HF_PROGRESS. */
    int (*progress)(hf_job *job, const char *json);
    /* What came of it, as a JSON text of at most 1 MiB; the last one counts. Kept for as long as the class says
     * (result_ttl), from the same instant as the end of the task, when it ends as done: `holdfast result JID`. False,
     * and nothing is changed, when it is not JSON or too long, or the class keeps no results. */
    int (*result)(hf_job *job, const char *json);
    /* When it shall come again if run() returns HF_FAIL or HF_SNOOZE, instead of the usual delay: in so many
     * milliseconds, 0 to a year. Whether a failure is tried again at all is decided as always. False when it is
     * outside of that. */
    int (*retry_in)(hf_job *job, int64_t milliseconds);
} hf_report_api;

/* Going on where an earlier run of the task stopped: api("checkpoint", 1). For handlers with HF_PROGRESS. */
typedef struct hf_checkpoint_api {
    size_t size;
    /* What an earlier run saved last (or reported: it is the same text), NULL when there is none. Anything may be in
     * it that is JSON: other programs can write there. Valid until run() returns. */
    const char *(*load)(const hf_job *job);
    /* The same as progress(). A run whose process dies loses what it saved in the last seconds, so what comes after
     * the saved point may be done twice. */
    int (*save)(hf_job *job, const char *json);
} hf_checkpoint_api;

/* Tasks that follow from this one: api("push", 1). */
typedef struct hf_push_api {
    size_t size;
    /* Adds a task, as a JSON object like the ones that `holdfast push --stdin` takes:
     * {"class":"mail","args":[7],"queue":"low","at":...}. It is pushed in the same instant in which this task ends as
     * done, and not at all when it does not: neither lost nor pushed twice, whatever dies when. Up to 1,000 tasks and
     * 1 MiB a run. Returns 1; or 0, and nothing is added, after writing why. Not for handlers with HF_AT_MOST_ONCE,
     * whose task has ended before they run. */
    int (*add)(hf_job *job, const char *task, char *reason, size_t reason_size);
} hf_push_api;

typedef struct hf_host {
    size_t size;
    uint16_t abi_major, abi_minor;
    /* The table of functions called `name` in that version, or NULL if this host has none. */
    const void *(*api)(const char *name, unsigned version);
    /* A setting of this plugin from the configuration (plugin_settings = { KEY = "value"; }), or NULL. */
    const char *(*setting)(const struct hf_host *host, const char *key);
} hf_host;

/* Flags of a handler. What a task or the configuration says about retries wins over what is said here; see
 * docs/data-model.md for the order. */
enum {
    HF_LOCK_REQUIRED = 1, /* a task that names no resource is buried, never run unlocked */
    HF_SERIAL = 2,        /* at most one run() of this handler at a time in a process */
    /* The first failure is final: the task is buried (or discarded, with HF_NO_GRAVE). For work that a person has to
     * look at before it is tried again. */
    HF_NO_RETRY = 4,
    /* A final failure is discarded and not buried. For work that is worthless once it has failed for good. */
    HF_NO_GRAVE = 8,
    /* Finished before it runs: neither a failure nor a crash nor a stop of the worker ever runs it a second time. A
     * failure is buried. When the process dies inside run(), nothing is left of the task but the log; so this is for
     * work that is better lost than done twice. */
    HF_AT_MOST_ONCE = 16,
    HF_PROGRESS = 32, /* run() reports progress or saves checkpoints: dashboards show it from the start */
};

/* What the locks of a class are for. docs/contention.md says what each promises. */
enum hf_mode {
    HF_MODE_USUAL,  /* correctness where the worker's locks are good for it, else efficiency */
    HF_CORRECTNESS, /* two runs at once at one resource would do harm: needs tokens from three lock nodes or more */
    HF_EFFICIENCY,  /* two runs at once would do the work twice, and nothing worse */
    HF_UNLOCKED,    /* its tasks are never locked, also when they name a resource */
};

/* What becomes of a task whose lock somebody else holds. */
enum hf_on_conflict {
    HF_CONFLICT_USUAL, /* as HF_CONFLICT_PARK */
    HF_CONFLICT_PARK,  /* it waits in line and is woken */
    HF_CONFLICT_SKIP,  /* it ends as skipped: with HF_EFFICIENCY only */
    HF_CONFLICT_DELAY, /* it comes again a little later, in no order */
    HF_CONFLICT_FAIL,  /* as if run() had returned HF_FAIL */
};

/* Where run() is called. The configuration may say otherwise for the class, but never `thread` where the handler says
 * HF_ISOLATION_PROCESS. */
enum hf_isolation {
    HF_ISOLATION_USUAL,   /* as HF_ISOLATION_PROCESS, unless the configuration says `thread` */
    HF_ISOLATION_THREAD,  /* in the worker itself: it has been written and tested with care for that */
    HF_ISOLATION_PROCESS, /* never in the worker: it changes the locale, the directory, signals, or may crash */
};

typedef struct hf_handler {
    size_t size;       /* sizeof(hf_handler) */
    const char *name;  /* the task's "class" */
    const char *about; /* one line for people; may be NULL */
    uint32_t flags;
    int (*run)(hf_job *job, void *state);
    /* Optional and pure: whether args (the JSON array, not NUL-terminated) are acceptable. Called before run(), on the
     * same thread. To refuse, write a reason and return 0: the task is buried with it. */
    int (*check)(const char *args, size_t length, char *reason, size_t reason_size);

    /* What is usual for this class. Zero means that there is nothing unusual. */

    /* How often a failed task is tried again before it is final; 0 = 25 times, over about three weeks. For none at
     * all set HF_NO_RETRY. */
    unsigned retries;
    /* Instead of a number of times: for how long after its first failure it is tried again, in milliseconds. */
    int64_t retry_for_ms;
    /* The queue in which it is tried again; NULL = the one it came from. 1 to 128 bytes without blanks. Some worker
     * must serve that queue. */
    const char *retry_queue;
    /* A task that has not been started so many milliseconds after it was put into its queue is not worth running: it
     * ends as expired, and run() is not called. One that was started once does not expire. */
    int64_t expires_in_ms;

    /* How its tasks are locked. Zero means that there is nothing unusual; the configuration may say otherwise for the
     * class. */

    enum hf_mode mode;
    /* What a task locks that names no resource itself: templates of names, up to 16, the last one followed by NULL;
     * NULL = none. "{0}" is the first argument, "{1.a.b}" the member b of the member a of the second, "{0.2}" the third
     * element of the first, "{{" a brace. Only texts and whole numbers can stand there; a task whose arguments have
     * something else, or nothing, is buried. Begin a template with a word and a colon, "account:{0}": resources that
     * begin so belong to one mode, in all classes of a worker. With HF_LOCK_REQUIRED they are what is required. */
    const char *const *resources;
    enum hf_on_conflict on_conflict;
    /* With HF_EFFICIENCY only: the lock of a task that went well stays for so many milliseconds, counted from when it
     * was taken, so that the same work is not done again at once. Up to a minute. */
    int64_t hold_at_least_ms;

    /* Where and how long it runs. Zero means that there is nothing unusual; the configuration may say otherwise. */

    enum hf_isolation isolation;
    /* A run that takes longer is cancelled (HF_TIMEOUT), and, where it runs in a process, killed when the grace is
     * over. 0 = no limit. */
    int64_t timeout_ms;
    /* How long a run in a process may go on after it was cancelled, never beyond the end of its lock. 0 = 5 s. */
    int64_t grace_ms;
    /* How long it may hold its lock, extensions included. 0 = as lock.max_hold of the configuration says. */
    int64_t max_hold_ms;
} hf_handler;

typedef struct hf_plugin {
    uint32_t magic;
    uint16_t abi_major, abi_minor;
    size_t size; /* sizeof(hf_plugin) */
    const char *name, *version;
    const char *build; /* anything that tells one build from another, shown by `holdfast plugins`; may be NULL */
    /* Called once in each process that runs its handlers, before any run() of it, and when a changed plugin is loaded
     * into a worker that runs, while the former one is still open. Returns 0, or non-zero after writing a reason: a
     * worker then refuses to start, or to load it; a process of its own ends and is tried again later. `*state` is
     * handed to every run(). May be NULL. */
    int (*open)(const hf_host *host, void **state, char *reason, size_t reason_size);
    void (*close)(void *state);        /* called once after the last run() ended; may be NULL */
    const hf_handler *const *handlers; /* ends with NULL */
} hf_plugin;

/* The first members of a descriptor, of the version of this header. */
#define HF_PLUGIN_HEAD(plugin_name, plugin_version)                                                                    \
    .magic = HF_MAGIC, .abi_major = HF_ABI_MAJOR, .abi_minor = HF_ABI_MINOR, .size = sizeof(hf_plugin),                \
    .name = (plugin_name), .version = (plugin_version)

extern HF_EXPORT const hf_plugin holdfast_plugin;

#ifdef __cplusplus
}
#endif

#endif
