#include "worker/commands/top_look.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { ASKED_AT_ONCE = 100 };

/* --- running tasks ---------------------------------------------------------------------------------------------- */

static void task_add(struct top_facts *facts, const char *identity, const struct redis_reply *entry)
{
    struct process_run run;
    if (facts->task_count == TOP_ROWS_MAX || entry->bytes == NULL ||
        !process_run_read(&run, entry->bytes, entry->length))
        return;
    int64_t age_us = run.started.us > 0 ? facts->now.us - run.started.us : 0;
    facts->tasks = memory_resize(facts->tasks, facts->task_count + 1, sizeof *facts->tasks);
    facts->tasks[facts->task_count++] = (struct top_task){.process = memory_text(identity),
                                                          .queue = run.queue,
                                                          .class_name = run.class_name,
                                                          .jid = run.jid,
                                                          .resource = run.resource,
                                                          .token = run.fence,
                                                          .age_us = age_us > 0 ? age_us : 0};
}

static int by_age(const void *a, const void *b)
{
    const struct top_task *left = a, *right = b;
    if (left->age_us != right->age_us)
        return left->age_us < right->age_us ? 1 : -1;
    return strcmp(left->jid, right->jid);
}

/* Of each process one hash; a field is the number of a slot. */
static void work_read(struct top_facts *facts, struct console *console, const struct fleet_process *const *processes,
                      size_t count)
{
    node_client_begin(console->client);
    for (size_t i = 0; i < count; i++)
        node_client_ask(console->client, "HVALS", console_work_key(console, processes[i]->identity), NULL);
    console_run(console);
    for (size_t i = 0; i < count; i++) {
        const struct redis_reply *entries = node_client_reply(console->client, i);
        for (size_t j = 0; entries->kind == REDIS_ARRAY && j < entries->count; j++)
            task_add(facts, processes[i]->identity, &entries->elements[j]);
    }
}

static void tasks_read(struct top_facts *facts, struct console *console)
{
    const struct fleet_process *some[ASKED_AT_ONCE];
    size_t count = 0, asked = 0;
    for (size_t i = 0; i < facts->status.fleet.count && asked < TOP_PROCESSES_MAX; i++) {
        const struct fleet_process *process = &facts->status.fleet.items[i];
        if (!process->is_shown || process->busy <= 0)
            continue;
        some[count++] = process;
        asked++;
        if (count == ASKED_AT_ONCE) {
            work_read(facts, console, some, count);
            count = 0;
        }
    }
    work_read(facts, console, some, count);
    if (facts->task_count > 0)
        qsort(facts->tasks, facts->task_count, sizeof *facts->tasks, by_age);
}

/* --- resources -------------------------------------------------------------------------------------------------- */

static struct top_resource *resource_add(struct top_facts *facts, const char *kind, const char *name)
{
    facts->resources = memory_resize(facts->resources, facts->resource_count + 1, sizeof *facts->resources);
    struct top_resource *added = &facts->resources[facts->resource_count++];
    *added = (struct top_resource){.kind = kind, .name = memory_text(name)};
    return added;
}

static struct top_resource *resource_find(struct top_facts *facts, const char *name)
{
    for (size_t i = 0; i < facts->resource_count; i++)
        if (strcmp(facts->resources[i].kind, "resource") == 0 && strcmp(facts->resources[i].name, name) == 0)
            return &facts->resources[i];
    return NULL;
}

/* Most waiters first, then what is held for the longest. */
static int by_heat(const void *a, const void *b)
{
    const struct top_resource *left = a, *right = b;
    if (left->waiters != right->waiters)
        return left->waiters < right->waiters ? 1 : -1;
    int64_t left_age = left->holder != NULL ? left->holder->age_us : -1;
    int64_t right_age = right->holder != NULL ? right->holder->age_us : -1;
    if (left_age != right_age)
        return left_age < right_age ? 1 : -1;
    return strcmp(left->name, right->name);
}

static void resources_gather(struct top_facts *facts)
{
    const struct waiting_lists *lists = &facts->status.waiting;
    for (size_t i = 0; i < lists->count; i++)
        if (lists->items[i].kind[0] != '\0')
            resource_add(facts, lists->items[i].kind, lists->items[i].name)->waiters = lists->items[i].waiters;
    for (size_t i = 0; i < facts->task_count; i++) {
        const struct top_task *task = &facts->tasks[i];
        if (task->resource[0] == '\0')
            continue;
        struct top_resource *resource = resource_find(facts, task->resource);
        if (resource == NULL)
            resource = resource_add(facts, "resource", task->resource);
        if (resource->holder == NULL)
            resource->holder = task;
    }
    if (facts->resource_count > 0)
        qsort(facts->resources, facts->resource_count, sizeof *facts->resources, by_heat);
}

/* --- the look --------------------------------------------------------------------------------------------------- */

int top_look(struct top_facts *facts, struct console *console)
{
    *facts = (struct top_facts){.now = console->now};
    status_read(&facts->status, console);
    tasks_read(facts, console);
    resources_gather(facts);
    return console->code;
}

void top_facts_free(struct top_facts *facts)
{
    for (size_t i = 0; i < facts->task_count; i++) {
        struct top_task *task = &facts->tasks[i];
        char *const texts[] = {task->process, task->queue, task->class_name, task->jid, task->resource, task->token};
        for (size_t j = 0; j < sizeof texts / sizeof texts[0]; j++)
            free(texts[j]);
    }
    for (size_t i = 0; i < facts->resource_count; i++)
        free(facts->resources[i].name);
    free(facts->tasks);
    free(facts->resources);
    status_free(&facts->status);
    *facts = (struct top_facts){.task_count = 0};
}
