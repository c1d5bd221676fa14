/* What a program costs when the zygote starts it, and when it is the handler of a task (exec: with its pipes, arguments
 * and environment), beside posix_spawn of the same program in the same run: from the wish until its end is known, one
 * after the other, and several at once. They take turns, because the machine may be half as fast a moment later; the
 * figures are medians of the rounds. Only the ratios mean anything.
 *
 * posix_spawn is called by this process, which is small; in a worker, with its memory and threads, it is dearer.
 *
 * With --queue-port it runs bare tasks instead, the yardstick of whole ones: a blocking process without locks or limits
 * fetches a task (LMOVE), runs the program by posix_spawn, waits for its end, and acknowledges the task (RPOP).
 *
 * One JSON line goes to standard output. */
#include <getopt.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "base/invariant.h"
#include "base/loop.h"
#include "tests/bench/bench_node.h"
#include "worker/isolation/launcher.h"
#include "worker/isolation/program.h"

enum { AT_ONCE_MAX = 64, ROUNDS_MAX = 1000, EXIT_USAGE = 2 };

static struct settings {
    unsigned rounds, runs, at_once, queue_port;
    const char *program;
} settings = {.rounds = 25, .runs = 40, .at_once = 1, .program = "/bin/true"};

static const char *arguments[] = {NULL, NULL};
static struct loop *loop;
static struct launcher *launcher;
static struct child children[AT_ONCE_MAX];
static struct run_table *run_table;
static struct programs *programs;
static struct hf_job jobs[AT_ONCE_MAX];
static struct isolated_run runs[AT_ONCE_MAX];
static unsigned to_start, to_end;

static void usage(FILE *out)
{
    fputs("usage: spawn-bench [options]\n"
          "Runs a program by the zygote, as a handler, and by posix_spawn, and prints one line of JSON.\n"
          "  --rounds N    rounds, of which the median is taken, 1 to 1000 (25)\n"
          "  --runs N      runs of the program in a round, 1 to 100000 (40)\n"
          "  --at-once N   so many of them run at once, 1 to 64 (1)\n"
          "  --program P   the program (/bin/true)\n"
          "  --queue-port P  run --runs bare tasks of the queue node on this port instead\n"
          "  --help        this text\n",
          out);
}

static unsigned number_parse(const char *text, unsigned high)
{
    char *end;
    unsigned long number = strtoul(text, &end, 10);
    if (*text >= '0' && *text <= '9' && *end == '\0' && number >= 1 && number <= high)
        return (unsigned)number;
    fprintf(stderr, "spawn-bench: %s is not a number from 1 to %u (see --help)\n", text, high);
    exit(EXIT_USAGE);
}

static void parse(int count, char **words)
{
    static const struct option options[] = {{"rounds", required_argument, NULL, 'r'},
                                            {"runs", required_argument, NULL, 'n'},
                                            {"at-once", required_argument, NULL, 'a'},
                                            {"program", required_argument, NULL, 'p'},
                                            {"queue-port", required_argument, NULL, 'q'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    for (int option; (option = getopt_long(count, words, "", options, NULL)) != -1;) {
        if (option == 'r')
            settings.rounds = number_parse(optarg, ROUNDS_MAX);
        else if (option == 'n')
            settings.runs = number_parse(optarg, 100000);
        else if (option == 'a')
            settings.at_once = number_parse(optarg, AT_ONCE_MAX);
        else if (option == 'q')
            settings.queue_port = number_parse(optarg, 65535);
        else if (option == 'p')
            settings.program = optarg;
        else {
            usage(option == 'h' ? stdout : stderr);
            exit(option == 'h' ? EXIT_SUCCESS : EXIT_USAGE);
        }
    }
    arguments[0] = settings.program;
}

/* --- the zygote --------------------------------------------------------------------------------------------------- */

static void start_next(struct child *child)
{
    if (to_start == 0)
        return;
    to_start--;
    struct child_plan plan = {
        .kind = CHILD_PROGRAM, .descriptors = {-1, 1, 2}, .descriptor_count = 3, .arguments = arguments};
    launcher_spawn(launcher, child, &plan);
}

static void child_exited(struct child *child, const struct child_exit *end)
{
    invariant(end->wait_status == 0);
    if (--to_end == 0)
        loop_stop(loop);
    else
        start_next(child);
}

static void zygote_lost(void *context)
{
    (void)context;
    fputs("spawn-bench: the zygote died\n", stderr);
    exit(EXIT_FAILURE);
}

static double launched_round(void)
{
    struct instant from = instant_now();
    to_start = to_end = settings.runs;
    for (unsigned i = 0; i < settings.at_once; i++) {
        child_init(&children[i], NULL, child_exited);
        start_next(&children[i]);
    }
    loop_run(loop);
    return (double)instant_since(from, instant_now());
}

/* --- a task whose handler is the program -------------------------------------------------------------------------- */

static void run_next(struct isolated_run *run)
{
    if (to_start == 0)
        return;
    to_start--;
    run_entry_clear(run->run_entry);
    run_entry_open(run->run_entry, run->job->jid, run->job->class_name);
    programs_start(programs, run);
}

static void run_ended(struct isolated_run *run, int code)
{
    invariant(code == HF_OK);
    run_entry_close(run->run_entry);
    if (--to_end == 0)
        loop_stop(loop);
    else
        run_next(run);
}

static double run_round(void)
{
    struct instant from = instant_now();
    to_start = to_end = settings.runs;
    for (unsigned i = 0; i < settings.at_once; i++)
        run_next(&runs[i]);
    loop_run(loop);
    return (double)instant_since(from, instant_now());
}

static void runs_prepare(void)
{
    static const struct plugin_handler handler = {.class_name = "bench", .program = arguments};
    static const struct task_rules rules = {.isolation = CONFIG_ISOLATION_EXEC};
    programs = programs_create(&(struct isolation_options){.loop = loop, .launcher = launcher, .run_table = run_table});
    atomic_store(&run_table->lease_end, INT64_MAX);
    for (unsigned i = 0; i < settings.at_once; i++) {
        jobs[i] = (struct hf_job){.class_name = "bench",
                                  .queue = "default",
                                  .jid = "0123456789abcdef01234567",
                                  .args = {"[1,2,3]", 7},
                                  .run_entry = run_table_entry(run_table, i),
                                  .run_table = run_table};
        runs[i] = (struct isolated_run){
            .job = &jobs[i], .run_entry = jobs[i].run_entry, .handler = &handler, .rules = &rules, .ended = run_ended};
    }
}

/* --- posix_spawn -------------------------------------------------------------------------------------------------- */

static void spawn_one(void)
{
    pid_t pid;
    char *nothing[] = {NULL}, *words[] = {(char *)(uintptr_t)settings.program, NULL};
    invariant(posix_spawn(&pid, settings.program, NULL, NULL, words, nothing) == 0);
}

static void reap_one(void)
{
    int status = 0;
    invariant(wait(&status) > 0 && status == 0);
}

static double spawned_round(void)
{
    struct instant from = instant_now();
    unsigned running = 0;
    for (unsigned left = settings.runs; left > 0; left--) {
        spawn_one();
        if (++running == settings.at_once) {
            reap_one();
            running--;
        }
    }
    while (running-- > 0)
        reap_one();
    return (double)instant_since(from, instant_now());
}

/* --- bare tasks --------------------------------------------------------------------------------------------------- */

static const char push[] = "*3\r\n$5\r\nLPUSH\r\n$8\r\nbench:in\r\n$160\r\n%0160d\r\n";
static const char fetch[] = "LMOVE bench:in bench:out RIGHT LEFT\r\n", acknowledge[] = "RPOP bench:out\r\n";

/* The node answers a push with a number, and the others with a payload, in one piece. */
static void node_ask(int node, const char *request, size_t length, char kind)
{
    char answer[256] = "";
    if (send(node, request, length, MSG_NOSIGNAL) == (ssize_t)length && recv(node, answer, sizeof answer, 0) > 0 &&
        answer[0] == kind)
        return;
    fputs("spawn-bench: the queue node does not answer as it should\n", stderr);
    exit(EXIT_FAILURE);
}

static void bare_tasks_run(void)
{
    char request[256];
    int node = bench_node_connect(settings.queue_port);
    for (unsigned i = 0; i < settings.runs; i++)
        node_ask(node, request, (size_t)snprintf(request, sizeof request, push, (int)i), ':');
    struct instant from = instant_now();
    for (unsigned left = settings.runs; left > 0; left--) {
        node_ask(node, fetch, sizeof fetch - 1, '$');
        spawn_one();
        reap_one();
        node_ask(node, acknowledge, sizeof acknowledge - 1, '$');
    }
    printf("{\"program\":\"%s\",\"bare_task_us\":%.1f}\n", settings.program,
           (double)instant_since(from, instant_now()) / settings.runs / (double)NS_PER_US);
    close(node);
}

/* --- figures ------------------------------------------------------------------------------------------------------ */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values)
{
    qsort(values, settings.rounds, sizeof *values, compare);
    return values[settings.rounds / 2];
}

static void measure(void)
{
    static double launched[ROUNDS_MAX], spawned[ROUNDS_MAX], ran[ROUNDS_MAX], ratios[ROUNDS_MAX],
        run_ratios[ROUNDS_MAX];
    launched_round();
    run_round();
    spawned_round();
    for (unsigned i = 0; i < settings.rounds; i++) {
        launched[i] = launched_round();
        spawned[i] = spawned_round();
        ran[i] = run_round();
        ratios[i] = launched[i] / spawned[i];
        run_ratios[i] = ran[i] / spawned[i];
    }
    double runs_us = settings.runs * (double)NS_PER_US;
    printf("{\"program\":\"%s\",\"at_once\":%u,\"zygote_us\":%.1f,\"posix_spawn_us\":%.1f,\"ratio\":%.3f,"
           "\"exec_us\":%.1f,\"exec_ratio\":%.3f}\n",
           settings.program, settings.at_once, median(launched) / runs_us, median(spawned) / runs_us, median(ratios),
           median(ran) / runs_us, median(run_ratios));
}

int main(int count, char **words)
{
    parse(count, words);
    if (settings.queue_port != 0) {
        bare_tasks_run();
        return EXIT_SUCCESS;
    }
    struct error error = ERROR_NONE;
    struct zygote zygote;
    run_table = run_table_create(AT_ONCE_MAX);
    struct zygote_options options = {.run_table = run_table, .log = {.level = LOG_WARN, .fd = 2}};
    if (run_table == NULL || !zygote_start(&zygote, &options, &error) || (loop = loop_create(&error)) == NULL) {
        fprintf(stderr, "spawn-bench: %s\n", error.text);
        return EXIT_FAILURE;
    }
    launcher = launcher_create(loop, &zygote, run_table, zygote_lost, NULL);
    runs_prepare();
    measure();
    programs_destroy(programs);
    launcher_destroy(launcher);
    loop_destroy(loop);
    run_table_destroy(run_table);
    return EXIT_SUCCESS;
}
