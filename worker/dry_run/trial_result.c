/* The end of a trial: what was counted, what the nodes say of themselves, what the faults did, and what it cost to
 * look, become the result. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "worker/dry_run/trial_private.h"
#include "worker/dry_run/count/verdict.h"
#include "worker/version.h"

/* So often a record is written to know what one costs. */
enum { COST_ROUNDS = 20000 };

static void began_write(const struct trial *trial, char *text, size_t size)
{
    time_t seconds = (time_t)(trial->began.us / US_PER_S);
    struct tm at;
    gmtime_r(&seconds, &at);
    strftime(text, size, "%Y-%m-%dT%H:%M:%SZ", &at);
}

/* What a worker's loop does more for each task: it writes a record such as this. */
static double observation_cost_ns(void)
{
    static struct record record;
    static const char *const names[] = {"account:1234"};
    struct buffer out = {0};
    record.kind = RECORD_TASK;
    record.task = (struct observed_task){
        .jid = "0123456789abcdef01234567", .class_name = "dry.hold", .resources = names, .resource_count = 1};
    struct instant from = instant_now();
    for (unsigned i = 0; i < COST_ROUNDS; i++) {
        buffer_clear(&out);
        record_write(&out, &record);
    }
    int64_t took_ns = instant_since(from, instant_now());
    buffer_fini(&out);
    return (double)took_ns / COST_ROUNDS;
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

static const struct config_node *config_node_at(const struct trial *trial, unsigned number)
{
    const struct config *config = trial->terms.config;
    return number == 0 ? &config->queue_node : &config->lock_nodes[number - 1];
}

/* Its own count since the gate. One that was started anew has counted from 0 since. */
void trial_node_tell(struct trial *trial, unsigned number, const struct node_sample *sample)
{
    struct buffer address = {0};
    const struct config_node *config = config_node_at(trial, number);
    unsigned lock_nodes = (unsigned)trial->terms.config->lock_node_count;
    struct tally_node_sample told = {.name = number == 0 ? "queue" : config->name,
                                     .address = config_node_address(config, &address),
                                     .is_queue_node = number == 0,
                                     .at = sample->at,
                                     .commands = sample->scripts,
                                     .cpu_s = sample->cpu_seconds};
    tally_node(trial->tally, number == 0 ? lock_nodes : number - 1, &told);
    buffer_fini(&address);
}

static void faults_tell(const struct trial *trial, struct result *result)
{
    if (trial->faults == NULL)
        return;
    const struct result_fault *faults = faults_results(trial->faults, &result->fault_count);
    memcpy(result->faults, faults, result->fault_count * sizeof faults[0]);
}

static void keys_tell(const struct trial *trial, struct result *result)
{
    for (unsigned i = 0; i < result->node_count; i++) {
        const struct result_node *node = &result->nodes[i];
        unsigned number = node->is_queue_node ? 0 : i + 1;
        result->nodes[i].keys_at_end = trial->keys_left[number];
    }
}

/* --- the answer --------------------------------------------------------------------------------------------------- */

static struct verdict_facts facts_of(const struct trial *trial, const struct result *result)
{
    bool measured = trial->measures && trial->machine_to.processors > 0;
    return (struct verdict_facts){
        .processors = trial->machine_to.processors,
        .machine_busy = measured ? machine_load_share(&trial->machine_from, &trial->machine_to) : -1,
        .load_behind = trial->pushed > 0 ? (double)trial->pushed_late / (double)trial->pushed : 0,
        .load_cpu = result->overhead_share};
}

void trial_result_make(struct trial *trial, struct result *result)
{
    *result = (struct result){.was_interrupted = trial->was_interrupted, .is_drained = trial->is_drained};
    plan_copy(&result->plan, trial->plan);
    snprintf(result->version, sizeof result->version, "%s", HOLDFAST_VERSION);
    began_write(trial, result->began, sizeof result->began);
    if (trial->tally == NULL)
        return;
    tally_finish(trial->tally, instant_now(), result);
    if (result->measured_for > 0)
        result->overhead_share =
            (double)(trial->cpu_to_ns - trial->cpu_from_ns) / (double)NS_PER_S / result->measured_for;
    result->observation_ns = observation_cost_ns();
    keys_tell(trial, result);
    faults_tell(trial, result);
    if (trial->shadow != NULL)
        trial_shadow_tell(trial, result);
    struct verdict_facts facts = facts_of(trial, result);
    verdict_make(result, tally_overheads(trial->tally), &facts);
}
