/* Finding one task by its id, in one state or several.
 *
 *     struct task_search search = {.console = &console, .scan_limit = 10000};
 *     task_search_in(&search, TASK_IN_RETRY);                    the states, in order
 *     code = task_search_run(&search, "0123456789abcdef01234567");
 *     if (code == EXIT_CODE_OK && search.found != NULL) ...      stays until the next run
 *     task_search_end(&search);
 *
 * An id is a jid, or SCORE-JID as dashboards address an entry of a set, which is found at once. A jid is looked for
 * page by page, through `scan_limit` entries of each state; what was not looked at is said on standard error. */
#ifndef WORKER_TASK_FIND_H
#define WORKER_TASK_FIND_H

#include "worker/commands/backlog.h"
#include "worker/commands/task_view.h"
#include "worker/commands/task_walk.h"

struct task_search {
    struct console *console;
    const char *queue; /* NULL = all queues */
    int64_t scan_limit;
    enum task_state states[TASK_STATES];
    size_t state_count;
    /* Of several jids: which of them were seen. Then the id of a run is "", and `found` is the last of them. */
    char *const *jids;
    bool *seen;
    size_t jid_count;
    const struct task_entry *found; /* NULL: nowhere */
    bool was_cut;                   /* not everything was looked at */
    /* private */
    struct task_walk walk;
    bool is_walking;
    struct task_view view;
    struct backlog backlog; /* its queues, once they are needed */
    bool knows_queues;
};

void task_search_in(struct task_search *search, enum task_state state);
void task_search_everywhere(struct task_search *search);
void task_search_alive(struct task_search *search);                         /* in all but TASK_IN_DEAD */
int task_search_run(struct task_search *search, const char *id) MUST_CHECK; /* an exit code; complains */
void task_search_end(struct task_search *search);

/* The number before the first '-' of SCORE-JID: the length of its text, 0 when `id` is not of that form. Pure. */
size_t task_id_score(const char *id);

#endif
