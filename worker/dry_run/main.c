/* holdfast-dry-run, the program that `holdfast dry-run` starts: what becomes of its options, and where its report goes.
 * What a run is, is in worker/dry_run/run.
 *
 * The plan is taken together from the options one after the other. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/random.h"
#include "worker/commands/command.h"
#include "worker/dry_run/count/merge.h"
#include "worker/dry_run/load/plan_options.h"
#include "worker/dry_run/report/comparison.h"
#include "worker/dry_run/report/result_json.h"
#include "worker/dry_run/run/dry_run.h"
#include "worker/plugin/plugin_vetting.h"
#include "worker/print/json_writer.h"
#include "worker/print/table.h"
#include "worker/print/terminal.h"

/* What follows when nothing was said. */
static void plan_settle(struct dry_run_line *dry)
{
    struct dry_run_plan *plan = &dry->plan;
    if (dry->path == NULL && plan->kind == DRY_RUN_REHEARSAL)
        plan->is_local = true;
    if (plan->seed == 0)
        plan->seed = (uint64_t)random_between(1, DRY_RUN_SEED_MAX);
    random_digits(plan->id, DRY_RUN_ID_BYTES);
    plan_complete(plan);
}

/* --- the report --------------------------------------------------------------------------------------------------- */

/* Frees the text. No path: there is nothing to write. */
static bool file_write(const char *path, struct buffer *text)
{
    FILE *file = path != NULL ? fopen(path, "we") : NULL;
    bool is_written = path == NULL || (file != NULL && fwrite(text->bytes, 1, text->length, file) == text->length);
    if (file != NULL && fclose(file) != 0)
        is_written = false;
    if (!is_written)
        command_complain(&command_dry_run, "%s: %s", path, strerror(errno));
    buffer_fini(text);
    return is_written;
}

/* Checked before the run, not after it. An existing file stays as it is until there is a report. */
static bool file_is_writable(const char *path)
{
    bool was_there = path == NULL || access(path, F_OK) == 0;
    int file = path != NULL ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666) : -1;
    if (path != NULL && file < 0) {
        command_complain(&command_dry_run, "%s: %s", path, strerror(errno));
        return false;
    }
    if (file >= 0)
        close(file);
    return was_there || unlink(path) == 0;
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

/* Prints and frees it. */
static void text_print(const struct dry_run_line *dry, struct buffer *out)
{
    if (dry->as_json) {
        json_print(out);
        return;
    }
    fwrite(buffer_text(out), 1, out->length, stdout);
    buffer_fini(out);
}

static bool report_print(const struct dry_run_line *dry, const struct result *result)
{
    struct buffer json = {0}, text = {0}, page = {0};
    result_json_write(result, &json);
    if (dry->as_json)
        buffer_append(&text, json.bytes, json.length);
    else
        result_text_write(result, width_of(stdout), table_has_colour(stdout), &text);
    text_print(dry, &text);
    if (dry->html != NULL)
        result_page_write(result, &page);
    bool has_page = file_write(dry->html, &page);
    return file_write(dry->save, &json) && has_page;
}

/* --- running ------------------------------------------------------------------------------------------------------ */

static int run_told(const struct dry_run_line *dry)
{
    struct findings findings = {0};
    struct result result = {0};
    const struct dry_run_request request = {.plan = &dry->plan,
                                            .config_path = dry->path,
                                            .says = dry->is_quiet ? NULL : stderr,
                                            .progress = dry->is_quiet || !isatty(STDERR_FILENO) ? NULL : stderr};
    if (!file_is_writable(dry->html) || !file_is_writable(dry->save))
        return EXIT_CODE_FAILURE;
    enum exit_code code = dry->plan.point_count > 0 ? dry_run_explore(&request, &result, &findings)
                                                    : dry_run_perform(&request, &result, &findings);
    findings_print(&findings, stderr);
    bool is_told = findings.errors == 0; /* a what-if that ended early has a report, too */
    findings_fini(&findings);
    if (code == EXIT_CODE_OK) {
        is_told = report_print(dry, &result) && is_told;
        result_fini(&result);
    }
    return code == EXIT_CODE_OK && !is_told ? EXIT_CODE_FAILURE : (int)code;
}

/* --- results of earlier runs -------------------------------------------------------------------------------------- */

/* `word` is what is to be done with it. */
static bool result_load(const char *word, const char *path, struct result *result)
{
    struct error error = ERROR_NONE;
    if (result_read_file(path, result, &error))
        return true;
    fprintf(stderr, "holdfast dry-run %s: %s\n", word, log_defuse(error.text));
    return false;
}

/* What several hosts of one run have saved. */
static int merge(const struct dry_run_line *dry, char *const *paths, int count)
{
    struct result result, other;
    struct error error = ERROR_NONE;
    bool is_well = result_load("merge", paths[0], &result);
    for (int i = 1; i < count && is_well; i++) {
        is_well = result_load("merge", paths[i], &other) && result_merge(&result, &other, &error);
        if (!is_well && error.text[0] != '\0')
            fprintf(stderr, "holdfast dry-run merge: %s: %s\n", paths[i], log_defuse(error.text));
        result_fini(&other); /* empty, unless it was refused */
    }
    if (is_well) {
        result_merge_end(&result);
        is_well = report_print(dry, &result);
    }
    result_fini(&result);
    return is_well ? EXIT_CODE_OK : EXIT_CODE_FAILURE;
}

static void comparison_print(const struct dry_run_line *dry, const struct comparison *comparison)
{
    struct buffer out = {0};
    if (dry->as_json)
        comparison_json_write(comparison, &out);
    else
        comparison_text_write(comparison, width_of(stdout), table_has_colour(stdout), &out);
    text_print(dry, &out);
}

static int compare(const struct dry_run_line *dry, char *const paths[2])
{
    struct result results[2] = {0};
    struct comparison comparison;
    bool are_there = result_load("compare", paths[0], &results[0]) && result_load("compare", paths[1], &results[1]);
    if (are_there) {
        comparison_make(&results[0], &results[1], &comparison);
        comparison_print(dry, &comparison);
        comparison_fini(&comparison);
    }
    result_fini(&results[0]);
    result_fini(&results[1]);
    return are_there ? EXIT_CODE_OK : EXIT_CODE_FAILURE;
}

static int run_or_read(struct dry_run_line *dry, const struct command_line *line)
{
    const char *word = line->argument_count > 0 ? line->arguments[0] : "";
    if (strcmp(word, "compare") == 0)
        return line->argument_count == 3
                   ? compare(dry, line->arguments + 1)
                   : command_misused(&command_dry_run, "compare wants two files that --save has written");
    if (strcmp(word, "merge") == 0)
        return line->argument_count >= 3
                   ? merge(dry, line->arguments + 1, line->argument_count - 1)
                   : command_misused(&command_dry_run, "merge wants the files that --save has written, of each host");
    if (line->argument_count > 0)
        return command_misused(&command_dry_run, "\"%s\" is no option; the words it knows are compare and merge", word);
    log_set_level(LOG_NOTHING); /* instead of what connections log, the command has its own words */
    plan_settle(dry);
    return run_told(dry);
}

int main(int argc, char **argv)
{
    struct dry_run_line dry = {0};
    struct command_line line;
    signal(SIGCHLD, SIG_DFL); /* who started it may have left it ignored: then nobody learns how children end */
    if (argc > 1 && strcmp(argv[1], PLUGIN_VETTING_ARGUMENT) == 0)
        plugin_vetting_serve(argc - 2, argv + 2);
    plan_init(&dry.plan);
    bool is_read = command_line_read(&line, &command_dry_run, argc, argv, &dry);
    int code = is_read ? run_or_read(&dry, &line) : line.exit_code;
    plan_fini(&dry.plan);
    return command_output_close(code);
}
