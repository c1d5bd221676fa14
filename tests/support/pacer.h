/* Pushes tasks at a rate, at random moments, for benchmarks of latency. */
#ifndef SUPPORT_PACER_H
#define SUPPORT_PACER_H

#include <stdbool.h>

#include "base/histogram.h"

struct pacer_options {
    unsigned port;
    const char *list; /* "queue:default" */
    unsigned rate;    /* a second, on average; the pauses are random */
    unsigned seconds;
    bool with_resource;   /* each task names one of its own */
    bool takes_them_back; /* by a blocking move on a second connection: what a bare fetch takes */
};

/* Returns when all were pushed (and taken back). `latencies` gets the time from before a push to its arrival, when they
 * are taken back. False when the server failed. */
bool pacer_run(const struct pacer_options *options, struct histogram *latencies);

#endif
