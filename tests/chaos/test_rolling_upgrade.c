/* Workers of the release before, whose keys are of scheme 1 (hf:processes, hf:claims:IDENTITY, hf:bell:IDENTITY:QUEUE;
 * no leases), and workers of this one serve the same queue side by side: each task is run by one of them, once, and
 * neither touches what the other one has. */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "tests/support/one_fleet.h"

/* --- a worker of the release before ------------------------------------------------------------------------------- */

/* What it sends to the queue node, with the very texts of its scripts (tests/support/scheme1). It serves the queue
 * "jobs" with few slots, one turn at a time, and a run is what the test does between two turns. */
enum { FORMER_SLOTS = 4, FORMER_TASK_MAX = 512 };

struct former_slot {
    char id[17];                /* "" = its place was never written */
    char task[FORMER_TASK_MAX]; /* "" = none */
};

struct former_worker {
    char *claim, *postpone, *give_back, *leave; /* digests */
    struct former_slot slots[FORMER_SLOTS];
    unsigned ids, lost;
};

#define FORMER_IDENTITY "former:1:0123456789ab"

#define SCRIPTS "tests/support/scheme1/"
#define CLAIMS  "hf:claims:" FORMER_IDENTITY
#define BELL    "hf:bell:" FORMER_IDENTITY ":jobs"

static void former_worker_start(struct former_worker *worker)
{
    *worker = (struct former_worker){.ids = 0};
    worker->claim = fleet_script(&fleet, SCRIPTS "claim.lua");
    worker->postpone = fleet_script(&fleet, SCRIPTS "postpone.lua");
    worker->give_back = fleet_script(&fleet, SCRIPTS "give_back.lua");
    worker->leave = fleet_script(&fleet, SCRIPTS "leave.lua");
    char *enlist = fleet_script(&fleet, SCRIPTS "enlist.lua");
    free(fleet_ask(&fleet, "EVALSHA %s 1 hf:processes " FORMER_IDENTITY, enlist));
    free(enlist);
}

static void next_id(struct former_worker *worker, char id[17])
{
    snprintf(id, 17, "%016x", ++worker->ids);
}

/* An answer is "-", "!..." or "+queue", a line end, and the task. */
static void answers_read(struct former_worker *worker, char *answers)
{
    char *rest = answers, *line;
    for (unsigned i = 0; i < FORMER_SLOTS; i++) {
        struct former_slot *slot = &worker->slots[i];
        line = strsep(&rest, "\n");
        assert_non_null(line);
        worker->lost += line[0] == '!';
        slot->task[0] = '\0';
        if (line[0] == '+') {
            assert_string_equal(line, "+jobs");
            snprintf(slot->task, sizeof slot->task, "%s", strsep(&rest, "\n"));
        }
    }
}

/* What each slot had is done; claims the next ones, when wanted. */
static void former_worker_turn(struct former_worker *worker, bool wants)
{
    struct buffer command = {0};
    buffer_format(&command,
                  "EVALSHA %s 4 hf:processes " CLAIMS " " BELL " queue:jobs " FORMER_IDENTITY " 1000000 jobs jobs",
                  worker->claim);
    for (unsigned i = 0; i < FORMER_SLOTS; i++) {
        struct former_slot *slot = &worker->slots[i];
        char id[17];
        next_id(worker, id);
        buffer_format(&command, " %u \"%s\" %s %d", i, slot->id, id, wants);
        snprintf(slot->id, sizeof slot->id, "%s", id);
    }
    char *answers = redis_server_command(fleet.queue, "%s", buffer_text(&command));
    answers_read(worker, answers);
    free(answers);
    buffer_fini(&command);
}

/* Moves a task as its bell did. */
static void former_worker_ring(void)
{
    free(fleet_ask(&fleet, "LMOVE queue:jobs " BELL " RIGHT LEFT"));
}

static void former_worker_retry(struct former_worker *worker, unsigned number)
{
    struct former_slot *slot = &worker->slots[number];
    char id[17];
    next_id(worker, id);
    /* What it wrote into the record of a failure, as far as it matters here: a task that failed before has it. */
    const char *queue = strstr(slot->task, "\"queue\"") == NULL ? ",\"queue\":\"jobs\"" : "";
    slot->task[strlen(slot->task) - 1] = '\0';
    worker->lost += fleet_number(&fleet, "EVALSHA %s 2 " CLAIMS " retry %u %s %s 0 '%s%s}' 0 0", worker->postpone,
                                 number, slot->id, id, slot->task, queue) != 1;
    snprintf(slot->id, sizeof slot->id, "%s", id);
    slot->task[0] = '\0';
}

static void former_worker_give_back(struct former_worker *worker, unsigned number)
{
    struct former_slot *slot = &worker->slots[number];
    char id[17];
    next_id(worker, id);
    worker->lost += fleet_number(&fleet, "EVALSHA %s 2 " CLAIMS " queue:jobs %u %s %s", worker->give_back, number,
                                 slot->id, id) != 1;
    snprintf(slot->id, sizeof slot->id, "%s", id);
    slot->task[0] = '\0';
}

/* Gives back what it has. */
static void former_worker_leave(struct former_worker *worker)
{
    assert_int_equal(fleet_number(&fleet,
                                  "EVALSHA %s 4 hf:processes " CLAIMS " " BELL " queue:jobs " FORMER_IDENTITY " queue:",
                                  worker->leave),
                     0);
    free(worker->claim);
    free(worker->postpone);
    free(worker->give_back);
    free(worker->leave);
}

/* --- both --------------------------------------------------------------------------------------------------------- */

enum { TASKS = 600 };

static const struct fleet_setup present = {.worker = "lease = \"1s\";"};

static unsigned runs[TASKS]; /* of the former worker */
static struct former_worker former;

/* The number in "t17". */
static unsigned number_of(const char *jid)
{
    unsigned number = 0;
    assert_int_equal(sscanf(jid, "t%u", &number), 1);
    assert_in_range(number, 1, TASKS);
    return number - 1;
}

static unsigned number_of_task(const char *task)
{
    const char *jid = strstr(task, "\"jid\":\"");
    assert_non_null(jid);
    return number_of(jid + strlen("\"jid\":\""));
}

/* It runs most of what it has; some it gives back, some is to be retried, without having run. */
static void former_works(unsigned turn)
{
    for (unsigned i = 0; i < FORMER_SLOTS; i++) {
        if (former.slots[i].task[0] == '\0')
            continue;
        if ((turn + i) % 7 == 0)
            former_worker_give_back(&former, i);
        else if ((turn + i) % 11 == 0)
            former_worker_retry(&former, i);
        else
            runs[number_of_task(former.slots[i].task)]++;
    }
}

static void each_task_is_run_once_by_one_of_them(void **state)
{
    (void)state;
    unsigned ends[TASKS] = {0}, former_total = 0, number = 0;
    memset(runs, 0, sizeof runs);
    former_worker_start(&former);
    fleet_push_many(&fleet, "note", TASKS, 5, 0);
    unsigned first = fleet_work(&fleet, &present), second = fleet_work(&fleet, &present);
    for (unsigned turn = 1; fleet_number(&fleet, "LLEN queue:jobs") > 0; turn++) {
        if (turn % 5 == 0)
            former_worker_ring();
        former_worker_turn(&former, true);
        former_works(turn);
    }
    former_worker_turn(&former, false);
    former_worker_leave(&former);
    test_await(fleet_left(&fleet) == 0);
    one_fleet_stop(first);
    one_fleet_stop(second);
    char *journal = fleet_journal(&fleet), *rest = journal, *line;
    while ((line = strsep(&rest, "\n")) != NULL)
        if (sscanf(line, "begin t%u", &number) == 1)
            ends[number - 1]++;
    free(journal);
    for (unsigned i = 0; i < TASKS; i++) {
        if (runs[i] + ends[i] != 1)
            fail_msg("t%u was run %u times by the former worker and %u times by ours", i + 1, runs[i], ends[i]);
        former_total += runs[i];
    }
    print_message("%u of %u tasks were run by the former worker\n", former_total, (unsigned)TASKS);
    assert_in_range(former_total, 1, TASKS - 1);
    assert_int_equal(former.lost, 0);
}

static char *keys_like(const char *pattern)
{
    return fleet_ask(
        &fleet,
        "EVAL \"local out = {} for _, key in ipairs(redis.call('KEYS', ARGV[1])) do "
        "out[#out + 1] = redis.sha1hex(redis.call('DUMP', key)) .. key end table.sort(out) return out\" 0 %s",
        pattern);
}

/* The former one has claims and a task in its bell for longer than any lease; a worker of ours dies beside it and is
 * recovered. */
static void what_the_former_has_is_not_recovered(void **state)
{
    (void)state;
    former_worker_start(&former);
    fleet_push_many(&fleet, "note", FORMER_SLOTS + 1, 0, 0);
    former_worker_ring();
    former_worker_turn(&former, true);
    former_worker_ring();
    char *before = keys_like("hf:[cbp]*");
    assert_contains(before, "hf:bell:");
    unsigned workers[2] = {fleet_work(&fleet, &present), fleet_work(&fleet, &present)};
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[2500],\"jid\":\"ours\"}");
    test_await(fleet_noted(&fleet, "begin ours") == 1);
    char *key = fleet_ask(&fleet, "EVAL \"for _, key in ipairs(redis.call('KEYS', 'hf:2:process:*')) do "
                                  "for _, place in ipairs(redis.call('HVALS', key)) do "
                                  "if place:find('ours') then return key end end end return ''\" 0");
    bool is_first = strstr(key, "host0") != NULL;
    free(key);
    unsigned owner = workers[is_first ? 0 : 1], other = workers[is_first ? 1 : 0];
    one_fleet_kill(owner);
    test_await(fleet_noted(&fleet, "end ours") == 1);
    test_await(fleet_logged(&fleet, other, "task_recovered jid=ours"));
    char *after = keys_like("hf:[cbp]*");
    assert_string_equal(after, before);
    free(before);
    free(after);
    assert_int_equal(fleet_noted_all(&fleet, "begin t"), 0);
    former_worker_leave(&former);
    test_await(fleet_noted_all(&fleet, "end t") == FORMER_SLOTS + 1);
    one_fleet_stop(other);
    assert_int_equal(fleet_left(&fleet), 0);
}

static void what_ours_have_is_nothing_to_the_former(void **state)
{
    (void)state;
    unsigned worker = fleet_work(&fleet, &present);
    fleet_push(&fleet, "{\"class\":\"careful\",\"args\":[60000],\"jid\":\"t1\"}");
    test_await(fleet_noted(&fleet, "begin t1") == 1);
    fleet_signal(&fleet, worker, SIGSTOP); /* so that no beat changes anything */
    char *before = keys_like("hf:2:*");
    former_worker_start(&former);
    former_worker_turn(&former, true);
    former_worker_turn(&former, false);
    former_worker_leave(&former);
    char *after = keys_like("hf:2:*");
    assert_string_equal(after, before);
    assert_contains(after, "hf:2:process:");
    free(before);
    free(after);
    assert_int_equal(former.lost, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        fleet_test(each_task_is_run_once_by_one_of_them),
        fleet_test(what_the_former_has_is_not_recovered),
        fleet_test(what_ours_have_is_nothing_to_the_former),
    };
    return cmocka_run_group_tests(tests, one_fleet_set_up, one_fleet_tear_down);
}
