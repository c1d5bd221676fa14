/* holdfast dry-run on nodes of its own, from the command line to the last file: what it counts, whether a seed repeats
 * it, how it ends, what faults do to it, and what it refuses. */
#include "tests/support/dry_run_fixture.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/support/page_check.h"

/* --- helpers ------------------------------------------------------------------------------------------------------ */

static char *file_take(const char *name)
{
    char path[PRIVATE_DIRECTORY_MAX + 64];
    struct stat status;
    snprintf(path, sizeof path, "%s/%s", place, name);
    FILE *file = fopen(path, "re");
    if (file == NULL || fstat(fileno(file), &status) != 0)
        fail_msg("%s was not written", path);
    char *text = calloc(1, (size_t)status.st_size + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)status.st_size, file), (size_t)status.st_size);
    fclose(file);
    unlink(path);
    return text;
}

static void file_write(const char *name, const char *text)
{
    char path[PRIVATE_DIRECTORY_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", place, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fchmod(fileno(file), 0600), 0);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void file_remove(const char *name)
{
    char path[PRIVATE_DIRECTORY_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", place, name);
    assert_int_equal(unlink(path), 0);
}

static uint64_t holds(void)
{
    uint64_t count = 0;
    for (size_t i = 0; i < found.resource_count; i++)
        count += found.resources[i].held;
    return count;
}

/* --- what it counts ----------------------------------------------------------------------------------------------- */

/* What a node did not answer in time, it may never have seen. */
static void nodes_agree(void)
{
    unsigned lock_nodes = 0;
    uint64_t counted = 0;
    assert_int_equal(found.node_count, 6);
    for (unsigned i = 0; i < found.node_count; i++) {
        const struct result_node *node = &found.nodes[i];
        assert_int_equal(node->keys_at_end, 0);
        if (node->is_queue_node) {
            assert_true(node->commands_counted > found.done);
            continue;
        }
        lock_nodes++;
        counted += node->commands_counted;
        if (node->timeouts + node->errors == 0)
            assert_int_equal(node->commands_counted, node->commands_sent);
    }
    assert_int_equal(lock_nodes, 5);
    assert_true(counted >= 3 * found.done); /* each was locked on a majority */
}

static void page_is_whole(void)
{
    char *page = file_take("page.html"), *data = page_data(page);
    printed.out[strcspn(printed.out, "\n")] = '\0';
    assert_contains(data, printed.out);
    free(page);
    free(data);
}

TEST(all_is_counted_and_nothing_is_left)
{
    run_well("--private --for 3s --rate 60/s --resources 5 --zipf 1.1 --hold exp:5ms --threads 4 --processes 2 --json "
             "--save %s/saved.json --html %s/page.html",
             place, place);
    assert_in_range(found.pushed, 100, 300);
    assert_int_equal(found.ended, found.pushed);
    assert_int_equal(found.done, found.pushed);
    assert_int_equal(found.twice, 0);
    assert_int_equal(found.left, 0);
    assert_int_equal(found.lost, 0);
    assert_int_equal(found.overlaps, 0);
    assert_int_equal(found.fence_refusals, 0);
    assert_int_equal(found.resource_count, 5);
    assert_int_equal(holds(), found.done);
    assert_true(found.is_drained);
    assert_false(found.was_interrupted);
    assert_true(found.hold.mean > 0.004 && found.wait.count > 0 && found.acquire.count > 0);
    assert_int_equal(found.host_count, 1);
    assert_int_equal(found.hosts[0].processes, 2);
    assert_int_equal(found.hosts[0].records_lost, 0);
    nodes_agree();
    char *saved = file_take("saved.json");
    saved[strcspn(saved, "\n")] = printed.out[strcspn(printed.out, "\n")] = '\0';
    assert_string_equal(saved, printed.out);
    free(saved);
    page_is_whole();
    assert_nothing_is_left();
}

TEST(what_the_plan_has_fail_is_counted_and_not_told)
{
    file_write("fails.conf", "queue_node = { host = \"127.0.0.1\"; };\n"
                             "classes = ({ class = \"fails\"; program = [\"/bin/true\"]; retry = \"no\"; });\n");
    run_well("-c %s/fails.conf --private=1 --class fails --for 1s --threads 4 --hold fixed:1ms --failures 0.5 --json",
             place);
    file_remove("fails.conf");
    assert_true(found.dead > 0 && found.done > 0);
    assert_int_equal(found.dead + found.done, found.pushed);
    assert_null(strstr(printed.error, "task_ended"));
    assert_nothing_is_left();
}

/* --- seeds -------------------------------------------------------------------------------------------------------- */

/* What came for each resource, in the order of their names. */
static char *arrivals_run(unsigned seed)
{
    struct buffer text = {0};
    run_well("--private=1 --for 1s --rate 120/s --resources 4 --hold fixed:1ms --threads 4 --json --seed %u", seed);
    assert_int_equal(found.resource_count, 4);
    buffer_format(&text, "%llu:", (unsigned long long)found.pushed);
    for (unsigned name = 0; name < 4; name++)
        for (size_t i = 0; i < found.resource_count; i++)
            if (found.resources[i].name[1] == (char)('0' + name))
                buffer_format(&text, " %llu", (unsigned long long)found.resources[i].arrived);
    return text.bytes;
}

TEST(a_seed_gives_the_same_arrivals_again)
{
    char *first = arrivals_run(7), *again = arrivals_run(7), *other = arrivals_run(8);
    assert_string_equal(first, again);
    assert_string_not_equal(first, other);
    free(first);
    free(again);
    free(other);
}

/* --- ends --------------------------------------------------------------------------------------------------------- */

static struct program long_run(void)
{
    struct program program =
        run_start("--private=3 --for 60s --rate 100/s --resources 5 --threads 4 --processes 2 --json "
                  "--fault 500ms:stop:lock2:10ms");
    await_said(&program, "lock2 was stopped"); /* so the load lasts, and there is something to tell */
    test_await(processes_left() ==
               1 + 1 + 2 * 2 + 4); /* itself, its cleanup process, workers and their zygotes, servers */
    return program;
}

static void interrupt_with(int number)
{
    struct program program = long_run();
    kill(program.pid, number);
    run_end_well(&program);
    assert_true(found.was_interrupted);
    assert_true(found.pushed > 0);
    assert_int_equal(found.twice, 0);
    assert_int_equal(found.node_count, 4);
    for (unsigned i = 0; i < found.node_count; i++)
        assert_int_equal(found.nodes[i].keys_at_end, 0);
    assert_nothing_is_left();
}

TEST(an_interrupt_ends_it_with_a_report)
{
    interrupt_with(SIGINT);
}

TEST(a_termination_ends_it_with_a_report)
{
    interrupt_with(SIGTERM);
}

/* Also in the last moments of the process. */
static void signal_until_it_ends(const struct program *program)
{
    siginfo_t end = {.si_pid = 0};
    for (unsigned i = 0; end.si_pid == 0; i++) {
        kill(program->pid, i % 2 == 0 ? SIGINT : SIGTERM);
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
        assert_int_equal(waitid(P_PID, (id_t)program->pid, &end, WEXITED | WNOHANG | WNOWAIT), 0);
    }
}

TEST(signals_to_the_very_end_cost_no_report)
{
    struct program program = long_run();
    signal_until_it_ends(&program);
    run_end_well(&program);
    assert_true(found.was_interrupted);
    assert_nothing_is_left();
}

TEST(nothing_is_left_of_one_that_is_killed)
{
    struct program program = long_run();
    assert_int_equal(files_left(), 1);
    kill(program.pid, SIGKILL);
    assert_int_equal(run_end(&program), -1);
    await_that_nothing_is_left();
}

/* However early: who removes the directory is there before it is. */
TEST(nothing_is_left_of_one_that_is_killed_while_its_nodes_start)
{
    struct program program = run_start("--private --for 60s --rate 200/s --json");
    test_await(files_left() == 1);
    kill(program.pid, SIGKILL);
    assert_int_equal(run_end(&program), -1);
    await_that_nothing_is_left();
}

/* --- faults ------------------------------------------------------------------------------------------------------- */

TEST(faults_are_survived_and_told)
{
    run_well("--private --for 10s --rate 40/s --resources 10 --hold exp:5ms --threads 4 --processes 2 --json "
             "--fault 500ms:stop:lock2:500ms --fault 1100ms:kill:lock3:300ms --fault 1600ms:wipe:lock1");
    assert_int_equal(found.fault_count, 3);
    for (unsigned i = 0; i < found.fault_count; i++)
        if (!found.faults[i].was_done)
            fail_msg("not done: %s", found.faults[i].text);
    assert_contains(found.faults[0].text, "lock2 was stopped for ");
    assert_contains(found.faults[1].text, "lock3 was killed");
    assert_contains(found.faults[2].text, "lock1 lost all its keys");
    assert_int_equal(found.twice, 0);
    assert_int_equal(found.ended, found.pushed);
    assert_int_equal(found.overlaps_unfenced, 0);
    assert_nothing_is_left();
}

/* What then becomes of its locks: test_dry_run_freeze.c. */
TEST(a_frozen_worker_is_told)
{
    file_write("short.conf", "queue_node = { host = \"127.0.0.1\"; };\nlock = { ttl = \"1s\"; };\n");
    run_well("-c %s/short.conf --private=3 --for 4s --closed 8 --resources 1 --hold fixed:50ms --threads 2 "
             "--processes 2 "
             "--json --fault 1s:freeze:worker1:2500ms",
             place);
    file_remove("short.conf");
    assert_true(found.faults[0].was_done);
    assert_contains(found.faults[0].text, "worker process 1 was stopped for ");
    assert_contains(found.answer, "With its fault (worker process 1 was stopped for ");
    assert_int_equal(found.bottleneck, RESULT_UNKNOWN);
    assert_int_equal(found.overlaps_unfenced, 0);
    assert_true(found.done > 0);
    assert_nothing_is_left();
}

/* --- code of production ------------------------------------------------------------------------------------------- */

/* It would take a worker of production down; here it is told, and the run goes on. */
TEST(a_check_that_crashes_is_told_with_its_class)
{
    struct buffer text = {0};
    char *plugins = realpath(test_build(), NULL);
    assert_non_null(plugins);
    buffer_format(&text,
                  "queue_node = { host = \"127.0.0.1\"; };\n"
                  "worker = { jobs_directory = \"%s/tests/plugins\"; jobs = [\"fragile\"]; };\n"
                  "classes = ( { class = \"fragile\"; } );\n",
                  plugins);
    file_write("fragile.conf", buffer_text(&text));
    run_well("-c %s/fragile.conf --private=1 --for 2s --rate 50/s --class fragile --hold fixed:1ms --json", place);
    file_remove("fragile.conf");
    assert_contains(found.crashed_checks, "fragile (SIGABRT) for ");
    assert_contains(printed.error, "the check() of the class fragile crashes");
    assert_lacks(printed.error, "ended by itself");
    assert_true(found.dead > 0);
    assert_true(found.done > 0);
    buffer_fini(&text);
    free(plugins);
    assert_nothing_is_left();
}

/* --- what-if ------------------------------------------------------------------------------------------------------ */

TEST(each_point_is_measured)
{
    run_well("--private=1 --for 6s --rate 100/s --resources 20 --hold fixed:2ms --json --what-if threads=2,4");
    assert_int_equal(found.point_count, 2);
    assert_int_equal(found.points[0].threads, 2);
    assert_int_equal(found.points[1].threads, 4);
    assert_true(found.points[0].throughput > 0 &&
                found.points[1].throughput > 0); /* how much is the machine's affair */
    assert_nothing_is_left();
}

TEST(an_interrupt_ends_a_what_if_with_the_points_so_far)
{
    struct program program = run_start("--private=1 --for 20s --rate 100/s --json --what-if threads=2,4 "
                                       "--fault 500ms:stop:lock1:10ms");
    await_said(&program, "lock1 was stopped");
    signal_until_it_ends(&program);
    run_end_well(&program);
    assert_true(found.was_interrupted);
    assert_int_equal(found.point_count, 1);
    assert_nothing_is_left();
}

/* --- what is refused ---------------------------------------------------------------------------------------------- */

/* A mistake in how it is called, and what follows it. */
static void assert_misused(const char *mistake, const char *arguments)
{
    struct buffer message = {0};
    buffer_format(&message,
                  "holdfast dry-run: %s\n"
                  "Usage: holdfast dry-run [OPTIONS] [compare A.json B.json | merge FILE ...]\n"
                  "`holdfast dry-run --help` says more.\n",
                  mistake);
    assert_refused(2, buffer_text(&message), "%s", arguments);
    buffer_fini(&message);
}

TEST(misuse_is_told)
{
    assert_misused("--for: \"yesterday\" is not a duration; write for example 20ms, 10s or 5m", "--for yesterday");
    assert_misused("--fault: \"500ms:freeze\": write WHEN:WHAT:WHOM and how: 5s:stop:lock2:3s, 5s:kill:lock2:3s, "
                   "6s:wipe:lock1, 5s:slow:lock3:20ms:4s, 5s:clock:lock2:+5s, 5s:freeze:worker1:4s or "
                   "5s:kill:worker2",
                   "--for 1s --fault 500ms:freeze");
    assert_misused("merge wants the files that --save has written, of each host", "merge one.json");
    assert_misused("\"compaer\" is no option; the words it knows are compare and merge", "compaer");
}

TEST(what_cannot_work_is_refused)
{
    assert_refused(1, "error: --resources-per-task 6: there are only 5 resources\n",
                   "--private --for 1s --resources 5 --resources-per-task 6");
    assert_refused(1,
                   "error: --private=4: an even number of lock nodes survives no more failures than one node less: "
                   "use 3 or 5\n",
                   "--private=4 --for 1s");
    assert_refused(1,
                   "error: --class transfer: there is no configuration that says something about it; without --class "
                   "the usual settings hold\n",
                   "--for 1s --class transfer");
    assert_refused(1, "error: --shadow needs the configuration of the fleet: name it with --config\n",
                   "--for 1s --shadow");
    assert_refused(1,
                   "error: --hold: hardly any hold is shorter than the whole run of 1s (the mean is 5s): no task would "
                   "end; a longer --for, or shorter holds\n",
                   "--for 1s --hold fixed:5s");
    assert_refused(1, "error: --fault freeze:worker2: the worker processes of this host are 1 to 1\n",
                   "--for 1s --fault 500ms:freeze:worker2:100ms");
    assert_nothing_is_left();
}

/* Before the run, not after it. */
TEST(a_file_that_cannot_be_written_is_refused_before_the_run)
{
    struct buffer message = {0};
    buffer_format(&message, "holdfast dry-run: %s/none/page.html: No such file or directory\n", place);
    assert_refused(1, buffer_text(&message), "--for 24h --html %s/none/page.html", place);
    assert_refused(1, buffer_text(&message), "--for 24h --html %s/new.html --save %s/none/page.html", place, place);
    char path[PRIVATE_DIRECTORY_MAX + 64];
    snprintf(path, sizeof path, "%s/new.html", place);
    assert_int_not_equal(access(path, F_OK), 0);
    buffer_fini(&message);
}

TEST(what_the_configuration_does_not_let_it_do_is_refused)
{
    file_write("limits.conf", "queue_node = { host = \"127.0.0.1\"; };\nlock = { max_hold = \"10s\"; };\n");
    assert_refused(1,
                   "error: --hold: a hold lasts 11s, and lock.max_hold ends it after 10s however often it is extended: "
                   "shorter holds, or a longer max_hold\n",
                   "-c %s/limits.conf --private --for 60s --hold fixed:11s", place);
    assert_refused(1,
                   "error: --class transfr: the configuration says nothing about such a class; without --class the "
                   "usual settings hold\n",
                   "-c %s/limits.conf --private --for 3s --class transfr", place);
    file_remove("limits.conf");
    assert_nothing_is_left();
}

TEST(garbage_is_not_compared)
{
    struct buffer message = {0};
    file_write("garbage.json", "{\"format\":\"something\"}\n");
    buffer_format(
        &message,
        "holdfast dry-run compare: %s/garbage.json: this is no result of a dry run: holdfast dry-run --json writes "
        "one\n",
        place);
    assert_refused(1, buffer_text(&message), "compare %s/garbage.json %s/garbage.json", place, place);
    buffer_fini(&message);
    file_remove("garbage.json");
}

RUN_GROUP(place_make, place_remove, NULL, NULL)
