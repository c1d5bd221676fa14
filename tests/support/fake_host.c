#include "tests/support/fake_host.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "tests/support/test.h"
#include "worker/plugin/plugin.h"

struct fake_plugin {
    hf_host host; /* first: the plugin gives it back to setting() */
    const struct fake_setting *settings;
    struct plugins *plugins;
    const struct plugin_handler *handler;
};

static const char *job_jid(const hf_job *job)
{
    return job->jid;
}

static const char *job_class_name(const hf_job *job)
{
    (void)job;
    return "fake";
}

static const char *job_queue(const hf_job *job)
{
    (void)job;
    return "default";
}

static const char *job_traceparent(const hf_job *job)
{
    return job->trace != NULL ? job->trace : "";
}

/* The interface says const, because for a handler the job is not changed by asking. */
static hf_job *own(const hf_job *job)
{
    return (hf_job *)(uintptr_t)job;
}

static const char *job_args(const hf_job *job, size_t *length)
{
    char *made = own(job)->made;
    size_t at = 0;
    if (job->json != NULL) {
        *length = strlen(job->json);
        return job->json;
    }
    for (unsigned i = 0; i < job->arg_count && at < sizeof job->made; i++) {
        const char *before = i == 0 ? "[" : ",";
        if (job->args[i].text != NULL)
            at += (size_t)snprintf(made + at, sizeof job->made - at, "%s\"%s\"", before, job->args[i].text);
        else
            at += (size_t)snprintf(made + at, sizeof job->made - at, "%s%lld", before, (long long)job->args[i].number);
    }
    *length = at + (size_t)snprintf(made + at, sizeof job->made - at, "%s", at == 0 ? "[]" : "]");
    return made;
}

static unsigned job_attempt(const hf_job *job)
{
    (void)job;
    return 0;
}

static int job_arg_integer(const hf_job *job, unsigned index, int64_t *value)
{
    if (index >= job->arg_count || job->args[index].text != NULL)
        return 0;
    *value = job->args[index].number;
    return 1;
}

static int job_arg_text(const hf_job *job, unsigned index, const char **text)
{
    if (index >= job->arg_count || job->args[index].text == NULL)
        return 0;
    *text = job->args[index].text;
    return 1;
}

__attribute__((format(printf, 3, 4))) static void job_log(hf_job *job, enum hf_log_level level, const char *format, ...)
{
    va_list values;
    (void)level;
    va_start(values, format);
    vsnprintf(job->last_log, sizeof job->last_log, format, values);
    va_end(values);
    job->logged++;
}

static void job_event(hf_job *job, enum hf_log_level level, const char *name, const hf_field *fields, size_t count)
{
    (void)level;
    size_t at = (size_t)snprintf(job->last_event, sizeof job->last_event, "%s", name);
    for (size_t i = 0; i < count && at < sizeof job->last_event; i++)
        at += (size_t)snprintf(job->last_event + at, sizeof job->last_event - at, " %s=%s", fields[i].key,
                               fields[i].value);
    job->events++;
}

__attribute__((format(printf, 3, 4))) static void job_error(hf_job *job, const char *error_class, const char *format,
                                                            ...)
{
    va_list values;
    va_start(values, format);
    snprintf(job->error_class, sizeof job->error_class, "%s", error_class);
    vsnprintf(job->error, sizeof job->error, format, values);
    va_end(values);
}

static int64_t lock_valid_for_ms(const hf_job *job)
{
    return job->is_cancelled ? 0 : INT64_MAX;
}

static unsigned lock_resources(const hf_job *job, const char *const **names)
{
    *names = job->resources;
    return job->resource_count;
}

static int lock_in_danger(const hf_job *job)
{
    return job->is_cancelled;
}

static int lock_verify(hf_job *job)
{
    return !job->is_cancelled;
}

static int lock_descriptor(const hf_job *job)
{
    return job->lock_lost > 0 ? job->lock_lost : -1;
}

static unsigned lock_seat(const hf_job *job)
{
    return job->seat;
}

static const char *lock_fence(const hf_job *job, unsigned i)
{
    return i < job->resource_count && job->token != NULL ? job->token : "";
}

static int cancel_cancelled(const hf_job *asked)
{
    hf_job *job = own(asked);
    job->asked++;
    if (job->when_asked != NULL)
        job->when_asked(job);
    return job->is_cancelled;
}

static enum hf_cancel_reason cancel_reason(const hf_job *job)
{
    if (!job->is_cancelled)
        return HF_NOT_CANCELLED;
    return job->reason != HF_NOT_CANCELLED ? job->reason : HF_LOCK_LOST;
}

static int report_progress(hf_job *job, const char *json)
{
    (void)job;
    return json[0] != '\0';
}

static int report_result(hf_job *job, const char *json)
{
    free(job->result);
    job->result = memory_text(json);
    return 1;
}

static int report_retry_in(hf_job *job, int64_t milliseconds)
{
    job->has_retry_in = true;
    job->retry_in_ms = milliseconds;
    return 1;
}

static int push_add(hf_job *job, const char *task, char *reason, size_t reason_size)
{
    (void)task;
    (void)reason;
    (void)reason_size;
    job->pushed++;
    return 1;
}

static const void *api(const char *name, unsigned version)
{
    static const hf_job_api job = {.size = sizeof job,
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
                                   .traceparent = job_traceparent};
    static const hf_lock_api lock = {.size = sizeof lock,
                                     .valid_for_ms = lock_valid_for_ms,
                                     .resources = lock_resources,
                                     .in_danger = lock_in_danger,
                                     .fence = lock_fence,
                                     .verify = lock_verify,
                                     .descriptor = lock_descriptor,
                                     .seat = lock_seat};
    static const hf_cancel_api cancel = {sizeof cancel, cancel_cancelled, cancel_reason};
    static const hf_report_api report = {sizeof report, report_progress, report_result, report_retry_in};
    static const hf_push_api push = {sizeof push, push_add};
    static const struct {
        const char *name;
        const void *table;
    } tables[] = {{"job", &job}, {"lock", &lock}, {"cancel", &cancel}, {"report", &report}, {"push", &push}};
    for (size_t i = 0; version == 1 && i < sizeof tables / sizeof tables[0]; i++)
        if (strcmp(name, tables[i].name) == 0)
            return tables[i].table;
    return NULL;
}

static const char *setting(const hf_host *host, const char *key)
{
    const struct fake_plugin *plugin = (const struct fake_plugin *)host;
    for (const struct fake_setting *entry = plugin->settings; entry->key != NULL; entry++)
        if (strcmp(entry->key, key) == 0)
            return entry->value;
    return NULL;
}

static const struct hf_host *host_for(void *context, const char *plugin_name)
{
    struct fake_plugin *plugin = context;
    (void)plugin_name;
    return &plugin->host;
}

struct fake_plugin *fake_plugin_open(const char *name, const struct fake_setting *settings, char *reason)
{
    char directory[512], *names[] = {memory_text(name)};
    struct findings findings = {0};
    struct error error = ERROR_NONE;
    snprintf(directory, sizeof directory, "%s/jobs", test_build());
    struct fake_plugin *plugin = memory_new(struct fake_plugin);
    *plugin = (struct fake_plugin){
        .host = {sizeof(hf_host), HF_ABI_MAJOR, HF_ABI_MINOR, api, setting},
        .settings = settings,
        .plugins = plugins_load(directory, names, 1, &findings),
    };
    findings_print(&findings, stderr);
    if (findings.errors > 0 || plugins_handler_count(plugin->plugins) == 0)
        abort();
    free(names[0]);
    plugin->handler = plugins_handler_at(plugin->plugins, 0);
    if (plugins_open(plugin->plugins, host_for, plugin, &error))
        return plugin;
    snprintf(reason, 512, "%s", error.text);
    fake_plugin_close(plugin);
    return NULL;
}

int fake_plugin_run(struct fake_plugin *plugin, hf_job *job)
{
    size_t length;
    const char *args = job_args(job, &length);
    char reason[256] = "";
    if (plugin->handler->check != NULL && !plugin->handler->check(args, length, reason, sizeof reason)) {
        job_error(job, "HF::BadArguments", "%s", reason);
        return HF_BURY;
    }
    return plugin->handler->run(job, plugin_handler_state(plugin->handler));
}

bool fake_plugin_check(struct fake_plugin *plugin, const char *args, char reason[512])
{
    reason[0] = '\0';
    return plugin->handler->check == NULL || plugin->handler->check(args, strlen(args), reason, 512);
}

void fake_job_clear(hf_job *job)
{
    free(job->result);
    job->result = NULL;
    job->has_retry_in = false;
    job->retry_in_ms = 0;
    job->error_class[0] = job->error[0] = job->last_log[0] = job->last_event[0] = '\0';
    job->asked = job->logged = job->pushed = job->events = 0;
    job->is_cancelled = false;
}

void fake_plugin_close(struct fake_plugin *plugin)
{
    plugins_close(plugin->plugins);
    free(plugin);
}
