/* G1 at the queue node: through cut connections, lost replies, a node that is stopped, killed, restarted, out of memory
 * or without its scripts, every task is at every instant in exactly one place, and ends once. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "queue/promoter.h"
#include "tests/support/loop_until.h"
#include "tests/support/queue_probe.h"
#include "tests/support/relay.h"

static struct loop *loop;
static struct redis_server *server;
static struct relay *relay;

/* With appendfsync everysec a server holds writes back while it syncs, and a kill would lose what it acknowledged. */
static int group_setup(void **state)
{
    (void)state;
    loop = loop_create(NULL);
    assert_non_null(loop);
    server = redis_server_start(
        &(struct redis_server_options){.config = "appendonly yes\nappendfsync no\nauto-aof-rewrite-percentage 0\n"});
    relay = relay_start(redis_server_port(server));
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    relay_destroy(relay);
    redis_server_destroy(server);
    loop_destroy(loop);
    return 0;
}

/* --- two processes and their tasks -------------------------------------------------------------------------------- */

enum { TASKS_MAX = 6000, SLOTS = 8, PUSHED = 30 };

enum task_state {
    TASK_OUT,    /* in the store; nobody of ours has it */
    TASK_HELD,   /* claimed by a slot */
    TASK_MOVING, /* its slot asked to move it back */
    TASK_ENDING, /* its slot asked to settle it */
    TASK_ENDED,
    TASK_BURYING,
    TASK_DEAD,
};

static struct {
    enum task_state state;
    unsigned claims;
} tasks[TASKS_MAX];

static unsigned pushed, ended;

struct process {
    struct queue_probe probe; /* first: on_answer gets it */
    struct promoter *promoter;
    struct loop_timer tick;
    unsigned task[SLOTS];   /* what the slot is moving or settling */
    unsigned claims[SLOTS]; /* how often that task had been claimed by then */
    bool has_task[SLOTS];
};

static struct process processes[2];

static unsigned task_number(const char *payload)
{
    const char *args = strstr(payload, "\"args\":[");
    assert_non_null(args);
    unsigned number = (unsigned)strtoul(args + 8, NULL, 10);
    assert_true(number < pushed);
    return number;
}

static void task_answered(struct process *process, unsigned slot)
{
    unsigned task = process->task[slot];
    process->has_task[slot] = false;
    if (process->claims[slot] != tasks[task].claims)
        return; /* moved, and claimed again since */
    switch (tasks[task].state) {
    case TASK_MOVING:
        tasks[task].state = TASK_OUT;
        return;
    case TASK_ENDING:
        tasks[task].state = TASK_ENDED;
        ended++;
        return;
    case TASK_BURYING:
        tasks[task].state = TASK_DEAD;
        ended++;
        return;
    default:
        fail_msg("task %u was answered in state %d", task, (int)tasks[task].state);
    }
}

static bool is_idle(const struct process *process, unsigned slot)
{
    return !process->has_task[slot] && process->probe.slots[slot].asked == process->probe.slots[slot].answers;
}

/* As a worker does. A process that listened while nobody may ask would keep what rings for itself, and a ring is not
 * repeated. */
static void listen_while_idle(struct process *process)
{
    bool has_idle = false;
    for (unsigned slot = 0; slot < SLOTS; slot++)
        has_idle = has_idle || is_idle(process, slot);
    queue_listen(process->probe.queue, has_idle);
}

/* Promoted soon, so that the last tasks do not wait a second each time. */
static void task_delay(struct process *process, unsigned slot, enum queue_place place, const char *payload)
{
    int64_t delay_ns = random_between(0, 20 * NS_PER_MS);
    queue_probe_postpone(&process->probe, slot, place, delay_ns, payload);
    promoter_expect(process->promoter, delay_ns);
}

/* Does something with the task that was claimed. */
static void task_act(struct process *process, unsigned slot, unsigned task)
{
    struct queue_probe *probe = &process->probe;
    int64_t dice = random_between(0, 99);
    char *payload = memory_text(probe->slots[slot].payload);
    tasks[task].state = dice < 65 ? TASK_ENDING : dice < 68 ? TASK_BURYING : TASK_MOVING;
    if (dice < 65)
        queue_probe_turn(probe, slot, dice < 55);
    else if (dice < 68)
        queue_probe_postpone(probe, slot, QUEUE_DEAD, 0, payload);
    else if (dice < 78)
        task_delay(process, slot, QUEUE_RETRY, payload);
    else if (dice < 88)
        task_delay(process, slot, QUEUE_SCHEDULE, payload);
    else
        queue_probe_give_back(probe, slot);
    free(payload);
}

static void answered(struct queue_probe *probe, unsigned slot)
{
    struct process *process = (struct process *)(void *)probe;
    const struct queue_probe_slot *answer = &probe->slots[slot];
    assert_int_not_equal(answer->answer, QUEUE_LOST);
    if (process->has_task[slot])
        task_answered(process, slot);
    if (answer->answer == QUEUE_CLAIMED) {
        unsigned task = task_number(answer->payload);
        if (tasks[task].state != TASK_OUT && tasks[task].state != TASK_MOVING)
            fail_msg("task %u was claimed in state %d", task, (int)tasks[task].state);
        tasks[task].claims++;
        process->task[slot] = task;
        process->claims[slot] = tasks[task].claims;
        process->has_task[slot] = true;
        tasks[task].state = TASK_HELD;
    }
    listen_while_idle(process);
}

/* Handlers take a while, so that trouble meets tasks in every state. */
static void tick(struct loop_timer *timer)
{
    struct process *process = list_owner(timer, struct process, tick);
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        const struct queue_probe_slot *at = &process->probe.slots[slot];
        if (process->has_task[slot] && at->asked == at->answers && random_between(0, 3) == 0)
            task_act(process, slot, process->task[slot]);
    }
    loop_timer_set(loop, timer, instant_after(loop_now(loop), NS_PER_MS));
}

static void rang(struct queue_probe *probe)
{
    struct process *process = (struct process *)(void *)probe;
    for (unsigned slot = 0; slot < SLOTS; slot++)
        if (is_idle(process, slot))
            queue_probe_turn(probe, slot, true);
    listen_while_idle(process);
}

static void process_start(struct process *process, unsigned port)
{
    static const struct envelope_limits limits = ENVELOPE_LIMITS_DEFAULT; /* outlive the promoter */
    *process = (struct process){.probe = {.on_answer = answered, .on_ring = rang}};
    queue_probe_start(&process->probe, loop, port, "a b",
                      &(struct queue_options){.slots = SLOTS, .timeout_ns = 100 * NS_PER_MS});
    process->promoter = promoter_create(loop, process->probe.queue,
                                        &(struct promoter_options){.limits = &limits, .timeout_ns = 100 * NS_PER_MS});
    listen_while_idle(process);
    loop_timer_init(&process->tick, tick);
    tick(&process->tick);
}

static void process_stop(struct process *process)
{
    if (process->promoter == NULL)
        return;
    loop_timer_clear(loop, &process->tick);
    promoter_destroy(process->promoter);
    process->promoter = NULL;
    queue_probe_stop(&process->probe);
}

static int teardown(void **state)
{
    (void)state;
    process_stop(&processes[0]);
    process_stop(&processes[1]);
    redis_server_resume(server);
    return 0;
}

/* The node may be out of memory: then nothing is pushed. */
static void push_tasks(unsigned count)
{
    for (unsigned i = 0; i < count && pushed < TASKS_MAX; i++) {
        const char *queue = pushed % 2 == 0 ? "a" : "b";
        char *reply = redis_server_command(
            server, "LPUSH queue:%s '{\"class\":\"t\",\"queue\":\"%s\",\"args\":[%u],\"jid\":\"j%u\"}'", queue, queue,
            pushed, pushed);
        pushed += reply[0] != '-';
        free(reply);
    }
}

/* --- the snapshot ------------------------------------------------------------------------------------------------- */

/* One script reads all places at one instant; no call of ours is between asked and known then, but for those whose
 * state says so. */
static void check_places(void)
{
    static unsigned char seen[TASKS_MAX];
    char *places = queue_probe_places(server), *rest = NULL;
    memset(seen, 0, sizeof seen);
    for (char *line = strtok_r(places, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, "queues ", 7) == 0)
            continue;
        unsigned task = task_number(line);
        if (seen[task]++ > 0)
            fail_msg("task %u is in two places, one of them: %s", task, line);
    }
    for (unsigned task = 0; task < pushed; task++) {
        enum task_state state = tasks[task].state;
        if (seen[task] == 0 && state != TASK_ENDING && state != TASK_ENDED)
            fail_msg("task %u is lost in state %d", task, (int)state);
        if (seen[task] == 1 && state == TASK_ENDED)
            fail_msg("task %u has ended and is still there", task);
    }
    free(places);
}

static void run_ms(int64_t least, int64_t most)
{
    loop_for(loop, random_between(least, most) * NS_PER_MS);
}

/* --- kinds of trouble --------------------------------------------------------------------------------------------- */

static void trouble_connections_killed(void)
{
    free(redis_server_command(server, "CLIENT KILL TYPE normal"));
}

static void trouble_scripts_flushed(void)
{
    free(redis_server_command(server, "SCRIPT FLUSH"));
}

static void trouble_out_of_memory(void)
{
    free(redis_server_command(server, "CONFIG SET maxmemory 1"));
    for (int i = 0; i < 4; i++) {
        run_ms(5, 20);
        check_places();
    }
    free(redis_server_command(server, "CONFIG SET maxmemory 0"));
}

static void trouble_stopped(void)
{
    redis_server_pause(server);
    run_ms(20, 250);
    redis_server_resume(server);
}

static void trouble_killed(void)
{
    redis_server_kill(server);
    run_ms(1, 50);
    redis_server_restart(server);
}

static bool is_any_held(void *context)
{
    (void)context;
    for (int i = 0; i < 2; i++)
        for (unsigned slot = 0; slot < SLOTS; slot++)
            if (processes[i].has_task[slot] &&
                processes[i].probe.slots[slot].asked == processes[i].probe.slots[slot].answers)
                return true;
    return false;
}

static bool is_any_asking(void *context)
{
    (void)context;
    for (int i = 0; i < 2; i++)
        for (unsigned slot = 0; slot < SLOTS; slot++)
            if (processes[i].probe.slots[slot].asked != processes[i].probe.slots[slot].answers)
                return true;
    return false;
}

/* It stands still before it is killed, so that a call of somebody who has a task has no answer for certain. */
static void trouble_killed_while_asked(void)
{
    do
        assert_true(loop_until(loop, is_any_held, NULL, TEST_PATIENCE_NS));
    while (!is_any_held(NULL));
    redis_server_pause(server);
    run_ms(20, 50);
    assert_true(loop_until(loop, is_any_asking, NULL, TEST_PATIENCE_NS));
    trouble_killed();
}

static void trouble_replies_lost(void)
{
    relay_swallow(relay, true);
    run_ms(1, 30);
    relay_cut(relay);
    relay_swallow(relay, false);
}

/* --- tests -------------------------------------------------------------------------------------------------------- */

static bool has_all_ended(void *context)
{
    (void)context;
    return ended == pushed;
}

static bool are_listed(void *context)
{
    (void)context;
    return queue_probe_number(server, "ZCARD hf:2:processes") == 2;
}

static void start(void)
{
    free(redis_server_command(server, "FLUSHALL"));
    memset(tasks, 0, sizeof tasks);
    pushed = ended = 0;
    process_start(&processes[0], redis_server_port(server));
    process_start(&processes[1], relay_port(relay));
    assert_true(loop_until(loop, are_listed, NULL, TEST_PATIENCE_NS));
}

/* Everything ends, and the two processes leave nothing behind. */
static void finish(void)
{
    if (!loop_until(loop, has_all_ended, NULL, TEST_PATIENCE_NS))
        fail_msg("%u of %u tasks have ended:\n%s", ended, pushed, queue_probe_places(server));
    check_places();
    unsigned dead = 0;
    for (unsigned task = 0; task < pushed; task++)
        dead += tasks[task].state == TASK_DEAD;
    for (int i = 0; i < 2; i++)
        assert_true(queue_probe_leave(&processes[i].probe, 20 * NS_PER_S));
    assert_int_equal(queue_probe_number(server, "ZCARD dead"), dead);
    assert_reply(server, dead > 0 ? "dead\nqueues" : "queues",
                 "EVAL \"local keys = redis.call('KEYS', '*') table.sort(keys) return keys\" 0");
}

static uint64_t repeats(void)
{
    return queue_counters(processes[0].probe.queue)->repeats + queue_counters(processes[1].probe.queue)->repeats;
}

static void suffer_once(void (*trouble)(void))
{
    push_tasks(PUSHED);
    run_ms(0, 10);
    check_places();
    trouble();
    check_places();
}

static void suffer(void (*trouble)(void), unsigned times)
{
    start();
    for (unsigned i = 0; i < times; i++)
        suffer_once(trouble);
    finish();
}

/* The same, and on until it has hit a call that had to be repeated: that is up to chance each time. */
static void suffer_until_hit(void (*trouble)(void), unsigned times)
{
    start();
    for (unsigned i = 0; i < times || (repeats() == 0 && pushed < TASKS_MAX); i++)
        suffer_once(trouble);
    assert_true(repeats() > 0);
    finish();
}

static void test_no_trouble_at_all(void **state)
{
    (void)state;
    start();
    for (int i = 0; i < 100; i++) {
        push_tasks(10);
        run_ms(0, 2);
        check_places();
    }
    finish();
}

static void test_connections_are_killed(void **state)
{
    (void)state;
    suffer_until_hit(trouble_connections_killed, 30);
}

static void test_scripts_are_flushed(void **state)
{
    (void)state;
    suffer(trouble_scripts_flushed, 30); /* lib/redis repeats those calls by itself */
}

static void test_the_node_is_out_of_memory(void **state)
{
    (void)state;
    suffer(trouble_out_of_memory, 10);
}

static void test_the_node_is_stopped(void **state)
{
    (void)state;
    suffer_until_hit(trouble_stopped, 10);
}

static void test_the_node_is_killed_and_restarted(void **state)
{
    (void)state;
    suffer(trouble_killed, 5); /* at any moment */
    process_stop(&processes[0]);
    process_stop(&processes[1]);
    suffer_until_hit(trouble_killed_while_asked, 2);
}

static void test_replies_are_lost(void **state)
{
    (void)state;
    suffer_until_hit(trouble_replies_lost, 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_no_trouble_at_all, teardown),
        cmocka_unit_test_teardown(test_connections_are_killed, teardown),
        cmocka_unit_test_teardown(test_scripts_are_flushed, teardown),
        cmocka_unit_test_teardown(test_the_node_is_out_of_memory, teardown),
        cmocka_unit_test_teardown(test_the_node_is_stopped, teardown),
        cmocka_unit_test_teardown(test_the_node_is_killed_and_restarted, teardown),
        cmocka_unit_test_teardown(test_replies_are_lost, teardown),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
