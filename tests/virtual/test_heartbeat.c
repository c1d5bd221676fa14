/* What dashboards find of a worker process, key by key and field by field, as the worked example of the data model has
 * it. */
#include "tests/support/heartbeat_fixture.h"

/* --- 1.2, 1.8, 1.9, 1.19: the process ---------------------------------------------------------------------------- */

TEST(the_process_is_shown_as_the_data_model_says)
{
    run_show("{\"class\":\"echo\",\"args\":[1],\"jid\":\"0123456789abcdef01234567\"}");
    start(3600 * NS_PER_S);
    wait_beats(1);
    assert_reply(server, IDENTITY, "SMEMBERS processes");
    assert_reply(server, "hash", "TYPE " IDENTITY);
    assert_between(55, 60, "TTL " IDENTITY);
    assert_reply(server, "8", "HLEN " IDENTITY);
    assert_reply(server, "echo\nmail", "HGET " IDENTITY " hf_classes");
    assert_reply(server,
                 "{\"hostname\":\"hostc\",\"started_at\":1795251800.1,\"pid\":4242,\"tag\":\"holdfast\","
                 "\"concurrency\":8,\"queues\":[\"cjobs\",\"low\"],\"labels\":[\"c\",\"red \\\"hot\\\"\"],"
                 "\"identity\":\"" IDENTITY "\",\"weights\":[{\"cjobs\":2,\"low\":1}],\"version\":\"holdfast 0.1\","
                 "\"embedded\":false,\"capsules\":{\"default\":{\"concurrency\":8,\"mode\":\"weighted\","
                 "\"weights\":{\"cjobs\":2,\"low\":1}}}}",
                 "HGET " IDENTITY " info");
    assert_reply(server, "8\n1\n1795251907.25\nfalse\n30000", "HMGET " IDENTITY " concurrency busy beat quiet rss");
    assert_between(1, 10 * US_PER_S, "HGET " IDENTITY " rtt_us");
}

TEST(quiet_is_the_word_true_and_shows_at_once)
{
    start(3600 * NS_PER_S);
    wait_beats(1);
    assert_reply(server, "false\n0", "HMGET " IDENTITY " quiet busy");
    facts.quiet = true;
    heartbeat_soon(heartbeat);
    wait_beats(1);
    assert_reply(server, "true", "HGET " IDENTITY " quiet");
}

TEST(what_changes_during_a_beat_is_shown_by_the_next)
{
    start(3600 * NS_PER_S);
    wait_beats(1);
    redis_server_pause(server);
    heartbeat_soon(heartbeat);
    loop_for(loop, 5 * NS_PER_MS); /* it is on its way */
    facts.quiet = true;
    heartbeat_soon(heartbeat);
    redis_server_resume(server);
    wait_reply("true", "HGET " IDENTITY " quiet");
}

TEST(the_process_takes_those_off_the_list_that_nobody_hears_of)
{
    free(redis_server_command(server, "SADD processes ghost:1:0 ghost:2:0 other:3:0 odd"));
    free(redis_server_command(server, "HSET other:3:0 info {}"));
    free(redis_server_command(server, "LPUSH odd 1"));
    start(5 * NS_PER_MS);
    wait_reply("3", "SCARD processes");
    assert_reply(server, "1\n1\n1", "SMISMEMBER processes " IDENTITY " other:3:0 odd");
}

/* --- 1.2, 1.19: what it runs ------------------------------------------------------------------------------------- */

TEST(running_tasks_are_shown_under_both_names)
{
    static const char *const names[] = {"work", "workers"};
    run_show(example);
    start(20 * NS_PER_MS);
    wait_beats(1);
    for (size_t i = 0; i < 2; i++) {
        assert_reply(server, "hash", "TYPE " IDENTITY ":%s", names[i]);
        assert_reply(server, "t1", "HKEYS " IDENTITY ":%s", names[i]);
        assert_reply(server,
                     "{\"queue\":\"cjobs\",\"payload\":\"{\\\"class\\\":\\\"echo\\\",\\\"args\\\":[1,\\\"x\\\\u0001"
                     "\\\\\\\"\\\"],\\\"jid\\\":\\\"0123456789abcdef01234567\\\"}\",\"run_at\":1795251907}",
                     "HGET " IDENTITY ":%s t1", names[i]);
        assert_reply(server, "60", "TTL " IDENTITY ":%s", names[i]);
    }
    assert_reply(server, "1", "HGET " IDENTITY " busy");
    facts.run_count = 0;
    wait_beats(2);
    assert_reply(server, "0", "EXISTS " IDENTITY ":work " IDENTITY ":workers");
}

TEST(a_large_task_is_shown_without_its_arguments)
{
    struct buffer payload = {0};
    buffer_append_text(&payload, "{\"class\":\"echo\",\"args\":[\"");
    memset(buffer_reserve(&payload, 1 << 20), 'x', 1 << 20);
    payload.length += 1 << 20;
    buffer_append_text(&payload, "\"],\"jid\":\"j1\",\"tags\":[\"a\"]}");
    run_show(buffer_text(&payload));
    start(20 * NS_PER_MS);
    wait_beats(1);
    assert_reply(
        server,
        "{\"queue\":\"cjobs\",\"payload\":\"{\\\"class\\\":\\\"echo\\\",\\\"args\\\":[\\\"(1048580 bytes of "
        "arguments are not shown)\\\"],\\\"jid\\\":\\\"j1\\\",\\\"tags\\\":[\\\"a\\\"]}\",\"run_at\":1795251907}",
        "HGET " IDENTITY ":work t1");
    buffer_fini(&payload);
}

/* --- 1.2, 1.11: what it did -------------------------------------------------------------------------------------- */

TEST(totals_count_all_runs_and_the_failed_ones)
{
    start(20 * NS_PER_MS);
    wait_beats(1);
    assert_reply(server, "0", "EXISTS stat:processed stat:failed stat:processed:2026-11-21 stat:failed:2026-11-21");
    ran("echo", false, 1 * NS_PER_MS);
    ran("echo", true, 1 * NS_PER_MS);
    ran("echo", false, 1 * NS_PER_MS);
    wait_beats(2);
    assert_reply(server, "3\n1\n3\n1",
                 "MGET stat:processed stat:failed stat:processed:2026-11-21 stat:failed:2026-11-21");
    assert_reply(server, "-1", "TTL stat:processed");
    assert_between(157680000 - 60, 157680000, "TTL stat:processed:2026-11-21");
    assert_between(157680000 - 60, 157680000, "TTL stat:failed:2026-11-21");
}

TEST(runs_are_counted_by_class_in_the_forms_of_sidekiq_7_and_8)
{
    static const char *const periods[] = {"j|20261121|9:5", "j|261121|9:05", "j|261121|9:0"};
    start(20 * NS_PER_MS);
    ran("Echo::Job", false, 19 * NS_PER_MS);
    ran("Echo::Job", false, 20 * NS_PER_MS);
    ran("Echo::Job", false, 400000 * NS_PER_MS);
    ran("Echo::Job", true, 50 * NS_PER_MS);
    wait_beats(2);
    for (size_t i = 0; i < 3; i++) {
        long long life = i < 2 ? 8 * 3600 : 3 * 86400;
        char command[64];
        assert_reply(server, "400039\n4\n1", "HMGET %s Echo::Job|ms Echo::Job|p Echo::Job|f", periods[i]);
        assert_reply(server, "3", "HLEN %s", periods[i]);
        snprintf(command, sizeof command, "TTL %s", periods[i]);
        assert_between(life - 60, life, command);
    }
    assert_reply(server, "1\n1\n0\n1", "BITFIELD Echo::Job-21-09:5 GET u16 #0 GET u16 #1 GET u16 #2 GET u16 #25");
    assert_reply(server, "1\n1\n0\n1", "BITFIELD h|Echo::Job-21-9:5 GET u16 #0 GET u16 #1 GET u16 #2 GET u16 #25");
    assert_between(8 * 3600 - 60, 8 * 3600, "TTL Echo::Job-21-09:5");
    assert_between(8 * 3600 - 60, 8 * 3600, "TTL h|Echo::Job-21-9:5");
}

/* As Sidekiq does: the time of a class whose runs succeeded is there, also when it is 0. */
TEST(runs_of_less_than_a_millisecond_sum_up)
{
    start(3600 * NS_PER_S);
    wait_beats(1);
    for (int i = 0; i < 2000; i++)
        ran("short", false, 600 * NS_PER_US);
    ran("shortest", false, 300 * NS_PER_US);
    ran("shortest", true, 900 * NS_PER_MS);
    ran("failed", true, 900 * NS_PER_MS);
    heartbeat_soon(heartbeat);
    wait_beats(1);
    assert_reply(server, "1200\n2000\n(nil)", "HMGET j|20261121|9:5 short|ms short|p short|f");
    assert_reply(server, "0\n2\n1", "HMGET j|20261121|9:5 shortest|ms shortest|p shortest|f");
    assert_reply(server, "(nil)\n1\n1", "HMGET j|20261121|9:5 failed|ms failed|p failed|f");
    assert_reply(server, "2000", "BITFIELD short-21-09:5 GET u16 #0");
}

TEST(a_histogram_is_full_and_does_not_turn_over)
{
    start(20 * NS_PER_MS);
    for (int i = 0; i < 70000; i++)
        ran("echo", false, 1 * NS_PER_MS);
    wait_beats(2);
    ran("echo", false, 1 * NS_PER_MS);
    wait_beats(2);
    assert_reply(server, "65535", "BITFIELD echo-21-09:5 GET u16 #0");
    assert_reply(server, "70001", "GET stat:processed");
}

TEST(further_classes_are_counted_together)
{
    char name[32];
    start(3600 * NS_PER_S);
    wait_beats(1);
    for (int i = 0; i < 3 * NAME_SET_MAX; i++) {
        snprintf(name, sizeof name, "class%d", i);
        ran(name, false, 1 * NS_PER_MS);
    }
    heartbeat_soon(heartbeat);
    wait_beats(1);
    assert_reply(server, "1\n1", "HMGET j|20261121|9:5 class0|p class126|p");
    assert_reply(server, "257", "HGET j|20261121|9:5 hf.others|p");
    assert_reply(server, "256", "HLEN j|20261121|9:5"); /* |ms and |p of 128 */
}

TEST(names_cannot_forge_fields)
{
    start(3600 * NS_PER_S);
    ran("a|f\n\x7f"
        "b",
        false, 1 * NS_PER_MS);
    wait_beats(1);
    assert_reply(server, "1", "HGET j|20261121|9:5 a_f__b|p");
}

/* --- what else is counted ----------------------------------------------------------------------------------------- */

TEST(what_others_count_is_added_to_the_fields_of_the_day)
{
    start(3600 * NS_PER_S);
    run_show(example); /* and does not end up among running tasks or classes */
    ran("echo", false, 1 * NS_PER_MS);
    extra_add("a|x:|", "acquired 3 wait.12 4 ");
    extra_add("b c|y \"|", "lost 1 ");
    wait_beats(1);
    extra_add("a|x:|", "acquired 2 ");
    heartbeat_soon(heartbeat);
    wait_beats(1);
    assert_reply(server, "5\n4", "HMGET hf:2:locks:20261121 a|x:|acquired a|x:|wait.12");
    assert_reply(server, "3", "HLEN hf:2:locks:20261121");
    assert_reply(server, "1", "HEXISTS hf:2:locks:20261121 'b c|y \"|lost'");
    assert_between(14 * 86400 - 60, 14 * 86400, "TTL hf:2:locks:20261121");
    assert_reply(server, "1", "HGET j|20261121|9:5 echo|p");
    assert_reply(server, "1", "HLEN " IDENTITY ":work");
    now.us += 86400 * US_PER_S;
    extra_add("a|x:|", "acquired 7 ");
    heartbeat_soon(heartbeat);
    wait_beats(1);
    assert_reply(server, "7", "HGET hf:2:locks:20261122 a|x:|acquired");
    assert_reply(server, "5", "HGET hf:2:locks:20261121 a|x:|acquired");
}

TEST(a_day_without_anything_to_count_has_no_key)
{
    start(3600 * NS_PER_S);
    wait_beats(1);
    assert_reply(server, "0", "EXISTS hf:2:locks:20261121");
}

/* Names come from producers, and processes come and go: without this bound a day could have any number. */
TEST(names_beyond_the_bound_of_a_day_share_one)
{
    free(redis_server_command(
        server, "EVAL 'for i = 1, %d do redis.call(\"HSET\", \"hf:2:locks:20261121\", i, 1) end return 1' 0",
        HEARTBEAT_FIELDS_MAX - 1));
    start(3600 * NS_PER_S);
    extra_add("a|x:|", "lost 1 ");
    wait_beats(1);
    assert_reply(server, "1", "HGET hf:2:locks:20261121 a|x:|lost");
    extra_add("a|x:|", "lost 1 ");
    extra_add("b|x:|", "lost 10 ");
    extra_add("c|x:|", "lost 30 wait.0 1 ");
    heartbeat_soon(heartbeat);
    wait_beats(1);
    assert_reply(server, "2\n40\n1", "HMGET hf:2:locks:20261121 a|x:|lost others|lost others|wait.0");
    assert_reply(server, "20002", "HLEN hf:2:locks:20261121");
}

RUN_GROUP(one_server_set_up, one_server_tear_down, heartbeat_setup, heartbeat_teardown)
