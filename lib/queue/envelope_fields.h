/* Reading the members that say how a task is to be treated, in every form that producers write; private to
 * lib/queue. A raw value that is absent has bytes == NULL; the values given have been checked by the scanner. Pure; any
 * thread. */
#ifndef QUEUE_ENVELOPE_FIELDS_H
#define QUEUE_ENVELOPE_FIELDS_H

#include "queue/envelope.h"

static inline bool envelope_span_is(struct text_span span, const char *text)
{
    return span.length == strlen(text) && memcmp(span.bytes, text, span.length) == 0;
}

/* Absent, or null, which producers write for "not set". */
static inline bool envelope_is_unset(struct text_span value)
{
    return value.bytes == NULL || envelope_span_is(value, "null");
}

/* Neither unset nor false. */
bool envelope_is_truthy(struct text_span value);
/* Sets retry_off, retry_counted, retry_max, was_retried and retry_count. */
void envelope_retry_read(struct envelope *envelope, struct text_span retry, struct text_span retry_count);
/* Seconds (60, 0.5, "60") in microseconds; -1 when it is nothing like it or negative. */
int64_t envelope_seconds_read(struct text_span value);
/* A point in time: seconds, or milliseconds when it is 1e11 or more, as a number or as a string of one. */
struct wall_time envelope_time_read(struct text_span value);
unsigned envelope_backtrace_read(struct text_span value);

#endif
