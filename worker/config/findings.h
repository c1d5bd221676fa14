/* What a check found: errors, after which the program must not continue, and warnings. Checks continue after the
 * first error, so that the user sees all problems at once. Keeps at most FINDINGS_MAX texts and counts the rest. A
 * zeroed struct is an empty list. Not thread-safe. */
#ifndef WORKER_FINDINGS_H
#define WORKER_FINDINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"

enum { FINDINGS_MAX = 100 };

struct printer;

struct finding {
    bool is_warning;
    char *text;
};

struct findings {
    struct finding items[FINDINGS_MAX];
    size_t count;            /* of items */
    size_t errors, warnings; /* all of them, including those not kept */
};

void findings_fini(struct findings *findings);
void findings_error(struct findings *findings, const char *format, ...) PRINTF_LIKE(2, 3);
void findings_warn(struct findings *findings, const char *format, ...) PRINTF_LIKE(2, 3);

/* Prints one line for each, "error: ..." or "warning: ...", in the order of discovery. */
void findings_print(const struct findings *findings, FILE *out);
/* What a command prints of them: these lines on standard error, after what it has printed, or the members `errors` and
 * `warnings`. */
void findings_put(const struct findings *findings, struct printer *out);

/* The first kept text that contains `part`, or NULL. */
const char *findings_find(const struct findings *findings, const char *part);

#endif
