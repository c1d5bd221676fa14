/* How a rehearsed run reaches its host: what it says goes to the terminal, and its lock is held as long as it is
 * pretended to be. Called on the handler's thread, or on the loop for one that runs elsewhere. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "base/memory.h"
#include "worker/print/json_writer.h"
#include "worker/commands/rehearsal.h"

/* How long a message can be, as far as it is shown. */
enum { SAID_MAX = 4096 };

static struct rehearsal *rehearsal_of(struct hf_job *job)
{
    return list_owner(job, struct rehearsal, job);
}

void rehearsal_say(struct rehearsal *rehearsal, const char *about, const char *format, ...)
{
    char text[SAID_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(rehearsal->out, "%-9s %s\n", about, log_defuse(text));
    fflush(rehearsal->out);
}

/* In danger a real lock has just failed to be extended, so nobody could say for certain that it is held. */
static bool link_verify(struct hf_job *job, int64_t limit_ns)
{
    (void)limit_ns;
    return !redlock_validity_in_danger(job->validity);
}

static int link_descriptor(struct hf_job *job)
{
    return rehearsal_of(job)->loss_event;
}

static bool link_hears(struct hf_job *job, enum hf_log_level level)
{
    (void)job;
    (void)level;
    return true;
}

static const char *level_name(enum hf_log_level level)
{
    static const char *const names[] = {
        [HF_LOG_DEBUG] = "debug", [HF_LOG_INFO] = "info", [HF_LOG_WARN] = "warn", [HF_LOG_ERROR] = "error"};
    return names[level];
}

static void link_log(struct hf_job *job, enum hf_log_level level, const char *text)
{
    rehearsal_say(rehearsal_of(job), "log", "%-5s %s", level_name(level), text);
}

static void link_event(struct hf_job *job, enum hf_log_level level, const char *name, const hf_field *fields,
                       size_t count)
{
    struct buffer text = {0};
    for (size_t i = 0; i < count; i++) {
        char quoted[LOG_QUOTE_MAX];
        buffer_format(&text, " %s=%s", fields[i].key, log_quote(fields[i].value, quoted));
    }
    rehearsal_say(rehearsal_of(job), "event", "%-5s %s%s", level_name(level), name, buffer_text(&text));
    buffer_fini(&text);
}

static bool link_progress(struct hf_job *job, const char *json)
{
    struct rehearsal *rehearsal = rehearsal_of(job);
    struct buffer text = {0};
    if (!job_progress_put(&rehearsal->progress, json))
        return false;
    json_append_defused(&text, json, strlen(json));
    rehearsal_say(rehearsal, "progress", "%s", buffer_text(&text));
    buffer_fini(&text);
    return true;
}

const struct job_link rehearsal_link = {
    .verify = link_verify,
    .descriptor = link_descriptor,
    .hears = link_hears,
    .log = link_log,
    .event = link_event,
    .progress = link_progress,
};
