/* Where tasks are, by what the queue node holds; looked at behind everything that it executes.
 *
 *   state     a task is in one state: its queue, a claim, a bell, schedule, retry or dead; or it has ended, and for a
 *             reason; a follow-up is there when what it follows from has ended as done
 *   paused    nothing is claimed from a paused queue
 *   quiet     nor by a worker that is quiet, but by calls under way, one for each slot; no such task begins there
 *   retries   a retry is only used up by a run that failed, and who fails is dead only when all are
 *   unique    two tasks that are unique and alike do not wait at once
 *   recovery  what a dead process had claimed is back in its queue in time, while the queue node and a worker are well
 *   stopped   a worker that has ended has given back what it had
 *   refused   a call that was executed is not told that its claim is lost when it is repeated
 *   script    no script answers with an error that is not a refusal of the node
 *   liveness  when the trouble is over, each task ends in time
 *
 * What the queue node forgot (a failover to a replica that lags, a restart that lost the last second) is excused for
 * the tasks that it concerns. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "tests/sim/fleet/fleet.h"
#include "worker/worker.h"

/* The lease, a look every 5 s, and what it takes to find out that a connection is gone, and to begin. */
#define RECOVERY_NS (24 * NS_PER_S)
/* Whoever could not reach the node watches for a lease before it takes others for dead (recovery_permit.h). */
#define WATCH_NS (15 * NS_PER_S)
/* Until a connection to a host that is gone is known to be dead. */
#define SILENCE_NS (15 * NS_PER_S)

enum { SHELVES_MAX = 96, CLOCKS_MS = 1500 /* between two clocks, at most */, ID_BYTES = 16 /* of a claim */ };

/* A key with tasks in it, as it was read last. */
struct shelf {
    const struct value *value; /* NULL = gone */
    uint64_t version;
    enum fleet_state state;
    pid_t claimer;
    unsigned *numbers;
    size_t count, room;
    bool was_seen;
};

static struct shelf shelves[SHELVES_MAX];
static unsigned shelf_count;
static const struct keyspace *looked_at;
static uint64_t looked_version;

static struct found {
    unsigned copies;
    enum fleet_state state;
    pid_t claimer;
    char claim[17];
    long retry_count;
    char blamed[24];
    double due;
    bool is_touched;
} found[FLEET_TASKS_MAX];
static unsigned touched[FLEET_TASKS_MAX], touched_count;

/* --- what is in a key --------------------------------------------------------------------------------------------- */

static bool begins_with(struct text name, const char *word)
{
    return name.length >= strlen(word) && memcmp(name.bytes, word, strlen(word)) == 0;
}

static enum fleet_state state_of(struct text name)
{
    return begins_with(name, "queue:")          ? IN_QUEUE
           : begins_with(name, "hf:2:process:") ? IN_CLAIM
           : begins_with(name, "hf:2:bell:")    ? IN_BELL
           : text_is(name, text_of("schedule")) ? IN_SCHEDULE
           : text_is(name, text_of("retry"))    ? IN_RETRY
           : text_is(name, text_of("dead"))     ? IN_DEAD
                                                : NOWHERE;
}

static unsigned long number_behind(struct text text, const char *mark, unsigned long otherwise)
{
    const char *at = memmem(text.bytes, text.length, mark, strlen(mark));
    return at == NULL ? otherwise : strtoul(at + strlen(mark), NULL, 10);
}

/* A text of its own. */
static void word_behind(struct text text, const char *mark, char *out, size_t size)
{
    const char *at = memmem(text.bytes, text.length, mark, strlen(mark)), *end = NULL;
    if (at != NULL)
        end = memchr(at + strlen(mark), '"', (size_t)(text.bytes + text.length - at) - strlen(mark));
    int length = end == NULL ? 0 : (int)(end - at) - (int)strlen(mark);
    snprintf(out, size, "%.*s", length, at == NULL ? "" : at + strlen(mark));
}

static struct found *touch(unsigned number)
{
    if (!found[number].is_touched)
        touched[touched_count++] = number;
    found[number].is_touched = true;
    return &found[number];
}

static void shelf_forget(struct shelf *shelf)
{
    for (size_t i = 0; i < shelf->count; i++)
        touch(shelf->numbers[i])->copies--;
    shelf->count = 0;
}

static void task_note(struct shelf *shelf, struct text text, double due)
{
    unsigned long number = number_behind(text, "\"jid\":\"t", FLEET_TASKS_MAX);
    if (number >= fleet.task_count)
        return;
    struct found *task = touch((unsigned)number);
    task->copies++;
    task->state = shelf->state;
    task->claimer = shelf->claimer;
    task->due = due;
    task->retry_count = shelf->state == IN_RETRY ? (long)number_behind(text, "\"retry_count\":", ULONG_MAX) : -1;
    task->blamed[0] = '\0';
    if (shelf->state == IN_RETRY || shelf->state == IN_DEAD)
        word_behind(text, "\"error_class\":\"", task->blamed, sizeof task->blamed);
    memcpy(task->claim, shelf->state == IN_CLAIM ? text.bytes : "", shelf->state == IN_CLAIM ? 16 : 1);
    if (shelf->count == shelf->room) {
        shelf->room = shelf->room * 2 + 8;
        shelf->numbers = memory_resize(shelf->numbers, shelf->room, sizeof *shelf->numbers);
    }
    shelf->numbers[shelf->count++] = (unsigned)number;
}

/* Of HOST:PID:NONCE, with the name of a key before it or not. */
static pid_t pid_of(const char *identity)
{
    const char *nonce = strrchr(identity, ':');
    while (nonce != NULL && nonce > identity && nonce[-1] != ':')
        nonce--;
    return nonce == NULL ? 0 : (pid_t)strtol(nonce, NULL, 10);
}

static void shelf_read(struct shelf *shelf, enum fleet_state state)
{
    const struct value *value = shelf->value;
    const struct item *item;
    shelf_forget(shelf);
    shelf->state = state;
    shelf->claimer = state == IN_CLAIM ? pid_of(value->key->name) : 0;
    shelf->version = value->version;
    for (size_t i = 0; value->type == VALUE_LIST && i < value_count(value); i++)
        task_note(shelf, value_entry(value, i), 0);
    for (size_t i = 0; value->type != VALUE_LIST && (item = table_next(&value->table, &i)) != NULL;)
        task_note(shelf, value->type == VALUE_HASH ? item_text(item) : item_name(item), item->score);
}

static struct shelf *shelf_of(const struct value *value)
{
    static unsigned next; /* mostly they come in the same order */
    struct shelf *empty = NULL;
    for (unsigned i = 0; i < shelf_count; i++) {
        struct shelf *shelf = &shelves[(next + i) % shelf_count];
        if (shelf->value == value) {
            next = (unsigned)(shelf - shelves) + 1;
            return shelf;
        }
        empty = shelf->value == NULL ? shelf : empty;
    }
    if (empty == NULL && shelf_count < SHELVES_MAX)
        empty = &shelves[shelf_count++];
    if (empty == NULL)
        play_violated("states", "too many keys hold tasks");
    else
        *empty = (struct shelf){.value = value, .numbers = empty->numbers, .room = empty->room};
    return empty;
}

static void shelves_read(void)
{
    const struct keyspace *space = server_keyspace(fleet.queue->server);
    const struct item *key;
    looked_at = space;
    looked_version = space->versions;
    for (unsigned i = 0; i < shelf_count; i++)
        shelves[i].was_seen = false;
    for (size_t at = 0; (key = table_next(&space->keys, &at)) != NULL;) {
        enum fleet_state state = state_of(item_name(key));
        struct shelf *shelf = state == NOWHERE ? NULL : shelf_of(key->value);
        if (shelf == NULL)
            continue;
        shelf->was_seen = true;
        if (shelf->version != key->value->version)
            shelf_read(shelf, state);
    }
    for (unsigned i = 0; i < shelf_count; i++)
        if (!shelves[i].was_seen && shelves[i].value != NULL) {
            shelf_forget(&shelves[i]);
            shelves[i].value = NULL;
        }
}

/* --- moves -------------------------------------------------------------------------------------------------------- */

static const char *by(const struct server_event *event)
{
    return event == NULL ? "a restart" : event->script != NULL ? event->script : event->command;
}

static bool is_by(const struct server_event *event, const char *script)
{
    return event != NULL && event->script != NULL && strcmp(event->script, script) == 0;
}

/* By the clock of its producer, which is roughly right. */
static bool may_expire(const struct fleet_task *task)
{
    struct instant since = task->said_at.ns != 0 ? task->said_at : task->seen_at;
    int64_t seen_ms = instant_since(since, world_time()) / NS_PER_MS;
    return task->expires_ms > 0 && (task->begun > 0 || seen_ms + CLOCKS_MS > task->in_ms + task->expires_ms);
}

/* It is nowhere any more. */
static void task_ended(struct fleet_task *task, const struct server_event *event)
{
    bool may_unrun = task->kind == CLASS_ONCE || task->kind == CLASS_CACHE || may_expire(task);
    bool has_failed = task->kind == CLASS_GONE && task->begun + task->failures > 0;
    task->is_over = true;
    if (task->ended == 0 && !task->is_unwanted && !may_unrun && !has_failed)
        play_violated("state", "%s is nowhere after %s, and has not ended", task->jid, by(event));
    const struct fleet_task *child = &fleet.tasks[task->child];
    bool is_done = task->child > 0 && task->ended > 0 && !task->is_unwanted && task->expires_ms == 0;
    if (is_done && found[task->child].copies == 0 && !child->is_over)
        play_violated("state", "%s has ended after %s, and %s, which follows, is not there", task->jid, by(event),
                      child->jid);
}

static bool is_waiting(const struct fleet_task *task)
{
    return task->state != NOWHERE && task->state != IN_DEAD;
}

static void task_appeared(struct fleet_task *task, const struct server_event *event)
{
    bool may_return = task->kind == CLASS_ONCE && (task->state == IN_DEAD || task->begun > 0); /* as its run ended */
    if (task->is_over && !task->is_lost && !task->is_unwanted && !may_return)
        play_violated("state", "%s is there again after its end, by %s", task->jid, by(event));
    if (fleet_push_denies(task) && !task->was_forgotten)
        play_violated("pushed", "%s appears, and its producer was told %s", task->jid,
                      hf_push_answer_name(task->pushed));
    task->is_over = false;
    for (unsigned i = 0; i < fleet.task_count && task->is_unique; i++) {
        const struct fleet_task *other = &fleet.tasks[i];
        bool is_alike = other != task && other->is_unique && other->key == task->key && other->kind == task->kind;
        if (is_alike && is_waiting(other) && !other->is_unwanted && !task->was_forgotten && !other->was_forgotten)
            play_violated("unique", "%s is taken, and %s waits", task->jid, other->jid);
    }
}

static void retries_check(struct fleet_task *task)
{
    task->retries++;
    if (fleet_is_quiet() && task->kind == CLASS_STRICT && task->retry_count + 1 < (long)task->retries)
        play_violated("retries", "%s is retried for the %u. time, and has used up %ld", task->jid, task->retries,
                      task->retry_count + 1);
    bool is_counted = task->kind != CLASS_STRICT && task->kind != CLASS_NOBODY;
    if (is_counted && task->retry_count + 1 > (long)fleet_failures(task))
        play_violated("retries", "%s has used up %ld retries, and failed %u times", task->jid, task->retry_count + 1,
                      fleet_failures(task));
}

/* As its task says, or its handler (handlers.c). */
static unsigned retries_of(const struct fleet_task *task)
{
    switch (task->kind) {
    case CLASS_NOBODY:
    case CLASS_GONE:
    case CLASS_ONCE:
    case CLASS_STRICT: /* refusals use them up as well */
        return 0;
    case CLASS_FRAIL:
        return 1;
    case CLASS_BRIEF:
    case CLASS_HELD:
        return 2;
    default:
        return 25;
    }
}

static void grave_check(const struct fleet_task *task)
{
    bool is_worn_out = strcmp(task->blamed, "HF::Failed") == 0 && !task->is_unwanted;
    if (is_worn_out && fleet_failures(task) <= retries_of(task))
        play_violated("retries", "%s is dead after %u failures, and may be retried %u times", task->jid,
                      fleet_failures(task), retries_of(task));
}

bool fleet_queue_is_paused(unsigned queue)
{
    const struct keyspace *space = server_keyspace(fleet.queue->server);
    const struct item *paused = table_find(&space->keys, text_of("paused"));
    return paused != NULL && table_find(&paused->value->table, text_of(fleet_queues[queue])) != NULL;
}

static bool lives(pid_t pid)
{
    for (unsigned i = 0; i < fleet.worker_count; i++)
        if (fleet.workers[i].process->pid == pid && fleet.workers[i].process->is_alive)
            return true;
    return false;
}

static void quiet_check(struct fleet_task *task, struct fleet_worker *worker)
{
    task->comes_late = worker != NULL && worker->is_quiet;
    play_count("claimed for a quiet worker", task->comes_late);
    if (task->comes_late && ++worker->late_claims > WORKER_SLOTS(fleet.threads))
        play_violated("quiet", "%s is claimed by %s, which is quiet", task->jid, worker->process->name);
}

/* Its worker has waited for its handler for as long as it may, and ends. */
static bool is_abandoned(const struct fleet_task *task, const struct server_event *event)
{
    const struct fleet_worker *worker = fleet_worker_of(task->claimer);
    return task->is_slow && worker != NULL && worker->is_told_to_stop && is_by(event, "give_back") &&
           worker->ending_ns + FLEET_TICK_NS >= fleet.stop_timeout_ms * NS_PER_MS;
}

static void task_moved(struct fleet_task *task, enum fleet_state from, const struct server_event *event)
{
    task->since = world_time();
    task->is_orphan = false;
    if (from == IN_CLAIM)
        fleet_judge_left(task);
    bool is_rescued = from == IN_CLAIM && is_by(event, "operate_move") && !lives(task->claimer_before);
    if (is_rescued || (from == IN_CLAIM && is_abandoned(task, event)))
        fleet_judge_excuse(task); /* as a recovery does */
    if (!task->was_seen && task->state != NOWHERE)
        task->seen_at = world_time();
    task->was_seen |= task->state != NOWHERE;
    task->is_successor = task->state == IN_CLAIM && (is_by(event, "claim_successor") || task->is_successor);
    world_tell("%s: state %d -> %d by %s", task->jid, (int)from, (int)task->state, by(event));
    if (task->copies > 1)
        play_violated("state", "%s is in %u states after %s", task->jid, task->copies, by(event));
    if (task->state == NOWHERE)
        task_ended(task, event);
    else if (from == NOWHERE)
        task_appeared(task, event);
    bool is_claimed = task->state == IN_CLAIM && (is_by(event, "claim") || is_by(event, "claim_successor"));
    if (is_claimed && fleet_queue_is_paused(task->queue))
        play_violated("paused", "%s is claimed by %s, and its queue is paused", task->jid, by(event));
    if (is_claimed)
        quiet_check(task, fleet_worker_of(task->claimer));
    if (task->state == IN_RETRY)
        retries_check(task);
    if (task->state == IN_DEAD)
        grave_check(task);
    fleet_blame_moved(task, from, by(event));
    fleet_waiter_moved(task, from, event);
}

/* The node lost it, so others may do again what was done. */
static void task_fell_back(struct fleet_task *task, enum fleet_state from)
{
    play_count("excused: the queue node forgot", 1);
    world_tell("%s: state %d -> %d, forgotten", task->jid, (int)from, (int)task->state);
    fleet_judge_excuse(task);
    task->was_forgotten = true;
    task->is_lost = task->state == NOWHERE;
    task->is_over = task->is_lost;
    task->is_unordered = true;
    task->is_parked = task->is_on_its_way = false;
    struct fleet_task *child = &fleet.tasks[task->child];
    if (task->child > 0 && child->is_over) { /* its follow-up may be pushed again */
        child->is_lost = child->was_forgotten = true;
        fleet_judge_excuse(child);
    }
}

static bool is_moved(const struct fleet_task *task, const struct found *now)
{
    enum fleet_state state = now->copies == 0 ? NOWHERE : now->state;
    return task->copies != now->copies || task->state != state || task->retry_count != now->retry_count ||
           (state == IN_CLAIM && (task->claimer != now->claimer || memcmp(task->claim, now->claim, 16) != 0));
}

static void states_look(const struct server_event *event)
{
    const struct keyspace *space = server_keyspace(fleet.queue->server);
    if (space == looked_at && space->versions == looked_version)
        return;
    enum fleet_state from[FLEET_TASKS_MAX];
    unsigned moved[FLEET_TASKS_MAX], moved_count = 0;
    shelves_read();
    for (unsigned i = 0; i < touched_count; i++) {
        struct fleet_task *task = &fleet.tasks[touched[i]];
        struct found *now = &found[touched[i]];
        now->is_touched = false;
        /* It was parked again since then, and the node has lost that. */
        bool was_due_else = event == NULL && now->copies > 0 && task->due != now->due;
        task->due = now->due;
        if (!is_moved(task, now) && !was_due_else)
            continue;
        from[moved_count] = task->state;
        moved[moved_count++] = touched[i];
        task->copies = now->copies;
        task->state = now->copies == 0 ? NOWHERE : now->state;
        task->claimer_before = task->claimer;
        if (task->state == IN_CLAIM)
            task->claimer = now->claimer;
        task->retry_count = now->retry_count;
        memcpy(task->blamed, now->blamed, sizeof task->blamed);
        memcpy(task->claim, now->claim, sizeof task->claim);
    }
    touched_count = 0;
    for (unsigned i = 0; i < moved_count; i++)
        if (event == NULL)
            task_fell_back(&fleet.tasks[moved[i]], from[i]);
        else
            task_moved(&fleet.tasks[moved[i]], from[i], event);
}

void fleet_states_rolled_back(void)
{
    fleet.was_rolled_back = true;
    for (unsigned i = 0; i < shelf_count; i++) {
        shelf_forget(&shelves[i]);
        shelves[i].value = NULL;
    }
    looked_at = NULL;
    states_look(NULL);
    for (unsigned i = 0; i < fleet.task_count; i++)
        if (fleet.tasks[i].is_successor) /* the node may have lost its confirmation, and nothing shows that */
            fleet_judge_excuse(&fleet.tasks[i]);
}

/* --- what the queue node does ------------------------------------------------------------------------------------- */

/* Scripts that the server has not seen since it started, a process that is listed no more, and refusals of the node. */
static bool is_expected(struct text error)
{
    static const char *const words[] = {"NOSCRIPT", "UNLISTED", "OOM", "MISCONF", "READONLY"};
    for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++)
        if (memmem(error.bytes, error.length, words[i], strlen(words[i])) != NULL)
            return true;
    return false;
}

/* Whether this slot has the id that the call leaves there. */
static bool is_left(const struct server_event *event, struct text slot, struct text id)
{
    const struct value *process = keyspace_find(server_keyspace(event->server), event->arguments[0]);
    const struct item *claim =
        process == NULL || process->type != VALUE_HASH ? NULL : table_find(&process->table, slot);
    return claim != NULL && claim->text_length >= id.length && memcmp(claim->text, id.bytes, id.length) == 0;
}

static bool is_move(const char *script)
{
    static const char *const moves[] = {"give_back", "postpone", "park", "finish", "finish_with", "skip"};
    for (unsigned i = 0; i < sizeof moves / sizeof moves[0]; i++)
        if (strcmp(script, moves[i]) == 0)
            return true;
    return false;
}

/* A repeated call that is answered "lost": the script did not recognise it. */
static bool is_refused(const struct server_event *event)
{
    const struct reply *reply = event->reply;
    const struct text *values = event->arguments + event->keys;
    if (is_move(event->script)) {
        const struct reply *code = reply->kind == REPLY_ARRAY && reply->count > 0 ? reply->items[0] : reply;
        return code->kind == REPLY_INTEGER && code->integer == 0 && is_left(event, values[0], values[2]);
    }
    if (strcmp(event->script, "claim") != 0 || reply->kind != REPLY_ARRAY)
        return false;
    long first = 3 + strtol(values[1].bytes, NULL, 10), slots = strtol(values[2].bytes, NULL, 10);
    const char *number = values[first].bytes, *ids = values[first + 2].bytes;
    for (long i = 0; i < slots; i++, number = strchr(number, ' ') + 1) {
        struct text slot = {number, strcspn(number, " ")}, id = {ids + (2 * i + 1) * ID_BYTES, ID_BYTES};
        const struct text told = reply->items[i]->text;
        bool is_its = told.length >= id.length && memcmp(told.bytes, id.bytes, id.length) == 0;
        if (!is_its && is_left(event, slot, id))
            return true;
    }
    return false;
}

static void executed(void *context, const struct server_event *event)
{
    (void)context;
    if (event->server != fleet.queue->server)
        return;
    if (event->script != NULL && event->reply != NULL) {
        if (event->reply->kind == REPLY_ERROR && !is_expected(event->reply->text))
            play_violated("script", "%s answers %s", event->script, event->reply->text.bytes);
        if (strcmp(event->script, "recover") == 0 && event->reply->kind == REPLY_ARRAY) {
            bool has_moved = event->reply->count > 1;
            play_count("recoveries", has_moved);
            if (strcmp(reply_text(event->reply, 0), "came back") != 0)
                fleet_judge_recovered(pid_of(event->arguments[event->keys].bytes));
        }
    }
    if (event->script != NULL && event->reply != NULL && is_refused(event))
        play_violated("refused", "%s is told that its claim is lost, and has moved it before", event->script);
    states_look(event);
    fleet_line_executed(event);
}

void fleet_states_watch(struct node *node)
{
    server_observe(node->server, executed, NULL);
}

/* --- now and then ------------------------------------------------------------------------------------------------- */

static void recovery_check(struct fleet_task *task)
{
    if (task->state != IN_CLAIM || lives(task->claimer)) {
        task->is_orphan = false;
        return;
    }
    if (!task->is_orphan)
        task->orphan_at = world_time();
    task->is_orphan = true;
    int64_t ns = instant_since(task->orphan_at, world_time()),
            well_ns = instant_since(fleet.healthy_since, world_time());
    int64_t bound_ns = RECOVERY_NS + (fleet.peace == PEACE_KILLS ? 0 : WATCH_NS);
    if (ns > bound_ns && well_ns > bound_ns)
        play_violated("recovery", "%s is claimed by process %d, which is dead for %.1f s", task->jid,
                      (int)task->claimer, (double)ns / 1e9);
}

void fleet_states_tick(void)
{
    for (unsigned i = 0; i < fleet.task_count; i++) {
        struct fleet_task *task = &fleet.tasks[i];
        bool is_there = task->pushed == HF_PUSH_QUEUED || task->pushed == HF_PUSH_SCHEDULED;
        if (is_there && task->state == NOWHERE && !task->is_over && !task->was_forgotten)
            play_violated("state", "%s was acknowledged, and is nowhere", task->jid);
        recovery_check(task);
    }
}

static bool is_lately(struct instant at)
{
    return at.ns != 0 && instant_before(world_time(), instant_after(at, SILENCE_NS));
}

void fleet_states_ended(const struct process *process)
{
    bool was_deaf = is_lately(fleet.vanished_at) || is_lately(fleet.queue->vanished_at);
    for (unsigned i = 0; i < fleet.task_count; i++)
        if (fleet.tasks[i].state != IN_CLAIM || fleet.tasks[i].claimer != process->pid)
            continue;
        else if (was_deaf) /* others recover what it has */
            play_count("excused: ended while it waited for a node that is gone", 1);
        else
            play_violated("stopped", "%s has ended, and %s is still in its claim", process->name, fleet.tasks[i].jid);
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

/* It failed so often that its next retry is minutes away. */
static bool is_far_away(const struct fleet_task *task)
{
    return task->state == IN_RETRY && task->retry_count >= 3 && task->due > (double)node_now_us(fleet.queue) / 1e6 + 30;
}

bool fleet_is_idle(void)
{
    struct keyspace *space = server_keyspace(fleet.queue->server);
    if (table_find(&space->keys, text_of("queue:default")) != NULL) /* also what is no task, or a tick */
        return false;
    for (unsigned i = 0; i < fleet.task_count; i++)
        if (is_waiting(&fleet.tasks[i]) && !is_far_away(&fleet.tasks[i]))
            return false;
    return true;
}

static bool waits_for_a_clock(const struct fleet_task *task)
{
    for (unsigned i = 0; i < task->resource_count; i++)
        if (fleet_lock_is_stuck(task->resources[i]))
            return true;
    return false;
}

void fleet_states_end(void)
{
    for (unsigned i = 0; i < fleet.node_count; i++)
        node_tell(fleet.nodes[i], "hf:lock:group");
    for (unsigned i = 0; i < fleet.task_count; i++) {
        const struct fleet_task *task = &fleet.tasks[i];
        if (is_waiting(task) && is_far_away(task))
            play_count("excused: its retry is far away", 1);
        else if (is_waiting(task) && waits_for_a_clock(task))
            play_count("excused: a clock that was wrong granted its lock", 1);
        else if (is_waiting(task))
            play_violated("liveness", "%s has not ended long after the trouble: state %d, class %s", task->jid,
                          (int)task->state, fleet_class_names[task->kind]);
        bool may_die = task->begun + task->failures > 0 || task->kind == CLASS_ONCE || task->is_unwanted ||
                       task->kind == CLASS_NOBODY || task->kind == CLASS_STRICT;
        if (task->state == IN_DEAD && !may_die && !fleet.was_killed)
            play_violated("state", "%s is dead, and never ran", task->jid);
    }
}
