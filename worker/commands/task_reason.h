/* Why a task does not run: one sentence, and what to do, as a function of what the nodes say of it. Pure. For `why`,
 * and for all that shows a task (task_why.h gathers the facts).
 *
 *     struct task_reason reason = {.code = TASK_GONE};
 *     task_reason_find(&reason, &facts, now);
 *     puts(buffer_text(&reason.sentence));
 *     task_reason_fini(&reason);
 *
 * The sentence is about "it", and says the first thing that is in the way: what an operator did or forgot comes before
 * what passes by itself. */
#ifndef WORKER_TASK_REASON_H
#define WORKER_TASK_REASON_H

#include "worker/commands/lock_view.h"
#include "worker/commands/task_walk.h"
#include "worker/print/printer.h"

enum task_reason_code {
    TASK_GONE,    /* nowhere, and without a result */
    TASK_UNKNOWN, /* not found where was looked */
    TASK_CANCELLED,
    TASK_DONE,
    TASK_DEAD,
    TASK_RUNS,
    TASK_STARTS,          /* a process has it, and does not show a run */
    TASK_BEING_RECOVERED, /* a dead process has it */
    TASK_TWIN,            /* another run of the same jid goes on */
    TASK_PAUSED,
    TASK_NO_WORKER,
    TASK_QUEUE_UNSERVED,
    TASK_CLASS_UNSERVED,
    TASK_QUIET, /* all that serve its queue are quiet, or stop */
    TASK_TERMS, /* all that could run it wait until processes with other terms have ended */
    TASK_QUEUED,
    TASK_SCHEDULED,
    TASK_RETRY,
    TASK_OVERDUE, /* nobody takes it out of its set */
    TASK_LOCK,
    TASK_LIMIT,
    TASK_SHARE,
    TASK_NO_QUORUM,
    TASK_BLOCKED, /* what is no lock is where its lock would be */
    TASK_TURN,    /* what it waits for is free */
    TASK_REASONS
};
const char *task_reason_name(enum task_reason_code code); /* for programs */

enum task_list { TASK_LIST_NONE, TASK_LIST_RESOURCE, TASK_LIST_SEATS, TASK_LIST_CLASS };

/* Texts are "" or NULL, times 0, and numbers -1, when they are not known. */
struct task_facts {
    const char *jid;
    bool is_local;             /* commands take --local */
    bool is_found, was_cut;    /* not all was looked at */
    struct wall_time ended_at; /* of its result */
    bool was_cancelled;        /* which is none, then */
    bool is_cancelled;         /* it is somewhere, and `holdfast cancel` has named it */
    /* Where it is. */
    enum task_state state;
    const char *queue, *class_name;
    struct wall_time at;        /* in a set */
    long long position, length; /* in a queue: 1 is the next */
    bool is_paused;
    /* What its record says. */
    unsigned failures;
    const char *error;           /* of the last */
    struct wall_time put_off_at; /* since when it waits for what it needs */
    struct wall_time unserved_at;
    bool locks; /* it needs a lock, as far as is known */
    /* Of a claim. */
    const char *process;
    bool is_living;
    struct wall_time beat, lease_end, since; /* its last heartbeat; when the task began to run */
    /* Another claim with its jid, which runs. */
    const char *twin;
    /* Who could run it. */
    struct {
        size_t living, of_queue, awake, able, allowed; /* each of those before, and one thing more */
        long long threads, busy;                       /* of the last */
        const char *quiet;                             /* one that is not awake */
        const char *elsewhere;                         /* one that has its class, and not its queue */
        const char *terms;                             /* why one is not allowed, in a sentence */
        struct wall_time beat;                         /* the last of those allowed */
        const char *dead;                              /* the last one of its queue that died */
        struct wall_time dead_lease_end, dead_beat;
    } workers;
    /* In which waiting list it is; in its queue or as a claim: it would, if its lock is held. */
    enum task_list list;
    const char *list_name;
    long long ahead, waiting;
    bool is_listed;
    /* What the lock nodes say of that. */
    struct {
        bool is_asked;
        const char *why_not, *trouble; /* why some do not vote */
        enum lock_state state;
        unsigned nodes, voters, quorum, holders, blocked;
        bool is_shared; /* readers have it */
        unsigned limit;
        const char *owner; /* what its value says, made safe to be shown */
        bool is_ours;      /* a worker's; then also what follows */
        const char *jid, *class_name, *process;
        bool is_living;
        struct wall_time beat, since;
        int64_t remaining_us; /* until it expires if nobody extends it */
        int64_t hold_us;      /* for how long such locks are held, on average */
    } lock;
};

struct task_reason {
    enum task_reason_code code;
    struct buffer sentence, advice;
    struct wall_time expected; /* when it starts, or goes on, probably; 0 = not known */
};

/* The texts are replaced. */
void task_reason_find(struct task_reason *reason, const struct task_facts *facts, struct wall_time now);
void task_reason_fini(struct task_reason *reason);
/* Members of an object, or the two lines. */
void task_reason_put(struct task_reason *reason, const struct task_facts *facts, struct printer *out);

#endif
