/* What the zygote of a worker does last when the worker died of a handler in one of its threads: it tells the queue
 * node who that was (queue/culprit.h), so that whoever recovers the tasks does not blame those that ran beside it.
 *
 * Runs in the zygote, whose children are gone by then: a single thread with a copy of the configuration as it was when
 * the worker began. It waits for the node for ten seconds. When the node cannot be had, or the zygote was killed too,
 * nothing is noted, and all tasks of the worker are counted. */
#ifndef WORKER_CULPRIT_NOTE_H
#define WORKER_CULPRIT_NOTE_H

#include "worker/task/board.h"

/* `config` is a struct config; `culprit` the berth, which has the number of its slot. Logs what came of it. */
void culprit_note(const void *config, const struct board *board, unsigned culprit);

#endif
