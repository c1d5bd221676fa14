/* Encodes and decodes the larger messages between the worker and a runner process. Reading returns false if the frame
 * is no such message; the output is undefined then. Texts point into the frame.
 *
 * Pure; any thread. */
#ifndef WORKER_RUNNER_MESSAGE_H
#define WORKER_RUNNER_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "queue/iteration.h"
#include "queue/json.h"
#include "worker/task/job_host.h"

/* --- frames ------------------------------------------------------------------------------------------------------- */

/* Frames between the worker and a runner process, and the numbers and texts in them.
 *
 *     size_t start = frame_begin(&out, FRAME_LOG);
 *     frame_add_number(&out, level);
 *     frame_add_text(&out, text, length);
 *     frame_end(&out, start);
 *
 *     switch (frame_find(bytes, length, limit, &frame, &whole)) ... struct frame_reader reader = frame_read(&frame);
 *     int64_t level = frame_take_number(&reader, 0, LEVELS - 1); struct text_span text = frame_take_text(&reader,
 *     TEXT_MAX); if (!frame_is_used_up(&reader)) ... the frame is invalid
 *
 * A frame is the length of its body (four bytes, the least significant first), its kind (a byte) and the body. A number
 * has eight bytes. A text has its length in four bytes, its bytes, and a NUL, so that it can be used in place. Both
 * ends are the same program on the same machine, but one of them runs plugins, so the other trusts nothing that it
 * receives. After an error a reader returns zeros and empty texts, and reports the error at the end.
 *
 * Pure; any thread. */

enum frame_kind {
    FRAME_HELLO = 1,  /* worker: the plugin to load, its settings */
    FRAME_READY,      /* runner: the plugin is open */
    FRAME_REFUSED,    /* runner: the plugin is not open, and why */
    FRAME_RUN,        /* worker: a task */
    FRAME_END,        /* runner: the outcome */
    FRAME_LOG,        /* runner, during a run, as the next five */
    FRAME_EVENT,      /* a log line with fields */
    FRAME_PROGRESS,   /* the progress of the handler */
    FRAME_VERIFY,     /* is the lock still held? */
    FRAME_VERIFIED,   /* worker: the answer */
    FRAME_DESCRIPTOR, /* requests a descriptor that signals the end of the lock */
    FRAME_DESCRIBED,  /* worker: with the descriptor, if there is one */
    FRAME_BYE,        /* worker: close the plugin and exit */
    FRAME_KINDS
};

enum { FRAME_HEAD_BYTES = 5 };

struct frame {
    enum frame_kind kind;
    const char *body;
    size_t length;
};

/* --- writing ------------------------------------------------------------------------------------------------------ */

/* Returns the offset of the frame in `out`, for frame_end. */
size_t frame_begin(struct buffer *out, enum frame_kind kind);
void frame_end(struct buffer *out, size_t start);
void frame_add_number(struct buffer *out, int64_t number);
/* The text must not contain a NUL: readers refuse it. */
void frame_add_text(struct buffer *out, const char *bytes, size_t length);
/* Cuts the text to `longest` bytes. */
void frame_add_string(struct buffer *out, const char *text, size_t longest);

/* --- reading ------------------------------------------------------------------------------------------------------ */

enum frame_found {
    FRAME_WHOLE,
    FRAME_PART,   /* incomplete */
    FRAME_BROKEN, /* no frame, or too long */
};

/* Finds the frame at the front of `bytes`, whose body may have up to `limit` bytes. Sets `whole` to the size of the
 * frame with its head, or of the head alone while that is incomplete. */
enum frame_found frame_find(const char *bytes, size_t length, size_t limit, struct frame *frame, size_t *whole);

struct frame_reader {
    const char *at;
    size_t left;
    bool is_broken;
};

struct frame_reader frame_read(const struct frame *frame);
/* Returns `least` and sets `is_broken` if the number is out of bounds. */
int64_t frame_take_number(struct frame_reader *reader, int64_t least, int64_t most);
bool frame_take_flag(struct frame_reader *reader);
/* Takes at most `longest` bytes, NUL-terminated, without another NUL. Otherwise returns "" and sets `is_broken`. */
struct text_span frame_take_text(struct frame_reader *reader, size_t longest);
const char *frame_take_string(struct frame_reader *reader, size_t longest);
/* True if the frame was valid and nothing follows. */
bool frame_is_used_up(const struct frame_reader *reader);

/* --- messages ----------------------------------------------------------------------------------------------------- */

enum {
    RUNNER_PLUGIN_DESCRIPTOR = 4, /* the plugin's file, open from the start of a runner process */
    RUNNER_REASON_MAX = 1024,
    RUNNER_FRAME_MAX = 4 << 20, /* the largest body from a runner process */
    RUNNER_SETTINGS_MAX = 1024,
    RUNNER_TEXT_MAX = LOG_QUOTE_MAX - 1,    /* of a log line or a value in it; the log shows no more */
    RUNNER_FIELDS_MAX = JOB_FIELDS_MAX + 1, /* with the count of those that were left out */
    RUNNER_WORD_MAX = 64,
};

/* --- HELLO -------------------------------------------------------------------------------------------------------- */

struct runner_hello {
    const char *path;   /* of the plugin, for error messages */
    const char *plugin; /* its name */
    const struct config_pairs *settings;
    int64_t patience_ns; /* for the answer to a question about the lock */
};
void runner_hello_write(const struct runner_hello *hello, struct buffer *out);
/* Fills `settings`, to which `hello` points; the caller frees its array. */
bool runner_hello_read(const struct frame *frame, struct runner_hello *hello, struct config_pairs *settings) MUST_CHECK;

/* --- RUN ---------------------------------------------------------------------------------------------------------- */

struct runner_order {
    unsigned run_entry;
    uint64_t run;
    enum hf_log_level log_level; /* the log shows nothing below it */
    bool has_lock;
    bool measures_memory; /* the worker wants to know how much the process has */
    const char *resources[ENVELOPE_RESOURCES_MAX];
};
/* Writes the order and the facts of the job. */
void runner_order_write(const struct runner_order *order, const struct hf_job *job, struct buffer *out);
/* Sets the facts of the job; they point into the frame and the order. */
bool runner_order_read(const struct frame *frame, struct runner_order *order, struct hf_job *job) MUST_CHECK;

/* --- END ---------------------------------------------------------------------------------------------------------- */

struct runner_end {
    uint64_t run;
    bool started;
    int code;
    int64_t memory; /* bytes of the process; -1 = not measured */
};
void runner_end_write(const struct runner_end *end, const struct job_outcome *outcome, struct buffer *out);
/* The outcome stays within its limits, whatever the frame says. The caller clears it first. */
bool runner_end_read(const struct frame *frame, struct runner_end *end, struct job_outcome *outcome) MUST_CHECK;

/* --- LOG and EVENT ------------------------------------------------------------------------------------------------ */

struct runner_event {
    enum hf_log_level level;
    const char *name;
    hf_field fields[RUNNER_FIELDS_MAX];
    size_t count;
};
void runner_log_write(enum hf_log_level level, const char *text, struct buffer *out);
bool runner_log_read(const struct frame *frame, enum hf_log_level *level, const char **text) MUST_CHECK;
void runner_event_write(enum hf_log_level level, const char *name, const hf_field *fields, size_t count,
                        struct buffer *out);
bool runner_event_read(const struct frame *frame, struct runner_event *event) MUST_CHECK;

#endif
