#include "worker/dry_run/trial.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "worker/dry_run/crew/apart.h"
#include "worker/dry_run/trial_private.h"

/* Records are looked for so often: a closed loop pushes the next task when it has seen the end of one. */
#define TICK_NS   (1 * NS_PER_MS)
#define GATHER_NS (60 * NS_PER_S)
#define START_NS  (30 * NS_PER_S)
#define DRAIN_NS  (10 * NS_PER_S)
#define END_NS    (15 * NS_PER_S)
#define LOOK_NS   (3 * NS_PER_S)
#define CLEAN_NS  (30 * NS_PER_S)
#define SECOND_NS NS_PER_S
/* Two signals that come closer together are one: a terminal, a shell and timeout(1) may each send theirs. */
#define AGAIN_NS NS_PER_S

/* --- phases ------------------------------------------------------------------------------------------------------- */

static void phase_enter(struct trial *trial, enum trial_phase phase, int64_t limit_ns)
{
    trial->phase = phase;
    trial->phase_until = limit_ns > 0 ? loop_after(trial->loop, limit_ns) : INSTANT_NEVER;
}

static void over(struct trial *trial)
{
    phase_enter(trial, TRIAL_OVER, 0);
    loop_stop(trial->loop);
}

static void all_deleted(void *context, const struct removal_end *end)
{
    struct trial *trial = context;
    for (unsigned i = 0; i < end->count && i < RESULT_NODES_MAX; i++) {
        trial->keys_left[i] = end->nodes[i].left;
        if (end->nodes[i].trouble != NULL && trial->terms.nodes == NULL)
            trial_say(trial,
                      "%s still has keys of this run, about %" PRIu64 ": a janitor process goes on removing them (%s)",
                      end->nodes[i].name, end->nodes[i].left, end->nodes[i].trouble);
    }
    *trial->terms.leaves_names |= !end->is_clean;
    over(trial);
}

/* A node that was never reached has nothing of this run. */
static void cleaning_enter(struct trial *trial)
{
    if (!trial->is_written_down && !node_watch_queue_is_up(trial->watch)) {
        over(trial);
        return;
    }
    phase_enter(trial, TRIAL_CLEANING, 0);
    name_space_delete(trial->space, CLEAN_NS, all_deleted);
}

/* Nobody writes below the names of the run any more: what is removed must not come back. */
static void writers_end(struct trial *trial)
{
    for (unsigned i = 1; i <= trial->plan->processes; i++)
        (void)workforce_kill(trial->terms.workforce, i); /* those that did not end in time */
    reception_stop(trial->reception);
    feeder_destroy(trial->feeder);
    trial->feeder = NULL;
}

static void looking_enter(struct trial *trial)
{
    writers_end(trial);
    phase_enter(trial, TRIAL_LOOKING, LOOK_NS);
    node_watch_look(trial->watch);
}

static void ending_enter(struct trial *trial)
{
    trial->is_drained = trial->tally != NULL && tally_outstanding(trial->tally) == 0;
    phase_enter(trial, TRIAL_ENDING, END_NS);
    reception_tell(trial->reception, RUN_ENDS);
    workforce_stop(trial->terms.workforce);
}

static void draining_enter(struct trial *trial)
{
    trial_load_end(trial);
    if (trial->faults != NULL)
        faults_undo(trial->faults);
    trial_measure_end(trial);
    tally_load_ended(trial->tally, loop_now(trial->loop));
    phase_enter(trial, TRIAL_DRAINING, DRAIN_NS);
    if (trial->was_interrupted)
        ending_enter(trial);
}

static bool worker_freeze(void *workforce, unsigned number)
{
    return workforce_freeze(workforce, number);
}

static bool worker_thaw(void *workforce, unsigned number)
{
    return workforce_thaw(workforce, number);
}

static bool worker_kill(void *workforce, unsigned number)
{
    return workforce_kill(workforce, number);
}

static void fault_told(void *context, const struct result_fault *fault)
{
    trial_say(context, "%s", fault->text);
}

static void faults_open(struct trial *trial)
{
    if (trial->plan->fault_count == 0)
        return;
    trial->faults = faults_start(&(struct faults_options){.loop = trial->loop,
                                                          .plan = trial->plan,
                                                          .nodes = trial->terms.nodes,
                                                          .workers = {.freeze = worker_freeze,
                                                                      .thaw = worker_thaw,
                                                                      .kill = worker_kill,
                                                                      .context = trial->terms.workforce},
                                                          .began = trial->load_from,
                                                          .told = fault_told,
                                                          .context = trial});
}

static void loading_enter(struct trial *trial)
{
    struct instant now = instant_now();
    phase_enter(trial, TRIAL_LOADING, 0);
    trial->began = wall_now();
    trial->load_from = now;
    trial->measured_from = instant_after(now, trial->plan->warm_up_ns);
    trial->load_until = instant_after(now, trial->plan->for_ns);
    trial->tally = tally_create(trial->plan, now, trial->measured_from);
    tally_host(trial->tally, 0,
               &(struct tally_host){
                   .name = trial->terms.host, .processes = trial->plan->processes, .threads = trial->plan->threads});
    for (unsigned i = 0; i < RESULT_NODES_MAX; i++)
        if (trial->nodes[i].was_seen)
            trial_node_tell(trial, i, &trial->nodes[i].first);
    loop_timer_set(trial->loop, &trial->second, loop_after(trial->loop, SECOND_NS));
    faults_open(trial);
    trial_load_begin(trial);
}

static void starting_enter(struct trial *trial)
{
    phase_enter(trial, TRIAL_STARTING, START_NS);
    reception_tell(trial->reception, RUN_GOES_ON);
    workforce_go(trial->terms.workforce);
}

/* --- what they wait for ------------------------------------------------------------------------------------------- */

static bool all_are_there(const struct trial *trial)
{
    return trial->is_written_down && node_watch_is_answered(trial->watch) &&
           workforce_ready(trial->terms.workforce) == trial->plan->processes && node_watch_queue_is_up(trial->watch) &&
           reception_is_heard(trial->reception) &&
           node_watch_nodes_up(trial->watch) > trial->terms.config->lock_node_count / 2 &&
           reception_guest_count(trial->reception) + 1 >= trial->plan->hosts;
}

/* Who hears the id can take part at once. */
static void introduce(struct trial *trial)
{
    if (trial->is_introduced || !trial->is_written_down || !reception_is_heard(trial->reception))
        return;
    trial->is_introduced = true;
    if (trial->terms.nodes != NULL)
        trial_say(trial, "dry run %s", trial->plan->id);
    else
        trial_say(trial, "dry run %s; other hosts take part with holdfast dry-run --join %s -c FILE", trial->plan->id,
                  trial->plan->id);
}

/* Guests may take their time; the others should not. */
static void gathering_look(struct trial *trial, bool is_late)
{
    const struct trial_terms *terms = &trial->terms;
    introduce(trial);
    if (all_are_there(trial)) {
        starting_enter(trial);
    } else if (is_late && !node_watch_queue_is_up(trial->watch)) {
        error_set(&trial->trouble, "the queue node cannot be reached: holdfast check -c %s tells more",
                  terms->config->path);
        ending_enter(trial);
    } else if (is_late && node_watch_nodes_up(trial->watch) <= terms->config->lock_node_count / 2) {
        error_set(&trial->trouble, "only %u of %zu lock nodes can be reached: holdfast nodes -c %s tells more",
                  node_watch_nodes_up(trial->watch), terms->config->lock_node_count, terms->config->path);
        ending_enter(trial);
    }
}

/* Until all claim what comes: how long nodes and workers take to find each other is not what is measured. */
static void starting_look(struct trial *trial, bool is_late)
{
    const struct reception_guest *laggard = reception_laggard(trial->reception);
    char quoted[LOG_QUOTE_MAX];
    bool all_serve = workforce_serving(trial->terms.workforce) == trial->plan->processes;
    if (all_serve && is_late && laggard != NULL)
        trial_say(trial, "the workers of the host %s do not get to work: the load begins without them",
                  log_quote(laggard->name, quoted));
    if (all_serve && (is_late || laggard == NULL)) {
        loading_enter(trial);
    } else if (is_late) {
        error_set(
            &trial->trouble,
            "the workers do not get to work: they find no queue node, or no majority of lock nodes that may vote; "
            "what they say stands above");
        ending_enter(trial);
    }
}

static void loading_look(struct trial *trial)
{
    struct instant now = loop_now(trial->loop);
    if (!trial->measures && instant_reached(now, trial->measured_from))
        trial_measure_begin(trial);
    if (instant_reached(now, trial->load_until) || workforce_alive(trial->terms.workforce) == 0)
        draining_enter(trial);
}

/* All that will come is there. */
static bool is_ended(const struct trial *trial, size_t records)
{
    return records == 0 && workforce_alive(trial->terms.workforce) == 0 && reception_is_over(trial->reception);
}

static void phase_look(struct trial *trial, size_t records)
{
    bool is_late = instant_reached(loop_now(trial->loop), trial->phase_until);
    switch (trial->phase) {
    case TRIAL_GATHERING:
        gathering_look(trial, is_late);
        break;
    case TRIAL_STARTING:
        starting_look(trial, is_late);
        break;
    case TRIAL_LOADING:
        loading_look(trial);
        break;
    case TRIAL_DRAINING:
        if (is_late || tally_outstanding(trial->tally) == 0)
            ending_enter(trial);
        break;
    case TRIAL_ENDING:
        if (is_ended(trial, records) || is_late)
            looking_enter(trial);
        break;
    case TRIAL_LOOKING:
        if (node_watch_is_answered(trial->watch) || is_late)
            cleaning_enter(trial);
        break;
    case TRIAL_CLEANING:
    case TRIAL_OVER:
        break;
    }
    if (trial->unwanted_ends > 0 && trial->phase < TRIAL_LOADING)
        ending_enter(trial);
}

static void tick(struct loop_timer *timer)
{
    struct trial *trial = list_owner(timer, struct trial, tick);
    loop_timer_set(trial->loop, timer, loop_after(trial->loop, TICK_NS));
    phase_look(trial, trial_sources_read(trial));
}

static void second(struct loop_timer *timer)
{
    struct trial *trial = list_owner(timer, struct trial, second);
    loop_timer_set(trial->loop, timer, loop_after(trial->loop, SECOND_NS));
    if (trial->phase == TRIAL_LOADING)
        tally_second(trial->tally, loop_now(trial->loop));
    if (trial->phase == TRIAL_LOADING && trial->shadow != NULL)
        trial_shadow_second(trial);
    trial_progress_show(trial);
}

static void interrupted(void *context, int number)
{
    struct trial *trial = context;
    bool is_again = trial->was_interrupted && instant_since(trial->interrupted, loop_now(trial->loop)) > AGAIN_NS;
    (void)number;
    if (!trial->was_interrupted)
        trial->interrupted = loop_now(trial->loop);
    trial->was_interrupted = true;
    if (trial->phase < TRIAL_LOADING)
        ending_enter(trial);
    else if (trial->phase == TRIAL_LOADING)
        draining_enter(trial);
    else if (trial->phase == TRIAL_DRAINING)
        ending_enter(trial);
    else if (is_again && trial->phase != TRIAL_OVER) {
        *trial->terms.leaves_names = true;
        over(trial);
    }
}

/* --- the name space ----------------------------------------------------------------------------------------------- */

static void space_begun(void *context, const char *trouble, unsigned removed)
{
    struct trial *trial = context;
    trial->is_written_down = trouble == NULL;
    if (removed > 0)
        trial_say(trial, "what %u earlier dry runs had left was removed", removed);
    if (trouble != NULL) {
        error_set(&trial->trouble, "the run could not be written down on the queue node: %s", trouble);
        ending_enter(trial);
    }
}

static void space_lost(void *context)
{
    struct trial *trial = context;
    error_set(&trial->trouble, "this process stood still for so long that another dry run has removed this one");
    trial->was_interrupted = true;
    if (trial->phase < TRIAL_ENDING)
        ending_enter(trial);
}

static void space_open(struct trial *trial)
{
    trial->space = name_space_open(&(struct name_space_options){.loop = trial->loop,
                                                                .config = trial->terms.live,
                                                                .run = trial->plan->id,
                                                                .node_share = trial->plan->node_share,
                                                                .lost = space_lost,
                                                                .context = trial});
    name_space_begin(trial->space, space_begun);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static void tasks_refused(void *context, uint64_t count, const char *reason)
{
    struct trial *trial = context;
    if (trial->trouble.text[0] == '\0')
        error_set(&trial->trouble, "%llu tasks could not be pushed: %s", (unsigned long long)count, reason);
}

static bool trial_open(struct trial *trial, struct error *error)
{
    trial->loop = loop_create(error);
    if (trial->loop == NULL)
        return false;
    trial_sources_open(trial);
    space_open(trial);
    trial->feeder = feeder_create(trial->loop, &(struct feeder_options){.node = &trial->terms.config->queue_node,
                                                                        .space = trial->terms.key_space,
                                                                        .refused = tasks_refused,
                                                                        .context = trial});
    if (trial->plan->kind == DRY_RUN_REHEARSAL)
        trial->load = load_create(trial->plan);
    loop_timer_init(&trial->tick, tick);
    loop_timer_init(&trial->second, second);
    loop_timer_set(trial->loop, &trial->tick, instant_now());
    trial->interrupt = loop_signal_start(trial->loop, SIGINT, interrupted, trial);
    trial->termination = loop_signal_start(trial->loop, SIGTERM, interrupted, trial);
    interrupts_hear();
    return true;
}

static void trial_close(struct trial *trial)
{
    if (trial->loop == NULL)
        return;
    loop_signal_end(trial->interrupt);
    loop_signal_end(trial->termination);
    loop_timer_clear(trial->loop, &trial->tick);
    loop_timer_clear(trial->loop, &trial->second);
    loop_timer_clear(trial->loop, &trial->arrival);
    load_destroy(trial->load);
    shadow_destroy(trial->shadow);
    faults_destroy(trial->faults);
    feeder_destroy(trial->feeder);
    name_space_close(trial->space);
    trial_sources_close(trial);
    tally_destroy(trial->tally);
    loop_destroy(trial->loop);
}

bool trial_run(const struct trial_terms *terms, struct result *result, struct error *error)
{
    struct trial *trial = memory_new(struct trial);
    trial->terms = *terms;
    trial->plan = terms->plan;
    trial->began = wall_now();
    bool ran = trial_open(trial, error);
    if (ran) {
        phase_enter(trial, TRIAL_GATHERING, GATHER_NS);
        loop_run(trial->loop);
        trial_progress_clear(trial);
        ran = trial->load_from.ns != 0 || trial->was_interrupted;
        if (ran && trial->trouble.text[0] != '\0')
            trial_say(trial, "%s", trial->trouble.text);
        if (ran)
            trial_result_make(trial, result);
        else
            error_set(error, "%s", trial->trouble.text);
    }
    trial_close(trial);
    free(trial);
    return ran;
}
