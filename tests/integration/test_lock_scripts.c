/* What the scripts of lib/redlock answer on a live server: a table of cases. */
#include "tests/support/test.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redlock/marker.h"
#include "redlock/scripts.h"
#include "tests/integration/lock_script_cases.h"
#include "tests/support/node_probe.h"
#include "tests/support/redis_server.h"

/* --- what an operation says --------------------------------------------------------------------------------------- */

static unsigned pair_count(const struct operation *operation)
{
    unsigned count = 0;
    while (count < PAIRS_MAX && operation->pairs[count].value != 0)
        count++;
    return count;
}

static int64_t token_at(const struct operation *operation, int64_t now_us)
{
    return operation->token >= AHEAD(0) ? now_us + (operation->token - AHEAD(0)) * US_PER_S : operation->token;
}

static int64_t deadline_at(const struct operation *operation, int64_t now_us)
{
    return operation->late_s > 0 ? now_us - operation->late_s * US_PER_S : now_us + 3600 * US_PER_S;
}

static void text_add(char *text, const char *more)
{
    size_t length = strlen(text);
    snprintf(text + length, TEXT_MAX - length, "%s", more);
}

/* A token that is near the clock is told by its distance, to the second. */
static void token_tell(char *text, int64_t token, int64_t now_us)
{
    size_t length = strlen(text);
    if (token < INT64_C(1000000000000))
        snprintf(text + length, TEXT_MAX - length, "%lld", (long long)token);
    else
        snprintf(text + length, TEXT_MAX - length, "now%+lld", (long long)((token - now_us + US_PER_S / 2) / US_PER_S));
}

/* --- the server ------------------------------------------------------------------------------------------------ */

static struct redis_server *server;

/* The reply, as text, in `text`. */
static void call(char text[TEXT_MAX], const char *command)
{
    char *reply = redis_server_command(server, "%s", command);
    snprintf(text, TEXT_MAX, "%s", reply);
    free(reply);
}

static int64_t call_number(const char *command)
{
    char text[TEXT_MAX];
    call(text, command);
    return strtoll(text, NULL, 10);
}

static int64_t live_now_us(void)
{
    char text[TEXT_MAX], *end = NULL;
    call(text, "TIME");
    int64_t seconds = strtoll(text, &end, 10);
    return seconds * US_PER_S + strtoll(end, NULL, 10);
}

__attribute__((format(printf, 2, 3))) static void append(char *command, const char *format, ...)
{
    size_t length = strlen(command);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command + length, COMMAND_MAX - length, format, arguments);
    va_end(arguments);
}

static void append_marker(char *command, uint16_t marker)
{
    if (marker == 0)
        append(command, " -");
    else
        append(command, " m%u", marker);
}

static void append_keys(char *command, const struct operation *operation)
{
    for (unsigned i = 0; i < pair_count(operation); i++)
        append(command, " r%u", operation->pairs[i].key);
}

static void append_values(char *command, const struct operation *operation)
{
    for (unsigned i = 0; i < pair_count(operation); i++)
        append(command, " v%u", operation->pairs[i].value);
}

static void script_begin(char *command, const struct redis_script *script, const struct operation *operation)
{
    bool names_marker = script != &redlock_script_release;
    snprintf(command, COMMAND_MAX, "EVALSHA %s %u%s", script->sha1, pair_count(operation) + names_marker,
             names_marker ? " " MARKER_KEY : "");
    append_keys(command, operation);
    if (names_marker)
        append_marker(command, operation->marker);
}

/* Splits off a line of `text`; "" behind the last. */
static char *line_next(char **text)
{
    char *line = *text, *end = strchr(line, '\n');
    *text = end != NULL ? end + 1 : line + strlen(line);
    if (end != NULL)
        *end = '\0';
    return line;
}

/* "+TOKEN", "=TOKEN", "-PTTL:VALUE", "!PTTL", without what depends on time. */
static void live_grant_tell(char *text, const char *line, int64_t now_us)
{
    size_t length = strlen(text);
    const char *value = strchr(line, ':');
    if (line[0] == '+' || line[0] == '=') {
        snprintf(text + length, TEXT_MAX - length, "%c", line[0]);
        if (line[1] != '\0')
            token_tell(text, strtoll(line + 1, NULL, 10), now_us);
    } else if (line[0] == '-') {
        assert_non_null(value);
        snprintf(text + length, TEXT_MAX - length, "-%s", value + 1);
    } else {
        assert_int_equal(line[0], '!');
        snprintf(text + length, TEXT_MAX - length, "!");
    }
}

static void live_word_tell(char *text, const char *word, int64_t now_us, bool is_grant)
{
    text_add(text, text[0] != '\0' ? " " : "");
    if (is_grant || word[0] == '+')
        live_grant_tell(text, word, now_us);
    else
        text_add(text, word);
}

/* "TOKEN SIGNS", one sign a lock. */
static void live_signs_tell(char *text, char *rest, int64_t now_us)
{
    char *signs = strchr(rest, ' '), word[64];
    assert_non_null(signs);
    *signs++ = '\0';
    for (; *signs != '\0'; signs++) {
        snprintf(word, sizeof word, "%c%s", *signs, rest);
        live_word_tell(text, word, now_us, true);
    }
}

/* What follows the code and the time, which must be the node's. */
static const char *live_results(char *reply, char *text, int64_t now_us, const struct operation *operation)
{
    char *rest = NULL, *head = reply;
    (void)line_next(&reply);
    long long code = strtoll(head, &rest, 10);
    int64_t told_us = strtoll(rest, &rest, 10) * US_PER_S;
    told_us += strtoll(rest, &rest, 10);
    assert_true(told_us >= now_us && told_us < now_us + SLACK_MS * 1000);
    if (code != 0)
        return code == 1 ? "other marker" : "too late";
    if (operation->kind == GRANT && *rest != '\0')
        live_signs_tell(text, rest + 1, told_us);
    else if (*rest != '\0')
        live_word_tell(text, rest + 1, told_us, operation->kind == GRANT_ALL);
    while (*reply != '\0')
        live_word_tell(text, line_next(&reply), told_us, true);
    return text;
}

static const struct redis_script *script_of(const struct operation *operation)
{
    switch (operation->kind) {
    case GRANT:
        return operation->token != 0 ? &redlock_script_grant : &redlock_script_grant_unfenced;
    case GRANT_ALL:
        return operation->token != 0 ? &redlock_script_grant_all : &redlock_script_grant_all_unfenced;
    case RAISE:
        return &redlock_script_raise;
    case REPLANT:
        return &redlock_script_replant;
    case EXTEND:
        return &redlock_script_extend;
    default:
        return &redlock_script_release;
    }
}

static void append_grant(char *command, const struct operation *operation, int64_t now_us)
{
    append(command, " %lld %lld", (long long)deadline_at(operation, now_us), (long long)operation->ttl_ms);
    if (operation->token == 0)
        append(command, " \"\"");
    else
        append(command, " %lld", (long long)token_at(operation, now_us));
    if (operation->kind == GRANT)
        append_values(command, operation);
    else
        append(command, " v%u", operation->pairs[0].value);
    unsigned old_count = operation->old == 0 ? 0 : operation->kind == GRANT ? pair_count(operation) : 1;
    for (unsigned i = 0; i < old_count; i++)
        append(command, " v%u", operation->old);
}

static const char *live_script(const struct operation *operation, char *text)
{
    char command[COMMAND_MAX], reply[TEXT_MAX];
    int64_t now_us = live_now_us();
    script_begin(command, script_of(operation), operation);
    if (operation->kind == GRANT || operation->kind == GRANT_ALL)
        append_grant(command, operation, now_us);
    if (operation->kind == REPLANT)
        append(command, " %lld", (long long)deadline_at(operation, now_us));
    if (operation->kind == RAISE || operation->kind == REPLANT)
        append(command, " v%u %lld %lld", operation->pairs[0].value, (long long)token_at(operation, now_us),
               (long long)operation->ttl_ms);
    if (operation->kind == EXTEND || operation->kind == RELEASE)
        append_values(command, operation);
    for (unsigned i = 0; i < pair_count(operation) && operation->kind == EXTEND; i++)
        append(command, " %lld", (long long)operation->ttl_ms);
    call(reply, command);
    if (operation->kind == RELEASE) {
        snprintf(text, TEXT_MAX, "%s", reply);
        return text;
    }
    return live_results(reply, text, now_us, operation);
}

static const char *live_mark(const struct operation *operation)
{
    char command[COMMAND_MAX], reply[TEXT_MAX];
    snprintf(command, sizeof command, "EVALSHA %s 1 " MARKER_KEY, redlock_script_mark.sha1);
    if (operation->marker == 0)
        append(command, " \"\"");
    else
        append_marker(command, operation->marker);
    append_marker(command, (uint16_t)operation->token);
    append(command, " ''");
    call(reply, command);
    return reply[0] == '1' ? "1" : "0";
}

static const char *live_inspect(char *text)
{
    char command[COMMAND_MAX], reply[TEXT_MAX], *at = reply;
    snprintf(command, sizeof command, "EVALSHA %s 1 " MARKER_KEY, redlock_script_inspect.sha1);
    call(reply, command);
    const char *marker = line_next(&at);
    const char *run = line_next(&at);
    assert_int_equal(strlen(run), MARKER_RUN_DIGITS);
    assert_string_equal(line_next(&at), run);
    assert_string_equal(line_next(&at), "0");
    snprintf(text, TEXT_MAX, "%s", marker[0] == '\0' ? "none" : marker);
    return text;
}

static void live_change(const struct operation *operation)
{
    struct pair pair = operation->pairs[0];
    char command[COMMAND_MAX], reply[TEXT_MAX];
    if (operation->kind == PUT)
        snprintf(command, sizeof command, "SET r%u v%u", pair.key, pair.value);
    else if (operation->kind == PUT_HASH)
        snprintf(command, sizeof command, "HSET r%u field value", pair.key);
    else if (operation->kind == PUT_MARKER)
        snprintf(command, sizeof command, "SET " MARKER_KEY " m%lld", (long long)operation->token);
    else if (operation->kind == PUT_HASH_AS_MARKER)
        snprintf(command, sizeof command,
                 "EVAL \"redis.call('DEL',KEYS[1]) redis.call('HSET',KEYS[1],'a','b')\" 1 " MARKER_KEY);
    else if (operation->kind == DROP_FENCE)
        snprintf(command, sizeof command, "ZREM hf:fences r%u", pair.key);
    else
        snprintf(command, sizeof command, "PEXPIRE r%u 1", pair.key);
    call(reply, command);
    assert_int_not_equal(reply[0], '-');
    if (operation->kind == EXPIRE) {
        snprintf(command, sizeof command, "EXISTS r%u", pair.key);
        test_await(call_number(command) == 0);
    }
}

static const char *live_play(const struct operation *operation, char *text)
{
    switch (operation->kind) {
    case GRANT:
    case GRANT_ALL:
    case RAISE:
    case REPLANT:
    case EXTEND:
    case RELEASE:
        return live_script(operation, text);
    case MARK:
        return live_mark(operation);
    case INSPECT:
        return live_inspect(text);
    default:
        live_change(operation);
        return NULL;
    }
}

/* --- the cases ---------------------------------------------------------------------------------------------------- */

static void play(const struct test_case *test)
{
    free(redis_server_command(server, "FLUSHALL"));
    for (unsigned i = 0; i < OPERATIONS_MAX && test->operations[i].kind != END; i++) {
        char text[TEXT_MAX] = "";
        const struct operation *operation = &test->operations[i];
        const char *answer = live_play(operation, text);
        if (operation->answer != NULL && strcmp(answer, operation->answer) != 0)
            fail_msg("%s, step %u: should answer %s, and answers %s", test->name, i, operation->answer, answer);
    }
}

TEST(test_scripts_answer_as_they_should)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        play(&cases[i]);
}

/* A connection of the product loads the scripts. */
static int set_up(void **state)
{
    (void)state;
    struct node_probe node = {0};
    struct loop *loop = loop_create(NULL);
    server = redis_server_start(NULL);
    node_probe_start(&node, loop,
                     &(struct redis_node_options){.name = "live",
                                                  .host = "127.0.0.1",
                                                  .port = redis_server_port(server),
                                                  .scripts = redlock_scripts,
                                                  .script_count = REDLOCK_SCRIPT_COUNT});
    node_probe_wait_up(&node);
    node_probe_stop(&node);
    loop_destroy(loop);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    redis_server_destroy(server);
    return 0;
}

RUN_GROUP(set_up, tear_down, NULL, NULL)
