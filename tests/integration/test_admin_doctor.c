/* holdfast doctor and cancel against a real server: every kind of finding is found, and nothing where all is well. */
#include "tests/support/admin_fixture.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "tests/support/lock_group.h"
#include "tests/support/stepped_clock.h"

#define FINDS(id) assert_contains(result.out, "\"id\":\"" id "\"")
#define LACKS(id) assert_lacks(result.out, "\"id\":\"" id "\"")

/* A living process of ours as it lists itself. */
static void given_worker(const char *identity, const char *queues)
{
    given_lease(identity, 600);
    given("SADD processes %s", identity);
    given("EVAL \"redis.call('HSET', KEYS[1], 'info', ARGV[1], 'beat', redis.call('TIME')[1], 'busy', 0)\" 1 %s "
          "'{\"version\":\"holdfast 0.9.0\",\"queues\":[%s]}'",
          identity, queues);
    given("HSET hf:2:process:%s queues default", identity);
}

TEST(a_healthy_node_gives_no_findings)
{
    given("CONFIG SET appendonly yes");
    given_worker("h:1:a", "\"default\",\"mail\"");
    given("SADD queues default mail");
    given("LPUSH queue:default '{\"class\":\"a\",\"args\":[]}'");
    given("ZADD retry 9e9 '{\"class\":\"a\",\"args\":[],\"queue\":\"mail\"}'");
    given("ZADD dead 9 '{\"class\":\"a\",\"args\":[],\"queue\":\"left\"}'");
    admin_good("doctor");
    assert_string_equal(result.out, "all is well\n");
    admin_good("doctor", "--json");
    assert_string_equal(result.out, "{\"healthy\":true,\"errors\":0,\"warnings\":0,\"notes\":0,\"findings\":[]}\n");
    given("CONFIG SET appendonly no");
}

TEST(a_class_that_nobody_serves_is_found)
{
    given("CONFIG SET appendonly yes");
    given_worker("h:1:a", "\"default\"");
    given("ZADD hf:2:unserved 9000000000 tomorrow");
    given("ZADD hf:2:unserved:tomorrow 9000000000 a 9000000000 b");
    admin_good("doctor"); /* h:1:a does not say what it serves */
    given("HSET h:1:a hf_classes echo");
    admin("doctor", "--json");
    given("CONFIG SET appendonly no");
    FINDS("class-unserved");
    assert_contains(result.out, "\"what\":\"no worker serves the class tomorrow: 2 tasks wait\"");
}

TEST(what_the_node_forgets_is_found)
{
    given_worker("h:1:a", "\"default\"");
    admin("doctor", "--json");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.out,
                    "{\"healthy\":false,\"errors\":1,\"warnings\":0,\"notes\":0,\"findings\":[{\"severity\":"
                    "\"error\",\"id\":\"persistence-off\",\"what\":\"the queue node writes nothing to its "
                    "disk (appendonly no, save \\\"\\\")\",\"why\":\"");
    given("CONFIG SET save \"900 1\"");
    given("CONFIG SET maxmemory-policy allkeys-lru");
    given("CONFIG SET maxmemory 1200000");
    admin("doctor", "--json");
    given("CONFIG SET save \"\"");
    given("CONFIG SET maxmemory-policy noeviction");
    given("CONFIG SET maxmemory 0");
    assert_int_equal(result.exit_code, 1);
    FINDS("snapshots-only");
    FINDS("eviction");
    FINDS("memory-full");
    LACKS("persistence-off");
    given("CONFIG SET appendonly yes");
    given("CONFIG SET appendfsync no");
    admin_good("doctor", "--json");
    given("CONFIG SET appendonly no");
    given("CONFIG SET appendfsync everysec");
    FINDS("fsync-off");
}

/* Refused is what PING says then, and whatever writes. */
static bool is_ping_answered(const char *begin)
{
    char *answer = redis_server_command(server, "PING");
    bool is_so = strncmp(answer, begin, strlen(begin)) == 0;
    free(answer);
    return is_so;
}

/* Its snapshot cannot take the place of a directory. */
TEST(a_node_that_cannot_write_to_its_disk_can_be_asked)
{
    char path[PRIVATE_DIRECTORY_MAX + 32];
    const struct timespec moment = {.tv_nsec = 20000000};
    char *place = redis_server_command(server, "CONFIG GET dir");
    snprintf(path, sizeof path, "%s/dump.rdb", strchr(place, '/'));
    path[strcspn(path, "\n")] = '\0';
    free(place);
    assert_int_equal(mkdir(path, 0700), 0);
    given("CONFIG SET save '3600 100000'");
    given("SET a 1");
    given("BGSAVE");
    while (!is_ping_answered("-MISCONF"))
        nanosleep(&moment, NULL);
    admin("status", "--check");
    assert_contains(result.out, "not well: the queue node cannot write to its disk and refuses writes; ");
    admin("doctor", "--json");
    FINDS("persistence-failing");
    admin("tasks", "list", "dead");
    assert_int_equal(result.exit_code, 0);
    assert_int_equal(rmdir(path), 0);
    given("SAVE"); /* it is well again */
    assert_true(is_ping_answered("PONG"));
    assert_int_equal(unlink(path), 0);
    given("CONFIG SET save ''");
}

TEST(a_replica_and_a_master_that_does_not_wait_are_found)
{
    char line[64];
    snprintf(line, sizeof line, "replicaof 127.0.0.1 %u\n", redis_server_port(server));
    struct redis_server *replica = redis_server_start(&(struct redis_server_options){.config = line});
    test_await(redis_server_info(server, "replication", "connected_slaves:") == 1);
    admin("doctor", "--json");
    FINDS("replicas-not-waited-for");
    given("CONFIG SET min-replicas-to-write 1");
    admin("doctor", "--json");
    given("CONFIG SET min-replicas-to-write 0");
    LACKS("replicas-not-waited-for");
    admin_config_write(redis_server_port(replica));
    admin("doctor", "--json");
    assert_int_equal(result.exit_code, 75); /* not even connected to */
    assert_contains(result.error, "is a replica of 127.0.0.1:");
    redis_server_destroy(replica);
}

TEST(settings_that_may_not_be_asked_for_are_unknown)
{
    struct redis_server *narrow = redis_server_start(&(struct redis_server_options){
        .acl = "user default on nopass ~* &* +@all -config\n", .config = "appendonly yes\n"});
    admin_config_write(redis_server_port(narrow));
    admin_good("doctor", "--json");
    assert_contains(result.out, "\"severity\":\"note\",\"id\":\"settings-unknown\"");
    redis_server_destroy(narrow);
}

TEST(dead_and_foreign_processes_are_found)
{
    admin("doctor", "--json");
    FINDS("no-workers");
    given_worker("h:1:a", "\"default\"");
    given_lease("h:2:b", -30);
    given("HSET hf:2:process:h:2:b queues default");
    given("SADD processes r:1:x s:1:y");
    given("HSET r:1:x info '{\"version\":\"7.3.10\",\"queues\":[\"own\",\"default\"]}'");
    given("HSET s:1:y info '{\"version\":\"8.1.0\",\"queues\":[\"own\"]}'");
    admin("doctor", "--json");
    assert_int_equal(result.exit_code, 1);
    LACKS("no-workers");
    LACKS("orphaned-claims"); /* the living one is about to recover it */
    assert_contains(result.out, "\"what\":\"r:1:x (version 7.3.10) serves the queue default, which is ours\"");
    assert_contains(result.out,
                    "\"what\":\"r:1:x (version 7.3.10) is a worker of another program, and so are 1 more\"");
    assert_lacks(result.out, "s:1:y");
    given("HSET s:1:y info '{\"version\":\"8.1.0\",\"queues\":[\"default\"]}'");
    admin("doctor", "--json");
    assert_contains(result.out, "r:1:x (version 7.3.10) serves the queue default, which is ours, and so do 1 more\"");
    given("DEL r:1:x");
    given("SREM processes r:1:x");
    admin("doctor", "--json");
    assert_contains(result.out, "\"what\":\"s:1:y (version 8.1.0) is a worker of another program\"");
    given_lease("h:2:b", -90);
    admin("doctor", "--json");
    FINDS("orphaned-claims");
    given("HSET hf:2:process:h:2:b gone 1default");
    admin("doctor", "--json");
    LACKS("orphaned-claims");
}

TEST(clocks_that_are_apart_are_found)
{
    given_worker("h:1:a", "\"default\"");
    given("EVAL \"redis.call('HSET', 'h:1:a', 'beat', redis.call('TIME')[1] + 100)\" 0");
    admin("doctor", "--json");
    assert_contains(result.out,
                    "\"id\":\"clock-offset-of-process\",\"what\":\"the clock of h:1:a is ahead of the queue "
                    "node's by ");
    LACKS("clock-offset");
    given("EVAL \"redis.call('HSET', 'h:1:a', 'beat', redis.call('TIME')[1] - 100)\" 0");
    admin("doctor", "--json");
    FINDS("heartbeat-late");
}

TEST(queues_and_entries_that_lead_nowhere_are_found)
{
    given_worker("h:1:a", "\"default\"");
    given("SADD queues default lonely clash");
    given("SADD paused default");
    given("LPUSH queue:lonely x");
    given("SET queue:clash foreign");
    given("ZADD schedule 9e9 '{\"class\":\"a\",\"args\":[],\"queue\":\"nowhere\"}' 9.1e9 nonsense "
          "9.2e9 '{\"class\":\"a\",\"args\":[]}'");
    given("ZADD dead 9 '{\"class\":\"hf.invalid\",\"args\":[\"x\"]}' 10 nonsense");
    given("SET retry foreign");
    admin("doctor", "--json");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.out, "\"what\":\"no worker serves the queue lonely: 1 task waits\"");
    assert_contains(result.out, "\"id\":\"queue-paused\",\"what\":\"the queue default is paused\"");
    FINDS("queue-key-clash");
    assert_contains(result.out, "\"what\":\"the key retry holds a string, where a zset should be\"");
    assert_contains(result.out, "\"what\":\"schedule holds tasks for the queue nowhere, which no process serves\"");
    assert_lacks(result.out, "queue default, which no process serves");
    assert_contains(result.out, "\"what\":\"1 of the first 3 entries of schedule are no tasks\"");
    assert_contains(result.out, "\"what\":\"2 of the first 2 entries of dead are no tasks\"");
}

TEST(foreign_values_under_shared_keys_are_found)
{
    given_worker("h:1:a", "\"default\"");
    given("DEL hf:2:process:h:1:a");
    given("MSET queues x paused y hf:2:process:h:1:a z");
    given("HSET stat:processed a b");
    admin("doctor", "--json");
    assert_int_equal(result.exit_code, 1);
    assert_string_equal(result.error, "");
    assert_contains(result.out, "\"what\":\"the key queues holds a string, where a set should be\"");
    assert_contains(result.out, "\"what\":\"the key paused holds a string, where a set should be\"");
    assert_contains(result.out, "\"what\":\"the key stat:processed holds a hash, where a string should be\"");
    assert_contains(result.out, "\"what\":\"the key hf:2:process:h:1:a holds something else, where a hash");
}

#define FILL "EVAL \"for i = ARGV[1], ARGV[2] do redis.call('ZADD', 'dead', i, 'x' .. i) end\" 0 %d %d"

TEST(a_grave_that_is_nearly_full_is_a_note)
{
    given(FILL, 1, 8999);
    admin("doctor", "--json");
    LACKS("dead-nearly-full");
    given(FILL, 9000, 9001);
    admin("doctor", "--json");
    assert_contains(result.out,
                    "\"severity\":\"note\",\"id\":\"dead-nearly-full\",\"what\":\"dead has 9,001 entries; it "
                    "keeps 9999, for 180 days\"");
    LACKS("dead-full");
    given(FILL, 9002, 9999);
    admin("doctor", "--json");
    FINDS("dead-full");
    LACKS("dead-nearly-full");
}

TEST(keys_that_belong_to_nobody_are_found)
{
    given_worker("h:1:a", "\"default\"");
    given("LPUSH hf:2:bell:h:1:a:q:1 task");
    given("HSET hf:2:process:g:9:z 0 0123456789abcdef");
    given("LPUSH hf:2:bell:g:9:z:q:1 task");
    given("MSET hf:2:unique:x 1 hf:2:receipt:y 1 hf:7:process:h:1:a 1");
    admin("doctor", "--json");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.out, "the key hf:2:process:g:9:z belongs to no process that is listed");
    assert_contains(result.out, "the key hf:2:bell:g:9:z:q:1 belongs to no process that is listed");
    assert_lacks(result.out, "the key hf:2:process:h:1:a ");
    assert_lacks(result.out, "the key hf:2:bell:h:1:a:q:1 ");
    assert_contains(result.out, "1 key below hf: that this version does not know, hf:7:process:h:1:a");
}

TEST(the_scan_has_a_budget)
{
    given_worker("h:1:a", "\"default\"");
    given("EVAL \"for i = 1, 20000 do redis.call('SET', 'k' .. i, 1) end\" 0");
    given("CONFIG RESETSTAT");
    admin("doctor", "--json", "--key-limit", "5000");
    FINDS("scan-cut");
    assert_int_equal(redis_server_calls(server, "scan"), 5);
    assert_int_equal(redis_server_calls(server, "keys"), 0);
    assert_int_equal(redis_server_calls(server, "smembers"), 0);
    admin("doctor", "--json");
    LACKS("scan-cut");
}

static void lock_node_add(unsigned port)
{
    FILE *file = fopen(admin_config, "ae");
    assert_non_null(file);
    fprintf(file, "lock_nodes = ( { host = \"127.0.0.1\"; port = %u; } );\n", port);
    assert_int_equal(fclose(file), 0);
}

TEST(lock_nodes_are_asked_too)
{
    lock_node_add(free_port());
    admin("doctor", "--json");
    assert_int_equal(result.exit_code, 1);
    FINDS("lock-node-unreachable");
    assert_contains(result.out, "\"what\":\"0 of 1 lock nodes vote: tasks with locks are not started (lock1: ");
    assert_lacks(result.out, "Locks go on");
    struct redis_server *full = redis_server_start(&(struct redis_server_options){.config = "maxmemory 1\n"});
    admin_config_write(redis_server_port(server));
    lock_node_add(redis_server_port(full));
    admin("doctor", "--json");
    FINDS("lock-node-refuses");
    FINDS("lock-majority-unreachable");
    assert_contains(result.out, "lock1 refuses a lock below lock.prefix \\\"\\\": OOM");
    redis_server_destroy(full);
}

/* A server's clock that runs ahead of ours by so much of the time, from now on. */
struct fast_clock {
    char path[PRIVATE_DIRECTORY_MAX];
    _Atomic int64_t *offset_ns; /* stepped_clock.h */
    double share;
    int over; /* an eventfd */
    pthread_t thread;
};

static void *clock_runs(void *context)
{
    struct fast_clock *clock = context;
    struct pollfd over = {.fd = clock->over, .events = POLLIN};
    for (struct instant began = instant_now(); poll(&over, 1, 1) == 0;)
        atomic_store(clock->offset_ns, (int64_t)((double)instant_since(began, instant_now()) * clock->share));
    return NULL;
}

static struct redis_server *start_with_clock(struct fast_clock *clock)
{
    int file = private_file_create(clock->path);
    assert_int_equal(ftruncate(file, sizeof *clock->offset_ns), 0);
    clock->offset_ns = mmap(NULL, sizeof *clock->offset_ns, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    assert_ptr_not_equal(clock->offset_ns, MAP_FAILED);
    close(file);
    stepped_clock_enter(clock->path);
    struct redis_server *started = redis_server_start(&(struct redis_server_options){.config = ""});
    stepped_clock_leave();
    return started;
}

/* What doctor says of a clock that runs so; a busy machine blurs one comparison, so it is asked until it is sure. */
static void doctor_on_clock(struct fast_clock *clock, double share, const char *says)
{
    clock->share = share;
    clock->over = eventfd(0, EFD_CLOEXEC);
    assert_int_equal(pthread_create(&clock->thread, NULL, clock_runs, clock), 0);
    struct instant patience = instant_after(instant_now(), TEST_PATIENCE_NS);
    do
        admin("doctor", "--json");
    while (strstr(result.out, says) == NULL && instant_before(instant_now(), patience));
    assert_int_equal(eventfd_write(clock->over, 1), 0);
    assert_int_equal(pthread_join(clock->thread, NULL), 0);
    close(clock->over);
    assert_contains(result.out, says);
    assert_lacks(result.out, "lock1's clock");
    assert_lacks(result.out, "lock3's clock");
    assert_int_equal(result.exit_code, 1);
}

TEST(a_clock_of_a_lock_node_beyond_the_promised_rate_is_found)
{
    struct fast_clock clock = {.share = 0};
    struct redis_server *nodes[3] = {redis_server_start(&(struct redis_server_options){.config = ""}),
                                     start_with_clock(&clock),
                                     redis_server_start(&(struct redis_server_options){.config = ""})};
    lock_group_make(nodes, 3, 60000);
    FILE *file = fopen(admin_config, "ae");
    assert_non_null(file);
    fprintf(file, "lock_nodes = (");
    for (unsigned i = 0; i < 3; i++)
        fprintf(file, "%s { host = \"127.0.0.1\"; port = %u; }", i > 0 ? "," : "", redis_server_port(nodes[i]));
    fprintf(file, " );\n");
    assert_int_equal(fclose(file), 0);
    given_worker("h:1:a", "\"default\"");
    given("CONFIG SET appendonly yes");
    admin_good("doctor", "--json");
    LACKS("lock-clock-rate");
    LACKS("host-clock-rate");
    doctor_on_clock(&clock, 0.15, "\"id\":\"lock-clock-rate\",\"what\":\"lock2's clock runs 1");
    assert_contains(result.out, " ppm faster than ours (at least; lock.drift_factor allows 10000)");
    doctor_on_clock(&clock, -0.15, " ppm slower than ours (at least; lock.drift_factor allows 10000)");
    given("CONFIG SET appendonly no");
    munmap((void *)clock.offset_ns, sizeof *clock.offset_ns);
    unlink(clock.path);
    for (unsigned i = 0; i < 3; i++)
        redis_server_destroy(nodes[i]);
}

TEST(findings_cannot_steer_a_terminal)
{
    given("SADD queues \"q\\x1b[31m\"");
    given("LPUSH \"queue:q\\x1b[31m\" x");
    given("SADD processes \"p\\x1b[31m\"");
    given("HSET \"p\\x1b[31m\" info '{\"version\":\"\\u001b[2J\",\"queues\":[\"default\"]}'");
    admin("doctor");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.out, "(foreign-worker-on-our-queues)");
    assert_lacks(result.out, "\x1b");
    admin("doctor", "--json");
    assert_lacks(result.out, "\x1b");
}

/* --- cancel ------------------------------------------------------------------------------------------------------ */

TEST(a_cancelled_task_is_marked_and_everybody_is_called)
{
    given_lease("h:1:a", 600);
    given_lease("h:2:b", 600);
    given_lease("h:3:dead", -600);
    given_lease("h:4:recovered", 600);
    given("HSET hf:2:process:h:4:recovered gone 1default");
    given("ZADD retry 9000000000 '{\"class\":\"a\",\"args\":[],\"jid\":\"j1\"}'");
    given("SADD queues q");
    given("LPUSH queue:q '{\"class\":\"a\",\"args\":[],\"jid\":\"j2\"}'");
    admin_good("cancel", "j1", "j2", "--json");
    assert_string_equal(result.out, "{\"cancelled\":[\"j1\",\"j2\"],\"unknown\":[],\"processes_called\":2}\n");
    assert_reply(server, "CANCEL j2\nCANCEL j1", "LRANGE hf:2:calls:h:1:a 0 -1");
    assert_reply(server, "CANCEL j2\nCANCEL j1", "LRANGE hf:2:calls:h:2:b 0 -1");
    assert_reply(server, "0", "EXISTS hf:2:calls:h:3:dead hf:2:calls:h:4:recovered");
    assert_reply(server, "j1\nj2", "ZRANGE hf:2:cancels 0 -1");
    char *first = redis_server_command(server, "HGET it-j1 cancelled");
    assert_true(strtoll(first, NULL, 10) > 1000000000);
    admin_good("cancel", "j1");
    assert_string_equal(result.out, "j1 is to be cancelled\n2 processes were called\n");
    assert_reply(server, first, "HGET it-j1 cancelled"); /* the first mark stays */
    free(first);
    admin("cancel", "nobody", "j1");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error,
                    "nobody is nowhere: it ended before, or was never pushed; if it is pushed within a day");
    assert_string_equal(result.out, "j1 is to be cancelled\n2 processes were called\n");
    admin("cancel", "nobody", "--json");
    assert_int_equal(result.exit_code, 1);
    assert_string_equal(result.out, "{\"cancelled\":[],\"unknown\":[\"nobody\"],\"processes_called\":2}\n");
    assert_reply(server, "1", "EXISTS it-nobody"); /* it may be pushed later */
    given("SET hf:2:result:done '{\"jid\":\"done\",\"class\":\"a\",\"ended_at\":1000.25,\"result\":1}'");
    admin("cancel", "done");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "done had ended before, at 1970-01-01T00:16:40Z");
    given("SET hf:2:result:over '{\"jid\":\"over\",\"class\":\"a\",\"ended_at\":1000.25,\"cancelled\":true}'");
    admin_good("cancel", "over"); /* the call was faster than the look */
    given("LPUSH queue:q '{\"class\":\"a\",\"args\":[],\"jid\":\"j3\"}'");
    admin("cancel", "j2", "j3", "--scan-limit=1"); /* not all was looked at */
    assert_int_equal(result.exit_code, 0);
    assert_contains(result.error, "looked through 1 entries of queue q");
    given("ZADD dead 1000 '{\"class\":\"a\",\"args\":[],\"jid\":\"late\"}'");
    given("ZADD dead 1000 '{\"class\":\"a\",\"args\":[],\"jid\":\"j1\"}'"); /* an earlier one of that jid */
    admin("cancel", "late", "j1", "--json");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "late is dead, so there is nothing to cancel; if it is retried within a day, it does "
                                  "not start. `holdfast tasks delete late --state dead` takes it away");
    assert_lacks(result.error, "j1");
    assert_string_equal(result.out, "{\"cancelled\":[\"j1\"],\"unknown\":[\"late\"],\"processes_called\":2}\n");
    assert_reply(server, "1", "EXISTS it-late");
    admin("cancel", "not\ta jid");
    assert_int_equal(result.exit_code, 2);
    admin("cancel");
    assert_int_equal(result.exit_code, 2);
}

/* Of a dry run that was killed, while another one goes on. */
TEST(what_a_dry_run_has_left_is_found)
{
    given_worker("h:1:a", "\"default\"");
    given("ZADD hf:2:dry:runs 9e9 aaaaaaaaaaaa");
    given("LPUSH hf:2:dry:aaaaaaaaaaaa:queue:one task");
    given("HSET hf:2:dry:aaaaaaaaaaaa:hf:2:process:h:9:z 0 task");
    admin("doctor", "--json");
    LACKS("dry-run-left");
    LACKS("orphaned-key");
    given("ZADD hf:2:dry:runs 1000 aaaaaaaaaaaa");
    admin("doctor", "--json");
    FINDS("dry-run-left");
    assert_contains(result.out, "the dry run aaaaaaaaaaaa is over and was not cleaned up; 2 of its keys were met");
    given("DEL hf:2:dry:runs");
    admin("doctor", "--json");
    FINDS("dry-run-left");
    given("DEL hf:2:dry:aaaaaaaaaaaa:queue:one hf:2:dry:aaaaaaaaaaaa:hf:2:process:h:9:z");
    given("ZADD hf:2:dry:runs 1000 bbbbbbbbbbbb");
    admin("doctor", "--json");
    assert_contains(result.out, "the dry run bbbbbbbbbbbb is over and was not cleaned up; 0 of its keys were met");
}

RUN_ADMIN_TESTS
