/* Programs that push tasks: with libholdfast, one by one, many at once, or as a stream; and one of others, which knows
 * nothing but LPUSH.
 *
 *   pushed  what is said not to be there is not, and what is pushed together is there as a whole or not at all, even if
 *           its producer dies meanwhile */
#include <stdio.h>

#include "base/buffer.h"
#include "base/invariant.h"
#include "tests/sim/fleet/fleet.h"
#include "tests/sim/server/simulated_client.h"

enum { MANY = 12, DEATHS = 4 /* one push in so many */ };

#define DEATH_NS (10 * NS_PER_MS)
#define BIRTH_NS (2 * NS_PER_S)

/* A process, and its successors after it was killed. */
static struct producer {
    unsigned number, next; /* its next task, while no push is under way */
    struct host *host;
    struct process *process;
    struct world_event death, birth;
    struct chance chance;
    bool is_mortal, is_dead;
} producers[FLEET_PRODUCERS_MAX];

/* --- of this library ---------------------------------------------------------------------------------------------- */

struct given {
    struct hf_task task;
    char args[16], names[2][16];
    const char *resources[2];
};

static void give(struct fleet_task *task, struct given *given)
{
    if (task->said_at.ns == 0)
        task->said_at = world_time();
    snprintf(given->args, sizeof given->args, "[%u]", task->key);
    for (unsigned i = 0; i < task->resource_count; i++) {
        snprintf(given->names[i], sizeof given->names[i], "r%u", task->resources[i]);
        given->resources[i] = given->names[i];
    }
    given->task = (struct hf_task){.class_name = fleet_class_names[task->kind],
                                   .args = given->args,
                                   .jid = task->jid,
                                   .queue = fleet_queues[task->queue],
                                   .resources = given->resources,
                                   .resource_count = task->resource_count,
                                   .in_ms = task->in_ms,
                                   .expires_in_ms = task->expires_ms,
                                   .unique = task->is_unique};
}

bool fleet_push_denies(const struct fleet_task *task)
{
    return task->pushed != HF_PUSH_QUEUED && task->pushed != HF_PUSH_SCHEDULED && task->pushed != HF_PUSH_UNKNOWN;
}

static void told(struct fleet_task *task, enum hf_push_answer answer, const char *reason)
{
    task->pushed = answer;
    play_count(hf_push_answer_name(answer), 1);
    world_tell("pushed %s: %s %s", task->jid, hf_push_answer_name(answer), reason);
    if (answer == HF_PUSH_INVALID)
        play_violated("push", "%s was called invalid: %s", task->jid, reason);
    if (fleet_push_denies(task) && task->was_seen && !task->was_forgotten)
        play_violated("pushed", "%s is %s, and was there", task->jid, hf_push_answer_name(answer));
}

static void push_one(struct hf_producer *producer, struct fleet_task *task)
{
    struct given given;
    struct hf_receipt receipt;
    give(task, &given);
    enum hf_push_answer answer = hf_push(producer, &given.task, &receipt);
    told(task, answer, receipt.reason);
}

static void push_many(struct hf_producer *producer, struct fleet_task *const *tasks, unsigned count)
{
    struct given given[MANY] = {0};
    struct hf_task array[MANY] = {0};
    struct hf_receipt receipts[MANY];
    for (unsigned i = 0; i < count; i++) {
        give(tasks[i], &given[i]);
        array[i] = given[i].task;
    }
    (void)hf_push_many(producer, array, count, receipts);
    for (unsigned i = 0; i < count; i++)
        told(tasks[i], receipts[i].answer, receipts[i].reason);
}

static void streamed(void *context, const struct hf_stream_report *report)
{
    (void)context;
    for (size_t i = 0; i < report->count; i++)
        told(&fleet.tasks[report->numbers[i]], report->answer, report->reason != NULL ? report->reason : "");
}

static void push_stream(struct hf_producer *producer, struct fleet_task *const *tasks, unsigned count)
{
    char reason[HF_REASON_SIZE];
    struct hf_stream *stream = hf_stream_open(producer, &(struct hf_task){0}, streamed, NULL, reason, sizeof reason);
    invariant(stream != NULL);
    for (unsigned i = 0; i < count; i++) {
        struct buffer text = {0};
        fleet_task_write(tasks[i], &text);
        if (!hf_stream_add(stream, text.bytes, text.length, tasks[i]->number, reason, sizeof reason))
            play_violated("push", "a stream does not take %s: %s", buffer_text(&text), reason);
        buffer_fini(&text);
    }
    hf_stream_close(stream);
}

/* One for each queue, one for the schedule. Each that is unique is alone, and what follows it is not sent with what
 * came before it. */
static void slices_note(struct fleet_task *const *tasks, unsigned count)
{
    unsigned first = tasks[0]->number;
    for (unsigned i = 0; i < count; i++)
        if (tasks[i]->is_unique)
            first = tasks[i]->number;
        else
            tasks[i]->slice = 1 + first * (FLEET_QUEUES + 1) + (tasks[i]->in_ms > 0 ? FLEET_QUEUES : tasks[i]->queue);
}

static void push(struct hf_producer *producer, struct fleet_task *const *tasks, unsigned count)
{
    slices_note(tasks, count);
    bool is_simple = true; /* the fields that the text of a task can have */
    for (unsigned i = 0; i < count; i++)
        is_simple = is_simple && !tasks[i]->is_unique && tasks[i]->in_ms == 0;
    if (count == 1)
        push_one(producer, tasks[0]);
    else if (is_simple && chance_pick(&process_current()->chance, 2) == 0)
        push_stream(producer, tasks, count);
    else
        push_many(producer, tasks, count);
}

/* What it had begun to push may be there or not: the next process goes on behind that. */
static void death_plan(struct producer *producer)
{
    if (producer->is_mortal && !fleet.is_calm && chance_pick(&producer->chance, DEATHS) == 0)
        world_at(&producer->death, instant_after(world_time(), chance_scale(&producer->chance, 1, DEATH_NS)));
}

static void producer_main(void *argument)
{
    struct producer *me = argument;
    char reason[HF_REASON_SIZE];
    struct fleet_task *tasks[MANY];
    struct chance *chance = &process_current()->chance;
    process_blocks_begin();
    struct hf_producer *producer =
        hf_producer_create(&(struct hf_producer_options){.host = "queue"}, reason, sizeof reason);
    invariant(producer != NULL);
    unsigned count = 0, wanted = 1;
    for (unsigned i = me->next; i < fleet.task_count; i += fleet.producer_count) {
        if (fleet.tasks[i].origin == OF_PRODUCER)
            tasks[count++] = &fleet.tasks[i];
        process_sleep(chance_below(chance, fleet.push_gap_ns));
        if (count < wanted)
            continue;
        me->next = i + fleet.producer_count;
        death_plan(me);
        push(producer, tasks, count);
        count = 0;
        wanted = chance_pick(chance, 4) == 0 ? 1 + chance_pick(chance, MANY) : 1;
    }
    me->next = fleet.task_count;
    if (count > 0)
        push(producer, tasks, count);
    hf_producer_destroy(producer);
    play_freed();
}

static void producer_born(struct world_event *event)
{
    struct producer *producer = list_owner(event, struct producer, birth);
    producer->is_dead = false;
    producer->process = process_start(producer->host, producer->host->name, producer_main, producer);
}

static void producer_dies(struct world_event *event)
{
    struct producer *producer = list_owner(event, struct producer, death);
    if (!producer->process->is_alive)
        return;
    play_count("a producer is killed", 1);
    world_tell("%s is killed", producer->host->name);
    producer->is_dead = true;
    process_kill(producer->process, chance_pick(&producer->chance, 3) == 0);
    world_at(&producer->birth, instant_after(world_time(), chance_below(&producer->chance, BIRTH_NS)));
}

struct host *fleet_producer_start(unsigned number)
{
    char name[24];
    struct producer *producer = &producers[number];
    snprintf(name, sizeof name, "producer%u", number);
    for (unsigned i = number; i < fleet.task_count; i += fleet.producer_count)
        fleet.tasks[i].pushed = HF_PUSH_UNKNOWN; /* until it is known */
    *producer = (struct producer){.number = number,
                                  .next = number,
                                  .host = host_create(name),
                                  .death = {.fire = producer_dies},
                                  .birth = {.fire = producer_born},
                                  .chance = {.state = chance_next(&fleet.chance)}};
    producer->is_mortal = chance_pick(&producer->chance, 3) == 0 && play_move("%s is killed in some pushes", name);
    producer_born(&producer->birth);
    return producer->host;
}

bool fleet_producers_have_ended(void)
{
    for (unsigned i = 0; i < fleet.producer_count; i++)
        if (producers[i].is_dead || producers[i].process->is_alive)
            return false;
    return fleet.has_foreigner_ended;
}

void fleet_pushes_end(void)
{
    if (!fleet_producers_have_ended())
        play_violated("liveness", "a producer has not ended long after the trouble");
    for (unsigned i = 0; i < fleet.task_count; i++)
        for (unsigned k = 0; k < i && fleet.tasks[i].slice != 0; k++) {
            const struct fleet_task *task = &fleet.tasks[i], *other = &fleet.tasks[k];
            bool is_known = !task->was_forgotten && !other->was_forgotten;
            if (other->slice == task->slice && other->was_seen != task->was_seen && is_known)
                play_violated("pushed", "of %s and %s, which were pushed together, one was never there", task->jid,
                              other->jid);
        }
}

/* --- of others ---------------------------------------------------------------------------------------------------- */

static struct world_event foreigner;
static unsigned foreigner_next;

static bool list_push(unsigned queue, const char *text)
{
    struct simulated_client client;
    struct buffer line = {0};
    buffer_format(&line, "LPUSH queue:%s '%s'", fleet_queues[queue], text);
    simulated_client_connect(&client, fleet.queue->server);
    simulated_client_say(&client, buffer_text(&line), node_now_us(fleet.queue));
    bool is_there = simulated_client_heard(&client)[0] == ':';
    simulated_client_end(&client);
    buffer_fini(&line);
    node_look(fleet.queue);
    return is_there;
}

/* None of them runs. */
static const char *const nonsense[] = {
    "{\"class\":7", "nonsense",
    "{\"class\":\"work\",\"args\":[\"?\"],\"jid\":\"sealed\",\"encrypt\":true,\"retry\":0}"};

static void foreigner_acts(struct world_event *event)
{
    struct chance *chance = world_chance();
    if (!fleet.queue->is_up || fleet.queue->is_paused) {
        world_at(event, instant_after(world_time(), 100 * NS_PER_MS));
        return;
    }
    while (foreigner_next < fleet.task_count && fleet.tasks[foreigner_next].origin != OF_FOREIGN)
        foreigner_next++;
    if (foreigner_next < fleet.task_count) {
        struct fleet_task *task = &fleet.tasks[foreigner_next++];
        struct buffer text = {0};
        fleet_task_write(task, &text);
        if (list_push(task->queue, buffer_text(&text)))
            task->pushed = HF_PUSH_QUEUED;
        world_tell("pushed %s from elsewhere", task->jid);
        play_count("pushed from elsewhere", 1);
        buffer_fini(&text);
    } else if (fleet.nonsense == FLEET_NONSENSE_MAX) {
        fleet.has_foreigner_ended = true;
        return;
    } else if (list_push(1, nonsense[chance_pick(chance, 3)])) {
        fleet.nonsense++;
        play_count("nonsense", 1);
    }
    world_at(event, instant_after(world_time(), chance_below(chance, 4 * fleet.push_gap_ns)));
}

void fleet_foreigner_start(void)
{
    for (unsigned i = 0; i < fleet.task_count; i++)
        fleet.tasks[i].pushed = HF_PUSH_UNKNOWN;
    foreigner.fire = foreigner_acts;
    world_at(&foreigner, world_time());
}
