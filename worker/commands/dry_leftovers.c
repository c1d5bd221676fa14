#include "worker/commands/dry_leftovers.h"

#include <stdio.h>
#include <string.h>

#include "base/real.h"

static const struct doctor_kind dry_run_left = {
    "dry-run-left", DOCTOR_WARNING,
    "A dry run was killed, or its machine was: its keys take memory, and no worker looks at them.",
    "The next dry run on these nodes removes them. If it ended more than a week ago, remove them by hand: "
    "redis-cli --scan --pattern 'hf:2:dry:RUN:*' | xargs redis-cli unlink"};

static struct dry_leftover *leftover_of(struct dry_leftovers *leftovers, const char *run)
{
    for (size_t i = 0; i < leftovers->count; i++)
        if (strcmp(leftovers->runs[i].run, run) == 0)
            return &leftovers->runs[i];
    if (leftovers->count == DRY_LEFTOVERS_MAX)
        return NULL;
    struct dry_leftover *leftover = &leftovers->runs[leftovers->count++];
    *leftover = (struct dry_leftover){.keys = 0};
    snprintf(leftover->run, sizeof leftover->run, "%s", run);
    return leftover;
}

bool dry_leftovers_note(struct dry_leftovers *leftovers, const char *key)
{
    char run[DRY_RUNS_ID_DIGITS + 1];
    if (!dry_runs_key_read(key, run))
        return false;
    struct dry_leftover *leftover = leftover_of(leftovers, run);
    if (leftover != NULL)
        leftover->keys++;
    return true;
}

static bool is_over(const struct doctor *doctor, size_t index)
{
    const struct redis_reply *score = inquiry_reply_of(doctor->console->inquiry, index, REDIS_STRING);
    return score == NULL || wall_read(score->bytes).us < doctor->console->now.us;
}

/* Those that the walk did not meet, because it ended before, or because their keys have gone by themselves. */
static int index_take(struct dry_leftovers *leftovers, struct doctor *doctor)
{
    inquiry_begin(doctor->console->inquiry);
    inquiry_ask(doctor->console->inquiry, "ZRANGE", dry_runs_index(), "0", "31", NULL);
    int code = console_run(doctor->console);
    const struct redis_reply *runs =
        code == EXIT_CODE_OK ? inquiry_reply_of(doctor->console->inquiry, 0, REDIS_ARRAY) : NULL;
    char run[DRY_RUNS_ID_DIGITS + 1];
    for (size_t i = 0; runs != NULL && i < runs->count; i++)
        if (dry_runs_ended_read(runs, i, run))
            leftover_of(leftovers, run);
    return code;
}

int dry_leftovers_judge(struct dry_leftovers *leftovers, struct doctor *doctor)
{
    int code = index_take(leftovers, doctor);
    if (code != EXIT_CODE_OK || leftovers->count == 0)
        return code;
    inquiry_begin(doctor->console->inquiry);
    for (size_t i = 0; i < leftovers->count; i++)
        inquiry_ask(doctor->console->inquiry, "ZSCORE", dry_runs_index(), leftovers->runs[i].run, NULL);
    code = console_run(doctor->console);
    for (size_t i = 0; code == EXIT_CODE_OK && i < leftovers->count; i++)
        if (is_over(doctor, i))
            doctor_find(doctor, &dry_run_left,
                        "the dry run %s is over and was not cleaned up; %llu of its keys were met",
                        leftovers->runs[i].run, leftovers->runs[i].keys);
    return code;
}
