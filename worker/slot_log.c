/* What is reported of a slot's task: lines of the log, commands of on_event, and what is counted and observed. On the
 * loop; nothing of it changes the task.
 *
 * The log has one line when a task has ended (task_log.h says which), and at the level debug one when it starts, which
 * is the only trace of it when its process is killed.
 *
 * The loop's own time is that of the beginning of its cycle, which may be a millisecond old by the time that an answer
 * is looked at: so an observer's times are read off the clock where it happens. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "worker/config/suggest.h"
#include "worker/events/ended_tasks.h"
#include "worker/events/event_commands.h"
#include "worker/worker_state.h"

/* --- what is observed --------------------------------------------------------------------------------------------- */

static bool is_observed(const struct slot *slot)
{
    return slot->worker->options.observer != NULL;
}

static struct instant observed_now(const struct slot *slot)
{
    return is_observed(slot) ? instant_now() : loop_now(slot->worker->loop);
}

void slot_observe_claim(struct slot *slot)
{
    slot->observed.claimed = observed_now(slot); /* the rest is zeroed since the task before left */
}

void slot_observe_asking(struct slot *slot)
{
    slot->observed.asked = observed_now(slot);
}

void slot_observe_answer(struct slot *slot, const struct redlock_event *event)
{
    struct observed_task *task = &slot->observed;
    if (event->answer != REDLOCK_ACQUIRED) {
        task->had_refusal = true;
        return;
    }
    task->locked = observed_now(slot);
    task->lock_took_ns = event->waited_ns;
    task->had_to_wait = event->attempts > 1 || slot->envelope.parked_at.us > 0;
    task->handed_over = event->handed_over;
}

void slot_observe_lost(struct slot *slot)
{
    slot->observed.was_lost = true;
}

void slot_observe_run(struct slot *slot, bool has_failed)
{
    slot->observed.shown_class = slot->envelope.class_name;
    slot->observed.has_failed = has_failed;
}

/* Since it was put into its queue, until it ran or until now; by the queue node's clock. -1: not known. */
static int64_t waited_ns(const struct slot *slot, struct instant now)
{
    const struct envelope *envelope = &slot->envelope;
    int64_t since_us = envelope->enqueued_at.us != 0 ? envelope->enqueued_at.us : envelope->created_at.us;
    struct instant until = slot->abandoned ? slot->handed_over : slot->started ? slot->run_started : now;
    int64_t waited_ns = (queue_now(slot->worker->queue).us - since_us) * NS_PER_US - instant_since(until, now);
    return since_us == 0 ? -1 : waited_ns > 0 ? waited_ns : 0;
}

/* A handler that was abandoned still runs, and its runner may be writing when it began. */
static void run_fill(const struct slot *slot, struct observed_task *task)
{
    if (slot->abandoned) {
        task->started = slot->handed_over;
        return;
    }
    if (!slot->started)
        return;
    task->started = slot->run_started;
    task->ended = slot->run_ended;
    task->was_lost = task->was_lost || slot->hold != FLOW_HELD;
}

/* What fails without retries is discarded, and is a failure all the same; a handler may also discard what it ran. */
static bool is_failure(const struct slot *slot, enum flow_ending ending)
{
    return ending == FLOW_FAILED || (ending == FLOW_DISCARDED && slot->outcome_reason != NULL);
}

/* A job that another library wrapped is known by its own class. */
static const char *shown_class(struct slot *slot)
{
    struct buffer *text = &slot->worker->text;
    struct text_span wrapped = envelope_member_value(&slot->envelope, "wrapped");
    if (wrapped.bytes == NULL)
        return slot->envelope.class_name;
    buffer_clear(text);
    bool is_text = json_string_read(wrapped, text) && text->length > 0;
    return is_text ? buffer_text(text) : slot->envelope.class_name;
}

static void observe_left(struct slot *slot, enum flow_ending ending, struct instant now)
{
    struct worker *worker = slot->worker;
    const struct worker_observer *observer = worker->options.observer;
    struct observed_task *task = &slot->observed;
    bool is_task = slot->invalid.text[0] == '\0';
    task->jid = slot->jid;
    task->class_name = is_task ? slot->envelope.class_name : "";
    task->shown_class = task->shown_class != NULL ? shown_class(slot) : NULL;
    task->queue = slot->queue;
    task->was_fenced_off = slot->was_refused;
    task->resources = slot->resources.names;
    task->resource_count = is_task ? slot->resources.count : 0;
    task->wants_lock = slot->waiting.resource_count > 0;
    task->ending = ending;
    task->is_failure = is_failure(slot, ending);
    task->lock_waited_ns = slot->locked.waited_ns;
    task->held_ns = slot->locked.left_at.us != 0 ? slot->held_ns : -1;
    task->left = now;
    run_fill(slot, task);
    bool is_asked = observer != NULL || worker->monitor != NULL;
    task->waited_ns = is_asked && is_task && task->started.ns != 0 ? waited_ns(slot, now) : -1;
    tally_task(worker->tally, task);
    if (observer != NULL && observer->task_left != NULL)
        observer->task_left(observer->context, task);
    *task = (struct observed_task){.jid = NULL};
}

/* --- on_event ----------------------------------------------------------------------------------------------------- */

/* The word of on_event.events, or NULL. Whatever a task was buried for, it is dead. */
static const char *name_of(enum flow_ending ending)
{
    switch (ending) {
    case FLOW_DEAD:
    case FLOW_REFUSED:
    case FLOW_INVALID:
    case FLOW_NO_RESOURCE:
        return "dead";
    case FLOW_SKIPPED:
        return "skipped";
    case FLOW_DROPPED:
        return "dropped";
    case FLOW_LOCK_LOST:
        return "lock_lost";
    case FLOW_FAILED:
        return "failed";
    case FLOW_EXPIRED:
        return "expired";
    default:
        return NULL;
    }
}

/* An abandoned handler may still be writing into the failure. */
static void event_tell(struct slot *slot, const char *name, enum flow_ending ending)
{
    if (!event_commands_want(slot->worker->event_commands, name))
        return;
    const struct failure *failure = &slot->job.outcome.failure;
    bool is_task = ending != FLOW_INVALID;
    const char *message = slot->abandoned ? "its handler was abandoned"
                          : is_task       ? failure->message
                                          : slot->invalid.text;
    event_commands_tell(slot->worker->event_commands,
                        &(struct event){
                            .name = name,
                            .jid = slot->jid,
                            .class_name = is_task ? slot->envelope.class_name : NULL,
                            .queue = slot->queue,
                            .resource = slot->waiting.resource_count > 0 ? slot->resources.names[0] : NULL,
                            .error_class = slot->abandoned ? NULL : failure->error_class,
                            .message = message,
                            .fence = slot->job.fence,
                            .at = wall_now(),
                        });
}

static void on_event_tell(struct slot *slot, enum flow_ending ending)
{
    const char *name = name_of(ending);
    if (name == NULL)
        return;
    event_tell(slot, name, ending);
    /* A lock that was held for too long is lost too, and so is that of a task that is buried for it. Whether an
     * abandoned run began, its runner writes. */
    if (!slot->abandoned && slot->started && slot->hold != FLOW_HELD && ending != FLOW_LOCK_LOST)
        event_tell(slot, "lock_lost", ending);
}

/* --- the log ------------------------------------------------------------------------------------------------------ */

static double ms_of(int64_t ns)
{
    return (double)ns / (double)NS_PER_MS;
}

static void pair_add(struct buffer *out, const char *key, const char *value)
{
    char quoted[LOG_QUOTE_MAX];
    buffer_format(out, " %s=%s", key, log_value(value, quoted));
}

/* Its lock as far as it has had one. */
static void lock_add(struct buffer *out, const struct slot *slot)
{
    char at[LOG_TIME_SIZE];
    const struct slot_locked *locked = &slot->locked;
    if (locked->at.us == 0)
        return;
    buffer_format(out, " fence=%s locked=%s lock_waited_ms=%.3f", slot->job.fence[0] != '\0' ? slot->job.fence : "-",
                  log_time(locked->at, at), ms_of(locked->waited_ns));
    if (locked->predecessor[0] != '\0')
        pair_add(out, "handed_from", locked->predecessor);
    if (locked->left_at.us == 0)
        return;
    buffer_format(out, " released=%s held_ms=%.3f", log_time(locked->left_at, at), ms_of(slot->held_ns));
    if (slot->left.after_ns > 0)
        buffer_format(out, " stays_ms=%.3f", ms_of(slot->left.after_ns));
}

/* All that it locks, or would lock. They come last: what is too long for a line is cut. */
static void resources_add(struct buffer *out, const struct slot *slot)
{
    bool locks = slot->resources.count > 0;
    const char *const *names = locks ? slot->resources.names : slot->envelope.resources;
    unsigned count = locks ? slot->resources.count : slot->envelope.resource_count;
    for (unsigned i = 0; i < count; i++)
        pair_add(out, "resource", names[i]);
}

static void line_begin(struct buffer *out, const struct slot *slot)
{
    bool is_task = slot->invalid.text[0] == '\0';
    buffer_clear(out);
    pair_add(out, "jid", slot->jid);
    pair_add(out, "class", is_task ? slot->envelope.class_name : NULL);
    pair_add(out, "queue", slot->queue);
    buffer_format(out, " slot=%u", slot->number);
}

void slot_log_started(struct slot *slot)
{
    struct buffer *out = &slot->worker->text;
    if (!log_is_on(LOG_DEBUG))
        return;
    line_begin(out, slot);
    lock_add(out, slot);
    resources_add(out, slot);
    log_event(LOG_DEBUG, "task_started", "%s", buffer_text(out) + 1);
}

/* --- classes that are not served ---------------------------------------------------------------------------------- */

/* After the first task, so that the line counts those that come with it; then one a class and minute. */
#define UNSERVED_FIRST_NS (1 * NS_PER_S)
#define UNSERVED_NEXT_NS  (60 * NS_PER_S)

struct unserved_log {
    struct name_set names;
    uint64_t tasks[NAME_SET_MAX];
};

static void unserved_note(struct worker *worker, const char *class_name)
{
    if (worker->unserved == NULL) {
        worker->unserved = memory_new(struct unserved_log);
        name_set_init(&worker->unserved->names, NAME_SET_MAX);
    }
    worker->unserved->tasks[name_set_add(&worker->unserved->names, class_name)]++;
    if (!loop_timer_is_set(&worker->log_unserved))
        loop_timer_set(worker->loop, &worker->log_unserved, loop_after(worker->loop, UNSERVED_FIRST_NS));
}

static bool unserved_tell(struct worker *worker)
{
    struct unserved_log *log = worker->unserved;
    bool is_any = false;
    char class_name[LOG_QUOTE_MAX];
    for (unsigned i = 0; log != NULL && i < log->names.count; i++) {
        if (log->tasks[i] == 0)
            continue;
        is_any = true;
        log_event(LOG_WARN, "class_unserved",
                  "class=%s tasks=%" PRIu64 " advice=\"no plugin of this worker serves it: a worker that does should "
                  "take its queue; holdfast status says whether there is one\"",
                  log_value(name_set_text(&log->names, i), class_name), log->tasks[i]);
    }
    if (log != NULL)
        name_set_fini(&log->names);
    free(log);
    worker->unserved = NULL;
    return is_any;
}

void worker_log_unserved(struct worker *worker)
{
    (void)unserved_tell(worker);
}

void worker_log_unserved_fire(struct loop_timer *timer)
{
    struct worker *worker = list_owner(timer, struct worker, log_unserved);
    if (unserved_tell(worker))
        loop_timer_set(worker->loop, timer, loop_after(worker->loop, UNSERVED_NEXT_NS));
}

/* --- tasks that lock nothing -------------------------------------------------------------------------------------- */

/* Somebody said so; else it is what the lock nodes make possible. */
static bool is_said_to_be_correct(const struct slot *slot)
{
    const struct config_class *entry = config_class_find(slot->worker->options.config, slot->envelope.class_name);
    return slot->handler->mode == HF_CORRECTNESS || (entry != NULL && entry->mode == CONFIG_MODE_CORRECTNESS);
}

/* The name of a member that was probably meant to be `resource`; "" = there is none. Each task asks, so only those with
 * its first letter are compared in full. */
static const char *misspelt_resource(const struct envelope *envelope, char name[SUGGEST_WORD_MAX])
{
    static const char right[] = "resource";
    const struct envelope_member *end = envelope->members + envelope->member_count;
    for (const struct envelope_member *at = envelope->members; at < end; at++) {
        const struct text_span *member = &at->name;
        if (member->length - (sizeof right - 3) > 4 || (member->bytes[0] | 0x20) != right[0])
            continue;
        snprintf(name, SUGGEST_WORD_MAX, "%.*s", (int)member->length, member->bytes);
        struct suggestion suggestion = suggestion_for(name);
        suggestion_offer(&suggestion, right);
        if (suggestion.best != NULL && strcmp(name, right) != 0)
            return name;
    }
    return "";
}

/* Its class locks what tasks name, and it names nothing: that may be meant, and is said once a class and reason. */
void slot_log_unlocked(struct slot *slot)
{
    struct worker *worker = slot->worker;
    char name[SUGGEST_WORD_MAX], jid[LOG_QUOTE_MAX], class_name[LOG_QUOTE_MAX], member[LOG_QUOTE_MAX];
    const char *misspelt = misspelt_resource(&slot->envelope, name);
    if (misspelt[0] == '\0' && (slot->rules.mode != CONFIG_MODE_CORRECTNESS || slot->rules.must_lock))
        return;
    struct name_set *told = misspelt[0] != '\0' ? &worker->told_misspelt : &worker->told_unlocked;
    unsigned before = told->count;
    (void)name_set_add(told, slot->envelope.class_name);
    if (told->count == before)
        return;
    log_value(slot->jid, jid);
    log_value(slot->envelope.class_name, class_name);
    if (misspelt[0] != '\0')
        log_event(
            LOG_WARN, "task_member_misspelt",
            "jid=%s class=%s member=%s advice=\"the task locks nothing: was resource meant? (told once a class)\"", jid,
            class_name, log_value(misspelt, member));
    else
        log_event(
            is_said_to_be_correct(slot) ? LOG_WARN : LOG_INFO, "task_unlocked",
            "jid=%s class=%s advice=\"its class has the mode correctness, and the task names no resource: it runs "
            "without a lock; lock = \\\"required\\\" would bury it (told once a class)\"",
            jid, class_name);
}

/* --- the end of a task -------------------------------------------------------------------------------------------- */

/* What runs on, abandoned, may be writing whether it has begun. */
static bool has_run(const struct slot *slot)
{
    return slot->abandoned || slot->started;
}

static int64_t ran_ns(const struct slot *slot, struct instant now)
{
    if (slot->abandoned)
        return instant_since(slot->handed_over, now);
    return slot->started ? instant_since(slot->run_started, slot->run_ended) : 0;
}

/* Its handler did not put it off: its process or program could not be started. */
static bool was_not_started(const struct slot *slot, enum flow_ending ending)
{
    return ending == FLOW_SNOOZED && strcmp(slot->job.outcome.failure.error_class, FAILURE_NOT_STARTED) == 0;
}

/* Parked tasks, those of a class that nobody serves and those that were given back unrun have not ended: they come
 * again. */
static enum log_level ending_level(const struct slot *slot, enum flow_ending ending)
{
    bool tells_all = slot->worker->options.config->worker.log_tasks == CONFIG_LOG_TASKS_ALL;
    switch (ending) {
    case FLOW_PARKED:
    case FLOW_PUT_OFF:
    case FLOW_UNKNOWN_CLASS:
        return tells_all ? LOG_INFO : LOG_DEBUG;
    case FLOW_GIVEN_BACK:
        return tells_all || has_run(slot) ? LOG_INFO : LOG_DEBUG;
    case FLOW_DISCARDED:
        return is_failure(slot, ending) ? LOG_WARN : LOG_INFO;
    case FLOW_SNOOZED:
        return was_not_started(slot, ending) ? LOG_WARN : LOG_INFO;
    case FLOW_DONE:
    case FLOW_SKIPPED:
    case FLOW_EXPIRED:
    case FLOW_CANCELLED:
        return LOG_INFO;
    default:
        return LOG_WARN;
    }
}

static const char *ending_reason(const struct slot *slot, enum flow_ending ending)
{
    if (slot->abandoned)
        return "its handler was abandoned"; /* and may be writing into the failure */
    return ending == FLOW_INVALID ? slot->invalid.text : slot->job.outcome.failure.message;
}

static void waited_add(struct buffer *out, const struct slot *slot, struct instant now)
{
    int64_t waited = waited_ns(slot, now);
    if (waited >= 0)
        buffer_format(out, " waited_ms=%.3f", ms_of(waited));
}

static void ending_write(const struct slot *slot, enum log_level level, enum flow_ending ending, struct instant now)
{
    struct buffer *out = &slot->worker->text;
    const char *reason = ending_reason(slot, ending);
    bool has_more = slot->invalid.text[0] == '\0' && !slot->was_told;
    line_begin(out, slot);
    if (has_more)
        waited_add(out, slot, now);
    if (has_more && has_run(slot))
        buffer_format(out, " ran_ms=%.3f", ms_of(ran_ns(slot, now)));
    if (has_more)
        lock_add(out, slot);
    if (has_more && !slot->abandoned && slot->started && slot->hold != FLOW_HELD)
        buffer_append_text(out, " lost=yes");
    if (has_more && slot->was_refused)
        buffer_append_text(out, " refused=yes");
    if (slot->outcome_reason != NULL)
        buffer_format(out, " fate=\"%s\"", slot->outcome_reason);
    if (reason[0] != '\0')
        pair_add(out, "reason", reason);
    if (has_more)
        resources_add(out, slot);
    log_event(level, "task_ended", "ending=%s%s", flow_ending_name(ending), buffer_text(out));
}

static void log_ended(struct slot *slot, enum flow_ending ending, struct instant now)
{
    struct worker *worker = slot->worker;
    if (slot->unserved_at.us != 0)
        unserved_note(worker, slot->envelope.class_name);
    struct task_log *log = &worker->task_log;
    enum log_level level = ending_level(slot, ending);
    enum config_log_tasks mode = log_is_on(LOG_DEBUG) ? CONFIG_LOG_TASKS_ALL : worker->options.config->worker.log_tasks;
    if (!log_is_on(level))
        return;
    if (task_log_is_due(log, now))
        worker_log_sums(worker);
    if (was_not_started(slot, ending) || task_log_wants(log, mode, ending, ran_ns(slot, now), now))
        ending_write(slot, level, ending, now);
    else if (task_log_has_sums(log) && !loop_timer_is_set(&worker->log_sums))
        loop_timer_set(worker->loop, &worker->log_sums, log->until);
    slot->was_told = true; /* its claim may be lost yet */
}

/* A slot may lose its claim at the queue node while it claims. It has no task then, and nothing has ended. */
void slot_ending_tell(struct slot *slot, enum flow_ending ending)
{
    if (ending == FLOW_CLAIM_LOST && slot->jid[0] == '\0')
        return;
    if (ending == FLOW_PARKED || ending == FLOW_PUT_OFF)
        slot->worker->claimed--; /* the flow does that to a task once for each claim, and each claim was counted */
    if (ending == FLOW_DONE || ending == FLOW_DISCARDED)
        ended_tasks_note(slot->worker->ended, slot->jid, loop_now(slot->worker->loop));
    on_event_tell(slot, ending);
    struct instant now = instant_now(); /* even if nothing is logged: what a replay logs must not change its course */
    observe_left(slot, ending, now);
    log_ended(slot, ending, now);
}

/* --- sums --------------------------------------------------------------------------------------------------------- */

void worker_log_sums(struct worker *worker)
{
    char since[LOG_TIME_SIZE], until[LOG_TIME_SIZE];
    struct instant now = loop_now(worker->loop), end = worker->task_log.until;
    if (!task_log_has_sums(&worker->task_log))
        return;
    struct task_sums sums = task_log_take(&worker->task_log);
    struct wall_time wall = wall_now();
    int64_t ago_us = instant_since(end, now) / NS_PER_US; /* below zero when the process ends before */
    log_event(LOG_INFO, "tasks_summed",
              "done=%" PRIu64 " skipped=%" PRIu64 " snoozed=%" PRIu64 " ran_ms=%.3f since=%s until=%s", sums.done,
              sums.skipped, sums.snoozed, ms_of(sums.ran_ns),
              log_time((struct wall_time){wall.us - ago_us - US_PER_S}, since),
              log_time(ago_us > 0 ? (struct wall_time){wall.us - ago_us} : wall, until));
}

void worker_log_sums_fire(struct loop_timer *timer)
{
    worker_log_sums(list_owner(timer, struct worker, log_sums));
}
