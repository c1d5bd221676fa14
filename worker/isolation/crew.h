/* The runner processes of a worker, and the runs that are given to them: isolation `process`, as isolation.h offers it.
 *
 *     struct crew *crew = crew_create(&options);
 *     crew_start(crew, &run);      ... run.began(), run.ended()
 *
 * A process is made when a run needs one, is kept for the next run of the same plugin, and ends when it was idle for a
 * minute, has run as many tasks or grown as large as its class allows, or another plugin needs its place: there are at
 * most as many as the worker has threads, not counting those that are just ending. Of the idle ones the one that ran
 * last is taken: its caches are warm, and the others grow old enough to end.
 *
 * A process that does not open its plugin is tried again after 1, 2, 4 ... 30 s. Meanwhile runs that have no other
 * process end as HF_SNOOZE: it is the worker's trouble and not theirs.
 *
 * Threads: the loop's. */
#ifndef WORKER_CREW_H
#define WORKER_CREW_H

#include "worker/isolation/isolation.h"

struct crew;

struct crew *crew_create(const struct isolation_options *options);
/* Kills what runs; no `ended` follows. */
void crew_destroy(struct crew *crew);

void crew_start(struct crew *crew, struct isolated_run *run);
bool crew_withdraw(struct crew *crew, struct isolated_run *run);
/* Processes end that are older than this call, when they are idle: what is loaded or set may be another. */
void crew_renew(struct crew *crew);

/* Processes that are there or being made. */
unsigned crew_count(const struct crew *crew);

#endif
