/* Programs as handlers of a real worker: from a pushed task to its end, its lock's included, and the command of
 * on_event beside them. */
#include "tests/support/test.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/launcher_fixture.h"
#include "tests/support/one_fleet.h"
#include "tests/support/program_run.h"

/* Writes an executable script into the fleet's directory; what it calls $D is that directory. */
static void script(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", fleet.directory, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\nD=%s\n%s\n", fleet.directory, text);
    assert_int_equal(fchmod(fileno(file), 0755), 0);
    assert_int_equal(fclose(file), 0);
}

static const char *content_of(const char *name)
{
    static char text[4096];
    char path[128];
    snprintf(path, sizeof path, "%s/%s", fleet.directory, name);
    FILE *file = fopen(path, "re");
    size_t length = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;
    text[length] = '\0';
    if (file != NULL)
        fclose(file);
    return text;
}

static void forget(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", fleet.directory, name);
    unlink(path);
}

/* A worker for the class `shell`, which is the script "handler", with more settings of the class; `lock` as in struct
 * fleet_setup. */
static unsigned work_with(const char *lock, const char *handler, const char *settings, const char *sections)
{
    static char classes[512];
    script("handler", handler);
    forget("out");
    forget("told");
    snprintf(classes, sizeof classes, "{ class = \"shell\"; program = \"%s/handler\"; %s }", fleet.directory, settings);
    return fleet_work(
        &fleet, &(struct fleet_setup){
                    .lock = lock, .classes = classes, .sections = sections, .worker = "stop_timeout = \"200ms\";"});
}

static unsigned work(const char *handler, const char *settings, const char *sections)
{
    return work_with(NULL, handler, settings, sections);
}

static pid_t pid_in(const char *name)
{
    return (pid_t)strtol(content_of(name), NULL, 10);
}

#define TRACE "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

/* --- tasks -------------------------------------------------------------------------------------------------------- */

TEST(a_task_is_done_with_its_result_and_what_follows)
{
    unsigned worker = work("cat >>$D/out; echo \",$HF_JID,$HF_QUEUE,$HF_ATTEMPT,$HF_RESOURCES,$TRACEPARENT\" >>$D/out\n"
                           "echo visible\n"
                           "[ \"$HF_JID\" = one ] && echo '{\"result\":{\"sum\":3},"
                           "\"push\":{\"class\":\"shell\",\"args\":[9],\"jid\":\"two\",\"queue\":\"jobs\"}}' >&3\n"
                           "exit 0",
                           "result_ttl = \"1h\";", NULL);
    fleet_push(&fleet, "{\"class\":\"shell\",\"args\":[1,\"b\"],\"jid\":\"one\",\"traceparent\":\"" TRACE "\"}");
    test_await(strchr(content_of("out"), '\n') != NULL && strstr(content_of("out"), "[9],two") != NULL);
    test_await(fleet_left(&fleet) == 0);
    assert_contains(content_of("out"), "[1,\"b\"],one,jobs,0,[]," TRACE "\n");
    assert_contains(content_of("out"), "[9],two,jobs,0,[]," TRACE "\n"); /* what follows is of the same trace */
    char *result = fleet_ask(&fleet, "get hf:2:result:one");
    assert_contains(result, "\"result\":{\"sum\":3}");
    free(result);
    one_fleet_stop(worker);
    assert_true(fleet_logged(&fleet, worker, "job_output jid=one class=shell stream=stdout text=visible"));
}

TEST(its_lock_and_its_token_are_told_to_it)
{
    unsigned worker = work("echo \"$HF_RESOURCE,$HF_RESOURCES,$HF_FENCE,$HF_LOCK_UNTIL_MS\" >$D/out", "", NULL);
    fleet_push(&fleet, "{\"class\":\"shell\",\"args\":[],\"jid\":\"one\",\"resource\":\"account:7\"}");
    test_await(fleet_left(&fleet) == 0 && content_of("out")[0] != '\0');
    unsigned long long fence = 0, until = 0;
    assert_int_equal(sscanf(content_of("out"), "account:7,[\"account:7\"],%llu,%llu", &fence, &until), 2);
    assert_true(fence > 0 && until > 0);
    one_fleet_stop(worker);
}

TEST(a_failure_is_tried_again_and_a_burial_is_not)
{
    unsigned worker = work("echo 'no disk' >&2; exit $(sed 's/[^0-9]//g')", "", NULL);
    fleet_push(&fleet, "{\"class\":\"shell\",\"args\":[3],\"jid\":\"one\"}");
    fleet_push(&fleet, "{\"class\":\"shell\",\"args\":[65],\"jid\":\"two\"}");
    test_await(fleet_number(&fleet, "zcard retry") == 1 && fleet_number(&fleet, "zcard dead") == 1);
    char *retry = fleet_ask(&fleet, "zrange retry 0 -1"), *dead = fleet_ask(&fleet, "zrange dead 0 -1");
    assert_contains(retry, "it exited with status 3: no disk");
    assert_contains(dead, "it exited with status 65 (EX_DATAERR): no disk");
    free(retry);
    free(dead);
    one_fleet_stop(worker);
}

/* From the second task of a worker on, its claim has said whether an earlier run left something. */
TEST(a_run_goes_on_where_the_last_stopped)
{
    unsigned worker = work("echo \"$HF_JID:$HF_CHECKPOINT\" >>$D/out\n"
                           "[ $HF_JID = first ] || [ -n \"$HF_CHECKPOINT\" ] && exit 0\n"
                           "echo '{\"progress\":{\"done\":7},\"retry_in\":0.05}' >&3; exit 98",
                           "", NULL);
    fleet_push(&fleet, "{\"class\":\"shell\",\"args\":[],\"jid\":\"first\"}");
    test_await(fleet_left(&fleet) == 0 && strchr(content_of("out"), '\n') != NULL);
    fleet_push(&fleet, "{\"class\":\"shell\",\"args\":[],\"jid\":\"one\"}");
    test_await(strstr(content_of("out"), "done") != NULL && fleet_left(&fleet) == 0);
    assert_string_equal(content_of("out"), "first:\none:\none:{\"done\":7}\n");
    one_fleet_stop(worker);
    assert_int_equal(fleet_number(&fleet, "exists it-first it-one"), 0);
}

/* --- the end of its time ------------------------------------------------------------------------------------------ */

static const char stubborn[] = "trap '' TERM; echo $$ >$D/out; while :; do sleep 0.05; done";

TEST(a_run_that_takes_too_long_is_killed_and_has_failed)
{
    unsigned worker = work(stubborn, "timeout = \"300ms\"; grace = \"100ms\";", NULL);
    fleet_push(&fleet, "{\"class\":\"shell\",\"args\":[],\"jid\":\"one\"}");
    test_await(fleet_number(&fleet, "zcard retry") == 1);
    char *retry = fleet_ask(&fleet, "zrange retry 0 -1");
    assert_contains(retry, "HF::TimedOut");
    free(retry);
    assert_true(process_is_dead(pid_in("out")));
    one_fleet_stop(worker);
}

TEST(a_worker_that_stops_gives_its_task_back)
{
    unsigned worker = work(stubborn, "grace = \"200ms\";", NULL);
    fleet_push(&fleet, "{\"class\":\"shell\",\"args\":[],\"jid\":\"one\"}");
    test_await(strchr(content_of("out"), '\n') != NULL);
    one_fleet_stop(worker);
    assert_true(process_is_dead(pid_in("out")));
    assert_int_equal(fleet_number(&fleet, "llen queue:jobs"), 1);
    assert_int_equal(fleet_number(&fleet, "zcard retry"), 0);
}

/* The second task of the same lock says whether anybody of the first one's run was there when it began: `kill` also
 * finds who is dead and not reaped. */
#define NEXT                                                                                                           \
    "[ $HF_JID = one ] || { kill -0 -$(head -n 1 $D/out) 2>/dev/null && echo overlap >$D/next || echo alone "          \
    ">$D/next; exit 0; }\n"

/* Its lock does not end by itself before. */
static const char long_lock[] = "ttl = \"1m\"; park_delay = \"100ms\";";

static void cancel_the_first_of_two(unsigned worker)
{
    char path[128];
    forget("next");
    fleet_push(&fleet, "{\"class\":\"shell\",\"args\":[],\"jid\":\"one\",\"resource\":\"r\"}");
    test_await(strchr(content_of("out"), '\n') != NULL);
    fleet_push(&fleet, "{\"class\":\"shell\",\"args\":[],\"jid\":\"two\",\"resource\":\"r\"}");
    test_await(fleet_number(&fleet, "llen queue:jobs") == 0);
    snprintf(path, sizeof path, "%s/%s.conf", fleet.directory, fleet.workers[worker].name);
    struct program_result result = program_run_arguments((const char *const[]){"cancel", "-c", path, "one", NULL}, -1);
    assert_string_equal(result.error, "");
    assert_int_equal(result.exit_code, 0);
    program_result_free(&result);
}

/* The end of the first, and then what the second said. */
static void assert_cancelled(unsigned worker)
{
    test_await(strchr(content_of("next"), '\n') != NULL);
    assert_string_equal(content_of("next"), "alone\n");
    test_await(fleet_logged(&fleet, worker, " ending=cancelled jid=one "));
    test_await(fleet_left(&fleet) == 0);
    one_fleet_stop(worker);
}

TEST(a_program_is_asked_when_its_task_is_cancelled)
{
    forget("go");
    unsigned worker =
        work_with(long_lock,
                  NEXT "trap 'echo asked >>$D/out; while ! [ -e $D/go ]; do sleep 0.02; done; exit 1' TERM\n"
                       "echo $$ >$D/out; while :; do sleep 0.02; done",
                  "grace = \"10m\";", NULL);
    cancel_the_first_of_two(worker);
    test_await(strstr(content_of("out"), "\nasked\n") != NULL);
    assert_false(process_is_dead(pid_in("out")));
    assert_string_equal(content_of("next"), ""); /* it has the lock as long as it takes */
    script("go", "");
    assert_cancelled(worker);
}

TEST(a_program_that_does_not_heed_a_cancellation_is_killed)
{
    unsigned worker =
        work(NEXT "trap '' TERM; echo $$ >$D/out; while :; do sleep 0.02; done", "grace = \"50ms\";", NULL);
    cancel_the_first_of_two(worker);
    assert_cancelled(worker);
    assert_true(process_is_dead(pid_in("out")));
}

/* It is asked a third of the ttl before, because its lock is in danger then: it has ten seconds to begin, and five to
 * answer. */
TEST(a_program_that_holds_its_lock_for_too_long_loses_it)
{
    script("tell", "cat >>$D/told");
    static char sections[256];
    snprintf(sections, sizeof sections, "on_event = { command = \"%s/tell\"; };", fleet.directory);
    unsigned worker = work_with("ttl = \"15s\"; park_delay = \"100ms\";",
                                "trap 'echo asked >>$D/out' TERM; echo $$ >$D/out; while :; do sleep 0.02; done",
                                "max_hold = \"15s\";", sections);
    fleet_push(&fleet, "{\"class\":\"shell\",\"args\":[],\"jid\":\"one\",\"resource\":\"r\"}");
    test_await(fleet_number(&fleet, "zcard retry") == 1);
    assert_contains(content_of("out"), "\nasked\n");
    assert_true(process_is_dead(pid_in("out")));
    char *retry = fleet_ask(&fleet, "zrange retry 0 -1");
    assert_contains(retry, "HF::LockLost");
    free(retry);
    test_await(strstr(content_of("told"), "{\"event\":\"lock_lost\",\"jid\":\"one\"") != NULL);
    one_fleet_stop(worker);
}

/* The zygote keeps the deadline for it. */
TEST(a_program_does_not_outlive_its_lock_when_its_worker_is_stopped)
{
    unsigned worker = work(stubborn, "", NULL);
    fleet_push(&fleet, "{\"class\":\"shell\",\"args\":[],\"jid\":\"one\",\"resource\":\"r\"}");
    test_await(strchr(content_of("out"), '\n') != NULL);
    fleet_signal(&fleet, worker, SIGSTOP);
    pid_t pid = pid_in("out");
    test_await(process_is_dead(pid));
    one_fleet_kill(worker);
}

TEST(a_program_dies_with_its_worker)
{
    unsigned worker = work(stubborn, "", NULL);
    fleet_push(&fleet, "{\"class\":\"shell\",\"args\":[],\"jid\":\"one\"}");
    test_await(strchr(content_of("out"), '\n') != NULL);
    one_fleet_kill(worker);
    pid_t pid = pid_in("out");
    test_await(process_is_dead(pid));
}

/* --- on_event ----------------------------------------------------------------------------------------------------- */

static const char *on_event(const char *settings)
{
    static char text[512];
    script("tell", "cat >>$D/told");
    snprintf(text, sizeof text, "on_event = { command = \"%s/tell\"; %s };", fleet.directory, settings);
    return text;
}

TEST(somebody_is_told_of_a_burial)
{
    unsigned worker = work("echo bad >&2; exit 65", "", on_event(""));
    fleet_push(&fleet, "{\"class\":\"shell\",\"args\":[],\"jid\":\"one\",\"resource\":\"r\"}");
    test_await(strchr(content_of("told"), '\n') != NULL);
    const char *told = content_of("told");
    assert_contains(told,
                    "{\"event\":\"dead\",\"jid\":\"one\",\"class\":\"shell\",\"queue\":\"jobs\",\"resource\":\"r\","
                    "\"error_class\":\"HF::Failed\","
                    "\"message\":\"it exited with status 65 (EX_DATAERR): bad\",\"fence\":\"");
    assert_contains(told, "\"host\":\"host");
    fleet_push(&fleet, "this is no task");
    test_await(strstr(content_of("told"), "{\"event\":\"dead\",\"queue\":\"jobs\",\"message\":\"") != NULL);
    one_fleet_stop(worker);
}

TEST(a_worker_that_ends_waits_for_the_command)
{
    const char *sections = on_event("events = [\"failed\"];");
    script("tell", "sleep 0.5; cat >>$D/told");
    unsigned worker = work("exit 1", "", sections);
    fleet_push(&fleet, "{\"class\":\"shell\",\"args\":[],\"jid\":\"one\"}");
    test_await(fleet_number(&fleet, "zcard retry") == 1);
    one_fleet_stop(worker);
    assert_contains(content_of("told"), "{\"event\":\"failed\",\"jid\":\"one\"");
}

RUN_FLEET_TESTS
