/* One line of a log (base/log.h) taken apart: `TIME LEVEL event key=value key="quoted value"`, or the same as a JSON
 * object. Bytes that are anything else are refused, never believed; a line that was cut loses the pair that it was cut
 * in. Pure. */
#ifndef WORKER_LOG_LINE_H
#define WORKER_LOG_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

enum { LOG_LINE_PAIRS_MAX = 48, LOG_LINE_BYTES_MAX = 4096 };

struct log_pair {
    const char *key, *value; /* without its quotes; other escapes are left as they are. null is "-" */
};

/* The texts point into `bytes`: it must not be copied. */
struct log_line {
    struct wall_time at;
    const char *level, *event;
    struct log_pair pairs[LOG_LINE_PAIRS_MAX];
    unsigned pair_count;
    bool is_cut; /* by whoever wrote it, or within its last value */
    char bytes[LOG_LINE_BYTES_MAX + 1];
};

/* False when it is no line of a log. `text` has no line end. */
bool log_line_parse(struct log_line *line, const char *text, size_t length);
/* The first value of that key; "" when there is none. */
const char *log_line_value(const struct log_line *line, const char *key);
/* A number with up to 15 digits before the point, in thousandths of its unit; -1 when it is none. */
int64_t log_line_thousandths(const struct log_line *line, const char *key);

/* False when it is no time. */
bool log_line_time(const struct log_line *line, const char *key, struct wall_time *at);

#endif
