/* holdfast tasks against a real server: pages that stay whole while states change, large states, and moves. */
#include "tests/support/admin_fixture.h"

#define TASK(jid, more) "'{\"class\":\"echo\",\"args\":[],\"jid\":\"" jid "\"" more "}'"

/* --- list ------------------------------------------------------------------------------------------------------- */

TEST(a_listed_task_is_told_whole)
{
    given("ZADD retry 9000000000.25 '{\"class\":\"mail\",\"args\":[1, 2.50,{}],\"jid\":\"j1\",\"queue\":\"q\","
          "\"created_at\":1000,\"enqueued_at\":1795194359250,\"retry_count\":3,\"error_class\":\"E\","
          "\"error_message\":\"it\\u0020failed\",\"display_class\":\"Shown\"}'");
    admin_good("tasks", "list", "retry", "--json");
    assert_string_equal(
        result.out,
        "{\"state\":\"retry\",\"tasks\":[{\"state\":\"retry\",\"key\":\"9000000000.25-j1\",\"at\":9000000000.25,"
        "\"jid\":\"j1\",\"class\":\"Shown\",\"queue\":\"q\",\"created_at\":1000.0,\"enqueued_at\":1795194359.25,"
        "\"retry_count\":3,\"error_class\":\"E\",\"error_message\":\"it failed\",\"task\":{\"class\":\"mail\","
        "\"args\":[1, 2.50,{}],\"jid\":\"j1\",\"queue\":\"q\",\"created_at\":1000,\"enqueued_at\":1795194359250,"
        "\"retry_count\":3,\"error_class\":\"E\",\"error_message\":\"it\\u0020failed\",\"display_class\":\"Shown\"}}],"
        "\"looked_at\":1,\"next\":null}\n");
    admin_good("tasks", "list", "retry");
    assert_contains(result.out, "9000000000.25-j1  Shown  q        4  E: it failed\n");
    admin_good("tasks", "list", "dead");
    assert_string_equal(result.out, "no tasks\n");
}

TEST(texts_of_tasks_cannot_steer_a_terminal)
{
    given("ZADD dead 1 "
          "\"{\\\"class\\\":\\\"\\\\u001b[31m\\\\n\\xc2\\x9b2J\\\",\\\"args\\\":[\\\"\\xe2\\x80\\xae\\x7f\\\"],"
          "\\\"jid\\\":\\\"j1\\\",\\\"error_message\\\":\\\"\\\\u001b[2J\\\"}\" 2 \"\\x1b[31m no task \\xff\"");
    const char *const runs[][3] = {
        {"list", "dead", NULL}, {"list", "dead", "--json"}, {"show", "j1", NULL}, {"show", "j1", "--json"}};
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        admin_good("tasks", runs[i][0], runs[i][1], runs[i][2] != NULL ? runs[i][2] : "--limit=9");
        assert_lacks(result.out, "\x1b");
        assert_lacks(result.out, "\xc2\x9b");
        assert_lacks(result.out, "\xe2\x80\xae");
        assert_lacks(result.out, "\x7f");
    }
    admin("tasks", "delete", "\x1b[31mnone");
    assert_lacks(result.error, "\x1b");
    assert_contains(result.error, "not found");
}

/* What `next` says in the last JSON. */
static void cursor_take(char cursor[128])
{
    const char *at = strstr(result.out, "\"next\":");
    assert_non_null(at);
    cursor[0] = '\0';
    sscanf(at, "\"next\":\"%127[^\"]", cursor);
}

static unsigned shown_count(void)
{
    unsigned count = 0;
    for (const char *at = result.out; (at = strstr(at, "\"key\":")) != NULL; at++)
        count++;
    return count;
}

/* Pages through equal scores while entries that were seen go away. */
TEST(pages_of_a_set_are_whole_under_equal_scores)
{
    char cursor[128] = "-inf+0", seen[10] = "";
    for (int i = 0; i < 9; i++)
        given("ZADD schedule %d '{\"class\":\"a\",\"args\":[],\"jid\":\"%d\"}'", i < 7 ? 5 : 6, i);
    for (int page = 0; cursor[0] != '\0'; page++) {
        assert_true(page < 6);
        admin_good("tasks", "list", "schedule", "--limit", "2", "--json", "--cursor", cursor);
        for (const char *at = result.out; (at = strstr(at, ".0,\"jid\":\"")) != NULL; at++)
            snprintf(seen + strlen(seen), sizeof seen - strlen(seen), "%c", at[10]);
        cursor_take(cursor);
        if (page == 1)
            given("ZADD schedule 4 '{\"class\":\"a\",\"args\":[],\"jid\":\"x\"}'"); /* before what was seen */
    }
    assert_string_equal(seen, "012345678");
    admin_good("tasks", "list", "dead", "--cursor", "5+1");
    admin("tasks", "list", "dead", "--cursor", "nonsense");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "is no cursor");
}

TEST(pages_of_a_queue_begin_where_workers_take)
{
    char cursor[128];
    given("LPUSH queue:q " TASK("1", "") " " TASK("2", "") " " TASK("3", "") " " TASK("4", "") " nonsense");
    admin_good("tasks", "list", "queue", "-q", "q", "--limit", "2", "--json");
    assert_contains(result.out, "\"in_queue\":\"q\",\"position\":1,\"jid\":\"1\"");
    assert_contains(result.out, "\"position\":2,\"jid\":\"2\"");
    assert_lacks(result.out, "\"jid\":\"3\"");
    cursor_take(cursor);
    given("RPOP queue:q");
    given("RPOP queue:q");
    admin_good("tasks", "list", "queue", "-q", "q", "--json", "--cursor", cursor);
    assert_contains(result.out, "\"position\":1,\"jid\":\"3\"");
    assert_contains(result.out, "\"jid\":\"4\"");
    assert_contains(result.out, "\"jid\":null,\"class\":null,\"invalid\":\"");
    assert_contains(result.out, "\"text\":\"nonsense\"");
    admin("tasks", "list", "queue");
    assert_int_equal(result.exit_code, 2);
    given("DEL queue:q");
    given("SET queue:q foreign");
    admin("tasks", "list", "queue", "-q", "q");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "queue:q: WRONGTYPE");
}

static void given_claims(void)
{
    given_lease("h:1:a", 600);
    given_lease("h:2:b", -100);
    given("HSET hf:2:process:h:1:a queues q 1 0123456789abcdef");
    given("EVAL \"for i = 1, 2 do redis.call('HSET', KEYS[i], '0', '0123456789abcdefq\\\\n' .. ARGV[i]) end\" "
          "2 hf:2:process:h:1:a hf:2:process:h:2:b " TASK("c1", "") " " TASK("c2", ""));
    given("HSET hf:2:process:h:2:b queues \"p\\nq\"");
    given("LPUSH hf:2:bell:h:2:b:q " TASK("c3", ""));
    given("SADD queues q");
}

TEST(claims_are_listed_by_process)
{
    char cursor[128];
    given_claims();
    admin_good("tasks", "list", "claims");
    assert_string_equal(result.out, "PROCESS  STATE        SLOT  QUEUE  JID  CLASS\n"
                                    "h:1:a    alive           0  q      c1   echo\n"
                                    "h:2:b    lease ended     0  q      c2   echo\n"
                                    "h:2:b    lease ended  bell  q      c3   echo\n");
    admin_good("tasks", "list", "claims", "--limit", "2", "--json");
    assert_contains(result.out, "{\"state\":\"claims\",\"in_queue\":\"q\",\"identity\":\"h:1:a\",\"slot\":\"0\","
                                "\"process_alive\":true,\"jid\":\"c1\"");
    assert_contains(result.out, "\"jid\":\"c3\""); /* a process comes whole */
    admin_good("tasks", "list", "claims", "--limit", "1", "--json");
    assert_lacks(result.out, "\"jid\":\"c2\"");
    cursor_take(cursor);
    assert_string_equal(cursor, "h:1:a");
    given("ZREM hf:2:processes h:2:b");
    admin_good("tasks", "list", "claims", "--json", "--cursor", cursor);
    assert_lacks(result.out, "\"jid\":\"c1\"");
}

TEST(filters_look_through_a_bounded_number_of_entries)
{
    char cursor[128];
    given("EVAL \"for i = 1, 1000 do redis.call('ZADD', 'retry', i, '{\\\"class\\\":\\\"' .. "
          "(i %% 100 == 0 and 'rare' or 'common') .. '\\\",\\\"args\\\":[],\\\"jid\\\":\\\"' .. i .. "
          "'\\\",\\\"queue\\\":\\\"' .. (i > 500 and 'late' or 'early') .. '\\\"}') end\" 0");
    admin_good("tasks", "list", "retry", "--class", "rare", "--limit", "2", "--json");
    assert_contains(result.out, "\"jid\":\"100\"");
    assert_contains(result.out, "\"jid\":\"200\"");
    assert_int_equal(shown_count(), 2);
    cursor_take(cursor);
    assert_string_equal(cursor, "200+1");
    admin_good("tasks", "list", "retry", "--class", "rare", "--queue", "late", "--json");
    assert_int_equal(shown_count(), 5);
    assert_contains(result.out, "\"next\":null");
    admin_good("tasks", "list", "retry", "--class", "rare", "--scan-limit", "150", "--json");
    assert_int_equal(shown_count(), 2);
    assert_contains(result.out, "\"looked_at\":200,\"next\":\"200+1\"");
    admin_good("tasks", "list", "retry", "--class", "none", "--scan-limit", "100");
    assert_string_equal(result.out, "more may follow: --cursor 100+1\n");
}

/* A hundred thousand entries: nothing may ask for all of them. */
TEST(large_places_are_never_read_whole)
{
    given(
        "EVAL \"for i = 1, 100000 do local task = '{\\\"class\\\":\\\"a\\\",\\\"args\\\":[],\\\"jid\\\":\\\"' .. i .. "
        "'\\\"}' redis.call('ZADD', 'schedule', 7, task) redis.call('LPUSH', 'queue:q', task) end "
        "redis.call('SADD', 'queues', 'q')\" 0");
    given("CONFIG RESETSTAT");
    admin_good("tasks", "list", "schedule", "--limit", "20", "--json");
    assert_int_equal(shown_count(), 20);
    admin_good("tasks", "list", "schedule", "--limit", "20", "--json", "--cursor", "7+99990");
    assert_int_equal(shown_count(), 10);
    admin_good("tasks", "list", "queue", "-q", "q", "--limit", "20");
    admin_good("tasks", "show", "7-50000", "--state", "schedule", "--scan-limit", "100");
    admin("tasks", "show", "none", "--scan-limit", "400");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "looked through 400 entries of schedule; --scan-limit N looks further");
    assert_contains(result.error, "looked through 400 entries of queue q;");
    admin_good("status", "--check", "--min-processes", "0");
    assert_int_equal(redis_server_calls(server, "keys"), 0);
    assert_int_equal(redis_server_calls(server, "zrange"),
                     6); /* leases (twice), classes nobody serves, the first due */
    assert_int_equal(redis_server_calls(server, "lrange"), 3);
    assert_int_equal(redis_server_calls(server, "scan"), 0);
    assert_true(redis_server_calls(server, "zrangebyscore") < 600);
}

/* --- show ------------------------------------------------------------------------------------------------------- */

TEST(show_tells_everything_that_is_known)
{
    given("ZADD dead 1000.5 " TASK("j1", ",\"retry_count\":0,\"failed_at\":1000.25,"
                                         "\"error_backtrace\":\"eJyLVkrUS9Y3VNJRStJLVooFAB2hA7I=\""));
    given("HSET hf:2:recovered:j1 h:2:b 1000.125 h:3:c -1001.5");
    given("HSET it-j1 ex 2 c '{\"done\":40}' rt 3.25 cancelled 1000");
    admin_good("tasks", "show", "1000.5-j1", "--json");
    assert_contains(result.out, "{\"state\":\"dead\",\"key\":\"1000.5-j1\",\"at\":1000.5,\"jid\":\"j1\"");
    assert_contains(result.out, "\"error_backtrace\":[\"a.c/1\",\"b.c\"]");
    assert_contains(result.out, "\"recoveries\":[{\"identity\":\"h:2:b\",\"at\":1000.125,\"beside_culprit\":false},"
                                "{\"identity\":\"h:3:c\",\"at\":1001.5,\"beside_culprit\":true}],"
                                "\"iteration\":{\"runs\":2,\"progress\":{\"done\":40},\"seconds\":3.25,"
                                "\"cancelled\":1000},\"has_result\":false,\"fence\":null,"
                                "\"why\":{\"state\":\"dead\",\"reason\":\"dead\",\"sentence\":\"It died ");
    admin_good("tasks", "show", "j1");
    assert_contains(result.out, "It died ");
    assert_contains(result.out, "\nWhat to do: When the cause is mended: `holdfast tasks retry j1`.\n");
    assert_contains(result.out, "state         dead, score 1000.5\n");
    assert_contains(result.out, "retry_count   0\n");
    assert_contains(result.out, "backtrace\n    \"a.c/1\"\n    \"b.c\"\n");
    assert_contains(result.out, "recovered     from h:2:b, ");
    assert_contains(result.out, " ago; another task had crashed it\n");
    assert_contains(result.out, "progress      {\"done\":40}\n");
    assert_contains(result.out, "runs          2, which took 3.2 s\n");
    given("HSET it-j1 c '{\"done\":41,\"total\":100,\"at\":\"x\"}'");
    given("SET hf:2:result:j1 {}");
    admin_good("tasks", "show", "j1");
    assert_contains(result.out,
                    "progress      [########------------] 41 %  {\"done\":41,\"total\":100,\"at\":\"x\"}\n");
    assert_contains(result.out, "result        an earlier run left one");
    admin_good("tasks", "show", "j1", "--json");
    assert_contains(result.out, "\"has_result\":true");
    given("SET hf:2:result:j2 '{\"ended_at\":1000.25,\"result\":7}'");
    admin("tasks", "show", "j2");
    assert_contains(result.error, "the task j2 was not found. It was done at 1970-01-01T00:16:40Z, and left a result. "
                                  "`holdfast result j2` prints it.");
    given("DEL hf:2:result:j2");
    admin("tasks", "show", "j2");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "the task j2 was not found");
}

/* The token is in what the process shows, and is told of the task that it is shown with. */
TEST(show_tells_the_token_of_a_running_claim)
{
    given("ZADD hf:2:processes 99999999999 h:1:a");
    given("EVAL \"redis.call('HSET', KEYS[1], '3', '0123456789abcdefq' .. string.char(10) .. ARGV[1])\" 1 "
          "hf:2:process:h:1:a " TASK("c1", ""));
    admin_good("tasks", "show", "c1", "--json");
    assert_contains(result.out, "\"state\":\"claims\"");
    assert_contains(result.out, ",\"fence\":null,\"why\":{\"state\":\"claims\",\"reason\":\"starts\",");
    given("HSET h:1:a:work t3 '{\"queue\":\"q\",\"payload\":\"{\\\"jid\\\":\\\"c1\\\"}\",\"hf_fence\":\"77\"}'");
    admin_good("tasks", "show", "c1", "--json");
    assert_contains(result.out, ",\"fence\":\"77\",\"why\":{");
    admin_good("tasks", "show", "c1");
    assert_contains(result.out, "fence         77\n");
    given("HSET h:1:a:work t3 '{\"queue\":\"q\",\"payload\":\"{\\\"jid\\\":\\\"other\\\"}\",\"hf_fence\":\"77\"}'");
    admin_good("tasks", "show", "c1");
    assert_lacks(result.out, "fence");
}

/* --- retry, bury, delete ------------------------------------------------------------------------------------------ */

TEST(retried_tasks_go_back_as_dashboards_would_send_them)
{
    given("ZADD retry 9 " TASK("r", ",\"queue\":\"a\",\"retry_count\":2,\"x\":1.50,\"at\":5"));
    given("ZADD dead 9 " TASK("d", ",\"retry_count\":0,\"enqueued_at\":7"));
    given("ZADD schedule 9 " TASK("s", ",\"queue\":\"a\",\"retry_count\":2"));
    admin_good("tasks", "retry", "r", "9-d", "s");
    assert_string_equal(result.out, "r: back in its queue (was in retry)\n9-d: back in its queue (was in dead)\n"
                                    "s: back in its queue (was in schedule)\n");
    assert_reply(server, "0", "EXISTS retry dead schedule");
    assert_reply(server, "a\ndefault", "SORT queues ALPHA");
    char *task = redis_server_command(server, "LINDEX queue:a -1");
    assert_contains(task, "\"queue\":\"a\",\"retry_count\":1,\"x\":1.50,\"enqueued_at\":");
    assert_lacks(task, "\"at\"");
    free(task);
    task = redis_server_command(server, "LINDEX queue:a 0");
    assert_contains(task, "\"retry_count\":2,");
    free(task);
    task = redis_server_command(server, "LINDEX queue:default 0");
    assert_contains(task, "\"retry_count\":-1,");
    assert_lacks(task, "\"enqueued_at\":7");
    free(task);
    /* It was scheduled long before it is sent off by hand: what it may wait counts from then on. */
    given("ZADD schedule 9 " TASK("e", ",\"queue\":\"e\",\"created_at\":1000.5,\"expires_in\":60"));
    admin_good("tasks", "retry", "e");
    task = redis_server_command(server, "LINDEX queue:e 0");
    assert_contains(task, ",\"expires_at\":1");
    free(task);
}

TEST(each_named_task_gets_its_answer)
{
    given_claims();
    given("ZADD retry 9 " TASK("r", ",\"queue\":\"clash\"") " 8 nonsense");
    given("SET queue:clash foreign");
    admin("tasks", "retry", "c1", "c2", "c3", "r", "8-", "none", "--json");
    assert_int_equal(result.exit_code, 1);
    assert_string_equal(result.out, "{\"verb\":\"retry\",\"results\":["
                                    "{\"id\":\"c1\",\"state\":\"claims\",\"result\":\"process_alive\"},"
                                    "{\"id\":\"c2\",\"state\":\"claims\",\"result\":\"done\"},"
                                    "{\"id\":\"c3\",\"state\":\"claims\",\"result\":\"done\"},"
                                    "{\"id\":\"r\",\"state\":\"retry\",\"result\":\"clash\"},"
                                    "{\"id\":\"8-\",\"state\":\"retry\",\"result\":\"unfit\"},"
                                    "{\"id\":\"none\",\"state\":null,\"result\":\"not_found\"}],"
                                    "\"done\":2,\"gone\":0,\"refused\":4}\n");
    assert_contains(result.error, "c1: runs in h:1:a, which is alive; `holdfast cancel` ends it there");
    assert_reply(server, "2", "LLEN queue:q");
    assert_reply(server, "1", "HEXISTS hf:2:process:h:1:a 0");
    assert_reply(server, "0", "HEXISTS hf:2:process:h:2:b 0");
    assert_reply(server, "0", "EXISTS hf:2:bell:h:2:b:q");
}

TEST(tasks_are_buried_and_deleted_from_everywhere)
{
    given("LPUSH queue:q " TASK("q1", "") " " TASK("q2", "") " " TASK("q3", ""));
    given("SADD queues q");
    given("ZADD schedule 9 " TASK("s", "") " 10 nonsense");
    given("ZADD dead 5 " TASK("d", ""));
    admin_good("tasks", "delete", "q2", "d");
    assert_string_equal(result.out, "q2: deleted (was in queue)\nd: deleted (was in dead)\n");
    admin_good("tasks", "bury", "q1", "s", "10-");
    assert_reply(server, "1", "LLEN queue:q");
    assert_reply(server, "3", "ZCARD dead");
    assert_reply(server, "0", "EXISTS schedule");
    admin_good("tasks", "list", "dead", "--class", "hf.invalid", "--json");
    assert_contains(result.out, "\"args\":[\"nonsense\"]");
    admin("tasks", "bury", "q1");
    assert_int_equal(result.exit_code, 1);
    /* What is no task for its limits then may be one now. */
    admin("tasks", "retry", "--all", "--state", "dead", "--class", "hf.invalid", "--yes");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "it is no task");
    assert_reply(server, "3", "ZCARD dead");
}

TEST(all_of_a_place_are_moved_as_many_as_there_were)
{
    given("EVAL \"for i = 1, 1050 do redis.call('ZADD', 'dead', i < 900 and 5 or i, '{\\\"class\\\":\\\"' .. "
          "(i %% 10 == 0 and 'mail' or 'echo') .. '\\\",\\\"args\\\":[],\\\"jid\\\":\\\"' .. i .. '\\\"}') end\" 0");
    admin("tasks", "retry", "--all", "--state", "dead", "--class", "mail");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "retry those that match, of 1,050 tasks of dead, class mail: say --yes");
    assert_reply(server, "1050", "ZCARD dead");
    admin_good("tasks", "retry", "--all", "--state", "dead", "--class", "mail", "--yes");
    assert_string_equal(result.out, "105 tasks put back\n");
    assert_reply(server, "945", "ZCARD dead");
    assert_reply(server, "105", "LLEN queue:default");
    admin_good("tasks", "delete", "--all", "--state", "dead", "--yes", "--json");
    assert_string_equal(result.out, "{\"verb\":\"delete\",\"done\":945,\"gone\":0,\"refused\":0}\n");
    admin_good("tasks", "bury", "--all", "--state", "queue", "-q", "default", "--yes");
    assert_reply(server, "105", "ZCARD dead");
    assert_reply(server, "0", "EXISTS queue:default");
    assert_int_equal(redis_server_calls(server, "keys"), 0);
    admin("tasks", "delete", "--all", "--yes");
    assert_int_equal(result.exit_code, 2);
    admin("tasks", "retry", "x", "--state", "queue");
    assert_int_equal(result.exit_code, 2);
}

TEST(an_endless_score_is_shown_as_such)
{
    given("ZADD schedule inf " TASK("j1", "") " -inf " TASK("j2", ""));
    admin_good("tasks", "list", "schedule");
    assert_contains(result.out, "\n-inf  -inf-j2 ");
    assert_contains(result.out, "\ninf   inf-j1 ");
    admin_good("tasks", "list", "schedule", "--json");
    assert_contains(result.out, "\"key\":\"inf-j1\",\"at\":null,");
    admin_good("tasks", "show", "inf-j1", "j2");
    assert_contains(result.out, "state         schedule, score inf\n");
    assert_contains(result.out, "state         schedule, score -inf\n");
}

TEST(burying_says_what_it_trimmed)
{
    given("EVAL \"local now = redis.call('TIME')[1] for i = 1, 9998 do "
          "redis.call('ZADD', 'dead', now - i, 'x' .. i) end\" 0");
    given("ZADD retry 1 " TASK("r1", "") " 2 " TASK("r2", "") " 3 " TASK("r3", "") " 4 " TASK("r4", ""));
    admin_good("tasks", "bury", "r1", "--json");
    assert_contains(result.out, "\"done\":1,\"gone\":0,\"refused\":0,\"trimmed\":0}");
    admin_good("tasks", "bury", "r2", "--json");
    assert_contains(result.out, "\"done\":1,\"gone\":0,\"refused\":0,\"trimmed\":1}");
    admin_good("tasks", "bury", "r3");
    assert_contains(result.out, "\n1 of the oldest entries of dead was trimmed away: it keeps 9999, for 180 days\n");
    assert_reply(server, "9999", "ZCARD dead");
    admin_good("tasks", "bury", "--all", "--state", "retry", "--yes");
    assert_contains(result.out, "1 of the oldest entries of dead was trimmed away");
    assert_contains(result.out, "\n1 task buried\n");
}

TEST(all_claims_of_the_gone_go_back_and_those_of_the_living_stay)
{
    given_claims();
    admin("tasks", "retry", "--all", "--state", "claims", "--yes");
    assert_int_equal(result.exit_code, 1);
    assert_string_equal(result.out, "2 tasks put back, 1 stay where they are\n");
    assert_reply(server, "2", "LLEN queue:q");
    assert_reply(server, "1", "HEXISTS hf:2:process:h:1:a 0");
}

/* --- a node that closes connections whose answers are too large --------------------------------------------------- */

TEST(pages_that_are_too_large_for_the_node_become_smaller)
{
    enum { TASKS = 40 };
    static const char fill[] = "EVAL \"local text = string.rep('x', 20000) for i = 1, %d do local task = "
                               "'{\\\"class\\\":\\\"echo\\\",\\\"args\\\":[\\\"' .. text .. '\\\"],"
                               "\\\"jid\\\":\\\"j' .. i .. '\\\"}' "
                               "redis.call('ZADD', 'retry', i, task) redis.call('LPUSH', 'queue:large', task) "
                               "redis.call('HSET', 'hf:2:process:host:1:n', i, "
                               "'0123456789abcdeflarge' .. string.char(10) .. task) end\" 0";
    given(fill, TASKS);
    given_lease("host:1:n", 100);
    given("CONFIG SET client-output-buffer-limit 'normal 200000 0 0'");
    static const char *const states[][3] = {{"retry"}, {"claims"}, {"queue", "--queue", "large"}};
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        admin_good("tasks", "list", "--json", "--limit=100", states[i][0], states[i][1], states[i][2]);
        assert_contains(result.out, "\"looked_at\":40,\"next\":null");
    }
    admin_good("queues", "delete", "large", "--yes");
    assert_contains(result.out, "40 tasks");
    given("CONFIG SET client-output-buffer-limit 'normal 0 0 0'");
}

RUN_ADMIN_TESTS
