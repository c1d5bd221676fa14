/* One line an event, for people and for machines: `TIME LEVEL event key=value key="quoted value"`.
 *
 * log_event formats into a line of at most LOG_LINE_MAX bytes and puts it into a ring; one log thread writes whole
 * lines with write(2). When the ring is full the line is dropped and counted, and the count is logged as soon as
 * there is room: a log that nobody reads never stops a lock. Any thread may log. Values that come from outside go
 * through log_quote, so that a task cannot forge a line or colour a terminal (CWE-117).
 *
 *     log_start(&(struct log_options){.level = LOG_INFO, .fd = 2});
 *     log_event(LOG_WARN, "node_down", "node=%s reason=%s", name, log_quote(reason, (char[LOG_QUOTE_MAX]){0}));
 *     log_stop();     writes what is still in the ring, for at most one second
 *
 * Before log_start and after log_stop lines are written at once by the caller, to standard error. Secrets are never
 * passed in. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* LOG_NOTHING is above all events: as the level of the log it silences it. */
enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR, LOG_NOTHING };

enum { LOG_LINE_MAX = 1024, LOG_QUOTE_MAX = 256 };

struct log_options {
    enum log_level level;
    int fd;           /* where lines go; 2 = standard error */
    const char *path; /* if set, this file (appended, mode 0640) instead of `fd`; copied */
};

bool log_start(const struct log_options *options, struct error *error) MUST_CHECK;
void log_stop(void);
/* Opens the log file again, for whoever moved the old one away (logrotate), or goes on in another file when `path` is
 * set (which becomes the one to open again; "" is standard error). A log that goes to a descriptor stays there when
 * `path` is NULL. The log thread does it: every line logged before the call goes to the old file, every later one to
 * the new. When that cannot be opened the old one stays in use and gets a line that says so. Any thread; does not
 * wait. */
void log_reopen(const char *path);
void log_set_level(enum log_level level);
bool log_is_on(enum log_level level);
bool log_level_parse(const char *name, enum log_level *level); /* "debug", "info", "warn", "error" */

/* `event` is a fixed word; the rest are key=value pairs. The level is tested before anything is formatted. */
void log_event(enum log_level level, const char *event, const char *format, ...) PRINTF_LIKE(3, 4);

/* `text` in double quotes with everything but printable ASCII and valid UTF-8 letters escaped, cut to fit
 * LOG_QUOTE_MAX; returns `out`. Words of [A-Za-z0-9._:/@+-] stay bare. NULL is printed as -. */
const char *log_quote(const char *text, char out[LOG_QUOTE_MAX]);
const char *log_quote_bytes(const char *bytes, size_t length, char out[LOG_QUOTE_MAX]);

/* For texts that go to a terminal without quotes: control characters become `?`, in place. Returns `text`. */
char *log_defuse(char *text);

/* Lines dropped since the process began: the ring was full, or the file did not take them. */
unsigned long log_dropped(void);

#endif
