/* A whole worker and handlers that do to it what no handler should, in each isolation: every one of them ends as the
 * table of docs/handlers.md says, the tasks around it are done once, its lock is free for the next, the worker is none
 * the worse for it, and nobody is left behind. What is not survivable, in a thread, costs the worker: then the next one
 * has what it had. */
#include "tests/support/test.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "tests/support/launcher_fixture.h"
#include "tests/support/one_fleet.h"

/* An act, and what its task, whose jid and resource have the same name, comes to. */
struct row {
    const char *act;
    const char *error_class; /* of its record in the dead set; NULL = done */
    const char *words;       /* in the record */
    const char *logged;      /* what the worker's log has in the end; NULL = nothing to look for */
    bool is_endless;         /* of the class that has a timeout */
};

/* "hostile" and "endless" in one isolation. */
struct stage {
    const char *hostile, *endless; /* the classes */
    const struct row *rows;
    unsigned count;
};

/* --- tasks ------------------------------------------------------------------------------------------------------ */

/* One neighbour before it, one after it that waits for its lock, and one after it without a lock. */
static void row_push(const struct stage *stage, const struct row *row)
{
    const char *act = row->act;
    fleet_push(&fleet, "{\"class\":\"tame\",\"args\":[2],\"jid\":\"%s-before\"}", act);
    fleet_push(&fleet, "{\"class\":\"%s\",\"args\":[\"%s\"],\"jid\":\"%s\",\"resource\":\"%s\"}",
               row->is_endless ? stage->endless : stage->hostile, act, act, act);
    fleet_push(&fleet, "{\"class\":\"tame\",\"args\":[2],\"jid\":\"%s-locked\",\"resource\":\"%s\"}", act, act);
    fleet_push(&fleet, "{\"class\":\"tame\",\"args\":[2],\"jid\":\"%s-after\"}", act);
}

/* The record of a dead task, to be freed; empty when there is none. */
static char *dead_record(const char *jid)
{
    return fleet_ask(&fleet,
                     "EVAL \"for _, task in ipairs(redis.call('ZRANGE', 'dead', 0, -1)) do "
                     "if cjson.decode(task).jid == ARGV[1] then return task end end return ''\" 0 %s",
                     jid);
}

/* How a task ended that is done, the log says only where it says all. */
#define ALL "log_level = \"debug\";"

/* The log says it as soon as the worker knows; the record is at the queue node a moment later. */
static bool has_ended(unsigned worker, const struct row *row)
{
    char text[64];
    snprintf(text, sizeof text, "ending=%s jid=%s ", row->error_class == NULL ? "done" : "dead", row->act);
    if (!fleet_logged(&fleet, worker, text))
        return false;
    char *record = dead_record(row->act);
    bool is_there = row->error_class == NULL || record[0] != '\0';
    free(record);
    return is_there;
}

static void row_await(unsigned worker, const struct row *row)
{
    test_await(has_ended(worker, row));
    char *record = dead_record(row->act);
    if (row->error_class == NULL) {
        assert_string_equal(record, "");
    } else {
        char wanted[64];
        snprintf(wanted, sizeof wanted, "\"error_class\":\"%s\"", row->error_class);
        assert_contains(record, wanted);
        assert_contains(record, row->words);
    }
    free(record);
}

static void assert_once(const char *jid, const char *which)
{
    static const char *const notes[] = {"begin", "end"};
    char line[64];
    for (size_t i = 0; i < 2; i++) {
        snprintf(line, sizeof line, "%s %s-%s", notes[i], jid, which);
        test_await(fleet_noted(&fleet, line) > 0);
        if (fleet_noted(&fleet, line) != 1)
            fail_msg("more than once: %s", line);
    }
}

static void neighbours_await(const struct row *row)
{
    assert_once(row->act, "before");
    assert_once(row->act, "locked");
    assert_once(row->act, "after");
}

/* Takes the lock away while the handler works on. */
static void lock_take_away(void)
{
    test_await(fleet_noted(&fleet, "begin late") == 1);
    lock_cluster_take_away(&fleet.locks, "lock:late");
}

/* --- the worker ------------------------------------------------------------------------------------------------- */

/* The living children of a process; of this one, also those who lost their parents below it. The first comes in
 * `first`. The kernel's own list of children misses some while others end. */
static unsigned children_of(pid_t parent, pid_t *first)
{
    unsigned count = 0;
    DIR *processes = opendir("/proc");
    assert_non_null(processes);
    for (const struct dirent *entry; (entry = readdir(processes)) != NULL;) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid > 0 && strtol(process_status(pid, "PPid"), NULL, 10) == parent && !process_is_dead(pid) &&
            ++count == 1 && first != NULL)
            *first = pid;
    }
    closedir(processes);
    return count;
}

static unsigned children_alive(void)
{
    return children_of(getpid(), NULL);
}

struct footprint {
    int descriptors; /* without those of runner processes */
    long kilobytes;
};

/* Of a runner process, which is a child of the zygote, the worker has a socket and a pipe. */
static struct footprint footprint_of(unsigned worker)
{
    pid_t pid = fleet.workers[worker].pid, beside = 0;
    assert_int_equal(children_of(pid, &beside), 1);
    int runners = (int)children_of(beside, NULL);
    return (struct footprint){.descriptors = (int)descriptors_open(pid) - 2 * runners,
                              .kilobytes = strtol(process_status(pid, "VmRSS"), NULL, 10)};
}

/* What a worker takes for its buffers, its threads and its locks. */
enum { KILOBYTES_MORE = 40 << 10 };

static bool has_grown(unsigned worker, struct footprint before, long kilobytes)
{
    struct footprint now = footprint_of(worker);
    bool is_sanitized = getenv("HOLDFAST_SANITIZED") != NULL; /* which keeps freed memory */
    return now.descriptors > before.descriptors || (!is_sanitized && now.kilobytes > before.kilobytes + kilobytes);
}

/* Started, and over with its first tasks. */
static unsigned work(const struct fleet_setup *setup)
{
    unsigned worker = fleet_work(&fleet, setup);
    fleet_push(&fleet, "{\"class\":\"tame\",\"args\":[0],\"jid\":\"first\"}");
    test_await(fleet_noted(&fleet, "end first") == 1);
    return worker;
}

static void survives(const struct fleet_setup *setup, const struct stage *stage, long kilobytes)
{
    unsigned others = children_alive(), worker = work(setup);
    struct footprint before = footprint_of(worker);
    unsigned expected_dead = 0;
    for (unsigned i = 0; i < stage->count; i++) {
        row_push(stage, &stage->rows[i]);
        expected_dead += stage->rows[i].error_class != NULL;
    }
    lock_take_away();
    for (unsigned i = 0; i < stage->count; i++) {
        row_await(worker, &stage->rows[i]);
        neighbours_await(&stage->rows[i]);
    }
    test_await(fleet_left(&fleet) == expected_dead);
    assert_int_equal(fleet_number(&fleet, "ZCARD dead"), expected_dead);
    test_await(lock_cluster_keys(&fleet.locks) == 0);
    test_await(!has_grown(worker, before, kilobytes));
    one_fleet_stop(worker);
    test_await(children_alive() == others);
    for (unsigned i = 0; i < stage->count; i++)
        if (stage->rows[i].logged != NULL && !fleet_logged(&fleet, worker, stage->rows[i].logged))
            fail_msg("not in the log: %s", stage->rows[i].logged);
}

/* --- process ---------------------------------------------------------------------------------------------------- */

#define FINAL "retry = \"no\"; on_lost = \"dead\";"

TEST(process_survives)
{
    static const struct row rows[] = {
        {.act = "segv", .error_class = "HF::Crashed", .words = "killed by signal 11", .logged = "runner_crashed"},
        {.act = "abort", .error_class = "HF::Crashed", .words = "killed by signal 6"},
        {.act = "exit", .error_class = "HF::Crashed", .words = "exited with status 3"},
        {.act = "throw", .error_class = "HF::Crashed", .words = "killed by signal 6"},
        {.act = "loop", .error_class = "HF::TimedOut", .words = "longer than its class may", .is_endless = true},
        {.act = "leak"},
        {.act = "block"},
        {.act = "close", .error_class = "HF::Crashed", .words = "it closed a descriptor"},
        {.act = "fork"},
        {.act = "child"},
        {.act = "flood", .logged = "job_output_dropped jid=flood"},
        {.act = "print", .logged = "job_output jid=print class=hostile stream=output text=\"hostile words\""},
        {.act = "wander"},
        {.act = "late", .error_class = "HF::LockLost", .words = "\"jid\":\"late\""},
    };
    survives(&(struct fleet_setup){.plugin = "hostile",
                                   .worker = ALL,
                                   .classes = "{ class = \"hostile\"; isolation = \"process\"; "
                                              "memory_per_process = \"32MiB\"; " FINAL " },"
                                              "{ class = \"endless\"; isolation = \"process\"; timeout = \"100ms\"; "
                                              "grace = \"50ms\"; " FINAL " },"
                                              "{ class = \"tame\"; isolation = \"process\"; }"},
             &(struct stage){"hostile", "endless", rows, sizeof rows / sizeof rows[0]}, KILOBYTES_MORE);
}

/* --- exec ------------------------------------------------------------------------------------------------------- */

/* What the plugin does, as far as a shell can. */
static const char program[] = "act=$(tr -cd a-z); echo \"begin $HF_JID\" >>\"$D/journal\"\n"
                              "case $act in\n"
                              "segv) kill -SEGV $$;;\n"
                              "abort) kill -ABRT $$;;\n"
                              "exit) exit 3;;\n"
                              "loop) trap '' TERM INT HUP; while :; do :; done;;\n"
                              "leak) head -c 1000000000 /dev/zero | tail >/dev/null;;\n"
                              "block) trap '' TERM INT HUP QUIT USR1 USR2 ALRM;;\n"
                              "close) exec <&- >&- 2>&- 3>&-; exit 0;;\n"
                              "fork) sleep 1000 & setsid sleep 1000 & exit 0;;\n"
                              "flood) yes | head -c 1073741824;;\n"
                              "print) echo hostile words; echo more of them >&2;;\n"
                              "wander) cd /tmp && umask 0 && export LC_ALL=de_DE.UTF-8;;\n"
                              "late) trap 'exit 0' TERM; while :; do sleep 0.01; done;;\n"
                              "esac\n";

TEST(exec_survives)
{
    static const struct row rows[] = {
        {.act = "segv", .error_class = "HF::Crashed", .words = "killed by signal 11"},
        {.act = "abort", .error_class = "HF::Crashed", .words = "killed by signal 6"},
        {.act = "exit", .error_class = "HF::Failed", .words = "exited with status 3"},
        {.act = "loop", .error_class = "HF::TimedOut", .words = "longer than its class may", .is_endless = true},
        {.act = "leak", .error_class = "HF::Failed", .words = "exited with status 1"},
        {.act = "block"},
        {.act = "close"},
        {.act = "fork"},
        {.act = "flood", .logged = "job_output_dropped jid=flood"},
        {.act = "print", .logged = "job_output jid=print class=shell stream=stderr text=\"more of them\""},
        {.act = "wander"},
        {.act = "late", .error_class = "HF::LockLost", .words = "\"jid\":\"late\""},
    };
    char path[128], classes[700];
    snprintf(path, sizeof path, "%s/program", fleet.directory);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\nD=%s\n%s", fleet.directory, program);
    assert_int_equal(fchmod(fileno(file), 0755), 0);
    assert_int_equal(fclose(file), 0);
    snprintf(classes, sizeof classes,
             "{ class = \"shell\"; program = \"%s\"; memory_limit = \"256MiB\"; " FINAL " },"
             "{ class = \"slow\"; program = \"%s\"; timeout = \"100ms\"; grace = \"50ms\"; " FINAL " },"
             "{ class = \"tame\"; isolation = \"process\"; }",
             path, path);
    survives(&(struct fleet_setup){.plugin = "hostile", .worker = ALL, .classes = classes},
             &(struct stage){"shell", "slow", rows, sizeof rows / sizeof rows[0]}, KILOBYTES_MORE);
}

/* --- thread ----------------------------------------------------------------------------------------------------- */

#define THREADS                                                                                                        \
    "{ class = \"hostile\"; isolation = \"thread\"; " FINAL " }, { class = \"tame\"; isolation = \"thread\"; }"

TEST(thread_survives)
{
    enum { LEAKED_KILOBYTES = 48 << 10 };
    static const struct row rows[] = {
        {.act = "leak"},   {.act = "block"},
        {.act = "child"},  {.act = "print", .logged = "hostile words\n"},
        {.act = "wander"}, {.act = "late", .error_class = "HF::LockLost", .words = "\"jid\":\"late\""},
    };
    survives(&(struct fleet_setup){.plugin = "hostile", .worker = ALL, .classes = THREADS},
             &(struct stage){"hostile", NULL, rows, sizeof rows / sizeof rows[0]}, KILOBYTES_MORE + LEAKED_KILOBYTES);
}

/* What the next worker does not do: run it in vain again. */
static void push_once(const char *act)
{
    fleet_push(&fleet, "{\"class\":\"hostile\",\"args\":[\"%s\",\"once\"],\"jid\":\"%s\",\"resource\":\"%s\"}", act,
               act, act);
}

TEST(thread_crash_costs_the_worker_and_nothing_else)
{
    static const char *const acts[] = {"segv", "abort", "throw", "exit"};
    static const struct fleet_setup setup = {
        .plugin = "hostile", .crashes = true, .classes = THREADS, .worker = "lease = \"1s\"; stop_timeout = \"10ms\";"};
    unsigned others = children_alive();
    for (size_t i = 0; i < sizeof acts / sizeof acts[0]; i++) {
        unsigned worker = fleet_work(&fleet, &setup);
        char named[64], locked[64];
        push_once(acts[i]);
        assert_int_not_equal(fleet_wait(&fleet, worker), 0);
        snprintf(named, sizeof named, "jid=%s class=hostile", acts[i]);
        test_await(fleet_logged(&fleet, worker, "task_was_running"));
        test_await(fleet_logged(&fleet, worker, named));
        snprintf(locked, sizeof locked, "%s-locked", acts[i]);
        fleet_push(&fleet, "{\"class\":\"tame\",\"args\":[2],\"jid\":\"%s\",\"resource\":\"%s\"}", locked, acts[i]);
    }
    unsigned worker = fleet_work(&fleet, &setup);
    for (size_t i = 0; i < sizeof acts / sizeof acts[0]; i++)
        assert_once(acts[i], "locked");
    test_await(fleet_left(&fleet) == 0);
    one_fleet_stop(worker);
    test_await(children_alive() == others);
}

TEST(thread_that_never_returns_is_abandoned)
{
    static const struct fleet_setup setup = {
        .plugin = "hostile", .classes = THREADS, .worker = "lease = \"1s\"; stop_timeout = \"10ms\";"};
    unsigned first = work(&setup);
    push_once("loop");
    test_await(fleet_noted(&fleet, "begin loop") == 1);
    fleet_push(&fleet, "{\"class\":\"tame\",\"args\":[2],\"jid\":\"loop-beside\"}");
    assert_once("loop", "beside");
    fleet_signal(&fleet, first, SIGTERM);
    assert_int_not_equal(fleet_wait(&fleet, first), 0);
    unsigned second = fleet_work(&fleet, &setup);
    fleet_push(&fleet, "{\"class\":\"tame\",\"args\":[2],\"jid\":\"loop-locked\",\"resource\":\"loop\"}");
    assert_once("loop", "locked");
    test_await(fleet_left(&fleet) == 0);
    one_fleet_stop(second);
}

/* Whoever loses its parents comes to this process; what crashes on purpose leaves no image of its memory. */
static int set_up(void **state)
{
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    return prctl(PR_SET_CHILD_SUBREAPER, 1) == 0 ? one_fleet_set_up(state) : -1;
}

RUN_GROUP(set_up, one_fleet_tear_down, NULL, one_fleet_clean)
