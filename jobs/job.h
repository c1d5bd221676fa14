/* SPDX-License-Identifier: MIT */
/* job.h: everything a Holdfast job handler needs. Version 1.0 of the interface.
 *
 * A plugin is a shared library (.so) that exports one symbol, `holdfast_plugin`, and links nothing of ours: open()
 * gets a table of the host's functions. The header uses libc types only and is clean C and C++.
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
 * table, and new members at the end of a struct; then the minor number grows. While abi_major is 1, nothing here
 * changes its meaning or disappears, so a compiled plugin keeps working. A plugin that uses functions of a later minor
 * and may meet an older host checks `size` of the table first.
 *
 * Where it runs. In a process, unless the handler or the configuration says `thread`: the worker keeps a few processes
 * for each plugin, and each runs one task at a time. A crash, an exit() or an endless loop costs only that run, and a
 * run that does not react is killed. In a thread of the worker hand-over is cheaper, but several runs share one address
 * space, and a crash takes all of them down. docs/handlers.md compares the kinds.
 *
 * Life of a task in a handler. run() is called while the task's lock is held, and is called for several tasks at
 * once unless the handler says HF_SERIAL. It may block. The lock is extended in the background. If it is lost all the
 * same, cancelled() turns true *before* another worker can take the lock, judged by the clock. From then on the handler
 * must write nothing and return; its result is refused. Ask cancelled() or valid_for_ms() before every irreversible
 * step. A task may run again after a crash: make the effect idempotent by recording jid() in the same transaction.
 *
 * How a lock ends under a handler (docs/handlers.md has examples):
 *
 * - in_danger(): no extension succeeded for two thirds of the ttl, or the longest time that its class may hold a lock
 *   is nearly over. Nothing is lost yet. Begin nothing new; finish what fits into valid_for_ms(), or save a point from
 *   which a later run can go on.
 * - lost: cancelled() is true with HF_LOCK_LOST or HF_HELD_TOO_LONG, valid_for_ms() is 0, descriptor() is readable.
 *   The clock of the machine decides, even if the rest of the worker is stuck, or the process or the machine stood
 *   still. Write nothing, free what you have and return: until then the resource stays occupied in this process. Then
 *   on_lost of its class decides where the task goes.
 * - Between a look at the clock and a write, a process can be stopped for any time. Two things help. fence() gives a
 *   number that is larger than that of every earlier hold of the resource. A store that keeps the largest number and
 *   refuses smaller ones is safe from late writers (docs/fencing.md). verify() asks a majority of the lock nodes now,
 *   for a step that can neither be undone nor check a number. It narrows the gap and does not close it.
 *
 * A task without a lock has the lease of its worker as a deadline: if the worker stood still, or was cut off from the
 * queue node, for that long (15 s, a setting), another worker may have the task. cancelled() turns true before that
 * (HF_CLAIM_LOST), judged by the clock. A handler that goes on all the same runs beside the other one, and nothing
 * refuses its writes. Work that must not overlap needs a resource to lock.
 *
 * If the process dies inside run(), the task is still claimed on the queue node, and runs again. A class that must
 * never run twice sets HF_AT_MOST_ONCE; then the task is lost instead. */
#ifndef HOLDFAST_JOB_H
#define HOLDFAST_JOB_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HF_MAGIC     UINT32_C(0x48464a42)
#define HF_ABI_MAJOR 1
#define HF_ABI_MINOR 1
#define HF_EXPORT    __attribute__((visibility("default")))

/* What run() returns. */
enum hf_code {
    HF_OK,        /* done */
    HF_FAIL,      /* failed: retried with a growing delay, as often as the task's `retry` says, then dead */
    HF_DISCARD,   /* not worth a retry: ends as discarded */
    HF_BURY,      /* to the dead set now, for a person to look at */
    HF_CANCELLED, /* it stopped because cancelled() said so: goes back to its queue, or as the reason says */
    HF_SNOOZE,    /* not now: tried again after retry_in(), else half a minute, without using up a retry; its time of
                   * expiry still counts */
};

enum hf_log_level { HF_LOG_DEBUG, HF_LOG_INFO, HF_LOG_WARN, HF_LOG_ERROR };

/* Why cancelled() is true. More may come in later versions: treat what you do not know like HF_USER. */
enum hf_cancel_reason {
    HF_NOT_CANCELLED,
    HF_LOCK_LOST,     /* write nothing more: the result will be refused */
    HF_SHUTDOWN,      /* the worker must stop: the task goes back to its queue */
    HF_CLAIM_LOST,    /* the worker was stopped or cut off for so long that another one may have the task now: without a
                    * lock by the clock, with one when the queue node says that it has. If none has it, HF_CANCELLED
                    * gives it back to its queue */
    HF_USER,          /* the task was cancelled: HF_CANCELLED ends it for good */
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
    /* 0 on the first run, n on the n-th retry. A retry by hand has the number of the previous run, but never 0. */
    unsigned (*attempt)(const hf_job *job);
    /* Reads one element of args: true and the value if args[index] is of that type. A text is unescaped UTF-8 and
     * belongs to the host until run() returns. */
    int (*arg_integer)(const hf_job *job, unsigned index, int64_t *value);
    int (*arg_text)(const hf_job *job, unsigned index, const char **text);
    void (*log)(hf_job *job, enum hf_log_level level, const char *format, ...) __attribute__((format(printf, 3, 4)));
    /* The same with fields that a machine can read: a line `job_event event=NAME jid=... class=... KEY=VALUE ...`.
     * Names and keys are words of letters, digits and _. At most 16 fields; the field fields_dropped counts others and
     * those without a word for a key. What does not fit a line is left out. */
    void (*event)(hf_job *job, enum hf_log_level level, const char *name, const hf_field *fields, size_t count);
    /* Why run() is about to return HF_FAIL or HF_BURY; kept in the task's record. If a fence refused the run's write,
     * use "HF::FencedOff" (HF_FENCED_OFF of holdfast/fence.h): the worker counts these. */
    void (*error)(hf_job *job, const char *error_class, const char *format, ...) __attribute__((format(printf, 3, 4)));
    /* Since 1.1. The trace that the task belongs to, as in the HTTP header `traceparent` (W3C Trace Context); "" if its
     * producer gave none. Tasks that it pushes get the same one. */
    const char *(*traceparent)(const hf_job *job);
} hf_job_api;

/* The lock under which the task runs: api("lock", 1). */
typedef struct hf_lock_api {
    size_t size;
    /* How long the lock is still certain, in milliseconds; 0 if it is lost. INT64_MAX without a lock. */
    int64_t (*valid_for_ms)(const hf_job *job);
    /* Number of locked resources and their names, sorted. */
    unsigned (*resources)(const hf_job *job, const char *const **names);

    /* True if the lock may soon be lost or is lost. Cheap: compares the clock with a word. */
    int (*in_danger)(const hf_job *job);
    /* The fencing token of resource `resource`, counted from 0 in the order of resources(): a decimal number below
     * 2^53 as text, larger than that of every earlier hold of the resource, and the same for the whole run. "" if
     * the class has no tokens, the task runs without a lock, or there is no such resource. Compare tokens as
     * numbers, not as texts. What to do with it: holdfast/fence.h. The text is the host's, valid until run()
     * returns. */
    const char *(*fence)(const hf_job *job, unsigned resource);
    /* Asks a majority of the lock nodes whether the lock is still held. 1: it is, and was just extended. 0:
     * uncertain: it is lost, or too few nodes answered, or the worker did not. While cancelled() is false, a 0 is no
     * loss yet: ask again, or give up. Blocks for at most the slowest lock node's timeout and a fifth of a second;
     * costs a request to each node. 1 at once if the task runs without a lock. */
    int (*verify)(hf_job *job);
    /* A descriptor that the kernel makes readable when the lock is lost, for poll() beside the handler's own, even
     * if the worker is stuck. It does not signal other reasons to stop: give poll() a timeout, and ask cancelled().
     * Every call of a run returns the same one; do not read, close or change it, and forget it when run() returns.
     * -1 if the task runs without a lock, or the process has no descriptor left. */
    int (*descriptor)(const hf_job *job);
    /* Since 1.1. If several tasks may hold the resource at once (`limit` of the class): which of its seats this one
     * has, from 1; else 0. Tokens are ordered for each seat only: compare them for each seat. */
    unsigned (*seat)(const hf_job *job);
} hf_lock_api;

/* Being asked to stop: api("cancel", 1). */
typedef struct hf_cancel_api {
    size_t size;
    int (*cancelled)(const hf_job *job); /* true once reason() has one */
    enum hf_cancel_reason (*reason)(const hf_job *job);
} hf_cancel_api;

/* Reporting progress and the result: api("report", 1). */
typedef struct hf_report_api {
    size_t size;
    /* What run() has reached, as a JSON text of at most 4096 bytes: {"done":40,"total":100}. Dashboards show it. Call
     * it as often as you like: the host keeps the last text and writes it every few seconds and when run() returns.
     * False, without effect, if the text is not JSON or too long, or the handler lacks HF_PROGRESS. */
    int (*progress)(hf_job *job, const char *json);
    /* The result, as a JSON text of at most 1 MiB; the last one counts. If the task ends as done, it is kept from that
     * instant for the result_ttl of the class: `holdfast result JID`. False if the class keeps no results; and if it is
     * not JSON or too long: unless another one follows, a run that went well fails then (HF::BadResult). */
    int (*result)(hf_job *job, const char *json);
    /* The delay before the next try if run() returns HF_FAIL or HF_SNOOZE, instead of the usual one: 0 to a year in
     * milliseconds, else false. It does not decide whether a failure is tried again. */
    int (*retry_in)(hf_job *job, int64_t milliseconds);
} hf_report_api;

/* Resuming where an earlier run of the task stopped: api("checkpoint", 1). For handlers with HF_PROGRESS. */
typedef struct hf_checkpoint_api {
    size_t size;
    /* The text that an earlier run last saved or reported, else NULL. It may be any JSON, because other programs can
     * write there. Valid until run() returns. */
    const char *(*load)(const hf_job *job);
    /* The same as progress(). A run whose process dies loses what it saved in the last seconds, so work after the
     * saved point may be done twice. */
    int (*save)(hf_job *job, const char *json);
} hf_checkpoint_api;

/* Tasks that follow from this one: api("push", 1). */
typedef struct hf_push_api {
    size_t size;
    /* Adds a task, as a JSON object like the ones that `holdfast push --stdin` takes:
     * {"class":"mail","args":[7],"queue":"low","at":...}. It is pushed at the instant when this task ends as done,
     * otherwise not at all: no crash loses it or pushes it twice. Up to 1,000 tasks and 1 MiB a run. Returns 1; or 0,
     * adding nothing, after writing why. Not for handlers with HF_AT_MOST_ONCE, whose task has ended before they
     * run. */
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

/* Flags of a handler. A task or the configuration may override those about retries; docs/data-model.md has the
 * order. */
enum {
    HF_LOCK_REQUIRED = 1, /* a task that names no resource is buried, never run unlocked */
    HF_SERIAL = 2,        /* at most one run() of this handler at a time in a process */
    /* The first failure is final: the task is buried (or discarded, with HF_NO_GRAVE). For work that a person has to
     * look at before it is tried again. */
    HF_NO_RETRY = 4,
    /* A final failure is discarded and not buried. For work that is worthless once it has failed for good. */
    HF_NO_GRAVE = 8,
    /* Finished before it runs: no failure, crash or stop of the worker ever runs it a second time. A failure is buried.
     * If the process dies inside run(), only the log knows of the task. For work that is better lost than repeated. */
    HF_AT_MOST_ONCE = 16,
    HF_PROGRESS = 32, /* run() reports progress or saves checkpoints: dashboards show it from the start */
};

/* What the locks of a class are for. docs/contention.md says what each promises. */
enum hf_mode {
    HF_MODE_USUAL,  /* correctness if the worker's locks suffice for it, else efficiency */
    HF_CORRECTNESS, /* two runs at once at one resource would do harm: needs tokens from three lock nodes or more */
    HF_EFFICIENCY,  /* two runs at once would do the work twice, and nothing worse */
    HF_UNLOCKED,    /* its tasks are never locked, also when they name a resource */
};

/* What happens to a task whose lock is held. */
enum hf_on_conflict {
    HF_CONFLICT_USUAL, /* as HF_CONFLICT_PARK */
    HF_CONFLICT_PARK,  /* it waits in a list and is woken */
    HF_CONFLICT_SKIP,  /* it ends as skipped: with HF_EFFICIENCY only */
    HF_CONFLICT_DELAY, /* it is tried again a little later, in no order */
    HF_CONFLICT_FAIL,  /* as if run() had returned HF_FAIL */
};

/* Where run() is called. The configuration may say otherwise for the class, but never `thread` where the handler says
 * HF_ISOLATION_PROCESS. */
enum hf_isolation {
    HF_ISOLATION_USUAL,   /* as HF_ISOLATION_PROCESS, unless the configuration says `thread` */
    HF_ISOLATION_THREAD,  /* in the worker itself: written and tested for that */
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

    /* Defaults of this class. Zero leaves them to the worker. */

    /* How often a failed task is retried; 0 = 25 times, over about three weeks. For no retry set HF_NO_RETRY. */
    unsigned retries;
    /* Instead of a number: for how long after its first failure it is retried, in milliseconds. */
    int64_t retry_for_ms;
    /* The queue in which it is tried again; NULL = the one it came from. 1 to 128 bytes without blanks. Some worker
     * must serve that queue. */
    const char *retry_queue;
    /* A task that has not started this many milliseconds after it was put into its queue ends as expired, without a
     * call of run(). One that was started once does not expire. */
    int64_t expires_in_ms;

    /* How its tasks are locked. Zero leaves it to the worker; the configuration may override it for the class. */

    enum hf_mode mode;
    /* The resources of a task that names none: up to 16 templates of names, followed by NULL; NULL = none. "{0}" is
     * the first argument, "{1.a.b}" the member b of the member a of the second, "{0.2}" the third element of the
     * first, "{{" a brace. Only texts and whole numbers fit; a task with any other argument there is buried. Begin a
     * template with a word and a colon, "account:{0}": in all classes of a worker, resources with the same beginning
     * belong to one mode. They satisfy HF_LOCK_REQUIRED. */
    const char *const *resources;
    enum hf_on_conflict on_conflict;
    /* With HF_EFFICIENCY only: the lock of a successful task stays for this many milliseconds after it was taken, so
     * that the same work is not repeated at once. Up to a minute. */
    int64_t hold_at_least_ms;

    /* Where and how long it runs. Zero leaves it to the worker; the configuration may override it. */

    enum hf_isolation isolation;
    /* A run that takes longer is cancelled (HF_TIMEOUT) and, in a process, killed after the grace. 0 = no limit. */
    int64_t timeout_ms;
    /* How long a run in a process may go on after it was cancelled, never beyond the end of its lock. 0 = 5 s. */
    int64_t grace_ms;
    /* How long it may hold its lock, extensions included. 0 = lock.max_hold of the configuration. */
    int64_t max_hold_ms;
} hf_handler;

typedef struct hf_plugin {
    uint32_t magic;
    uint16_t abi_major, abi_minor;
    size_t size; /* sizeof(hf_plugin) */
    const char *name, *version;
    const char *build; /* identifies the build, shown by `holdfast plugins`; may be NULL */
    /* Called once in each process that runs its handlers, before any run(). Also called when a running worker loads a
     * changed plugin, while the former one is still open. Returns 0, or non-zero after writing a reason: a worker then
     * refuses to start, or to load it; a process for runs ends and is tried again later. Every run() gets `*state`.
     * May be NULL. */
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
