#include "worker/commands/task_why.h"

#include <stdlib.h>
#include <string.h>

#include "base/histogram.h"
#include "base/log.h"
#include "base/real.h"
#include "queue/task_result.h"
#include "worker/commands/process_info.h"
#include "worker/events/tally.h"
#include "worker/locks/resource_template.h"

/* So many entries of a state are looked at for a second task with the jid, and so many waiters before it. */
enum { TWINS_LOOKED_AT = 1000, WAITERS_LOOKED_AT = 128 };

/* --- who could run it --------------------------------------------------------------------------------------------- */

/* One that has just got its lease does not say yet which queues are its. */
static bool may_serve_queue(const struct fleet_process *process, const char *queue)
{
    return fleet_process_serves(process, queue) || (process->state == FLEET_ALIVE && process->info.queue_count == 0);
}

/* Workers of other programs do not say which classes they serve. What is no task has none, and any worker takes it. */
static bool may_serve_class(const struct fleet_process *process, const char *class_name)
{
    return process->classes == NULL || class_name == NULL ||
           terms_lists(process->classes, (struct text_span){class_name, strlen(class_name)});
}

static bool is_allowed(const struct fleet_process *process, const struct task_facts *facts, const char *item)
{
    struct text_span locks = {TERMS_OF_LOCKS, strlen(TERMS_OF_LOCKS)}, of_class = {item, strlen(item)};
    return !terms_lists(process->waits, of_class) && !(facts->locks && terms_lists(process->waits, locks));
}

static void terms_note(void *context, const struct terms_difference *difference)
{
    struct buffer *terms = context;
    if (difference->breaks && terms->length == 0)
        buffer_append_text(terms, difference->sentence);
}

/* Once its claims are recovered, only its last heartbeat is left, for a minute. */
static void dead_note(struct task_facts *facts, const struct fleet_process *process)
{
    struct wall_time end = process->state == FLEET_LOST ? process->lease_end : (struct wall_time){0};
    struct wall_time last = {end.us != 0 ? end.us : process->beat.us};
    struct wall_time former = facts->workers.dead_lease_end;
    if (former.us == 0)
        former = facts->workers.dead_beat;
    if (!fleet_process_names(process, facts->queue) || (facts->workers.dead != NULL && last.us <= former.us))
        return;
    facts->workers.dead = process->identity;
    facts->workers.dead_lease_end = end;
    facts->workers.dead_beat = process->beat;
}

static void worker_count(struct task_facts *facts, const struct fleet_process *process, const char *item)
{
    bool is_able = may_serve_class(process, facts->class_name);
    facts->workers.living++;
    if (!may_serve_queue(process, facts->queue)) {
        if (is_able && process->classes != NULL)
            facts->workers.elsewhere = process->identity;
        return;
    }
    facts->workers.of_queue++;
    if (process->is_quiet) {
        facts->workers.quiet = process->identity;
        return;
    }
    facts->workers.awake++;
    facts->workers.able += is_able;
    if (!is_able || !is_allowed(process, facts, item))
        return;
    facts->workers.allowed++;
    facts->workers.threads += process->concurrency;
    facts->workers.busy += process->busy;
    if (facts->workers.beat.us < process->beat.us)
        facts->workers.beat = process->beat;
}

static void workers_read(struct task_why *why)
{
    struct task_facts *facts = &why->facts;
    struct buffer item = {0};
    if (why->fleet.count == 0 || why->console->now.us != why->fleet_at.us) {
        fleet_free(&why->fleet);
        fleet_read(&why->fleet, why->console);
        why->fleet_at = why->console->now;
    }
    buffer_format(&item, "%s%s", TERMS_OF_CLASS, facts->class_name != NULL ? facts->class_name : "");
    for (size_t i = 0; i < why->fleet.count; i++) {
        const struct fleet_process *process = &why->fleet.items[i];
        if (process->state == FLEET_ALIVE || process->state == FLEET_FOREIGN)
            worker_count(facts, process, buffer_text(&item));
        else if (process->state == FLEET_LOST || process->state == FLEET_RECOVERED)
            dead_note(facts, process);
    }
    buffer_fini(&item);
    buffer_clear(&why->terms);
    if (facts->workers.able > facts->workers.allowed)
        fleet_compare_terms(&why->fleet, NULL, terms_note, &why->terms);
    if (why->terms.length == 0)
        buffer_append_text(&why->terms, "it waits until processes with other terms have ended");
    facts->workers.terms = log_defuse((char *)buffer_text(&why->terms));
}

/* --- the task ----------------------------------------------------------------------------------------------------- */

static void needs_clear(struct task_why *why)
{
    for (unsigned i = 0; i < why->need_count; i++)
        buffer_fini(&why->needs[i]);
    why->need_count = 0;
}

static void list_take(struct task_facts *facts, const char *name)
{
    static const struct {
        const char *prefix;
        enum task_list list;
    } lists[] = {{"resource:", TASK_LIST_RESOURCE}, {"seats:", TASK_LIST_SEATS}, {"class:", TASK_LIST_CLASS}};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        if (strncmp(name, lists[i].prefix, strlen(lists[i].prefix)) == 0) {
            facts->list = lists[i].list;
            facts->list_name = name + strlen(lists[i].prefix);
        }
}

static void need_add(struct task_why *why, const char *resource)
{
    if (why->need_count < ENVELOPE_RESOURCES_MAX)
        buffer_append(&why->needs[why->need_count++], resource, strlen(resource));
}

/* Appends what a template of the configuration makes of its arguments; those of its handler are not known. */
static void need_make(struct task_why *why, const char *text)
{
    struct resource_template template;
    struct buffer name = {0};
    if (!resource_template_parse(&template, text, NULL))
        return;
    if (resource_template_fill(&template, why->view.envelope.args, &name, NULL))
        need_add(why, buffer_text(&name));
    resource_template_fini(&template);
    buffer_fini(&name);
}

/* What it locks when it is its turn. */
static void needs_take(struct task_why *why)
{
    struct task_facts *facts = &why->facts;
    const struct envelope *envelope = &why->view.envelope;
    const struct config_class *entry = config_class_find(why->console->config, envelope->class_name);
    if (entry != NULL && (entry->lock == CONFIG_LOCK_NONE || entry->mode == CONFIG_MODE_NONE))
        return;
    for (unsigned i = 0; i < envelope->resource_count; i++)
        need_add(why, envelope->resources[i]);
    for (size_t i = 0; entry != NULL && envelope->resource_count == 0 && i < entry->resource.count; i++)
        need_make(why, entry->resource.items[i]);
    if (why->need_count == 0)
        return;
    facts->locks = true;
    facts->list = entry != NULL && entry->limit > 1 ? TASK_LIST_SEATS : TASK_LIST_RESOURCE;
    facts->list_name = buffer_text(&why->needs[0]);
}

static void record_take(struct task_why *why, const struct task_entry *entry)
{
    struct task_facts *facts = &why->facts;
    const struct envelope *envelope = &why->view.envelope;
    bool is_set = task_state_is_set(entry->state);
    task_view_read(&why->view, entry->task.bytes, entry->task.length);
    buffer_clear(&why->error);
    needs_clear(why);
    if (is_set)
        facts->at = wall_read(entry->score);
    facts->queue = entry->queue != NULL ? entry->queue : "default";
    facts->process = entry->identity;
    facts->is_living = entry->is_living;
    facts->position = entry->position;
    if (!why->view.is_task)
        return;
    task_view_error(&why->view, &why->error);
    if (envelope->jid[0] != '\0')
        snprintf(why->jid, sizeof why->jid, "%s", envelope->jid);
    facts->class_name = envelope->class_name;
    if (is_set && envelope->queue[0] != '\0')
        facts->queue = envelope->queue;
    facts->failures = envelope->was_retried && envelope->retry_count >= 0 ? (unsigned)envelope->retry_count + 1 : 0;
    facts->put_off_at = envelope->parked_at;
    facts->unserved_at = envelope->unserved_at;
    facts->locks = envelope->resource_count > 0 || envelope->parked_at.us != 0;
    if (entry->state != TASK_IN_RETRY && entry->state != TASK_IN_DEAD)
        list_take(facts, envelope->list);
    if (facts->list == TASK_LIST_NONE && (entry->state == TASK_IN_CLAIMS || entry->state == TASK_IN_QUEUE))
        needs_take(why);
}

enum { LENGTH, PAUSED, RANK, WAITING, RUN };

static void queue_read(struct task_why *why, const struct task_entry *entry)
{
    struct task_facts *facts = &why->facts;
    struct console *console = why->console;
    const char *list = facts->list != TASK_LIST_NONE ? why->view.envelope.list : "";
    char field[32];
    node_client_begin(console->client);
    node_client_ask(console->client, "LLEN", console_key(console, console->keys.queue_prefix, facts->queue), NULL);
    node_client_ask(console->client, "SISMEMBER", console->keys.paused, facts->queue, NULL);
    node_client_ask(console->client, "ZRANK", console_key(console, console->keys.waiting_prefix, list), facts->jid,
                    NULL);
    node_client_ask(console->client, "ZCARD", console_key(console, console->keys.waiting_prefix, list), NULL);
    if (entry->slot != NULL) {
        snprintf(field, sizeof field, "t%s", entry->slot);
        node_client_ask(console->client, "HGET", console_work_key(console, entry->identity), field, NULL);
    }
    console_run(console);
    facts->length = node_client_integer(console->client, LENGTH, -1);
    facts->is_paused = node_client_integer(console->client, PAUSED, 0) == 1;
    facts->ahead = node_client_integer(console->client, RANK, -1);
    facts->waiting = node_client_integer(console->client, WAITING, -1);
    const struct redis_reply *run =
        entry->slot != NULL ? node_client_reply_of(console->client, RUN, REDIS_STRING) : NULL;
    if (run != NULL)
        facts->since = process_run_since(run->bytes, run->length, facts->jid);
}

static void lease_read(struct task_why *why)
{
    const struct fleet_process *process =
        why->facts.process != NULL ? fleet_find(&why->fleet, why->facts.process) : NULL;
    if (process == NULL)
        return;
    why->facts.lease_end = process->lease_end;
    why->facts.beat = process->beat;
}

/* Who has or had the lock stays in its list until it ends, and is no one ahead; nor is who vanished. */
static void waiters_read(struct task_why *why)
{
    struct task_facts *facts = &why->facts;
    struct lock_waiters waiters = {.items = NULL};
    size_t looked = facts->ahead < WAITERS_LOOKED_AT ? (size_t)facts->ahead : WAITERS_LOOKED_AT;
    if (!facts->is_listed || looked == 0)
        return;
    lock_waiters_read(&waiters, why->console, why->view.envelope.list, looked);
    for (size_t i = 0; i < waiters.count; i++) {
        bool is_holder = facts->lock.jid != NULL && strcmp(waiters.items[i].jid, facts->lock.jid) == 0;
        bool waits = waiters.items[i].state == LOCK_WAITER_PARKED || waiters.items[i].state == LOCK_WAITER_ON_WAY;
        facts->ahead -= is_holder || !waits;
        facts->waiting -= is_holder || !waits;
    }
    lock_waiters_free(&waiters);
}

/* --- its lock ----------------------------------------------------------------------------------------------------- */

#define COUNT_MAX 1e15

/* In the middle of each coarse step. */
static int64_t mean_us(const struct node_client *client)
{
    const struct redis_reply *counts = node_client_reply_of(client, 0, REDIS_ARRAY);
    double sum = 0, total = 0;
    for (unsigned i = 0; counts != NULL && i < counts->count && i < HISTOGRAM_COARSE_STEPS; i++) {
        double from = i > 0 ? (double)histogram_coarse_end(i - 1) : 0, to = (double)histogram_coarse_end(i);
        double count = counts->elements[i].bytes != NULL ? real_read(counts->elements[i].bytes, NULL) : 0;
        if (!(count > 0 && count < COUNT_MAX)) /* what another program wrote there */
            continue;
        sum += count * (from + to) / 2;
        total += count;
    }
    return total > 0 ? (int64_t)(sum / total) : -1;
}

static void hold_read(struct task_why *why)
{
    struct task_facts *facts = &why->facts;
    struct console *console = why->console;
    char name[TALLY_LOCK_NAME_SIZE];
    struct buffer field = {0};
    tally_lock_name(facts->lock.class_name != NULL ? facts->lock.class_name : facts->class_name, facts->list_name,
                    name);
    node_client_begin(console->client);
    struct buffer *request = node_client_compose(console->client);
    redis_request_begin(request, 2 + HISTOGRAM_COARSE_STEPS);
    redis_request_text(request, "HMGET");
    queue_keys_request_locks(&console->keys, console->now, request);
    for (unsigned i = 0; i < HISTOGRAM_COARSE_STEPS; i++) {
        buffer_clear(&field);
        buffer_format(&field, "%shold.%u", name, i);
        redis_request_bytes(request, field.bytes, field.length);
    }
    buffer_fini(&field);
    console_run(console);
    facts->lock.hold_us = mean_us(console->client);
}

static void holder_take(struct task_why *why)
{
    struct task_facts *facts = &why->facts;
    const struct lock_view *view = &why->lock;
    unsigned first = 0;
    while (first < view->holder_count && view->holders[first].standing != REDLOCK_HELD)
        first++;
    if (view->state != LOCK_IS_HELD || first == view->holder_count)
        return;
    const struct redlock_holder *holder = &view->holders[first];
    const struct lock_runner *runner = &view->runners[first];
    char quoted[LOG_QUOTE_MAX];
    size_t length = holder->owner != NULL ? holder->length - (size_t)(holder->owner - holder->value) : 0;
    buffer_append_text(&why->owner, length > 0 ? log_quote_bytes(holder->owner, length, quoted) : "another program");
    facts->lock.is_shared = holder->is_reader;
    facts->lock.holders = holder->is_reader ? view->holder_count : 1;
    facts->lock.remaining_us = holder->remaining_ms >= 0 ? holder->remaining_ms * 1000 : -1;
    facts->lock.is_ours = view->is_ours[first];
    facts->lock.jid = runner->jid;
    facts->lock.class_name = runner->class_name;
    facts->lock.process = runner->identity;
    facts->lock.is_living = runner->is_living;
    facts->lock.since = runner->since;
    const struct fleet_process *process = runner->identity != NULL ? fleet_find(&why->fleet, runner->identity) : NULL;
    if (process != NULL)
        facts->lock.beat = process->beat;
}

/* As `status` counts them. */
static void votes_take(struct task_why *why)
{
    struct redlock_group_view group = redlock_nodes_group(why->lock.session.nodes);
    struct redlock_node_view views[REDLOCK_NODES_MAX];
    for (unsigned i = 0; i < group.nodes; i++)
        views[i] = *redlock_nodes_view(why->lock.session.nodes, i);
    status_votes_take(&why->votes, views, NULL, group.nodes);
    why->facts.lock.nodes = group.nodes;
    why->facts.lock.quorum = group.quorum;
    why->facts.lock.voters = why->votes.voters;
    why->facts.lock.trouble = log_defuse(why->votes.reason);
}

/* Any of its resources may be in the way; the record of a claim names the one that was refused last. */
static void taken_find(struct task_why *why)
{
    for (unsigned i = 0; i < why->need_count && why->lock.state == LOCK_IS_FREE; i++) {
        why->facts.list_name = buffer_text(&why->needs[i]);
        lock_view_look_at(&why->lock, why->facts.list_name);
    }
}

/* One that was put off, and is in no waiting list, may lack a majority of the lock nodes: no lock is looked at then. */
static void lock_read(struct task_why *why)
{
    struct task_facts *facts = &why->facts;
    struct lock_view *view = &why->lock;
    buffer_clear(&why->owner);
    if (!why->knows_lock) {
        nodes_patience_bound(why->console->config, why->console->origin.node_timeout_ns);
        why->has_lock = lock_view_share(view, why->console);
    }
    why->knows_lock = true;
    facts->lock.is_asked = why->has_lock;
    facts->lock.why_not = view->session.reason;
    if (!why->has_lock)
        return;
    lock_view_look_at(view, facts->list != TASK_LIST_NONE ? facts->list_name : "holdfast");
    taken_find(why);
    facts->lock.state = view->state;
    facts->lock.blocked = view->blocked;
    holder_take(why);
    if (facts->list == TASK_LIST_SEATS && view->state == LOCK_IS_HELD) {
        facts->lock.holders = view->seat_count;
        facts->lock.limit = view->owner != NULL ? view->owner->limit : view->seat_count;
    }
    facts->lock.owner = buffer_text(&why->owner);
    votes_take(why);
    if (facts->list != TASK_LIST_NONE)
        hold_read(why);
}

/* --- the look ----------------------------------------------------------------------------------------------------- */

static void result_read(struct task_why *why)
{
    struct console *console = why->console;
    struct task_result result;
    bool is_jid = envelope_jid_is_sound(why->facts.jid, strlen(why->facts.jid));
    const struct redis_reply *record = console_ask(
        console, "GET", console_key(console, console->keys.result_prefix, is_jid ? why->facts.jid : ""), NULL);
    if (record->kind == REDIS_STRING && task_result_read(record->bytes, record->length, &result))
        why->facts.ended_at = result.ended_at, why->facts.was_cancelled = result.was_cancelled;
}

static void cancel_read(struct task_why *why)
{
    struct console *console = why->console;
    const char *jid = why->view.envelope.jid;
    if (why->view.is_task && jid[0] != '\0')
        why->facts.is_cancelled =
            console_ask(console, "HGET", console_key(console, console->keys.iteration_prefix, jid), "cancelled", NULL)
                ->kind == REDIS_STRING;
}

static void entry_read(struct task_why *why, const struct task_entry *entry)
{
    struct task_facts *facts = &why->facts;
    facts->is_found = true;
    facts->state = entry->state;
    record_take(why, entry);
    queue_read(why, entry);
    workers_read(why);
    lease_read(why);
    cancel_read(why);
    bool is_parked = entry->state == TASK_IN_SCHEDULE && facts->put_off_at.us != 0;
    bool may_ask = entry->state == TASK_IN_CLAIMS && facts->is_living && facts->since.us == 0 && facts->locks;
    /* Without a majority of the lock nodes nobody claims; and it would wait for a lock that is held. */
    bool is_left =
        entry->state == TASK_IN_QUEUE && facts->workers.allowed > 0 && facts->workers.busy < facts->workers.threads;
    if (facts->list != TASK_LIST_CLASS && (is_parked || may_ask || is_left))
        lock_read(why);
    if (may_ask)
        facts->ahead = 0; /* it is the next */
    facts->is_listed = facts->list != TASK_LIST_NONE && facts->ahead >= 0;
    waiters_read(why);
    facts->error = buffer_text(&why->error);
}

static void facts_begin(struct task_why *why, const char *jid, bool was_cut)
{
    snprintf(why->jid, sizeof why->jid, "%s", jid);
    why->facts = (struct task_facts){.jid = why->jid,
                                     .was_cut = was_cut,
                                     .position = -1,
                                     .length = -1,
                                     .is_local = why->console->origin.kind == ORIGIN_LOCAL,
                                     .error = "",
                                     .ahead = -1,
                                     .waiting = -1,
                                     .lock = {.remaining_us = -1, .hold_us = -1, .owner = ""}};
}

/* The other one with the jid of a task that runs: of these a few entries are looked through, without a word. */
static const struct task_entry *twin_find(struct task_why *why, const struct task_entry *entry)
{
    bool was_silent = why->console->is_silent;
    task_search_end(&why->twins);
    why->twins = (struct task_search){.console = why->console, .queue = entry->queue, .scan_limit = TWINS_LOOKED_AT};
    task_search_in(&why->twins, TASK_IN_SCHEDULE);
    task_search_in(&why->twins, TASK_IN_RETRY);
    task_search_in(&why->twins, TASK_IN_QUEUE);
    why->console->is_silent = true;
    int code = task_search_run(&why->twins, why->jid);
    why->console->is_silent = was_silent;
    return code == EXIT_CODE_OK ? why->twins.found : NULL;
}

int task_why_look(struct task_why *why, const char *jid, const struct task_entry *entry, bool was_cut)
{
    facts_begin(why, jid, was_cut);
    if (entry != NULL)
        entry_read(why, entry);
    else
        result_read(why);
    bool runs = entry != NULL && entry->state == TASK_IN_CLAIMS && why->facts.since.us != 0 && why->facts.is_living;
    const struct task_entry *twin = runs ? twin_find(why, entry) : NULL;
    if (twin != NULL) {
        struct wall_time since = why->facts.since;
        facts_begin(why, jid, false);
        entry_read(why, twin);
        why->facts.twin = entry->identity;
        why->facts.since = since;
    }
    task_reason_find(&why->reason, &why->facts, why->console->now);
    return why->console->code;
}

void task_why_end(struct task_why *why)
{
    if (why->knows_lock)
        lock_view_leave(&why->lock);
    fleet_free(&why->fleet);
    task_search_end(&why->twins);
    task_view_fini(&why->view);
    task_reason_fini(&why->reason);
    buffer_fini(&why->error);
    buffer_fini(&why->terms);
    buffer_fini(&why->owner);
    needs_clear(why);
}
