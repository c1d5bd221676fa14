/* The parts of `holdfast tasks`: the request, and the functions that perform it. */
#ifndef WORKER_TASKS_H
#define WORKER_TASKS_H

#include "queue/operate.h"
#include "worker/commands/task_find.h"

struct tasks {
    struct console console;
    const char *queue, *class_name, *cursor;
    bool all, is_sure;
    bool has_state;
    enum task_state state;
    int64_t limit, scan_limit;
    char *const *ids;
    int id_count;
    FILE *out; /* where `show` prints; NULL = standard output */
};

/* Each returns an exit code. */
int tasks_show(struct tasks *tasks);
int tasks_operate(struct tasks *tasks, enum operate_verb verb);

/* Marks tasks to be cancelled and calls every process; how many were called. */
int tasks_cancel(struct console *console, char *const *jids, int count, long long *called);

/* Whether an entry is one of those that --class and --queue ask for. */
bool tasks_want(const struct tasks *tasks, struct task_view *view, const struct task_entry *entry);
/* Members that say where a task is: state, and what goes with it. */
void tasks_state_json(const struct task_entry *entry, const char *jid, struct json_writer *json);

/* What goes to the target when this entry is moved: see operate.h. False with a reason when it cannot be. Pure. */
bool tasks_rewrite(enum operate_verb verb, const struct task_entry *entry, struct task_view *view, struct wall_time now,
                   struct buffer *fresh, struct buffer *queue, struct error *error) MUST_CHECK;

#endif
