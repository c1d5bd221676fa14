/* The Redis sink: the two scripts as they are installed, at a real server. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/crowd.h"
#include "tests/support/one_server.h"

static char advance_sha[41], write_sha[41];

/* Loads a script from its file, as a user would. */
static void script_load(const char *path, char sha[41])
{
    static char text[8192], quoted[2 * sizeof text];
    size_t out = 0;
    FILE *stream = fopen(path, "r");
    assert_non_null(stream);
    size_t length = fread(text, 1, sizeof text, stream);
    fclose(stream);
    assert_true(length > 0 && length < sizeof text);
    for (size_t i = 0; i < length; i++) {
        if (strchr("\\\"\n", text[i]) != NULL)
            quoted[out++] = '\\';
        quoted[out++] = text[i] == '\n' ? 'n' : text[i];
    }
    quoted[out] = '\0';
    char *reply = redis_server_command(server, "SCRIPT LOAD \"%s\"", quoted);
    if (strlen(reply) != 40)
        fail_msg("%s: %s", path, reply);
    memcpy(sha, reply, 41);
    free(reply);
}

static int set_up(void **state)
{
    one_server_set_up(state);
    script_load("jobs/fence/advance.lua", advance_sha);
    script_load("jobs/fence/write.lua", write_sha);
    return 0;
}

static int enter(void **state)
{
    (void)state;
    redis_server_heal(server);
    return 0;
}

#define assert_reply(expected, ...)                                                                                    \
    do {                                                                                                               \
        char *reply_text = redis_server_command(server, __VA_ARGS__);                                                  \
        assert_string_equal(reply_text, expected);                                                                     \
        free(reply_text);                                                                                              \
    } while (0)

#define assert_advance(expected, token, key) assert_reply(expected, "EVALSHA %s 1 %s %s", advance_sha, key, token)

/* One fence and one value. */
#define assert_write(expected, token, jid, value)                                                                      \
    assert_reply(expected, "EVALSHA %s 3 done:%s fence:{a} value:{a} %s 1 0 %s", write_sha, jid, token, value)

/* --- who is refused ----------------------------------------------------------------------------------------- */

TEST(the_same_holder_may_come_again_and_later_ones_too)
{
    assert_advance("ACCEPTED", "9", "fence:{a}");
    assert_advance("ACCEPTED", "9", "fence:{a}");
    assert_advance("ACCEPTED", "10", "fence:{a}"); /* a number, not a text */
    assert_advance("STALE\nfence:{a}\n10", "9", "fence:{a}");
    assert_write("ACCEPTED", "10", "a", "ten");
    assert_write("ACCEPTED", "10", "b", "again");
    assert_write("STALE\nfence:{a}\n10", "9", "c", "nine");
    assert_reply("again", "GET value:{a}");
    assert_advance("ACCEPTED", "9007199254740991", "fence:{a}");
    assert_advance("STALE\nfence:{a}\n9007199254740991", "9007199254740990", "fence:{a}");
    assert_reply("-1", "TTL fence:{a}");
}

TEST(a_stale_writer_is_refused_before_the_new_holder_has_written)
{
    assert_advance("ACCEPTED", "1", "fence:{a}");
    assert_advance("ACCEPTED", "2", "fence:{a}"); /* reads, and works on it */
    assert_write("STALE\nfence:{a}\n2", "1", "old", "overwritten");
    assert_reply("0", "EXISTS value:{a} done:old");
    assert_write("ACCEPTED", "2", "new", "right");
    assert_reply("right", "GET value:{a}");
}

TEST(a_stale_writer_is_refused_after_the_new_holder_has_written)
{
    assert_advance("ACCEPTED", "1", "fence:{a}");
    assert_write("ACCEPTED", "2", "new", "right"); /* writing advances too */
    assert_write("STALE\nfence:{a}\n2", "1", "old", "overwritten");
    assert_reply("right", "GET value:{a}");
    assert_reply("0", "EXISTS done:old");
}

TEST(of_several_resources_all_advance_or_none)
{
    assert_advance("ACCEPTED", "5", "fence:b");
    assert_reply("STALE\nfence:b\n5", "EVALSHA %s 2 fence:a fence:b 3", advance_sha);
    assert_reply("0", "EXISTS fence:a");
    assert_reply("STALE\nfence:b\n5", "EVALSHA %s 5 done:x fence:a fence:b value:a value:b 3 2 0 1 2", write_sha);
    assert_reply("0", "EXISTS fence:a done:x value:a value:b");
    assert_reply("ACCEPTED", "EVALSHA %s 2 fence:a fence:b 6", advance_sha);
    assert_reply("ACCEPTED", "EVALSHA %s 5 done:x fence:a fence:b value:a value:b 7 2 0 one two", write_sha);
    assert_reply("7\n7\none\ntwo\n7", "MGET fence:a fence:b value:a value:b done:x");
}

/* --- repeats ------------------------------------------------------------------------------------------------ */

TEST(a_task_counts_once)
{
    assert_write("ACCEPTED", "1", "jid", "first");
    assert_write("REPEAT\n1", "1", "jid", "second"); /* the reply was lost */
    assert_write("REPEAT\n1", "2", "jid", "third");  /* it runs again, under a newer token */
    assert_reply("first", "GET value:{a}");
    assert_advance("ACCEPTED", "3", "fence:{a}");
    assert_write("REPEAT\n1", "1", "jid", "fourth"); /* the reply was lost, and the lock too */
    assert_reply("-1", "TTL done:jid");
}

TEST(an_id_is_kept_as_long_as_it_says)
{
    assert_reply("ACCEPTED", "EVALSHA %s 3 done:jid fence value 1 1 100000000 x", write_sha);
    char *left = redis_server_command(server, "PTTL done:jid");
    assert_true(strtol(left, NULL, 10) > 99000000 && strtol(left, NULL, 10) <= 100000000);
    free(left);
    assert_reply("ACCEPTED", "EVALSHA %s 3 done:soon fence value 1 1 1e0 x", write_sha); /* one millisecond */
    char *reply = NULL;
    test_await((free(reply), reply = redis_server_command(server, "EXISTS done:soon"), strcmp(reply, "0") == 0));
    free(reply);
    assert_reply("1", "EXISTS fence");
}

/* --- what goes wrong ---------------------------------------------------------------------------------------- */

TEST(senseless_calls_change_nothing)
{
    static const char *const tokens[] = {"\"\"", "0", "01", "-1", "1.0", "1e3", "0x10", "x", "9007199254740992"};
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
        char *reply = redis_server_command(server, "EVALSHA %s 1 fence %s", advance_sha, tokens[i]);
        assert_contains(reply, "-ERR not a token");
        free(reply);
        reply = redis_server_command(server, "EVALSHA %s 3 done fence value %s 1 0 x", write_sha, tokens[i]);
        assert_contains(reply, "-ERR not a token");
        free(reply);
    }
    static const char *const calls[] = {
        "3 done fence value 1 1 0",
        "3 done fence value 1 1 0 x y",
        "3 done fence value 1 0 0 x y",
        "3 done fence value 1 3 0",
        "3 done fence value 1 1.5 0 x",
        "3 done fence value 1 many 0 x",
        "3 done fence value 1 1 -1 x",
        "3 done fence value 1 1 x x",
        "3 done fence value 1 -1 0 x y z",
        "3 done fence value 1 1 0.5 x",
        "1 done 1 1 0",
        "3 done fence value 1",
    };
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        char *reply = redis_server_command(server, "EVALSHA %s %s", write_sha, calls[i]);
        if (strstr(reply, "-ERR keys, fences and values do not go together") == NULL)
            fail_msg("%s: %s", calls[i], reply);
        free(reply);
    }
    assert_reply("0", "DBSIZE");
}

TEST(nonsense_in_a_fence_lets_nobody_in)
{
    assert_reply("OK", "SET fence:{a} many");
    assert_advance("-ERR the fence fence:{a} holds no token", "5", "fence:{a}");
    assert_write("-ERR the fence fence:{a} holds no token", "5", "jid", "x");
    assert_reply("1", "DEL fence:{a}");
    assert_reply("1", "LPUSH fence:{a} 1");
    char *reply = redis_server_command(server, "EVALSHA %s 3 done:jid fence:{a} value:{a} 5 1 0 x", write_sha);
    assert_contains(reply, "WRONGTYPE");
    free(reply);
    assert_reply("0", "EXISTS done:jid value:{a}");
}

TEST(a_refused_first_command_leaves_nothing)
{
    /* A time to live that no server takes: the first SET fails. */
    char *reply = redis_server_command(server, "EVALSHA %s 3 done fence value 1 1 1e19 x", write_sha);
    assert_contains(reply, "-ERR");
    free(reply);
    assert_reply("0", "DBSIZE");
    assert_reply("OK", "CONFIG SET maxmemory 1");
    reply = redis_server_command(server, "EVALSHA %s 3 done fence value 1 1 0 x", write_sha);
    assert_contains(reply, "OOM");
    free(reply);
    assert_reply("0", "DBSIZE");
}

/* --- many at once ------------------------------------------------------------------------------------------- */

enum { PROCESSES = 5, ROUNDS = 50 };

/* Reads, thinks, writes what it made of what it read. What it makes is a list of the tokens. */
static void member(struct crowd *crowd, void *context, unsigned *seed)
{
    (void)context;
    for (int i = 0; i < ROUNDS; i++) {
        char token[24];
        crowd_token(crowd, token);
        crowd_pause(seed); /* so that the larger token may be there first */
        char *reply = redis_server_command(server, "EVALSHA %s 1 fence %s", advance_sha, token);
        if (strcmp(reply, "ACCEPTED") == 0) {
            char *list = redis_server_command(server, "GET list");
            crowd_pause(seed);
            free(reply);
            reply = redis_server_command(server, "EVALSHA %s 3 done:%s fence list %s 1 0 %s%s,", write_sha, token,
                                         token, list[0] == '(' ? "" : list, token);
            free(list);
        }
        atomic_fetch_add(strcmp(reply, "ACCEPTED") == 0      ? &crowd->accepted
                         : strncmp(reply, "STALE\n", 6) == 0 ? &crowd->refused
                                                             : &crowd->failed,
                         1);
        free(reply);
    }
}

TEST(many_at_once_lose_nothing)
{
    struct crowd *crowd = crowd_run(PROCESSES, member, NULL);
    char *list = redis_server_command(server, "GET list"), *rest = NULL;
    int64_t entries = 0;
    long last = 0;
    for (char *entry = strtok_r(list, ",", &rest); entry != NULL; entry = strtok_r(NULL, ",", &rest), entries++) {
        assert_true(strtol(entry, NULL, 10) > last); /* tokens only rise */
        last = strtol(entry, NULL, 10);
    }
    free(list);
    assert_int_equal(crowd->failed, 0);
    assert_int_equal(crowd->accepted + crowd->refused, PROCESSES * ROUNDS);
    assert_true(crowd->accepted > 0);
    assert_int_equal(entries, crowd->accepted);
    crowd_destroy(crowd);
}

RUN_GROUP(set_up, one_server_tear_down, enter, NULL)
