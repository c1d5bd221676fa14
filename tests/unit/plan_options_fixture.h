/* What the tests of the options of a dry run share: a plan, a file in a directory of its own, and what it is to be
 * taken, or to be refused without a change. */
#ifndef UNIT_PLAN_OPTIONS_FIXTURE_H
#define UNIT_PLAN_OPTIONS_FIXTURE_H

#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "tests/support/private_directory.h"
#include "worker/dry_run/load/plan_options.h"
#include "worker/dry_run/plan/plan_json.h"

static struct dry_run_plan plan;
static char directory[PRIVATE_DIRECTORY_MAX], path[PRIVATE_DIRECTORY_MAX + 16];

static inline void set_up(void)
{
    plan_init(&plan);
    private_directory_create(directory);
    snprintf(path, sizeof path, "%s/file", directory);
}

static inline void tear_down(void)
{
    plan_fini(&plan);
    (void)unlink(path);
    assert_int_equal(rmdir(directory), 0);
}

static inline const struct option_row *option(const char *name)
{
    for (const struct option_row *row = plan_options; row->type != OPTION_END; row++)
        if (strcmp(row->name, name) == 0)
            return row;
    fail_msg("no option %s", name);
    return NULL;
}

static inline void take(const char *name, const char *text)
{
    struct error error = ERROR_NONE;
    if (!option(name)->take(&plan, text, &error))
        fail_msg("%s: %s", text, error.text);
    assert_false(error_is_set(&error));
}

/* Refused with that reason, and without a byte that could steer a terminal; the plan is as it was. */
static inline void assert_refused(const char *name, const char *text, const char *reason)
{
    struct error error = ERROR_NONE;
    struct buffer before = {0}, after = {0}, word = {0};
    struct options_found found;
    buffer_format(&word, "--%s=%s", name, text);
    char *words[] = {(char[]){"dry-run"}, memory_text(buffer_text(&word)), NULL};
    plan_json_write(&(struct json_writer){.out = &before}, NULL, &plan);
    if (options_read(plan_options, 2, words, &plan, &found, &error) != OPTIONS_WRONG)
        fail_msg("taken: %s", text);
    free(words[1]);
    buffer_fini(&word);
    assert_contains(error.text, reason);
    for (const char *at = error.text; *at != '\0'; at++)
        assert_true((unsigned char)*at >= ' ' && *at != 0x7f);
    plan_json_write(&(struct json_writer){.out = &after}, NULL, &plan);
    assert_string_equal(buffer_text(&before), buffer_text(&after));
    buffer_fini(&before);
    buffer_fini(&after);
}

static inline void assert_near(double found, double wanted)
{
    if (!(fabs(found - wanted) <= 1e-12))
        fail_msg("%.17g is not %.17g", found, wanted);
}

#endif
