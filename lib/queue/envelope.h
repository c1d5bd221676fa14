/* A task as it travels: one JSON object in the Sidekiq job format, and where its members are.
 *
 * The envelope never copies or rewrites `args`: producers in ten languages send integers of forty digits and reals
 * that no C library keeps, so the text is only ever spliced around. envelope_parse checks the whole text against the
 * JSON grammar and the limits (size, depth, number of keys, UTF-8, no duplicate top-level members) without recursion,
 * and records the byte span of every top-level member. The spans point into the caller's text.
 *
 * Tolerated, because it exists in the wild: missing or string or millisecond timestamps; `retry` as a bool, null, a
 * number or a string; missing, null or empty jid or queue; `resource` null or an empty list. A member that only says
 * how the task is to be treated (retry_for, expires_in, hf_unique, ...) and cannot be read counts as absent. Refused,
 * with a reason: no `class`, `args` not an array, a jid that is not a string of printable ASCII, a `resource` that is
 * not a string of 1 to 512 bytes without NUL or a list of 1 to 16 such strings, or one that begins with "hf:".
 *
 * The limits are for what producers wrote. Members that a worker adds while a task travels (a failure's, the times of
 * its moves) do not count, up to 64 KiB each: whatever a worker wrote about a task can be read again, also about one
 * that has used up every limit.
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
    ENVELOPE_LINE_BYTES_MAX = 9 + ENVELOPE_RESOURCE_BYTES_MAX, /* "resource:" and a resource */
    ENVELOPE_CLASS_BYTES_MAX = 256,
    ENVELOPE_QUEUE_BYTES_MAX = 128,
    ENVELOPE_JID_BYTES_MAX = 128,
    ENVELOPE_MEMBERS_MAX = 64,          /* top-level members of a producer */
    ENVELOPE_OWN_MEMBERS = 14,          /* those that workers add; they do not count */
    ENVELOPE_OWN_BYTES_MAX = 64 << 10,  /* of each of them, with its name: what is longer counts */
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

/* Strings that are needed as strings are unescaped into `texts`, which the envelope owns. */
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

    /* What the task says about its failures. `retry` true, or anything else that is no number and neither false nor
     * null, means "as usual for its class", as if it were absent; null means false, as it does to Ruby. */
    bool retry_off;          /* retry is false, "false" or null */
    bool retry_counted;      /* retry is an integer (3, "3"): retry_max is the task's own */
    unsigned retry_max;      /* that integer, else 25; 0 = dead at the first failure */
    bool was_retried;        /* retry_count is present and an integer: the task failed before */
    int retry_count;         /* below zero after a retry by hand, which takes one from it */
    int64_t retry_for_us;    /* -1 = not given */
    const char *retry_queue; /* "" = none, or none that could be a queue */
    bool dead_off;           /* "dead": false */
    bool backtrace_given;    /* `backtrace` is there and not null */
    unsigned backtrace;      /* lines to keep: 0 = none */

    /* Times; 0 = missing, or nothing that can be read as one. */
    struct wall_time created_at, enqueued_at, failed_at, at, expires_at;
    struct wall_time parked_at;   /* hf_parked: since when it waits for its lock */
    struct wall_time unserved_at; /* hf_unserved_at: when a process that does not serve its class took it first */
    int64_t expires_in_us;        /* 0 = not given */

    const char *unique; /* hf_unique: 40 hexadecimal digits; "" = none, or no such digest */
    const char *line;   /* hf_line: the waiting list in which it was parked last; "" = none, or no such name */
    bool has_batch;     /* `bid`: it belongs to a batch, which only its own kind of worker can count down */
    bool is_encrypted;  /* `encrypt`: its last argument can only be read with a key that is not ours */

    /* Why retry_queue or hf_unique was ignored, NULL = neither was: a constant text. */
    const char *ignored;

    struct buffer texts;
};

/* False with a reason when `text` is not a task. `envelope` must be zeroed or used before (its buffer is reused);
 * envelope_fini frees it. `text` must stay as long as the envelope is used. */
bool envelope_parse(struct envelope *envelope, const char *text, size_t length, const struct envelope_limits *limits,
                    struct error *error) MUST_CHECK;
void envelope_fini(struct envelope *envelope);

/* What a handler hears as its attempt: see jobs/job.h. */
unsigned envelope_attempt(const struct envelope *envelope);
/* When the task is too late to be started, 0 = never. A task that was started before no longer expires. Else
 * expires_at, else created_at (or enqueued_at) + expires_in; when it says neither, enqueued_at (or created_at) +
 * `class_us`, what is usual for its class (0 = nothing). */
struct wall_time envelope_expiry(const struct envelope *envelope, int64_t class_us);
/* The expires_at that an entry of `schedule` gets when it becomes due at `due`; 0 = none. */
struct wall_time envelope_expiry_when_due(const struct envelope *envelope, struct wall_time due);

/* The queue that a text names which may be no task: false when it is no JSON object, or names none that is a string.
 * Appended to `out`. */
bool envelope_find_queue(const char *text, size_t length, struct buffer *out);

/* --- writing ------------------------------------------------------------------------------------------------ */

/* One top-level member to set: the raw JSON value, or value.bytes == NULL to remove it. */
struct envelope_change {
    const char *name; /* needs no escapes */
    struct text_span value;
};

/* Writes the task with the changes made: existing members keep their place and their bytes, new ones are added at
 * the end, white space between members is dropped. The changes are to different members. Added members count in later
 * parses unless they are among those that workers add. */
void envelope_rewrite(const struct envelope *envelope, const struct envelope_change *changes, size_t count,
                      struct buffer *out);

/* A new task for push. `args` and `resources_json` are JSON texts that were checked; NULL resources_json = none. */
struct envelope_draft {
    const char *class_name;
    const char *queue;
    struct text_span args;
    struct text_span resources_json; /* a JSON string or array of strings */
    const char *jid;                 /* NULL: a new one is drawn */
    bool retry_off;
};
void envelope_write(const struct envelope_draft *draft, struct wall_time now, struct buffer *out);

/* What is put into `retry` or `dead` for a task: its own text with the members of a failure, all of which dashboards
 * read, and without those of earlier ones. */
struct envelope_failure {
    const char *queue, *jid, *error_class;
    struct text_span error_message;
    bool counts;                  /* it uses up a retry; otherwise what the task says of its failures stays */
    bool is_final;                /* the record goes to `dead` */
    struct wall_time expires_at;  /* of a task that has never been started; 0 = none. In `dead` it is not written */
    struct text_span backtrace;   /* the value of error_backtrace; bytes == NULL: none */
    const char *fence;            /* the token that the run had; "" = none */
    struct wall_time unserved_at; /* 0 = its class is served. In `dead` it is not written */
    bool keep_ms;                 /* times that came as integers of milliseconds stay such */
};
void envelope_write_failure(const struct envelope *envelope, const struct envelope_failure *failure,
                            struct wall_time now, struct buffer *out);

/* What is put into `dead` for a text that is not a task, so that dashboards can list it: an object of class
 * "hf.invalid" whose only argument is the raw text, with the reason. The member `encoding` says "text", or "base64"
 * when the raw text is not UTF-8 or holds NUL. */
void envelope_write_invalid(const char *text, size_t length, const char *queue, const char *reason,
                            struct wall_time now, struct buffer *out);
/* Appends the raw text that such a record was made of, byte for byte. `record` is not bound by limits: it holds a
 * text that broke them, perhaps. */
bool envelope_recover_invalid(const char *record, size_t length, struct buffer *out, struct error *error) MUST_CHECK;

/* Whether it can be a jid: 1 to 128 printable ASCII characters. They are written into lock values and log lines. */
bool envelope_jid_is_sound(const char *text, size_t length);
/* 24 random hexadecimal digits, NUL-terminated. */
enum { ENVELOPE_NEW_JID_SIZE = 25 };
void envelope_new_jid(char jid[ENVELOPE_NEW_JID_SIZE]);

/* Seconds with microseconds, shortest form and always with a point: 1795194374.5 */
void envelope_append_time(struct buffer *out, struct wall_time time);
/* The same in the place of `former`, the value that the member had (bytes == NULL: it is new). With `keep_ms` an
 * integer of milliseconds, which newer producers write, stays one. */
void envelope_append_time_like(struct buffer *out, struct wall_time time, struct text_span former, bool keep_ms);
/* The raw value of a top-level member; bytes == NULL when there is none. */
struct text_span envelope_member_value(const struct envelope *envelope, const char *name);
/* A JSON string with quotes; invalid UTF-8 is replaced by U+FFFD. */
void envelope_append_string(struct buffer *out, const char *bytes, size_t length);

#endif
