/* What becomes of the record of a task that does not end well: refused arguments, and tasks near the size limit. */
#include "tests/support/test.h"

#include <string.h>

#include "queue/envelope.h"
#include "tests/support/one_fleet.h"
#include "worker/commands/task_view.h"

TEST(a_handler_that_refuses_the_arguments_buries_the_task)
{
    unsigned worker = fleet_work(&fleet, NULL);
    fleet_push(&fleet, "{\"class\":\"picky\",\"args\":[],\"jid\":\"good\"}");
    fleet_push(&fleet, "{\"class\":\"picky\",\"args\":[7],\"jid\":\"bad\"}");
    test_await(fleet_number(&fleet, "zcard dead") == 1);
    test_await(fleet_noted(&fleet, "end good") == 1);
    char *dead = fleet_ask(&fleet, "zrange dead 0 -1");
    assert_contains(dead, "HF::BadArguments");
    assert_contains(dead, "wants [] and not [7]");
    free(dead);
    assert_int_equal(fleet_noted(&fleet, "begin bad"), 0);
    assert_int_equal(fleet_noted_all(&fleet, "clash "), 0);
    one_fleet_stop(worker);
}

/* A failure adds to the record; that must not make the task too large to be tried again. */
TEST(a_task_of_exactly_the_greatest_size_fails_and_is_tried_again)
{
    enum { LIMIT = 16 * 1024 };
    static const char head[] = "{\"class\":\"fail\",\"jid\":\"big\",\"args\":[0,\"why\",\"", tail[] = "\"]}";
    char task[LIMIT + 1];
    memset(task, 'x', LIMIT);
    memcpy(task, head, sizeof head - 1);
    memcpy(task + LIMIT - (sizeof tail - 1), tail, sizeof tail);
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.worker = "max_task_size = \"16KiB\";"});
    fleet_push(&fleet, "%s", task);
    test_await(fleet_number(&fleet, "zcard retry") == 1);
    char *moved = fleet_ask(
        &fleet,
        "eval \"local e = redis.call('zrange', 'retry', 0, 0)[1]; return redis.call('zadd', 'retry', 1, e)\" 0");
    free(moved);
    test_await(fleet_noted(&fleet, "begin big") == 2);
    test_await(fleet_number(&fleet, "zcard retry") == 1);
    assert_int_equal(fleet_number(&fleet, "zcard dead"), 0);
    one_fleet_stop(worker);
}

/* The only entry of a set, parsed; its text is freed by the caller. */
static char *entry_of(const char *set, struct envelope *entry)
{
    struct error error = ERROR_NONE;
    char *text = fleet_ask(&fleet, "zrange %s 0 -1", set);
    if (!envelope_parse(entry, text, strlen(text), &ENVELOPE_LIMITS_DEFAULT, &error))
        fail_msg("%s: %s", text, error.text);
    return text;
}

TEST(a_failure_keeps_the_lines_of_its_call_stack)
{
    struct envelope entry = {.member_count = 0};
    struct buffer lines = {0};
    unsigned worker = fleet_work(&fleet, NULL);
    fleet_push(&fleet, "{\"class\":\"fail\",\"args\":[0,\"why\"],\"jid\":\"t\",\"backtrace\":1}");
    test_await(fleet_number(&fleet, "zcard retry") == 1);
    char *text = entry_of("retry", &entry);
    struct text_span value = envelope_member_value(&entry, "error_backtrace");
    assert_true(value.length > 2);
    assert_true(backtrace_read(value.bytes + 1, value.length - 2, &lines));
    assert_contains(buffer_text(&lines), "/plugins/witness.so(");
    assert_null(strchr(buffer_text(&lines), ','));
    free(text);

    /* one that asks for none has none */
    free(fleet_ask(&fleet, "del retry"));
    fleet_push(&fleet, "{\"class\":\"fail\",\"args\":[0,\"why\"],\"jid\":\"t\",\"error_backtrace\":\"old\"}");
    test_await(fleet_number(&fleet, "zcard retry") == 1);
    text = entry_of("retry", &entry);
    assert_null(envelope_member_value(&entry, "error_backtrace").bytes);
    free(text);
    envelope_fini(&entry);
    buffer_fini(&lines);
    one_fleet_stop(worker);
}

/* What the class is configured to, unless the task says otherwise. */
TEST(failures_follow_the_settings_of_the_class)
{
    struct envelope entry = {.member_count = 0};
    unsigned worker = fleet_work(
        &fleet, &(struct fleet_setup){
                    .classes = "{ class = \"fail\"; retry = \"no\"; retry_queue = \"low\"; backtrace = 3; }"});
    fleet_push(&fleet, "{\"class\":\"fail\",\"args\":[0,\"why\"],\"jid\":\"usual\",\"retry\":true}");
    test_await(fleet_number(&fleet, "zcard dead") == 1);
    char *text = entry_of("dead", &entry);
    assert_string_equal(entry.jid, "usual");
    assert_string_equal(entry.queue, "low");
    assert_true(entry.was_retried && entry.retry_count == 0);
    assert_contains(text, "error_backtrace");
    free(text);
    fleet_push(&fleet, "{\"class\":\"fail\",\"args\":[0,\"why\"],\"jid\":\"own\",\"retry\":3}");
    test_await(fleet_number(&fleet, "zcard retry") == 1);
    fleet_push(&fleet, "{\"class\":\"fail\",\"args\":[0,\"why\"],\"jid\":\"gone\",\"dead\":false}");
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[],\"jid\":\"last\"}");
    test_await(fleet_noted(&fleet, "end last") == 1);
    one_fleet_stop(worker);
    assert_int_equal(fleet_number(&fleet, "zcard dead"), 1);
    assert_int_equal(fleet_number(&fleet, "zcard retry"), 1);
    envelope_fini(&entry);
}

/* Failure, retry, due again, dead: whatever nobody changes keeps its bytes and its place. */
TEST(a_task_that_goes_all_the_way_keeps_what_it_came_with)
{
    static const char start[] =
        "{\"class\":\"fail\",\"args\":[0,\"why\",9007199254740993,0.10,{}],\"cattr\":{\"x\":[]},"
        "\"retry\":2,\"queue\":\"jobs\",\"jid\":\"t\",\"created_at\":1795194374500";
    struct envelope entry = {.member_count = 0};
    unsigned worker = fleet_work(&fleet, NULL);
    fleet_push(&fleet, "%s}", start);
    for (unsigned i = 0; i < 2; i++) {
        test_await(fleet_number(&fleet, "zcard retry") == 1);
        free(fleet_ask(&fleet, "eval \"local e = redis.call('zrange', 'retry', 0, 0)[1]; "
                               "return redis.call('zadd', 'retry', 1, e)\" 0"));
        test_await(fleet_noted(&fleet, "begin t") == i + 2);
    }
    test_await(fleet_number(&fleet, "zcard dead") == 1);
    char *text = entry_of("dead", &entry);
    assert_memory_equal(text, start, strlen(start));
    assert_int_equal(entry.retry_count, 2);
    assert_contains(text, ",\"error_message\":\"why, attempt 2\",\"error_class\":\"Witness::Failure\",\"failed_at\":");
    assert_contains(text, ",\"retry_count\":2,\"enqueued_at\":");
    assert_contains(text, ",\"retried_at\":");
    free(text);
    envelope_fini(&entry);
    one_fleet_stop(worker);
}

/* With the first time of failure long ago, its time to be started over, and `holdfast tasks retry` or a dashboard's
 * "Retry now", which take one from the count. */
TEST(a_task_that_is_retried_by_hand_goes_on_where_it_was)
{
    struct envelope entry = {.member_count = 0};
    unsigned worker = fleet_work(&fleet, NULL);
    fleet_push(&fleet, "{\"class\":\"fail\",\"args\":[0,\"why\"],\"jid\":\"t\",\"created_at\":1795194374.5,"
                       "\"expires_in\":1,\"failed_at\":1795194375.25,\"retry_count\":-1}");
    test_await(fleet_number(&fleet, "zcard retry") == 1);
    char *text = entry_of("retry", &entry);
    assert_int_equal(entry.retry_count, 0);
    assert_contains(text, "\"error_message\":\"why, attempt 1\"");
    assert_contains(text, "\"failed_at\":1795194375.25,");
    assert_contains(text, "\"retried_at\":");
    free(text);
    envelope_fini(&entry);
    one_fleet_stop(worker);
}

/* As the queue node has it again that lost what it was told last. A task that failed comes again of right. */
TEST(a_task_that_was_done_here_and_comes_again_is_told)
{
    unsigned worker = fleet_work(&fleet, NULL);
    for (unsigned i = 0; i < 2; i++) {
        fleet_push(&fleet, "{\"class\":\"note\",\"args\":[],\"jid\":\"done\"}");
        fleet_push(&fleet, "{\"class\":\"fail\",\"args\":[],\"jid\":\"failed\",\"retry\":0}");
        test_await(fleet_noted(&fleet, "end done") == i + 1 && fleet_number(&fleet, "zcard dead") == i + 1);
        test_await(fleet_left(&fleet) == i + 1);
        if (i == 0)
            assert_false(fleet_logged(&fleet, worker, "task_seen_before"));
        else
            test_await(fleet_logged(&fleet, worker, "warn task_seen_before jid=done class=note queue=jobs seconds="));
    }
    one_fleet_stop(worker);
    assert_false(fleet_logged(&fleet, worker, "task_seen_before jid=failed"));
}

RUN_FLEET_TESTS
