/* Results of dry runs that never were, to be written, read, drawn and compared: what a run of that kind could have
 * measured, by the formulas of a queue with one server and some noise. The same every time.
 *
 *     struct result result;
 *     dry_run_sample(SAMPLE_FULL, &result);
 *     ...
 *     result_fini(&result); */
#ifndef SUPPORT_DRY_RUN_SAMPLE_H
#define SUPPORT_DRY_RUN_SAMPLE_H

#include "worker/dry_run/report/result.h"

enum sample_kind {
    SAMPLE_FULL,    /* 100 resources by Zipf's law, two hosts, six nodes, faults, a what-if */
    SAMPLE_EMPTY,   /* nothing ran, nothing is known */
    SAMPLE_ONE,     /* one resource, no lock nodes */
    SAMPLE_MANY,    /* 1,000 resources, an hour */
    SAMPLE_STOPPED, /* interrupted in its third second */
    SAMPLE_HOSTILE, /* every text is one that would break a terminal, a page or JSON */
    SAMPLE_KINDS,
};

/* In every text of SAMPLE_HOSTILE: an escape sequence, an element, a quote, what reorders text. */
#define SAMPLE_HOSTILE_TEXT "\x1b[2J\"><script>alert(1)</script>&'\\\n\xe2\x80\xae%s%n"

void dry_run_sample(enum sample_kind kind, struct result *result);

#endif
