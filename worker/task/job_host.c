#include "worker/task/job_host.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "base/memory.h"
#include "queue/follow_up.h"
#include "queue/json.h"

enum { WORD_MAX = 64 };

struct job_text {
    struct job_text *next;
    char text[];
};

/* --- api("job", 1) ------------------------------------------------------------------------------------------------ */

static const char *job_jid(const hf_job *job)
{
    return job->jid;
}

static const char *job_class_name(const hf_job *job)
{
    return job->class_name;
}

static const char *job_queue(const hf_job *job)
{
    return job->queue;
}

static const char *job_args(const hf_job *job, size_t *length)
{
    *length = job->args.length;
    return job->args.bytes;
}

static unsigned job_attempt(const hf_job *job)
{
    return job->attempt;
}

static int job_arg_integer(const hf_job *job, unsigned index, int64_t *value)
{
    struct text_span element = json_array_element(job->args, index);
    return element.bytes != NULL && json_integer_read(element, value);
}

/* The job is ours and mutable; the handler sees it as constant. */
static const char *text_lend(const hf_job *job, const struct buffer *text)
{
    hf_job *owner = (hf_job *)(uintptr_t)job;
    struct job_text *lent = memory_zeroed(1, sizeof *lent + text->length + 1);
    if (text->length > 0)
        memcpy(lent->text, text->bytes, text->length);
    lent->next = owner->texts;
    owner->texts = lent;
    return lent->text;
}

/* A text with a NUL is refused, because the handler would see it cut. */
static int job_arg_text(const hf_job *job, unsigned index, const char **value)
{
    struct text_span element = json_array_element(job->args, index);
    struct buffer text = {0};
    bool is_text = element.bytes != NULL && json_string_read(element, &text) &&
                   (text.length == 0 || memchr(text.bytes, '\0', text.length) == NULL);
    if (is_text)
        *value = text_lend(job, &text);
    buffer_fini(&text);
    return is_text;
}

PRINTF_LIKE(3, 4)
static void job_log(hf_job *job, enum hf_log_level level, const char *format, ...)
{
    enum hf_log_level known = (unsigned)level <= HF_LOG_ERROR ? level : HF_LOG_INFO;
    if (!job->link->hears(job, known))
        return;
    char text[LOG_QUOTE_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    job->link->log(job, known, text);
}

static bool is_word(const char *text)
{
    size_t length = text != NULL ? strnlen(text, WORD_MAX + 1) : 0;
    return length > 0 && length <= WORD_MAX &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == length;
}

/* Leaves out invalid fields, and counts them; ignores an event without a name. */
static void job_event(hf_job *job, enum hf_log_level level, const char *name, const hf_field *fields, size_t count)
{
    enum hf_log_level known = (unsigned)level <= HF_LOG_ERROR ? level : HF_LOG_INFO;
    hf_field sound[JOB_FIELDS_MAX + 1];
    size_t sound_count = 0;
    char dropped[24];
    if (!is_word(name) || !job->link->hears(job, known))
        return;
    for (size_t i = 0; fields != NULL && i < count && sound_count < JOB_FIELDS_MAX; i++)
        if (is_word(fields[i].key) && fields[i].value != NULL)
            sound[sound_count++] = fields[i];
    snprintf(dropped, sizeof dropped, "%zu", count - sound_count);
    if (fields != NULL && count > sound_count)
        sound[sound_count++] = (hf_field){JOB_FIELDS_DROPPED, dropped};
    job->link->event(job, known, name, sound, sound_count);
}

PRINTF_LIKE(3, 4)
static void job_error(hf_job *job, const char *error_class, const char *format, ...)
{
    struct job_outcome *outcome = &job->outcome;
    if (job->backtrace_lines > 0 && outcome->failure.error_class[0] == '\0')
        backtrace_capture(&outcome->backtrace, job->backtrace_lines);
    va_list arguments;
    va_start(arguments, format);
    failure_set_list(&outcome->failure, error_class != NULL ? error_class : "HF::Failed", format, arguments);
    va_end(arguments);
}

static const char *job_traceparent(const hf_job *job)
{
    return job->traceparent;
}

static const hf_job_api job_api = {
    .size = sizeof(hf_job_api),
    .jid = job_jid,
    .class_name = job_class_name,
    .queue = job_queue,
    .args = job_args,
    .attempt = job_attempt,
    .arg_integer = job_arg_integer,
    .arg_text = job_arg_text,
    .log = job_log,
    .event = job_event,
    .error = job_error,
    .traceparent = job_traceparent,
};

/* --- api("lock", 1) ----------------------------------------------------------------------------------------------- */

static int64_t lock_left_ns(const hf_job *job)
{
    return job->validity == NULL ? INT64_MAX : redlock_validity_left_ns(job->validity);
}

bool job_lock_is_valid(const struct hf_job *job)
{
    return lock_left_ns(job) > 0;
}

/* What ended before it ran has no claim that others could take. */
static bool claim_is_certain(const struct hf_job *job)
{
    return !atomic_load_explicit(&job->run_entry->is_claimed, memory_order_relaxed) ||
           run_table_is_leased(job->run_table, instant_now());
}

bool job_may_begin(const struct hf_job *job)
{
    return job_lock_is_valid(job) && claim_is_certain(job);
}

/* The loop's reason is decisive. Before there is one, or while the loop is stuck, the run table says which end came
 * first: that of the lock's validity or that of the longest hold. The validity ends with the hold if that is
 * earlier. */
enum hf_cancel_reason job_lock_loss(const struct hf_job *job)
{
    if (job_lock_is_valid(job))
        return HF_NOT_CANCELLED;
    int told = atomic_load_explicit(&job->run_entry->lost, memory_order_acquire);
    if (told != HF_NOT_CANCELLED)
        return (enum hf_cancel_reason)told;
    int64_t until = atomic_load_explicit(&job->validity->until, memory_order_acquire);
    int64_t hold_until = atomic_load_explicit(&job->run_entry->hold_until, memory_order_relaxed);
    bool at_end_of_hold = until == 0 ? instant_now().ns >= hold_until : until == hold_until;
    return hold_until != 0 && at_end_of_hold ? HF_HELD_TOO_LONG : HF_LOCK_LOST;
}

void job_lock_lost(struct hf_job *job, enum hf_cancel_reason reason)
{
    int none = HF_NOT_CANCELLED;
    atomic_compare_exchange_strong(&job->run_entry->lost, &none, (int)reason);
}

static int64_t lock_valid_for_ms(const hf_job *job)
{
    return job->validity == NULL ? INT64_MAX : lock_left_ns(job) / NS_PER_MS;
}

static unsigned lock_resources(const hf_job *job, const char *const **names)
{
    *names = job->resources;
    return job->validity != NULL ? job->resource_count : 0;
}

static int lock_in_danger(const hf_job *job)
{
    return job->validity != NULL && redlock_validity_in_danger(job->validity);
}

/* All resources of a lock have one token. */
static const char *lock_fence(const hf_job *job, unsigned resource)
{
    return job->validity != NULL && resource < job->resource_count ? job->fence : "";
}

static unsigned lock_seat(const hf_job *job)
{
    return job->validity != NULL ? job->seat : 0;
}

static int lock_verify(hf_job *job)
{
    if (job->validity == NULL)
        return 1;
    int64_t left = lock_left_ns(job);
    return left > 0 && job->link->verify(job, left) && job_lock_is_valid(job);
}

static int lock_descriptor(const hf_job *job)
{
    hf_job *owner = (hf_job *)(uintptr_t)job;
    return job->validity != NULL ? job->link->descriptor(owner) : -1;
}

static const hf_lock_api lock_api = {
    .size = sizeof(hf_lock_api),
    .valid_for_ms = lock_valid_for_ms,
    .resources = lock_resources,
    .in_danger = lock_in_danger,
    .fence = lock_fence,
    .verify = lock_verify,
    .descriptor = lock_descriptor,
    .seat = lock_seat,
};

/* --- api("cancel", 1) --------------------------------------------------------------------------------------------- */

static enum hf_cancel_reason cancel_reason(const hf_job *job)
{
    int asked = atomic_load_explicit(&job->run_entry->asked, memory_order_relaxed);
    enum hf_cancel_reason loss = job_lock_loss(job);
    if (loss != HF_NOT_CANCELLED)
        return loss;
    if (asked != HF_NOT_CANCELLED)
        return (enum hf_cancel_reason)asked;
    if (job->validity == NULL && !claim_is_certain(job)) /* while it holds its lock nobody else runs it */
        return HF_CLAIM_LOST;
    return atomic_load_explicit(&job->run_table->must_stop, memory_order_relaxed) ? HF_SHUTDOWN : HF_NOT_CANCELLED;
}

bool job_was_cancelled(const struct hf_job *job)
{
    return cancel_reason(job) != HF_NOT_CANCELLED;
}

bool job_is_unwanted(const struct hf_job *job)
{
    return atomic_load_explicit(&job->run_entry->asked, memory_order_relaxed) == HF_USER;
}

void job_cancel(struct hf_job *job, enum hf_cancel_reason reason)
{
    int none = HF_NOT_CANCELLED;
    atomic_compare_exchange_strong(&job->run_entry->asked, &none, (int)reason);
}

static int cancel_cancelled(const hf_job *job)
{
    return job_was_cancelled(job);
}

static const hf_cancel_api cancel_api = {
    .size = sizeof(hf_cancel_api),
    .cancelled = cancel_cancelled,
    .reason = cancel_reason,
};

/* --- api("report", 1) and api("checkpoint", 1) -------------------------------------------------------------------- */

static int checkpoint_save(hf_job *job, const char *json)
{
    return job->reports_progress && json != NULL && job->link->progress(job, json);
}

static int report_progress(hf_job *job, const char *json)
{
    struct buffer mended = {0};
    if (json != NULL)
        json_mend(json, strnlen(json, ITERATION_BYTES_MAX + 1), &mended);
    int taken = checkpoint_save(job, json != NULL ? buffer_text(&mended) : NULL);
    buffer_fini(&mended);
    return taken;
}

static int report_result(hf_job *job, const char *json)
{
    return job->keeps_result && json != NULL &&
           job_outcome_set_result(&job->outcome, json, strnlen(json, JOB_RESULT_BYTES_MAX + 1));
}

static int report_retry_in(hf_job *job, int64_t milliseconds)
{
    return job_outcome_set_retry_in(&job->outcome, milliseconds);
}

static const hf_report_api report_api = {
    .size = sizeof(hf_report_api),
    .progress = report_progress,
    .result = report_result,
    .retry_in = report_retry_in,
};

static const char *checkpoint_load(const hf_job *job)
{
    return job->checkpoint;
}

static const hf_checkpoint_api checkpoint_api = {
    .size = sizeof(hf_checkpoint_api),
    .load = checkpoint_load,
    .save = checkpoint_save,
};

/* --- api("push", 1) ----------------------------------------------------------------------------------------------- */

/* Checks now whether the task can be pushed after the run, when no handler is left to report to. */
static bool push_check(const hf_job *job, const char *task, size_t length, struct error *error)
{
    struct follow_up_parent parent = {
        .jid = job->jid, .queue = job->queue, .traceparent = job->traceparent, .limits = job->task_limits};
    if (parent.limits.size == 0)
        parent.limits = ENVELOPE_LIMITS_DEFAULT;
    return follow_up_check(&parent, task, length, error);
}

static bool push_take(hf_job *job, const char *task, struct error *error)
{
    if (!job->may_push)
        return error_set(error, "a task that runs at most once has ended before it runs, so nothing can be pushed with "
                                "its end");
    if (task == NULL)
        return error_set(error, "there is no text");
    size_t length = strnlen(task, JOB_FOLLOW_UP_BYTES_MAX + 1);
    return push_check(job, task, length, error) && job_outcome_add_follow_up(&job->outcome, task, length, error);
}

static int push_add(hf_job *job, const char *task, char *reason, size_t reason_size)
{
    struct error error = ERROR_NONE;
    bool added = push_take(job, task, &error);
    if (!added && reason != NULL && reason_size > 0)
        snprintf(reason, reason_size, "%s", error.text);
    return added;
}

static const hf_push_api push_api = {.size = sizeof(hf_push_api), .add = push_add};

/* --- the host ----------------------------------------------------------------------------------------------------- */

static const void *host_api(const char *name, unsigned version)
{
    static const struct {
        const char *name;
        const void *table;
    } tables[] = {{"job", &job_api},
                  {"lock", &lock_api},
                  {"cancel", &cancel_api},
                  {"report", &report_api},
                  {"checkpoint", &checkpoint_api},
                  {"push", &push_api}};
    for (size_t i = 0; version == 1 && i < sizeof tables / sizeof tables[0]; i++)
        if (strcmp(tables[i].name, name) == 0)
            return tables[i].table;
    return NULL;
}

struct job_host {
    hf_host host;
    struct list link;
    const struct config *config;
    char *plugin;
};

struct job_hosts {
    const struct config *config;
    struct list all;
};

static const char *host_setting(const hf_host *host, const char *key)
{
    const struct job_host *own = (const struct job_host *)(const void *)host;
    return config_plugin_setting(own->config, own->plugin, key);
}

struct job_hosts *job_hosts_create(const struct config *config)
{
    struct job_hosts *hosts = memory_new(struct job_hosts);
    hosts->config = config;
    list_init(&hosts->all);
    return hosts;
}

void job_hosts_destroy(struct job_hosts *hosts)
{
    struct list *link = NULL;
    while ((link = list_take_first(&hosts->all)) != NULL) {
        struct job_host *host = list_owner(link, struct job_host, link);
        free(host->plugin);
        free(host);
    }
    free(hosts);
}

const struct hf_host *job_hosts_for(void *context, const char *plugin_name)
{
    struct job_hosts *hosts = context;
    struct job_host *host = memory_new(struct job_host);
    *host = (struct job_host){
        .host = {sizeof(hf_host), HF_ABI_MAJOR, HF_ABI_MINOR, host_api, host_setting},
        .config = hosts->config,
        .plugin = memory_text(plugin_name),
    };
    list_init(&host->link);
    list_append(&hosts->all, &host->link);
    return &host->host;
}

int job_run(struct hf_job *job, const struct plugin_handler *handler)
{
    char reason[256] = "";
    if (handler->check == NULL || handler->check(job->args.bytes, job->args.length, reason, sizeof reason))
        return job_outcome_code(&job->outcome, handler->run(job, plugin_handler_state(handler)));
    reason[sizeof reason - 1] = '\0';
    failure_set(&job->outcome.failure, "HF::BadArguments", "%s", reason);
    return HF_BURY;
}

void job_finish(struct hf_job *job)
{
    while (job->texts != NULL) {
        struct job_text *lent = job->texts;
        job->texts = lent->next;
        free(lent);
    }
}

/* --- how far a run has come --------------------------------------------------------------------------------------- */

void job_progress_init(struct job_progress *progress)
{
    pthread_mutex_init(&progress->mutex, NULL);
    progress->is_new = false;
    progress->loaded = NULL;
}

void job_progress_fini(struct job_progress *progress)
{
    pthread_mutex_destroy(&progress->mutex);
    free(progress->loaded);
}

void job_progress_start(struct job_progress *progress, const char *cursor, size_t length)
{
    free(progress->loaded);
    progress->loaded = cursor != NULL ? memory_text_of(cursor, length) : NULL;
    progress->is_new = false;
}

bool job_progress_put(struct job_progress *progress, const char *json)
{
    size_t length = json != NULL ? strnlen(json, ITERATION_BYTES_MAX + 1) : 0;
    if (!iteration_text_is_sound(json != NULL ? json : "", length))
        return false;
    pthread_mutex_lock(&progress->mutex);
    memcpy(progress->text, json, length);
    progress->length = length;
    progress->is_new = true;
    pthread_mutex_unlock(&progress->mutex);
    return true;
}

bool job_progress_take(struct job_progress *progress, char text[ITERATION_BYTES_MAX], size_t *length)
{
    pthread_mutex_lock(&progress->mutex);
    bool is_new = progress->is_new;
    if (is_new) {
        memcpy(text, progress->text, progress->length);
        *length = progress->length;
        progress->is_new = false;
    }
    pthread_mutex_unlock(&progress->mutex);
    return is_new;
}

/* --- what a run leaves behind ------------------------------------------------------------------------------------- */

/* More than any result or task needs. */
static const struct envelope_limits bounds = {
    .size = JOB_RESULT_BYTES_MAX > JOB_FOLLOW_UP_BYTES_MAX ? JOB_RESULT_BYTES_MAX : JOB_FOLLOW_UP_BYTES_MAX,
    .depth = 64,
    .keys = 100000,
};

void job_outcome_clear(struct job_outcome *outcome)
{
    failure_clear(&outcome->failure);
    backtrace_clear(&outcome->backtrace);
    outcome->retry_in_ms = -1;
    outcome->has_result = false;
    outcome->refusal.text[0] = '\0';
    buffer_clear(&outcome->result);
    for (size_t i = 0; i < outcome->follow_up_count; i++)
        free(outcome->follow_ups[i]);
    outcome->follow_up_count = outcome->follow_up_bytes = 0;
}

void job_outcome_fini(struct job_outcome *outcome)
{
    job_outcome_clear(outcome);
    buffer_fini(&outcome->result);
    free(outcome->follow_ups);
    outcome->follow_ups = NULL;
}

bool job_outcome_set_result(struct job_outcome *outcome, const char *json, size_t length)
{
    struct buffer mended = {0};
    json_mend(json, length, &mended);
    outcome->refusal.text[0] = '\0';
    if (!json_check(mended.bytes, mended.length, &bounds, &outcome->refusal)) {
        buffer_fini(&mended);
        return false;
    }
    buffer_fini(&outcome->result);
    outcome->result = mended;
    outcome->has_result = true;
    return true;
}

int job_outcome_code(struct job_outcome *outcome, int code)
{
    if (code != HF_OK || !error_is_set(&outcome->refusal))
        return code;
    failure_set(&outcome->failure, "HF::BadResult", "its result was refused: %s", outcome->refusal.text);
    return HF_FAIL;
}

bool job_outcome_add_follow_up(struct job_outcome *outcome, const char *task, size_t length, struct error *error)
{
    if (outcome->follow_up_count == JOB_FOLLOW_UPS_MAX)
        return error_set(error, "a run may push %d tasks, and this would be one more", JOB_FOLLOW_UPS_MAX);
    if (length > JOB_FOLLOW_UP_BYTES_MAX - outcome->follow_up_bytes)
        return error_set(error, "the tasks that a run pushes may have %d bytes together", JOB_FOLLOW_UP_BYTES_MAX);
    if (!json_check(task, length, &bounds, error))
        return false;
    outcome->follow_ups = memory_resize(outcome->follow_ups, outcome->follow_up_count + 1, sizeof(char *));
    outcome->follow_ups[outcome->follow_up_count++] = memory_text_of(task, length);
    outcome->follow_up_bytes += length;
    return true;
}

bool job_outcome_set_retry_in(struct job_outcome *outcome, int64_t milliseconds)
{
    if (milliseconds < 0 || milliseconds > JOB_RETRY_IN_MS_MAX)
        return false;
    outcome->retry_in_ms = milliseconds;
    return true;
}
