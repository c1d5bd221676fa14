/* The larger messages between the worker and a runner process, to and from their frames (frame.h). Where a message is
 * read, false means that it is none, and what was filled in is of no use. Texts that are read lie in the frame.
 *
 * Pure; any thread. */
#ifndef WORKER_RUNNER_MESSAGE_H
#define WORKER_RUNNER_MESSAGE_H

#include "worker/isolation/frame.h"
#include "queue/iteration.h"
#include "worker/task/job_host.h"

enum {
    RUNNER_PLUGIN_DESCRIPTOR = 4, /* a runner process is born with the file of its plugin */
    RUNNER_REASON_MAX = 1024,
    RUNNER_FRAME_MAX = 4 << 20, /* the body of what a runner process says */
    RUNNER_SETTINGS_MAX = 1024,
    RUNNER_TEXT_MAX = LOG_QUOTE_MAX - 1, /* of a log line, or a value in one: no more is shown of it */
    RUNNER_FIELDS_MAX = 16,
    RUNNER_WORD_MAX = 64,
};

/* --- HELLO ------------------------------------------------------------------------------------------------------ */

struct runner_hello {
    const char *path;   /* of the plugin, for messages */
    const char *plugin; /* its name */
    const struct config_pairs *settings;
    int64_t patience_ns; /* with a question about the lock */
};
void runner_hello_write(const struct runner_hello *hello, struct buffer *out);
/* `settings` is filled, and the hello points to it; its array is to be freed. */
bool runner_hello_read(const struct frame *frame, struct runner_hello *hello, struct config_pairs *settings) MUST_CHECK;

/* --- RUN -------------------------------------------------------------------------------------------------------- */

struct runner_order {
    unsigned berth;
    uint64_t run;
    enum hf_log_level log_level; /* below that nobody hears it */
    bool has_lock;
    const char *resources[ENVELOPE_RESOURCES_MAX];
};
/* The facts of the job. */
void runner_order_write(const struct runner_order *order, const struct hf_job *job, struct buffer *out);
/* Sets the facts of the job, which point into the frame and into the order. */
bool runner_order_read(const struct frame *frame, struct runner_order *order, struct hf_job *job) MUST_CHECK;

/* --- END -------------------------------------------------------------------------------------------------------- */

struct runner_end {
    uint64_t run;
    bool started;
    int code;
    int64_t memory; /* bytes of the process; -1 = as before */
};
void runner_end_write(const struct runner_end *end, const struct job_outcome *outcome, struct buffer *out);
/* Whatever the frame says, the outcome stays within its limits. It must have been cleared. */
bool runner_end_read(const struct frame *frame, struct runner_end *end, struct job_outcome *outcome) MUST_CHECK;

/* --- LOG and EVENT ---------------------------------------------------------------------------------------------- */

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
