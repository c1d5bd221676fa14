#include "worker/dry_run/run/simulated_handlers.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/memory.h"
#include "worker/dry_run/count/record.h"
#include "worker/dry_run/plan/load_generator.h"
#include "worker/plugin/plugin.h"
#include "worker/task/failure_outcome.h"
#include "worker/task/job_host.h"

/* How soon a run notices that it is to stop, when that is not the end of its lock, which it knows beforehand. */
#define STEP_NS (50 * NS_PER_MS)

/* What the overlap detector of one thread has, for as long as that lives. */
struct handler_post {
    struct record_ring *ring;
    struct buffer text;
};

struct simulation {
    struct simulation_options options;
    unsigned number; /* of this process: no two have the same */
    atomic_uint posts_taken;
    struct handler_post *posts;
};

static atomic_uint simulations;
static _Thread_local unsigned own_simulation;
static _Thread_local struct handler_post *own_post; /* NULL = there was none left */

/* --- the overlap detector
 * -------------------------------------------------------------------------------------------------- */

/* Once a thread. Its sleep ends when it is to end, not when that suits others as well. */
static void thread_prepare(struct simulation *simulation)
{
    if (own_simulation == simulation->number)
        return;
    unsigned number = atomic_fetch_add(&simulation->posts_taken, 1);
    own_post = number < simulation->options.ring_count ? &simulation->posts[number] : NULL;
    own_simulation = simulation->number;
    prctl(PR_SET_TIMERSLACK, 1);
}

/* Where the record is to be written; NULL when it cannot be written, which is counted. */
static struct buffer *record_begin(struct simulation *simulation)
{
    struct handler_post *post = own_post;
    if (post == NULL) {
        if (simulation->options.lost != NULL)
            atomic_fetch_add(simulation->options.lost, 1);
        return NULL;
    }
    buffer_clear(&post->text);
    return &post->text;
}

static void record_end(void)
{
    record_ring_put(own_post->ring, own_post->text.bytes, own_post->text.length);
}

static void event_tell(struct simulation *simulation, enum record_kind kind, const struct handler_event *event)
{
    struct buffer *text = record_begin(simulation);
    if (text == NULL)
        return;
    record_write_handler(text, kind, event);
    record_end();
}

static void crash_tell(struct simulation *simulation, const hf_job *job, const struct argument_answer *answer)
{
    struct buffer *text = record_begin(simulation);
    if (text == NULL)
        return;
    record_write_crash(text, &(struct crash){.at = instant_now(),
                                             .class_name = job->class_name,
                                             .signal = answer->signal,
                                             .hangs = answer->verdict == ARGUMENT_HANGS});
    record_end();
}

/* --- a run -------------------------------------------------------------------------------------------------------- */

static int64_t hold_ns_of(const struct simulation *simulation, const hf_job *job)
{
    const struct simulation_options *options = &simulation->options;
    const struct distribution *hold = &options->plan->hold;
    for (size_t i = 0; i < options->class_count; i++) /* they are few */
        if (strcmp(options->classes[i].name, job->class_name) == 0)
            hold = &options->classes[i].hold;
    return load_hold_ns(options->plan, hold, job->jid, job->attempt);
}

/* When the sleep ends for a look: at the end of the hold, or of the lock as it is known now, or of the step. */
static struct instant look_at(const hf_job *job, struct instant now, struct instant end)
{
    struct instant look = instant_earlier(end, instant_after(now, STEP_NS));
    if (job->validity == NULL)
        return look;
    struct instant until = {atomic_load_explicit(&job->validity->until, memory_order_relaxed)};
    return instant_before(now, until) ? instant_earlier(look, until) : look;
}

/* False when it was asked to stop before the end. */
static bool hold(const hf_job *job, struct instant from, int64_t hold_ns)
{
    struct instant end = instant_after(from, hold_ns);
    for (struct instant now = from; !instant_reached(now, end); now = instant_now()) {
        struct instant look = look_at(job, now, end);
        struct timespec at = {.tv_sec = look.ns / NS_PER_S, .tv_nsec = look.ns % NS_PER_S};
        clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &at, NULL);
        if (job_was_cancelled(job))
            return false;
    }
    return true;
}

/* As a worker does before it runs a handler. */
static bool arguments_pass(struct simulation *simulation, hf_job *job)
{
    struct argument_answer answer;
    argument_check_ask(simulation->options.check, job->class_name, job->args.bytes, job->args.length, &answer);
    switch (answer.verdict) {
    case ARGUMENT_REFUSED:
        failure_set(&job->outcome.failure, "HF::BadArguments", "%s", answer.reason);
        return false;
    case ARGUMENT_CRASHED:
    case ARGUMENT_HANGS:
        crash_tell(simulation, job, &answer);
        failure_set(&job->outcome.failure, "HF::Crashed", "the check() of its arguments %s",
                    answer.verdict == ARGUMENT_HANGS ? "does not return" : "crashes");
        return false;
    case ARGUMENT_UNCHECKED:
    case ARGUMENT_PASSES:
        break;
    }
    return true;
}

static int run(hf_job *job, void *state)
{
    struct simulation *simulation = state;
    const struct dry_run_plan *plan = simulation->options.plan;
    bool wants_failure = load_fails(plan, job->jid, job->attempt);
    thread_prepare(simulation);
    if (!arguments_pass(simulation, job))
        return HF_BURY;
    struct handler_event event = {.at = instant_now(),
                                  .jid = job->jid,
                                  .resources = job->resources,
                                  .resource_count = job->resource_count,
                                  .token = strtoull(job->fence, NULL, 10)};
    event_tell(simulation, RECORD_ENTER, &event);
    bool is_over = hold(job, event.at, hold_ns_of(simulation, job));
    event.at = instant_now();
    event.failed = is_over && wants_failure;
    event_tell(simulation, RECORD_LEAVE, &event);
    if (!is_over)
        return HF_CANCELLED;
    if (wants_failure)
        failure_set(&job->outcome.failure, "HF::Simulated", SIMULATED_REASON);
    return wants_failure ? HF_FAIL : HF_OK;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

struct simulation *simulation_create(const struct simulation_options *options)
{
    struct simulation *simulation = memory_new(struct simulation);
    simulation->options = *options;
    simulation->number = atomic_fetch_add(&simulations, 1) + 1;
    simulation->posts = memory_zeroed(options->ring_count + 1, sizeof simulation->posts[0]);
    for (unsigned i = 0; i < options->ring_count; i++)
        simulation->posts[i].ring = options->rings[i];
    return simulation;
}

void simulation_destroy(struct simulation *simulation)
{
    if (simulation == NULL)
        return;
    for (unsigned i = 0; i < simulation->options.ring_count; i++)
        buffer_fini(&simulation->posts[i].text);
    free(simulation->posts);
    free(simulation);
}

struct plugins *simulated_plugins(struct simulation *simulation, const struct plugins *real)
{
    struct plugins *plugins = plugins_create_built_in("dry-run", simulation);
    for (size_t i = 0; real != NULL && i < plugins_handler_count(real); i++) {
        struct plugin_handler handler = *plugins_handler_at(real, i);
        handler.run = run;
        handler.check = NULL; /* run asks */
        handler.program = NULL;
        handler.isolation = HF_ISOLATION_THREAD;
        handler.grace_ms = 0;
        plugins_add_built_in(plugins, &handler);
    }
    plugins_add_built_in(plugins, &(struct plugin_handler){.class_name = DRY_RUN_CLASS,
                                                           .about = "holds its lock, and does nothing",
                                                           .flags = HF_LOCK_REQUIRED,
                                                           .run = run,
                                                           .isolation = HF_ISOLATION_THREAD,
                                                           .origin = "dry-run"});
    return plugins;
}
