/* How a handler in a runner process reaches its worker: by frames, some of which are answered. */
#ifndef WORKER_RUNNER_LINK_H
#define WORKER_RUNNER_LINK_H

#include "worker/isolation/runner_channel.h"
#include "worker/isolation/runner_message.h"

struct runner_run {
    struct hf_job job; /* its link is runner_link */
    struct runner_order order;
    struct runner_channel *channel;
    int64_t patience_ns;
    pthread_mutex_t asking; /* one question at a time, and its answer */
    int64_t questions;      /* so far: their numbers tell late answers from others */
    int descriptor;         /* that tells the end of the lock; -1 = not asked for yet */
};

extern const struct job_link runner_link;

/* Closes what was asked for during the run. */
void runner_link_end(struct runner_run *run);

#endif
