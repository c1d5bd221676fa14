/* status, queues, pause, resume, quiet and stop against a real server: what they tell, and what they leave behind. */
#include "tests/support/admin_fixture.h"

#include <time.h>

/* A process as dashboards see it. Times are far from now, so that what is printed of them is known. */
static void given_shown(const char *identity, const char *host, const char *version, const char *quiet)
{
    given("SADD processes %s", identity);
    given("HSET %s info '{\"hostname\":\"%s\",\"pid\":7,\"concurrency\":1,\"queues\":[\"default\",\"mail\"],"
          "\"version\":\"%s\"}' busy 3 beat 1000.5 quiet %s rss 2048 concurrency 8",
          identity, host, version, quiet);
}

static void given_fleet(void)
{
    given("ZADD hf:2:processes 9000000000 a:7:aa 1000 b:7:bb 9000000000 c:7:cc");
    given_shown("a:7:aa", "a", "holdfast 0.9.0", "false");
    given_shown("d:7:dd", "d", "7.3.10", "true");
    given_shown("e:7:ee", "e", "holdfast 0.9.0", "false");
    given("HSET hf:2:process:b:7:bb queues \"default\\nmail\" 0 0123456789abcdef");
    given("HSET hf:2:process:c:7:cc gone \"2default\"");
}

/* --- status ----------------------------------------------------------------------------------------------------- */

TEST(status_tells_each_process_with_its_lease)
{
    given_fleet();
    admin_good("status", "--json");
    assert_contains(result.out,
                    "\"processes\":["
                    "{\"identity\":\"a:7:aa\",\"state\":\"alive\",\"lease_end\":9000000000.0,\"host\":\"a\",\"pid\":7,"
                    "\"version\":\"holdfast 0.9.0\",\"busy\":3,\"concurrency\":8,\"quiet\":false,\"rss_kb\":2048,"
                    "\"beat\":1000.5,\"queues\":[\"default\",\"mail\"],\"threads\":8},"
                    "{\"identity\":\"b:7:bb\",\"state\":\"lost\",\"lease_end\":1000.0,\"host\":\"\",\"pid\":0,"
                    "\"version\":\"\",\"busy\":0,\"concurrency\":0,\"quiet\":false,\"rss_kb\":0,\"beat\":null,"
                    "\"queues\":[\"default\",\"mail\"],\"threads\":0},"
                    "{\"identity\":\"c:7:cc\",\"state\":\"recovered\",");
    assert_contains(result.out, "{\"identity\":\"d:7:dd\",\"state\":\"foreign\",\"lease_end\":null,");
    assert_contains(result.out, "{\"identity\":\"e:7:ee\",\"state\":\"unleased\",");
    assert_contains(result.out, "\"health\":{\"well\":false,\"findings\":[\"the lease of b:7:bb ended ");
    assert_contains(result.out, " ago and nobody recovers its claims\"],\"workers\":1,\"lock_nodes\":{\"nodes\":0,");
    admin_good("status");
    assert_contains(result.out, "PROCESS  STATE ");
    assert_contains(result.out, "\na:7:aa   alive  ");
    assert_contains(result.out, "lost, lease ended ");
    assert_contains(result.out, "3/8  2.0 MiB ");
    assert_lacks(result.out, " \n");
    assert_lacks(result.out, "\x1b");
}

TEST(status_tells_queues_sets_and_totals)
{
    given("SADD queues default clash strange");
    given("SADD paused mail");
    given("SET queue:clash foreign");
    given("LPUSH queue:default '{\"class\":\"a\",\"args\":[],\"created_at\":1e10}' nonsense");
    given("LPUSH queue:strange nonsense");
    given("MSET stat:processed 1234567 stat:failed 12");
    given("ZADD schedule 1 a 2 b");
    given("ZADD dead 1 a");
    given("SET retry foreign");
    admin_good("status", "--json");
    assert_contains(result.out, "\"queues\":[{\"name\":\"clash\",\"length\":null,\"latency\":null,\"paused\":false},"
                                "{\"name\":\"default\",\"length\":2,\"latency\":0.0,\"paused\":false},"
                                "{\"name\":\"mail\",\"length\":0,\"latency\":0.0,\"paused\":true},"
                                "{\"name\":\"strange\",\"length\":1,\"latency\":null,\"paused\":false}],"
                                "\"schedule\":2,\"retry\":null,\"dead\":1,\"processed\":1234567,\"failed\":12,"
                                "\"processed_today\":0,\"failed_today\":0,\"rate\":{\"minute\":\"");
    admin_good("status");
    assert_contains(result.out, "processed 1,234,567 (today 0)   failed 12 (today 0)\n");
    assert_contains(result.out, "its key holds no list\n");
    assert_contains(result.out, "scheduled 2   waiting for locks 0   retry ?   dead 1\n");
    assert_contains(result.out, "   1 connection\n");
}

/* The keys of this minute and of the last: the test may cross the end of one. */
TEST(status_tells_the_rate_of_the_last_full_minute)
{
    for (int ago = 0; ago <= 1; ago++) {
        char key[64];
        time_t then = (time_t)(wall_now().us / US_PER_S) - 60 * ago;
        struct tm parts;
        gmtime_r(&then, &parts);
        snprintf(key, sizeof key, "j|%02d%02d%02d|%d:%02d", parts.tm_year % 100, parts.tm_mon + 1, parts.tm_mday,
                 parts.tm_hour, parts.tm_min);
        given("HSET %s echo|p 40 echo|f 2 echo|ms 9999 \"odd|class|p\" 2 p 7", key);
    }
    admin_good("status", "--json");
    assert_contains(result.out, ",\"processed\":42,\"failed\":2}");
    admin_good("status");
    assert_contains(result.out, "last full minute 42 processed, 2 failed\n");
}

TEST(check_is_one_line_and_an_exit_code)
{
    admin("status", "--check");
    assert_int_equal(result.exit_code, 1);
    assert_string_equal(result.out, "not well: no worker takes tasks; 0 tasks in queues, 0 waiting for locks\n");
    admin_good("status", "--check", "--min-processes", "0");
    given_lease("a:7:aa", 600);
    admin_good("status", "--check");
    assert_string_equal(result.out, "well: 1 worker, 0 tasks in queues, 0 waiting for locks\n");

    given("ZADD dead 1 a 2 b");
    given("SADD queues slow asleep");
    given("SADD paused asleep");
    given("LPUSH queue:slow '{\"class\":\"a\",\"args\":[],\"enqueued_at\":1000.5}'");
    given("LPUSH queue:asleep '{\"class\":\"a\",\"args\":[],\"enqueued_at\":1000.5}'");
    admin("status", "--check");
    assert_int_equal(result.exit_code, 1);
    assert_string_equal(result.out, "not well: the queue asleep is paused: 1 task waits; 1 worker, 2 tasks in queues, "
                                    "0 waiting for locks\n");
    given("DEL queue:asleep");
    admin_good("status", "--check");
    admin_good("status", "--check", "--max-dead", "2");
    admin("status", "--check", "--max-dead", "1", "--max-latency", "10s");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.out, "not well: the oldest task of queue slow has waited ");
    assert_contains(result.out, "; 2 dead tasks, at most 1 are accepted; 1 worker, ");
    assert_lacks(result.out, "asleep");
    admin("status", "--max-dead", "1");
    assert_int_equal(result.exit_code, 2);
}

static void given_unserved(const char *class_name, int64_t seconds, const char *jids)
{
    given(
        "EVAL \"local n = tonumber(redis.call('TIME')[1]) + ARGV[2] redis.call('ZADD', 'hf:2:unserved', n, ARGV[1]) "
        "for jid in string.gmatch(ARGV[3], '%%S+') do redis.call('ZADD', 'hf:2:unserved:' .. ARGV[1], n, jid) end\" 0 "
        "%s %lld '%s'",
        class_name, (long long)seconds, jids);
}

TEST(status_tells_classes_that_nobody_serves)
{
    given_lease("a:7:aa", 600);
    given("HSET a:7:aa hf_classes \"echo\\nmail\"");
    given_unserved("mail", 60, "m");
    given_unserved("former", -60, "f");
    given_unserved("tomorrow", -60, "two");
    given_unserved("tomorrow", 60, "one");
    admin("status", "--check");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.out, "not well: no worker serves the class tomorrow: 1 task waits; 1 worker, ");
    given_unserved("later", 60, "a b");
    admin_good("status", "--json");
    assert_contains(result.out,
                    ",\"unserved\":[{\"class\":\"later\",\"tasks\":2},{\"class\":\"tomorrow\",\"tasks\":1}],");
    admin_good("status");
    assert_contains(result.out,
                    "no worker serves the class later: 2 tasks wait; no worker serves the class tomorrow: 1 ");
    given("HDEL a:7:aa hf_classes"); /* of an older version: it may serve anything */
    admin_good("status", "--check");
}

/* So many of this age, in seconds; the newest is at the left end. */
static void given_tasks(const char *queue, int count, int age)
{
    given("SADD queues %s", queue);
    given("EVAL \"for _ = 1, ARGV[2] do redis.call('LPUSH', 'queue:' .. ARGV[1], "
          "string.format('{\\\"class\\\":\\\"a\\\",\\\"args\\\":[],"
          "\\\"enqueued_at\\\":%%.3f}', redis.call('TIME')[1] - ARGV[3])) end\" 0 %s %d %d",
          queue, count, age);
}

/* Nothing was done lately, so ten that were pushed lately are enough where the oldest has waited. */
TEST(a_queue_grows_when_more_is_pushed_than_done)
{
    given_lease("a:7:aa", 600);
    given_tasks("quick", 20, 1);
    given_tasks("long", 30, 300);
    given_tasks("slow", 1, 300);
    given_tasks("slow", 9, 1);
    admin_good("status", "--check");
    given_tasks("slow", 1, 1);
    admin("status", "--check");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.out, "not well: the queue slow grows: its oldest task has waited 5m, and within a minute 10 "
                                "or more were pushed there, while all workers did 0; 1 worker, ");
    admin_good("status", "--json");
    assert_contains(result.out, "\"growing\":[\"slow\"]}");
    admin("doctor", "--json");
    assert_contains(result.out, "\"severity\":\"warning\",\"id\":\"queue-grows\",\"what\":\"the queue slow grows: ");
    given("SADD paused slow");
    admin("status", "--check");
    assert_contains(result.out, "not well: the queue slow is paused: 11 tasks wait; 1 worker, ");
}

TEST(a_lease_that_ended_just_now_is_no_trouble_yet)
{
    given_lease("a:7:aa", 600);
    given_lease("b:7:bb", -20);
    admin_good("status", "--check");
    given_lease("b:7:bb", -120);
    admin("status", "--check");
    assert_int_equal(result.exit_code, 1);
    given("HSET hf:2:process:b:7:bb gone 1default");
    admin_good("status", "--check");
}

TEST(what_processes_say_cannot_steer_the_terminal)
{
    given("SADD processes \"x\\x1b[31m:1:y\\n\"");
    given("HSET \"x\\x1b[31m:1:y\\n\" info '{\"hostname\":\"h\",\"version\":\"1\",\"queues\":[\"\\u001b[2J\","
          "\"\\u009b2J\",\"\\u202e\"]}' busy 0");
    given("SADD queues \"q\\x1b[0m\\r\"");
    admin_good("status");
    assert_lacks(result.out, "\x1b");
    assert_lacks(result.out, "\xc2\x9b");
    assert_lacks(result.out, "\xe2\x80\xae");
    assert_lacks(result.out, "\r");
    admin_good("status", "--json");
    assert_lacks(result.out, "\x1b");
    assert_lacks(result.out, "\xc2\x9b");
    assert_contains(result.out, "\"queues\":[\"\\u001b[2J\",\"\\u009b2J\",\"\\u202e\"]");
    admin_good("queues");
    assert_lacks(result.out, "\x1b");
}

TEST(foreign_values_under_the_keys_are_survived)
{
    given("MSET processes x hf:2:processes y stat:processed z schedule s");
    given("SADD queues default");
    admin_good("status", "--json");
    assert_contains(result.out, "\"processes\":[],\"queues\":[{\"name\":\"default\"");
    assert_contains(result.out, "\"schedule\":null");
}

TEST(names_that_cannot_be_read_are_said_to_be_unknown)
{
    given_lease("a:7:aa", 600);
    given("MSET queues x stat:processed:2000-01-01 y hf:2:process:a:7:aa z");
    given("HSET stat:processed a b");
    given("SADD paused mail");
    admin_good("status", "--json");
    assert_contains(result.out, "\"queues\":null,");
    assert_contains(result.out, "\"processed\":null,\"failed\":0,");
    assert_contains(result.out, "\"well\":false,\"findings\":[\"the key queues holds no set\",\"the claims of a:7:aa");
    admin_good("status");
    assert_contains(result.out, "processed ? (today 0)");
    assert_contains(result.out, "alive, claims ?");
    admin("queues");
    assert_int_equal(result.exit_code, 0);
    assert_contains(result.error, "the key queues holds no set");
    assert_contains(result.out, "mail");
    admin("queues", "--json");
    assert_string_equal(result.out, "{\"queues\":null}\n");
    given("DEL queues paused");
    given("SADD queues mail");
    given("SET paused x");
    admin("queues", "--json");
    assert_contains(result.out, "\"latency\":0.0,\"paused\":null,");
    assert_contains(result.error, "the key paused holds no set");
    admin_good("status", "--json");
    assert_contains(result.out, "\"latency\":0.0,\"paused\":null}");
    admin_good("status");
    assert_contains(result.out, "paused: ?");
    given("LPUSH queue:mail '{\"class\":\"a\",\"args\":[],\"jid\":\"j1\"}'");
    admin("tasks", "show", "j1", "--json");
    assert_int_equal(result.exit_code, 0);
    assert_contains(result.out, "\"jid\":\"j1\"");
    assert_contains(result.error, "the key paused holds no set");
    assert_contains(result.error, "the key hf:2:process:a:7:aa holds no hash");
}

TEST(check_sees_what_keeps_workers_from_working)
{
    given_lease("a:7:aa", 600);
    given("ZADD retry 1000 overdue");
    given("SET schedule x");
    admin("status", "--check", "--max-latency", "10s");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.out, "not well: the key schedule holds no sorted set; an entry of retry has been due ");
    given("DEL schedule");
    admin_good("status", "--check");
    given("CONFIG SET maxmemory 1");
    admin("status", "--check");
    given("CONFIG SET maxmemory 0");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.out, " of 1 B and refuses writes");
    FILE *file = fopen(admin_config, "ae");
    assert_non_null(file);
    fprintf(file, "lock_nodes = ( { host = \"127.0.0.1\"; port = %u; } );\n", free_port());
    assert_int_equal(fclose(file), 0);
    admin("status", "--check");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.out, "not well: 0 of 1 lock nodes vote: tasks with locks are not started (");
}

TEST(a_node_that_is_away_is_temporary)
{
    admin_config_write(free_port());
    admin("status");
    assert_int_equal(result.exit_code, 75);
    assert_contains(result.error, "holdfast status: the node 127.0.0.1:");
    assert_contains(result.error, "cannot be reached");
}

/* A thousand processes and queues, and not a command that grows with what they hold. */
TEST(a_large_fleet_is_read_in_pieces)
{
    given("EVAL \"for i = 1, 1000 do redis.call('ZADD', 'hf:2:processes', 9e9, 'h:1:' .. i) "
          "redis.call('SADD', 'processes', 'h:1:' .. i) redis.call('SADD', 'queues', 'q' .. i) "
          "redis.call('LPUSH', 'queue:q' .. i, 'x', 'y') end\" 0");
    given("CONFIG RESETSTAT");
    admin_good("status", "--check");
    assert_string_equal(result.out, "well: 1,000 workers, 2,000 tasks in queues, 0 waiting for locks\n");
    assert_int_equal(redis_server_calls(server, "keys"), 0);
    assert_int_equal(redis_server_calls(server, "smembers"), 0);
    assert_int_equal(redis_server_calls(server, "lrange"), 0);
    assert_int_equal(redis_server_calls(server, "llen"), 1000);
}

/* --- queues, pause, resume --------------------------------------------------------------------------------------- */

TEST(queues_tell_who_serves_them)
{
    given_fleet();
    given("SADD queues default lonely");
    given("LPUSH queue:lonely '{\"class\":\"a\",\"args\":[]}'");
    admin_good("queues", "--json");
    assert_string_equal(result.out,
                        "{\"queues\":[{\"name\":\"default\",\"length\":0,\"latency\":0.0,\"paused\":false,"
                        "\"served_by\":[\"a:7:aa\",\"d:7:dd\"]},"
                        "{\"name\":\"lonely\",\"length\":1,\"latency\":null,\"paused\":false,\"served_by\":[]}]}\n");
    admin_good("queues");
    assert_string_equal(result.out, "QUEUE    TASKS  LATENCY  PROCESSES\n"
                                    "default      0     0 ms          2\n"
                                    "lonely       1        ?          0\n");
}

/* Names that no queue can have hide none, and as many as there are, are told. */
TEST(many_queues_and_a_long_name_hide_none)
{
    given("EVAL \"for i = 1, 12000 do redis.call('SADD', 'queues', 'q' .. i) end "
          "redis.call('SADD', 'queues', string.rep('n', 600)) redis.call('LPUSH', 'queue:q12000', 'x')\" 0");
    admin("status");
    assert_int_equal(result.exit_code, 0);
    assert_contains(result.out, "q12000");
    assert_contains(result.error, "1 name of more than 512 bytes in queues or paused");
    admin("queues", "--json");
    assert_contains(result.out, "{\"name\":\"q12000\",\"length\":1,");
    assert_contains(result.error, "1 name of more than 512 bytes");
}

TEST(a_queue_is_deleted_only_when_somebody_is_sure)
{
    given("SADD queues old kept");
    given("LPUSH queue:old a b c");
    given("SET queue:clash foreign");
    admin("queues", "delete", "old");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "delete the queue old and its 3 tasks: say --yes");
    assert_reply(server, "3", "LLEN queue:old");
    admin_good("queues", "delete", "old", "--yes", "--json");
    assert_string_equal(result.out, "{\"deleted\":\"old\",\"tasks\":3,\"unique_freed\":0}\n");
    assert_reply(server, "0", "EXISTS queue:old");
    assert_reply(server, "kept", "SMEMBERS queues");
    assert_int_equal(redis_server_calls(server, "unlink"), 1);
    admin("queues", "delete", "clash", "--yes");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "nothing was deleted");
    assert_reply(server, "foreign", "GET queue:clash");
    admin("queues", "delete", "", "--yes");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "there is no queue");
}

/* Producers make names that no worker would serve. What is shown can be listed, paused and deleted. */
TEST(a_queue_of_any_name_can_be_acted_on)
{
    static char longest[2001];
    const char *const names[] = {"low priority", "caf\xe9\t;", "hf:2:processes", memset(longest, 'q', 2000)};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        given("SADD queues \"%s\"", names[i]);
        given("LPUSH \"queue:%s\" '{\"class\":\"note\",\"args\":[],\"jid\":\"j\"}'", names[i]);
        admin_good("tasks", "list", "queue", "--queue", names[i], "--json");
        assert_contains(result.out, "\"jid\":\"j\"");
        admin_good("pause", names[i]);
        assert_reply(server, "1", "SISMEMBER paused \"%s\"", names[i]);
        admin_good("resume", names[i]);
        admin_good("queues", "delete", names[i], "--yes");
        assert_reply(server, "0", "EXISTS \"queue:%s\" queues", names[i]);
    }
}

TEST(what_a_deleted_queue_held_as_unique_is_free)
{
    given("SADD queues old");
    given("EVAL \"for i = 1, 450 do redis.call('RPUSH', KEYS[1], '{\\\"class\\\":\\\"a\\\",\\\"args\\\":[],"
          "\\\"jid\\\":\\\"j' .. i .. '\\\",\\\"hf_unique\\\":\\\"d' .. i .. '\\\"}') "
          "redis.call('SET', 'hf:2:unique:d' .. i, 'j' .. i) end\" 1 queue:old");
    given("SET hf:2:unique:d7 another");
    given("SET hf:2:unique:kept j1");
    given("RPUSH queue:old nonsense");
    admin_good("queues", "delete", "old", "--yes");
    assert_string_equal(result.out, "deleted queue old with 451 tasks, 449 of them unique\n");
    assert_reply(server, "hf:2:unique:d7\nhf:2:unique:kept",
                 "EVAL \"local k = redis.call('KEYS', 'hf:2:unique:*') "
                 "table.sort(k) return k\" 0");
    assert_reply(server, "0", "EVAL \"return #redis.call('KEYS', 'hf:2:dropped:*')\" 0");
    admin("queues", "delete", "old", "--yes");
    assert_int_equal(result.exit_code, 1);
    assert_string_equal(result.error, "holdfast queues: there is no queue old\n");
}

TEST(names_that_nobody_serves_are_told_one_by_one)
{
    given_fleet();
    admin("pause", "nobody1", "nobody2");
    assert_int_equal(result.exit_code, 0);
    assert_contains(result.error, "the queue nobody1, and no task was ever pushed to it");
    assert_contains(result.error, "the queue nobody2, and no task was ever pushed to it");
    given("SREM paused nobody1 nobody2");
}

TEST(pausing_tells_the_living_at_once)
{
    given_fleet();
    admin_good("pause", "mail", "default");
    assert_string_equal(result.out, "mail is paused\ndefault is paused\n1 process was told\n");
    assert_reply(server, "default\nmail", "SORT paused ALPHA");
    assert_reply(server, "LOOK", "LRANGE hf:2:calls:a:7:aa 0 -1");
    assert_reply(server, "1",
                 "EVAL \"local ttl = redis.call('TTL', KEYS[1]) return ttl > 50 and ttl <= 60 and 1\" 1 "
                 "hf:2:calls:a:7:aa");
    assert_reply(server, "0", "EXISTS hf:2:calls:b:7:bb");
    given("DEL hf:2:calls:a:7:aa");
    admin_good("resume", "mail", "--json");
    assert_string_equal(result.out, "{\"resumed\":[\"mail\"],\"processes_told\":1}\n");
    assert_reply(server, "default", "SMEMBERS paused");
    assert_reply(server, "LOOK", "LRANGE hf:2:calls:a:7:aa 0 -1");
    admin_good("resume", "nosuch", "default");
    assert_string_equal(result.out, "nosuch was not paused\ndefault is resumed\n1 process was told\n");
    admin("pause");
    assert_int_equal(result.exit_code, 2);
    admin("pause", "mial");
    assert_int_equal(result.exit_code, 0);
    assert_string_equal(result.out, "mial is paused\n1 process was told\n");
    assert_string_equal(result.error, "holdfast pause: no process serves the queue mial, and no task was ever pushed "
                                      "to it (did you mean mail?)\n");
    given("DEL paused");
    given("SET paused foreign");
    admin("pause", "x");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "WRONGTYPE");
}

/* --- quiet, stop ------------------------------------------------------------------------------------------------- */

TEST(processes_are_told_by_identity_host_and_all)
{
    given_fleet();
    admin_good("quiet", "a:7:aa");
    assert_string_equal(result.out, "told a:7:aa: quiet\n");
    assert_reply(server, "TSTP", "LRANGE a:7:aa-signals 0 -1");
    assert_reply(server, "0", "EXISTS d:7:dd-signals");
    admin_good("stop", "d", "--json");
    assert_string_equal(result.out, "{\"verb\":\"stop\",\"told\":[\"d:7:dd\"]}\n");
    assert_reply(server, "TERM", "LRANGE d:7:dd-signals 0 -1");
    assert_reply(server, "1",
                 "EVAL \"local ttl = redis.call('TTL', KEYS[1]) return ttl > 50 and ttl <= 60 and 1\" 1 "
                 "d:7:dd-signals");
    admin_good("quiet", "--all");
    assert_string_equal(result.out, "told a:7:aa: quiet\ntold d:7:dd: quiet\ntold e:7:ee: quiet\n");
    admin_good("stop", "--all", "--drain");
    assert_string_equal(result.out, "told a:7:aa: drain\n");
    assert_reply(server, "DRAIN", "LRANGE hf:2:calls:a:7:aa 0 -1");
}

TEST(who_is_not_there_cannot_be_told)
{
    admin("stop", "--all");
    assert_int_equal(result.exit_code, 1);
    given_fleet();
    admin("stop", "b:7:bb");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "no living process is called b:7:bb");
    admin("stop", "a:7:a");
    assert_int_equal(result.exit_code, 1);
    admin("quiet");
    assert_int_equal(result.exit_code, 2);
    admin("quiet", "--all", "a");
    assert_int_equal(result.exit_code, 2);
    assert_reply(server, "0", "EXISTS a:7:aa-signals b:7:bb-signals d:7:dd-signals");
}

TEST(waiting_ends_when_they_have_done_so_or_in_time)
{
    given_fleet();
    admin_good("quiet", "d", "--wait=20s"); /* it is quiet already */
    admin("quiet", "a", "--wait=300ms");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "1 of 1 have not gone quiet in time");
    admin("stop", "d", "--wait=300ms");
    assert_int_equal(result.exit_code, 1);

    const char *const arguments[] = {"stop", "d:7:dd", "--wait=25s", "-c", admin_config, NULL};
    given("DEL d:7:dd-signals");
    struct program program = program_start(arguments, -1);
    test_await(queue_probe_number(server, "LLEN d:7:dd-signals") == 1);
    given("DEL d:7:dd");
    given("SREM processes d:7:dd");
    struct program_result waited = program_wait(&program);
    assert_string_equal(waited.error, "");
    assert_int_equal(waited.exit_code, 0);
    program_result_free(&waited);
}

RUN_ADMIN_TESTS
