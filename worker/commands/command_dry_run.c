/* holdfast dry-run: know the contention before production does. What a run is, is in worker/dry_run; here are its
 * options, and where its report goes.
 *
 * The plan is taken together from the options one after the other; what each of them can be is in plan_options.c. */
#include "worker/commands/commands.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "base/log.h"
#include "worker/print/json_writer.h"
#include "worker/print/table.h"
#include "worker/print/terminal.h"
#include "worker/dry_run/report/comparison.h"
#include "worker/dry_run/dry_run.h"
#include "worker/dry_run/options/plan_options.h"
#include "worker/dry_run/result/result_json.h"
#include "worker/dry_run/report/result_page.h"
#include "worker/dry_run/result/result_read.h"
#include "worker/dry_run/report/result_text.h"

enum {
    OPTION_CONFIG,
    OPTION_LOCAL,
    OPTION_SHADOW,
    OPTION_JOIN,
    OPTION_FOR,
    OPTION_WARM_UP,
    OPTION_THREADS,
    OPTION_PROCESSES,
    OPTION_HOSTS,
    OPTION_RATE,
    OPTION_CLOSED,
    OPTION_RESOURCES,
    OPTION_UNIFORM,
    OPTION_ZIPF,
    OPTION_HOT,
    OPTION_POPULARITY,
    OPTION_PER_TASK,
    OPTION_HOLD,
    OPTION_FAILURES,
    OPTION_CLASS,
    OPTION_RECORDED,
    OPTION_NODE_SHARE,
    OPTION_COPY_RATE,
    OPTION_SPEED,
    OPTION_FAULT,
    OPTION_WHAT_IF,
    OPTION_SEED,
    OPTION_JSON,
    OPTION_HTML,
    OPTION_SAVE,
    OPTION_QUIET,
};

static const struct command_option options[] = {
    [OPTION_CONFIG] = {'c', "config", "FILE", "the configuration of the workers; without it the nodes are private"},
    [OPTION_LOCAL] = {0, "local", "[=NODES]", "on private nodes on this machine, with so many lock nodes (5)"},
    [OPTION_SHADOW] = {0, "shadow", NULL, "play what the live fleet has in its queues, and gets meanwhile"},
    [OPTION_JOIN] = {0, "join", "RUN", "take part in the run of another host, with workers of this one"},
    [OPTION_FOR] = {0, "for", "DURATION", "how long the load lasts (20s)"},
    [OPTION_WARM_UP] = {0, "warm-up", "DURATION", "how much of that is not measured (a tenth, 2s at most)"},
    [OPTION_THREADS] = {0, "threads", "N", "of each process (16)"},
    [OPTION_PROCESSES] = {0, "processes", "N", "worker processes on this host (1)"},
    [OPTION_HOSTS] = {0, "hosts", "N", "begin when so many hosts take part, this one included (1)"},
    [OPTION_RATE] = {0, "rate", "RATE", "tasks come by chance, so many a second: 200/s"},
    [OPTION_CLOSED] = {0, "closed", "N", "so many tasks are there all the time (this, and twice the threads)"},
    [OPTION_RESOURCES] = {0, "resources", "N", "how many there are to be locked (100)"},
    [OPTION_UNIFORM] = {0, "uniform", NULL, "all resources are wanted equally often (this)"},
    [OPTION_ZIPF] = {0, "zipf", "S", "the k-th resource is wanted in proportion to 1/k^S: 1.1"},
    [OPTION_HOT] = {0, "hot", "SHARE:N", "a share of the tasks wants N of the resources: 0.9:10"},
    [OPTION_POPULARITY] = {0, "popularity", "FILE", "resources and their weights: a line NAME WEIGHT each"},
    [OPTION_PER_TASK] = {0, "resources-per-task", "N", "how many a task locks at once (1)"},
    [OPTION_HOLD] = {0, "hold", "HOLD", "fixed:5ms, exp:5ms, lognormal:5ms,0.8 or file:PATH (fixed:10ms)"},
    [OPTION_FAILURES] = {0, "failures", "SHARE", "of the runs that fail: 0.05 or 5% (0)"},
    [OPTION_CLASS] = {0, "class", "CLASS", "whose settings in the configuration hold for the tasks"},
    [OPTION_RECORDED] = {0, "recorded", "FILE", "resources, holds and rate as in a worker's log, or an earlier run"},
    [OPTION_NODE_SHARE] = {0, "node-share", "SHARE", "shadow: of the time of a node that it may use (0.1)"},
    [OPTION_COPY_RATE] = {0, "copy-rate", "RATE", "shadow: entries of live queues that are read (1000/s)"},
    [OPTION_SPEED] = {0, "speed", "FACTOR", "holds are shorter by this factor (1)"},
    [OPTION_FAULT] = {0, "fault", "FAULT", "5s:stop:lock2:3s; again for more. WHEN:WHAT:WHOM[:HOW]"},
    [OPTION_WHAT_IF] = {0, "what-if", "threads=A,B", "a run with each of these numbers of threads"},
    [OPTION_SEED] = {0, "seed", "N", "the same seed gives the same load (drawn)"},
    [OPTION_JSON] = {0, "json", NULL, "print one JSON object, on one line"},
    [OPTION_HTML] = {0, "html", "FILE", "write a page with plots to FILE"},
    [OPTION_SAVE] = {0, "save", "FILE", "write the JSON object to FILE, for dry-run compare"},
    [OPTION_QUIET] = {'q', "quiet", NULL, "say nothing while it runs"},
    {0, NULL, NULL, NULL},
};

struct dry_run_command {
    struct dry_run_plan plan;
    const char *path, *join, *html, *save;
    bool as_json, is_quiet, has_seed;
};

/* --- options ------------------------------------------------------------------------------------------------------ */

typedef bool (*plan_take)(struct dry_run_plan *plan, const char *text, struct error *error);

static const plan_take takes[] = {
    [OPTION_LOCAL] = plan_take_local,
    [OPTION_FOR] = plan_take_for,
    [OPTION_WARM_UP] = plan_take_warm_up,
    [OPTION_THREADS] = plan_take_threads,
    [OPTION_PROCESSES] = plan_take_processes,
    [OPTION_HOSTS] = plan_take_hosts,
    [OPTION_RATE] = plan_take_rate,
    [OPTION_CLOSED] = plan_take_closed,
    [OPTION_RESOURCES] = plan_take_resources,
    [OPTION_UNIFORM] = plan_take_uniform,
    [OPTION_ZIPF] = plan_take_zipf,
    [OPTION_HOT] = plan_take_hot,
    [OPTION_POPULARITY] = plan_take_popularity,
    [OPTION_PER_TASK] = plan_take_per_task,
    [OPTION_HOLD] = plan_take_hold,
    [OPTION_FAILURES] = plan_take_failures,
    [OPTION_CLASS] = plan_take_class,
    [OPTION_RECORDED] = plan_take_recorded,
    [OPTION_NODE_SHARE] = plan_take_node_share,
    [OPTION_COPY_RATE] = plan_take_copy_rate,
    [OPTION_SPEED] = plan_take_speed,
    [OPTION_FAULT] = plan_take_fault,
    [OPTION_WHAT_IF] = plan_take_what_if,
    [OPTION_SEED] = plan_take_seed,
    [OPTION_JOIN] = plan_take_id,
    [OPTION_QUIET] = NULL,
};

/* False: the mistake was told. */
static bool option_take(struct dry_run_command *dry, int option, const char *value)
{
    struct error error = ERROR_NONE;
    switch (option) {
    case OPTION_CONFIG:
        dry->path = value;
        break;
    case OPTION_SHADOW:
        dry->plan.kind = DRY_RUN_SHADOW;
        break;
    case OPTION_JSON:
        dry->as_json = true;
        break;
    case OPTION_HTML:
        dry->html = value;
        break;
    case OPTION_SAVE:
        dry->save = value;
        break;
    case OPTION_QUIET:
        dry->is_quiet = true;
        break;
    default:
        if (takes[option](&dry->plan, value, &error))
            break;
        command_misused(&command_dry_run, "--%s: %s", options[option].name, error.text);
        return false;
    }
    dry->join = option == OPTION_JOIN ? value : dry->join;
    dry->has_seed |= option == OPTION_SEED;
    return true;
}

/* What follows when nothing was said. */
static void plan_settle(struct dry_run_command *dry)
{
    struct dry_run_plan *plan = &dry->plan;
    if (dry->path == NULL && plan->kind == DRY_RUN_REHEARSAL)
        plan->is_local = true;
    if (!dry->has_seed)
        plan->seed = (uint64_t)random_between(1, DRY_RUN_SEED_MAX);
    if (dry->join == NULL)
        random_digits(plan->id, DRY_RUN_ID_BYTES);
    plan_complete(plan);
}

/* --- the report --------------------------------------------------------------------------------------------------- */

static bool file_write(const char *path, const struct buffer *text)
{
    FILE *file = fopen(path, "we");
    bool is_written = file != NULL && fwrite(text->bytes, 1, text->length, file) == text->length;
    if (file != NULL && fclose(file) != 0)
        is_written = false;
    if (!is_written)
        fprintf(stderr, "holdfast dry-run: %s: %s\n", path, strerror(errno));
    return is_written;
}

static bool page_write(const struct dry_run_command *dry, const struct result *result)
{
    struct buffer page = {0};
    if (dry->html == NULL)
        return true;
    result_page_write(result, &page);
    bool is_written = file_write(dry->html, &page);
    buffer_fini(&page);
    return is_written;
}

static bool json_save(const struct dry_run_command *dry, const struct result *result)
{
    struct buffer json = {0};
    if (dry->save == NULL)
        return true;
    result_json_write(result, &json);
    bool is_written = file_write(dry->save, &json);
    buffer_fini(&json);
    return is_written;
}

/* Of a terminal its own, within bounds; else what fits on paper. */
static unsigned width_of(FILE *out)
{
    unsigned width = RESULT_TEXT_WIDTH, height;
    if (isatty(fileno(out)))
        terminal_size(&width, &height);
    width = width > RESULT_TEXT_WIDTH_MAX ? RESULT_TEXT_WIDTH_MAX : width;
    return width < RESULT_TEXT_WIDTH_MIN ? RESULT_TEXT_WIDTH_MIN : width;
}

static void report_print(const struct dry_run_command *dry, const struct result *result)
{
    struct buffer out = {0};
    if (dry->as_json) {
        result_json_write(result, &out);
        json_print(&out);
        return;
    }
    result_text_write(result, width_of(stdout), table_has_colour(stdout), &out);
    fwrite(buffer_text(&out), 1, out.length, stdout);
    buffer_fini(&out);
}

/* --- running ------------------------------------------------------------------------------------------------------ */

static FILE *progress_of(const struct dry_run_command *dry)
{
    return dry->is_quiet || !isatty(STDERR_FILENO) ? NULL : stderr;
}

static int run_told(const struct dry_run_command *dry)
{
    struct findings findings = {0};
    struct result result = {0};
    const struct dry_run_request request = {.plan = &dry->plan,
                                            .config_path = dry->path,
                                            .says = dry->is_quiet ? NULL : stderr,
                                            .progress = progress_of(dry)};
    bool ran = dry->join != NULL           ? dry_run_join(&request, &findings)
               : dry->plan.point_count > 0 ? dry_run_explore(&request, &result, &findings)
                                           : dry_run_perform(&request, &result, &findings);
    findings_print(&findings, stderr);
    bool is_told = findings.errors == 0; /* of a what-if that came to an early end there is something to tell, too */
    findings_fini(&findings);
    if (ran && dry->join == NULL) {
        report_print(dry, &result);
        bool has_page = page_write(dry, &result);
        is_told = json_save(dry, &result) && has_page && is_told;
        result_fini(&result);
    }
    return ran && is_told ? EXIT_CODE_OK : EXIT_CODE_FAILURE;
}

/* --- comparing ---------------------------------------------------------------------------------------------------- */

static bool result_load(const char *path, struct result *result)
{
    struct error error = ERROR_NONE;
    if (result_read_file(path, result, &error))
        return true;
    fprintf(stderr, "holdfast dry-run compare: %s\n", log_defuse(error.text));
    return false;
}

static void comparison_print(const struct dry_run_command *dry, const struct comparison *comparison)
{
    struct buffer out = {0};
    if (dry->as_json) {
        comparison_json_write(comparison, &out);
        json_print(&out);
        return;
    }
    comparison_text_write(comparison, width_of(stdout), table_has_colour(stdout), &out);
    fwrite(buffer_text(&out), 1, out.length, stdout);
    buffer_fini(&out);
}

static int compare(const struct dry_run_command *dry, char *const paths[2])
{
    struct result results[2] = {0};
    struct comparison comparison;
    bool are_there = result_load(paths[0], &results[0]) && result_load(paths[1], &results[1]);
    if (are_there) {
        comparison_make(&results[0], &results[1], &comparison);
        comparison_print(dry, &comparison);
        comparison_fini(&comparison);
    }
    result_fini(&results[0]);
    result_fini(&results[1]);
    return are_there ? EXIT_CODE_OK : EXIT_CODE_FAILURE;
}

static int run(int argc, char **argv)
{
    struct dry_run_command dry = {0};
    int code;
    plan_init(&dry.plan);
    struct command_line line = command_line_begin(&command_dry_run, argc, argv);
    for (int option; (option = command_line_next(&line)) >= 0;)
        if (!option_take(&dry, option, line.value)) {
            plan_fini(&dry.plan);
            return EXIT_CODE_USAGE;
        }
    bool compares = line.argument_count > 0 && strcmp(line.arguments[0], "compare") == 0;
    if (line.is_over) {
        code = line.exit_code;
    } else if (compares) {
        code = line.argument_count == 3
                   ? compare(&dry, line.arguments + 1)
                   : command_misused(&command_dry_run, "compare wants two files that --save has written");
    } else if (line.argument_count > 0) {
        code = command_misused(&command_dry_run, "'%s' is no option; the only word it knows is compare",
                               line.arguments[0]);
    } else if (dry.join != NULL && dry.path == NULL) {
        code = command_misused(&command_dry_run, "--join wants the configuration with the nodes of the run: -c FILE");
    } else {
        log_set_level(LOG_NOTHING); /* what connections log is told in our own words */
        plan_settle(&dry);
        code = run_told(&dry);
    }
    plan_fini(&dry.plan);
    return code;
}

const struct command command_dry_run = {
    .name = "dry-run",
    .summary = "know the contention before production does",
    .synopsis = "[-c FILE] [--shadow | LOAD] [--threads N] [--processes N] [--html FILE] | compare A.json B.json",
    .about =
        "Runs the workers of production with handlers that only hold their locks: claiming, locking, extending, "
        "parking\n"
        "and handing on are real, in a key space of the run and with locks of the run. It tells what the bottleneck "
        "is,\n"
        "how close the load comes to it, what would help, and beside what was measured what queueing theory expects.\n"
        "No handler is run, only its check of the arguments; no key of a live fleet is changed.\n"
        "\n"
        "The load is generated (a rehearsal), or what a live fleet has in its queues (--shadow). Without a "
        "configuration,\n"
        "or with --local, it runs on nodes of its own: a redis-server or valkey-server of the PATH, or what\n"
        "REDIS_SERVER names. Faults are done to such nodes only, and to workers of the run: stop, kill, wipe, slow\n"
        "and clock of queue, lock1, lock2 ..., freeze and kill of worker1, worker2 ...\n"
        "\n"
        "SIGINT ends the load, and the report tells of what there was. The run's id is said at the beginning; hosts "
        "that\n"
        "join it with --join count in the same report.\n",
    .examples = "  holdfast dry-run --for 20s --resources 100 --zipf 1.1 --hold exp:5ms --threads 16 --processes 2\n"
                "  holdfast dry-run -c holdfast.conf --rate 200/s --hold lognormal:20ms,0.8 --html report.html\n"
                "  holdfast dry-run -c holdfast.conf --shadow --for 5m\n"
                "  holdfast dry-run --local --rate 300/s --fault 5s:stop:lock2:3s --fault 9s:freeze:worker1:15s\n"
                "  holdfast dry-run --what-if threads=8,16,32,64 --save before.json\n"
                "  holdfast dry-run compare before.json after.json\n",
    .options = options,
    .arguments_max = 3,
    .run = run,
};
