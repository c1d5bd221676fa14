/* Walking through the tasks of one state, page by page, without ever asking for all of them.
 *
 *     struct task_walk walk;
 *     if (!task_walk_begin(&walk, &console, state, queue, cursor, &error)) ...      the cursor is wrong
 *     while (!walk.is_over && (code = task_walk_next(&walk, 100)) == EXIT_CODE_OK) {
 *         look at walk.entries[0 .. walk.count), which stay until the next page
 *         task_walk_advance(&walk, walk.count);           or less: the rest is seen again
 *     }
 *     task_walk_cursor(&walk, &out);                      from where to go on, "" at the end
 *     task_walk_end(&walk);
 *
 * It changes during the walk. An entry that stays there the whole time is seen at least once:
 *   sets      `schedule` and `retry` from the earliest, `dead` from the latest. The cursor is a score and how many
 *             entries of that score were seen: equal scores do not confuse it.
 *   queues    from the next task to run. The cursor is the index, counted from the end where producers push: what
 *             workers take does not move it; what is pushed meanwhile lets some entries be seen twice.
 *   claims    by process. The cursor is the last process seen; a page holds whole processes.
 * The cost of a page is bounded by the page; but reaching the middle of a long queue costs the server a walk through
 * the nodes of its list. */
#ifndef WORKER_TASK_WALK_H
#define WORKER_TASK_WALK_H

#include "queue/json.h"
#include "worker/commands/console.h"

enum task_state {
    TASK_IN_QUEUE,
    TASK_IN_SCHEDULE,
    TASK_IN_RETRY,
    TASK_IN_DEAD,
    TASK_IN_CLAIMS,
    TASK_STATES,
};
const char *task_state_name(enum task_state state); /* "queue", "schedule", ... */
bool task_state_parse(const char *name, enum task_state *state);
static inline bool task_state_is_set(enum task_state state)
{
    return state == TASK_IN_SCHEDULE || state == TASK_IN_RETRY || state == TASK_IN_DEAD;
}
/* The key of a set. */
const char *task_state_key(const struct console *console, enum task_state state);

struct task_entry {
    enum task_state state;
    struct text_span task;
    bool was_removed;      /* for the caller to set before task_walk_advance */
    const char *score;     /* in a set: as the node writes it */
    const char *queue;     /* in a queue, of a claim: its name */
    long long index;       /* in a queue: from the left */
    long long position;    /* in a queue: 1 is the next to run */
    const char *identity;  /* of a claim: the process */
    const char *slot;      /* of a claim; NULL: it is in the process's bell */
    struct text_span seen; /* all that stands there: the task, or what the slot holds, with its id */
    bool is_living;        /* of a claim: the lease of its process runs */
    const char *key;       /* of a claim: where it is */
};

struct task_process; /* whose claims are walked through */

struct task_walk {
    struct task_entry *entries; /* of this page */
    size_t count;
    bool is_over;
    bool is_sample; /* for the caller to set: keys of a foreign kind are not complained about */
    /* the rest is private */
    struct console *console;
    enum task_state state;
    char *queue;
    char from[64]; /* of a set: the score */
    unsigned long long skip;
    bool was_short; /* the page was the last */
    long long at, length, start;
    struct task_process *processes;
    size_t process_count, process_at, process_next;
    size_t most; /* that a page asks for; 0 = any number */
    size_t capacity, reply_count;
    struct redis_reply **replies; /* that the entries point into */
    char **names;
    size_t name_count;
};

/* `queue` is for TASK_IN_QUEUE, else NULL; `cursor` NULL = from the beginning. Asks nothing. */
bool task_walk_begin(struct task_walk *walk, struct console *console, enum task_state state, const char *queue,
                     const char *cursor, struct error *error) MUST_CHECK;
/* Reads the next page, of fewer entries if the node could not answer so many. An exit code; complains. */
int task_walk_next(struct task_walk *walk, size_t limit);
void task_walk_advance(struct task_walk *walk, size_t seen);
void task_walk_cursor(const struct task_walk *walk, struct buffer *out);
void task_walk_end(struct task_walk *walk);

#endif
