/* Parses and writes tasks: a task is one JSON object in the Sidekiq job format.
 *
 * The envelope never rewrites `args`, because no C library keeps the integers of forty digits and the reals that
 * producers send: writing splices the text around them. envelope_parse checks the whole text without recursion against
 * the JSON grammar and the limits (size, depth, number of keys, UTF-8, no duplicate top-level members). It records the
 * byte span of every top-level member. The spans point into the caller's text.
 *
 * Accepted, because producers send it: timestamps that are missing, strings or milliseconds; `retry` as a bool, null, a
 * number or a string; a missing, null or empty jid or queue; a `resource` that is null or an empty list. An unreadable
 * member that only controls how the task is treated (retry_for, expires_in, hf_unique, ...) counts as absent. Refused,
 * with a reason: no `class`; `args` that is no array; a jid that is not a string of printable ASCII; a `resource` that
 * is neither a string of 1 to 512 bytes without NUL nor a list of 1 to 16 such strings, or that begins with "hf:".
 *
 * The limits apply to what producers wrote. Members that workers add (about failures and moves) do not count, up to 64
 * KiB each: so a task at every limit remains readable after workers have added to it.
 *
 * Pure, except that a new jid comes from the kernel's randomness; any thread. */
#ifndef QUEUE_ENVELOPE_H
#define QUEUE_ENVELOPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/error.h"
#include "queue/json.h"

enum {
    ENVELOPE_RESOURCES_MAX = 16,
    ENVELOPE_RESOURCE_BYTES_MAX = 512,
    ENVELOPE_LIST_BYTES_MAX = 9 + ENVELOPE_RESOURCE_BYTES_MAX, /* "resource:" and a resource */
    ENVELOPE_CLASS_BYTES_MAX = 256,
    ENVELOPE_QUEUE_BYTES_MAX = 128,
    ENVELOPE_JID_BYTES_MAX = 128,
    ENVELOPE_TRACE_BYTES = 55,
    ENVELOPE_MEMBERS_MAX = 64,          /* top-level members of a producer */
    ENVELOPE_OWN_MEMBERS = 14,          /* those that workers add; they do not count */
    ENVELOPE_OWN_BYTES_MAX = 64 << 10,  /* of each of them, with its name: a longer one counts */
    ENVELOPE_MEMBER_NAME_MAX = 1024,    /* bytes of a top-level name as written */
    ENVELOPE_RETRIES_DEFAULT = 25,      /* when `retry` names no number */
    ENVELOPE_RETRIES_MAX = 1000 * 1000, /* larger numbers are lowered to it */
    ENVELOPE_UNIQUE_DIGITS = 40,
    ENVELOPE_BACKTRACE_ALL = 100 /* lines of `backtrace`: true; more are never kept */
};

struct envelope_member {
    struct text_span name;  /* without quotes, as written (escapes not undone) */
    struct text_span value; /* the raw JSON value */
};

/* `texts` holds the unescaped strings; the envelope owns it. */
struct envelope {
    struct text_span text; /* the whole task, the caller's bytes */
    struct envelope_member members[ENVELOPE_MEMBERS_MAX + ENVELOPE_OWN_MEMBERS];
    size_t member_count;

    const char *class_name;                        /* NUL-terminated, in `texts` */
    const char *jid;                               /* "" when absent */
    const char *queue;                             /* "" when absent */
    struct text_span args;                         /* raw JSON array */
    const char *resources[ENVELOPE_RESOURCES_MAX]; /* sorted by bytes, without duplicates */
    unsigned resource_count;

    /* How the task wants its failures treated. `retry` null means false, as in Ruby. `retry` true, or any other
     * value that is neither a number nor false, means the default of the class, as if it were absent. */
    bool retry_off;          /* retry is false, "false" or null */
    bool retry_counted;      /* retry is an integer (3, "3"): retry_max is the task's own */
    unsigned retry_max;      /* that integer, else 25; 0 = the first failure is final */
    bool was_retried;        /* retry_count is an integer: the task failed before */
    int retry_count;         /* negative after retries by hand, each of which subtracts one */
    int64_t retry_for_us;    /* -1 = not given */
    const char *retry_queue; /* "" = none, or none that could be a queue */
    bool dead_off;           /* "dead": false */
    bool backtrace_given;    /* `backtrace` is present and not null */
    unsigned backtrace;      /* lines to keep: 0 = none */

    /* Times; 0 = missing or unreadable. */
    struct wall_time created_at, enqueued_at, failed_at, at, expires_at;
    struct wall_time parked_at;   /* hf_parked: when it began to wait for its lock */
    struct wall_time unserved_at; /* hf_unserved_at: when a process that does not serve its class first took it */
    int64_t expires_in_us;        /* 0 = not given */

    const char *unique;           /* hf_unique: 40 hexadecimal digits; "" = none, or no such digest */
    struct text_span traceparent; /* as it is written: see envelope_traceparent */
    const char *list;             /* hf_list: the waiting list in which it was parked last; "" = none, or invalid */
    bool has_batch;               /* `bid`: it belongs to a batch, which only Sidekiq's own workers can count down */
    bool is_encrypted;            /* `encrypt`: its last argument is encrypted with a key that we do not have */

    /* Why retry_queue or hf_unique was ignored, a constant text; NULL = neither was. */
    const char *ignored;

    struct buffer texts;
};

/* False with a reason if `text` is not a task. `envelope` is zeroed or was used before (its buffer is reused);
 * envelope_fini frees it. `text` must outlive the use of the envelope. */
bool envelope_parse(struct envelope *envelope, const char *text, size_t length, const struct envelope_limits *limits,
                    struct error *error) MUST_CHECK;
void envelope_fini(struct envelope *envelope);
/* Keeps a list sorted, so that all tasks lock in one order, and each resource once. The list has room for one more. */
void envelope_resource_insert(const char **resources, unsigned *count, const char *resource);

/* Whether a text is a traceparent of W3C Trace Context, as version 00 has it: 00-TRACE-SPAN-FLAGS in hexadecimal. */
bool traceparent_is_sound(const char *text, size_t length);
/* That of the task; "" if it has none, or one that is not sound. */
void envelope_traceparent(const struct envelope *envelope, char traceparent[ENVELOPE_TRACE_BYTES + 1]);
/* The attempt number for the handler: see jobs/job.h. */
unsigned envelope_attempt(const struct envelope *envelope);
/* The time after which the task must not start, 0 = none. A task that was started before no longer expires. Else
 * expires_at; else created_at (or enqueued_at) + expires_in; without either, enqueued_at (or created_at) +
 * `class_us`, the default of its class (0 = none). */
struct wall_time envelope_expiry(const struct envelope *envelope, int64_t class_us);
/* The expires_at for an entry of `schedule` that is due at `due`; 0 = none. */
struct wall_time envelope_expiry_when_due(const struct envelope *envelope, struct wall_time due);

/* Appends the queue that a text names, even if the text is no task. False if it is no JSON object or names no queue
 * as a string. */
bool envelope_find_queue(const char *text, size_t length, struct buffer *out);

/* --- writing ------------------------------------------------------------------------------------------------ */

/* One top-level member to set: the raw JSON value, or value.bytes == NULL to remove it. */
struct envelope_change {
    const char *name; /* needs no escapes */
    struct text_span value;
};

/* Writes the task with the changes: existing members keep their position and bytes, new ones come last, white space
 * between members is dropped. Each change names another member. Later parses count added members unless they are
 * among those that workers add. */
void envelope_rewrite(const struct envelope *envelope, const struct envelope_change *changes, size_t count,
                      struct buffer *out);

/* A new task for push. The caller has checked the JSON texts `args` and `resources_json` (NULL = none). */
struct envelope_draft {
    const char *class_name;
    const char *queue;
    struct text_span args;
    struct text_span resources_json; /* a JSON string or array of strings */
    const char *jid;                 /* NULL: a new one is drawn */
    bool retry_off;
};
void envelope_write(const struct envelope_draft *draft, struct wall_time now, struct buffer *out);

/* The entry of `retry` or `dead` for a task: its own text with the members of this failure, all of which dashboards
 * read, and without those of earlier failures. */
struct envelope_failure {
    const char *queue, *jid, *error_class;
    struct text_span error_message;
    bool counts;                  /* it uses up a retry; otherwise the record of earlier failures stays */
    bool is_final;                /* the record goes to `dead` */
    struct wall_time expires_at;  /* of a task that has never been started; 0 = none. Omitted in `dead` */
    struct text_span backtrace;   /* the value of error_backtrace; bytes == NULL: none */
    const char *fence;            /* the token that the run had; "" = none */
    struct wall_time unserved_at; /* 0 = its class is served. Omitted in `dead` */
    bool keep_ms;                 /* times that are integers of milliseconds stay so */
};
void envelope_write_failure(const struct envelope *envelope, const struct envelope_failure *failure,
                            struct wall_time now, struct buffer *out);

/* The entry of `dead` for a text that is not a task, which dashboards can list: an object of class "hf.invalid"
 * whose only argument is the raw text, with the reason. The member `encoding` says "text", or "base64" when the raw
 * text is not UTF-8 or holds NUL. */
void envelope_write_invalid(const char *text, size_t length, const char *queue, const char *reason,
                            struct wall_time now, struct buffer *out);
/* Appends the raw text of such a record, byte for byte. No limits apply to `record`: its text may exceed them. */
bool envelope_recover_invalid(const char *record, size_t length, struct buffer *out, struct error *error) MUST_CHECK;

/* Whether the text is a valid jid: 1 to 128 printable ASCII characters, because jids go into lock values and log
 * lines. */
bool envelope_jid_is_sound(const char *text, size_t length);
/* 24 random hexadecimal digits, NUL-terminated. */
enum { ENVELOPE_NEW_JID_SIZE = 25 };
void envelope_new_jid(char jid[ENVELOPE_NEW_JID_SIZE]);

/* Appends seconds to the microsecond, in the shortest form with a point: 1795194374.5 */
void envelope_append_time(struct buffer *out, struct wall_time time);
/* The same, replacing `former`, the member's old value (bytes == NULL: none). With `keep_ms`, an integer of
 * milliseconds, which newer producers write, stays one. */
void envelope_append_time_like(struct buffer *out, struct wall_time time, struct text_span former, bool keep_ms);
/* The raw value of a top-level member; bytes == NULL if there is none. */
struct text_span envelope_member_value(const struct envelope *envelope, const char *name);
/* A JSON string with quotes; invalid UTF-8 is replaced by U+FFFD. */
void envelope_append_string(struct buffer *out, const char *bytes, size_t length);

#endif
