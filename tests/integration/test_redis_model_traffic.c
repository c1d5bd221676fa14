/* What Holdfast really says: fleets, users of locks and tests in virtual time are played once, what they told their
 * simulated servers is written down (tests/sim/server/traffic.h), and a real server is told the same, at the same times
 * of its clock. Each reply has to be the same bytes (redis_twin.h). HF_SEED plays others, HF_SCHEDULES more. */
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "queue/digest.h"
#include "queue/scripts.h"
#include "redlock/scripts.h"
#include "tests/sim/server/traffic.h"
#include "tests/support/private_directory.h"
#include "tests/support/redis_twin.h"

enum { SERVERS_MAX = 4096, SCRIPTS = QUEUE_SCRIPT_COUNT + REDLOCK_SCRIPT_COUNT };

#define ALL_SERVERS UINT32_MAX

static struct twin *twin;
static bool was_seen[SCRIPTS];

static const struct redis_script *script_at(size_t place)
{
    return place < QUEUE_SCRIPT_COUNT ? queue_scripts[place] : redlock_scripts[place - QUEUE_SCRIPT_COUNT];
}

/* --- writing it down ---------------------------------------------------------------------------------------------- */

struct record {
    char *bytes;
    size_t length;
};

static struct record record_of(int file, const char *about)
{
    struct stat facts;
    assert_int_equal(fstat(file, &facts), 0);
    if (facts.st_size == 0)
        fail_msg("%s tells no server anything", about);
    struct record record = {.length = (size_t)facts.st_size};
    record.bytes = mmap(NULL, record.length, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    assert_true(record.bytes != MAP_FAILED);
    close(file);
    return record;
}

/* Runs `program test` with these variables; its traffic. */
static struct record traffic_of(const char *program, const char *test, const char *seed, const char *schedules)
{
    char path[PRIVATE_DIRECTORY_MAX], file[4200];
    int status = 0, traffic = private_file_create(path);
    snprintf(file, sizeof file, "%s/tests/%s", test_build(), program);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("HF_TRAFFIC", path, 1);
        setenv("HF_SEED", seed, 1);
        setenv("HF_SCHEDULES", schedules, 1);
        if (freopen("/dev/null", "w", stdout) == NULL || freopen("/dev/null", "w", stderr) == NULL)
            _exit(127);
        execl(file, file, test, (char *)NULL);
        _exit(127);
    }
    while (waitpid(pid, &status, 0) < 0)
        assert_int_equal(errno, EINTR);
    struct record record = record_of(traffic, file);
    unlink(path);
    return record;
}

/* --- saying it again ---------------------------------------------------------------------------------------------- */

/* Which connection a caller is; 0 = none. */
static uint64_t callers[TWIN_CALLERS];

static unsigned caller_of(uint64_t connection)
{
    unsigned caller = 0;
    while (caller < TWIN_CALLERS && callers[caller] != connection)
        caller++;
    for (unsigned i = 0; caller == TWIN_CALLERS && i < TWIN_CALLERS; i++)
        if (callers[i] == 0) {
            callers[i] = connection;
            caller = i;
        }
    assert_true(caller < TWIN_CALLERS);
    return caller;
}

static void caller_end(unsigned caller)
{
    twin_hang_up(twin, caller);
    callers[caller] = 0;
}

static void scripts_see(const char *bytes, size_t length)
{
    for (size_t i = 0; i < SCRIPTS; i++)
        was_seen[i] = was_seen[i] || memmem(bytes, length, script_at(i)->sha1, strlen(script_at(i)->sha1)) != NULL;
}

static void bytes_replace(char *bytes, size_t length, const char *before, const char *after)
{
    size_t size = strlen(before);
    for (char *at = bytes; (at = memmem(at, length - (size_t)(at - bytes), before, size)) != NULL; at += size)
        memcpy(at, after, size);
}

/* Clients have other ids here: these commands become unknown ones. (test_redis_model.c compares them.) */
static void ids_spoil(char *bytes, size_t length)
{
    bytes_replace(bytes, length, "CLIENT\r\n$4\r\nKILL\r\n", "CLIENT\r\n$4\r\nXILL\r\n");
    bytes_replace(bytes, length, "CLIENT\r\n$7\r\nUNBLOCK\r\n", "CLIENT\r\n$7\r\nXNBLOCK\r\n");
}

/* What a script draws by chance is nothing here, which makes another script of it. */
static void chance_spoil(char *bytes, size_t length)
{
    static const char draws[] = "try('SRANDMEMBER', KEYS[1])", nothing[] = "nil                        ";
    static struct digests {
        char before[DIGEST_TEXT_SIZE], after[DIGEST_TEXT_SIZE];
    } spoilt;
    if (spoilt.before[0] == '\0') {
        char *text = memory_text(queue_script_heartbeat.source);
        bytes_replace(text, queue_script_heartbeat.length, draws, nothing);
        digest_text(text, queue_script_heartbeat.length, spoilt.after);
        memcpy(spoilt.before, queue_script_heartbeat.sha1, sizeof spoilt.before);
        assert_string_not_equal(spoilt.before, spoilt.after);
        free(text);
    }
    bytes_replace(bytes, length, draws, nothing);
    bytes_replace(bytes, length, spoilt.before, spoilt.after);
}

static void bytes_say(const struct traffic *traffic, char *bytes)
{
    unsigned caller = caller_of(traffic->connection);
    scripts_see(bytes, traffic->length);
    ids_spoil(bytes, traffic->length);
    chance_spoil(bytes, traffic->length);

    twin_call(twin, caller, bytes, traffic->length, traffic->now_us);
}

static void server_restarts(enum server_memory memory)
{
    for (unsigned i = 0; i < TWIN_CALLERS; i++)
        if (callers[i] != 0)
            caller_end(i);
    twin_tell(twin, "SCRIPT FLUSH");
    if (memory == SERVER_EMPTY)
        twin_tell(twin, "FLUSHALL");
}

static void traffic_say(const struct traffic *traffic, char *bytes)
{
    switch ((enum traffic_kind)traffic->kind) {
    case TRAFFIC_SERVER:
    case TRAFFIC_ACCEPT:
        break;
    case TRAFFIC_BYTES:
        bytes_say(traffic, bytes);
        break;
    case TRAFFIC_HANG_UP:
        caller_end(caller_of(traffic->connection));
        break;
    case TRAFFIC_RESTART:
        server_restarts((enum server_memory)bytes[0]);
        break;
    case TRAFFIC_FULL:
        twin_tell(twin, bytes[0] ? "CONFIG SET maxmemory 1" : "CONFIG SET maxmemory 0");
        break;
    case TRAFFIC_EVICT:
        twin_add(twin, (const struct text[]){text_of("DEL"), {bytes, traffic->length}}, 2);
        twin_flush(twin);
        break;
    }
}

/* The server that begins at `at`, up to where another one has its number. */
static void server_play(const struct record *record, size_t at, bool is_profiled, const char *about)
{
    struct traffic first, traffic;
    memcpy(&first, record->bytes + at, sizeof first);
    memset(callers, 0, sizeof callers);
    twin_reset(twin, about);
    twin_pass(twin, first.now_us - twin_now_us(twin));
    for (size_t next = at + sizeof first + first.length; next < record->length;) {
        memcpy(&traffic, record->bytes + next, sizeof traffic);
        if (traffic.server == first.server && traffic.kind == TRAFFIC_SERVER)
            break;
        if (traffic.server == first.server)
            traffic_say(&traffic, record->bytes + next + sizeof traffic);
        next += sizeof traffic + traffic.length;
    }
    if (!is_profiled) /* else it would count what it takes to read all that is left */
        twin_compare_keys(twin);
}

/* All servers, one after another, or the one with this number. */
static void record_play(struct record record, uint32_t server, const char *about)
{
    for (size_t at = 0; at < record.length;) {
        struct traffic traffic;
        memcpy(&traffic, record.bytes + at, sizeof traffic);
        if (traffic.kind == TRAFFIC_SERVER && (server == ALL_SERVERS || server == traffic.server))
            server_play(&record, at, server != ALL_SERVERS, about);
        at += sizeof traffic + traffic.length;
    }
    munmap(record.bytes, record.length);
}

/* --- tests -------------------------------------------------------------------------------------------------------- */

/* What HF_RECORD names was written down before: the server of HF_SERVER is told the same, and ends in order, so that a
 * profiler around it (REDIS_SERVER) writes what it counted. For tests/bench/instructions. */
TEST(test_a_record_is_answered_alike)
{
    const char *path = getenv("HF_RECORD"), *server = getenv("HF_SERVER");
    if (path == NULL || server == NULL)
        test_skip("only for a record that HF_RECORD and HF_SERVER name");
    record_play(record_of(open(path, O_RDONLY | O_CLOEXEC), path), (uint32_t)strtoul(server, NULL, 10), path);
    kill(redis_server_pid(twin_server(twin)), SIGTERM);
    test_await(redis_server_is_gone(twin_server(twin)));
}

TEST(test_fleets_and_users_of_locks_hear_the_same)
{
    if (getenv("HF_RECORD") != NULL)
        test_skip("HF_RECORD names a record");
    char seed[32];
    const char *schedules = getenv("HF_SCHEDULES");
    snprintf(seed, sizeof seed, "%lld", (long long)time(NULL) / 86400);
    const char *drawn = getenv("HF_SEED") != NULL ? getenv("HF_SEED") : seed;
    print_message("seed %s\n", drawn);
    record_play(traffic_of("sim/test_fleets", NULL, drawn, schedules != NULL ? schedules : "2"), ALL_SERVERS, "fleets");
    record_play(traffic_of("sim/test_locks", NULL, drawn, schedules != NULL ? schedules : "3"), ALL_SERVERS, "locks");
}

TEST(test_what_tests_say_is_answered_alike)
{
    if (getenv("HF_RECORD") != NULL)
        test_skip("HF_RECORD names a record");
    /* Few, and together they run nearly all scripts. */
    static const char *const tests[] = {
        "test_waiting_lists",   "test_redlock_linger", "test_recovery",          "test_iteration",
        "test_redlock_edges",   "test_waiting_wakes",  "test_producer",          "test_backlog",
        "test_control",         "test_queue_leave",    "test_heartbeat_trouble", "test_redlock_fence",
        "test_follow_ups",      "test_crash_suspect",  "test_operate",           "test_periodic",
        "test_redlock_replant", "test_queue_repeats",  "test_redlock_shared"};
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
        record_play(traffic_of("virtual_tests", tests[i], "1", "1"), ALL_SERVERS, tests[i]);
}

static void line_say(const char *line)
{
    char name[64];
    if (sscanf(line, "EVALSHA !%63s", name) == 1)
        for (size_t i = 0; i < SCRIPTS; i++)
            was_seen[i] = was_seen[i] || strcmp(script_at(i)->name, name) == 0;
    twin_say(twin, line);
}

/* clang-format off */
/* What no test in virtual time says that can be compared; with an empty line six seconds pass. */
static const char *const by_hand[] = {
    "EVALSHA !dry_lease 2 runs run r1 me come 5 60000 2 tester l:",
    "EVALSHA !dry_lease 2 runs run r1 me stay 5 60000 2 tester l:",
    "EVALSHA !dry_lease 2 runs run r1 other come 5 60000 3 tester l:",
    "EVALSHA !dry_lease 2 runs run r1 other come 5 60000 2 tester l:",
    "EVALSHA !dry_lease 2 runs run r1 third come 5 60000 2 tester l:",
    "EVALSHA !dry_lease 2 runs run r1 me ready 5 60000 2 tester l:",
    "EVALSHA !dry_lease 2 runs run r1 me leave 5 60000 2 tester l:",
    "EVALSHA !dry_lease 2 runs none r2 me stay 5 60000 1 tester l:",
    "EVALSHA !dry_ended 1 runs 10",
    "EVALSHA !dry_take 2 runs run r1 other 5 60000",
    "EVALSHA !dry_take 2 runs run r1 me 1 60000",
    "EVALSHA !dry_forget 2 runs run r1 other",
    "PTTL runs",
    "HGETALL run",
    "",
    "EVALSHA !dry_ended 1 runs 10",
    "EVALSHA !dry_take 2 runs run r1 other 5 60000",
    "EVALSHA !dry_take 2 runs run r9 other 5 60000",
    "EVALSHA !dry_forget 2 runs run r1 other",
    "EVALSHA !dry_forget 2 runs run r1 other",
    "SET unique:a j1",
    "SET unique:b j2",
    "EVALSHA !operate_free 3 unique:a unique:b unique:c j1 j9 j3",
    "SET lock:x held PX 50000",
    "ZADD hf:fences 17 lock:x",
    "EVALSHA !holder 1 lock:x 100",
    "EVALSHA !holder 1 lock:x 2",
    "EVALSHA !holder 1 none 100",
    "ZRANGE hf:fences 0 -1 WITHSCORES",
    "LPUSH lock:l 1",
    "EVALSHA !holder 1 lock:l 100",
    "ZADD hf:fences 5 lock:y 18 lock:x 7 #0123",
    "EVALSHA !holder 1 lock:x 100",
    "SET hf:lock:group m",
    "EVALSHA !trim 1 hf:lock:group m 3 64",
    "EVALSHA !trim 1 hf:lock:group n 1 1",
    "EVALSHA !trim 1 hf:lock:group m 1 1",
    "GET hf:fences:floor",
    "EVALSHA !trim 1 hf:lock:group m 0 64",
    "GET hf:fences:floor",
    "ZADD hf:fences 9 lock:z",
    "EVALSHA !trim 1 hf:lock:group m 0 64",
    "GET hf:fences:floor",
    "SET hf:fences:floor none",
    "ZADD hf:fences 9 lock:z",
    "EVALSHA !trim 1 hf:lock:group m 0 64",
    "EXISTS hf:fences",
};
/* clang-format on */

TEST(test_the_other_scripts)
{
    if (getenv("HF_RECORD") != NULL)
        test_skip("HF_RECORD names a record");
    twin_reset(twin, "other scripts");
    for (size_t i = 0; i < SCRIPTS; i++)
        twin_add(
            twin,
            (const struct text[]){text_of("SCRIPT"), text_of("LOAD"), {script_at(i)->source, script_at(i)->length}}, 3);
    twin_flush(twin);
    for (size_t i = 0; i < sizeof by_hand / sizeof by_hand[0]; i++)
        if (by_hand[i][0] == '\0')
            twin_pass(twin, INT64_C(6000000));
        else
            line_say(by_hand[i]);
    twin_compare_keys(twin);
}

TEST(test_every_script_was_said)
{
    if (getenv("HF_RECORD") != NULL)
        test_skip("HF_RECORD names a record");
    for (size_t i = 0; i < SCRIPTS; i++)
        if (!was_seen[i])
            fail_msg("no client says %s", script_at(i)->name);
}

static int set_up(void **state)
{
    (void)state;
    twin = twin_create(NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    print_message("%llu replies were the same\n", twin_compared(twin));
    twin_destroy(twin);
    return 0;
}

RUN_GROUP(set_up, tear_down, NULL, NULL)
