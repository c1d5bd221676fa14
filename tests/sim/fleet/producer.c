/* A program that pushes tasks with libholdfast, and waits for the answer of each. */
#include <stdio.h>

#include "base/invariant.h"
#include "tests/sim/fleet/fleet.h"

static void task_push(struct hf_producer *producer, struct fleet_task *task)
{
    char args[16], resource[16];
    const char *resources[] = {resource};
    struct hf_receipt receipt;
    snprintf(args, sizeof args, "[%u]", task->number);
    snprintf(resource, sizeof resource, "r%u", task->resource);
    snprintf(task->jid, sizeof task->jid, "t%u", task->number);
    struct hf_task pushed = {.class_name = "work",
                             .args = args,
                             .jid = task->jid,
                             .resources = resources,
                             .resource_count = task->resource < FLEET_RESOURCES_MAX ? 1 : 0};
    task->pushed = hf_push(producer, &pushed, &receipt);
    play_count(hf_push_answer_name(task->pushed), 1);
    world_tell("pushed %s: %s %s", task->jid, hf_push_answer_name(task->pushed), receipt.reason);
}

static void producer_main(void *argument)
{
    uintptr_t number = (uintptr_t)argument;
    char reason[HF_REASON_SIZE];
    struct hf_producer *producer =
        hf_producer_create(&(struct hf_producer_options){.host = "queue"}, reason, sizeof reason);
    invariant(producer != NULL);
    for (unsigned i = (unsigned)number; i < fleet.task_count; i += fleet.producer_count) {
        process_sleep(chance_below(&process_current()->chance, fleet.push_gap_ns));
        task_push(producer, &fleet.tasks[i]);
    }
    hf_producer_destroy(producer);
}

void fleet_producer_start(unsigned number)
{
    char name[24];
    snprintf(name, sizeof name, "producer%u", number);
    for (unsigned i = number; i < fleet.task_count; i += fleet.producer_count)
        fleet.tasks[i].pushed = HF_PUSH_UNKNOWN; /* until it is known */
    fleet.producers[number] = process_start(host_create(name), name, producer_main, (void *)(uintptr_t)number);
}
