/* From `schedule` and `retry` to the queues, when the queue node's clock says so. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "queue/scripts.h"
#include "tests/support/promoter_fixture.h"

/* The only task of the queue, parsed; its text is freed by the caller. */
static char *promoted(const char *queue, struct envelope *envelope)
{
    char *text = redis_server_command(server, "LINDEX queue:%s 0", queue);
    struct error error = ERROR_NONE;
    if (!envelope_parse(envelope, text, strlen(text), &ENVELOPE_LIMITS_DEFAULT, &error))
        fail_msg("%s: %s", text, error.text);
    return text;
}

static bool has_member(const struct envelope *envelope, const char *name, char *value, size_t size)
{
    for (size_t i = 0; i < envelope->member_count; i++) {
        const struct envelope_member *member = &envelope->members[i];
        if (member->name.length != strlen(name) || memcmp(member->name.bytes, name, strlen(name)) != 0)
            continue;
        snprintf(value, size, "%.*s", (int)member->value.length, member->value.bytes);
        return true;
    }
    return false;
}

TEST(test_due_entries_go_to_their_queues)
{
    plan("retry", -1, "{\"class\":\"t\",\"args\":[1e400,12345678901234567890123],\"queue\":\"b\",\"jid\":\"x\"}");
    plan("schedule", 0.3, "{\"class\":\"t\",\"args\":[],\"at\":5,\"enqueued_at\":7}");
    plan("schedule", 3600, "{\"class\":\"t\",\"args\":[\"later\"]}");
    double before = (double)wall_now().us / 1e6;
    promote();
    wait_reply("LLEN queue:b", "1");
    wait_reply("LLEN queue:default", "1");
    wait_reply("ZCARD schedule", "1");
    assert_reply(server, "0", "EXISTS retry dead");
    assert_reply(server, "b\ndefault", "SORT queues ALPHA");
    loop_await(loop, promoter_moved(promoters[0]) == 2);

    struct envelope envelope = {.member_count = 0};
    char value[64];
    char *text = promoted("b", &envelope);
    assert_non_null(
        strstr(text, "{\"class\":\"t\",\"args\":[1e400,12345678901234567890123],\"queue\":\"b\",\"jid\":\"x\","));
    assert_true(has_member(&envelope, "enqueued_at", value, sizeof value));
    assert_true(strtod(value, NULL) >= before - 1 && strtod(value, NULL) <= (double)wall_now().us / 1e6);
    free(text);
    text = promoted("default", &envelope);
    assert_false(has_member(&envelope, "at", value, sizeof value));
    assert_true(has_member(&envelope, "enqueued_at", value, sizeof value));
    assert_true(strtod(value, NULL) >= before - 1);
    free(text);
    envelope_fini(&envelope);
}

TEST(test_the_oldest_comes_first)
{
    plan("schedule", -1, "{\"class\":\"t\",\"args\":[2],\"queue\":\"a\",\"jid\":\"2\"}");
    plan("schedule", -2, "{\"class\":\"t\",\"args\":[1],\"queue\":\"a\",\"jid\":\"1\"}");
    promote();
    wait_reply("LLEN queue:a", "2");
    queue_probe_settle(&probe, 0, true);
    queue_probe_settle(&probe, 1, true);
    queue_probe_wait_all(&probe);
    assert_contains(probe.slots[0].payload, "\"args\":[1]");
    assert_contains(probe.slots[1].payload, "\"args\":[2]");
}

TEST(test_more_than_one_look_takes)
{
    free(redis_server_command(
        server, "EVAL \"for i = 1, 2500 do redis.call('ZADD', 'retry', i, "
                "'{\\\"class\\\":\\\"t\\\",\\\"args\\\":[' .. i .. '],\\\"queue\\\":\\\"a\\\"}') end\" 0"));
    promote();
    wait_reply("LLEN queue:a", "2500");
    assert_reply(server, "0", "EXISTS retry");
    loop_await(loop, promoter_moved(promoters[0]) == 2500);
}

/* A look takes a bounded number of bytes; what it leaves is taken at once, before the other set is looked at. */
TEST(test_large_entries_follow_at_once)
{
    free(redis_server_command(
        server, "EVAL \"for i = 1, 20 do redis.call('ZADD', 'schedule', i, '{\\\"class\\\":\\\"t\\\",\\\"queue\\\":"
                "\\\"a\\\",\\\"args\\\":[' .. i .. ',\\\"' .. string.rep('x', 1000000) .. '\\\"]}') end\" 0"));
    plan("retry", -1, "{\"class\":\"t\",\"args\":[],\"queue\":\"b\"}");
    promote();
    wait_reply("LLEN queue:b", "1");
    assert_reply(server, "20", "LLEN queue:a");
    loop_await(loop, promoter_moved(promoters[0]) == 21);
}

TEST(test_entries_that_are_no_tasks_are_buried)
{
    plan("schedule", -3, "not json");
    plan("schedule", -2, "[1,2]");
    plan("schedule", -1, "{\"class\":\"t\"}");
    free(redis_server_command(server, "ZADD retry 1 \"\\xff\\x00\\n\""));
    plan("schedule", -1, "{\"class\":\"t\",\"args\":[],\"queue\":\"a\"}");
    promote();
    wait_reply("LLEN queue:a", "1");
    wait_reply("ZCARD dead", "4");
    assert_reply(server, "0", "EXISTS schedule retry queue:");
    assert_reply(server, "a", "SMEMBERS queues");

    char *dead = redis_server_command(server, "ZRANGE dead 0 -1"), *rest = NULL;
    unsigned found = 0;
    struct buffer raw = {0};
    for (char *line = strtok_r(dead, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        struct error error = ERROR_NONE;
        assert_contains(line, "\"class\":\"hf.invalid\"");
        assert_true(envelope_recover_invalid(line, strlen(line), &raw, &error));
        buffer_append(&raw, "|", 1);
        found++;
    }
    assert_int_equal(found, 4);
    static const char all[] = "not json|[1,2]|{\"class\":\"t\"}|\xff\0\n|";
    assert_int_equal(raw.length, sizeof all - 1);
    assert_memory_equal(raw.bytes, all, raw.length);
    buffer_fini(&raw);
    free(dead);
    /* Dashboards find an entry by its score. */
    assert_reply(server, "4",
                 "EVAL \"local seen, n = {}, 0 local e = redis.call('ZRANGE', 'dead', 0, -1, 'WITHSCORES') "
                 "for i = 2, #e, 2 do if not seen[e[i]] then seen[e[i]] = true n = n + 1 end end return n\" 0");
}

TEST(test_burying_trims)
{
    free(redis_server_command(server, "EVAL \"local t = redis.call('TIME')[1] for i = 1, 10500 do "
                                      "redis.call('ZADD', 'dead', t - 10501 + i, 'young' .. i) end\" 0"));
    plan("schedule", -3, "not json");
    promote();
    wait_reply("ZCARD dead", "9999");
}

/* One that cannot go to its queue stays, keeps nobody else from going, and is not tried in a tight loop. */
TEST(test_a_foreign_key_swallows_no_entry)
{
    free(redis_server_command(server, "SET queue:clash foreign"));
    free(redis_server_command(server, "CONFIG RESETSTAT"));
    plan("schedule", -2, "{\"class\":\"t\",\"args\":[],\"queue\":\"clash\"}");
    plan("schedule", -1, "{\"class\":\"t\",\"args\":[],\"queue\":\"a\"}");
    promote();
    wait_reply("LLEN queue:a", "1");
    loop_for(loop, 100 * NS_PER_MS);
    assert_reply(server, "1", "ZCARD schedule");
    assert_in_range(queue_probe_scripts(server), 1, 50);
    free(redis_server_command(server, "DEL queue:clash"));
    wait_reply("LLEN queue:clash", "1");
}

/* --- entries of others ------------------------------------------------------------------------------------------ */

TEST(test_entries_of_other_queues_stay)
{
    plan("schedule", -2, "{\"class\":\"t\",\"args\":[1],\"queue\":\"foreign\"}");
    plan("retry", -2, "{\"class\":\"t\",\"args\":[2]}");
    plan("schedule", -1, "{\"class\":\"t\",\"args\":[3],\"queue\":\"a\"}");
    promote_a();
    wait_reply("LLEN queue:a", "1");
    loop_for(loop, 50 * NS_PER_MS);
    assert_reply(server, "{\"class\":\"t\",\"args\":[1],\"queue\":\"foreign\"}", "ZRANGE schedule 0 -1");
    assert_reply(server, "{\"class\":\"t\",\"args\":[2]}", "ZRANGE retry 0 -1");
    assert_reply(server, "0", "EXISTS queue:foreign queue:default dead");
    loop_await(loop, promoter_moved(promoters[0]) == 1);
}

/* What we cannot read may be good for those who serve the queue that it names. */
TEST(test_foreign_entries_are_not_buried)
{
    plan("schedule", -3, "{\"queue\":\"foreign\",\"args\":{}}");
    plan("schedule", -2, "{\"queue\":\"a\",\"args\":{}}");
    plan("schedule", -1, "not json");
    promote_a();
    wait_reply("ZCARD dead", "2");
    assert_reply(server, "{\"queue\":\"foreign\",\"args\":{}}", "ZRANGE schedule 0 -1");
}

/* More of them than a look passes by: the looks go on where the last one stopped. */
static void foreign_entries_starve_nobody(const char *set, const char *second)
{
    plan_many(set, "foreign", 3500, 0);
    plan_many(set, "a", 3, 10000);
    plan_many(set, "foreign2", 100, 20000);
    plan_many(second, "a", 2, 0);
    promote_a();
    wait_reply("LLEN queue:a", "2");
    assert_in_range(queue_probe_scripts(server), 1, 30); /* ten pages of the one, and the other; all have 36 */
    wait_reply("LLEN queue:a", "5");
    assert_reply(server, "3600", "ZCARD %s", set);
    /* and around: what came in front meanwhile is found */
    free(redis_server_command(server, "ZADD %s 0 '{\"class\":\"t\",\"args\":[0],\"queue\":\"a\"}'", set));
    wait_reply("LLEN queue:a", "6");
    assert_reply(server, "3600", "ZCARD %s", set);
}

TEST(test_many_foreign_entries_of_schedule_starve_nobody)
{
    foreign_entries_starve_nobody("schedule", "retry");
}

TEST(test_many_foreign_entries_of_retry_starve_nobody)
{
    foreign_entries_starve_nobody("retry", "schedule");
}

TEST(test_many_entries_with_a_foreign_key_starve_nobody)
{
    free(redis_server_command(server, "SET queue:clash foreign"));
    plan_many("schedule", "clash", 1200, 0);
    plan_many("schedule", "a", 3, 10000);
    promote();
    wait_reply("LLEN queue:a", "3");
    assert_reply(server, "1200", "ZCARD schedule");
    free(redis_server_command(server, "DEL queue:clash"));
    wait_reply("LLEN queue:clash", "1200");
}

/* A set that gives something without end does not keep the other one waiting. */
static void one_set_has_much(const char *set, const char *second)
{
    plan_many(set, "b", 20000, 0);
    plan(second, -1, "{\"class\":\"t\",\"args\":[],\"queue\":\"a\"}");
    promote();
    wait_reply("LLEN queue:a", "1");
    assert_true(promoter_moved(promoters[0]) < 20000);
    wait_reply("LLEN queue:b", "20000");
}

TEST(test_a_schedule_that_is_full_keeps_no_retry_waiting)
{
    one_set_has_much("schedule", "retry");
}

TEST(test_retries_without_end_keep_no_schedule_waiting)
{
    one_set_has_much("retry", "schedule");
}

TEST(test_a_pause_ends_the_looks)
{
    promote();
    promoter_pause(promoters[0], true);
    plan("schedule", -1, "{\"class\":\"t\",\"args\":[],\"queue\":\"a\"}");
    loop_for(loop, 1000 * NS_PER_MS); /* its queue looks for processes that are in no list */
    free(redis_server_command(server, "CONFIG RESETSTAT"));
    loop_for(loop, 1500 * NS_PER_MS);
    assert_int_equal(queue_probe_scripts(server), 0);
    promoter_pause(promoters[0], false);
    promoter_pause(promoters[0], false);
    wait_reply("LLEN queue:a", "1");
}

static bool has_moved(void *context)
{
    return promoter_moved(context) > 0;
}

TEST(test_a_pause_ends_a_look_that_is_under_way)
{
    plan_many("retry", "b", 20000, 0);
    promote();
    assert_true(loop_until(loop, has_moved, promoters[0], TEST_PATIENCE_NS));
    promoter_pause(promoters[0], true);
    loop_for(loop, 200 * NS_PER_MS); /* the answer to what was sent */
    uint64_t moved = promoter_moved(promoters[0]);
    free(redis_server_command(server, "CONFIG RESETSTAT"));
    loop_for(loop, 1500 * NS_PER_MS);
    assert_int_equal(queue_probe_scripts(server), 0);
    assert_int_equal(promoter_moved(promoters[0]), moved);
    assert_true(moved < 20000);
    promoter_pause(promoters[0], false);
    wait_reply("LLEN queue:b", "20000");
}

/* --- times ------------------------------------------------------------------------------------------------------ */

static double number_of(const struct envelope *envelope, const char *name)
{
    char value[64] = "-1";
    (void)has_member(envelope, name, value, sizeof value);
    return strtod(value, NULL);
}

static void assert_expiry(const char *set, const char *members, double least, double most)
{
    struct envelope envelope = {.member_count = 0};
    char entry[256];
    snprintf(entry, sizeof entry, "{\"class\":\"t\",\"args\":[],\"queue\":\"a\"%s}", members);
    plan(set, -1, entry);
    wait_reply("LLEN queue:a", "1");
    char *text = promoted("a", &envelope);
    double expiry = number_of(&envelope, "expires_at");
    if (expiry < least || expiry > most)
        fail_msg("%s: %f is not between %f and %f", text, expiry, least, most);
    free(text);
    envelope_fini(&envelope);
    free(redis_server_command(server, "DEL queue:a"));
}

TEST(test_a_scheduled_task_expires_after_it_became_due)
{
    double now = (double)wall_now().us / 1e6;
    promote();
    assert_expiry("schedule", ",\"expires_in\":600", now + 599, now + 660);
    assert_expiry("schedule", ",\"expires_in\":600,\"expires_at\":77.5", 77.5, 77.5);
    assert_expiry("schedule", ",\"expires_in\":600,\"retry_count\":0", -1, -1);
    assert_expiry("schedule", ",\"expires_in\":600,\"retry_count\":-1", -1, -1);
    assert_expiry("schedule", ",\"expires_in\":600,\"failed_at\":5", -1, -1);
    assert_expiry("schedule", "", -1, -1);
    assert_expiry("retry", ",\"expires_in\":600", -1, -1);
}

TEST(test_times_are_seconds_unless_they_are_to_be_as_they_came)
{
    struct envelope envelope = {.member_count = 0};
    double now = (double)wall_now().us / 1e6;
    for (int as_came = 0; as_came < 2; as_came++) {
        promoters[0] = promoter_create(
            loop, probe.queue,
            &(struct promoter_options){.limits = &limits, .timeout_ns = NS_PER_S, .keep_ms = as_came != 0});
        plan("retry", -1, "{\"class\":\"t\",\"args\":[],\"queue\":\"a\",\"enqueued_at\":1795194374500}");
        wait_reply("LLEN queue:a", "1");
        char *text = promoted("a", &envelope);
        double time = number_of(&envelope, "enqueued_at") / (as_came ? 1000 : 1);
        assert_true(time >= now - 1 && time < now + 60);
        assert_int_equal(strchr(strstr(text, "enqueued_at"), '.') == NULL, as_came);
        free(text);
        free(redis_server_command(server, "DEL queue:a"));
        promoter_destroy(promoters[0]);
        promoters[0] = NULL;
    }
    envelope_fini(&envelope);
}

TEST(test_promotion_works_without_memory)
{
    plan("schedule", -1, "{\"class\":\"t\",\"args\":[],\"queue\":\"a\"}");
    free(redis_server_command(server, "CONFIG SET maxmemory 1"));
    promote();
    wait_reply("LLEN queue:a", "1");
    free(redis_server_command(server, "CONFIG SET maxmemory 0"));
    assert_reply(server, "0", "EXISTS schedule");
}

/* Two processes saw it due; or the answer was lost and the call is repeated. */
TEST(test_an_entry_that_somebody_moved_is_not_moved_again)
{
    static const char promote[] = "EVALSHA %s 4 schedule queues dead queue:a 100 100 entry text a";
    free(redis_server_command(server, "ZADD schedule 1 entry"));
    assert_reply(server, "1", promote, queue_script_promote.sha1);
    assert_reply(server, "0", promote, queue_script_promote.sha1);
    assert_reply(server, "1", "LLEN queue:a");
}

/* It was due when it was seen, and was claimed and parked again since: moved before its time it leaves its list. */
TEST(test_an_entry_that_is_not_due_any_more_stays)
{
    free(redis_server_command(server, "ZADD schedule 9999999999 entry"));
    assert_reply(server, "0", "EVALSHA %s 4 schedule queues dead queue:a 100 100 entry text a",
                 queue_script_promote.sha1);
    assert_reply(server, "0", "LLEN queue:a");
    assert_reply(server, "9999999999", "ZSCORE schedule entry");
}

static bool has_seen(void *promoter)
{
    return promoter_seen(promoter).ns != 0;
}

/* Who drains believes that nothing is left then. */
TEST(test_what_was_due_at_the_start_is_moved_when_both_sets_were_seen)
{
    plan_many("retry", "a", 12000, 0);
    promote();
    assert_true(loop_until(loop, has_seen, promoters[0], TEST_PATIENCE_NS));
    loop_await(loop, promoter_moved(promoters[0]) == 12000);
}

RUN_GROUP(one_server_set_up, one_server_tear_down, promoter_setup, promoter_teardown)
