/* A record is a frame: how many bytes follow and of which kind it is, the struct of that kind as it is in memory, the
 * histograms that it points to, and its texts, each with its NUL. Writer and reader are one program that has forked, so
 * nothing has to be translated. What a killed process left is complete (record_ring.h); lengths are checked all the
 * same, and a frame with something left over is none. */
#include "worker/dry_run/count/record.h"

#include <string.h>

struct head {
    uint32_t length; /* of what follows */
    uint32_t kind;
};

/* --- writing ------------------------------------------------------------------------------------------------------ */

/* Returns where the frame begins. */
static size_t frame_begin(struct buffer *out, enum record_kind kind, const void *body, size_t size)
{
    size_t start = out->length;
    const struct head head = {.kind = (uint32_t)kind};
    buffer_append(out, &head, sizeof head);
    buffer_append(out, body, size);
    return start;
}

static void text_put(struct buffer *out, const char *text)
{
    buffer_append(out, text, strlen(text) + 1);
}

static void texts_put(struct buffer *out, const char *const *texts, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        text_put(out, texts[i]);
}

_Static_assert(sizeof(struct observed_process) + sizeof(struct histogram) +
                       RECORD_NODES_MAX * sizeof(struct redlock_node_counters) <=
                   RECORD_BYTES_MAX,
               "the record of a process fits");

/* One that is too long is not written: texts of a task are shorter than a record, all together. */
static void frame_end(struct buffer *out, size_t start)
{
    size_t length = out->length - start - sizeof(struct head);
    uint32_t known = (uint32_t)length;
    if (length > RECORD_BYTES_MAX)
        out->length = start;
    else
        memcpy(out->bytes + start, &known, sizeof known);
}

static unsigned at_most(unsigned count, unsigned most)
{
    return count < most ? count : most;
}

void record_write_task(struct buffer *out, const struct observed_task *task)
{
    struct observed_task copy = *task;
    copy.resource_count = at_most(task->resource_count, RECORD_RESOURCES_MAX);
    copy.class_name = copy.queue = copy.shown_class = NULL; /* nobody reads them */
    size_t start = frame_begin(out, RECORD_TASK, &copy, sizeof copy);
    text_put(out, task->jid);
    texts_put(out, task->resources, copy.resource_count);
    frame_end(out, start);
}

void record_write_handler(struct buffer *out, enum record_kind kind, const struct handler_event *event)
{
    struct handler_event copy = *event;
    copy.resource_count = at_most(event->resource_count, RECORD_RESOURCES_MAX);
    size_t start = frame_begin(out, kind, &copy, sizeof copy);
    text_put(out, event->jid);
    texts_put(out, event->resources, copy.resource_count);
    frame_end(out, start);
}

void record_write_crash(struct buffer *out, const struct crash *crash)
{
    size_t start = frame_begin(out, RECORD_CRASH, crash, sizeof *crash);
    text_put(out, crash->class_name);
    frame_end(out, start);
}

void record_write_process(struct buffer *out, const struct observed_process *process)
{
    struct observed_process copy = *process;
    copy.node_count = at_most(process->node_count, RECORD_NODES_MAX);
    size_t start = frame_begin(out, RECORD_PROCESS, &copy, sizeof copy);
    if (process->extensions != NULL)
        buffer_append(out, process->extensions, sizeof *process->extensions);
    for (unsigned i = 0; i < copy.node_count; i++)
        buffer_append(out, process->nodes[i], sizeof *process->nodes[i]);
    frame_end(out, start);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* What is left of a frame. */
struct rest {
    const char *at, *end;
    bool is_wrong;
};

static void wrong(struct rest *rest)
{
    rest->is_wrong = true;
    rest->at = rest->end;
}

static void bytes_take(struct rest *rest, void *into, size_t size)
{
    if ((size_t)(rest->end - rest->at) < size) {
        wrong(rest);
        return;
    }
    memcpy(into, rest->at, size);
    rest->at += size;
}

/* Points into the bytes, and is never NULL. */
static const char *text_take(struct rest *rest)
{
    const char *text = rest->at, *nul = text < rest->end ? memchr(text, '\0', (size_t)(rest->end - text)) : NULL;
    if (nul == NULL) {
        wrong(rest);
        return "";
    }
    rest->at = nul + 1;
    return text;
}

static const char *const *resources_take(struct rest *rest, struct record *record, unsigned count)
{
    if (count > RECORD_RESOURCES_MAX)
        wrong(rest);
    for (unsigned i = 0; i < count && !rest->is_wrong; i++)
        record->texts[i] = text_take(rest);
    return record->texts;
}

static void process_take(struct rest *rest, struct record *record)
{
    struct observed_process *process = &record->process;
    bytes_take(rest, process, sizeof *process);
    if (rest->is_wrong || process->node_count > RECORD_NODES_MAX) {
        wrong(rest);
        return;
    }
    if (process->extensions != NULL) {
        bytes_take(rest, &record->extensions, sizeof record->extensions);
        process->extensions = &record->extensions;
    }
    for (unsigned i = 0; i < process->node_count; i++) {
        bytes_take(rest, &record->nodes[i], sizeof record->nodes[i]);
        record->node_list[i] = &record->nodes[i];
    }
    process->nodes = record->node_list;
}

static void body_take(struct rest *rest, struct record *record)
{
    switch (record->kind) {
    case RECORD_TASK:
        bytes_take(rest, &record->task, sizeof record->task);
        record->task.jid = text_take(rest);
        if ((unsigned)record->task.ending >= FLOW_ENDINGS)
            wrong(rest);
        if (!rest->is_wrong)
            record->task.resources = resources_take(rest, record, record->task.resource_count);
        return;
    case RECORD_PROCESS:
        process_take(rest, record);
        return;
    case RECORD_ENTER:
    case RECORD_LEAVE:
        bytes_take(rest, &record->event, sizeof record->event);
        record->event.jid = text_take(rest);
        if (!rest->is_wrong)
            record->event.resources = resources_take(rest, record, record->event.resource_count);
        return;
    case RECORD_CRASH:
        bytes_take(rest, &record->crash, sizeof record->crash);
        record->crash.class_name = text_take(rest);
        return;
    }
    wrong(rest);
}

bool record_read(const char **bytes, size_t *length, struct record *record)
{
    struct head head;
    if (*length < sizeof head)
        return false;
    memcpy(&head, *bytes, sizeof head);
    if (head.length <= RECORD_BYTES_MAX && head.length > *length - sizeof head)
        return false;
    struct rest rest = {.at = *bytes + sizeof head};
    rest.end = rest.at + (head.length <= RECORD_BYTES_MAX ? head.length : 0);
    record->kind = (enum record_kind)head.kind;
    body_take(&rest, record);
    if (rest.is_wrong || rest.at != rest.end) {
        *bytes += *length;
        *length = 0;
        return false;
    }
    *bytes = rest.end;
    *length -= sizeof head + head.length;
    return true;
}
