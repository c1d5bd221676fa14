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

static const char *job_args(const hf_job *job, size_t *length)
{
    (void)job;
    *length = 2;
    return "[]";
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
    (void)level;
    (void)format;
    job->logged++;
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
    (void)job;
    return -1;
}

static const char *lock_fence(const hf_job *job, unsigned i)
{
    return i < job->resource_count && job->token != NULL ? job->token : "";
}

/* The interface says const, because for a handler the job is not changed by asking. */
static int cancel_cancelled(const hf_job *asked)
{
    hf_job *job = (hf_job *)(uintptr_t)asked;
    job->asked++;
    if (job->when_asked != NULL)
        job->when_asked(job);
    return job->is_cancelled;
}

static enum hf_cancel_reason cancel_reason(const hf_job *job)
{
    return job->is_cancelled ? HF_LOCK_LOST : HF_NOT_CANCELLED;
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
                                   .error = job_error};
    static const hf_lock_api lock = {.size = sizeof lock,
                                     .valid_for_ms = lock_valid_for_ms,
                                     .resources = lock_resources,
                                     .in_danger = lock_in_danger,
                                     .fence = lock_fence,
                                     .verify = lock_verify,
                                     .descriptor = lock_descriptor};
    static const hf_cancel_api cancel = {sizeof cancel, cancel_cancelled, cancel_reason};
    if (version != 1)
        return NULL;
    if (strcmp(name, "job") == 0)
        return &job;
    if (strcmp(name, "lock") == 0)
        return &lock;
    return strcmp(name, "cancel") == 0 ? &cancel : NULL;
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
    return plugin->handler->run(job, plugin_handler_state(plugin->handler));
}

void fake_plugin_close(struct fake_plugin *plugin)
{
    plugins_close(plugin->plugins);
    free(plugin);
}
