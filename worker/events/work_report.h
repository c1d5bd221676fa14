/* What a worker process did, in numbers: counted on the loop, logged and written when it stops. */
#ifndef WORKER_WORK_REPORT_H
#define WORKER_WORK_REPORT_H

#include "base/buffer.h"
#include "base/clock.h"
#include "base/histogram.h"
#include "redlock/redlock_loop.h"
#include "worker/flow.h"

enum { REPORT_RESOURCE_MAX = 160 };

struct report {
    struct instant started;
    struct instant first_claim, last_ending; /* 0 = none */
    uint64_t endings[FLOW_ENDINGS];          /* a failure that was discarded is among the failed */
    uint64_t runs;
    uint64_t lock_waits;        /* locks whose task had been parked, or that needed more than one pass */
    struct histogram lock_wait; /* from asking to holding, without the time that the task was parked */
    struct histogram hold;      /* of a lock, by its task */
    int64_t held_ns;            /* all holds together */
    struct histogram run;
    int64_t slowest_wait_us;
    char slowest_resource[REPORT_RESOURCE_MAX];
};

void report_lock_hold(struct report *report, int64_t held_ns);
void report_lock_wait(struct report *report, int64_t wait_us, bool had_to_wait, const char *resource);

struct report_frame {
    const char *host;
    double cpu_seconds; /* of the process, user and system */
    long pid;
    unsigned threads;
    uint64_t claims, claim_calls, rings, promoted;
    const struct redlock_counters *locks; /* NULL = none */
};

/* One JSON object, on one line. */
void report_write(const struct report *report, const struct report_frame *frame, struct instant now,
                  struct buffer *out);
void report_log(const struct report *report, const struct report_frame *frame, struct instant now);

#endif
