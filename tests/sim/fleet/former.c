/* A worker of the release before, during a rolling upgrade. Its keys are of scheme 1 (docs/data-model.md), and it sends
 * the very texts of that release's scripts (tests/support/scheme1). It serves the same queues: it runs plain tasks, and
 * gives back the others or puts them into `schedule`. It ends in order, or is killed: then nobody recovers what it had
 * before an operator does.
 *
 *   former  only its own scripts and operators take tasks out of its claims */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/invariant.h"
#include "redis/request.h"
#include "tests/sim/fleet/fleet.h"
#include "tests/sim/server/simulated_client.h"

enum { SLOTS = 4, ID_SIZE = 17, FIRST_PID = 900000, TURNS_MAX = 100 };

#define TURN_NS  (200 * NS_PER_MS)
#define BIRTH_NS (4 * NS_PER_S)

enum script { CLAIM, ENLIST, GIVE_BACK, LEAVE, POSTPONE, SCRIPTS };

/* For the judges. */
static const char *const names[SCRIPTS] = {"former claim", "former enlist", "former give_back", "former leave",
                                           "former postpone"};
static struct buffer sources[SCRIPTS];

struct slot {
    char id[ID_SIZE], next[ID_SIZE]; /* in its place, "" = none; of an unanswered call, "" = none */
    char queue[16];
    struct buffer task; /* empty = none, or its run has ended */
};

static struct former {
    struct world_event turn;
    struct chance chance;
    struct simulated_client client;
    struct slot slots[SLOTS];
    unsigned turns, ids;
    pid_t pid;
    char identity[40], claims[64];
    bool is_alive, was_killed;
} former;

static void sources_read(void)
{
    for (unsigned i = 0; i < SCRIPTS; i++) {
        char path[64], bytes[8192];
        snprintf(path, sizeof path, "tests/support/scheme1/%s.lua", strchr(names[i], ' ') + 1);
        FILE *file = fopen(path, "re");
        invariant(file != NULL);
        buffer_append(&sources[i], bytes, fread(bytes, 1, sizeof bytes, file));
        fclose(file);
        struct redis_script script = {
            .name = names[i], .source = buffer_text(&sources[i]), .length = sources[i].length};
        server_name_scripts((const struct redis_script *const[]){&script}, 1);
    }
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

static void call_begin(struct buffer *out, enum script script, unsigned keys, unsigned arguments)
{
    redis_request_begin(out, 3 + keys + arguments);
    redis_request_text(out, "EVAL");
    redis_request_bytes(out, sources[script].bytes, sources[script].length);
    redis_request_integer(out, keys);
}

/* Sends it, and returns what the node answers. */
static const char *call_end(struct buffer *out)
{
    buffer_clear(&former.client.said);
    server_receive(former.client.connection, out->bytes, out->length, node_now_us(fleet.queue));
    buffer_fini(out);
    node_look(fleet.queue);
    return buffer_text(&former.client.said);
}

static const char *next_id(struct slot *slot)
{
    if (slot->next[0] == '\0')
        snprintf(slot->next, ID_SIZE, "%016x", ++former.ids);
    return slot->next;
}

static void settled(struct slot *slot)
{
    memcpy(slot->id, slot->next, ID_SIZE);
    slot->next[0] = '\0';
    buffer_clear(&slot->task);
}

static void queue_key(struct buffer *out, const char *prefix, const char *queue)
{
    char key[96];
    snprintf(key, sizeof key, "%s%s", prefix, queue);
    redis_request_text(out, key);
}

static void bell_key(struct buffer *out, unsigned queue)
{
    char prefix[64];
    snprintf(prefix, sizeof prefix, "hf:bell:%s:", former.identity);
    queue_key(out, prefix, fleet_queues[queue]);
}

/* --- what it does with a task ------------------------------------------------------------------------------------- */

/* It runs what needs no lock and leaves nothing behind, and all of it ends as done. */
static bool is_plain(const struct fleet_task *task)
{
    bool has_terms = task->kind == CLASS_ONCE || task->kind == CLASS_CACHE || task->kind == CLASS_NOBODY;
    return !has_terms && task->resource_count == 0 && task->child == 0 && task->expires_ms == 0 && !task->is_unique;
}

static struct fleet_task *task_of(const struct slot *slot)
{
    char jid[sizeof fleet.tasks[0].jid] = "";
    struct text text = {.bytes = slot->task.bytes, .length = slot->task.length};
    const char *at = memmem(text.bytes, text.length, "\"jid\":\"", 7);
    if (at != NULL)
        sscanf(at + 7, "%31[^\"]", jid);
    return fleet_task_of(jid);
}

static void give_back(struct slot *slot, unsigned number)
{
    struct buffer out = {0};
    call_begin(&out, GIVE_BACK, 2, 3);
    redis_request_text(&out, former.claims);
    queue_key(&out, "queue:", slot->queue);
    redis_request_integer(&out, number);
    redis_request_text(&out, slot->id);
    redis_request_text(&out, next_id(slot));
    if (call_end(&out)[0] == ':')
        settled(slot);
}

static void postpone(struct slot *slot, unsigned number)
{
    struct buffer out = {0};
    call_begin(&out, POSTPONE, 2, 7);
    redis_request_text(&out, former.claims);
    redis_request_text(&out, "schedule");
    redis_request_integer(&out, number);
    redis_request_text(&out, slot->id);
    redis_request_text(&out, next_id(slot));
    redis_request_text(&out, "0.2");
    redis_request_bytes(&out, slot->task.bytes, slot->task.length);
    redis_request_integer(&out, 0);
    redis_request_integer(&out, 0);
    if (call_end(&out)[0] == ':')
        settled(slot);
}

/* A run lasts until the next turn. */
static void claimed(struct slot *slot, unsigned number)
{
    struct fleet_task *task = task_of(slot);
    if (task != NULL)
        task->is_unordered = true;
    if (task != NULL && is_plain(task)) {
        fleet_judge_ran(task, former.pid);
        play_count("run by the former release", 1);
        buffer_clear(&slot->task);
    } else if (task != NULL && !task->is_unwanted && chance_pick(&former.chance, 4) == 0)
        postpone(slot, number);
    else
        give_back(slot, number);
}

/* --- a turn ------------------------------------------------------------------------------------------------------- */

/* "+queue", a line end and the task; "-"; or "!" and the place as it is, which the node has had before it forgot. */
static void answer_read(struct slot *slot, unsigned number, const char *answer, size_t length)
{
    const char *line = memchr(answer, '\n', length), *word = answer + 1;
    settled(slot);
    if (answer[0] == '!') {
        snprintf(slot->id, ID_SIZE, "%.*s", (int)(length - 1), word);
        word += strlen(slot->id);
    }
    if (answer[0] == '-' || line == NULL)
        return;
    snprintf(slot->queue, sizeof slot->queue, "%.*s", (int)(line - word), word);
    buffer_append(&slot->task, line + 1, (size_t)(answer + length - line) - 1);
    claimed(slot, number);
}

/* For the slots that want a task, one after the other. */
static void answers_read(const bool *asks, struct buffer *answers)
{
    char *at = strchr(answers->bytes, '\n');
    for (unsigned i = 0; i < SLOTS; i++) {
        if (!asks[i])
            continue;
        invariant(at != NULL && at[1] == '$');
        size_t length = strtoul(at + 2, &at, 10);
        answer_read(&former.slots[i], i, at + 2, length);
        at += 2 + length;
        at = strchr(at, '\n');
    }
}

static unsigned lists_write(struct buffer *out, const bool *is_open, bool as_keys)
{
    unsigned count = 0;
    for (unsigned kind = 0; kind < 2; kind++)
        for (unsigned i = 0; i < FLEET_QUEUES; i++) {
            if (!is_open[i])
                continue;
            count++;
            if (out != NULL && !as_keys)
                redis_request_text(out, fleet_queues[i]);
            else if (out != NULL && kind == 0)
                bell_key(out, i);
            else if (out != NULL)
                queue_key(out, "queue:", fleet_queues[i]);
        }
    return count;
}

/* Settles what has run and claims more. Slots with an unanswered call follow later. */
static void claim(bool wants)
{
    bool asks[SLOTS], is_open[FLEET_QUEUES];
    unsigned asking = 0;
    for (unsigned i = 0; i < FLEET_QUEUES; i++)
        is_open[i] = !fleet_queue_is_paused(i);
    for (unsigned i = 0; i < SLOTS; i++)
        asking += asks[i] = former.slots[i].task.length == 0;
    if (asking == 0)
        return;
    struct buffer out = {0};
    unsigned lists = lists_write(NULL, is_open, true);
    call_begin(&out, CLAIM, 2 + lists, 2 + lists + 4 * asking);
    redis_request_text(&out, "hf:processes");
    redis_request_text(&out, former.claims);
    (void)lists_write(&out, is_open, true);
    redis_request_text(&out, former.identity);
    redis_request_integer(&out, 1000000);
    (void)lists_write(&out, is_open, false);
    for (unsigned i = 0; i < SLOTS; i++) {
        struct slot *slot = &former.slots[i];
        if (!asks[i])
            continue;
        redis_request_integer(&out, i);
        redis_request_text(&out, slot->id);
        redis_request_text(&out, next_id(slot));
        redis_request_integer(&out, wants);
    }
    if (call_end(&out)[0] != '*')
        return;
    struct buffer answers = former.client.said;
    former.client.said = (struct buffer){0};
    answers_read(asks, &answers);
    buffer_fini(&answers);
}

static void ring(void)
{
    struct buffer out = {0};
    unsigned queue = chance_pick(&former.chance, FLEET_QUEUES);
    if (fleet_queue_is_paused(queue))
        return;
    redis_request_begin(&out, 5);
    redis_request_text(&out, "LMOVE");
    queue_key(&out, "queue:", fleet_queues[queue]);
    bell_key(&out, queue);
    redis_request_text(&out, "RIGHT");
    redis_request_text(&out, "LEFT");
    (void)call_end(&out);
}

static void enlist(void)
{
    struct buffer out = {0};
    call_begin(&out, ENLIST, 1, 1);
    redis_request_text(&out, "hf:processes");
    redis_request_text(&out, former.identity);
    (void)call_end(&out);
}

static bool leave(void)
{
    struct buffer out = {0};
    call_begin(&out, LEAVE, 2 + 2 * FLEET_QUEUES, 2);
    redis_request_text(&out, "hf:processes");
    redis_request_text(&out, former.claims);
    for (unsigned i = 0; i < FLEET_QUEUES; i++) {
        bell_key(&out, i);
        queue_key(&out, "queue:", fleet_queues[i]);
    }
    redis_request_text(&out, former.identity);
    redis_request_text(&out, "queue:");
    return strncmp(call_end(&out), ":0", 2) == 0;
}

/* --- its life ----------------------------------------------------------------------------------------------------- */

static void born(void)
{
    former.is_alive = true;
    former.turns = chance_pick(&former.chance, TURNS_MAX);
    former.pid = former.pid == 0 ? FIRST_PID : former.pid + 1;
    for (unsigned i = 0; i < SLOTS; i++) {
        former.slots[i].id[0] = former.slots[i].next[0] = '\0';
        buffer_clear(&former.slots[i].task);
    }
    snprintf(former.identity, sizeof former.identity, "former:%d:0123456789ab", (int)former.pid);
    snprintf(former.claims, sizeof former.claims, "hf:claims:%s", former.identity);
    world_tell("a worker of the former release begins, %d", (int)former.pid);
}

static void died(void)
{
    play_count("a former worker is killed", 1);
    world_tell("the worker of the former release is killed");
    former.is_alive = false;
    former.was_killed = true;
    fleet_judge_recovered(former.pid);
}

/* It ends when its runs are settled. */
static void last_turn(void)
{
    claim(false);
    bool is_settled = true;
    for (unsigned i = 0; i < SLOTS; i++)
        is_settled = is_settled && former.slots[i].task.length == 0 && former.slots[i].next[0] == '\0';
    if (is_settled && leave()) {
        former.is_alive = false;
        world_tell("the worker of the former release has left");
    }
}

static void act(void)
{
    simulated_client_connect(&former.client, fleet.queue->server);
    enlist();
    for (unsigned i = 0; i < SLOTS; i++)
        if (former.slots[i].task.length > 0)
            give_back(&former.slots[i], i);
    if (former.turns == 0 || fleet.is_calm)
        last_turn();
    else {
        former.turns--;
        if (chance_pick(&former.chance, 5) == 0)
            ring();
        claim(true);
    }
    simulated_client_end(&former.client);
}

static void turn(struct world_event *event)
{
    bool is_reached = fleet.queue->is_up && !fleet.queue->is_paused;
    if (!former.is_alive && fleet.is_calm)
        return;
    if (!former.is_alive)
        born();
    if (is_reached)
        act();
    if (former.is_alive && former.turns == 0 && chance_pick(&former.chance, 3) == 0)
        died();
    world_at(event, instant_after(world_time(), chance_below(&former.chance, former.is_alive ? TURN_NS : BIRTH_NS)));
}

void fleet_former_start(uint64_t seed)
{
    former.chance = (struct chance){.state = chance_mix(seed * 2)};
    if (chance_pick(&former.chance, 4) != 0 || fleet_is_quiet() || !play_move("workers of the former release"))
        return;
    sources_read();
    former.turn.fire = turn;
    world_at(&former.turn, instant_after(world_time(), chance_below(&former.chance, BIRTH_NS)));
}

bool fleet_former_was_killed(void)
{
    return former.was_killed;
}

bool fleet_former_has_ended(void)
{
    return !former.is_alive;
}

bool fleet_former_has(pid_t pid)
{
    return pid >= FIRST_PID;
}
