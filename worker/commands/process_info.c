#include "worker/commands/process_info.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static char *text_member(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return memory_text(text != NULL ? text : "");
}

static struct wall_time moment_member(const json_t *object, const char *name)
{
    double seconds = json_number_value(json_object_get(object, name));
    return (struct wall_time){seconds > 0 && seconds < 1e11 ? (int64_t)(seconds * 1e6) : 0};
}

void process_info_read(struct process_info *info, const char *text, size_t length)
{
    json_t *object = text != NULL ? json_loadb(text, length, 0, NULL) : NULL;
    *info = (struct process_info){.host = text_member(object, "hostname"),
                                  .version = text_member(object, "version"),
                                  .tag = text_member(object, "tag"),
                                  .pid = json_integer_value(json_object_get(object, "pid")),
                                  .concurrency = json_integer_value(json_object_get(object, "concurrency")),
                                  .unreceived = json_integer_value(json_object_get(object, "hf_unreceived"))};
    info->started = moment_member(object, "started_at");
    const json_t *queues = json_object_get(object, "queues");
    info->queues = memory_zeroed(json_array_size(queues) + 1, sizeof *info->queues);
    for (size_t i = 0; i < json_array_size(queues); i++) {
        const char *name = json_string_value(json_array_get(queues, i));
        if (name != NULL)
            info->queues[info->queue_count++] = memory_text(name);
    }
    json_decref(object);
}

void process_info_fini(struct process_info *info)
{
    for (size_t i = 0; i < info->queue_count; i++)
        free(info->queues[i]);
    free(info->queues);
    free(info->host);
    free(info->version);
    free(info->tag);
    *info = (struct process_info){.queue_count = 0};
}

/* A string, or the first of a list of them; NULL. */
static const char *first_text(const json_t *value)
{
    return json_string_value(json_is_array(value) ? json_array_get(value, 0) : value);
}

/* What a process says that it locks; one that says nothing of it may run a task that says so itself. */
static char *run_resource(const json_t *run, const json_t *task)
{
    const char *text = first_text(json_object_get(run, "hf_resources"));
    if (text == NULL)
        text = first_text(json_object_get(task, "resource"));
    return memory_text(text != NULL ? text : "");
}

bool process_run_read(struct process_run *run, const char *text, size_t length)
{
    json_t *entry = json_loadb(text, length, 0, NULL);
    const json_t *payload = json_object_get(entry, "payload");
    json_t *task = json_is_string(payload)
                       ? json_loadb(json_string_value(payload), json_string_length(payload), JSON_ALLOW_NUL, NULL)
                       : NULL;
    bool is_run = json_is_object(entry);
    if (is_run)
        *run = (struct process_run){
            .queue = text_member(entry, "queue"),
            .class_name = text_member(task, json_is_string(json_object_get(task, "wrapped")) ? "wrapped" : "class"),
            .jid = text_member(task, "jid"),
            .resource = run_resource(entry, task),
            .fence = text_member(entry, "hf_fence"),
            .started = moment_member(entry, "run_at")};
    json_decref(task);
    json_decref(entry);
    return is_run;
}

static bool is_of_task(const json_t *run, const char *jid)
{
    const json_t *payload = json_object_get(run, "payload");
    json_t *task = json_loadb(json_string_value(payload), json_string_length(payload), 0, NULL);
    const char *named = json_string_value(json_object_get(task, "jid"));
    bool is_of = named != NULL && strcmp(named, jid) == 0;
    json_decref(task);
    return is_of;
}

char *process_run_fence(const char *text, size_t length, const char *jid)
{
    json_t *run = json_loadb(text, length, 0, NULL);
    const char *fence = json_string_value(json_object_get(run, "hf_fence"));
    char *found = fence != NULL && is_of_task(run, jid) ? memory_text(fence) : NULL;
    json_decref(run);
    return found;
}

struct wall_time process_run_since(const char *text, size_t length, const char *jid)
{
    json_t *run = json_loadb(text, length, 0, NULL);
    json_int_t seconds = json_integer_value(json_object_get(run, "run_at"));
    bool is_sound = seconds > 0 && seconds < INT64_MAX / US_PER_S && is_of_task(run, jid);
    json_decref(run);
    return (struct wall_time){is_sound ? (int64_t)seconds * US_PER_S : 0};
}
