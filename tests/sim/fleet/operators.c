/* Operators: they make the lock group, and then use the commands of the program, at any moment. */
#include <stdio.h>

#include "base/memory.h"
#include "redlock/redlock_nodes.h"
#include "tests/sim/fleet/fleet.h"
#include "tests/sim/server/simulated_client.h"
#include "worker/commands/command.h"

enum { WORDS_MAX = 8, WORD_SIZE = 64 };

struct order {
    const struct command *command;
    char words[WORDS_MAX][WORD_SIZE];
    char *list[WORDS_MAX + 1];
    int count;
    unsigned resource; /* of unlock */
};

static struct host *host;

/* --- the group ---------------------------------------------------------------------------------------------------- */

static const struct redlock_group_terms group_terms = {.max_ttl_ms = FLEET_TTL_MAX_MS};

static void group_main(void *argument)
{
    char reason[256] = "";
    (void)argument;
    struct redlock_nodes *nodes = redlock_nodes_open(&fleet.lock_options, reason, sizeof reason);
    fleet.is_made = redlock_nodes_init(nodes, &group_terms) == REDLOCK_NODES_DONE;
    if (!fleet.is_made)
        play_violated("group", "%s", redlock_nodes_reason(nodes));
    redlock_nodes_close(nodes);
}

void fleet_group_make(void)
{
    host = host_create("operator");
    fleet.is_made = fleet.node_count == 1;
    if (!fleet.is_made)
        process_start(host, "operator", group_main, NULL);
}

/* A majority has lost the group, so the markers of the others are of no use. */
static void group_forget(void)
{
    for (unsigned i = 0; i < fleet.node_count; i++) {
        struct simulated_client client;
        simulated_client_connect(&client, fleet.nodes[i]->server);
        simulated_client_say(&client, "DEL hf:lock:group", node_now_us(fleet.nodes[i]));
        simulated_client_end(&client);
    }
}

static void heal_main(void *argument)
{
    char reason[256] = "";
    (void)argument;
    struct redlock_nodes *nodes = redlock_nodes_open(&fleet.lock_options, reason, sizeof reason);
    enum redlock_nodes_end end = redlock_nodes_heal(nodes, NULL, INT64_MAX);
    world_tell("healed: %d %s", (int)end, redlock_nodes_reason(nodes));
    if (end != REDLOCK_NODES_DONE) {
        group_forget();
        end = redlock_nodes_init(nodes, &group_terms);
    }
    world_tell("made again: %d %s", (int)end, redlock_nodes_reason(nodes));
    redlock_nodes_close(nodes);
}

/* Where no membership has a majority any more, nobody gets a lock before an operator helps. */
void fleet_group_heal(void)
{
    if (fleet.node_count == 1)
        return;
    play_count("helped by an operator", 1);
    process_start(host, "operator", heal_main, NULL);
}

/* --- commands ----------------------------------------------------------------------------------------------------- */

static void order_main(void *argument)
{
    struct order *order = argument;
    if (order->command == &command_unlock)
        fleet_judge_force(order->resource, true);
    int code = order->command->run(order->count, order->list);
    if (order->command == &command_unlock)
        fleet_judge_force(order->resource, false);
    world_tell("the command %s ends with %d", order->command->name, code);
}

static void word(struct order *order, const char *text)
{
    snprintf(order->words[order->count], WORD_SIZE, "%s", text);
    order->list[order->count] = order->words[order->count];
    order->count++;
}

static struct order *order_begin(const struct command *command, const char *text)
{
    struct order *order = memory_new(struct order);
    order->command = command;
    word(order, command->name);
    if (text != NULL)
        word(order, text);
    return order;
}

static void order_give(struct order *order)
{
    bool needs_locks = order->command == &command_unlock;
    word(order, needs_locks ? "--config" : "--host");
    word(order, needs_locks ? fleet.config_path : "queue");
    world_tell("the command %s %s %s", order->command->name, order->list[1], order->list[2]);
    play_count(order->command->name, 1);
    process_start(host, order->command->name, order_main, order);
}

static void task_command(struct chance *chance)
{
    static const char *const verbs[] = {"retry", "bury", "delete"};
    struct fleet_task *task = &fleet.tasks[chance_pick(chance, fleet.task_count)];
    unsigned kind = chance_pick(chance, 4);
    task->is_unordered = true;
    if (kind > 0)
        task->is_unwanted = true; /* the task may not be there yet */
    else {
        fleet_judge_excuse(task); /* if it is dead, it may run again */
        task->snoozed++;
    }
    struct order *order =
        kind == 3 ? order_begin(&command_cancel, task->jid) : order_begin(&command_tasks, verbs[kind]);
    if (kind < 3) {
        word(order, task->jid);
        word(order, "--yes");
    }
    order_give(order);
}

static void process_command(struct chance *chance)
{
    static const struct command *const commands[] = {&command_quiet, &command_stop, &command_stop};
    unsigned kind = chance_pick(chance, 3);
    struct order *order =
        order_begin(commands[kind], fleet.workers[chance_pick(chance, fleet.worker_count)].host->name);
    if (kind == 2)
        word(order, "--drain");
    order_give(order);
}

void fleet_operate(struct chance *chance)
{
    char name[16];
    struct order *order;
    if (!fleet.has_operators)
        return;
    switch (chance_pick(chance, 6)) {
    case 0:
    case 1:
        order_give(order_begin(&command_pause, fleet_queues[chance_pick(chance, FLEET_QUEUES)]));
        return;
    case 2:
        order_give(order_begin(&command_resume, fleet_queues[chance_pick(chance, FLEET_QUEUES)]));
        return;
    case 3:
        process_command(chance);
        return;
    case 4:
        snprintf(name, sizeof name, "r%u", chance_pick(chance, fleet.resource_count));
        order = order_begin(&command_unlock, name);
        order->resource = (unsigned)(name[1] - '0');
        word(order, "--force");
        order_give(order);
        return;
    default:
        task_command(chance);
        return;
    }
}

void fleet_resume(void)
{
    struct order *order = order_begin(&command_resume, NULL);
    for (unsigned i = 0; i < FLEET_QUEUES; i++)
        word(order, fleet_queues[i]);
    order_give(order);
}
