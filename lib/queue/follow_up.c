#include "queue/follow_up.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "queue/task_builder.h"

static struct task_builder *builder_for(const struct follow_up_parent *parent, struct error *error)
{
    bool has_trace = parent->traceparent != NULL && parent->traceparent[0] != '\0';
    struct hf_task defaults = {.queue = parent->queue, .traceparent = has_trace ? parent->traceparent : NULL};
    return task_builder_create(&defaults, &parent->limits, parent->jid, error);
}

bool follow_up_check(const struct follow_up_parent *parent, const char *text, size_t length, struct error *error)
{
    struct built_task task;
    struct task_builder *builder = builder_for(parent, error);
    bool is_sound = builder != NULL && task_build(builder, text, length, wall_now(), &task, error);
    task_builder_destroy(builder);
    return is_sound;
}

/* The offsets of a task in `texts`, which may move as it grows: the queue's name with its NUL, then the task. */
struct offsets {
    size_t name, payload, length;
    int64_t at_us;
};

static struct offsets task_add(struct buffer *texts, const struct built_task *task)
{
    struct offsets at = {.name = texts->length, .length = task->payload.length, .at_us = task->at_us};
    buffer_append(texts, task->queue, strlen(task->queue) + 1);
    at.payload = texts->length;
    buffer_append(texts, task->payload.bytes, task->payload.length);
    return at;
}

static struct queue_follow_up task_at(const struct buffer *texts, const struct offsets *at)
{
    return (struct queue_follow_up){.queue = at->at_us == 0 ? texts->bytes + at->name : NULL,
                                    .at_us = at->at_us,
                                    .payload = {texts->bytes + at->payload, at->length}};
}

static bool texts_take(struct follow_ups *tasks, struct task_builder *builder, char *const *texts,
                       struct offsets *offsets, size_t count, struct wall_time now, struct error *error)
{
    for (size_t i = 0; i < count; i++) {
        struct built_task task;
        if (!task_build(builder, texts[i], strlen(texts[i]), now, &task, error)) {
            error_prefix(error, "follow-up task %zu", i + 1);
            return false;
        }
        offsets[i] = task_add(&tasks->texts, &task);
    }
    return true;
}

bool follow_ups_read(struct follow_ups *tasks, const struct follow_up_parent *parent, char *const *texts, size_t count,
                     struct wall_time now, struct error *error)
{
    follow_ups_clear(tasks);
    struct offsets *offsets = memory_zeroed(count, sizeof offsets[0]);
    struct task_builder *builder = builder_for(parent, error);
    bool is_sound = builder != NULL && texts_take(tasks, builder, texts, offsets, count, now, error);
    task_builder_destroy(builder);
    if (is_sound) {
        tasks->list = memory_zeroed(count, sizeof tasks->list[0]);
        tasks->count = count;
        for (size_t i = 0; i < count; i++)
            tasks->list[i] = task_at(&tasks->texts, &offsets[i]);
    }
    free(offsets);
    return is_sound;
}

void follow_ups_clear(struct follow_ups *tasks)
{
    free(tasks->list);
    tasks->list = NULL;
    tasks->count = 0;
    buffer_clear(&tasks->texts);
}

void follow_ups_fini(struct follow_ups *tasks)
{
    follow_ups_clear(tasks);
    buffer_fini(&tasks->texts);
}
