/* Processes, their clocks, and the queues that they serve or do not serve. */
#include "worker/commands/doctor.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "worker/print/human.h"

#define CLOCK_AHEAD_US (2 * US_PER_S)
#define BEAT_LATE_US   (45 * US_PER_S) /* a heartbeat comes every few seconds, and is kept for 60 s */

static const struct doctor_kind foreign_on_our_queues = {
    "foreign-worker-on-our-queues", DOCTOR_ERROR,
    "It takes tasks for which it has no handler, and loses what it was running when it dies.",
    "Give the two programs queues of their own names, or databases of their own."};
static const struct doctor_kind foreign_worker = {
    "foreign-worker", DOCTOR_WARNING,
    "Its scheduler moves due tasks of `schedule` and `retry` in two steps and loses one when it dies in between; some "
    "(sidekiq-rs, sidekiq.cr) drop members that they do not know.",
    "Give it a database of its own."};
static const struct doctor_kind clock_here = {
    "clock-offset", DOCTOR_WARNING,
    "Times in tasks and on dashboards are wrong by as much; scheduled tasks come early or late.",
    "Synchronise the clocks of both machines (NTP)."};
static const struct doctor_kind clock_process = {"clock-offset-of-process", DOCTOR_WARNING,
                                                 "Times that this process writes into tasks are wrong by as much.",
                                                 "Synchronise the clock of its host (NTP)."};
static const struct doctor_kind beat_late = {
    "heartbeat-late", DOCTOR_WARNING,
    "Its lease runs, but what dashboards show of it is old: its clock is behind, or it is overloaded.",
    "Look at the clock and the load of its host."};
static const struct doctor_kind queue_paused = {"queue-paused", DOCTOR_NOTE,
                                                "No worker claims from it until it is resumed.",
                                                "`holdfast resume NAME` when that is not meant."};
static const struct doctor_kind fleet_cut = {"fleet-cut", DOCTOR_NOTE,
                                             "Only the first ten thousand processes were looked at.",
                                             "Remove what foreign workers left in `processes`."};

static bool is_ours(const struct doctor *doctor, const char *queue)
{
    const struct config_worker *worker = &doctor->console->config->worker;
    for (size_t i = 0; i < worker->queues.count; i++)
        if (strcmp(worker->queues.items[i], queue) == 0)
            return true;
    for (size_t i = 0; i < doctor->status.fleet.count; i++) {
        const struct fleet_process *process = &doctor->status.fleet.items[i];
        if (process->state == FLEET_ALIVE && fleet_process_serves(process, queue))
            return true;
    }
    return false;
}

/* The queue of this process that is ours too, or NULL. */
static const char *shared_queue(const struct doctor *doctor, const struct fleet_process *process)
{
    for (size_t i = 0; i < process->info.queue_count; i++)
        if (is_ours(doctor, process->info.queues[i]))
            return process->info.queues[i];
    return NULL;
}

/* One finding for all of them, with the first as the example: a foreign fleet has hundreds, and the remedy is one. */
static void examine_foreign(struct doctor *doctor, bool on_our_queues)
{
    const struct fleet *fleet = &doctor->status.fleet;
    const struct fleet_process *first = NULL;
    char quoted[LOG_QUOTE_MAX], version[LOG_QUOTE_MAX], queue[LOG_QUOTE_MAX], others[64] = "";
    size_t count = 0;
    for (size_t i = 0; i < fleet->count; i++) {
        const struct fleet_process *process = &fleet->items[i];
        if (process->state != FLEET_FOREIGN || (on_our_queues && shared_queue(doctor, process) == NULL))
            continue;
        first = first != NULL ? first : process;
        count++;
    }
    if (first == NULL)
        return;
    if (count > 1)
        snprintf(others, sizeof others, ", and so %s %zu more", on_our_queues ? "do" : "are", count - 1);
    log_quote(first->identity, quoted);
    log_quote(first->info.version, version);
    if (on_our_queues)
        doctor_find(doctor, &foreign_on_our_queues, "%s (version %s) serves the queue %s, which is ours%s", quoted,
                    version, log_quote(shared_queue(doctor, first), queue), others);
    else
        doctor_find(doctor, &foreign_worker, "%s (version %s) is a worker of another program%s", quoted, version,
                    others);
}

static void examine_clock(struct doctor *doctor, const struct fleet_process *process)
{
    char quoted[LOG_QUOTE_MAX], human[HUMAN_TEXT_MAX];
    int64_t age = doctor->console->now.us - process->beat.us;
    if (process->beat.us == 0 || process->state != FLEET_ALIVE)
        return;
    if (age < -CLOCK_AHEAD_US)
        doctor_find(doctor, &clock_process, "the clock of %s is ahead of the queue node's by %s",
                    log_quote(process->identity, quoted), human_span(-age, human));
    else if (age > BEAT_LATE_US)
        doctor_find(doctor, &beat_late, "the last heartbeat of %s is %s old", log_quote(process->identity, quoted),
                    human_span(age, human));
}

static void examine_processes(struct doctor *doctor)
{
    const struct fleet *fleet = &doctor->status.fleet;
    for (size_t i = 0; i < fleet->count; i++)
        examine_clock(doctor, &fleet->items[i]);
    examine_foreign(doctor, true);
    examine_foreign(doctor, false);
    if (fleet->is_cut)
        doctor_find(doctor, &fleet_cut, "there are more than %d processes", FLEET_MAX);
}

static void examine_own_clock(struct doctor *doctor)
{
    const struct console *console = doctor->console;
    char human[HUMAN_TEXT_MAX];
    int64_t apart = console->here.us - console->now.us;
    int64_t certain = (apart < 0 ? -apart : apart) - console->round_trip_us;
    if (certain > US_PER_S)
        doctor_find(doctor, &clock_here, "the clock of this machine is %s the queue node's by %s",
                    apart > 0 ? "ahead of" : "behind", human_span(certain, human));
}

static void examine_queues(struct doctor *doctor)
{
    for (size_t i = 0; i < doctor->status.backlog.count; i++) {
        const struct backlog_queue *queue = &doctor->status.backlog.items[i];
        char quoted[LOG_QUOTE_MAX];
        log_quote(queue->name, quoted);
        if (queue->is_paused)
            doctor_find(doctor, &queue_paused, "the queue %s is paused", quoted);
    }
}

int doctor_examine_fleet(struct doctor *doctor)
{
    examine_own_clock(doctor);
    examine_processes(doctor);
    examine_queues(doctor);
    return EXIT_CODE_OK;
}
