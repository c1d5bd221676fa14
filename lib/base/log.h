/* One line an event, for people and for machines: `TIME LEVEL event key=value key="quoted value"`, or the same as a
 * JSON object: {"time":"...","level":"info","msg":"event","key":17,"key":"value"}.
 *
 * log_event formats into a line of at most LOG_LINE_MAX bytes and puts it into a ring; one log thread writes whole
 * lines with write(2). When the ring is full the line is dropped and counted, and the count is logged as soon as
 * there is room: an unread log never stops a lock. Any thread may log. Values that come from outside go
 * through log_value, so that a task cannot forge a line or colour a terminal (CWE-117).
 *
 *     log_start(&(struct log_options){.level = LOG_INFO, .fd = 2});
 *     log_event(LOG_WARN, "node_down", "node=%s reason=%s", name, log_value(reason, (char[LOG_QUOTE_MAX]){0}));
 *     log_stop();     writes what is still in the ring; waits for a reader for one second at most
 *
 * Before log_start and after log_stop the caller writes its line at once, to standard error. Never pass secrets. If
 * standard error is the journal of systemd, each line begins with its priority: <3> to <7>. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/clock.h"
#include "base/error.h"

/* LOG_NOTHING is above all events: a log of this level is silent. */
enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR, LOG_NOTHING };

enum log_format { LOG_TEXT, LOG_JSON };

enum { LOG_LINE_MAX = 1024, LOG_QUOTE_MAX = 256, LOG_TIME_SIZE = 32, LOG_JSON_MAX = 3 * LOG_LINE_MAX + 64 };

struct log_options {
    enum log_level level;
    enum log_format format;
    int fd;           /* where lines go; 2 = standard error */
    const char *path; /* if set, this file (appended, mode 0640) instead of `fd`; copied */
};

bool log_start(const struct log_options *options, struct error *error) MUST_CHECK;
void log_stop(void);
/* Reopens the log file after it was renamed (logrotate). With `path`, changes to that file; "" is standard error. If
 * the log goes to a descriptor and `path` is NULL, nothing changes. The log thread does it: every line logged before
 * the call goes to the old file, every later one to the new. If the new file cannot be opened, the old one stays in
 * use, and a line says so. Any thread; does not wait. */
void log_reopen(const char *path);
void log_set_level(enum log_level level);
/* The same, unless a level was set before: for a library whose program may log, too. */
void log_suggest_level(enum log_level level);
void log_set_format(enum log_format format);
bool log_is_on(enum log_level level);

/* `event` is a fixed word; the rest are key=value pairs. The level is tested before anything is formatted. */
void log_event(enum log_level level, const char *event, const char *format, ...) PRINTF_LIKE(3, 4);

/* `text` in double quotes with everything but printable ASCII and valid UTF-8 letters escaped, cut to fit
 * LOG_QUOTE_MAX; returns `out`. Words of [A-Za-z0-9._:/@+-] stay bare. NULL is printed as -. For messages. */
const char *log_quote(const char *text, char out[LOG_QUOTE_MAX]);
const char *log_quote_bytes(const char *bytes, size_t length, char out[LOG_QUOTE_MAX]);
/* The same for a value of a pair. A text that looks like a number gets quotes too: bare numbers come from the
 * program. */
const char *log_value(const char *text, char out[LOG_QUOTE_MAX]);
const char *log_value_bytes(const char *bytes, size_t length, char out[LOG_QUOTE_MAX]);

/* As each line begins: 2026-11-23T08:00:27.123Z. Returns `out`. */
const char *log_time(struct wall_time at, char out[LOG_TIME_SIZE]);

/* A line as log_event formats it, without its end, as a JSON object; returns the length. Bare numbers become
 * numbers, a bare - becomes null, and all else becomes the string that log_value was given, with U+FFFD for each
 * byte that is not UTF-8. The values of a repeated key become a list. Keys called time, level or msg get a trailing
 * _. A word without a key gets the key "text". Pure. */
size_t log_json(const char *line, size_t length, char out[LOG_JSON_MAX]);

/* For texts that go to a terminal without quotes: what they obey, and bytes that are not UTF-8, become `?`,
 * in place. Returns `text`. */
char *log_defuse(char *text);

/* Lines dropped since the process began: the ring was full, or the file did not take them. */
unsigned long log_dropped(void);

#endif
