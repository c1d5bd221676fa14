/* The simulated node of tests/sim answers and changes its keys exactly as a live server does with the real scripts:
 * one table of cases, each played on both. Otherwise the simulation would prove something about another lock. */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redlock/scripts.h"
#include "tests/sim/node_model.h"
#include "tests/support/node_probe.h"
#include "tests/support/redis_server.h"

enum { KEYS = 3, OPERATIONS_MAX = 8, PAIRS_MAX = 4, TEXT_MAX = 64 };
enum { SHORT_MS = 100000, LONG_MS = 900000, SLACK_MS = 60000 };

enum operation_kind {
    END,
    SET,      /* the grant of one key: SET key value NX GET PX ttl */
    GRANT,    /* the script, for a set of keys */
    EXTEND,   /* the script, for pairs of key and value */
    RELEASE,  /* the script, for pairs of key and value */
    EXPIRE,   /* the key's time is over */
    PUT,      /* by somebody else: a string without a time to live */
    PUT_HASH, /* by somebody else: another type */
};

struct pair {
    unsigned key, value;
};

struct operation {
    enum operation_kind kind;
    struct pair pairs[PAIRS_MAX]; /* up to the first whose value is 0; a grant has one value for all its keys */
    int64_t ttl_ms;
    const char *answer; /* what both say; NULL: nothing to say */
};

struct test_case {
    const char *name;
    struct operation operations[OPERATIONS_MAX];
};

/* clang-format off */
static const struct test_case cases[] = {
    {"a free key is granted once", {
        {SET, {{0, 1}}, SHORT_MS, "granted"},
        {SET, {{0, 2}}, LONG_MS, "v1"},
        {SET, {{0, 1}}, LONG_MS, "v1"}, /* our own value refuses as well: a pass needs a fresh one (E4) */
        {SET, {{1, 2}}, LONG_MS, "granted"}}},
    {"an expired key is granted again", {
        {SET, {{0, 1}}, SHORT_MS, "granted"},
        {EXPIRE, {{0, 1}}, 0, NULL},
        {SET, {{0, 2}}, SHORT_MS, "granted"}}},
    {"several keys are granted all or none", {
        {SET, {{1, 1}}, SHORT_MS, "granted"},
        {GRANT, {{0, 2}, {1, 2}, {2, 2}}, SHORT_MS, "v1"},
        {GRANT, {{0, 3}, {2, 3}}, LONG_MS, "granted"},
        {RELEASE, {{1, 1}}, 0, "1"},
        {GRANT, {{0, 4}, {1, 4}}, SHORT_MS, "v3"},
        {GRANT, {{1, 4}}, SHORT_MS, "granted"}}},
    {"the first key that is taken is told", {
        {SET, {{2, 1}}, SHORT_MS, "granted"},
        {SET, {{1, 2}}, SHORT_MS, "granted"},
        {GRANT, {{0, 3}, {1, 3}, {2, 3}}, SHORT_MS, "v2"},
        {GRANT, {{0, 3}, {2, 3}}, SHORT_MS, "v1"}}},
    {"an expired key does not refuse several", {
        {SET, {{1, 1}}, SHORT_MS, "granted"},
        {EXPIRE, {{1, 1}}, 0, NULL},
        {GRANT, {{0, 2}, {1, 2}}, SHORT_MS, "granted"}}},
    {"an extension sets the whole ttl anew", {
        {SET, {{0, 1}}, SHORT_MS, "granted"},
        {EXTEND, {{0, 1}}, LONG_MS, "1"},
        {EXTEND, {{0, 1}}, SHORT_MS, "1"}}},
    {"an extension compares and never plants (E25)", {
        {EXTEND, {{0, 1}}, LONG_MS, "0"},
        {SET, {{0, 1}}, SHORT_MS, "granted"},
        {EXTEND, {{0, 2}}, LONG_MS, "0"},
        {EXPIRE, {{0, 1}}, 0, NULL},
        {EXTEND, {{0, 1}}, LONG_MS, "0"}}},
    {"extensions of several locks are independent", {
        {SET, {{0, 1}}, SHORT_MS, "granted"},
        {SET, {{2, 3}}, SHORT_MS, "granted"},
        {EXTEND, {{0, 1}, {1, 2}, {2, 9}}, LONG_MS, "100"},
        {EXTEND, {{2, 3}, {0, 1}}, LONG_MS, "11"}}},
    {"a release compares (E39)", {
        {RELEASE, {{0, 1}}, 0, "0"},
        {SET, {{0, 1}}, SHORT_MS, "granted"},
        {RELEASE, {{0, 2}}, 0, "2"},
        {RELEASE, {{0, 1}}, 0, "1"},
        {RELEASE, {{0, 1}}, 0, "0"}}},
    {"a release finds an expired key gone", {
        {SET, {{0, 1}}, SHORT_MS, "granted"},
        {EXPIRE, {{0, 1}}, 0, NULL},
        {RELEASE, {{0, 1}}, 0, "0"}}},
    {"releases of several locks are independent", {
        {GRANT, {{0, 1}, {1, 1}}, SHORT_MS, "granted"},
        {SET, {{2, 2}}, SHORT_MS, "granted"},
        {RELEASE, {{0, 1}, {2, 1}, {1, 1}}, 0, "121"},
        {RELEASE, {{0, 1}, {2, 2}}, 0, "01"}}},
    {"the same pair twice in one call is decided in order", {
        {SET, {{0, 1}}, SHORT_MS, "granted"},
        {RELEASE, {{0, 1}, {0, 1}}, 0, "10"}}},
    {"a name clash with a string refuses and survives (E22)", {
        {PUT, {{0, 7}}, 0, NULL},
        {SET, {{0, 1}}, SHORT_MS, "v7"},
        {GRANT, {{0, 1}, {1, 1}}, SHORT_MS, "v7"},
        {EXTEND, {{0, 1}}, SHORT_MS, "0"},
        {RELEASE, {{0, 1}}, 0, "2"}}},
    {"a name clash with another type refuses and survives (E22)", {
        {PUT_HASH, {{0, 1}}, 0, NULL},
        {SET, {{0, 1}}, SHORT_MS, "other type"},
        {GRANT, {{0, 1}, {1, 1}}, SHORT_MS, "other type"},
        {EXTEND, {{0, 1}, {0, 2}}, SHORT_MS, "00"},
        {RELEASE, {{0, 1}}, 0, "2"}}},
};
/* clang-format on */

static unsigned pair_count(const struct operation *operation)
{
    unsigned count = 0;
    while (count < PAIRS_MAX && operation->pairs[count].value != 0)
        count++;
    return count;
}

/* --- the model ------------------------------------------------------------------------------------------------- */

/* The model's clock stands still: only EXPIRE lets time pass, for one key. */
#define CLOCK_MS INT64_C(5000000)

static const char *model_grant(struct node_model *model, const struct operation *operation, char *text)
{
    unsigned keys = 0;
    for (unsigned i = 0; i < pair_count(operation); i++)
        keys |= 1u << operation->pairs[i].key;
    uint32_t found = node_model_grant(model, keys, operation->pairs[0].value, operation->ttl_ms, CLOCK_MS);
    if (found == MODEL_NO_VALUE)
        return "granted";
    if (found == MODEL_OTHER_TYPE)
        return "other type";
    snprintf(text, TEXT_MAX, "v%u", found);
    return text;
}

static const char *model_batch(struct node_model *model, const struct operation *operation, char *text)
{
    unsigned count = pair_count(operation);
    for (unsigned i = 0; i < count; i++) {
        struct pair pair = operation->pairs[i];
        text[i] = operation->kind == EXTEND
                      ? node_model_extend(model, pair.key, pair.value, operation->ttl_ms, CLOCK_MS)
                      : node_model_release(model, pair.key, pair.value, CLOCK_MS);
    }
    text[count] = '\0';
    return text;
}

static const char *model_play(struct node_model *model, const struct operation *operation, char *text)
{
    struct pair pair = operation->pairs[0];
    switch (operation->kind) {
    case SET:
    case GRANT:
        return model_grant(model, operation, text);
    case EXTEND:
    case RELEASE:
        return model_batch(model, operation, text);
    case EXPIRE:
        node_model_put(model, pair.key, pair.value, CLOCK_MS);
        return NULL;
    case PUT:
        node_model_put(model, pair.key, pair.value, MODEL_NEVER_MS);
        return NULL;
    case PUT_HASH:
        node_model_put(model, pair.key, MODEL_OTHER_TYPE, MODEL_NEVER_MS);
        return NULL;
    case END:
        break;
    }
    return NULL;
}

/* --- the server ------------------------------------------------------------------------------------------------ */

static struct loop *loop;
static struct redis_server *server;
static struct node_probe node;

static void call(struct call_probe *probe, const char *command)
{
    *probe = (struct call_probe){.completions = 0};
    assert_true(call_probe_send(probe, &node, 10 * NS_PER_S, "%s", command));
    call_probe_wait(probe, loop);
    assert_int_not_equal(probe->outcome, REDIS_UNKNOWN);
}

static void append(char *command, const char *prefix, int64_t number)
{
    size_t length = strlen(command);
    snprintf(command + length, 512 - length, " %s%lld", prefix, (long long)number);
}

static const char *live_grant(const struct operation *operation, char *text)
{
    char command[512];
    if (operation->kind == SET) {
        snprintf(command, sizeof command, "SET r%u v%u NX GET PX %lld", operation->pairs[0].key,
                 operation->pairs[0].value, (long long)operation->ttl_ms);
    } else {
        snprintf(command, sizeof command, "EVALSHA %s %u", redlock_script_grant.sha1, pair_count(operation));
        for (unsigned i = 0; i < pair_count(operation); i++)
            append(command, "r", operation->pairs[i].key);
        append(command, "v", operation->pairs[0].value);
        append(command, "", operation->ttl_ms);
    }
    struct call_probe probe;
    call(&probe, command);
    if (probe.outcome == REDIS_ERROR && probe.error == REDIS_ERROR_WRONGTYPE)
        return "other type";
    assert_int_equal(probe.outcome, REDIS_VALUE);
    if (probe.kind == REDIS_NIL)
        return "granted";
    assert_int_equal(probe.kind, REDIS_STRING);
    snprintf(text, TEXT_MAX, "%.*s", TEXT_MAX - 1, probe.text);
    return text;
}

static const char *live_batch(const struct operation *operation, char *text)
{
    const struct redis_script *script = operation->kind == EXTEND ? &redlock_script_extend : &redlock_script_release;
    unsigned count = pair_count(operation);
    char command[512];
    snprintf(command, sizeof command, "EVALSHA %s %u", script->sha1, count);
    for (unsigned i = 0; i < count; i++)
        append(command, "r", operation->pairs[i].key);
    for (unsigned i = 0; i < count; i++)
        append(command, "v", operation->pairs[i].value);
    for (unsigned i = 0; i < count && operation->kind == EXTEND; i++)
        append(command, "", operation->ttl_ms);
    struct call_probe probe;
    call(&probe, command);
    assert_int_equal(probe.outcome, REDIS_VALUE);
    assert_int_equal(probe.kind, REDIS_STRING);
    snprintf(text, TEXT_MAX, "%.*s", TEXT_MAX - 1, probe.text);
    return text;
}

static int64_t live_integer(const char *command, unsigned key)
{
    char text[TEXT_MAX];
    snprintf(text, sizeof text, "%s r%u", command, key);
    struct call_probe probe;
    call(&probe, text);
    assert_int_equal(probe.outcome, REDIS_VALUE);
    return probe.integer;
}

static void live_change(const struct operation *operation)
{
    struct pair pair = operation->pairs[0];
    char command[TEXT_MAX];
    if (operation->kind == PUT)
        snprintf(command, sizeof command, "SET r%u v%u", pair.key, pair.value);
    else if (operation->kind == PUT_HASH)
        snprintf(command, sizeof command, "HSET r%u field value", pair.key);
    else
        snprintf(command, sizeof command, "PEXPIRE r%u 1", pair.key);
    struct call_probe probe;
    call(&probe, command);
    assert_int_equal(probe.outcome, REDIS_VALUE);
    if (operation->kind == EXPIRE)
        test_await(live_integer("EXISTS", pair.key) == 0);
}

static const char *live_play(const struct operation *operation, char *text)
{
    switch (operation->kind) {
    case SET:
    case GRANT:
        return live_grant(operation, text);
    case EXTEND:
    case RELEASE:
        return live_batch(operation, text);
    default:
        live_change(operation);
        return NULL;
    }
}

/* --- both ------------------------------------------------------------------------------------------------------ */

static void compare_key(const struct node_model *model, unsigned key, const char *name)
{
    uint32_t value = node_model_get(model, key, CLOCK_MS);
    int64_t expires = model->keys[key].expires_ms;
    int64_t left = value == MODEL_NO_VALUE ? -2 : expires == MODEL_NEVER_MS ? -1 : expires - CLOCK_MS;
    int64_t live = live_integer("PTTL", key);
    if (left < 0 ? live != left : live > left || live < left - SLACK_MS)
        fail_msg("%s: key %u lives %lld ms on the server, %lld in the model", name, key, (long long)live,
                 (long long)left);
    char command[TEXT_MAX], expected[TEXT_MAX];
    snprintf(command, sizeof command, "GET r%u", key);
    snprintf(expected, sizeof expected, "v%u", value);
    struct call_probe probe;
    call(&probe, command);
    if (value == MODEL_OTHER_TYPE)
        assert_int_equal(probe.error, REDIS_ERROR_WRONGTYPE);
    else if (value == MODEL_NO_VALUE)
        assert_int_equal(probe.kind, REDIS_NIL);
    else
        assert_string_equal(probe.text, expected);
}

static void compare_answers(const char *name, unsigned step, const char *expected, const char *model, const char *live)
{
    if (expected == NULL)
        return;
    if (strcmp(model, expected) != 0 || strcmp(live, expected) != 0)
        fail_msg("%s, step %u: should answer %s; model %s, server %s", name, step, expected, model, live);
}

static void play(const struct test_case *test)
{
    struct node_model model = {.clock_rate = MODEL_NORMAL_RATE};
    free(redis_server_command(server, "FLUSHALL"));
    for (unsigned i = 0; i < OPERATIONS_MAX && test->operations[i].kind != END; i++) {
        char of_model[TEXT_MAX] = "", of_server[TEXT_MAX] = "";
        const struct operation *operation = &test->operations[i];
        const char *model_says = model_play(&model, operation, of_model);
        const char *server_says = live_play(operation, of_server);
        compare_answers(test->name, i, operation->answer, model_says, server_says);
        for (unsigned key = 0; key < KEYS; key++)
            compare_key(&model, key, test->name);
    }
    assert_int_equal(model.trespasses, 0);
}

static void test_the_model_answers_as_a_server_does(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        play(&cases[i]);
}

/* The model lets a key go when its time is reached; a server does so then or a millisecond later, never before. */
static void test_a_server_keeps_a_key_for_its_whole_ttl(void **state)
{
    (void)state;
    enum { TTL_MS = 40 };
    for (unsigned i = 0; i < 5; i++) {
        struct call_probe probe;
        free(redis_server_command(server, "FLUSHALL"));
        struct instant before = instant_now();
        call(&probe, "SET r0 v1 PX 40");
        test_await(live_integer("EXISTS", 0) == 0);
        assert_true(instant_since(before, instant_now()) >= (TTL_MS - 1) * NS_PER_MS);
    }
}

static int set_up(void **state)
{
    (void)state;
    server = redis_server_start(NULL);
    loop = loop_create(NULL);
    node_probe_start(&node, loop,
                     &(struct redis_node_options){.name = "live",
                                                  .host = "127.0.0.1",
                                                  .port = redis_server_port(server),
                                                  .scripts = redlock_scripts,
                                                  .script_count = REDLOCK_SCRIPT_COUNT});
    node_probe_wait_up(&node);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    node_probe_stop(&node);
    loop_destroy(loop);
    redis_server_destroy(server);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_model_answers_as_a_server_does),
        cmocka_unit_test(test_a_server_keeps_a_key_for_its_whole_ttl),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
