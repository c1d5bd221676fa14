/* What no real server can show of the simulated one: bytes in any pieces, when its time has to tick, its disk, its
 * replicas, who observes it. What it answers is compared in tests/integration/test_redis_model.c. */
#include "tests/support/test.h"

#include "redis/request.h"
#include "tests/sim/server/simulated_client.h"

#define SECOND INT64_C(1000000)

static const int64_t begin_us = INT64_C(1700000000000000);

struct place {
    struct server *server;
    struct simulated_client clients[3];
    int64_t now_us;
};
static struct place *place;

static void set_up(void)
{
    place = calloc(1, sizeof *place);
    place->now_us = begin_us;
    place->server = server_create(&(struct server_options){.run_seed = "s", .has_disk = true, .now_us = begin_us});
    for (unsigned i = 0; i < 3; i++)
        simulated_client_connect(&place->clients[i], place->server);
}

static void tear_down(void)
{
    for (unsigned i = 0; i < 3; i++)
        simulated_client_end(&place->clients[i]);
    server_destroy(place->server);
    free(place);
}

static const char *say(unsigned client, const char *line)
{
    simulated_client_say(&place->clients[client], line, place->now_us);
    return simulated_client_heard(&place->clients[client]);
}

static const char *heard(unsigned client)
{
    return simulated_client_heard(&place->clients[client]);
}

static void clients_anew(void)
{
    for (unsigned i = 0; i < 3; i++) {
        place->clients[i].connection = NULL;
        simulated_client_end(&place->clients[i]);
        simulated_client_connect(&place->clients[i], place->server);
    }
}

TEST(test_bytes_come_in_any_pieces_and_many_commands_at_once)
{
    static const char bytes[] = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2\r\n\r\n\r\nPING\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n";
    for (size_t cut = 0; cut < sizeof bytes - 1; cut++) {
        server_receive(place->clients[0].connection, bytes, cut, place->now_us);
        server_receive(place->clients[0].connection, bytes + cut, sizeof bytes - 1 - cut, place->now_us);
        assert_string_equal(heard(0), "+OK|+PONG|$2|||");
    }
}

TEST(test_who_waits_is_served_in_order_or_ends_in_time)
{
    assert_string_equal(say(0, "BLMOVE from to RIGHT LEFT 5"), "");
    assert_string_equal(say(1, "BRPOP other from 9"), "");
    assert_int_equal(server_next_us(place->server), begin_us + 5 * SECOND + 1000);
    assert_string_equal(say(2, "RPUSH from a b"), ":2|");
    assert_string_equal(heard(0), "$1|b|");
    assert_string_equal(heard(1), "*2|$4|from|$1|a|");
    assert_string_equal(say(1, "BRPOP from 2"), "");
    simulated_client_say(&place->clients[1], "LLEN to", place->now_us); /* is read when the wait is over */
    place->now_us += 2 * SECOND + 1000;
    assert_string_equal(heard(1), "");
    server_tick(place->server, place->now_us);
    assert_string_equal(heard(1), "*-1|:1|");
    assert_int_equal(server_next_us(place->server), INT64_MAX);
}

TEST(test_a_restart_keeps_what_its_disk_has)
{
    char first_run[64];
    snprintf(first_run, sizeof first_run, "%s", server_run_id(place->server));
    say(0, "SET a 1");
    say(0, "SET p 1 PX 3000");
    place->now_us += SECOND;
    say(0, "EVAL \"redis.call('INCR','a') redis.call('INCR','b')\" 0");
    server_restart(place->server, SERVER_KEEPS, place->now_us);
    assert_string_not_equal(server_run_id(place->server), first_run);
    clients_anew();
    assert_string_equal(say(0, "MGET a b p"), "*3|$1|2|$1|1|$1|1|");
    place->now_us += SECOND;
    say(0, "SET b 9");
    server_restart(place->server, SERVER_LOSES_LAST_SECOND, place->now_us);
    clients_anew();
    assert_string_equal(say(0, "MGET a b p"), "*3|$1|2|$1|1|$1|1|");
    server_restart(place->server, SERVER_LOSES_LAST_SECOND, place->now_us + 2 * SECOND);
    clients_anew();
    assert_string_equal(say(0, "MGET a b p"), "*3|$1|2|$1|1|$1|1|"); /* the clock was stepped back */
    place->now_us += 2 * SECOND;
    assert_string_equal(say(0, "MGET a b p"), "*3|$1|2|$1|1|$-1|");
    server_restart(place->server, SERVER_EMPTY, place->now_us);
    clients_anew();
    assert_string_equal(say(0, "DBSIZE"), ":0|");
}

TEST(test_a_failover_loses_what_the_replica_was_not_told)
{
    struct server *replica = server_create(&(struct server_options){.run_seed = "r", .now_us = begin_us});
    struct simulated_client client;
    say(0, "SET a 1");
    server_follow(replica, place->server, 50000, place->now_us);
    simulated_client_connect(&client, replica);
    say(0, "SET a 2");
    place->now_us += 30000;
    say(0, "SET a 3");
    assert_int_equal(server_next_us(place->server), begin_us + 50000);
    server_tick(place->server, begin_us + 50000);
    simulated_client_say(&client, "GET a", place->now_us);
    assert_string_equal(simulated_client_heard(&client), "$1|2|");
    simulated_client_say(&client, "SET a 4", place->now_us);
    assert_string_equal(simulated_client_heard(&client), "-READONLY You can't write against a read only replica.|");
    say(1, "BRPOP list 0");
    server_promote(replica, place->now_us);
    server_follow(place->server, replica, 1000, place->now_us);
    assert_string_equal(heard(1), "-UNBLOCKED force unblock from blocking operation, instance state changed "
                                  "(master -> replica?)|");
    assert_null(place->clients[1].connection);
    assert_string_equal(say(0, "GET a"), "$1|2|");
    simulated_client_say(&client, "ROLE", place->now_us);
    assert_string_equal(simulated_client_heard(&client), "*3|$6|master|:0|*1|*3|$9|127.0.0.1|$4|6379|$1|0|");
    simulated_client_end(&client);
    server_destroy(replica);
}

/* The next cursor; what the page has is noted in `seen`. */
static unsigned long long page_look(unsigned long long cursor, bool seen[100])
{
    char line[64];
    snprintf(line, sizeof line, "SSCAN set %llu COUNT 7", cursor);
    const char *page = say(0, line), *next = strchr(page, '|') + 1;
    next = strchr(next, '|') + 1; /* "*2|$1|0|*3|$2|m1|..." */
    for (const char *member = strstr(next, "|m"); member != NULL; member = strstr(member + 1, "|m"))
        seen[strtoul(member + 2, NULL, 10)] = true;
    return strtoull(next, NULL, 10);
}

TEST(test_a_scan_misses_nobody_who_was_there_all_the_time)
{
    char line[64];
    bool seen[100] = {false};
    for (unsigned i = 0; i < 60; i++) {
        snprintf(line, sizeof line, "SADD set m%u", i);
        say(0, line);
    }
    unsigned long long cursor = 0;
    for (unsigned i = 0; i == 0 || cursor != 0; i++) {
        cursor = page_look(cursor, seen);
        snprintf(line, sizeof line, "SREM set m%u m%u m%u", 3 * i, 3 * i + 30, 3 * i + 33);
        say(0, line);
        snprintf(line, sizeof line, "SADD set m%u", 60 + i);
        say(0, line);
    }
    for (unsigned i = 0; i < 60; i++)
        if (i % 3 != 0)
            assert_true(seen[i]);
}

struct told {
    char text[256];
};

static void observe(void *context, const struct server_event *event)
{
    struct told *told = context;
    size_t length = strlen(told->text);
    snprintf(told->text + length, sizeof told->text - length, "%s %s %.*s %d;", event->command,
             event->script != NULL ? event->script : "-", event->count > 0 ? (int)event->arguments[0].length : 0,
             event->count > 0 ? event->arguments[0].bytes : "", event->reply != NULL ? (int)event->reply->kind : -1);
}

TEST(test_an_observer_is_told_of_every_command_once)
{
    struct told told = {""};
    static const struct redis_script script = {
        .name = "two", .sha1 = "7f923f79fe76194c868d7e1d0820de36700eb649", .source = "return 2", .length = 8};
    const struct redis_script *scripts[] = {&script};
    server_name_scripts(scripts, 1);
    server_observe(place->server, observe, &told);
    say(0, "SCRIPT LOAD \"return 2\"");
    say(0, "EVALSHA 7f923f79fe76194c868d7e1d0820de36700eb649 1 k");
    say(0, "GET");
    say(0, "MULTI");
    say(0, "GET b");
    say(0, "EXEC");
    say(1, "BRPOP list 0");
    say(0, "LPUSH list x");
    char expected[256];
    snprintf(expected, sizeof expected,
             "script - LOAD %d;evalsha two k %d;multi -  %d;get - b %d;exec -  %d;brpop - list -1;lpush - list %d;"
             "brpop - list %d;",
             REPLY_BULK, REPLY_INTEGER, REPLY_STATUS, REPLY_NIL, REPLY_ARRAY, REPLY_INTEGER, REPLY_ARRAY);
    assert_string_equal(told.text, expected);
}

RUN_TESTS_BETWEEN(set_up, tear_down)
