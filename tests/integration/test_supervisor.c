/* Workers that crash, and `holdfast work --processes`: who did it is named, the process is started again, the others go
 * on. */
#include "tests/support/test.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "tests/support/one_fleet.h"

#define IN_A_THREAD "{ class = \"restless\"; isolation = \"thread\"; }"

static const struct fleet_setup alone = {
    .plugin = "restless", .threads = 2, .crashes = true, .worker = "lease = \"1s\";", .classes = IN_A_THREAD};
static const struct fleet_setup pair = {.plugin = "restless",
                                        .threads = 2,
                                        .worker = "lease = \"1s\"; stop_timeout = \"100ms\";",
                                        .classes = IN_A_THREAD,
                                        .arguments = "--processes 2"};

static void push(const char *act, const char *jid)
{
    fleet_push(&fleet, "{\"class\":\"restless\",\"args\":[\"%s\",0],\"jid\":\"%s\"}", act, jid);
}

/* Of the process's latest start. */
static pid_t pid_of(unsigned worker, unsigned process)
{
    char *log = fleet_log(&fleet, worker);
    char started[64], restarted[64];
    pid_t pid = 0;
    snprintf(started, sizeof started, "process_started process=%u pid=", process);
    snprintf(restarted, sizeof restarted, "process_restarted process=%u pid=", process);
    for (char *at = log; (at = strstr(at, "started process=")) != NULL; at++) {
        if (at - log < 10)
            continue;
        const char *first = strstr(at - 8, started), *again = strstr(at - 10, restarted);
        if (first == at - 8)
            pid = (pid_t)strtol(first + strlen(started), NULL, 10);
        if (again == at - 10)
            pid = (pid_t)strtol(again + strlen(restarted), NULL, 10);
    }
    free(log);
    return pid;
}

static void await_ready(unsigned worker)
{
    test_await(fleet_logged(&fleet, worker, "supervisor_ready"));
}

/* Asks until the tasks, which do not end, have each said once that they run. */
static void await_running(unsigned worker, const char *const *jids, unsigned count)
{
    struct instant patience = instant_after(instant_now(), TEST_PATIENCE_NS);
    for (unsigned i = 0; i < count;) {
        char jid[64];
        snprintf(jid, sizeof jid, " jid=%s class=restless queue=jobs seconds=", jids[i]);
        i += fleet_logged(&fleet, worker, jid);
        if (i == count)
            return;
        if (instant_reached(instant_now(), patience))
            fail_msg("%s does not run", jids[i]);
        fleet_signal(&fleet, worker, SIGTTIN);
        poll(NULL, 0, 20);
    }
}

/* --- who did it --------------------------------------------------------------------------------------------------- */

/* A sanitizer turns signals into an exit of its own. */
static void assert_killed(int status, int signal)
{
    if (status >= 0)
        assert_int_not_equal(status, 0);
    else
        assert_int_equal(status, -signal);
}

static void crash_is_named(const char *act, int number, const char *name)
{
    char culprit[200];
    push(act, act);
    unsigned worker = fleet_work(&fleet, &alone);
    assert_killed(fleet_wait(&fleet, worker), number);
    snprintf(culprit, sizeof culprit, " signal=%s slot=", name);
    test_await(fleet_logged(&fleet, worker, culprit));
    snprintf(culprit, sizeof culprit, " jid=%s class=restless", act);
    char *log = fleet_log(&fleet, worker), *line = strstr(log, "worker_crashed pid=");
    assert_non_null(line);
    strchrnul(line, '\n')[0] = '\0';
    assert_contains(line, culprit);
    free(log);
    test_await(fleet_logged(&fleet, worker, "task_was_running "));
}

TEST(a_write_to_nowhere_is_named)
{
    crash_is_named("nowhere", SIGSEGV, "SIGSEGV");
}

TEST(a_stack_that_is_used_up_is_named)
{
    crash_is_named("deep", SIGSEGV, "SIGSEGV");
}

TEST(an_abort_is_named)
{
    crash_is_named("abort", SIGABRT, "SIGABRT");
}

TEST(a_signal_that_a_handler_sends_itself_is_named)
{
    crash_is_named("segv", SIGSEGV, "SIGSEGV");
}

/* Among several that run, the one that did it. */
TEST(the_others_that_ran_are_not_named)
{
    push("listen", "innocent");
    unsigned worker = fleet_work(&fleet, &alone);
    test_await(fleet_logged(&fleet, worker, "worker_started "));
    await_running(worker, &(const char *){"innocent"}, 1);
    push("nowhere", "guilty");
    assert_killed(fleet_wait(&fleet, worker), SIGSEGV);
    test_await(fleet_logged_times(&fleet, worker, "task_was_running ") == 2);
    char *log = fleet_log(&fleet, worker), *line = strstr(log, "worker_crashed pid=");
    assert_non_null(line);
    strchrnul(line, '\n')[0] = '\0';
    assert_contains(line, "jid=guilty class=restless");
    free(log);
    assert_true(fleet_logged(&fleet, worker, "jid=innocent class=restless"));
}

/* Each time another task kills the worker, which stays in a queue that the next one does not serve. */
TEST(who_ran_beside_a_culprit_is_not_blamed)
{
    struct fleet_setup steady = alone; /* who stands still for less than the lease does not lose its task */
    steady.worker = "lease = \"4s\";";
    push("listen", "innocent");
    for (unsigned death = 1; death <= 3; death++) {
        char queues[64], noted[64];
        struct fleet_setup setup = steady;
        snprintf(queues, sizeof queues, "\"jobs\", \"crash%u\"", death);
        snprintf(noted, sizeof noted, "culprit_noted jid=guilty%u\n", death);
        setup.queues = queues;
        unsigned worker = fleet_work(&fleet, &setup);
        test_await(fleet_logged(&fleet, worker, "worker_started "));
        await_running(worker, &(const char *){"innocent"}, 1);
        free(fleet_ask(&fleet,
                       "LPUSH queue:crash%u '{\"class\":\"restless\",\"args\":[\"nowhere\",0],\"jid\":\"guilty%u\"}'",
                       death, death));
        assert_killed(fleet_wait(&fleet, worker), SIGSEGV);
        test_await(fleet_logged(&fleet, worker, noted));
    }
    unsigned worker = fleet_work(&fleet, &steady);
    test_await(fleet_logged(&fleet, worker, "task_recovered jid=innocent")); /* not buried */
    await_running(worker, &(const char *){"innocent"}, 1);
    assert_int_equal(fleet_number(&fleet, "ZCARD dead"), 0);
    assert_int_equal(fleet_number(&fleet, "HLEN hf:2:recovered:innocent"), 3);
    assert_int_equal(fleet_number(&fleet, "HLEN hf:2:recovered:guilty3"), 1);
}

/* Whatever status it asked for: a service manager starts again who failed. */
static void exit_is_a_failure_and_named(const struct fleet_setup *setup, const char *who)
{
    unsigned worker = fleet_work(&fleet, setup);
    assert_int_equal(fleet_wait(&fleet, worker), 1);
    test_await(fleet_logged(&fleet, worker, "worker_died pid="));
    char *log = fleet_log(&fleet, worker), *line = strstr(log, "worker_died pid=");
    strchrnul(line, '\n')[1] = '\0';
    assert_contains(line, " by=exit");
    assert_contains(line, who);
    free(log);
}

TEST(a_handler_that_calls_exit_is_named)
{
    push("exit", "quitter");
    exit_is_a_failure_and_named(&alone, " jid=quitter class=restless\n");
    free(fleet_ask(&fleet, "FLUSHALL"));
    push("quick_exit", "quick quitter");
    exit_is_a_failure_and_named(&alone, " jid=\"quick quitter\" class=restless\n");
}

TEST(a_plugin_that_does_not_survive_its_opening_is_named)
{
    struct fleet_setup opening = alone;
    opening.settings = "opening = \"exit\";";
    exit_is_a_failure_and_named(&opening, " by=exit plugin=restless\n");
    opening.settings = "opening = \"crash\";";
    unsigned worker = fleet_work(&fleet, &opening);
    assert_killed(fleet_wait(&fleet, worker), SIGABRT);
    test_await(fleet_logged(&fleet, worker, " signal=SIGABRT plugin=restless\n"));
}

/* The first thread of that name; 0 = there is none. */
static long thread_of(pid_t pid, const char *name)
{
    char path[64], found[32];
    long thread = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    assert_non_null(threads);
    for (const struct dirent *entry; thread == 0 && (entry = readdir(threads)) != NULL;) {
        snprintf(path, sizeof path, "/proc/%d/task/%.20s/comm", (int)pid, entry->d_name);
        FILE *file = fopen(path, "re");
        if (file != NULL && fgets(found, sizeof found, file) != NULL && strncmp(found, name, strlen(name)) == 0)
            thread = strtol(entry->d_name, NULL, 10);
        if (file != NULL)
            fclose(file);
    }
    closedir(threads);
    return thread;
}

/* Somebody else's signal is no handler's doing, also when it hits the thread of one. */
TEST(a_signal_from_outside_names_nobody)
{
    struct fleet_setup single = alone;
    single.threads = 1;
    push("listen", "innocent");
    unsigned worker = fleet_work(&fleet, &single);
    test_await(fleet_logged(&fleet, worker, "worker_started "));
    await_running(worker, &(const char *){"innocent"}, 1);
    pid_t pid = fleet.workers[worker].pid;
    assert_int_equal(syscall(SYS_tgkill, pid, thread_of(pid, "hf-run-1"), SIGABRT), 0);
    assert_killed(fleet_wait(&fleet, worker), SIGABRT);
    test_await(fleet_logged(&fleet, worker, "task_was_running "));
    assert_true(fleet_logged(&fleet, worker, "signal=SIGABRT\n"));
    assert_false(fleet_logged(&fleet, worker, "signal=SIGABRT slot="));
}

/* --- started again ------------------------------------------------------------------------------------------------ */

TEST(a_poisonous_task_ends_up_dead_and_the_others_are_done)
{
    push("nowhere", "killer");
    unsigned worker = fleet_work(&fleet, &pair);
    for (unsigned i = 0; i < 20; i++)
        fleet_push(&fleet, "{\"class\":\"restless\",\"args\":[\"ok\",0],\"jid\":\"t%u\"}", i);
    test_await(fleet_number(&fleet, "ZCARD dead") == 1);
    test_await(fleet_left(&fleet) == 1);
    char *dead = fleet_ask(&fleet, "ZRANGE dead 0 -1");
    assert_contains(dead, "\"jid\":\"killer\"");
    assert_contains(dead, "\"error_class\":\"HF::PoisonPill\"");
    free(dead);
    await_ready(worker);
    test_await(fleet_logged_times(&fleet, worker, "restarted_after_crash ") == 3);
    one_fleet_stop(worker);
    assert_int_equal(fleet_logged_times(&fleet, worker, "process_ended "), 5);
    assert_int_equal(fleet_logged_times(&fleet, worker, " jid=killer class=restless seconds="), 3);
    assert_int_equal(fleet_logged_times(&fleet, worker, "process_restarted "), 3);
    assert_true(fleet_logged(&fleet, worker, " after_s=1\n"));
}

static void exit_is_restarted(const char *act, const char *how)
{
    struct fleet_setup once = pair; /* or the other process would do the same, at any time */
    once.classes = "{ class = \"restless_once\"; isolation = \"thread\"; }";
    unsigned worker = fleet_work(&fleet, &once);
    await_ready(worker);
    fleet_push(&fleet, "{\"class\":\"restless_once\",\"args\":[\"%s\",0],\"jid\":\"quitter\"}", act);
    test_await(fleet_logged(&fleet, worker, how));
    test_await(fleet_logged(&fleet, worker, "restarted_after_crash process="));
    one_fleet_stop(worker);
}

TEST(a_process_that_exits_in_a_handler_is_started_again)
{
    exit_is_restarted("exit", " status=1 jid=quitter class=restless_once");
}

/* Nobody can catch that, so nobody is named. */
TEST(a_process_that_ends_at_once_in_a_handler_is_started_again)
{
    exit_is_restarted("_exit", " status=0 seconds=");
}

TEST(a_killed_process_is_started_again_and_its_task_with_it)
{
    unsigned worker = fleet_work(&fleet, &pair);
    await_ready(worker);
    push("listen", "held");
    await_running(worker, &(const char *){"held"}, 1);
    pid_t first = pid_of(worker, 1), second = pid_of(worker, 2);
    assert_true(first > 0 && second > 0 && first != second);
    assert_int_equal(kill(first, SIGKILL), 0);
    assert_int_equal(kill(second, SIGKILL), 0);
    test_await(fleet_logged_times(&fleet, worker, " signal=SIGKILL seconds=") == 2);
    test_await(fleet_logged_times(&fleet, worker, "restarted_after_crash process=") == 2);
    assert_true(pid_of(worker, 1) != first);
    test_await(fleet_logged(&fleet, worker, "task_recovered jid=held"));
    one_fleet_stop(worker);
    assert_int_equal(fleet_left(&fleet), 1);
}

TEST(the_pauses_grow)
{
    struct fleet_setup one = pair;
    one.arguments = "--processes 1";
    unsigned worker = fleet_work(&fleet, &one);
    await_ready(worker);
    for (unsigned death = 1; death <= 2; death++) {
        test_await(fleet_logged_times(&fleet, worker, "worker_started ") == death);
        kill(pid_of(worker, 1), SIGKILL);
        test_await(fleet_logged_times(&fleet, worker, "process_restarted ") == death);
    }
    assert_true(fleet_logged(&fleet, worker, " after_s=1\n"));
    assert_true(fleet_logged(&fleet, worker, " after_s=2\n"));
    test_await(fleet_logged_times(&fleet, worker, "worker_started ") == 3);
    one_fleet_stop(worker);
}

/* --- signals ------------------------------------------------------------------------------------------------------ */

TEST(each_hears_of_a_reload)
{
    unsigned worker = fleet_work(&fleet, &pair);
    await_ready(worker);
    fleet_signal(&fleet, worker, SIGHUP);
    test_await(fleet_logged_times(&fleet, worker, " reloaded changed=") == 2);
    fleet_signal(&fleet, worker, SIGTTIN);
    test_await(fleet_logged_times(&fleet, worker, "process_running ") == 2 &&
               fleet_logged_times(&fleet, worker, "tasks_running ") == 2);
    one_fleet_stop(worker);
    assert_int_equal(fleet_logged_times(&fleet, worker, "worker_stopped "), 2);
    assert_int_equal(fleet_number(&fleet, "EXISTS hf:2:processes"), 0);
}

TEST(a_drain_ends_all)
{
    unsigned worker = fleet_work(&fleet, &pair);
    await_ready(worker);
    fleet_signal(&fleet, worker, SIGUSR2);
    assert_int_equal(fleet_wait(&fleet, worker), 0);
    assert_int_equal(fleet_logged_times(&fleet, worker, "worker_draining "), 2);
}

/* Who dies then is not started again, or a stop would have no end. */
TEST(nothing_is_started_again_while_it_ends)
{
    struct fleet_setup slow = pair;
    slow.worker = "lease = \"1s\"; stop_timeout = \"10m\";";
    unsigned worker = fleet_work(&fleet, &slow);
    await_ready(worker);
    static const char *const jids[] = {"t1", "t2", "t3", "t4"};
    for (unsigned i = 0; i < 4; i++)
        push("listen", jids[i]);
    await_running(worker, jids, 4);
    fleet_signal(&fleet, worker, SIGTERM);
    test_await(fleet_logged_times(&fleet, worker, "worker_stopping ") == 2);
    kill(pid_of(worker, 1), SIGKILL);
    test_await(fleet_logged(&fleet, worker, " signal=SIGKILL "));
    fleet_signal(&fleet, worker, SIGTERM);
    assert_int_equal(fleet_wait(&fleet, worker), 1);
    assert_int_equal(fleet_logged_times(&fleet, worker, "worker_stopping_now "), 1);
    assert_false(fleet_logged(&fleet, worker, "process_restarted"));
}

TEST(without_a_supervisor_they_stop)
{
    unsigned worker = fleet_work(&fleet, &pair);
    await_ready(worker);
    one_fleet_kill(worker);
    test_await(fleet_logged_times(&fleet, worker, "worker_stopped ") == 2);
    assert_int_equal(fleet_logged_times(&fleet, worker, "exit_code=0"), 2);
    test_await(fleet_number(&fleet, "EXISTS hf:2:processes") == 0);
}

/* --- what cannot start -------------------------------------------------------------------------------------------- */

TEST(a_configuration_with_errors_starts_nothing)
{
    struct fleet_setup wrong = pair;
    wrong.worker = "nonsense = 1;";
    unsigned worker = fleet_work(&fleet, &wrong);
    assert_int_equal(fleet_wait(&fleet, worker), 1);
    assert_int_equal(fleet_logged_times(&fleet, worker, "nonsense"), 1);
    assert_false(fleet_logged(&fleet, worker, "process_started"));
}

TEST(a_plugin_that_is_refused_is_refused_once)
{
    struct fleet_setup wrong = pair;
    wrong.plugin = "no_handlers";
    wrong.classes = NULL;
    unsigned worker = fleet_work(&fleet, &wrong);
    assert_int_equal(fleet_wait(&fleet, worker), 1);
    assert_int_equal(fleet_logged_times(&fleet, worker, "process_started "), 1);
    assert_int_equal(fleet_logged_times(&fleet, worker, "supervisor_gives_up "), 1);
    assert_false(fleet_logged(&fleet, worker, "process_restarted"));
}

/* --- the service manager ------------------------------------------------------------------------------------------ */

static int manager_open(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "%s", name);
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    assert_int_equal(bind(manager, (const struct sockaddr *)&address, length), 0);
    return manager;
}

/* The next message about the state of the service; those with a text for people only are passed over. */
static void assert_told(int manager, const char *state)
{
    char message[512];
    struct pollfd watched = {.fd = manager, .events = POLLIN};
    do {
        assert_int_equal(poll(&watched, 1, (int)(TEST_PATIENCE_NS / NS_PER_MS)), 1);
        ssize_t length = recv(manager, message, sizeof message - 1, 0);
        assert_true(length > 0);
        message[length] = '\0';
    } while (strncmp(message, "STATUS=", strlen("STATUS=")) == 0);
    assert_contains(message, state);
}

TEST(only_the_supervisor_speaks_to_the_service_manager)
{
    char name[64], message[16];
    snprintf(name, sizeof name, "@holdfast-test-%d", (int)getpid());
    int manager = manager_open(name + 1);
    setenv("NOTIFY_SOCKET", name, 1);
    unsigned worker = fleet_work(&fleet, &pair);
    unsetenv("NOTIFY_SOCKET");
    assert_told(manager, "READY=1");
    fleet_signal(&fleet, worker, SIGHUP);
    assert_told(manager, "RELOADING=1");
    assert_told(manager, "READY=1");
    test_await(fleet_logged_times(&fleet, worker, " reloaded changed=") == 2);
    fleet_signal(&fleet, worker, SIGTERM);
    assert_told(manager, "STOPPING=1");
    assert_int_equal(fleet_wait(&fleet, worker), 0);
    for (ssize_t length; (length = recv(manager, message, sizeof message, MSG_DONTWAIT)) > 0;)
        assert_memory_equal(message, "STATUS=", strlen("STATUS="));
    close(manager);
}

/* A worker that is alone feeds the watchdog from its loop, and a supervisor from its own. */
TEST(the_watchdog_of_the_service_manager_is_fed)
{
    static const struct fleet_setup *const setups[] = {&alone, &pair};
    for (unsigned i = 0; i < 2; i++) {
        char name[64];
        snprintf(name, sizeof name, "@holdfast-dog-%d-%u", (int)getpid(), i);
        int manager = manager_open(name + 1);
        setenv("NOTIFY_SOCKET", name, 1);
        setenv("WATCHDOG_USEC", "200000", 1);
        unsigned worker = fleet_work(&fleet, setups[i]);
        unsetenv("NOTIFY_SOCKET");
        unsetenv("WATCHDOG_USEC");
        unsigned fed = 0;
        for (char message[512]; fed < 3;) { /* between what else there is to say */
            ssize_t length = recv(manager, message, sizeof message, 0);
            assert_true(length > 0);
            fed += memcmp(message, "WATCHDOG=1", 10) == 0;
        }
        one_fleet_stop(worker);
        close(manager);
    }
}

TEST(a_process_that_is_silent_is_killed_and_started_again)
{
    unsigned worker = fleet_work(&fleet, &pair);
    await_ready(worker);
    pid_t second = pid_of(worker, 2);
    kill(second, SIGSTOP);
    test_await(fleet_logged_times(&fleet, worker, " process_silent process=2 ") == 1);
    test_await(fleet_logged_times(&fleet, worker, "process_ended process=2 ") == 1);
    test_await(pid_of(worker, 2) != second);
    assert_int_equal(fleet_logged_times(&fleet, worker, " process_silent process=1 "), 0);
    one_fleet_stop(worker);
}

RUN_FLEET_TESTS
