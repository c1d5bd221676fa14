#include "worker/commands/dry_run_compare.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "worker/commands/json_writer.h"
#include "worker/commands/table.h"
#include "worker/commands/terminal.h"
#include "worker/dry_run/comparison.h"
#include "worker/dry_run/result_read.h"
#include "worker/dry_run/result_text.h"
#include "worker/exit_code.h"

static bool result_load(const char *path, struct result *result)
{
    struct error error = ERROR_NONE;
    if (result_read_file(path, result, &error))
        return true;
    fprintf(stderr, "holdfast dry-run: %s\n", log_defuse(error.text));
    return false;
}

static void comparison_print(const struct comparison *comparison, bool as_json)
{
    struct buffer out = {0};
    unsigned width = RESULT_TEXT_WIDTH, height;
    if (as_json) {
        comparison_json_write(comparison, &out);
        json_print(&out);
        return;
    }
    if (isatty(STDOUT_FILENO))
        terminal_size(&width, &height);
    comparison_text_write(comparison, width < RESULT_TEXT_WIDTH_MAX ? width : RESULT_TEXT_WIDTH_MAX,
                          table_has_colour(stdout), &out);
    fwrite(out.bytes, 1, out.length, stdout);
    buffer_fini(&out);
}

int dry_run_compare(const char *before_path, const char *after_path, bool as_json)
{
    struct result before = {0}, after = {0};
    bool is_read = result_load(before_path, &before) && result_load(after_path, &after);
    if (is_read) {
        struct comparison comparison;
        comparison_make(&before, &after, &comparison);
        comparison_print(&comparison, as_json);
        comparison_fini(&comparison);
    }
    result_fini(&before);
    result_fini(&after);
    return is_read ? EXIT_CODE_OK : EXIT_CODE_FAILURE;
}
