/* A worker under signals: quiet, drain, a rolling restart, reopening its log, telling what runs; and root. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/support/one_fleet.h"

/* Two processes look for claims of processes in no list, and leave a mark of it. */
static long long keys_left(void)
{
    return fleet_number(&fleet, "EVAL \"return redis.call('DBSIZE') - redis.call('EXISTS', 'hf:2:walked')\" 0");
}

static void push(const char *class_name, const char *jid, unsigned milliseconds)
{
    fleet_push(&fleet, "{\"class\":\"%s\",\"args\":[%u],\"jid\":\"%s\"}", class_name, milliseconds, jid);
}

static bool has_begun(const char *jid)
{
    char line[64];
    snprintf(line, sizeof line, "begin %s", jid);
    return fleet_noted(&fleet, line) == 1;
}

static long long waiting(void)
{
    return fleet_number(&fleet, "LLEN queue:jobs");
}

/* --- quiet -------------------------------------------------------------------------------------------------------- */

TEST(quiet_finishes_what_runs_and_claims_nothing_more)
{
    push("note", "running", 3000); /* longer than the slowest machine takes to hear a signal */
    unsigned worker = fleet_work(&fleet, NULL);
    test_await(has_begun("running"));
    fleet_signal(&fleet, worker, SIGTSTP);
    test_await(fleet_logged(&fleet, worker, "worker_quiet reason=SIGTSTP"));
    push("note", "later", 0);
    test_await(fleet_logged(&fleet, worker, "task_ended ending=done jid=running")); /* a moment after its handler */
    /* it stays, answers, and goes on claiming nothing, also after SIGCONT */
    fleet_signal(&fleet, worker, SIGCONT);
    fleet_signal(&fleet, worker, SIGTTIN);
    test_await(fleet_logged(&fleet, worker, "tasks_running count=0"));
    test_await(waiting() == 1);
    one_fleet_stop(worker);
    assert_int_equal(fleet_noted_all(&fleet, "begin later"), 0);
    assert_int_equal(waiting(), 1);
    assert_int_equal(fleet_keys(&fleet), 1);
}

/* What rings after that goes back, so that another one gets it. */
TEST(another_worker_takes_what_a_quiet_one_leaves)
{
    unsigned quiet = fleet_work(&fleet, NULL);
    test_await(fleet_number(&fleet, "EXISTS hf:2:processes") == 1);
    fleet_signal(&fleet, quiet, SIGTSTP);
    test_await(fleet_logged(&fleet, quiet, "worker_quiet"));
    unsigned other = fleet_work(&fleet, NULL);
    for (unsigned i = 0; i < 20; i++) {
        char jid[16], end[24];
        snprintf(jid, sizeof jid, "t%u", i);
        snprintf(end, sizeof end, "end t%u", i);
        push("note", jid, 0);
        test_await(fleet_noted(&fleet, end) == 1);
    }
    fleet_signal(&fleet, quiet, SIGTERM);
    fleet_signal(&fleet, other, SIGTERM);
    assert_int_equal(fleet_wait(&fleet, quiet), 0);
    assert_int_equal(fleet_wait(&fleet, other), 0);
    assert_int_equal(fleet_noted_all(&fleet, "begin "), 20);
    assert_int_equal(fleet_left(&fleet), 0);
}

/* --- drain -------------------------------------------------------------------------------------------------------- */

TEST(drain_ends_after_what_runs_and_leaves_the_queue_alone)
{
    push("note", "running", 3000); /* longer than the slowest machine takes to hear a signal */
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.threads = 1, .worker = "stop_timeout = \"0s\";"});
    test_await(has_begun("running"));
    push("note", "later", 0);
    fleet_signal(&fleet, worker, SIGUSR2);
    assert_int_equal(fleet_wait(&fleet, worker), 0);
    assert_int_equal(fleet_noted(&fleet, "end running"), 1);
    assert_int_equal(fleet_noted_all(&fleet, "begin later"), 0);
    assert_int_equal(waiting(), 1);
    test_await(fleet_logged(&fleet, worker, "worker_draining reason=SIGUSR2"));
    test_await(fleet_logged(&fleet, worker, "worker_stopping reason=drained"));
    assert_int_equal(fleet_keys(&fleet), 1);
}

TEST(an_idle_worker_drains_at_once)
{
    unsigned worker = fleet_work(&fleet, NULL);
    test_await(fleet_number(&fleet, "EXISTS hf:2:processes") == 1);
    fleet_signal(&fleet, worker, SIGUSR2);
    assert_int_equal(fleet_wait(&fleet, worker), 0);
    assert_int_equal(keys_left(), 0);
}

/* What it does not claim any more does not keep it, and what runs does. */
TEST(a_quiet_worker_that_is_called_to_drain_ends)
{
    unsigned worker = fleet_work(&fleet, NULL);
    test_await(fleet_number(&fleet, "EXISTS hf:2:processes") == 1);
    fleet_signal(&fleet, worker, SIGTSTP);
    test_await(fleet_logged(&fleet, worker, "worker_quiet"));
    push("note", "later", 0);
    char *identity = fleet_ask(&fleet, "ZRANGE hf:2:processes 0 0");
    free(fleet_ask(&fleet, "LPUSH hf:2:calls:%s DRAIN", identity));
    free(identity);
    assert_int_equal(fleet_wait(&fleet, worker), 0);
    assert_int_equal(waiting(), 1);
}

TEST(a_worker_that_is_called_to_drain_ends_with_its_last_task)
{
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.threads = 1});
    push("note", "running", 300);
    test_await(has_begun("running"));
    push("note", "later", 0);
    char *identity = fleet_ask(&fleet, "ZRANGE hf:2:processes 0 0");
    free(fleet_ask(&fleet, "LPUSH hf:2:calls:%s DRAIN", identity));
    free(identity);
    assert_int_equal(fleet_wait(&fleet, worker), 0);
    assert_int_equal(fleet_noted(&fleet, "end running"), 1);
    assert_int_equal(waiting(), 1);
}

/* Each may come again and in any order; a later one goes further, none goes back. */
TEST(signals_may_come_in_any_order)
{
    push("careful", "running", 600000);
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.worker = "stop_timeout = \"10m\";"});
    test_await(has_begun("running"));
    fleet_signal(&fleet, worker, SIGTSTP);
    test_await(fleet_logged(&fleet, worker, "worker_quiet"));
    fleet_signal(&fleet, worker, SIGTSTP);
    fleet_signal(&fleet, worker, SIGUSR2);
    test_await(fleet_logged(&fleet, worker, "worker_draining"));
    fleet_signal(&fleet, worker, SIGTSTP);
    fleet_signal(&fleet, worker, SIGUSR2);
    fleet_signal(&fleet, worker, SIGTERM);
    test_await(fleet_logged(&fleet, worker, "worker_stopping reason=SIGTERM"));
    fleet_signal(&fleet, worker, SIGUSR2);
    fleet_signal(&fleet, worker, SIGHUP);
    fleet_signal(&fleet, worker, SIGINT);
    int exit_code = fleet_wait(&fleet, worker);
    assert_true(exit_code == 0 || exit_code == 1); /* whether the handler noticed in time */
    test_await(fleet_logged(&fleet, worker, "worker_stopping_now reason=SIGINT"));
    assert_int_equal(waiting(), 1);
    char *log = fleet_log(&fleet, worker), *first = strstr(log, "worker_quiet");
    assert_non_null(first);
    assert_null(strstr(first + 1, "worker_quiet"));
    free(log);
}

/* --- a rolling restart -------------------------------------------------------------------------------------------- */

/* The new one is at work before the old one is asked to go. */
TEST(a_rolling_restart_has_no_gap_and_loses_nothing)
{
    enum { TASKS = 300 };
    unsigned worker = fleet_work(&fleet, NULL);
    fleet_push_many(&fleet, "note", TASKS, 10, 0);
    for (unsigned round = 1; round <= 3; round++) {
        test_await(fleet_noted_all(&fleet, "end ") >= round * TASKS / 5);
        unsigned next = fleet_work(&fleet, NULL);
        test_await(fleet_logged(&fleet, next, "worker_started"));
        fleet_signal(&fleet, worker, SIGUSR2);
        assert_int_equal(fleet_wait(&fleet, worker), 0);
        worker = next;
    }
    test_await(fleet_noted_all(&fleet, "end ") == TASKS);
    fleet_signal(&fleet, worker, SIGUSR2);
    assert_int_equal(fleet_wait(&fleet, worker), 0);
    assert_int_equal(fleet_noted_all(&fleet, "begin "), TASKS);
    for (unsigned i = 1; i <= TASKS; i++) {
        char line[24];
        snprintf(line, sizeof line, "end t%u", i);
        assert_int_equal(fleet_noted(&fleet, line), 1);
    }
    assert_int_equal(fleet_left(&fleet), 0);
}

/* --- the log ------------------------------------------------------------------------------------------------------ */

static bool file_has(const char *path, const char *text)
{
    static char content[65536];
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    content[fread(content, 1, sizeof content - 1, file)] = '\0';
    fclose(file);
    return strstr(content, text) != NULL;
}

static void the_log_file_is_opened_again(int number)
{
    char log[128], moved[128], setting[192];
    snprintf(log, sizeof log, "%s/worker.log", fleet.directory);
    snprintf(moved, sizeof moved, "%s/worker.log.1", fleet.directory);
    snprintf(setting, sizeof setting, "log_file = \"%s\";", log);
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.worker = setting});
    test_await(file_has(log, "worker_started"));
    assert_int_equal(rename(log, moved), 0);
    fleet_signal(&fleet, worker, number);
    test_await(access(log, F_OK) == 0);
    one_fleet_stop(worker);
    assert_true(file_has(log, "worker_stopping"));
    assert_false(file_has(moved, "worker_stopping"));
    assert_true(file_has(moved, "worker_started"));
}

TEST(sigusr1_opens_the_log_file_again)
{
    the_log_file_is_opened_again(SIGUSR1);
}

TEST(sighup_opens_the_log_file_again)
{
    the_log_file_is_opened_again(SIGHUP);
}

TEST(sigttin_tells_what_runs)
{
    push("note", "one", 1000);
    unsigned worker = fleet_work(&fleet, NULL);
    test_await(has_begun("one"));
    fleet_signal(&fleet, worker, SIGTTIN);
    test_await(fleet_logged(&fleet, worker, "tasks_running count=1 busy=")); /* another slot may be asking for a task */
    test_await(fleet_logged(&fleet, worker, " jid=one class=note queue=jobs seconds="));
    one_fleet_stop(worker);
}

/* --- storms ------------------------------------------------------------------------------------------------------- */

static const int storming[] = {SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGTSTP, SIGTTIN, SIGHUP};

/* A worker that reads its configuration while it ends leaves without taking anything apart: SIGHUP hides that. */
enum { STOPPING = 2, ALL_BUT_RELOAD = 6, STORMING = sizeof storming / sizeof storming[0] };

/* The worker has the storm's signals blocked from its birth: so none of them can come before its first act. */
static unsigned work_held(const char *arguments)
{
    sigset_t set, before;
    sigemptyset(&set);
    for (unsigned i = 0; i < STORMING; i++)
        sigaddset(&set, storming[i]);
    sigprocmask(SIG_BLOCK, &set, &before);
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.arguments = arguments});
    sigprocmask(SIG_SETMASK, &before, NULL);
    return worker;
}

/* Sends those from `first` to before `end`, all the time, until the worker has ended, which is to be its own doing. */
static void assert_ends_well_in_a_storm(unsigned worker, unsigned first, unsigned end)
{
    siginfo_t change = {.si_pid = 0};
    struct instant patience = instant_after(instant_now(), TEST_PATIENCE_NS);
    while (change.si_pid == 0) {
        for (unsigned i = first; i < end; i++)
            fleet_signal(&fleet, worker, storming[i]);
        assert_true(instant_before(instant_now(), patience));
        int ends = WEXITED | WSTOPPED | WNOHANG | WNOWAIT;
        assert_int_equal(waitid(P_PID, (id_t)fleet.workers[worker].pid, &change, ends), 0);
    }
    assert_int_equal(change.si_code, CLD_EXITED);
    assert_int_equal(fleet_wait(&fleet, worker), 0);
}

TEST(a_worker_that_stops_in_a_storm_of_signals_ends_well)
{
    for (unsigned i = 0; i < 3; i++) {
        unsigned worker = fleet_work(&fleet, NULL);
        test_await(fleet_logged(&fleet, worker, "worker_started"));
        fleet_signal(&fleet, worker, SIGTERM);
        assert_ends_well_in_a_storm(worker, 0, i == 0 ? STORMING : ALL_BUT_RELOAD);
        assert_int_equal(keys_left(), 0);
    }
}

TEST(a_stop_that_is_asked_for_before_the_first_act_is_heard)
{
    assert_ends_well_in_a_storm(work_held(NULL), 0, ALL_BUT_RELOAD);
    assert_ends_well_in_a_storm(work_held("--processes 2"), 0, ALL_BUT_RELOAD);
    assert_int_equal(keys_left(), 0);
}

/* It has nothing yet that would have to be taken apart. */
TEST(a_worker_whose_plugin_hangs_in_its_opening_can_be_stopped)
{
    const struct fleet_setup hanging = {.plugin = "restless",
                                        .settings = "opening = \"hang\";",
                                        .classes = "{ class = \"restless\"; isolation = \"thread\"; }"};
    unsigned worker = fleet_work(&fleet, &hanging);
    test_await(fleet_logged(&fleet, worker, "opening hangs"));
    one_fleet_stop(worker);
    assert_false(fleet_logged(&fleet, worker, "worker_started"));
    assert_false(fleet_logged(&fleet, worker, "worker_died"));
}

/* SIGUSR2 ends it once it is up. */
TEST(a_worker_that_starts_in_a_storm_of_signals_ends_well)
{
    unsigned worker = work_held(NULL);
    assert_ends_well_in_a_storm(worker, STOPPING, ALL_BUT_RELOAD);
    assert_true(fleet_logged(&fleet, worker, "worker_draining reason=SIGUSR2"));
    assert_int_equal(keys_left(), 0);
}

TEST(several_processes_end_well_in_a_storm_of_signals)
{
    unsigned worker = work_held("--processes 2");
    test_await(fleet_logged(&fleet, worker, "supervisor_ready"));
    fleet_signal(&fleet, worker, SIGTERM);
    assert_ends_well_in_a_storm(worker, 0, ALL_BUT_RELOAD);
    assert_int_equal(keys_left(), 0);
}

/* --- the service manager ------------------------------------------------------------------------------------------ */

static int notify_socket(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/notify", fleet.directory);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    setenv("NOTIFY_SOCKET", address.sun_path, 1);
    return fd;
}

/* The next message begins with this. */
static void assert_notified(int fd, const char *start)
{
    static char text[512];
    ssize_t length = -1;
    test_await((length = recv(fd, text, sizeof text - 1, 0)) > 0);
    text[length] = '\0';
    if (strncmp(text, start, strlen(start)) != 0)
        fail_msg("%s instead of %s", text, start);
}

TEST(the_service_manager_is_told)
{
    int fd = notify_socket();
    unsigned worker = fleet_work(&fleet, NULL);
    unsetenv("NOTIFY_SOCKET");
    assert_notified(fd, "READY=1\n");
    fleet_signal(&fleet, worker, SIGHUP);
    assert_notified(fd, "RELOADING=1\nMONOTONIC_USEC=");
    assert_notified(fd, "READY=1\n");
    fleet_signal(&fleet, worker, SIGTSTP);
    assert_notified(fd, "STATUS=quiet");
    fleet_signal(&fleet, worker, SIGHUP);
    assert_notified(fd, "RELOADING=1\n");
    assert_notified(fd, "READY=1\nSTATUS=quiet");
    fleet_signal(&fleet, worker, SIGTERM);
    assert_notified(fd, "STOPPING=1\n");
    assert_int_equal(fleet_wait(&fleet, worker), 0);
    close(fd);
}

/* --- root --------------------------------------------------------------------------------------------------------- */

/* The fleet allows it; for this one it is taken back. A worker of any other user starts. */
TEST(root_is_refused_unless_it_is_allowed)
{
    bool is_root = geteuid() == 0;
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.forbid_root = true});
    if (is_root) {
        assert_int_equal(fleet_wait(&fleet, worker), 1);
        test_await(fleet_logged(&fleet, worker, "a worker does not run as root"));
        test_await(fleet_logged(&fleet, worker, "--allow-root"));
        worker = fleet_work(&fleet, &(struct fleet_setup){.forbid_root = true, .arguments = "--allow-root"});
    }
    test_await(fleet_logged(&fleet, worker, "worker_started"));
    one_fleet_stop(worker);
}

TEST(the_option_says_which_queues_are_served)
{
    push("note", "elsewhere", 0);
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.arguments = "--queues other,more"});
    free(fleet_ask(&fleet, "LPUSH queue:more '%s'", "{\"class\":\"note\",\"args\":[],\"jid\":\"here\"}"));
    test_await(fleet_noted(&fleet, "end here") == 1);
    fleet_signal(&fleet, worker, SIGUSR2);
    assert_int_equal(fleet_wait(&fleet, worker), 0);
    assert_int_equal(fleet_noted_all(&fleet, "begin elsewhere"), 0);
    assert_int_equal(waiting(), 1);
}

RUN_FLEET_TESTS
