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
    {OPTION_TEXT, 'c', "config", "FILE", "of the workers; without it nodes are private", .offset = AT(path)},
    {OPTION_TABLE, .table = plan_options, .offset = AT(plan)},
    {OPTION_FLAG, 0, "json", NULL, "print one JSON object, on one line", .offset = AT(as_json)},
    {OPTION_TEXT, 0, "html", "FILE", "write a page with plots to FILE", .offset = AT(html)},
    {OPTION_TEXT, 0, "save", "FILE", "write the JSON object, to compare or merge", .offset = AT(save)},
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
    .about = "Runs the workers of production with handlers that only hold their locks, under names of\n"
             "the run: what will queue up, how badly, and what would help. No key of a live fleet is\n"
             "changed. The load is generated, recorded (--recorded), or what a live fleet has (--shadow).\n"
             "Without a configuration the run starts nodes of its own; only these, and its workers, have\n"
             "faults. SIGINT ends the load, and the report covers what there was. docs/dry-run.md says\n"
             "what is real, and what the report means.\n",
    .examples = "  holdfast dry-run --rate 200/s --zipf 1.1 --hold exp:5ms --html report.html\n"
                "  holdfast dry-run -c holdfast.conf --shadow --for 5m\n"
                "  holdfast dry-run --rate 300/s --fault 5s:stop:lock2:3s\n"
                "  holdfast dry-run --what-if threads=8,16,32,64 --save before.json\n"
                "  holdfast dry-run compare before.json after.json\n",
    .options = options,
    .arguments_max = 1 + DRY_RUN_HOSTS_MAX,
    .run = run,
};
