/* Workers of the release before, whose keys are of scheme 1, and workers of this one serve the same queue side by side:
 * each task is run by one of them, once, and neither touches what the other one has. */
#include "tests/support/test.h"

#include <stdio.h>

#include "tests/chaos/former_worker.h"
#include "tests/support/one_fleet.h"

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
    former_worker_start(&former, &fleet);
    fleet_push_many(&fleet, "note", TASKS, 5, 0);
    unsigned first = fleet_work(&fleet, &present), second = fleet_work(&fleet, &present);
    for (unsigned turn = 1; fleet_number(&fleet, "LLEN queue:jobs") > 0; turn++) {
        if (turn % 5 == 0)
            former_worker_ring(&former);
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
    former_worker_start(&former, &fleet);
    fleet_push_many(&fleet, "note", FORMER_SLOTS + 1, 0, 0);
    former_worker_ring(&former);
    former_worker_turn(&former, true);
    former_worker_ring(&former);
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
    former_worker_start(&former, &fleet);
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
