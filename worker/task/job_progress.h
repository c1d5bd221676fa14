/* What a running handler has reached, on its way from the runner to the loop: the latest text, under a lock that is
 * held for one copy. The loop takes it every few seconds; texts in between are overwritten. */
#ifndef WORKER_JOB_PROGRESS_H
#define WORKER_JOB_PROGRESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "queue/iteration.h"

struct job_progress {
    pthread_mutex_t mutex;
    char text[ITERATION_BYTES_MAX];
    size_t length;
    bool is_new;
    char *loaded; /* what an earlier run left; NULL = nothing. Set while no handler runs */
};

void job_progress_init(struct job_progress *progress);
void job_progress_fini(struct job_progress *progress);
/* Loop thread, before a run: forgets the run before. `cursor` may be NULL. */
void job_progress_start(struct job_progress *progress, const char *cursor, size_t length);
/* Runner. False when the text is no JSON or too long: nothing is changed. */
bool job_progress_put(struct job_progress *progress, const char *json);
/* Loop thread. Copies what is new since the last time; false when nothing is. */
bool job_progress_take(struct job_progress *progress, char text[ITERATION_BYTES_MAX], size_t *length);

#endif
