#include "worker/plugin/job_host.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "base/memory.h"
#include "worker/plugin/job_progress.h"
#include "worker/plugin/job_verifier.h"

struct job_text {
    struct job_text *next;
    char text[];
};

/* --- api("job", 1) ---------------------------------------------------------------------------------------------- */

static const char *job_jid(const hf_job *job)
{
    return job->jid;
}

static const char *job_class_name(const hf_job *job)
{
    return job->envelope->class_name;
}

static const char *job_queue(const hf_job *job)
{
    return job->queue;
}

static const char *job_args(const hf_job *job, size_t *length)
{
    *length = job->envelope->args.length;
    return job->envelope->args.bytes;
}

static unsigned job_attempt(const hf_job *job)
{
    return job->envelope->was_retried ? job->envelope->retry_count + 1 : 0;
}

static int job_arg_integer(const hf_job *job, unsigned index, int64_t *value)
{
    struct text_span element = json_array_element(job->envelope->args, index);
    return element.bytes != NULL && json_integer(element, value);
}

/* The job is ours and changes; the handler sees it as constant. */
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

/* A text with a NUL inside would reach the handler cut, so it is no text for it. */
static int job_arg_text(const hf_job *job, unsigned index, const char **value)
{
    struct text_span element = json_array_element(job->envelope->args, index);
    struct buffer text = {0};
    bool is_text = element.bytes != NULL && json_string(element, &text) &&
                   (text.length == 0 || memchr(text.bytes, '\0', text.length) == NULL);
    if (is_text)
        *value = text_lend(job, &text);
    buffer_fini(&text);
    return is_text;
}

PRINTF_LIKE(3, 4)
static void job_log(hf_job *job, enum hf_log_level level, const char *format, ...)
{
    static const enum log_level levels[] = {
        [HF_LOG_DEBUG] = LOG_DEBUG, [HF_LOG_INFO] = LOG_INFO, [HF_LOG_WARN] = LOG_WARN, [HF_LOG_ERROR] = LOG_ERROR};
    enum log_level ours = (unsigned)level < sizeof levels / sizeof levels[0] ? levels[level] : LOG_INFO;
    if (!log_is_on(ours))
        return;
    char text[LOG_QUOTE_MAX], said[LOG_QUOTE_MAX], jid[LOG_QUOTE_MAX], class_name[LOG_QUOTE_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    log_event(ours, "job_says", "jid=%s class=%s text=%s", log_quote(job->jid, jid),
              log_quote(job->envelope->class_name, class_name), log_quote(text, said));
}

PRINTF_LIKE(3, 4)
static void job_error(hf_job *job, const char *error_class, const char *format, ...)
{
    if (job->backtrace_lines > 0 && job->failure.error_class[0] == '\0')
        backtrace_capture(&job->backtrace, job->backtrace_lines);
    va_list arguments;
    va_start(arguments, format);
    failure_set_list(&job->failure, error_class != NULL ? error_class : "HF::Failed", format, arguments);
    va_end(arguments);
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
    .error = job_error,
};

/* --- api("lock", 1) --------------------------------------------------------------------------------------------- */

static int64_t lock_left_ns(const hf_job *job)
{
    return job->validity == NULL ? INT64_MAX : redlock_validity_left_ns(job->validity);
}

bool job_lock_is_valid(const struct hf_job *job)
{
    return lock_left_ns(job) > 0;
}

/* What the loop was told is the truth. Until it is told, or while it is stuck, the words say which of the two ends
 * came: that of the validity, which is brought forward to that of the hold where that is the earlier one. */
enum hf_cancel_reason job_lock_loss(const struct hf_job *job)
{
    if (job_lock_is_valid(job))
        return HF_NOT_CANCELLED;
    int told = atomic_load_explicit(&job->lost, memory_order_acquire);
    if (told != HF_NOT_CANCELLED)
        return (enum hf_cancel_reason)told;
    int64_t until = atomic_load_explicit(&job->validity->until, memory_order_acquire);
    bool at_end_of_hold = until == 0 ? instant_now().ns >= job->hold_until : until == job->hold_until;
    return job->hold_until != 0 && at_end_of_hold ? HF_HELD_TOO_LONG : HF_LOCK_LOST;
}

void job_lock_lost(struct hf_job *job, enum hf_cancel_reason reason)
{
    int none = HF_NOT_CANCELLED;
    atomic_compare_exchange_strong(&job->lost, &none, (int)reason);
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

static int lock_verify(hf_job *job)
{
    if (job->validity == NULL)
        return 1;
    int64_t left = lock_left_ns(job);
    return left > 0 && job_verifier_ask(job->verifier, left) && job_lock_is_valid(job);
}

static int lock_descriptor(const hf_job *job)
{
    return job->validity != NULL ? redlock_validity_descriptor(job->validity) : -1;
}

static const hf_lock_api lock_api = {
    .size = sizeof(hf_lock_api),
    .valid_for_ms = lock_valid_for_ms,
    .resources = lock_resources,
    .in_danger = lock_in_danger,
    .fence = lock_fence,
    .verify = lock_verify,
    .descriptor = lock_descriptor,
};

/* --- api("cancel", 1) ------------------------------------------------------------------------------------------- */

static enum hf_cancel_reason cancel_reason(const hf_job *job)
{
    int asked = atomic_load_explicit(&job->asked, memory_order_relaxed);
    enum hf_cancel_reason loss = job_lock_loss(job);
    if (loss != HF_NOT_CANCELLED)
        return loss;
    if (asked != HF_NOT_CANCELLED)
        return (enum hf_cancel_reason)asked;
    if (atomic_load_explicit(job->pulse, memory_order_relaxed) < instant_now().ns)
        return HF_CLAIM_LOST;
    return atomic_load_explicit(job->must_stop, memory_order_relaxed) ? HF_SHUTDOWN : HF_NOT_CANCELLED;
}

bool job_was_cancelled(const struct hf_job *job)
{
    return cancel_reason(job) != HF_NOT_CANCELLED;
}

bool job_is_unwanted(const struct hf_job *job)
{
    return atomic_load_explicit(&job->asked, memory_order_relaxed) == HF_USER;
}

void job_cancel(struct hf_job *job, enum hf_cancel_reason reason)
{
    int none = HF_NOT_CANCELLED;
    atomic_compare_exchange_strong(&job->asked, &none, (int)reason);
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

/* --- api("report", 1) and api("checkpoint", 1) ------------------------------------------------------------------- */

static int report_progress(hf_job *job, const char *json)
{
    return job->progress != NULL && job_progress_put(job->progress, json);
}

static const hf_report_api report_api = {
    .size = sizeof(hf_report_api),
    .progress = report_progress,
};

static const char *checkpoint_load(const hf_job *job)
{
    return job->progress != NULL ? job->progress->loaded : NULL;
}

static const hf_checkpoint_api checkpoint_api = {
    .size = sizeof(hf_checkpoint_api),
    .load = checkpoint_load,
    .save = report_progress,
};

/* --- the host --------------------------------------------------------------------------------------------------- */

static const void *host_api(const char *name, unsigned version)
{
    static const struct {
        const char *name;
        const void *table;
    } tables[] = {{"job", &job_api},
                  {"lock", &lock_api},
                  {"cancel", &cancel_api},
                  {"report", &report_api},
                  {"checkpoint", &checkpoint_api}};
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

void job_finish(struct hf_job *job)
{
    while (job->texts != NULL) {
        struct job_text *lent = job->texts;
        job->texts = lent->next;
        free(lent);
    }
}
