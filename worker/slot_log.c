/* What the log says of a slot's task: one line when it has ended (task_log.h says which), and at the level debug one
 * when it starts, which is all that is heard of it when its process is killed. On the loop. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "queue/class_names.h"
#include "worker/worker_state.h"

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
    if (locked->was_handed)
        pair_add(out, "handed_from", slot->heir_of);
    if (locked->left_at.us == 0)
        return;
    buffer_format(out, " released=%s held_ms=%.3f", log_time(locked->left_at, at), ms_of(slot->held_ns));
    if (locked->heir[0] != '\0')
        pair_add(out, "handed_to", locked->heir);
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

/* After the first task, so that the line tells of those that come with it; then one a class and minute. */
#define UNSERVED_FIRST_NS (1 * NS_PER_S)
#define UNSERVED_NEXT_NS  (60 * NS_PER_S)

struct unserved_log {
    struct class_names names;
    uint64_t tasks[CLASS_NAMES_MAX];
};

static void unserved_note(struct worker *worker, const char *class_name)
{
    if (worker->unserved == NULL)
        worker->unserved = memory_new(struct unserved_log);
    worker->unserved->tasks[class_names_number(&worker->unserved->names, class_name)]++;
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
                  log_value(log->names.texts[i], class_name), log->tasks[i]);
    }
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

/* --- the end ------------------------------------------------------------------------------------------------------ */

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

/* Parked tasks, those of a class that nobody serves and those that were given back unrun have not ended: they come
 * again. */
static enum log_level ending_level(const struct slot *slot, enum flow_ending ending)
{
    bool tells_all = slot->worker->options.config->worker.log_tasks == CONFIG_LOG_TASKS_ALL;
    switch (ending) {
    case FLOW_PARKED:
    case FLOW_UNKNOWN_CLASS:
        return tells_all ? LOG_INFO : LOG_DEBUG;
    case FLOW_GIVEN_BACK:
        return tells_all || has_run(slot) ? LOG_INFO : LOG_DEBUG;
    case FLOW_DONE:
    case FLOW_DISCARDED:
    case FLOW_SKIPPED:
    case FLOW_SNOOZED:
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

/* Since it was put into its queue, until it ran or until now; by the clocks of its producer and of this host. */
static void waited_add(struct buffer *out, const struct slot *slot, struct instant now)
{
    const struct envelope *envelope = &slot->envelope;
    int64_t since_us = envelope->enqueued_at.us != 0 ? envelope->enqueued_at.us : envelope->created_at.us;
    struct instant until = slot->abandoned ? slot->handed_over : slot->started ? slot->run_started : now;
    int64_t waited_ns = (wall_now().us - since_us) * NS_PER_US - instant_since(until, now);
    if (since_us != 0)
        buffer_format(out, " waited_ms=%.3f", ms_of(waited_ns > 0 ? waited_ns : 0));
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
    if (slot->fate != NULL)
        buffer_format(out, " fate=\"%s\"", slot->fate);
    if (reason[0] != '\0')
        pair_add(out, "reason", reason);
    if (has_more)
        resources_add(out, slot);
    log_event(level, "task_ended", "ending=%s%s", flow_ending_name(ending), buffer_text(out));
}

void slot_log_ended(struct slot *slot, enum flow_ending ending)
{
    struct worker *worker = slot->worker;
    if (slot->unserved_at.us != 0)
        unserved_note(worker, slot->envelope.class_name);
    struct task_log *log = &worker->task_log;
    enum log_level level = ending_level(slot, ending);
    struct instant now = instant_now(); /* even if nothing is logged: what a replay logs must not change its course */
    enum config_log_tasks mode = log_is_on(LOG_DEBUG) ? CONFIG_LOG_TASKS_ALL : worker->options.config->worker.log_tasks;
    if (!log_is_on(level))
        return;
    if (task_log_is_due(log, now))
        worker_log_sums(worker);
    if (task_log_wants(log, mode, ending, ran_ns(slot, now), now))
        ending_write(slot, level, ending, now);
    else if (task_log_has_sums(log) && !loop_timer_is_set(&worker->log_sums))
        loop_timer_set(worker->loop, &worker->log_sums, log->until);
    slot->was_told = true; /* its claim may be lost yet */
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
