#include "worker/supervisor/supervision.h"

#include "base/invariant.h"

static struct supervised *process_at(struct supervision *supervision, unsigned number)
{
    invariant(number < supervision->count);
    return &supervision->processes[number];
}

static unsigned count_in(const struct supervision *supervision, int state)
{
    unsigned count = 0;
    for (unsigned i = 0; i < supervision->count; i++)
        count += (int)supervision->processes[i].state == state;
    return count;
}

void supervision_begin(struct supervision *supervision, unsigned count, struct instant now)
{
    invariant(count >= 1 && count <= SUPERVISION_MAX);
    *supervision = (struct supervision){.count = count};
    for (unsigned i = 0; i < count; i++)
        supervision->processes[i] = (struct supervised){.state = SUPERVISED_DUE, .at = now};
}

static bool may_start(const struct supervision *supervision, unsigned number)
{
    return supervision->processes[number].state == SUPERVISED_DUE && (number == 0 || supervision->has_begun);
}

unsigned supervision_due(const struct supervision *supervision, struct instant now)
{
    unsigned number = 0;
    while (number < supervision->count &&
           !(may_start(supervision, number) && instant_reached(now, supervision->processes[number].at)))
        number++;
    return number;
}

struct instant supervision_next(const struct supervision *supervision)
{
    struct instant next = INSTANT_NEVER;
    for (unsigned i = 0; i < supervision->count; i++)
        if (may_start(supervision, i))
            next = instant_earlier(next, supervision->processes[i].at);
    return next;
}

void supervision_started(struct supervision *supervision, unsigned number, struct instant now)
{
    struct supervised *process = process_at(supervision, number);
    invariant(process->state == SUPERVISED_DUE && !supervision->is_ending);
    process->state = SUPERVISED_ALIVE;
    process->at = process->heard = now;
    process->heartbeats = 0;
}

void supervision_up(struct supervision *supervision, unsigned number)
{
    struct supervised *process = process_at(supervision, number);
    invariant(process->state == SUPERVISED_ALIVE);
    process->is_up = process->has_been_up = supervision->has_begun = true;
}

/* It may have stood still itself, with all the others. */
void supervision_look(struct supervision *supervision, struct instant now)
{
    bool was_away = instant_since(supervision->looked, now) > 3 * SUPERVISION_LOOK_NS;
    supervision->looked = now;
    for (unsigned i = 0; was_away && i < supervision->count; i++)
        supervision->processes[i].heard = now;
}

bool supervision_is_silent(struct supervision *supervision, unsigned number, uint64_t heartbeats, struct instant now)
{
    struct supervised *process = process_at(supervision, number);
    bool is_silent = heartbeats != 0 && heartbeats == process->heartbeats &&
                     instant_since(process->heard, now) >= SUPERVISION_SILENT_NS;
    if (heartbeats != process->heartbeats || heartbeats == 0 || is_silent) /* reported once as to be killed */
        process->heard = now;
    process->heartbeats = heartbeats;
    return is_silent;
}

static int64_t pause_after(const struct supervised *process, struct instant now)
{
    if (process->pause_ns == 0 || instant_since(process->at, now) >= SUPERVISION_PAUSE_MAX_NS)
        return SUPERVISION_PAUSE_MIN_NS;
    int64_t doubled = 2 * process->pause_ns;
    return doubled < SUPERVISION_PAUSE_MAX_NS ? doubled : SUPERVISION_PAUSE_MAX_NS;
}

enum supervision_verdict supervision_ended(struct supervision *supervision, unsigned number, int exit_code,
                                           struct instant now)
{
    struct supervised *process = process_at(supervision, number);
    invariant(process->state == SUPERVISED_ALIVE);
    process->is_up = false;
    if (exit_code != 0 && !supervision->is_ending && process->has_been_up) {
        process->pause_ns = pause_after(process, now);
        process->state = SUPERVISED_DUE;
        process->at = instant_after(now, process->pause_ns);
        return SUPERVISION_RESTART;
    }
    process->state = SUPERVISED_OVER;
    if (exit_code > supervision->exit_code)
        supervision->exit_code = exit_code;
    bool is_hopeless = exit_code != 0 && !supervision->is_ending;
    if (is_hopeless || !supervision->has_begun)
        supervision_end(supervision);
    return is_hopeless ? SUPERVISION_HOPELESS : SUPERVISION_OVER;
}

void supervision_end(struct supervision *supervision)
{
    supervision->is_ending = true;
    for (unsigned i = 0; i < supervision->count; i++)
        if (supervision->processes[i].state == SUPERVISED_DUE)
            supervision->processes[i].state = SUPERVISED_OVER;
}

unsigned supervision_alive(const struct supervision *supervision)
{
    return count_in(supervision, SUPERVISED_ALIVE);
}

bool supervision_awaits(const struct supervision *supervision)
{
    for (unsigned i = 0; i < supervision->count; i++)
        if (supervision->processes[i].state == SUPERVISED_ALIVE && !supervision->processes[i].is_up)
            return true;
    return false;
}

bool supervision_is_over(const struct supervision *supervision)
{
    return count_in(supervision, SUPERVISED_OVER) == supervision->count;
}
