/* One dry run from its gate to its end. Everything is prepared and the workers wait; here the load is put in, records
 * are counted, faults are done, and the result is made.
 *
 *     GATHERING ──▶ STARTING ──────▶ WAITING ───▶ LOADING ──────▶ DRAINING ─────▶ ENDING ───▶ LOOKING ──▶ CLEANING
 *     workers and   they get the     for other    warm-up, then   no new tasks;   workers     the nodes'   all keys of
 *     nodes are     signal, and are  hosts of     measured        what is there   stop        own counts   the run are
 *     there         up               the run                      may end                                  removed
 *
 * SIGINT or SIGTERM ends the load, without draining; a second one ends the waiting for nodes too. The result says what
 * was found out so far. Runs a loop of its own on the calling thread, the only one.
 * trial_report.c prints it. */
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/log.h"
#include "base/memory.h"
#include "worker/config/node_options.h"
#include "worker/dry_run/run/apart.h"
#include "worker/dry_run/run/trial_private.h"
#include "worker/print/human.h"

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
/* Later than this it counts as late. */
#define LATE_NS (50 * NS_PER_MS)
/* At once; what is more comes in the next cycle of the loop. */
enum { BURST_MAX = 2000 };
/* Records that are taken in one cycle of the loop: it has pushes to make in time, too. */
enum { RECORDS_MAX = 20000 };
/* Lines of workers' logs that are shown. */
enum { LINES_MAX = 20 };

/* --- pushing ------------------------------------------------------------------------------------------------------ */

/* Of full batches: as much as a fast generator needs. */
enum { SLICES_MAX = 16 };

static void slice_ended(struct push_source *source, const struct hf_stream_report *report, size_t bytes)
{
    (void)bytes;
    struct trial *trial = list_owner(source, struct trial, source);
    bool is_pushed = report->answer == HF_PUSH_QUEUED || report->answer == HF_PUSH_SCHEDULED;
    if (!is_pushed && trial->trouble.text[0] == '\0')
        error_set(&trial->trouble, "%llu task%s could not be pushed: %s", (unsigned long long)report->count,
                  human_plural((int64_t)report->count), report->reason);
}

static void slices_flush(struct loop_hook *hook)
{
    struct trial *trial = list_owner(hook, struct trial, flush);
    push_flush(trial->push, &trial->source);
}

static void feed_end(struct trial *trial)
{
    if (trial->push == NULL)
        return;
    loop_hook_cancel(&trial->flush);
    push_destroy(trial->push);
    push_source_fini(&trial->source);
    trial->push = NULL;
}

/* Any number of tasks in one cycle of the loop leave together. */
static void feed(struct trial *trial, const struct built_task *task)
{
    push_add(trial->push, &trial->source, task, 0);
    loop_at_cycle_end(trial->loop, LOOP_GATHER, &trial->flush);
}

/* --- a live fleet ------------------------------------------------------------------------------------------------- */

/* A trial whose load is the shadow of a live fleet: what the shadow finds is pushed, and once a second it is judged
 * whether all that follows from it stays within its share of the nodes. */
static void task_found(void *context, const struct shadow_task *found)
{
    struct trial *trial = context;
    stats_pushed(trial->stats, found->task.jid, found->resources, found->resource_count, found->due);
    feed(trial, &found->task);
    trial->pushed++;
}

static void fleet_copied(void *context)
{
    struct trial *trial = context;
    struct shadow_counts counts = shadow_counts(trial->shadow);
    trial_say(trial, "Copied %llu running, %llu queued and %llu scheduled tasks; what comes now is followed.",
              (unsigned long long)counts.running, (unsigned long long)counts.queued,
              (unsigned long long)counts.scheduled);
}

static void fleet_begin(struct trial *trial)
{
    const struct dry_run_plan *plan = trial->plan;
    trial->limiter = rate_limiter_begin(plan->node_share, DRY_RUN_COPY_RATE);
    trial->shadow = shadow_create(&(struct shadow_options){.loop = trial->loop,
                                                           .live = trial->run->live,
                                                           .plugins = trial->run->plugins,
                                                           .plan = plan,
                                                           .node_us = trial->began_us,
                                                           .node_at = trial->begins,
                                                           .found = task_found,
                                                           .copied = fleet_copied,
                                                           .context = trial});
    shadow_begin(trial->shadow);
}

/* The time that our scripts took there: as many of them as we sent, each as long as those that it ran meanwhile. */
static double share_taken(struct trial *trial, unsigned number)
{
    struct trial_node *node = &trial->nodes[number];
    const struct node_sample *from = &node->judged, *to = &node->last;
    double seconds = (double)instant_since(from->at, to->at) / (double)NS_PER_S;
    uint64_t scripts = to->scripts - from->scripts, all_asked = stats_asked(trial->stats, number);
    uint64_t asked = all_asked - node->asked_judged;
    bool is_known = node->was_seen && from->at.ns != 0 && seconds > 0 && scripts > 0 && to->scripts >= from->scripts;
    node->judged = node->last;
    node->asked_judged = all_asked;
    if (!is_known)
        return 0;
    double ours = fmin((double)asked / (double)scripts, 1);
    return ours * (double)(to->script_us - from->script_us) / (double)US_PER_S / seconds;
}

static void fleet_second(struct trial *trial)
{
    double worst = 0;
    for (unsigned i = 0; i <= trial->run->config->lock_node_count && i < RESULT_NODES_MAX; i++)
        worst = fmax(worst, share_taken(trial, i));
    double told = (double)(trial->pushed - trial->pushed_judged);
    trial->pushed_judged = trial->pushed;
    shadow_limit(trial->shadow, rate_limiter_judge(&trial->limiter, worst, told));
}

/* --- the load ----------------------------------------------------------------------------------------------------- */

/* What is pushed while the load lasts: tasks of the generator, at the times that the plan wants or as fast as others
 * end. A shadow pushes by itself (shadow.h).
 *
 * A wait is counted from when a task was to come, not from when it was pushed: else a generator that falls behind would
 * hide just the waits that matter (coordinated omission). */
static void task_push(struct trial *trial, struct instant due)
{
    struct load_task task;
    load_next(trial->load, wall_now(), &task);
    stats_pushed(trial->stats, task.jid, task.resources, task.resource_count, due);
    feed(trial,
         &(struct built_task){
             .payload = task.text, .class_name = task.class_name, .queue = task.queue, .jid = task.jid, .digest = ""});
    trial->pushed++;
    trial->pushed_late += instant_since(due, instant_now()) > LATE_NS;
}

static struct instant next_due(const struct trial *trial)
{
    return instant_after(trial->load_from, load_due_ns(trial->load));
}

/* Open arrivals: all that are due by now. False when no more will come. */
static bool due_push(struct trial *trial)
{
    struct instant now = instant_now();
    for (unsigned i = 0; i < BURST_MAX && !instant_before(now, next_due(trial)); i++) {
        if (instant_reached(next_due(trial), trial->load_until))
            return false;
        task_push(trial, next_due(trial));
    }
    return true;
}

static void arrivals_due(struct loop_timer *timer)
{
    struct trial *trial = list_owner(timer, struct trial, arrival);
    if (due_push(trial))
        loop_timer_set(trial->loop, timer, next_due(trial));
}

static void load_follow(struct trial *trial)
{
    if (trial->phase != TRIAL_LOADING)
        return;
    uint64_t missing = stats_missing(trial->stats);
    for (struct instant now = instant_now(); missing > 0; missing--)
        task_push(trial, now);
}

static void load_begin(struct trial *trial)
{
    if (trial->load == NULL) {
        fleet_begin(trial);
        return;
    }
    loop_timer_init(&trial->arrival, arrivals_due);
    if (trial->plan->arrivals == DRY_RUN_OPEN)
        loop_timer_set(trial->loop, &trial->arrival, next_due(trial));
    else
        load_follow(trial);
}

/* What was due in the last moment is pushed too, so that a seed gives as many tasks each time. */
static void load_end(struct trial *trial)
{
    if (trial->load != NULL && trial->plan->arrivals == DRY_RUN_OPEN && !trial->was_interrupted)
        (void)due_push(trial);
    loop_timer_clear(trial->loop, &trial->arrival);
    if (trial->shadow != NULL)
        shadow_end(trial->shadow);
}

/* --- what happens ------------------------------------------------------------------------------------------------- */

/* A trial learns what happens from the rings of its workers, the nodes themselves and the clock of the machine.
 * Everything goes to the statistics, which there is from the moment the load begins. */

/* --- workers ------------------------------------------------------------------------------------------------------ */

/* The first time only; the result has all of them. */
static void crash_told(struct trial *trial, const struct crash *crash)
{
    char quoted[LOG_QUOTE_MAX];
    if (!trial->has_crashes)
        trial_say(trial,
                  "the check() of the class %s crashes, which takes a worker of production down: here its task "
                  "is buried",
                  log_quote(crash->class_name, quoted));
    trial->has_crashes = true;
}

static void record_take(void *context, unsigned number, const struct record *record)
{
    struct trial *trial = context;
    if (record->kind == RECORD_CRASH)
        crash_told(trial, &record->crash);
    if (trial->stats == NULL)
        return;
    stats_record(trial->stats, number - 1, record);
    load_follow(trial);
}

static void worker_ended(void *context, const struct workforce_exit *end)
{
    struct trial *trial = context;
    if (end->was_orderly)
        return;
    (void)workforce_read(trial->run->workforce, SIZE_MAX, record_take, trial); /* each ring once: its last records */
    if (trial->stats != NULL)
        stats_process_died(trial->stats, end->number - 1, loop_now(trial->loop));
    if (end->was_wanted)
        return;
    trial->unwanted_ends++;
    error_set(&trial->trouble, "worker process %u ended by itself (%s %d)", end->number,
              WIFSIGNALED(end->wait_status) ? "signal" : "exit code",
              WIFSIGNALED(end->wait_status) ? WTERMSIG(end->wait_status) : WEXITSTATUS(end->wait_status));
}

static void worker_said(void *context, unsigned number, const char *text)
{
    struct trial *trial = context;
    if (trial->lines_told++ > LINES_MAX)
        return;
    if (trial->lines_told > LINES_MAX)
        trial_say(trial, "workers have more to say, which is left out");
    else
        trial_say(trial, "worker %u: %s", number, text);
}

static size_t sources_read(struct trial *trial)
{
    struct workforce *workforce = trial->run->workforce;
    size_t records = workforce_read(workforce, RECORDS_MAX, record_take, trial);
    workforce_reap(workforce, worker_ended, trial);
    workforce_read_log(workforce, worker_said, trial);
    if (trial->stats != NULL)
        stats_records_lost(trial->stats, workforce_records_lost(workforce));
    return records;
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

static void node_sampled(void *context, unsigned number, const struct node_sample *sample)
{
    struct trial *trial = context;
    if (number >= RESULT_NODES_MAX)
        return;
    struct trial_node *node = &trial->nodes[number];
    if (!node->was_seen)
        node->first = *sample;
    node->was_seen = true;
    node->last = *sample;
    if (trial->stats != NULL)
        trial_node_tell(trial, number, sample);
}

static int64_t own_cpu_ns(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * NS_PER_S +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * NS_PER_US;
}

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
    trial->run->leaves_names |= end->count == 0 && !end->is_clean;
    for (unsigned i = 0; i < end->count && i < RESULT_NODES_MAX; i++) {
        const struct key_deletion_state *node = &end->nodes[i];
        trial->keys_left[i] = node->left;
        trial->run->leaves_names |= !node->is_clean && !node->is_refused;
        if (node->is_clean || trial->run->nodes != NULL)
            continue;
        if (node->is_refused)
            trial_say(trial, "%s may still have keys of this run, and refuses to let us look: %s (%s)", node->name,
                      i > 0 ? "they expire, and tokens are forgotten in their turn"
                            : "the next dry run that may look removes them",
                      node->trouble);
        else
            trial_say(trial,
                      "%s still has keys of this run, about %" PRIu64 ": a cleanup process goes on removing them (%s)",
                      node->name, node->left, node->trouble);
    }
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

static void looking_enter(struct trial *trial)
{
    /* No process writes below the names of the run any more: what is removed must not come back. */
    for (unsigned i = 1; i <= trial->plan->processes; i++)
        (void)workforce_signal(trial->run->workforce, i, SIGKILL); /* those that did not end in time */
    feed_end(trial);
    phase_enter(trial, TRIAL_LOOKING, LOOK_NS);
    node_watch_look(trial->watch);
}

static void ending_enter(struct trial *trial)
{
    trial->is_drained = trial->stats != NULL && stats_outstanding(trial->stats) == 0;
    phase_enter(trial, TRIAL_ENDING, END_NS);
    workforce_stop(trial->run->workforce);
}

static void draining_enter(struct trial *trial)
{
    load_end(trial);
    if (trial->faults != NULL)
        faults_undo(trial->faults);
    machine_load_read(&trial->machine_to);
    trial->cpu_to_ns = own_cpu_ns();
    stats_load_ended(trial->stats, loop_now(trial->loop));
    phase_enter(trial, TRIAL_DRAINING, DRAIN_NS);
    if (trial->was_interrupted)
        ending_enter(trial);
}

static bool worker_signal(void *context, unsigned number, int signal)
{
    const struct trial *trial = context;
    return workforce_signal(trial->run->workforce, number, signal);
}

static void fault_told(void *context, const struct result_fault *fault)
{
    struct trial *trial = context;
    if (fault->was_done)
        stats_disturbed(trial->stats, instant_after(trial->load_from, (int64_t)(fault->at * (double)NS_PER_S)));
    trial_say(trial, "%s", fault->text);
}

static void faults_open(struct trial *trial)
{
    if (trial->plan->fault_count == 0)
        return;
    trial->faults = faults_start(&(struct faults_options){.loop = trial->loop,
                                                          .plan = trial->plan,
                                                          .nodes = trial->run->nodes,
                                                          .worker_signal = worker_signal,
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
    trial->stats = stats_create(trial->plan, trial->run->host, now, trial->measured_from);
    for (unsigned i = 0; i < RESULT_NODES_MAX; i++)
        if (trial->nodes[i].was_seen)
            trial_node_tell(trial, i, &trial->nodes[i].first);
    loop_timer_set(trial->loop, &trial->second, loop_after(trial->loop, SECOND_NS));
    faults_open(trial);
    load_begin(trial);
}

static void starting_enter(struct trial *trial)
{
    phase_enter(trial, TRIAL_STARTING, START_NS);
    workforce_go(trial->run->workforce);
}

static void waiting_enter(struct trial *trial)
{
    phase_enter(trial, TRIAL_WAITING, 0);
    name_space_ready(trial->space);
}

/* --- what they wait for ------------------------------------------------------------------------------------------- */

static bool all_are_there(const struct trial *trial)
{
    return trial->is_written_down && node_watch_is_answered(trial->watch) &&
           workforce_ready(trial->run->workforce) == trial->plan->processes && node_watch_queue_is_up(trial->watch) &&
           node_watch_nodes_up(trial->watch) > trial->run->config->lock_node_count / 2;
}

static void gathering_look(struct trial *trial, bool is_late)
{
    struct dry_run *run = trial->run;
    if (all_are_there(trial)) {
        starting_enter(trial);
    } else if (is_late && !node_watch_queue_is_up(trial->watch)) {
        error_set(&trial->trouble, "the queue node cannot be reached: holdfast check -c %s tells more",
                  run->config->path);
        run->is_unreachable = true;
        ending_enter(trial);
    } else if (is_late && node_watch_nodes_up(trial->watch) <= run->config->lock_node_count / 2) {
        error_set(&trial->trouble, "only %u of %zu lock nodes can be reached: holdfast nodes -c %s tells more",
                  node_watch_nodes_up(trial->watch), run->config->lock_node_count, run->config->path);
        run->is_unreachable = true;
        ending_enter(trial);
    }
}

/* Until all claim what comes: how long nodes and workers take to find each other is not what is measured. */
static void starting_look(struct trial *trial, bool is_late)
{
    if (workforce_serving(trial->run->workforce) == trial->plan->processes) {
        waiting_enter(trial);
    } else if (is_late) {
        error_set(
            &trial->trouble,
            "the workers do not get to work: they find no queue node, or no majority of lock nodes that may vote; "
            "what they say stands above");
        ending_enter(trial);
    }
}

/* As long as the others take. */
static void waiting_look(struct trial *trial)
{
    unsigned missing = trial->plan->hosts - name_space_hosts(trial->space);
    trial->began_us = name_space_begins(trial->space, &trial->begins);
    if (trial->began_us == 0) {
        if (missing != trial->missing_told && missing > 0)
            trial_say(trial, "waiting for %u more host%s of this name", missing, human_plural(missing));
        trial->missing_told = missing;
    } else if (instant_reached(loop_now(trial->loop), trial->begins)) {
        loading_enter(trial);
    }
}

static void loading_look(struct trial *trial)
{
    struct instant now = loop_now(trial->loop);
    if (!trial->measures && instant_reached(now, trial->measured_from)) {
        trial->measures = true;
        machine_load_read(&trial->machine_from);
        trial->cpu_from_ns = own_cpu_ns();
    }
    if (instant_reached(now, trial->load_until) || workforce_alive(trial->run->workforce) == 0)
        draining_enter(trial);
}

/* All that will come is there. */
static bool is_ended(const struct trial *trial, size_t records)
{
    return records == 0 && workforce_alive(trial->run->workforce) == 0;
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
    case TRIAL_WAITING:
        waiting_look(trial);
        break;
    case TRIAL_LOADING:
        loading_look(trial);
        break;
    case TRIAL_DRAINING:
        if (is_late || stats_outstanding(trial->stats) == 0)
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
    phase_look(trial, sources_read(trial));
}

static void second(struct loop_timer *timer)
{
    struct trial *trial = list_owner(timer, struct trial, second);
    loop_timer_set(trial->loop, timer, loop_after(trial->loop, SECOND_NS));
    if (trial->phase == TRIAL_LOADING)
        stats_second(trial->stats, loop_now(trial->loop));
    if (trial->phase == TRIAL_LOADING && trial->shadow != NULL)
        fleet_second(trial);
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
        trial->run->leaves_names = true;
        over(trial);
    }
}

/* --- the name space ----------------------------------------------------------------------------------------------- */

static void space_begun(void *context, const char *trouble, unsigned removed)
{
    struct trial *trial = context;
    trial->is_written_down = trouble == NULL;
    if (trouble == NULL)
        trial_say(trial, "dry run %s", plan_run(trial->plan));
    if (removed > 0)
        trial_say(trial, "what %u earlier dry run%s had left was removed", removed, removed == 1 ? "" : "s");
    if (trouble != NULL) {
        error_set(&trial->trouble, "the run could not be written down on the queue node: %s", trouble);
        trial->run->is_unreachable = !node_watch_queue_is_up(trial->watch);
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
                                                                .config = trial->run->live,
                                                                .run = plan_run(trial->plan),
                                                                .host = trial->plan->id,
                                                                .hosts = trial->plan->hosts,
                                                                .node_share = trial->plan->node_share,
                                                                .lost = space_lost,
                                                                .context = trial});
    name_space_begin(trial->space, space_begun);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static bool trial_open(struct trial *trial, struct error *error)
{
    trial->loop = loop_create(error);
    if (trial->loop == NULL)
        return false;
    trial->watch = node_watch_create(trial->loop, trial->run->config, node_sampled, trial);
    space_open(trial);
    trial->push = push_create(trial->loop,
                              &(struct push_options){.node = node_options(&trial->run->config->queue_node, "dry-run"),
                                                     .space = trial->run->key_space,
                                                     .batches_max = SLICES_MAX});
    push_source_init(&trial->source, slice_ended);
    loop_hook_init(&trial->flush, slices_flush);
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
    feed_end(trial);
    name_space_close(trial->space);
    node_watch_destroy(trial->watch);
    stats_destroy(trial->stats);
    loop_destroy(trial->loop);
}

bool trial_run(struct dry_run *run, struct result *result, struct error *error)
{
    struct trial *trial = memory_new(struct trial);
    trial->run = run;
    trial->plan = run->plan;
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
