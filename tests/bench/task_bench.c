/* task-bench: how fast a worker drains a queue of tasks that do nothing, with or without a lock for each of them.
 *
 *     task-bench --queue-port P [--lock-ports A,B,C] --threads N --tasks N [--program FILE] [--jobs DIR]
 *
 * Fills the queue `default` of the given node (which must be private to the benchmark), runs `holdfast work --drain`
 * on it with a configuration of its own, and prints one JSON line: what the worker reports of itself, where the time
 * is that from its first claim to its last ending. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/loop.h"
#include "redis/node.h"

struct bench {
    unsigned queue_port;
    const char *lock_ports; /* "1,2,3"; NULL = tasks without locks */
    unsigned threads;
    unsigned long tasks;
    const char *program, *jobs;
    char directory[64];

    struct loop *loop;
    struct redis_node *node;
    struct redis_call call;
    struct buffer request;
    unsigned long pushed;
    bool failed;
};

enum { SLICE = 500 };

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
                          "{\"class\":\"sleep\",\"queue\":\"default\",\"args\":[0],\"jid\":\"%024lx\","
                          "\"created_at\":1795194349.25,\"enqueued_at\":1795194359.25,\"retry\":true",
                          number);
    if (bench->lock_ports != NULL)
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

static void config_write(const struct bench *bench, const char *path)
{
    FILE *file = fopen(path, "we");
    if (file == NULL)
        die("the configuration cannot be written");
    fprintf(file,
            "worker = { threads = %u; jobs_directory = \"%s\"; jobs = [\"sleep\"]; log_level = \"warn\"; allow_root = "
            "true; };\n",
            bench->threads, bench->jobs);
    fprintf(file, "queue_node = { host = \"127.0.0.1\"; port = %u; };\n", bench->queue_port);
    if (bench->lock_ports != NULL) {
        char *ports = strdup(bench->lock_ports), *rest = NULL;
        const char *comma = "";
        fprintf(file, "lock_nodes = (");
        for (char *port = strtok_r(ports, ",", &rest); port != NULL; port = strtok_r(NULL, ",", &rest), comma = ",")
            fprintf(file, "%s { host = \"127.0.0.1\"; port = %s; }", comma, port);
        fprintf(file, ");\n");
        free(ports);
    } else {
        fprintf(file, "classes = ( { class = \"sleep\"; lock = \"none\"; } );\n");
    }
    if (fclose(file) != 0)
        die("the configuration cannot be written");
}

static void worker_run(const struct bench *bench, const char *config, const char *report)
{
    pid_t child = fork();
    if (child == 0) {
        execl(bench->program, bench->program, "work", "-c", config, "--drain", "--report", report, (char *)NULL);
        fprintf(stderr, "task-bench: %s: %s\n", bench->program, strerror(errno));
        _exit(127);
    }
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

static void report_print(const struct bench *bench, const char *path)
{
    char report[8192];
    FILE *file = fopen(path, "re");
    if (file == NULL)
        die("the worker wrote no report");
    size_t length = fread(report, 1, sizeof report - 1, file);
    fclose(file);
    report[length] = '\0';
    double done = report_number(report, "done"), seconds = report_number(report, "active_seconds");
    if (done != (double)bench->tasks || seconds <= 0)
        die("not every task was done");
    const char *wait = strstr(report, "\"lock_wait\":{");
    printf("{\"tasks\":%.0f,\"secs\":%.3f,\"tasks_per_s\":%.0f,\"cpu_us_per_task\":%.2f,\"tasks_per_claim_call\":%.1f,"
           "\"lock_p50_us\":%.0f,\"lock_p99_us\":%.0f}\n",
           done, seconds, done / seconds, report_number(report, "cpu_seconds") / done * 1e6,
           done / report_number(report, "claim_calls"), wait != NULL ? report_number(wait, "p50_us") : 0,
           wait != NULL ? report_number(wait, "p99_us") : 0);
}

/* --- the command line ----------------------------------------------------------------------------------------- */

static const char usage[] =
    "usage: task-bench --queue-port P [--lock-ports A,B,C] [--threads N] [--tasks N] [--program FILE] [--jobs DIR]\n"
    "Drains a private queue node of tasks that do nothing and prints one JSON line. With --lock-ports each task is\n"
    "locked on those nodes. Defaults: 50 threads, 100000 tasks, build/holdfast, build/jobs.\n";

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
        else
            exit(2);
    }
    if (bench->queue_port == 0) {
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
                          .directory = "/tmp/task-bench-XXXXXX"};
    char config[128], report[128];
    options_parse(&bench, argc, argv);
    log_set_level(LOG_WARN);
    if (mkdtemp(bench.directory) == NULL)
        die("no temporary directory");
    char *jobs = realpath(bench.jobs, NULL);
    if (jobs == NULL)
        die("there is no such directory of jobs");
    bench.jobs = jobs;
    path_make(&bench, "holdfast.conf", config);
    path_make(&bench, "report.json", report);
    queue_fill(&bench);
    config_write(&bench, config);
    worker_run(&bench, config, report);
    report_print(&bench, report);
    unlink(config);
    unlink(report);
    rmdir(bench.directory);
    free(jobs);
    return 0;
}
