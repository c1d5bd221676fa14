/* Reads the logs of worker processes into a history. What it takes from a log:
 *
 *     worker_started identity=HOST:PID:NONCE       whose log it is from here on
 *     task_ended jid= ending= class= resource=     one resource= for each. It has ran_ms= if it ran; and fence= locked=
 *                                                  lock_waited_ms= handed_from= released= held_ms= lost=
 *                                                  refused= if it had a lock
 *     task_started jid= class= resource=           the same, at the level debug: of runs without an end it is all
 *     tasks_summed done= skipped= since= until=    so many have no line of their own
 *     lock_lost owner=HOST:PID:SLOT:JID            write_refused jid= resource= fence= reason=
 *
 * and from lines that a script writes in the same format, into a file of its own:
 *
 *     demo_part title=                             an act of its own begins
 *     demo_mark kind= host= node= resource= text=  something was done to a process or a node
 *     demo_fact name= value= tone=good|bad         what was found out in this act
 *
 * Unknown lines and keys are passed over and counted, broken lines are counted: no log can make the reading fail. One
 * file is one process at a time; rotated pieces of a log are read as one, the oldest first (cat them together).
 *
 *     struct log_reader *reader = log_reader_create(history);
 *     for each file: log_reader_begin(reader, "north.log"); log_reader_line(...) ...; or log_reader_file(reader, ...)
 *     log_reader_finish(reader);        what had no end gets one; then history_order(history)
 *     log_reader_destroy(reader);
 *
 * A hold whose end nobody logged ends when its process was killed, if a demo_mark says that, else with the last line of
 * its process. */
#ifndef WORKER_LOG_READER_H
#define WORKER_LOG_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "worker/history/history.h"

/* One line of a log (base/log.h) taken apart: `TIME LEVEL event key=value key="quoted value"`, or the same as a JSON
 * object. Bytes that are anything else are refused, never believed; a line that was cut loses the pair that it was cut
 * in. Pure. */
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
    bool is_cut; /* by its writer, or within its last value */
    char bytes[LOG_LINE_BYTES_MAX + 1];
};

/* False when it is no line of a log. `text` has no line end. */
bool log_line_parse(struct log_line *line, const char *text, size_t length);
/* The first value of that key; "" when there is none. */
const char *log_line_value(const struct log_line *line, const char *key);
/* A number with up to 15 digits before the point, in thousandths of its unit; -1 when it is none. */
int64_t log_line_thousandths(const struct log_line *line, const char *key);

struct log_reader;

struct log_counts {
    uint64_t lines;
    uint64_t used;
    uint64_t passed_over; /* sound lines about something else */
    uint64_t broken;      /* no line of a log, or without what it must have */
    uint64_t cut;         /* used or passed over, but not complete */
    uint64_t dropped;     /* the log says itself that it lost so many lines */
};

struct log_reader *log_reader_create(struct history *history);
void log_reader_destroy(struct log_reader *reader);

/* A new log. `name` stands for the process until the log names it. */
void log_reader_begin(struct log_reader *reader, const char *name);
void log_reader_line(struct log_reader *reader, const char *text, size_t length);
/* A whole log, from where the file stands. False with the reason when reading it failed; what was read is kept. */
bool log_reader_file(struct log_reader *reader, const char *name, FILE *file, struct error *error) MUST_CHECK;
void log_reader_finish(struct log_reader *reader);

struct log_counts log_reader_counts(const struct log_reader *reader);

#endif
