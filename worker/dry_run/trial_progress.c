/* What a trial says while it goes on: sentences, and on a terminal below them a block of numbers that is drawn again
 * once a second. */
#include <stdarg.h>
#include <stdio.h>

#include "worker/print/table.h"
#include "worker/print/terminal.h"
#include "worker/dry_run/trial_private.h"

static enum live_phase live_phase_of(const struct trial *trial)
{
    switch (trial->phase) {
    case TRIAL_GATHERING:
    case TRIAL_STARTING:
        return LIVE_STARTING;
    case TRIAL_LOADING:
        return trial->measures ? LIVE_MEASURING : LIVE_WARMING_UP;
    case TRIAL_DRAINING:
    case TRIAL_ENDING:
        return LIVE_DRAINING;
    case TRIAL_LOOKING:
    case TRIAL_CLEANING:
    case TRIAL_OVER:
        break;
    }
    return LIVE_CLEANING;
}

static double seconds_of(int64_t ns)
{
    return (double)ns / (double)NS_PER_S;
}

static void numbers_take(struct trial *trial, struct live_numbers *numbers)
{
    const struct dry_run_plan *plan = trial->plan;
    *numbers = (struct live_numbers){.phase = live_phase_of(trial),
                                     .total = seconds_of(plan->for_ns),
                                     .rate_wanted = plan->arrivals == DRY_RUN_OPEN ? plan->rate : 0,
                                     .hosts = reception_guest_count(trial->reception) + 1,
                                     .records_lost = workforce_records_lost(trial->terms.workforce)};
    if (trial->tally == NULL)
        return;
    numbers->elapsed = seconds_of(instant_since(trial->load_from, loop_now(trial->loop)));
    tally_live(trial->tally, loop_now(trial->loop), &numbers->tally);
}

void trial_progress_show(struct trial *trial)
{
    static struct live_numbers numbers;
    struct buffer out = {0};
    unsigned height;
    FILE *progress = trial->terms.progress;
    if (progress == NULL)
        return;
    terminal_size(&trial->block.width, &height);
    trial->block.has_colour = table_has_colour(progress);
    numbers_take(trial, &numbers);
    live_block_draw(&trial->block, &numbers, &out);
    fwrite(out.bytes, 1, out.length, progress);
    fflush(progress);
    buffer_fini(&out);
}

void trial_progress_clear(struct trial *trial)
{
    struct buffer out = {0};
    if (trial->terms.progress == NULL || trial->block.lines == 0)
        return;
    live_block_end(&trial->block, &out);
    fwrite(buffer_text(&out), 1, out.length, trial->terms.progress);
    fflush(trial->terms.progress);
    buffer_fini(&out);
}

void trial_say(struct trial *trial, const char *format, ...)
{
    va_list arguments;
    if (trial->terms.says == NULL)
        return;
    trial_progress_clear(trial);
    va_start(arguments, format);
    vfprintf(trial->terms.says, format, arguments);
    va_end(arguments);
    fputc('\n', trial->terms.says);
}
