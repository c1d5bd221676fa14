/* Two workers of the built program with terms that break exclusion: the second waits, says so everywhere, and begins by
 * itself when the first has ended. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/support/one_fleet.h"
#include "tests/support/program_run.h"

static const struct fleet_setup ours, theirs = {.lock = "ttl = \"2s\"; prefix = \"other:\";"};

static long long announced(void)
{
    return fleet_number(&fleet, "EVAL \"local count = 0 for _, identity in ipairs(redis.call('ZRANGE', "
                                "'hf:2:processes', 0, -1)) do count = count + redis.call('HEXISTS', "
                                "'hf:2:process:' .. identity, 'terms') end return count\" 0");
}

/* Until it has said by which terms it runs. */
static unsigned start(const struct fleet_setup *setup)
{
    long long before = announced();
    unsigned worker = fleet_work(&fleet, setup);
    test_await(announced() == before + 1);
    return worker;
}

/* With the configuration of a worker. */
static void assert_says(const char *command, unsigned worker, int exit_code, const char *text)
{
    char line[PRIVATE_DIRECTORY_MAX + 64];
    snprintf(line, sizeof line, "%s -c %s/%s.conf", command, fleet.directory, fleet.workers[worker].name);
    struct program_result result = program_run(line);
    if (result.exit_code != exit_code || strstr(result.out, text) == NULL)
        fail_msg("%s: exit code %d, without \"%s\": %s%s", command, result.exit_code, text, result.out, result.error);
    program_result_free(&result);
}

static bool program_says_well(unsigned worker)
{
    char line[PRIVATE_DIRECTORY_MAX + 64];
    snprintf(line, sizeof line, "status --check -c %s/%s.conf", fleet.directory, fleet.workers[worker].name);
    struct program_result result = program_run(line);
    bool is_well = result.exit_code == 0;
    program_result_free(&result);
    return is_well;
}

#define WAITS        "terms_wait advice=\"not served until all with other terms have ended\" "
#define WAITS_STATUS "STATUS=waits until all with other terms have ended: locks: in lock group "
#define EFFICIENT    "{ class = \"guarded\"; mode = \"efficiency\"; }"

static void push_guarded(const char *jid, unsigned milliseconds)
{
    fleet_push(&fleet, "{\"class\":\"guarded\",\"args\":[%u],\"jid\":\"%s\",\"resource\":\"r\"}", milliseconds, jid);
}

TEST(a_worker_with_another_prefix_waits_until_the_last_with_the_former_has_ended)
{
    push_guarded("one", 1000);
    unsigned first = start(&ours);
    test_await(fleet_noted(&fleet, "begin one") == 1);
    unsigned second = start(&theirs);
    test_await(fleet_logged(&fleet, second, WAITS "item=locks here=\"in lock group "));
    assert_true(fleet_logged(&fleet, second, "below \\\"other:\\\"\" there=\"in lock group "));
    push_guarded("two", 0);
    test_await(fleet_noted(&fleet, "end two") == 1);
    assert_says("status --check", first, 1, "not well: locks: in lock group ");
    assert_says("doctor --json", first, 1, "\"id\":\"terms-break\"");
    fleet_signal(&fleet, first, SIGTSTP); /* it may still run tasks */
    push_guarded("three", 0);
    test_await(fleet_logged(&fleet, second, "terms_wait"));
    assert_int_equal(fleet_noted(&fleet, "begin three"), 0);
    one_fleet_stop(first);
    test_await(fleet_noted(&fleet, "end three") == 1);
    assert_true(fleet_logged(&fleet, second, "terms_served"));
    one_fleet_stop(second);
    assert_int_equal(fleet_left(&fleet), 0);
}

TEST(a_class_that_locks_something_else_waits_and_others_are_served)
{
    static const struct fleet_setup made = {.classes = "{ class = \"guarded\"; resource = \"made:{0}\"; }"};
    unsigned first = start(&ours);
    unsigned second = start(&made);
    test_await(fleet_logged(&fleet, second, WAITS "item=\"class guarded\" here=\"a lock on "));
    fleet_signal(&fleet, first, SIGTSTP);
    test_await(fleet_logged(&fleet, first, "worker_quiet"));
    push_guarded("one", 0);
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[],\"jid\":\"other\"}");
    test_await(fleet_noted(&fleet, "end other") == 1);
    assert_int_equal(fleet_noted(&fleet, "begin one"), 0);
    one_fleet_stop(first);
    test_await(fleet_noted(&fleet, "end one") == 1);
    one_fleet_stop(second);
}

/* The task has waited for long, so that it is put off for 15 s and more. */
TEST(a_drain_waits_for_what_it_put_off_itself)
{
    static const struct fleet_setup made = {.classes = "{ class = \"guarded\"; resource = \"made:{0}\"; }",
                                            .arguments = "--drain"};
    fleet_push(&fleet, "{\"class\":\"guarded\",\"args\":[0],\"jid\":\"late\",\"resource\":\"r\",\"hf_parked\":1000}");
    unsigned first = start(
        &(struct fleet_setup){.classes = "{ class = \"guarded\"; resource = \"first:{0}\"; }", .queues = "\"others\""});
    unsigned second = fleet_work(&fleet, &made);
    test_await(fleet_number(&fleet, "ZCARD schedule") == 1);
    one_fleet_stop(first);
    assert_int_equal(fleet_wait(&fleet, second), 0);
    assert_int_equal(fleet_noted(&fleet, "end late"), 1);
    assert_int_equal(fleet_left(&fleet), 0);
}

/* The queue node may be one of them. */
TEST(a_worker_with_another_single_lock_node_waits_until_the_first_has_ended)
{
    char here[128], there[128];
    struct redis_server *lone = redis_server_start(NULL);
    snprintf(here, sizeof here, "{ host = \"127.0.0.1\"; port = %u; }", redis_server_port(fleet.queue));
    snprintf(there, sizeof there, "{ host = \"127.0.0.1\"; port = %u; }", redis_server_port(lone));
    struct fleet_setup one = {.lock_nodes = here, .classes = EFFICIENT}, other = one;
    other.lock_nodes = there;
    push_guarded("one", 1000);
    unsigned first = start(&one);
    test_await(fleet_noted(&fleet, "begin one") == 1);
    unsigned second = start(&other);
    test_await(fleet_logged(&fleet, second, WAITS "item=locks here=\"on the single lock node "));
    assert_says("status --check", first, 1, "not well: locks: on the single lock node ");
    assert_says("doctor --json", first, 1, "\"id\":\"terms-break\"");
    assert_says("check --json", second, 0, "locks: on the single lock node ");
    fleet_signal(&fleet, first, SIGTSTP);
    push_guarded("two", 0);
    test_await(fleet_noted(&fleet, "end one") == 1);
    assert_int_equal(fleet_noted(&fleet, "begin two"), 0);
    one_fleet_stop(first);
    test_await(fleet_noted(&fleet, "end two") == 1);
    /* a worker beside it has the same, also after the node has lost its memory */
    unsigned third = start(&other);
    redis_server_kill(lone);
    redis_server_restart(lone);
    push_guarded("three", 0);
    test_await(fleet_noted(&fleet, "end three") == 1);
    test_await(program_says_well(second));
    one_fleet_stop(second);
    one_fleet_stop(third);
    redis_server_destroy(lone);
}

/* It says nothing about locks, and so is in nobody's way, until it knows where they are. */
TEST(a_single_lock_node_that_cannot_be_reached_says_nothing_until_it_is)
{
    char there[128];
    struct redis_server *lone = redis_server_start(NULL);
    redis_server_kill(lone);
    snprintf(there, sizeof there, "{ host = \"127.0.0.1\"; port = %u; }", redis_server_port(lone));
    unsigned first = start(&(struct fleet_setup){.lock_nodes = there, .classes = EFFICIENT});
    unsigned second = start(&ours);
    push_guarded("one", 0);
    test_await(fleet_noted(&fleet, "end one") == 1);
    assert_false(fleet_logged(&fleet, second, "terms_wait"));
    redis_server_restart(lone);
    test_await(fleet_logged(&fleet, first, WAITS "item=locks here=\"on the single lock node "));
    one_fleet_stop(second);
    test_await(fleet_logged(&fleet, first, "terms_served"));
    one_fleet_stop(first);
    redis_server_destroy(lone);
}

/* Until it says this; what comes before is of the start, or says the same again. */
static void await_status(int manager, const char *text)
{
    static char message[2048];
    do {
        ssize_t length = -1;
        test_await((length = recv(manager, message, sizeof message - 1, 0)) > 0);
        message[length] = '\0';
    } while (strncmp(message, text, strlen(text)) != 0);
    assert_int_equal(strstr(text, WAITS_STATUS) != NULL, strstr(message, " does not serve this until ") != NULL);
}

TEST(the_service_manager_shows_what_a_worker_waits_for)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/notify", fleet.directory);
    int manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(manager, (struct sockaddr *)&address, sizeof address), 0);
    unsigned first = start(&ours);
    setenv("NOTIFY_SOCKET", address.sun_path, 1);
    unsigned second = start(&theirs);
    unsetenv("NOTIFY_SOCKET");
    await_status(manager, WAITS_STATUS);
    fleet_signal(&fleet, second, SIGHUP);
    await_status(manager, "READY=1\n" WAITS_STATUS);
    one_fleet_stop(first);
    await_status(manager, "STATUS=running");
    one_fleet_stop(second);
    close(manager);
}

TEST(check_warns_of_what_a_worker_would_wait_for)
{
    unsigned first = start(&ours);
    fleet_configure(&fleet, first, &theirs);
    assert_says("check --json", first, 0, "\"warnings\":[\"locks: in lock group ");
    fleet_configure(&fleet, first, &ours);
    assert_says("status --check", first, 0, "well: ");
    one_fleet_stop(first);
}

TEST(terms_that_only_disturb_are_told)
{
    unsigned first = start(&ours);
    unsigned second = start(&(struct fleet_setup){.classes = "{ class = \"guarded\"; max_hold = \"1m\"; }"});
    test_await(fleet_logged(&fleet, second,
                            "terms_differ advice=\"give all workers the same\" item=\"class guarded\" here=\"mode "));
    assert_says("status", first, 0, "warning: class guarded: mode ");
    assert_says("doctor --json", first, 0, "\"id\":\"terms-differ\"");
    one_fleet_stop(first);
    one_fleet_stop(second);
}

RUN_FLEET_TESTS
