/* The larger messages between the worker and a runner process, to and from their frames. Where a message is
 * read, false means that it is none, and what was filled in is of no use. Texts that are read lie in the frame.
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

/* What travels between the worker and a runner process: frames, and the numbers and texts in them.
 *
 *     size_t start = frame_begin(&out, FRAME_LOG);
 *     frame_add_number(&out, level);
 *     frame_add_text(&out, text, length);
 *     frame_end(&out, start);
 *
 *     switch (frame_find(bytes, length, limit, &frame, &whole)) ...
 *     struct frame_reader reader = frame_read(&frame);
 *     int64_t level = frame_take_number(&reader, 0, LEVELS - 1);
 *     struct text_span text = frame_take_text(&reader, TEXT_MAX);
 *     if (!frame_is_used_up(&reader)) ... it is no such frame
 *
 * A frame is its length (four bytes, the least significant first; that of the body), its kind (a byte) and the body.
 * A number has eight bytes; a text its length as four, its bytes, and a NUL, so that it can be used where it lies.
 * Both ends are the same program on the same machine, but one of them runs code of strangers: nothing that comes is
 * believed. A reader that met something wrong gives zeros and empty texts from then on, and says so at the end.
 *
 * Pure; any thread. */

enum frame_kind {
    FRAME_HELLO = 1,  /* worker: the plugin to load, its settings */
    FRAME_READY,      /* runner: it is open */
    FRAME_REFUSED,    /* runner: it is not, and why */
    FRAME_RUN,        /* worker: a task */
    FRAME_END,        /* runner: what came of it */
    FRAME_LOG,        /* runner, during a run, as what follows */
    FRAME_EVENT,      /* a log line with fields */
    FRAME_PROGRESS,   /* how far the handler is */
    FRAME_VERIFY,     /* is the lock still held? */
    FRAME_VERIFIED,   /* worker: the answer */
    FRAME_DESCRIPTOR, /* a descriptor that tells the end of the lock, please */
    FRAME_DESCRIBED,  /* worker: it comes along, or there is none */
    FRAME_BYE,        /* worker: close the plugin and end */
    FRAME_KINDS
};

enum { FRAME_HEAD_BYTES = 5 };

struct frame {
    enum frame_kind kind;
    const char *body;
    size_t length;
};

/* --- writing ------------------------------------------------------------------------------------------------------ */

/* Where the frame begins in `out`, for frame_end. */
size_t frame_begin(struct buffer *out, enum frame_kind kind);
void frame_end(struct buffer *out, size_t start);
void frame_add_number(struct buffer *out, int64_t number);
/* Without NUL inside, or it will not be read. */
void frame_add_text(struct buffer *out, const char *bytes, size_t length);
/* Cut behind `longest` bytes. */
void frame_add_string(struct buffer *out, const char *text, size_t longest);

/* --- reading ------------------------------------------------------------------------------------------------------ */

enum frame_found {
    FRAME_WHOLE,
    FRAME_PART,   /* more bytes have to come */
    FRAME_BROKEN, /* it is none, or longer than it may be */
};

/* The frame at the front of `bytes`, whose body may have up to `limit` bytes. `whole` is set to the bytes that it has
 * with its head, and to those of the head as long as that is incomplete. */
enum frame_found frame_find(const char *bytes, size_t length, size_t limit, struct frame *frame, size_t *whole);

struct frame_reader {
    const char *at;
    size_t left;
    bool is_broken;
};

struct frame_reader frame_read(const struct frame *frame);
/* `least` and `is_broken` when it is outside of the bounds. */
int64_t frame_take_number(struct frame_reader *reader, int64_t least, int64_t most);
bool frame_take_flag(struct frame_reader *reader);
/* At most `longest` bytes; NUL-terminated, without another NUL; "" and `is_broken` when it is not. */
struct text_span frame_take_text(struct frame_reader *reader, size_t longest);
const char *frame_take_string(struct frame_reader *reader, size_t longest);
/* True when all was there as it should be, and nothing else. */
bool frame_is_used_up(const struct frame_reader *reader);

/* --- messages ----------------------------------------------------------------------------------------------------- */

enum {
    RUNNER_PLUGIN_DESCRIPTOR = 4, /* a runner process starts with the file of its plugin */
    RUNNER_REASON_MAX = 1024,
    RUNNER_FRAME_MAX = 4 << 20, /* the body of what a runner process says */
    RUNNER_SETTINGS_MAX = 1024,
    RUNNER_TEXT_MAX = LOG_QUOTE_MAX - 1, /* of a log line, or a value in one: no more is shown of it */
    RUNNER_FIELDS_MAX = 16,
    RUNNER_WORD_MAX = 64,
};

/* --- HELLO -------------------------------------------------------------------------------------------------------- */

struct runner_hello {
    const char *path;   /* of the plugin, for messages */
    const char *plugin; /* its name */
    const struct config_pairs *settings;
    int64_t patience_ns; /* with a question about the lock */
};
void runner_hello_write(const struct runner_hello *hello, struct buffer *out);
/* `settings` is filled, and the hello points to it; its array is to be freed. */
bool runner_hello_read(const struct frame *frame, struct runner_hello *hello, struct config_pairs *settings) MUST_CHECK;

/* --- RUN ---------------------------------------------------------------------------------------------------------- */

struct runner_order {
    unsigned run_entry;
    uint64_t run;
    enum hf_log_level log_level; /* below that nobody hears it */
    bool has_lock;
    const char *resources[ENVELOPE_RESOURCES_MAX];
};
/* The facts of the job. */
void runner_order_write(const struct runner_order *order, const struct hf_job *job, struct buffer *out);
/* Sets the facts of the job, which point into the frame and into the order. */
bool runner_order_read(const struct frame *frame, struct runner_order *order, struct hf_job *job) MUST_CHECK;

/* --- END ---------------------------------------------------------------------------------------------------------- */

struct runner_end {
    uint64_t run;
    bool started;
    int code;
    int64_t memory; /* bytes of the process; -1 = as before */
};
void runner_end_write(const struct runner_end *end, const struct job_outcome *outcome, struct buffer *out);
/* Whatever the frame says, the outcome stays within its limits. It must have been cleared. */
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
