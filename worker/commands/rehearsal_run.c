/* The run of a rehearsal: the loop, the pretended lock, and being asked to stop.
 *
 * A handler in a thread is asked to stop and waited for, for ever: a second interrupt ends this process. One in a
 * process or a program is killed by the zygote as a worker's would be: when its lock is lost, when its grace is over,
 * and at the second interrupt. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/quantity.h"
#include "worker/commands/rehearsal.h"
#include "worker/crash_note.h"

enum { EXIT_INTERRUPTED = 130 };

/* --- the lock ----------------------------------------------------------------------------------------------------- */

static void lock_tell(struct rehearsal *rehearsal, const struct pretended_view *view, struct instant now)
{
    bool in_danger = instant_reached(now, view->danger_from);
    if (view->lost == HF_NOT_CANCELLED && in_danger && !rehearsal->was_in_danger)
        rehearsal_say(rehearsal, "lock", "in danger");
    rehearsal->was_in_danger = in_danger;
    if (view->lost != HF_NOT_CANCELLED && !rehearsal->was_lost)
        rehearsal_say(rehearsal, "lock", "lost%s",
                      view->lost == HF_HELD_TOO_LONG ? ": it was held for as long as its class may" : "");
}

/* The end comes by the words alone, and is told afterwards, as with a real lock. */
static void lock_show(struct rehearsal *rehearsal)
{
    struct hf_job *job = &rehearsal->job;
    struct instant now = instant_now();
    struct pretended_view view = pretended_lock_at(&rehearsal->lock, now);
    bool was_in_danger = rehearsal->was_in_danger;
    atomic_store(&job->berth->validity.danger_from, view.danger_from.ns);
    atomic_store(&job->berth->validity.until, view.until.ns);
    lock_tell(rehearsal, &view, now);
    if (view.lost != HF_NOT_CANCELLED && !rehearsal->was_lost) {
        rehearsal->was_lost = true;
        job_lock_lost(job, view.lost);
        (void)eventfd_write(rehearsal->loss_event, 1);
        if (rehearsal->pool != NULL)
            rehearsal_say(rehearsal, "wait", "for the handler to return");
    }
    if (rehearsal->isolation != NULL && rehearsal->was_in_danger && !was_in_danger)
        isolation_interrupt(rehearsal->isolation, &rehearsal->away);
    if (view.next.ns != INSTANT_NEVER.ns)
        loop_timer_set(rehearsal->loop, &rehearsal->lock_timer, view.next);
}

static void lock_timer_fired(struct loop_timer *timer)
{
    lock_show(list_owner(timer, struct rehearsal, lock_timer));
}

static void lock_tell_names(struct rehearsal *rehearsal)
{
    struct buffer names = {0};
    for (unsigned i = 0; i < rehearsal->job.resource_count; i++)
        buffer_format(&names, "%s%s", i > 0 ? ", " : "", rehearsal->job.resources[i]);
    rehearsal_say(rehearsal, "lock", "held on %s%s%s", buffer_text(&names),
                  rehearsal->job.fence[0] != '\0' ? ", its token is " : "", rehearsal->job.fence);
    buffer_fini(&names);
}

/* An hour, when a debugger may stop this process for as long as its user thinks. */
static bool lock_begin(struct rehearsal *rehearsal)
{
    int64_t ttl_ns = rehearsal->pool != NULL ? 3600 * NS_PER_S : rehearsal->config->lock.ttl_ns;
    rehearsal->lock = (struct pretended_lock){.taken = instant_now(),
                                              .danger_after_ns = rehearsal->wish.danger_after_ns,
                                              .lose_after_ns = rehearsal->wish.lose_after_ns,
                                              .max_hold_ns = rehearsal->rules.max_hold_ns,
                                              .ttl_ns = ttl_ns};
    rehearsal->loss_event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (rehearsal->loss_event < 0) {
        rehearsal_complain("no descriptor for the lock: %s", strerror(errno));
        return false;
    }
    if (rehearsal->rules.max_hold_ns > 0)
        atomic_store(&rehearsal->job.berth->hold_until,
                     instant_after(rehearsal->lock.taken, rehearsal->rules.max_hold_ns).ns);
    lock_tell_names(rehearsal);
    lock_show(rehearsal);
    return true;
}

/* --- being asked to stop ------------------------------------------------------------------------------------------ */

static void kill_by(struct rehearsal *rehearsal, struct instant at)
{
    if (rehearsal->isolation != NULL && berth_kill_by(rehearsal->board, rehearsal->job.berth, at))
        launcher_ring(rehearsal->launcher);
}

static void stop_ask(struct rehearsal *rehearsal, enum hf_cancel_reason reason, const char *why)
{
    rehearsal_say(rehearsal, "cancel", "%s", why);
    job_cancel(&rehearsal->job, reason);
    if (rehearsal->isolation != NULL)
        isolation_interrupt(rehearsal->isolation, &rehearsal->away);
    kill_by(rehearsal, loop_after(rehearsal->loop, rehearsal->rules.grace_ns));
}

static void cancel_fired(struct loop_timer *timer)
{
    stop_ask(list_owner(timer, struct rehearsal, cancel), HF_USER, "asked to stop: the task is cancelled");
}

static void timeout_fired(struct loop_timer *timer)
{
    struct rehearsal *rehearsal = list_owner(timer, struct rehearsal, timeout);
    char text[64], duration[QUANTITY_TEXT_MAX];
    snprintf(text, sizeof text, "asked to stop: it took longer than %s",
             duration_print(rehearsal->rules.timeout_ns, duration));
    stop_ask(rehearsal, HF_TIMEOUT, text);
}

static void interrupted(void *context, int number)
{
    struct rehearsal *rehearsal = context;
    (void)number;
    if (rehearsal->interrupts++ == 0) {
        stop_ask(rehearsal, HF_USER, "asked to stop: interrupted (once more kills it)");
        return;
    }
    rehearsal_say(rehearsal, "cancel", "killed");
    kill_by(rehearsal, instant_now());
    if (rehearsal->isolation == NULL)
        _exit(EXIT_INTERRUPTED); /* the handler still runs: nothing of it may be torn down */
}

static void times_begin(struct rehearsal *rehearsal)
{
    struct loop *loop = rehearsal->loop;
    int64_t timeout_ns = rehearsal->rules.timeout_ns;
    if (rehearsal->wish.cancel_after_ns >= 0)
        loop_timer_set(loop, &rehearsal->cancel, loop_after(loop, rehearsal->wish.cancel_after_ns));
    if (timeout_ns == 0)
        return;
    loop_timer_set(loop, &rehearsal->timeout, loop_after(loop, timeout_ns));
    kill_by(rehearsal, loop_after(loop, timeout_ns + rehearsal->rules.grace_ns));
}

/* --- in a thread -------------------------------------------------------------------------------------------------- */

/* The handler's own opinion of the arguments, if it has one. */
static bool arguments_pass(struct rehearsal *rehearsal)
{
    char reason[256] = "";
    const struct hf_job *job = &rehearsal->job;
    const struct plugin_handler *handler = rehearsal->handler;
    if (handler->check == NULL || handler->check(job->args.bytes, job->args.length, reason, sizeof reason))
        return true;
    reason[sizeof reason - 1] = '\0';
    failure_set(&rehearsal->job.outcome.failure, "HF::BadArguments", "%s", reason);
    return false;
}

/* On the handler's thread. */
static void thread_run(struct work *work)
{
    struct rehearsal *rehearsal = list_owner(work, struct rehearsal, work);
    const struct plugin_handler *handler = rehearsal->handler;
    rehearsal->began = instant_now();
    rehearsal->started = job_lock_is_valid(&rehearsal->job);
    if (!rehearsal->started)
        return;
    crash_note_run_begin(0);
    rehearsal->code =
        arguments_pass(rehearsal) ? handler->run(&rehearsal->job, plugin_handler_state(handler)) : HF_BURY;
    crash_note_run_end();
}

/* A run that was put off before it began could not be begun here, and the log says why. */
static void run_ended(struct rehearsal *rehearsal)
{
    bool has_begun = rehearsal->began.ns != 0;
    if (has_begun)
        rehearsal->took_ns = instant_since(rehearsal->began, instant_now());
    if (has_begun || rehearsal->code != HF_SNOOZE)
        rehearsal_judge(rehearsal);
    loop_stop(rehearsal->loop);
}

static void thread_ran(struct loop_message *message)
{
    run_ended(list_owner(message, struct rehearsal, work.done));
}

static bool thread_begin(struct rehearsal *rehearsal, struct error *error)
{
    rehearsal->pool = runner_pool_create(rehearsal->loop, 1, error);
    if (rehearsal->pool == NULL)
        return false;
    rehearsal->work = (struct work){.done.deliver = thread_ran, .run = thread_run};
    list_init(&rehearsal->work.link);
    return true;
}

/* --- in a process ------------------------------------------------------------------------------------------------- */

static void away_began(struct isolated_run *run)
{
    struct rehearsal *rehearsal = list_owner(run, struct rehearsal, away);
    rehearsal->began = instant_now();
    times_begin(rehearsal);
}

static void away_ended(struct isolated_run *run, int code)
{
    struct rehearsal *rehearsal = list_owner(run, struct rehearsal, away);
    rehearsal->started = code != ISOLATION_NOT_STARTED;
    rehearsal->code = code;
    run_ended(rehearsal);
}

static void zygote_lost(void *context)
{
    (void)context;
    rehearsal_complain("the process that runs the handler's processes has ended");
    crash_notes_end();
    exit(EXIT_FAILURE);
}

static void away_begin(struct rehearsal *rehearsal)
{
    struct loop *loop = rehearsal->loop;
    rehearsal->launcher = launcher_create(loop, &rehearsal->zygote, rehearsal->board, zygote_lost, rehearsal);
    rehearsal->isolation = isolation_create(&(struct isolation_options){
        .loop = loop, .launcher = rehearsal->launcher, .board = rehearsal->board, .config = rehearsal->config});
    rehearsal->away = (struct isolated_run){.job = &rehearsal->job,
                                            .berth = rehearsal->job.berth,
                                            .handler = rehearsal->handler,
                                            .rules = &rehearsal->rules,
                                            .began = away_began,
                                            .ended = away_ended};
    list_init(&rehearsal->away.link);
    atomic_store(&rehearsal->job.berth->is_locked, rehearsal->is_locked);
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

static void start(struct rehearsal *rehearsal)
{
    berth_open(rehearsal->job.berth, rehearsal->job.jid, rehearsal->job.class_name);
    if (rehearsal->isolation != NULL) {
        isolation_start(rehearsal->isolation, &rehearsal->away);
        return;
    }
    times_begin(rehearsal);
    runner_pool_submit(rehearsal->pool, &rehearsal->work);
}

static bool parts_make(struct rehearsal *rehearsal)
{
    struct error error = ERROR_NONE;
    loop_timer_init(&rehearsal->lock_timer, lock_timer_fired);
    loop_timer_init(&rehearsal->timeout, timeout_fired);
    loop_timer_init(&rehearsal->cancel, cancel_fired);
    rehearsal->loop = loop_create(&error);
    if (rehearsal->loop == NULL ||
        (rehearsal->rules.isolation == CONFIG_ISOLATION_THREAD && !thread_begin(rehearsal, &error))) {
        rehearsal_complain("%s", error.text);
        return false;
    }
    if (rehearsal->rules.isolation != CONFIG_ISOLATION_THREAD)
        away_begin(rehearsal);
    rehearsal->interrupt = loop_signal_start(rehearsal->loop, SIGINT, interrupted, rehearsal);
    return true;
}

static void parts_free(struct rehearsal *rehearsal)
{
    if (rehearsal->loop == NULL)
        return;
    if (rehearsal->pool != NULL)
        runner_pool_destroy(rehearsal->pool);
    isolation_destroy(rehearsal->isolation);
    if (rehearsal->launcher != NULL)
        launcher_destroy(rehearsal->launcher);
    loop_timer_clear(rehearsal->loop, &rehearsal->lock_timer);
    loop_timer_clear(rehearsal->loop, &rehearsal->timeout);
    loop_timer_clear(rehearsal->loop, &rehearsal->cancel);
    if (rehearsal->interrupt != NULL)
        loop_signal_stop(rehearsal->interrupt);
    loop_destroy(rehearsal->loop);
    if (rehearsal->loss_event >= 0)
        close(rehearsal->loss_event);
    rehearsal->loss_event = -1;
}

bool rehearsal_run(struct rehearsal *rehearsal)
{
    bool is_ready = parts_make(rehearsal) && (!rehearsal->is_locked || lock_begin(rehearsal));
    if (is_ready) {
        start(rehearsal);
        loop_run(rehearsal->loop);
    }
    parts_free(rehearsal);
    return is_ready && rehearsal->ending != REHEARSAL_UNKNOWN;
}
