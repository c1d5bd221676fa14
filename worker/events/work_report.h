/* What a worker process did, in numbers: logged and written when it stops. */
#ifndef WORKER_WORK_REPORT_H
#define WORKER_WORK_REPORT_H

#include "base/buffer.h"
#include "redlock/redlock_loop.h"
#include "worker/events/tally.h"

/* What is not about tasks. */
struct report_frame {
    const char *host;
    double seconds;     /* that it lived */
    double cpu_seconds; /* of the process, user and system */
    long pid;
    unsigned threads;
    uint64_t claims, claim_calls, rings, promoted;
    const struct redlock_counters *locks; /* NULL = none */
};

/* One JSON object, on one line. */
void report_write(const struct tally_total *total, const struct report_frame *frame, struct buffer *out);
void report_log(const struct tally_total *total, const struct report_frame *frame);

#endif
