/* task-bench: how fast a worker drains a queue of tasks that do nothing, with or without a lock for each of them,
 * and how long a task takes from its push to the start of its handler.
 *
 *     task-bench --queue-port P [--lock-ports A,B,C] --threads N --tasks N [--processes N] [--isolation KIND] [...]
 *     task-bench --queue-port P --lock-ports A,B,C --hold-ms N --tasks N [--processes N] [...]
 *     task-bench --queue-port P [--lock-ports A,B,C] --rate N --seconds N [--program FILE] [--plugins DIR]
 *
 * The first fills the queue `default` of the given node (which must be private to the benchmark), runs `holdfast
 * work --drain` on it with a configuration of its own, and prints one JSON line: what the worker reports of itself,
 * where the time is that from its first claim to its last ending. The second does so with tasks of one resource,
 * each of which holds it for that long, and one or more worker processes: one resource cannot be held more often
 * than limit / hold, as the workers measured it. The third pushes tasks at that rate to a worker that is otherwise
 * idle, and measures in the same run what a bare fetch by a blocking move takes. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/loop.h"
#include "redis/node.h"
#include "redlock/redlock.h"
#include "tests/bench/bench_node.h"
#include "tests/support/pacer.h"
#include "tests/support/private_directory.h"

struct bench {
    unsigned queue_port;
    const char *lock_ports; /* "1,2,3"; NULL = tasks without locks */
    unsigned threads;
    unsigned long tasks;
    const char *program, *jobs, *plugins;
    unsigned rate, seconds; /* rate 0 = drain */
    unsigned hold_ms;       /* 0 = each task has a resource of its own, and does nothing */
    unsigned limit;         /* so many may hold it */
    unsigned processes;
    bool by_count;          /* ends when so many are done, whatever is parked */
    bool parks;             /* somebody else has the lock: ends when all are parked */
    const char *isolation;  /* of class_name, "thread" or "process"; NULL = as the handler says */
    const char *class_name; /* of tasks that are drained: "sleep", or "program" */
    char directory[PRIVATE_DIRECTORY_MAX];

    struct loop *loop;
    struct redis_node *node;
    struct redis_call call;
    struct buffer request;
    unsigned long pushed;
    bool failed;
};

enum { SLICE = 500 };
/* The first tasks find a worker that still connects to its nodes. */
enum { WARM_UP_SECONDS = 2 };

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "task-bench: %s\n", what);
    exit(1);
}

/* --- filling the queue ---------------------------------------------------------------------------------------- */

static void task_encode(struct bench *bench, unsigned long number)
{
    char task[320];
    int length = snprintf(task, sizeof task,
                          "{\"class\":\"%s\",\"queue\":\"default\",\"args\":[%u],\"jid\":\"%024lx\","
                          "\"created_at\":1795194349.25,\"enqueued_at\":1795194359.25,\"retry\":true",
                          bench->class_name, bench->hold_ms, number);
    if (bench->hold_ms > 0)
        length += snprintf(task + length, sizeof task - (size_t)length, ",\"resource\":\"acct:hot\"");
    else if (bench->lock_ports != NULL)
        length += snprintf(task + length, sizeof task - (size_t)length, ",\"resource\":\"acct:%lu\"", number);
    task[length++] = '}';
    redis_request_bytes(&bench->request, task, (size_t)length);
}

static void slice_push(struct bench *bench)
{
    unsigned long count = bench->tasks - bench->pushed < SLICE ? bench->tasks - bench->pushed : SLICE;
    buffer_clear(&bench->request);
    redis_request_begin(&bench->request, 2 + count);
    redis_request_text(&bench->request, "LPUSH");
    redis_request_text(&bench->request, "queue:default");
    for (unsigned long i = 0; i < count; i++)
        task_encode(bench, bench->pushed + i);
    bench->pushed += count;
    struct instant deadline = instant_after(loop_now(bench->loop), 10 * NS_PER_S);
    if (!redis_node_call(bench->node, &bench->request, deadline, &bench->call)) {
        bench->failed = true;
        loop_stop(bench->loop);
    }
}

static void slice_pushed(struct redis_call *call, const struct redis_result *result)
{
    struct bench *bench = list_owner(call, struct bench, call);
    bench->failed = result->outcome != REDIS_VALUE;
    if (bench->failed || bench->pushed == bench->tasks)
        loop_stop(bench->loop);
    else
        slice_push(bench);
}

static void node_changed(void *context, struct redis_node *node, enum redis_node_state state, const char *reason)
{
    (void)node;
    struct bench *bench = context;
    if (state == REDIS_NODE_UP) {
        slice_push(bench);
        return;
    }
    fprintf(stderr, "task-bench: queue node: %s\n", reason);
    bench->failed = true;
    loop_stop(bench->loop);
}

static void queue_fill(struct bench *bench)
{
    struct error error = ERROR_NONE;
    bench->loop = loop_create(&error);
    if (bench->loop == NULL)
        die(error.text);
    bench->call.done = slice_pushed;
    bench->node = redis_node_create(bench->loop, &(struct redis_node_options){.name = "queue",
                                                                              .host = "127.0.0.1",
                                                                              .port = bench->queue_port,
                                                                              .changed = node_changed,
                                                                              .context = bench});
    loop_run(bench->loop);
    redis_node_destroy(bench->node);
    loop_destroy(bench->loop);
    buffer_fini(&bench->request);
    if (bench->failed)
        die("the queue could not be filled");
}

/* --- running the worker --------------------------------------------------------------------------------------- */

static void path_make(const struct bench *bench, const char *name, char path[128])
{
    snprintf(path, 128, "%s/%s", bench->directory, name);
}

/* What runs the tasks. A program is started for each of them. */
static void class_write(const struct bench *bench, FILE *file)
{
    const char *lock = bench->lock_ports == NULL ? " lock = \"none\";" : "";
    fprintf(file, "classes = (");
    if (strcmp(bench->class_name, "program") == 0)
        fprintf(file, " { class = \"program\"; program = \"/bin/true\";%s },", lock);
    fprintf(file, " { class = \"%s\";%s", bench->rate > 0 ? "stamp" : "sleep", lock);
    if (bench->limit > 1)
        fprintf(file, " limit = %u;", bench->limit);
    if (bench->isolation != NULL)
        fprintf(file, " isolation = \"%s\";", bench->isolation);
    fprintf(file, " } );\n");
}

static void config_write(const struct bench *bench, const char *path)
{
    FILE *file = fopen(path, "we");
    if (file == NULL)
        die("the configuration cannot be written");
    fprintf(file,
            "worker = { threads = %u; jobs_directory = \"%s\"; jobs = [\"%s\"]; log_level = \"warn\"; allow_root = "
            "true; };\nplugin_settings = ({ plugin = \"stamp\"; settings = { out = \"%s/stamps\"; }; });\n",
            bench->threads, bench->rate > 0 ? bench->plugins : bench->jobs, bench->rate > 0 ? "stamp" : "sleep",
            bench->directory);
    fprintf(file, "queue_node = { host = \"127.0.0.1\"; port = %u; };\n", bench->queue_port);
    if (bench->lock_ports != NULL) {
        char *ports = strdup(bench->lock_ports), *rest = NULL;
        const char *comma = "";
        fprintf(file, "lock_nodes = (");
        for (char *port = strtok_r(ports, ",", &rest); port != NULL; port = strtok_r(NULL, ",", &rest), comma = ",")
            fprintf(file, "%s { host = \"127.0.0.1\"; port = %s; }", comma, port);
        fprintf(file, ");\n");
        free(ports);
    }
    class_write(bench, file);
    if (fclose(file) != 0)
        die("the configuration cannot be written");
}

static unsigned long task_count(const struct bench *bench)
{
    return bench->rate > 0 ? (unsigned long)bench->rate * (WARM_UP_SECONDS + bench->seconds) : bench->tasks;
}

static pid_t worker_start(const struct bench *bench, const char *config, const char *report)
{
    char count[32];
    snprintf(count, sizeof count, "%lu", task_count(bench));
    bool drains = bench->rate == 0 && !bench->by_count && !bench->parks;
    pid_t child = fork();
    if (child == 0) {
        execl(bench->program, bench->program, "work", "-c", config, "--report", report,
              drains ? "--drain" : "--max-tasks", drains ? (char *)NULL : count, (char *)NULL);
        fprintf(stderr, "task-bench: %s: %s\n", bench->program, strerror(errno));
        _exit(127);
    }
    return child;
}

static void worker_wait(pid_t child)
{
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        die("the worker failed");
}

/* The report is one flat object of ours; the names that are looked for occur once. */
static double report_number(const char *report, const char *name)
{
    char wanted[64];
    snprintf(wanted, sizeof wanted, "\"%s\":", name);
    const char *found = strstr(report, wanted);
    return found != NULL ? strtod(found + strlen(wanted), NULL) : 0;
}

static char *report_read(const char *path)
{
    static char report[16384];
    FILE *file = fopen(path, "re");
    if (file == NULL)
        die("the worker wrote no report");
    size_t length = fread(report, 1, sizeof report - 1, file);
    fclose(file);
    report[length] = '\0';
    return report;
}

static void tasks_check(const struct bench *bench, double done)
{
    if (done == (double)bench->tasks)
        return;
    fprintf(stderr, "task-bench: %.0f of %lu tasks were done\n", done, bench->tasks);
    exit(1);
}

/* The sums of all workers, and the time of the slowest. */
static void reports_print(const struct bench *bench, char paths[][128])
{
    double done = 0, longest = 0, cpu_seconds = 0, calls = 0, p50_us = 0, p99_us = 0;
    for (unsigned i = 0; i < bench->processes; i++) {
        const char *report = report_read(paths[i]), *wait = strstr(report, "\"lock_wait\":{");
        double seconds = report_number(report, "active_seconds");
        done += report_number(report, "done");
        longest = seconds > longest ? seconds : longest;
        cpu_seconds += report_number(report, "cpu_seconds");
        calls += report_number(report, "claim_calls");
        p50_us = wait != NULL ? report_number(wait, "p50_us") : 0;
        p99_us = wait != NULL ? report_number(wait, "p99_us") : 0;
        unlink(paths[i]);
    }
    tasks_check(bench, done);
    printf("{\"tasks\":%.0f,\"secs\":%.3f,\"tasks_per_s\":%.0f,\"cpu_us_per_task\":%.2f,\"tasks_per_claim_call\":%.1f,"
           "\"lock_p50_us\":%.0f,\"lock_p99_us\":%.0f}\n",
           done, longest, done / longest, cpu_seconds / done * 1e6, done / calls, p50_us, p99_us);
}

/* --- all workers -------------------------------------------------------------------------------------------------- */

enum { PROCESSES_MAX = 16 };

/* Each has a report of its own, whose path is in `reports` then. */
static void workers_run(struct bench *bench, const char *config, char reports[PROCESSES_MAX][128])
{
    pid_t children[PROCESSES_MAX];
    queue_fill(bench);
    for (unsigned i = 0; i < bench->processes; i++) {
        char name[32];
        snprintf(name, sizeof name, "report.%u", i);
        path_make(bench, name, reports[i]);
        children[i] = worker_start(bench, config, reports[i]);
    }
    for (unsigned i = 0; i < bench->processes; i++)
        worker_wait(children[i]);
}

/* --- one resource ------------------------------------------------------------------------------------------------ */

struct hot_sum {
    double done, longest, held, holds, handed_over, attempts, parked, cpu_seconds;
    double lock_p50_us, lock_p99_us; /* from asking to holding, of the slowest process */
};

static void hot_add(struct hot_sum *sum, const char *report)
{
    double active = report_number(report, "active_seconds");
    const char *hold = strstr(report, "\"lock_hold\":{"), *wait = strstr(report, "\"lock_wait\":{");
    sum->done += report_number(report, "done");
    sum->longest = active > sum->longest ? active : sum->longest;
    sum->held += report_number(report, "locks_held_seconds");
    sum->holds += hold != NULL ? report_number(hold, "count") : 0;
    sum->handed_over += report_number(report, "locks_handed_over");
    sum->attempts += report_number(report, "lock_passes");
    sum->parked += report_number(report, "parked");
    sum->cpu_seconds += report_number(report, "cpu_seconds");
    double p50 = wait != NULL ? report_number(wait, "p50_us") : 0,
           p99 = wait != NULL ? report_number(wait, "p99_us") : 0;
    sum->lock_p50_us = p50 > sum->lock_p50_us ? p50 : sum->lock_p50_us;
    sum->lock_p99_us = p99 > sum->lock_p99_us ? p99 : sum->lock_p99_us;
}

static void hot_run(struct bench *bench, const char *config)
{
    char reports[PROCESSES_MAX][128];
    struct hot_sum sum = {0};
    workers_run(bench, config, reports);
    for (unsigned i = 0; i < bench->processes; i++) {
        hot_add(&sum, report_read(reports[i]));
        unlink(reports[i]);
    }
    tasks_check(bench, sum.done);
    printf("{\"cycles\":%.0f,\"processes\":%u,\"secs\":%.3f,\"held_us\":%.0f,\"share\":%.3f,\"handed_over\":%.3f,"
           "\"fails\":%.0f,\"acq_p50_us\":%.0f,\"acq_p99_us\":%.0f,\"client_cpu_us\":%.1f,\"parked_per_task\":%.2f}\n",
           sum.done, bench->processes, sum.longest, sum.held / sum.holds * 1e6,
           sum.done / sum.longest * (sum.held / sum.holds) / bench->limit, sum.handed_over / sum.holds,
           sum.attempts - sum.holds, sum.lock_p50_us, sum.lock_p99_us, sum.cpu_seconds / sum.done * 1e6,
           sum.parked / sum.done);
}

/* --- latency ---------------------------------------------------------------------------------------------------- */

static void pace(const struct bench *bench, const char *list, unsigned seconds, struct histogram *bare)
{
    if (!pacer_run(&(struct pacer_options){.port = bench->queue_port,
                                           .list = list,
                                           .rate = bench->rate,
                                           .seconds = seconds,
                                           .with_resource = bench->lock_ports != NULL,
                                           .takes_them_back = bare != NULL},
                   bare))
        die("the tasks could not be pushed");
}

static void stamps_read(const struct bench *bench, struct histogram *latencies)
{
    char path[128];
    long long microseconds = 0;
    unsigned long read = 0, warm_up = (unsigned long)bench->rate * WARM_UP_SECONDS;
    path_make(bench, "stamps", path);
    FILE *file = fopen(path, "re");
    while (file != NULL && fscanf(file, "%lld", &microseconds) == 1)
        if (++read > warm_up)
            histogram_record(latencies, microseconds);
    if (file == NULL || read != task_count(bench))
        die("not every task was run");
    fclose(file);
    unlink(path);
}

static void latency_run(const struct bench *bench, const char *config, const char *report)
{
    static struct histogram bare, worker;
    pace(bench, "bench:bare", bench->seconds, &bare);
    pid_t child = worker_start(bench, config, report);
    pace(bench, "queue:default", WARM_UP_SECONDS + bench->seconds, NULL);
    worker_wait(child);
    stamps_read(bench, &worker);
    printf("{\"rate\":%u,\"locked\":%s,\"start_p50_us\":%" PRId64 ",\"start_p99_us\":%" PRId64
           ",\"bare_fetch_p50_us\":%" PRId64 ",\"bare_fetch_p99_us\":%" PRId64 ",\"p50_to_bare_fetch\":%.2f}\n",
           bench->rate, bench->lock_ports != NULL ? "true" : "false", histogram_quantile(&worker, 0.5),
           histogram_quantile(&worker, 0.99), histogram_quantile(&bare, 0.5), histogram_quantile(&bare, 0.99),
           (double)histogram_quantile(&worker, 0.5) / (double)histogram_quantile(&bare, 0.5));
}

static void drain_run(struct bench *bench, const char *config)
{
    char reports[PROCESSES_MAX][128];
    workers_run(bench, config, reports);
    reports_print(bench, reports);
}

/* --- parking ------------------------------------------------------------------------------------------------------ */

static unsigned long parked_count(int queue)
{
    static const char question[] = "ZCARD schedule\r\n";
    char answer[64] = "";
    if (send(queue, question, sizeof question - 1, MSG_NOSIGNAL) < 0 ||
        recv(queue, answer, sizeof answer - 1, 0) <= 0 || answer[0] != ':')
        die("the queue node does not say what is parked");
    return strtoul(answer + 1, NULL, 10);
}

static void park_run(struct bench *bench, const char *config, const char *report)
{
    queue_fill(bench);
    pid_t child = worker_start(bench, config, report);
    int queue = bench_node_connect(bench->queue_port);
    while (queue >= 0 && parked_count(queue) < bench->tasks) {
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        if (waitpid(child, NULL, WNOHANG) != 0)
            die("the worker ended before all were parked: has somebody the lock?");
    }
    kill(child, SIGTERM);
    worker_wait(child);
    close(queue);
    printf("{\"parked\":%lu}\n", bench->tasks);
}

/* --- the command line ----------------------------------------------------------------------------------------- */

static const char usage[] =
    "usage: task-bench --queue-port P [--lock-ports A,B,C] [--threads N] [--tasks N] [--isolation KIND]\n"
    "                  [--processes N] [--program FILE] [--jobs DIR]\n"
    "Drains a private queue node of tasks that do nothing and prints one JSON line. With --lock-ports each task is\n"
    "locked on those nodes. KIND is where they run: thread, process, or program, which is /bin/true for each task.\n"
    "Defaults: 50 threads, 100000 tasks, build/holdfast, build/jobs.\n"
    "       task-bench --queue-port P --lock-ports A,B,C --hold-ms N [--limit N] [--processes N] [...]\n"
    "Drains tasks of one resource that each hold it so long, and compares with what the hold allows. Of several\n"
    "processes the slowest counts. With --limit, so many may hold the resource at once. With --parks\n"
    "somebody else has its lock: it ends when all are parked. --ends-by-count: others may be parked meanwhile.\n"
    "       task-bench --queue-port P [--lock-ports A,B,C] --rate N [--seconds N] [--program FILE] [--plugins DIR]\n"
    "Pushes that many tasks a second for that long (5) and prints the time from push to the start of the handler,\n"
    "beside that of a bare fetch. Default of the directory with the plugin `stamp`: build/tests/plugins.\n";

static unsigned long number_parse(const char *text, unsigned long most)
{
    char *end = NULL;
    unsigned long number = strtoul(text, &end, 10);
    if (end == text || *end != '\0' || number < 1 || number > most) {
        fprintf(stderr, "task-bench: '%s' is not a number from 1 to %lu\n%s", text, most, usage);
        exit(2);
    }
    return number;
}

static void options_parse(struct bench *bench, int argc, char **argv)
{
    static const struct option options[] = {
        {"queue-port", required_argument, NULL, 'q'},
        {"lock-ports", required_argument, NULL, 'l'},
        {"threads", required_argument, NULL, 't'},
        {"tasks", required_argument, NULL, 'n'},
        {"program", required_argument, NULL, 'p'},
        {"jobs", required_argument, NULL, 'j'},
        {"plugins", required_argument, NULL, 'g'},
        {"rate", required_argument, NULL, 'r'},
        {"seconds", required_argument, NULL, 's'},
        {"hold-ms", required_argument, NULL, 'm'},
        {"limit", required_argument, NULL, 'w'},
        {"processes", required_argument, NULL, 'c'},
        {"isolation", required_argument, NULL, 'i'},
        {"ends-by-count", no_argument, NULL, 'e'},
        {"parks", no_argument, NULL, 'k'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == 'h') {
            fputs(usage, stdout);
            exit(0);
        }
        if (option == 'q')
            bench->queue_port = (unsigned)number_parse(optarg, 65535);
        else if (option == 'l')
            bench->lock_ports = optarg;
        else if (option == 't')
            bench->threads = (unsigned)number_parse(optarg, 1024);
        else if (option == 'n')
            bench->tasks = number_parse(optarg, 100000000);
        else if (option == 'p')
            bench->program = optarg;
        else if (option == 'j')
            bench->jobs = optarg;
        else if (option == 'g')
            bench->plugins = optarg;
        else if (option == 'r')
            bench->rate = (unsigned)number_parse(optarg, 100000);
        else if (option == 's')
            bench->seconds = (unsigned)number_parse(optarg, 3600);
        else if (option == 'm')
            bench->hold_ms = (unsigned)number_parse(optarg, 3600000);
        else if (option == 'w')
            bench->limit = (unsigned)number_parse(optarg, REDLOCK_LIMIT_MAX);
        else if (option == 'i' && strcmp(optarg, "program") == 0)
            bench->class_name = optarg;
        else if (option == 'i')
            bench->isolation = optarg;
        else if (option == 'e')
            bench->by_count = true;
        else if (option == 'k')
            bench->parks = true;
        else if (option == 'c')
            bench->processes = (unsigned)number_parse(optarg, PROCESSES_MAX);
        else
            exit(2);
    }
    if (bench->queue_port == 0 || (bench->hold_ms > 0 && bench->lock_ports == NULL)) {
        fputs(usage, stderr);
        exit(2);
    }
}

int main(int argc, char **argv)
{
    struct bench bench = {.threads = 50,
                          .tasks = 100000,
                          .program = "build/holdfast",
                          .jobs = "build/jobs",
                          .plugins = "build/tests/plugins",
                          .seconds = 5,
                          .limit = 1,
                          .processes = 1,
                          .class_name = "sleep"};
    char config[128], report[128];
    options_parse(&bench, argc, argv);
    log_set_level(LOG_WARN);
    private_directory_create(bench.directory);
    char *jobs = realpath(bench.rate > 0 ? bench.plugins : bench.jobs, NULL);
    if (jobs == NULL)
        die("there is no such directory of plugins");
    bench.jobs = bench.plugins = jobs;
    path_make(&bench, "holdfast.conf", config);
    path_make(&bench, "report.json", report);
    config_write(&bench, config);
    if (bench.rate > 0)
        latency_run(&bench, config, report);
    else if (bench.parks)
        park_run(&bench, config, report);
    else if (bench.hold_ms > 0)
        hot_run(&bench, config);
    else
        drain_run(&bench, config);
    unlink(config);
    unlink(report);
    rmdir(bench.directory);
    free(jobs);
    return 0;
}
