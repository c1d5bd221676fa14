/* The simulated Redis server (tests/sim/server) answers as a real one: every line of the table goes to both, and the
 * answers are compared. A line "LUA ..." is a script with the keys a, b and the arguments 1, x. Of errors the first
 * word is compared, of scores with a fraction six decimals, because servers differ in how they write the rest. */
#include "tests/support/test.h"

#include <stdio.h>

#include "base/memory.h"
#include "tests/sim/server/redis_commands.h"
#include "tests/sim/server/script_host.h"
#include "tests/support/redis_server.h"

enum { LINES_MAX = 32, WORDS_MAX = 24, SCRIPTS = 40 };

struct scenario {
    const char *name;
    const char *lines[LINES_MAX];
};

static const struct scenario scenarios[] = {
    {"strings",
     {"GET a",
      "SET a 1",
      "GET a",
      "SET a 2 NX",
      "SET b 2 NX PX 100000",
      "GET b",
      "SET a 3 GET",
      "SET c 1 GET",
      "PTTL a",
      "PTTL missing",
      "SET a 1 PX 0",
      "SET a 1 PX x",
      "SET a 1 BOGUS",
      "EXISTS a b c d",
      "DEL a b d",
      "EXISTS a",
      "PEXPIRE c 100000",
      "PEXPIRE nothing 5",
      "PEXPIRE c 0",
      "EXISTS c",
      "EXPIRE c 10",
      "SET a 1 PX 100000",
      "SET a 2",
      "PTTL a"}},
    {"types",
     {"TYPE a", "SET a 1",  "TYPE a",      "LLEN a",        "HGET a f", "ZCARD a",       "SADD a m", "LPUSH b 1",
      "TYPE b", "GET b",    "SET b 1 GET", "SET b 1",       "GET b",    "HSET h f v",    "TYPE h",   "ZADD z 1 m",
      "TYPE z", "SADD s m", "TYPE s",      "SISMEMBER z m", "RPOP h",   "SMISMEMBER a m"}},
    {"lists", {"LLEN a",        "RPOP a",          "RPOP a 2",    "LPOP a",        "LPUSH a 1 2 3", "RPUSH a 0",
               "LRANGE a 0 -1", "RPOP a",          "RPOP a 2",    "LRANGE a -1 5", "RPOP a 0",      "RPOP a 9",
               "EXISTS a",      "RPUSH a x y x z", "LREM a -1 x", "LRANGE a 0 -1", "LREM a -1 q",   "LPOP a",
               "LPOP a",        "LRANGE a 1 0",    "LPOP a",      "EXISTS a"}},
    {"hashes",
     {"HGET a f", "HSET a f 1 g 2", "HSET a f 3 h 4", "HGET a f",     "HMGET a f x g", "HMGET none f g", "HKEYS a",
      "HLEN a",   "HSTRLEN a f",    "HSTRLEN a x",    "HEXISTS a f",  "HEXISTS a x",   "HGETALL a",      "HDEL a f x",
      "HKEYS a",  "HSET a f 9",     "HKEYS a",        "HDEL a f g h", "EXISTS a",      "HSET a f",       "HSET a"}},
    {"sets",
     {"SADD s a b a", "SADD s a", "SISMEMBER s a", "SISMEMBER s c", "SMISMEMBER s a c b", "SMISMEMBER none a",
      "SREM s a c", "SISMEMBER s a", "SREM s b", "EXISTS s"}},
    {"sorted sets",
     {"ZADD z 2 b 1 a",
      "ZADD z 1 b",
      "ZRANGE z 0 -1 WITHSCORES",
      "ZADD z NX 9 b 3 c",
      "ZRANGE z 0 -1 WITHSCORES",
      "ZSCORE z b",
      "ZSCORE z x",
      "ZSCORE none x",
      "ZCARD z",
      "ZCARD none",
      "ZADD z 1700000000.123456 d",
      "ZSCORE z d",
      "ZRANGEBYSCORE z 1700000000.123456 1700000000.123456",
      "ZRANGEBYSCORE z (1 +inf",
      "ZRANGEBYSCORE z -inf (3 WITHSCORES",
      "ZRANGEBYSCORE z -inf +inf LIMIT 1 2",
      "ZRANGEBYSCORE z -inf +inf LIMIT 9 2",
      "ZRANGEBYSCORE z 5 4",
      "ZRANGE z -1 -1",
      "ZRANGE z 1 9",
      "ZRANGE z 3 1",
      "ZRANGE none 0 -1",
      "ZADD z x m"}},
    {"ends of sorted sets",
     {"ZADD z 1 a 1 b 2 c 3 d",
      "ZCOUNT z 1 2",
      "ZCOUNT z (1 (3",
      "ZCOUNT z x 2",
      "ZREM z a x",
      "ZREM none a",
      "ZREMRANGEBYSCORE z -inf (2",
      "ZRANGE z 0 -1",
      "ZREMRANGEBYRANK z 0 -2",
      "ZRANGE z 0 -1",
      "ZREMRANGEBYRANK z 0 -100",
      "ZREMRANGEBYRANK z 0 -1",
      "EXISTS z",
      "ZADD z NX 1 a",
      "ZADD z 1",
      "ZADD z 1 a 2",
      "ZRANGE z 0 x",
      "ZADD t 2 ab 2 a 2 b",
      "ZRANGE t 0 -1",
      "ZRANGEBYSCORE t 2 2 LIMIT 0 -1"}},
    {"scripts: values",
     {"LUA return {1,2.9,'x',false,3}", "LUA return {1,nil,3}", "LUA return true", "LUA return false", "LUA return nil",
      "LUA return {ok='fine'}", "LUA return {err='ERR bad'}", "LUA return redis.error_reply('ODD thing')",
      "LUA return 2^53", "LUA return -3.7", "LUA return {KEYS[1],KEYS[2],ARGV[1],ARGV[2],#KEYS,#ARGV}",
      "LUA return {{1,{2}},'x'}", "LUA return tostring(redis.call('GET','none'))",
      "LUA return type(redis.call('SET','a','1'))", "LUA return redis.call('SET','a','1').ok",
      "LUA return redis.sha1hex('abc')", "LUA return {}"}},
    {"scripts: numbers and errors",
     {"LUA redis.call('SET','a',1) return redis.call('GET','a')",
      "LUA redis.call('SET','a',0.1) return redis.call('GET','a')",
      "LUA redis.call('SET','a',1e15+0.5) return redis.call('GET','a')",
      "LUA return string.format('%.6f %.0f %d',1700000000.1234567,1.7e15,3)",
      "LUA redis.call('ZADD','z',string.format('%.6f',1700000000.5),'m') return redis.call('ZSCORE','z','m')",
      "LUA redis.call('SET','s','v') return redis.pcall('LLEN','s').err ~= nil",
      "LUA return redis.call('LLEN','s')",
      "LUA return type(redis.pcall('LLEN','none'))",
      "LUA local r = redis.pcall('RPOP','none',3) return tostring(r)",
      "LUA return redis.call('GET')",
      "LUA return redis.pcall('GET').err ~= nil",
      "LUA redis.call('SET','kept','1') redis.call('LLEN','s')",
      "GET kept",
      "LUA return redis.call('TYPE','s').ok",
      "LUA return #redis.call('TIME')",
      "LUA return type(redis.call('TIME')[1])",
      "LUA return redis.call('PTTL','none')",
      "LUA redis.call('SET','p','1','PX',5000) return redis.call('PTTL','p') > 4000",
      "LUA return redis.call('PUBSUB','NUMSUB','c')",
      "LUA return string.match(redis.call('INFO','server'),'run_id:%x+') ~= nil",
      "LUA return redis.call('GET',{})",
      "LUA return 1 + nil"}},
};

static struct redis_server *server;

/* --- the model ------------------------------------------------------------------------------------------------ */

struct model {
    struct script_host *host;
    struct keyspace space;
    struct redis_script scripts[SCRIPTS];
    unsigned script_count;
};

static size_t words_split(struct replies *replies, const char *line, struct text words[WORDS_MAX])
{
    size_t count = 0;
    for (const char *at = line; *at != '\0' && count < WORDS_MAX;) {
        size_t length = strcspn(at, " ");
        words[count++] = replies_text(replies, (struct text){at, length});
        at += length + (at[length] == ' ');
    }
    return count;
}

static struct reply *model_answer(struct model *model, struct replies *replies, const char *line)
{
    struct text words[WORDS_MAX];
    if (strncmp(line, "LUA ", 4) != 0)
        return redis_execute(&model->space, replies, words, words_split(replies, line, words));
    assert_true(model->script_count < SCRIPTS);
    struct redis_script *script = &model->scripts[model->script_count++];
    *script = (struct redis_script){.name = "case", .source = line + 4, .length = strlen(line + 4)};
    const struct text arguments[] = {text_of("a"), text_of("b"), text_of("1"), text_of("x")};
    return script_run_alone(model->host, &model->space, replies, script, arguments, 2, 4);
}

static void reply_print(const struct reply *reply, struct buffer *out)
{
    switch (reply->kind) {
    case REPLY_NIL:
    case REPLY_NIL_ARRAY:
        buffer_append_text(out, "(nil)");
        break;
    case REPLY_INTEGER:
        buffer_format(out, "%lld", reply->integer);
        break;
    case REPLY_ERROR:
        buffer_append_text(out, "-");
        buffer_append(out, reply->text.bytes, reply->text.length);
        break;
    case REPLY_BULK:
    case REPLY_STATUS:
        buffer_append(out, reply->text.bytes, reply->text.length);
        break;
    case REPLY_ARRAY:
    case REPLY_SEVERAL:
        for (size_t i = 0; i < reply->count; i++) {
            if (i > 0)
                buffer_append_text(out, "\n");
            reply_print(reply->items[i], out);
        }
        break;
    }
}

/* --- both ------------------------------------------------------------------------------------------------------ */

/* Errors by their first word. Numbers by six decimals: a script's 0.1 is written with 17 digits by Redis 7, as 0.1 by
 * Redis 8 and Valkey. */
static char *answer_normalised(const char *answer)
{
    struct buffer text = {0};
    if (answer[0] == '-' && answer[1] >= 'A' && answer[1] <= 'Z')
        buffer_append(&text, answer, strcspn(answer, " \n"));
    else if (strchr(answer, '.') != NULL && strspn(answer, "0123456789.") == strlen(answer))
        buffer_format(&text, "%.6f", strtod(answer, NULL));
    else
        buffer_append_text(&text, answer);
    char *copy = memory_text(buffer_text(&text));
    buffer_fini(&text);
    return copy;
}

static char *live_answer(const char *line)
{
    if (strncmp(line, "LUA ", 4) == 0)
        return redis_server_command(server, "EVAL \"%s\" 2 a b 1 x", line + 4);
    return redis_server_command(server, "%s", line);
}

static void line_compare(struct model *model, const char *scenario, const char *line)
{
    struct replies replies = {0};
    struct buffer text = {0};
    reply_print(model_answer(model, &replies, line), &text);
    char *said = live_answer(line), *live = answer_normalised(said);
    char *ours = answer_normalised(buffer_text(&text));
    if (strcmp(ours, live) != 0)
        fail_msg("%s: %s\nserver: %s\nmodel:  %s", scenario, line, live, ours);
    free(ours);
    free(live);
    free(said);
    buffer_fini(&text);
    replies_fini(&replies);
}

static void test_the_model_answers_as_a_server_does(void **state)
{
    (void)state;
    struct model *model = memory_new(struct model);
    model->host = script_host_create();
    keyspace_init(&model->space, INT64_C(1700000000000000));
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++) {
        free(redis_server_command(server, "FLUSHALL"));
        keyspace_clear(&model->space);
        for (unsigned line = 0; line < LINES_MAX && scenarios[i].lines[line] != NULL; line++)
            line_compare(model, scenarios[i].name, scenarios[i].lines[line]);
    }
    keyspace_clear(&model->space);
    script_host_destroy(model->host);
    free(model);
}

static struct reply *say(struct keyspace *space, struct replies *replies, const char *line)
{
    struct text words[WORDS_MAX];
    return redis_execute(space, replies, words, words_split(replies, line, words));
}

/* A server lets a key go after its millisecond, never before it. */
static void test_keys_expire_by_the_models_own_clock(void **state)
{
    (void)state;
    struct keyspace space;
    struct replies replies = {0};
    keyspace_init(&space, 5000);
    say(&space, &replies, "SET a 1 PX 10");
    space.now_us = 14999;
    assert_int_equal(say(&space, &replies, "EXISTS a")->integer, 1);
    space.now_us = 15000;
    assert_int_equal(say(&space, &replies, "PTTL a")->integer, 0);
    space.now_us = 16000;
    assert_int_equal(say(&space, &replies, "EXISTS a")->integer, 0);
    assert_int_equal(say(&space, &replies, "PTTL a")->integer, -2);
    keyspace_clear(&space);
    replies_fini(&replies);
}

static int set_up(void **state)
{
    (void)state;
    server = redis_server_start(NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    redis_server_destroy(server);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_model_answers_as_a_server_does),
        cmocka_unit_test(test_keys_expire_by_the_models_own_clock),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
