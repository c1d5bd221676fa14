/* What a trial prints: sentences while it goes on, and on a terminal below them a block of numbers that is drawn again
 * once a second. At its end, what was counted, what the nodes say of themselves, what the faults did, and what it cost
 * to look become the result. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "worker/dry_run/count/verdict.h"
#include "worker/dry_run/run/trial_private.h"
#include "worker/print/table.h"
#include "worker/print/terminal.h"
#include "worker/print/version.h"

/* --- while it goes on --------------------------------------------------------------------------------------------- */

static double seconds_of(int64_t ns)
{
    return (double)ns / (double)NS_PER_S;
}

static void numbers_take(struct trial *trial, struct live_numbers *numbers)
{
    static const char *const phases[] = {
        [TRIAL_GATHERING] = "starting",  [TRIAL_STARTING] = "starting",    [TRIAL_WAITING] = "waiting",
        [TRIAL_LOADING] = "measuring",   [TRIAL_DRAINING] = "draining",    [TRIAL_ENDING] = "draining",
        [TRIAL_LOOKING] = "cleaning up", [TRIAL_CLEANING] = "cleaning up", [TRIAL_OVER] = "cleaning up"};
    const struct dry_run_plan *plan = trial->plan;
    bool warms_up = trial->phase == TRIAL_LOADING && !trial->measures;
    *numbers = (struct live_numbers){.phase = warms_up ? "warming up" : phases[trial->phase],
                                     .has_begun = trial->phase >= TRIAL_LOADING,
                                     .total = seconds_of(plan->for_ns),
                                     .rate_wanted = plan->arrivals == DRY_RUN_OPEN ? plan->rate : 0,
                                     .records_lost = workforce_records_lost(trial->run->workforce)};
    if (trial->stats == NULL)
        return;
    numbers->elapsed = seconds_of(instant_since(trial->load_from, loop_now(trial->loop)));
    stats_live(trial->stats, loop_now(trial->loop), &numbers->stats);
}

void trial_progress_show(struct trial *trial)
{
    static struct live_numbers numbers;
    struct buffer out = {0};
    unsigned height;
    FILE *progress = trial->run->request->progress;
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
    if (trial->run->request->progress == NULL || trial->block.lines == 0)
        return;
    live_block_end(&trial->block, &out);
    fwrite(buffer_text(&out), 1, out.length, trial->run->request->progress);
    fflush(trial->run->request->progress);
    buffer_fini(&out);
}

void trial_say(struct trial *trial, const char *format, ...)
{
    va_list arguments;
    if (trial->run->request->says == NULL)
        return;
    trial_progress_clear(trial);
    va_start(arguments, format);
    vfprintf(trial->run->request->says, format, arguments);
    va_end(arguments);
    fputc('\n', trial->run->request->says);
}

bool machine_load_read(struct machine_load *load)
{
    long ticks = sysconf(_SC_CLK_TCK), processors = sysconf(_SC_NPROCESSORS_ONLN);
    double user, nice, system, idle, waiting, interrupts, softly, stolen;
    FILE *file = fopen("/proc/stat", "re");
    if (file == NULL)
        return false;
    int fields = fscanf(file, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &user, &nice, &system, &idle, &waiting,
                        &interrupts, &softly, &stolen);
    fclose(file);
    if (fields != 8 || ticks <= 0 || processors <= 0)
        return false;
    *load = (struct machine_load){.processors = (unsigned)processors,
                                  .busy_s = (user + nice + system + interrupts + softly + stolen) / (double)ticks,
                                  .idle_s = (idle + waiting) / (double)ticks};
    return true;
}

/* The share of all processors that was busy from the one reading to the other; -1 = not known. */
static double machine_load_share(const struct machine_load *from, const struct machine_load *to)
{
    double busy = to->busy_s - from->busy_s, all = busy + to->idle_s - from->idle_s;
    return all > 0 && busy >= 0 ? busy / all : -1;
}

/* So often a record is written to know what one costs. */
enum { COST_ROUNDS = 20000 };

/* What a worker's loop does more for each task: it writes a record such as this. */
static double observation_cost_ns(void)
{
    static const char *const names[] = {"account:1234"};
    struct buffer out = {0};
    const struct observed_task task = {.jid = "0123456789abcdef01234567", .resources = names, .resource_count = 1};
    struct instant from = instant_now();
    for (unsigned i = 0; i < COST_ROUNDS; i++) {
        buffer_clear(&out);
        record_write_task(&out, &task);
    }
    int64_t took_ns = instant_since(from, instant_now());
    buffer_fini(&out);
    return (double)took_ns / COST_ROUNDS;
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

static const struct config_node *config_node_at(const struct trial *trial, unsigned number)
{
    const struct config *config = trial->run->config;
    return number == 0 ? &config->queue_node : &config->lock_nodes[number - 1];
}

/* Its own count since the gate. One that was started anew has counted from 0 since. */
void trial_node_tell(struct trial *trial, unsigned number, const struct node_sample *sample)
{
    struct buffer address = {0};
    const struct config_node *config = config_node_at(trial, number);
    unsigned lock_nodes = (unsigned)trial->run->config->lock_node_count;
    struct stats_node_sample told = {.name = number == 0 ? "queue" : config->name,
                                     .address = config_node_address(config, &address),
                                     .is_queue_node = number == 0,
                                     .at = sample->at,
                                     .commands = sample->scripts,
                                     .cpu_s = sample->cpu_seconds};
    stats_node(trial->stats, number == 0 ? lock_nodes : number - 1, &told);
    buffer_fini(&address);
}

static void faults_tell(const struct trial *trial, struct result *result)
{
    if (trial->faults == NULL)
        return;
    const struct result_fault *faults = faults_results(trial->faults, &result->fault_count);
    memcpy(result->faults, faults, result->fault_count * sizeof faults[0]);
}

static void fleet_tell(const struct trial *trial, struct result *result)
{
    struct shadow_counts counts = shadow_counts(trial->shadow);
    const struct rate_limiter *limiter = &trial->limiter;
    char slowed[160] = "", missed[160] = "";
    if (limiter->cuts > 0)
        snprintf(slowed, sizeof slowed,
                 "; it was slowed down %u times to stay within --node-share, and %llu tasks were not played",
                 limiter->cuts, (unsigned long long)counts.waiting);
    if (counts.missed > 0)
        snprintf(missed, sizeof missed, "; up to %llu tasks came and went between two looks",
                 (unsigned long long)counts.missed);
    snprintf(result->shadowed, sizeof result->shadowed,
             "copied %llu running, %llu queued and %llu scheduled tasks, and %llu that came meanwhile; %llu texts were "
             "no tasks of a class and queue that are served here; at most %.2g %% of a node's time was taken%s%s",
             (unsigned long long)counts.running, (unsigned long long)counts.queued,
             (unsigned long long)counts.scheduled, (unsigned long long)counts.followed,
             (unsigned long long)counts.invalid, 100 * limiter->worst, slowed, missed);
}

/* --- the answer --------------------------------------------------------------------------------------------------- */

static void host_tell(const struct trial *trial, struct result *result)
{
    struct result_host *host = &result->hosts[0];
    bool measured = trial->measures && trial->machine_to.processors > 0;
    snprintf(host->id, sizeof host->id, "%s", trial->plan->id);
    host->processors = trial->machine_to.processors;
    host->machine_busy = measured ? machine_load_share(&trial->machine_from, &trial->machine_to) : -1;
    host->load_behind = trial->pushed > 0 ? (double)trial->pushed_late / (double)trial->pushed : 0;
}

void trial_result_make(struct trial *trial, struct result *result)
{
    *result = (struct result){
        .was_interrupted = trial->was_interrupted, .is_drained = trial->is_drained, .began_us = trial->began_us};
    plan_copy(&result->plan, trial->plan);
    snprintf(result->version, sizeof result->version, "%s", HOLDFAST_VERSION);
    time_t seconds = (time_t)(trial->began.us / US_PER_S);
    struct tm at;
    gmtime_r(&seconds, &at);
    strftime(result->began, sizeof result->began, "%Y-%m-%dT%H:%M:%SZ", &at);
    if (trial->stats == NULL)
        return;
    stats_finish(trial->stats, instant_now(), result);
    if (result->measured_for > 0)
        result->overhead_share =
            (double)(trial->cpu_to_ns - trial->cpu_from_ns) / (double)NS_PER_S / result->measured_for;
    result->observation_ns = observation_cost_ns();
    for (unsigned i = 0; i < result->node_count; i++) {
        const struct result_node *node = &result->nodes[i];
        unsigned number = node->is_queue_node ? 0 : i + 1;
        result->nodes[i].keys_at_end = trial->keys_left[number];
    }
    faults_tell(trial, result);
    if (trial->shadow != NULL)
        fleet_tell(trial, result);
    host_tell(trial, result);
    verdict_make(result);
}
