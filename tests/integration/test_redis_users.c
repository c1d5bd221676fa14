/* The users of conf/redis-users.conf: with exactly their rights everything that workers, producers and operators do
 * works, and a server never has to refuse anything. And without any one of these rights, something of it would be
 * refused. */
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "queue/scripts.h"
#include "redlock/scripts.h"
#include "tests/support/http_ask.h"
#include "tests/support/one_fleet.h"
#include "tests/support/program_run.h"
#include "tests/support/relay.h"

#define QUEUE_USER "user = \"holdfast-queue\"; password_env = \"HF_TEST_QUEUE\";"
#define LOCK_USER  "user = \"holdfast-lock\"; password_env = \"HF_TEST_LOCK\";"

/* What the file says of the user, behind its name. */
static const char *rules_of(const char *name)
{
    static char line[4096];
    char start[64];
    snprintf(start, sizeof start, "user %s ", name);
    FILE *file = fopen("conf/redis-users.conf", "re");
    assert_non_null(file);
    bool is_found = false;
    while (!is_found && fgets(line, sizeof line, file) != NULL)
        is_found = strncmp(line, start, strlen(start)) == 0;
    fclose(file);
    if (!is_found || strchr(line, '\n') == NULL)
        fail_msg("conf/redis-users.conf has no user %s", name);
    line[strcspn(line, "\n")] = '\0';
    return line + strlen(start);
}

/* Makes the server know the user as the file describes it. */
static void user_make(struct redis_server *server, const char *name)
{
    char *reply = redis_server_command(server, "ACL SETUSER %s reset %s", name, rules_of(name));
    assert_string_equal(reply, "OK");
    free(reply);
    free(redis_server_command(server, "ACL LOG RESET"));
}

static void lock_users_make(struct redis_server *server)
{
    user_make(server, "holdfast-lock");
    user_make(server, "holdfast-nodes");
}

static void users_make(void)
{
    setenv("HF_TEST_QUEUE", "change-me-queue", 1);
    setenv("HF_TEST_LOCK", "change-me-lock", 1);
    setenv("HF_TEST_NODES", "change-me-nodes", 1);
    user_make(fleet.queue, "holdfast-queue");
    for (unsigned i = 0; i < fleet.locks.count; i++)
        lock_users_make(fleet.locks.servers[i]);
}

/* --- what the servers were asked ---------------------------------------------------------------------------------- */

/* A connection that the server tells what it executes. Nobody reads it before the end; the server keeps it till then.
 * Our own commands come through the unix socket, by which they are known. */
static int record_begin(struct redis_server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)redis_server_port(server)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char reply[8];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(write(fd, "MONITOR\r\n", 9), 9);
    assert_int_equal(recv(fd, reply, 5, MSG_WAITALL), 5);
    return fd;
}

enum { WORDS_KEPT = 40, LINE_MAX_SIZE = 32 * 1024 };

/* The commands that differ at their beginning, one a line, as redis-cli would take them; those of all lock nodes
 * together, because what most of them grant is done, and one that is slow is not waited for. */
struct record {
    char **lines;
    size_t count;
};

static bool begin_alike(const char *a, const char *b)
{
    size_t a_length = strcspn(a, ",;/"), b_length = strcspn(b, ",;/");
    a_length = a_length < WORDS_KEPT ? a_length : WORDS_KEPT;
    b_length = b_length < WORDS_KEPT ? b_length : WORDS_KEPT;
    return a_length == b_length && strncasecmp(a, b, a_length) == 0;
}

static void record_add(struct record *record, const char *line)
{
    const char *command = strstr(line, "] \"");
    if (command == NULL || strstr(line, " unix:") != NULL || strlen(line) > LINE_MAX_SIZE)
        return;
    command += strlen("] ");
    for (size_t i = 0; i < record->count; i++)
        if (begin_alike(record->lines[i], command))
            return;
    record->lines = memory_resize(record->lines, record->count + 1, sizeof record->lines[0]);
    record->lines[record->count++] = memory_text(command);
}

static void record_end(struct record *record, int fd, struct redis_server *server)
{
    static const char last[] = "that-is-all";
    char *line = NULL;
    size_t size = 0;
    FILE *said = fdopen(fd, "r");
    free(redis_server_command(server, "ECHO %s", last));
    while (getline(&line, &size, said) > 0 && strstr(line, last) == NULL) {
        line[strcspn(line, "\r\n")] = '\0';
        record_add(record, line);
    }
    assert_true(feof(said) == 0);
    fclose(said);
    free(line);
}

static void record_free(struct record *record)
{
    for (size_t i = 0; i < record->count; i++)
        free(record->lines[i]);
    free(record->lines);
}

/* --- one rule after the other ------------------------------------------------------------------------------------- */

static bool is_refused(struct redis_server *server, const char *user, const char *command)
{
    char *reply = redis_server_command(server, "ACL DRYRUN %s %s", user, command);
    bool is = strcmp(reply, "OK") != 0;
    free(reply);
    return is;
}

/* Whether the line is a call of what the rule `+name` or `+name|part` allows. */
static bool is_of_rule(const char *line, const char *rule)
{
    const char *part = strchr(rule, '|');
    size_t length = part != NULL ? (size_t)(part - rule) : strlen(rule);
    if (line[0] != '"' || strncasecmp(line + 1, rule, length) != 0 || line[1 + length] != '"')
        return false;
    return part == NULL || strncasecmp(line + length + 4, part + 1, strlen(part + 1)) == 0;
}

/* A server shows nobody who asks for CLIENT KILL or UNBLOCK, and counts only. A process leaves a channel after some
 * seconds only: tests/virtual/test_release_notifications.c. */
static bool is_counted(struct redis_server *server, const char *rule)
{
    char *counts = redis_server_command(server, "INFO commandstats"), name[64];
    snprintf(name, sizeof name, "cmdstat_%s:calls=", rule);
    bool is_secret = strcmp(rule, "client|kill") == 0 || strcmp(rule, "client|unblock") == 0;
    bool is = (is_secret && strstr(counts, name) != NULL) || strcmp(rule, "unsubscribe") == 0;
    free(counts);
    return is;
}

static bool rule_is_needed(struct redis_server *server, const struct record *record, const char *rule)
{
    if (rule[0] == '+' && is_counted(server, rule + 1))
        return true;
    for (size_t i = 0; i < record->count; i++)
        if ((rule[0] != '+' || is_of_rule(record->lines[i], rule + 1)) && is_refused(server, "probe", record->lines[i]))
            return true;
    return false;
}

/* Without any one of its rules, the user would have been refused something of what was recorded. */
static void assert_each_rule_is_needed(struct redis_server *server, const char *user, const struct record *record)
{
    char *rules = memory_text(rules_of(user)), *rest = rules;
    struct buffer needless = {0};
    size_t tried = 0;
    for (char *rule; (rule = strsep(&rest, " ")) != NULL;) {
        struct buffer others = {0};
        if (strchr("+~&", rule[0]) != NULL) {
            char *at = strstr(rules_of(user), rule);
            while (at != NULL && at[strlen(rule)] != ' ' && at[strlen(rule)] != '\0')
                at = strstr(at + 1, rule);
            assert_non_null(at);
            buffer_append(&others, rules_of(user), (size_t)(at - rules_of(user)));
            buffer_append_text(&others, at + strlen(rule));
            free(redis_server_command(server, "ACL SETUSER probe reset %s", buffer_text(&others)));
            if (!rule_is_needed(server, record, rule))
                buffer_format(&needless, " %s", rule);
            tried++;
        }
        buffer_fini(&others);
    }
    free(redis_server_command(server, "ACL DELUSER probe"));
    assert_true(tried > 10);
    if (needless.length > 0)
        fail_msg("%s has rules that nothing needs:%s", user, buffer_text(&needless));
    buffer_fini(&needless);
    free(rules);
}

/* But for this command, which is only asked for; NULL = none. */
static void assert_nothing_was_refused(struct redis_server *server, const char *but)
{
    char *log = redis_server_command(server, "ACL LOG"), expected[64];
    snprintf(expected, sizeof expected, "object\n%s\n", but != NULL ? but : "");
    for (const char *entry = log; (entry = strstr(entry, "object\n")) != NULL; entry++)
        if (but == NULL || strncmp(entry, expected, strlen(expected)) != 0)
            fail_msg("refused: %s", log);
    free(log);
}

__attribute__((format(printf, 1, 2))) static void run(const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    struct program_result result = program_run(line);
    if (result.exit_code != 0)
        fail_msg("holdfast %s: %d: %s%s", line, result.exit_code, result.out, result.error);
    program_result_free(&result);
}

/* Databases have numbers, and the right to choose one. */
static void another_database_ask(unsigned worker, const char *login)
{
    char line[512];
    fleet_configure(&fleet, worker,
                    &(struct fleet_setup){.queue_node = QUEUE_USER, .lock_node = LOCK_USER "database = 1;"});
    snprintf(line, sizeof line, "nodes -c %s/host%u.conf%s", fleet.directory, worker, login);
    struct program_result result = program_run(line); /* there are no lock nodes in it */
    program_result_free(&result);
}

/* --- the worker and the commands ---------------------------------------------------------------------------------- */

static char config[128];

/* Tasks of every kind of ending. */
static void tasks_run(void)
{
    fleet_push_many(&fleet, "guarded", 30, 5, 2); /* contended: some are parked, and promoted */
    fleet_push(&fleet, "{\"class\":\"fail\",\"args\":[],\"jid\":\"retried\"}");
    fleet_push(&fleet, "{\"class\":\"fail\",\"args\":[],\"jid\":\"buried\",\"retry\":0}");
    fleet_push(&fleet, "{\"class\":\"nobody\",\"args\":[],\"jid\":\"unserved\"}");
    fleet_push(&fleet, "{\"class\":\"count\",\"args\":[3,1],\"jid\":\"counted\"}");
    fleet_push(&fleet, "no task at all");
    fleet_push(&fleet,
               "{\"class\":\"parent\",\"args\":[1,\"{\\\"class\\\":\\\"note\\\",\\\"args\\\":[]}\",\"{\\\"class\\\":"
               "\\\"note\\\",\\\"args\\\":[],\\\"at\\\":0.01}\"],\"jid\":\"p\"}");
    run("push -c %s --queue jobs note [0]", config);
    run("push -c %s --queue jobs --unique note [1]", config);
    run("push -c %s --queue jobs --in 1h note [2] --jid later", config);
    run("push -c %s --queue jobs --resource r guarded [20]", config);
    run("push -c %s --queue other --unique note [3]", config);
    run("push -c %s --queue third --unique note [5]", config);
    free(fleet_ask(&fleet, "DEL queue:third")); /* as another program does; the next push looks who has it */
    run("push -c %s --queue third --unique note [5]", config);
    run("push -c %s --queue other --jid waiting note [4]", config);
    run("result -c %s p --wait=20s", config);
    test_await(fleet_number(&fleet, "ZCARD dead") == 2);
    test_await(fleet_number(&fleet, "ZCARD retry") >= 1);
    test_await(fleet_noted_all(&fleet, "end ") >= 36);
}

/* It finds what private servers for tests lack, but no right that is missing. */
static void doctor_run(void)
{
    char line[160];
    snprintf(line, sizeof line, "doctor -c %s --json", config);
    struct program_result result = program_run(line);
    assert_contains(result.out, "\"findings\":");
    assert_null(strstr(result.out, "right-missing"));
    program_result_free(&result);
}

/* What operators do while workers work. */
static void commands_run(void)
{
    run("check -c %s", config);
    run("status -c %s", config);
    run("top -c %s --once", config);
    run("contention -c %s", config);
    run("periodic -c %s", config);
    run("queues -c %s", config);
    run("tasks -c %s --state queue --queue other delete waiting", config);
    run("queues -c %s --yes delete other", config);
    run("queues --host 127.0.0.1 --port %u --user holdfast-queue --password-env HF_TEST_QUEUE --database 1",
        redis_server_port(fleet.queue));
    run("pause -c %s other", config);
    run("resume -c %s other", config);
    for (int i = 0; i < 2; i++)
        run("tasks -c %s list %s", config, (const char *[]){"retry", "dead"}[i]);
    run("tasks -c %s list claims", config);
    run("tasks -c %s --queue jobs list queue", config);
    run("tasks -c %s show retried", config);
    run("tasks -c %s bury later", config);
    run("tasks -c %s delete later", config);
    run("tasks -c %s retry buried", config);
    test_await(fleet_number(&fleet, "ZCARD dead") == 2); /* again */
    run("tasks -c %s --yes --all --state dead delete", config);
    doctor_run();
    run("nodes -c %s", config);
    run("lock -c %s --wait=20s a b -- true", config);
    run("lock -c %s --wait=20s --limit 2 shared -- true", config);
    for (unsigned i = 0; i < fleet.locks.count; i++)
        lock_cluster_ask(&fleet.locks, i, "SET lock:foreign value");
    run("who -c %s foreign", config);
    run("unlock -c %s --force foreign", config);
    assert_int_equal(lock_cluster_holders(&fleet.locks, "lock:foreign"), 0);
}

static void password_write(const char *path, const char *password)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fchmod(fileno(file), 0600), 0);
    fprintf(file, "%s\n", password);
    assert_int_equal(fclose(file), 0);
}

/* What people do with a page that shows the fleet. */
static void page_serve(void)
{
    static const char login[] = "Authorization: Bearer the token of this test\r\n";
    static const char *const reads[] = {"/api/state",
                                        "/metrics",
                                        "/api/search/queues",
                                        "/api/search/contention?days=1",
                                        "/api/search/tasks?state=retry",
                                        "/api/search/task?id=retried",
                                        "/api/search/holder?resource=r"};
    static const char *const changes[][2] = {{"pause", "other"}, {"resume", "other"}, {"retry", "retried"}};
    char http[160], token[160], path[64], body[64];
    snprintf(http, sizeof http, "%s/serve", fleet.directory);
    snprintf(token, sizeof token, "%s/token", fleet.directory);
    password_write(token, "the token of this test");
    const char *const arguments[] = {"serve", "-c", config, "--listen", http, "--token-file", token, NULL};
    struct program serving = program_start(arguments, -1);
    test_await(strstr(http_ask(http, "GET", "/metrics", login, ""), "\nholdfast_fleet_queue_node_up 1\n") != NULL);
    for (size_t i = 0; i < sizeof reads / sizeof reads[0]; i++)
        assert_contains(http_ask(http, "GET", reads[i], login, ""), " 200 ");
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        snprintf(path, sizeof path, "/api/change/%s", changes[i][0]);
        snprintf(body, sizeof body, "name=%s", changes[i][1]);
        assert_contains(http_ask(http, "POST", path, login, body), "{\"exit_code\":0,");
    }
    kill(serving.pid, SIGTERM);
    struct program_result result = program_wait(&serving);
    if (result.exit_code != 0)
        fail_msg("holdfast serve: %d, signal %d: %s", result.exit_code, result.signal, result.error);
    program_result_free(&result);
    unlink(token);
}

/* Two of its tasks at a time have seats; the worker tells what it has seen of that. */
static void seats_are_taken(unsigned worker)
{
    char http[160];
    snprintf(http, sizeof http, "%s/http", fleet.directory);
    for (unsigned i = 0; i < 6; i++)
        fleet_push(&fleet, "{\"class\":\"lonely\",\"args\":[300],\"jid\":\"seat%u\",\"resource\":\"seats\"}", i);
    test_await(lock_cluster_holders(&fleet.locks, "lock:hf:seat:2:seats") >= 2);
    test_await(fleet_noted_all(&fleet, "end seat") == 6);
    run("lock -c %s --wait=20s --shared seats -- true", config); /* looks whether one is held */
    assert_contains(http_ask(http, "GET", "/metrics", "", ""), "holdfast_lock_nodes_voting 3\n");
    assert_contains(http_ask(http, "GET", "/readyz", "", ""), " 200 ");
    assert_false(fleet_logged(&fleet, worker, "NOPERM"));
}

/* Somebody waits in line until the lock is free, and hears of it. */
static void lock_waits(void)
{
    const char *const first[] = {"lock", "-c", config, "line", "--", "sleep", "600", NULL};
    const char *const second[] = {"lock", "-c", config, "--wait=60s", "line", "--", "true", NULL};
    struct program holder = program_start(first, -1);
    test_await(lock_cluster_holders(&fleet.locks, "lock:line") >= 2);
    struct program waiter = program_start(second, -1);
    for (unsigned i = 0; i < fleet.locks.count; i++)
        test_await(redis_server_info(fleet.locks.servers[i], "stats", "pubsub_channels:") > 0);
    kill(holder.pid, SIGTERM);
    struct program_result result = program_wait(&holder);
    assert_int_equal(result.exit_code, 128 + SIGTERM);
    program_result_free(&result);
    result = program_wait(&waiter);
    assert_int_equal(result.exit_code, 0);
    program_result_free(&result);
}

/* Two share it; a writer waits in vain, and gets it when they have left. */
static void readers_share(void)
{
    struct redlock_node nodes[CLUSTER_MAX];
    struct redlock_options options = {.nodes = nodes, .node_count = fleet.locks.count, .key_prefix = "lock:"};
    struct redlock_terms terms = {.wait_ms = 200};
    struct redlock_request request = {.resources = (const char *const[]){"read"}, .resource_count = 1, .shared = true};
    struct redlock_held *held[3] = {NULL};
    char reason[256];
    for (unsigned i = 0; i < fleet.locks.count; i++) {
        nodes[i] = fleet.locks.nodes[i];
        nodes[i].user = "holdfast-lock";
        nodes[i].password = getenv("HF_TEST_LOCK");
    }
    struct redlock_client *client = redlock_client_open(&options, reason, sizeof reason);
    assert_non_null(client);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(redlock_client_acquire(client, NULL, &request, &held[i], reason, sizeof reason),
                         REDLOCK_ACQUIRED);
    assert_true(redlock_held_verify(held[0]));
    request.shared = false;
    assert_int_equal(redlock_client_acquire(client, &terms, &request, &held[2], reason, sizeof reason), REDLOCK_BUSY);
    terms.wait_ms = 60000;
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(redlock_client_release(held[i], REDLOCK_AWAIT), REDLOCK_RELEASED);
    assert_int_equal(redlock_client_acquire(client, &terms, &request, &held[2], reason, sizeof reason),
                     REDLOCK_ACQUIRED);
    assert_int_equal(redlock_client_release(held[2], REDLOCK_AWAIT), REDLOCK_RELEASED);
    redlock_client_close(client);
}

static void dry_run_of_two_hosts(void)
{
    const char *const arguments[] = {"dry-run", "-c",     config, "--for",       "1s", "--warm-up", "0s", "--hosts",
                                     "2",       "--name", "two",  "--resources", "3",  "--threads", "4",  NULL};
    struct program first = program_start(arguments, -1);
    run("dry-run -c %s --for 1s --warm-up 0s --hosts 2 --name two --resources 3 --threads 2", config);
    struct program_result result = program_wait(&first);
    if (result.exit_code != 0)
        fail_msg("holdfast dry-run: %d: %s%s", result.exit_code, result.out, result.error);
    program_result_free(&result);
}

/* One of the nodes, as if it were the only one. */
static void lone_node_ask(unsigned worker)
{
    char line[512], lone[256];
    snprintf(lone, sizeof lone, "{ host = \"127.0.0.1\"; port = %u; " LOCK_USER " }",
             redis_server_port(fleet.locks.servers[0]));
    fleet_configure(&fleet, worker, &(struct fleet_setup){.queue_node = QUEUE_USER, .lock_nodes = lone});
    snprintf(line, sizeof line, "nodes -c %s/host%u.conf", fleet.directory, worker);
    struct program_result result = program_run(line);
    if (strstr(result.out, "node_count") == NULL)
        fail_msg("%s%s", result.out, result.error);
    program_result_free(&result);
}

TEST(everything_works_with_exactly_these_rights)
{
    struct relay *relay = relay_start(redis_server_port(fleet.queue));
    char through[64], sections[512];
    snprintf(through, sizeof through, "host = \"127.0.0.1\"; port = %u;", relay_port(relay));
    struct fleet_setup setup = {
        .queue_node = QUEUE_USER,
        .lock_node = LOCK_USER,
        .worker = "stop_timeout = \"300ms\";",
        .queue_at = through,
        .lock = "ttl = \"5s\"; tries = 20; retry_delay = \"2ms\"; park_delay = \"100ms\"; prefix = \"lock:\"; "
                "fence_memory = \"1MiB\";",
        .classes = "{ class = \"lonely\"; limit = 2; }",
        .sections = sections};
    snprintf(sections, sizeof sections,
             "periodic = ({ cron = \"0 0 1 1 *\"; class = \"note\"; queue = \"jobs\"; });\nhttp = { listen = "
             "\"%s/http\"; };",
             fleet.directory);
    users_make();
    for (unsigned i = 0; i < fleet.locks.count; i++) /* more than may stay */
        lock_cluster_ask(&fleet.locks, i,
                         "EVAL \"for i = 1, 20000 do redis.call('ZADD', 'hf:fences', i, 'f' .. i) end\" 0");
    struct record queue = {0}, locks = {0};
    int queue_record = record_begin(fleet.queue), lock_records[CLUSTER_MAX];
    for (unsigned i = 0; i < fleet.locks.count; i++)
        lock_records[i] = record_begin(fleet.locks.servers[i]);
    unsigned first = fleet_work(&fleet, &setup);
    setup.sections = NULL;
    unsigned second = fleet_work(&fleet, &setup);
    snprintf(config, sizeof config, "%s/host%u.conf", fleet.directory, first);
    test_await(fleet_number(&fleet, "ZCARD hf:2:processes") == 2);
    test_await(redis_server_info(fleet.queue, "clients", "blocked_clients:") == 4);
    relay_cut(relay); /* waits are left behind, to be ended */
    tasks_run();
    fleet_push_many(&fleet, "guarded", 200, 0, 3);
    commands_run();
    seats_are_taken(first);
    page_serve();
    fleet_push(&fleet, "{\"class\":\"careful\",\"args\":[600000],\"jid\":\"cancelled\"}");
    test_await(fleet_noted(&fleet, "begin cancelled") == 1);
    run("cancel -c %s cancelled", config);
    run("push -c %s --queue jobs --resource held --jid given-back careful [600000]", config);
    test_await(fleet_noted(&fleet, "begin given-back") == 1);
    run("who -c %s held", config);
    lock_waits();
    readers_share();
    dry_run_of_two_hosts();
    run("dry-run -c %s --for 1s --warm-up 0s --threads 4 --shadow", config);
    run("quiet -c %s --all --wait=20s", config);
    run("stop -c %s --all", config);
    assert_int_equal(fleet_wait(&fleet, first), 0);
    assert_int_equal(fleet_wait(&fleet, second), 0);
    assert_int_equal(fleet_number(&fleet, "EXISTS hf:2:processes"), 0);
    another_database_ask(first, "");
    lone_node_ask(first);
    assert_nothing_was_refused(fleet.queue, "config|get"); /* a doctor says what it could not judge */
    for (unsigned i = 0; i < fleet.locks.count; i++)
        assert_nothing_was_refused(fleet.locks.servers[i], "scan"); /* what a dry run leaves expires then */
    assert_false(fleet_logged(&fleet, first, "NOPERM"));
    assert_false(fleet_logged(&fleet, second, "NOPERM"));
    record_end(&queue, queue_record, fleet.queue);
    for (unsigned i = 0; i < fleet.locks.count; i++)
        record_end(&locks, lock_records[i], fleet.locks.servers[i]);
    assert_each_rule_is_needed(fleet.queue, "holdfast-queue", &queue);
    assert_each_rule_is_needed(fleet.locks.servers[0], "holdfast-lock", &locks);
    record_free(&queue);
    record_free(&locks);
    relay_destroy(relay);
}

static void assert_init_fails(const char *login, int exit_code, const char *why)
{
    char line[512];
    snprintf(line, sizeof line, "nodes -c %s%s init --max-ttl 1s", config, login);
    struct program_result result = program_run(line);
    assert_int_equal(result.exit_code, exit_code);
    if (strstr(result.error, why) == NULL)
        fail_msg("%s", result.error);
    program_result_free(&result);
}

/* Looking and healing with the user of the workers, the rest with the other one. */
TEST(the_lock_group_is_made_and_changed_with_exactly_these_rights)
{
    static const struct fleet_setup setup = {.queue_node = QUEUE_USER, .lock_node = LOCK_USER};
    char password[128], login[256];
    struct redis_server *successor = redis_server_start(NULL);
    users_make();
    lock_users_make(successor);
    for (unsigned i = 0; i < fleet.locks.count; i++)
        lock_cluster_ask(&fleet.locks, i, "FLUSHALL");
    unsigned worker = fleet_work(&fleet, &setup);
    fleet_signal(&fleet, worker, SIGKILL); /* its configuration is all that is wanted */
    fleet_wait(&fleet, worker);
    snprintf(config, sizeof config, "%s/host%u.conf", fleet.directory, worker);
    snprintf(password, sizeof password, "%s/password", fleet.directory);
    password_write(password, "change-me-nodes");
    snprintf(login, sizeof login, " --lock-user holdfast-nodes --lock-password-file %s", password);
    int record = record_begin(fleet.locks.servers[0]);
    lock_cluster_ask(&fleet.locks, 2, "ACL SETUSER holdfast-nodes -set");
    assert_init_fails(login, 75, "what was written is taken back");
    lock_cluster_ask(&fleet.locks, 2, "ACL SETUSER holdfast-nodes +set");
    lock_cluster_ask(&fleet.locks, 2, "ACL LOG RESET");
    run("nodes -c %s --lock-user holdfast-nodes --lock-password-file %s init --max-ttl 1s", config, password);
    another_database_ask(worker, login);
    fleet_configure(&fleet, worker, &setup);
    struct record asked = {0};
    record_end(&asked, record, fleet.locks.servers[0]);
    assert_each_rule_is_needed(fleet.locks.servers[0], "holdfast-nodes", &asked);
    record_free(&asked);
    run("nodes -c %s", config);
    lock_cluster_ask(&fleet.locks, 1, "FLUSHALL");
    run("nodes -c %s heal --wait", config);
    run("nodes -c %s --lock-user holdfast-nodes --lock-password-file %s replace lock3 127.0.0.1:%u", config, password,
        redis_server_port(successor));
    for (unsigned i = 0; i < fleet.locks.count; i++)
        assert_nothing_was_refused(fleet.locks.servers[i], NULL);
    assert_nothing_was_refused(successor, NULL);
    for (unsigned i = 0; i < fleet.locks.count; i++)
        lock_cluster_ask(&fleet.locks, i, "FLUSHALL");
    assert_init_fails("", 1, "whether there are keys is not known");
    redis_server_destroy(successor);
}

/* `+word`, or a part of it. */
static bool is_allowed(const char *rules, const char *word)
{
    for (const char *at = rules; (at = strcasestr(at, word)) != NULL; at++)
        if (at > rules && at[-1] == '+' && strchr(" |", at[strlen(word)]) != NULL)
            return true;
    return false;
}

static void assert_doctor_says(const char *text, bool says)
{
    char line[160];
    snprintf(line, sizeof line, "doctor -c %s", config);
    struct program_result result = program_run(line);
    assert_contains(result.out, "error");
    if ((strstr(result.out, text) != NULL) != says)
        fail_msg("%s: %s%s", text, result.out, result.error);
    program_result_free(&result);
}

/* Each that the file has, but for these. */
static void assert_doctor_names_all_but(const char *user, const char *kept)
{
    char line[160], *rules = memory_text(rules_of(user)), *rest = rules;
    free(fleet_ask(&fleet, "ACL SETUSER %s -@all %s", user, kept));
    snprintf(line, sizeof line, "doctor -c %s", config);
    struct program_result result = program_run(line);
    char *said = strstr(result.out, "queue: the user");
    if (said == NULL)
        fail_msg("%s%s", result.out, result.error);
    said[strcspn(said, "\n")] = '\0';
    for (char *rule; (rule = strsep(&rest, " ")) != NULL;)
        if (rule[0] == '+' && is_allowed(kept, rule + 1) == is_allowed(said, rule + 1))
            fail_msg("%s: %s", rule, said);
    program_result_free(&result);
    free(rules);
}

/* With the line that gives them. */
TEST(a_doctor_names_rights_that_are_missing)
{
    static const struct fleet_setup setup = {.queue_node = QUEUE_USER, .lock_node = LOCK_USER};
    users_make();
    unsigned worker = fleet_work(&fleet, &setup);
    fleet_signal(&fleet, worker, SIGKILL); /* its configuration is all that is wanted */
    fleet_wait(&fleet, worker);
    snprintf(config, sizeof config, "%s/host%u.conf", fleet.directory, worker);
    assert_doctor_says("right-missing", false);
    assert_doctor_says("rights-unknown", false);
    free(fleet_ask(&fleet, "ACL SETUSER holdfast-queue -zadd -client|kill -hset"));
    assert_doctor_says(
        "queue: the user holdfast-queue lacks rights: ACL SETUSER holdfast-queue +client|kill +hset +zadd", true);
    lock_cluster_ask(&fleet.locks, 1,
                     "ACL SETUSER holdfast-lock -zadd resetchannels resetkeys ~lock:* ~hf:lock:group "
                     "~hf:fences ~hf:fences:floor");
    assert_doctor_says("lock2: the user holdfast-lock lacks rights: ACL SETUSER holdfast-lock ~hf:lock:node "
                       "~hf:listeners "
                       "~hf:readers:* ~hf:writer:* ~hf:seats:* ~hf:turns +zadd "
                       "+publish &hf:free:* +subscribe &hf:free:*",
                       true);
    assert_doctor_names_all_but(
        "holdfast-queue", "+evalsha +script|load +client|setname +ping +role +info +zrangebyscore +zrevrangebyscore ");
    lock_cluster_ask(&fleet.locks, 1, "ACL SETUSER holdfast-lock -script|load");
    assert_doctor_says("no permissions to run the 'script|load' command", true);
}

static bool is_command(const char *word)
{
    char *reply = redis_server_command(fleet.queue, "COMMAND INFO %s", word);
    bool is = strncmp(reply, "(nil)", 5) != 0;
    free(reply);
    return is;
}

static void assert_script_is_allowed(const struct redis_script *script, const char *rules)
{
    static const char capitals[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    for (const char *at = script->source; (at = strchr(at, '\'')) != NULL; at++) {
        char word[32];
        size_t length = strspn(at + 1, capitals);
        snprintf(word, sizeof word, "%.*s", (int)length, at + 1);
        if (length > 2 && at[1 + length] == '\'' && is_command(word) && !is_allowed(rules, word))
            fail_msg("%s uses %s, which no user may", script->name, word);
    }
}

/* Also what they do only when somebody else has broken something. */
TEST(every_command_of_the_scripts_is_allowed)
{
    char *queue = memory_text(rules_of("holdfast-queue")), locks[4096];
    snprintf(locks, sizeof locks, "%s ", rules_of("holdfast-lock"));
    snprintf(locks + strlen(locks), sizeof locks - strlen(locks), "%s", rules_of("holdfast-nodes"));
    for (size_t i = 0; i < QUEUE_SCRIPT_COUNT; i++)
        assert_script_is_allowed(queue_scripts[i], queue);
    for (size_t i = 0; i < REDLOCK_SCRIPT_COUNT; i++)
        assert_script_is_allowed(redlock_scripts[i], locks);
    free(queue);
}

/* Else the tests above would pass with any. */
TEST(what_nobody_needs_is_refused)
{
    static const char *const queue[] = {"FLUSHALL",          "KEYS *",      "CONFIG GET *",  "SHUTDOWN",
                                        "EVAL 'return 1' 0", "CLIENT LIST", "DEBUG SLEEP 0", "PUBLISH a b",
                                        "SORT queue:jobs"};
    static const char *const lock[] = {"FLUSHALL", "SET foreign 1",  "GET foreign",     "KEYS *",
                                       "SCAN 0",   "LPUSH lock:a 1", "SET hf:lock:b 1", "PUBLISH other 1",
                                       "MONITOR",  "CONFIG GET *",   "PUBSUB CHANNELS", "SUBSCRIBE other"};
    static const char *const nodes[] = {"FLUSHALL", "SET lock:a 1", "GET lock:a", "KEYS *", "PUBLISH hf:free:1 1"};
    users_make();
    for (size_t i = 0; i < sizeof queue / sizeof queue[0]; i++) {
        char *reply = redis_server_command(fleet.queue, "ACL DRYRUN holdfast-queue %s", queue[i]);
        assert_string_not_equal(reply, "OK");
        free(reply);
    }
    for (size_t i = 0; i < sizeof lock / sizeof lock[0]; i++) {
        char *reply = redis_server_command(fleet.locks.servers[0], "ACL DRYRUN holdfast-lock %s", lock[i]);
        assert_string_not_equal(reply, "OK");
        free(reply);
    }
    for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++) {
        char *reply = redis_server_command(fleet.locks.servers[0], "ACL DRYRUN holdfast-nodes %s", nodes[i]);
        assert_string_not_equal(reply, "OK");
        free(reply);
    }
}

RUN_FLEET_TESTS
