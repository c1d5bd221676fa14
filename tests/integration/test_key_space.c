/* A worker with a key space lives in it: whatever it does, it neither changes nor looks at a key outside, on a queue
 * node where a fleet is at work, with tasks that wait in every place, a process to be recovered and calls to be heard.
 * Judged twice: every key outside is the same byte for byte afterwards, and every command that the server executed,
 * those of scripts included, names keys of the space only. */
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/buffer.h"
#include "tests/support/one_fleet.h"
#include "tests/support/worker_child.h"

#define SPACE  "hf:2:dry:0123456789ab:"
#define DIGEST "0123456789abcdef0123456789abcdef01234567" /* of what may be there once */

static const struct fleet_setup setup = {
    .worker = "lease = \"3s\"; stop_timeout = \"100ms\";",
    .classes = "{ class = \"parent\"; result_ttl = \"60s\"; }",
    .sections = "periodic = ({ name = \"tick\"; cron = \"* * * * *\"; class = \"note\"; queue = \"jobs\"; });",
};

/* --- what is there ------------------------------------------------------------------------------------------------ */

/* Tasks for every place. `space` is before every key, `mark` where an @ is: before every
 * jid. */
static void work_push(const char *space, const char *mark)
{
    static const char *const tasks[] = {
        "{\"class\":\"note\",\"args\":[50],\"jid\":\"@-a\",\"resource\":\"@-x\"}",
        "{\"class\":\"note\",\"args\":[50],\"jid\":\"@-b\",\"resource\":\"@-x\"}",
        "{\"class\":\"note\",\"args\":[50],\"jid\":\"@-c\",\"resource\":\"@-x\"}",
        "{\"class\":\"fail\",\"args\":[],\"jid\":\"@-retried\",\"retry\":5,\"resource\":[\"@-x\",\"y\"]}",
        "{\"class\":\"fail\",\"args\":[],\"jid\":\"@-buried\",\"retry\":0}",
        "{\"class\":\"moody\",\"args\":[3600000,\"@\"],\"jid\":\"@-snoozed\"}",
        "{\"class\":\"count\",\"args\":[1,3],\"jid\":\"@-counted\"}",
        "{\"class\":\"lonely\",\"args\":[],\"jid\":\"@-once\"}",
        "{\"class\":\"parent\",\"args\":[0,\"{\\\"class\\\":\\\"note\\\",\\\"args\\\":[]}\"],\"jid\":\"@-parent\"}",
        "{\"class\":\"note\",\"args\":[],\"jid\":\"@-unique\",\"hf_unique\":\"" DIGEST "\"}",
    };
    free(fleet_ask(&fleet, "SADD %squeues jobs", space));
    free(fleet_ask(&fleet, "SET %shf:2:unique:" DIGEST " %s-unique", space, mark));
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++) {
        struct buffer task = {0};
        for (const char *at = tasks[i]; *at != '\0'; at++)
            buffer_append(&task, *at == '@' ? mark : at, *at == '@' ? strlen(mark) : 1);
        free(fleet_ask(&fleet, "LPUSH %squeue:jobs '%s'", space, buffer_text(&task)));
        buffer_fini(&task);
    }
    free(fleet_ask(&fleet, "ZADD %sschedule 1 '{\"class\":\"note\",\"args\":[],\"jid\":\"%s-due\",\"queue\":\"jobs\"}'",
                   space, mark));
    free(fleet_ask(&fleet,
                   "ZADD %sretry 1 '{\"class\":\"note\",\"args\":[],\"jid\":\"%s-again\",\"queue\":\"jobs\","
                   "\"retry_count\":0}'",
                   space, mark));
    free(fleet_ask(&fleet, "SADD %spaused other", space));
    free(fleet_ask(&fleet, "ZADD %shf:2:cancels 9999999999 %s-cancelled", space, mark));
}

/* A process whose lease has ended, with a task in its first slot. */
static void dead_process_leave(const char *space, const char *mark)
{
    free(fleet_ask(&fleet, "ZADD %shf:2:processes 1 ghost:1:%s", space, mark));
    free(fleet_ask(&fleet,
                   "EVAL \"return redis.call('HSET', KEYS[1], 'queues', 'jobs', '0', '0123456789abcdefjobs' .. "
                   "string.char(10) .. ARGV[1])\" 1 %shf:2:process:ghost:1:%s "
                   "'{\"class\":\"note\",\"args\":[],\"jid\":\"%s-recovered\"}'",
                   space, mark, mark));
}

/* The keys of a fleet in the middle of its work: those that a worker left that was killed, and what nobody has touched
 * yet. None of them expires, so that any change can be seen. */
static void fleet_live(void)
{
    unsigned worker = fleet_work(&fleet, &setup);
    work_push("", "live");
    fleet_push(&fleet, "{\"class\":\"careful\",\"args\":[60000],\"jid\":\"live-long\"}");
    test_await(fleet_noted(&fleet, "begin live-long") == 1 && fleet_noted(&fleet, "end live-parent") == 1 &&
               fleet_number(&fleet, "ZCARD dead") == 1 && fleet_noted(&fleet, "end live-c") == 1);
    one_fleet_kill(worker);
    work_push("", "next");
    dead_process_leave("", "next");
    free(fleet_ask(&fleet,
                   "EVAL \"for _, key in ipairs(redis.call('KEYS', '*')) do redis.call('PERSIST', key) end\" 0"));
}

/* Every key that is not of the space, with a digest of what is in it, and its ttl. */
static char *others(void)
{
    return fleet_ask(&fleet, "EVAL \"local out = {} for _, key in ipairs(redis.call('KEYS', '*')) do "
                             "if key:sub(1, #ARGV[1]) ~= ARGV[1] then out[#out + 1] = key .. ' ' .. "
                             "redis.sha1hex(redis.call('DUMP', key)) .. ' ' .. redis.call('PTTL', key) end end "
                             "table.sort(out) return table.concat(out, '|')\" 0 " SPACE);
}

/* --- what the server does ----------------------------------------------------------------------------------------- */

/* What it tells of all commands stays in its memory until it is read. */
static int monitor_open(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)redis_server_port(fleet.queue)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int monitor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char ok[5];
    assert_int_equal(connect(monitor, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(write(monitor, "MONITOR\r\n", 9), 9);
    assert_int_equal(recv(monitor, ok, sizeof ok, MSG_WAITALL), sizeof ok);
    return monitor;
}

/* Up to a command that is sent now. */
static void monitor_read(int monitor, struct buffer *text)
{
    free(fleet_ask(&fleet, "ECHO end-of-" SPACE));
    while (strstr(buffer_text(text), "\"end-of-" SPACE) == NULL) {
        ssize_t got = recv(monitor, buffer_reserve(text, 65536), 65536, 0);
        assert_true(got > 0);
        text->length += (size_t)got;
    }
    close(monitor);
}

enum { WORDS_MAX = 64 };

/* The words of a line, which stand in quotes, in place; the quoted ones within a word have a backslash before them. */
static unsigned words_cut(char *line, char *words[WORDS_MAX])
{
    unsigned count = 0;
    while (count < WORDS_MAX && (line = strchr(line, '"')) != NULL) {
        words[count++] = ++line;
        for (; *line != '"' && *line != '\0'; line++)
            if (*line == '\\' && line[1] != '\0')
                line++;
        if (*line != '\0')
            *line++ = '\0';
    }
    return count;
}

static bool is_one_of(const char *name, const char *const *names)
{
    for (; *names != NULL; names++)
        if (strcasecmp(name, *names) == 0)
            return true;
    return false;
}

/* Which of the words of a command are keys: from, up to but without. */
static void keys_find(char *const *words, unsigned count, unsigned *from, unsigned *to)
{
    static const char *const none[] = {"PING", "TIME", "ROLE", "SELECT", "INFO", "SCRIPT", "CLIENT", "ECHO", NULL};
    static const char *const all[] = {"DEL", "UNLINK", "EXISTS", "MGET", "TOUCH", NULL};
    static const char *const two[] = {"LMOVE", "BLMOVE", "RPOPLPUSH", "BRPOPLPUSH", "RENAME", "SMOVE", NULL};
    static const char *const but_last[] = {"BLPOP", "BRPOP", NULL};
    static const char *const scripts[] = {"EVAL", "EVALSHA", NULL};
    *from = 1;
    *to = 2;
    if (is_one_of(words[0], none))
        *to = 1;
    else if (is_one_of(words[0], all))
        *to = count;
    else if (is_one_of(words[0], two))
        *to = 3;
    else if (is_one_of(words[0], but_last))
        *to = count - 1;
    else if (is_one_of(words[0], scripts)) {
        *from = 3;
        *to = 3 + (unsigned)strtoul(words[2], NULL, 10);
    }
}

/* Returns how many keys there were. */
static unsigned commands_check(char *text)
{
    unsigned keys = 0;
    for (char *line = text, *next; line != NULL && *line != '\0'; line = next) {
        char *words[WORDS_MAX];
        next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        unsigned count = words_cut(line, words), from = 0, to = 0;
        if (count == 0)
            continue;
        keys_find(words, count, &from, &to);
        bool is_script = to > from && from > 1; /* which may be given "" for a key that it does not need */
        for (unsigned i = from; i < to && i < count; i++, keys++)
            if (strncmp(words[i], SPACE, strlen(SPACE)) != 0 && !(is_script && words[i][0] == '\0'))
                fail_msg("%s %s is outside of the space", words[0], words[i]);
    }
    return keys;
}

/* --- the test ----------------------------------------------------------------------------------------------------- */

static void everything_is_done(void)
{
    static const char *const ended[] = {"a",    "b",      "c",   "unique", "counted",
                                        "once", "parent", "due", "again",  "recovered"};
    char line[64];
    for (size_t i = 0; i < sizeof ended / sizeof ended[0]; i++) {
        snprintf(line, sizeof line, "end dry-%s", ended[i]);
        test_await(fleet_noted(&fleet, line) == 1);
    }
    test_await(fleet_number(&fleet, "ZCARD " SPACE "dead") == 1);
    test_await(fleet_number(&fleet, "ZCARD " SPACE "retry") == 1);
    test_await(fleet_number(&fleet, "EXISTS " SPACE "hf:2:result:dry-parent") == 1);
    test_await(fleet_number(&fleet, "EXISTS " SPACE "hf:2:recovered:dry-recovered") == 1);
    test_await(fleet_number(&fleet, "EXISTS " SPACE "hf:2:unique:" DIGEST) == 0);
    test_await(fleet_number(&fleet, "HLEN " SPACE "hf:2:periodic") == 1);
}

/* By a dashboard and by operators: it is heard in the space. */
static void calls_are_heard(unsigned worker)
{
    char *who = fleet_ask(&fleet, "SMEMBERS " SPACE "processes");
    free(
        fleet_ask(&fleet, "LPUSH " SPACE "queue:jobs '{\"class\":\"careful\",\"args\":[60000],\"jid\":\"dry-long\"}'"));
    test_await(fleet_noted(&fleet, "begin dry-long") == 1);
    free(fleet_ask(&fleet, "LPUSH " SPACE "%s-signals TTIN", who));
    test_await(fleet_logged(&fleet, worker, "task_running slot="));
    free(fleet_ask(&fleet, "LPUSH " SPACE "hf:2:calls:%s LOOK 'CANCEL dry-long'", who));
    test_await(fleet_noted(&fleet, "stopped dry-long") == 1);
    free(who);
}

TEST(a_worker_in_a_space_touches_nothing_outside)
{
    struct buffer text = {0};
    fleet_live();
    char *before = others();
    int monitor = monitor_open();
    work_push(SPACE, "dry");
    dead_process_leave(SPACE, "dry");
    unsigned worker = worker_child_start(&fleet, &setup, SPACE, NULL, NULL);
    everything_is_done();
    calls_are_heard(worker);
    one_fleet_stop(worker);
    monitor_read(monitor, &text);
    assert_true(commands_check(text.bytes) > 500);
    buffer_fini(&text);
    char *after = others();
    assert_string_equal(after, before);
    assert_true(fleet_number(&fleet, "EVAL \"return #redis.call('KEYS', '" SPACE "*')\" 0") > 5);
    free(before);
    free(after);
}

RUN_FLEET_TESTS
