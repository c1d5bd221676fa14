/* holdfast dry-run: know the contention before production does. It is a program of its own, holdfast-dry-run
 * (worker/dry_run/main.c), which this command starts. Both read its options from the rows here; what each of them can
 * be is in plan_options.c. */
#include "worker/commands/command.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "worker/dry_run/load/plan_options.h"

#define PROGRAM "holdfast-dry-run"

enum { PATH_MAX_HERE = 4096 };

#define AT(member) offsetof(struct dry_run_line, member)
static const struct option_row options[] = {
    {OPTION_TEXT, 'c', "config", "FILE", "the configuration of the workers; without it the nodes are private",
     .offset = AT(path)},
    {OPTION_TABLE, .table = plan_options, .offset = AT(plan)},
    {OPTION_FLAG, 0, "json", NULL, "print one JSON object, on one line", .offset = AT(as_json)},
    {OPTION_TEXT, 0, "html", "FILE", "write a page with plots to FILE", .offset = AT(html)},
    {OPTION_TEXT, 0, "save", "FILE", "write the JSON object to FILE, for dry-run compare", .offset = AT(save)},
    {OPTION_FLAG, 0, "quiet", NULL, "say nothing while it runs", .offset = AT(is_quiet)},
    {.type = OPTION_END},
};
#undef AT

/* Beside this program as `make` builds it, or where `make install` puts it. */
static int run(int argc, char **argv)
{
    static const char *const folders[] = {"", "../libexec/"};
    char here[PATH_MAX_HERE], path[PATH_MAX_HERE + sizeof PROGRAM + 16];
    ssize_t length = readlink("/proc/self/exe", here, sizeof here - 1);
    (void)argc;
    here[length > 0 ? length : 0] = '\0';
    char *end = strrchr(here, '/');
    if (end != NULL)
        *end = '\0';
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        snprintf(path, sizeof path, "%s/%s" PROGRAM, here, folders[i]);
        execv(path, argv);
        if (errno != ENOENT && errno != ENOTDIR)
            return command_complain(&command_dry_run, "%s: %s", path, strerror(errno));
    }
    return command_complain(&command_dry_run, "neither %s/" PROGRAM " nor %s is there: `make install` puts it there",
                            here, path);
}

const struct command command_dry_run = {
    .name = "dry-run",
    .summary = "see how long tasks will wait for locks, before production does",
    .arguments = "[compare A.json B.json | merge FILE ...]",
    .about =
        "Runs the workers of production with handlers that only hold their locks: claiming, locking, extending, "
        "parking\n"
        "and handing over are real, under keys and locks of the run. The report names the bottleneck, how close the "
        "load\n"
        "comes to it and what would help, and puts beside the measurement what queueing theory expects. Of a handler\n"
        "only the check of its arguments runs; no key of a live fleet is changed.\n"
        "\n"
        "The load is generated (a rehearsal), or is what a live fleet has in its queues (--shadow). Without a "
        "configuration,\n"
        "or with --private, the run starts nodes of its own: a redis-server or valkey-server of the PATH, or what\n"
        "REDIS_SERVER names. Only these have faults (stop, kill, wipe, slow and clock of queue, lock1, lock2 ...), "
        "and\n"
        "the workers of the run (freeze and kill of worker1, worker2 ...).\n"
        "\n"
        "SIGINT ends the load, and the report covers what there was until then. Several hosts that say the same --name "
        "and\n"
        "--hosts are one run: they begin together, and merge joins the results that they have saved.\n",
    .examples = "  holdfast dry-run --for 20s --resources 100 --zipf 1.1 --hold exp:5ms --threads 16 --processes 2\n"
                "  holdfast dry-run -c holdfast.conf --rate 200/s --hold lognormal:20ms,0.8 --html report.html\n"
                "  holdfast dry-run -c holdfast.conf --shadow --for 5m\n"
                "  holdfast dry-run --private --rate 300/s --fault 5s:stop:lock2:3s --fault 9s:freeze:worker1:15s\n"
                "  holdfast dry-run --what-if threads=8,16,32,64 --save before.json\n"
                "  holdfast dry-run compare before.json after.json\n",
    .options = options,
    .arguments_max = 1 + DRY_RUN_HOSTS_MAX,
    .run = run,
};
