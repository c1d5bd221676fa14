/* Which tasks that end get a line of their own in the log (worker.log_tasks): a rule of the state, the ending and now.
 *
 * With "auto", what went well in a second beyond `limit` tasks is added up, and one line has the sums when that
 * second is over. A second begins with the first task that went well after the last one. What did not go well always
 * has its own line. Pure.
 *
 *     if (task_log_is_due(&log, now)) log what task_log_take gives, by the first task or by a timer at `until`
 *     if (task_log_wants(&log, mode, FLOW_DONE, ran_ns, now)) format its line */
#ifndef WORKER_TASK_LOG_H
#define WORKER_TASK_LOG_H

#include "base/clock.h"
#include "worker/config/config.h"
#include "worker/flow.h"

/* The journal of systemd takes 10,000 lines of a unit in 30 seconds and drops the rest: a third of that. */
enum { TASK_LOG_LINES_PER_S = 100 };

struct task_sums {
    uint64_t done, skipped, snoozed;
    int64_t ran_ns;
};

struct task_log {
    unsigned limit; /* lines a second of this process */
    unsigned lines; /* in this second */
    struct instant until;
    struct task_sums sums;
};

/* The processes of a unit share one journal. 0 is taken for 1. */
void task_log_init(struct task_log *log, unsigned processes);
/* False: it was added up, or is not to be logged. */
bool task_log_wants(struct task_log *log, enum config_log_tasks mode, enum flow_ending ending, int64_t ran_ns,
                    struct instant now);
bool task_log_has_sums(const struct task_log *log);
/* There are sums, and their second is over. */
bool task_log_is_due(const struct task_log *log, struct instant now);
struct task_sums task_log_take(struct task_log *log);

#endif
