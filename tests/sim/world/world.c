#include "tests/sim/world/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/invariant.h"
#include "base/memory.h"

#define WORLD_BEGIN_NS  (1000 * NS_PER_S)
#define WALL_BEGIN_NS   (INT64_C(1700000000) * NS_PER_S)
#define CLOCKS_APART_NS (200 * NS_PER_MS)
#define PPB             INT64_C(1000000000)

static struct {
    struct heap events;
    struct instant now;
    struct chance chance;
    struct process *current;
    unsigned hosts, pids;
    int64_t apart_ns;
    bool is_stopped, is_told;
} world;

/* --- time --------------------------------------------------------------------------------------------------------- */

void world_begin(uint64_t seed)
{
    heap_fini(&world.events); /* of a world before */
    memset(&world, 0, sizeof world);
    world.chance = (struct chance){.state = chance_mix(seed + 1)};
    world.now = (struct instant){WORLD_BEGIN_NS};
    world.pids = 1000;
    world.apart_ns = CLOCKS_APART_NS;
}

struct instant world_time(void)
{
    return world.current == NULL ? world.now : instant_after(world.now, world.current->ahead_ns);
}

struct chance *world_chance(void)
{
    return &world.chance;
}

void world_at(struct world_event *event, struct instant at)
{
    heap_set(&world.events, &event->item, instant_before(at, world.now) ? world.now : at);
    (void)world_owns(world.events.slots);
}

void world_cancel(struct world_event *event)
{
    heap_remove(&world.events, &event->item);
}

void world_run(struct instant end)
{
    struct heap_item *first;
    world.is_stopped = false;
    while (!world.is_stopped && (first = heap_first(&world.events)) != NULL && !instant_before(end, first->at)) {
        world.now = first->at;
        heap_remove(&world.events, first);
        struct world_event *event = list_owner(first, struct world_event, item);
        event->fire(event);
    }
    if (!world.is_stopped && instant_before(world.now, end))
        world.now = end;
}

void world_stop(void)
{
    world.is_stopped = true;
}

void world_tell_to_stderr(bool is_wanted)
{
    world.is_told = is_wanted;
}

bool world_is_told(void)
{
    return world.is_told;
}

void world_tell(const char *format, ...)
{
    if (!world.is_told)
        return;
    va_list values;
    va_start(values, format);
    fprintf(stderr, "%13.6f %-12s ", (double)(world_time().ns - WORLD_BEGIN_NS) / 1e9,
            world.current != NULL ? world.current->name : "-");
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    va_end(values);
}

/* --- hosts -------------------------------------------------------------------------------------------------------- */

struct host *host_create(const char *name)
{
    struct host *host = memory_new(struct host);
    host->number = ++world.hosts;
    snprintf(host->name, sizeof host->name, "%s", name);
    host->since = world.now;
    host->boot_ns = chance_between(&world.chance, NS_PER_S, 1000000 * NS_PER_S);
    host->wall_ns =
        WALL_BEGIN_NS + world.now.ns - WORLD_BEGIN_NS + chance_between(&world.chance, -world.apart_ns, world.apart_ns);
    list_init(&host->processes);
    return host;
}

void hosts_set_apart(int64_t ns)
{
    world.apart_ns = ns;
}

static int64_t elapsed_ns(const struct host *host, struct instant truth)
{
    int64_t ns = instant_since(host->since, truth);
    return ns + (int64_t)((__int128)ns * host->rate_ppb / PPB);
}

struct instant host_boot(const struct host *host, struct instant truth)
{
    return (struct instant){host->boot_ns + elapsed_ns(host, truth)};
}

struct wall_time host_wall(const struct host *host, struct instant truth)
{
    return (struct wall_time){(host->wall_ns + elapsed_ns(host, truth)) / NS_PER_US};
}

struct instant host_truth(const struct host *host, struct instant boot)
{
    if (boot.ns == INT64_MAX)
        return INSTANT_NEVER;
    int64_t ns = boot.ns - host->boot_ns;
    int64_t true_ns = (int64_t)((__int128)ns * PPB / (PPB + host->rate_ppb));
    /* not before the clock shows it */
    while (instant_before(host_boot(host, instant_after(host->since, true_ns)), boot))
        true_ns++;
    return instant_after(host->since, true_ns);
}

static void host_begin_again(struct host *host)
{
    int64_t ns = elapsed_ns(host, world.now);
    host->boot_ns += ns;
    host->wall_ns += ns;
    host->since = world.now;
}

void host_set_rate(struct host *host, int64_t rate_ppb)
{
    host_begin_again(host);
    host->rate_ppb = rate_ppb;
    for (struct list *link = host->processes.next; link != &host->processes; link = link->next)
        threads_look(list_owner(link, struct process, link));
}

void host_step_wall(struct host *host, int64_t ns)
{
    host_begin_again(host);
    host->wall_ns += ns;
}

void host_stood(struct host *host, int64_t ns)
{
    int64_t shown_ns = ns + (int64_t)((__int128)ns * host->rate_ppb / PPB); /* that its clocks have not gone on by */
    host_begin_again(host);
    host->boot_ns -= shown_ns;
    host->wall_ns -= shown_ns;
    host->stood_ns += ns;
}

/* --- processes ---------------------------------------------------------------------------------------------------- */

struct process *process_current(void)
{
    return world.current;
}

struct process *process_lend(struct process *process)
{
    struct process *before = world.current;
    if (before != NULL && process != NULL && process != before)
        process->ahead_ns = before->ahead_ns;
    world.current = process;
    return before;
}

void process_enter(struct process *process)
{
    process->ahead_ns = 0;
    world.current = process;
}

void process_leave(struct process *process)
{
    process->free_at = instant_after(world.now, process->ahead_ns);
    world.current = NULL;
}

void process_look(struct process *process)
{
    process->ahead_ns += CLOCK_LOOK_NS;
    if (process->stall_after > 0 && --process->stall_after == 0)
        process->ahead_ns += process->stall_ns;
}

struct process *process_start(struct host *host, const char *name, void (*main)(void *argument), void *argument)
{
    struct process *process = world_owns(memory_new(struct process));
    process->host = host;
    process->pid = (pid_t)++world.pids;
    process->is_alive = true;
    process->chance = (struct chance){.state = chance_next(&world.chance)};
    process->free_at = world.now;
    snprintf(process->name, sizeof process->name, "%s", name);
    list_init(&process->link);
    list_init(&process->threads);
    list_init(&process->sockets);
    list_init(&process->blocks);
    list_append(&host->processes, &process->link);
    thread_start(process, main, argument);
    return process;
}

void process_kill(struct process *process, bool is_silent)
{
    if (!process->is_alive)
        return;
    process->is_alive = false;
    list_remove(&process->link);
    sockets_end(process, is_silent);
    if (process->ended != NULL)
        process->ended(process);
    threads_end(process); /* last: a process that kills itself does not come back from here */
}

void process_pause(struct process *process)
{
    process->is_paused = true;
}

void process_resume(struct process *process)
{
    if (!process->is_paused)
        return;
    process->is_paused = false;
    threads_look(process);
}

void process_stall(struct process *process, unsigned looks, int64_t ns)
{
    process->stall_after = looks;
    process->stall_ns = ns;
}
