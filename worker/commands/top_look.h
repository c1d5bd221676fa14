/* One look at everything that `holdfast top` shows of the queue node.
 *
 *     struct top_facts facts = {0};
 *     int code = top_look(&facts, &console);      fills all but the rate, the lock nodes and `away`
 *     top_facts_free(&facts);                     also after a failure */
#ifndef WORKER_TOP_LOOK_H
#define WORKER_TOP_LOOK_H

#include "worker/commands/console.h"
#include "worker/commands/top_facts.h"

/* Of how many processes tasks are asked for, and how many tasks and resources are kept. */
enum { TOP_PROCESSES_MAX = 500, TOP_ROWS_MAX = 1000 };

int top_look(struct top_facts *facts, struct console *console) MUST_CHECK; /* an exit code; complains */
void top_facts_free(struct top_facts *facts);

#endif
