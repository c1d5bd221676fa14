/* A host for one job plugin, without a worker: what the handler reads comes from struct hf_job, which the test
 * fills, and what it reports ends there. The plugin is the real .so of the build tree. */
#ifndef SUPPORT_FAKE_HOST_H
#define SUPPORT_FAKE_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/job.h"

enum { FAKE_ARGS_MAX = 8, FAKE_SETTINGS_MAX = 20 };

struct fake_arg {
    const char *text; /* NULL: an integer */
    int64_t number;
};

#define FAKE_TEXT(value)   ((struct fake_arg){.text = (value)})
#define FAKE_NUMBER(value) ((struct fake_arg){.number = (value)})

struct hf_job {
    const char *jid;
    struct fake_arg args[FAKE_ARGS_MAX];
    unsigned arg_count;
    const char *json; /* all arguments as JSON; NULL: they are made of those above. Only args() sees it */
    /* Called whenever the handler asks whether it is cancelled, before the answer; may be NULL. */
    void (*when_asked)(hf_job *job);
    void *context;
    const char *const *resources; /* what is locked, sorted */
    unsigned resource_count;
    const char *token; /* of that lock; NULL: it has none */
    unsigned seat;     /* of its resource; 0 = that has only one */
    const char *trace; /* what traceparent() gives; NULL: "" */
    int lock_lost;     /* what descriptor() gives; 0: none */
    bool is_cancelled;
    enum hf_cancel_reason reason; /* of that; 0: HF_LOCK_LOST */
    unsigned asked;               /* how often it asked */
    char error_class[64];         /* what it said through error() */
    char error[512];
    unsigned logged;
    char last_log[512];
    char last_event[1024]; /* NAME KEY=VALUE ... */
    char *result;          /* what it reported last; NULL: nothing. To be freed by fake_job_clear */
    bool has_retry_in;
    int64_t retry_in_ms;
    unsigned pushed, events;
    char made[512]; /* the arguments as JSON, when they are made */
};

/* Forgets what a run left, so that the job can run again. */
void fake_job_clear(hf_job *job);

struct fake_setting {
    const char *key, *value;
};

struct fake_plugin; /* opaque */

/* Loads build/jobs/NAME.so and opens it. Settings end with key == NULL. NULL when it refuses: the reason is in
 * `reason` (512 bytes). Anything else that goes wrong fails the test. */
struct fake_plugin *fake_plugin_open(const char *name, const struct fake_setting *settings, char *reason);
/* As a worker does: asks check() first, and buries as HF::BadArguments what it refuses. Any thread. */
int fake_plugin_run(struct fake_plugin *plugin, hf_job *job);
/* Asks the handler's check() about these arguments; true with a reason of "" when it has none. */
bool fake_plugin_check(struct fake_plugin *plugin, const char *args, char reason[512]);
void fake_plugin_close(struct fake_plugin *plugin);

#endif
