#include "worker/commands/status.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/real.h"
#include "queue/envelope.h"
#include "worker/nodes/node_facts.h"
#include "worker/nodes/node_probe.h"
#include "worker/print/human.h"

#define MINUTE_US (60 * US_PER_S)

static struct tm parts_of(struct wall_time moment)
{
    time_t seconds = (time_t)(moment.us / US_PER_S);
    struct tm parts = {0};
    gmtime_r(&seconds, &parts);
    return parts;
}

/* --- reading ---------------------------------------------------------------------------------------------------- */

static long long number_of(const struct redis_reply *reply)
{
    if (reply->kind == REDIS_INTEGER)
        return reply->integer;
    if (reply->kind == REDIS_FAILURE)
        return -1;
    return reply->kind == REDIS_STRING ? strtoll(reply->bytes, NULL, 10) : 0;
}

static long long info_number(const struct redis_reply *info, const char *field)
{
    char text[32];
    node_facts_field(info->bytes, info->length, field, text, sizeof text);
    return text[0] != '\0' ? strtoll(text, NULL, 10) : -1;
}

static void info_take(struct status *status, const struct redis_reply *info)
{
    struct node_facts facts;
    status->memory_used = status->memory_max = status->connections = -1;
    if (info->kind != REDIS_STRING || !node_facts_parse(&facts, info->bytes, info->length))
        return;
    snprintf(status->server, sizeof status->server, "%s", facts.server);
    snprintf(status->version, sizeof status->version, "%s", facts.version);
    status->memory_used = info_number(info, "used_memory");
    status->memory_max = info_number(info, "maxmemory");
    status->connections = info_number(info, "connected_clients");
}

/* Fields CLASS|p and CLASS|f; CLASS may hold the separator. */
static void minute_take(struct status *status, const struct redis_reply *fields)
{
    if (fields->kind == REDIS_FAILURE)
        status->minute_processed = status->minute_failed = -1;
    for (size_t i = 0; fields->kind == REDIS_ARRAY && i + 1 < fields->count; i += 2) {
        const struct redis_reply *name = &fields->elements[i];
        if (name->length < 2 || name->bytes[name->length - 2] != '|')
            continue;
        long long number = number_of(&fields->elements[i + 1]);
        if (name->bytes[name->length - 1] == 'p')
            status->minute_processed += number;
        else if (name->bytes[name->length - 1] == 'f')
            status->minute_failed += number;
    }
}

/* `first` is the earliest entry with its score. */
static int64_t overdue_of(const struct redis_reply *first, struct wall_time now)
{
    if (first->kind != REDIS_ARRAY || first->count != 2)
        return 0;
    struct wall_time due = wall_read(first->elements[1].bytes);
    return due.us < now.us ? now.us - due.us : 0;
}

/* The caller adds the key. */
static struct buffer *request_begin(struct node_client *client, const char *command)
{
    struct buffer *request = node_client_compose(client);
    redis_request_begin(request, 2);
    redis_request_text(request, command);
    return request;
}

static void numbers_read(struct status *status, struct console *console)
{
    struct node_client *client = console->client;
    struct wall_time minute = {console->now.us - MINUTE_US};
    struct tm then = parts_of(minute);
    const char *processed = console->keys.processed, *failed = console->keys.failed;
    strftime(status->minute, sizeof status->minute, "%Y-%m-%dT%H:%MZ", &then);
    node_client_begin(client);
    node_client_ask(client, "ZCARD", console->keys.schedule, NULL);
    node_client_ask(client, "ZCARD", console->keys.retry, NULL);
    node_client_ask(client, "ZCARD", console->keys.dead, NULL);
    node_client_ask(client, "GET", processed, NULL);
    node_client_ask(client, "GET", failed, NULL);
    queue_keys_request_day(processed, console->now, request_begin(client, "GET"));
    queue_keys_request_day(failed, console->now, request_begin(client, "GET"));
    queue_keys_request_period(&console->keys, QUEUE_MINUTE_8, minute, request_begin(client, "HGETALL"));
    node_client_ask(client, "INFO", NULL);
    node_client_ask(client, "ZRANGE", console->keys.schedule, "0", "0", "WITHSCORES", NULL);
    node_client_ask(client, "ZRANGE", console->keys.retry, "0", "0", "WITHSCORES", NULL);
    node_client_ask(client, "PING", NULL); /* refused when writes are */
    console_run(console);
    status->schedule = node_client_integer(client, 0, -1);
    status->retry = node_client_integer(client, 1, -1);
    status->dead = node_client_integer(client, 2, -1);
    status->processed = number_of(node_client_reply(client, 3));
    status->failed = number_of(node_client_reply(client, 4));
    status->processed_today = number_of(node_client_reply(client, 5));
    status->failed_today = number_of(node_client_reply(client, 6));
    minute_take(status, node_client_reply(client, 7));
    info_take(status, node_client_reply(client, 8));
    status->overdue_us[0] = overdue_of(node_client_reply(client, 9), console->now);
    status->overdue_us[1] = overdue_of(node_client_reply(client, 10), console->now);
    const struct redis_reply *ping = node_client_reply(client, 11);
    status->has_failing_disk =
        ping->kind == REDIS_FAILURE && redis_error_classify(ping->bytes, ping->length) == REDIS_ERROR_MISCONF;
}

/* --- classes that nobody serves --------------------------------------------------------------------------------- */

/* Those for which tasks have waited lately. */
static void classes_read(struct status *status, struct console *console, const char *now)
{
    char most[16];
    snprintf(most, sizeof most, "%d", STATUS_CLASSES_MAX);
    const struct redis_reply *names =
        console_ask(console, "ZREVRANGEBYSCORE", console->keys.unserved, "+inf", now, "LIMIT", "0", most, NULL);
    for (size_t i = 0; names->kind == REDIS_ARRAY && i < names->count; i++) {
        if (fleet_announces(&status->fleet, names->elements[i].bytes))
            continue;
        status->unserved = memory_resize(status->unserved, status->unserved_count + 1, sizeof *status->unserved);
        status->unserved[status->unserved_count++] =
            (struct status_class){.name = memory_text(names->elements[i].bytes)};
    }
}

static int by_tasks(const void *a, const void *b)
{
    const struct status_class *left = a, *right = b;
    if (left->tasks != right->tasks)
        return left->tasks < right->tasks ? 1 : -1;
    return strcmp(left->name, right->name);
}

static void unserved_read(struct status *status, struct console *console)
{
    struct buffer now = {0};
    envelope_append_time(&now, console->now);
    classes_read(status, console, buffer_text(&now));
    node_client_begin(console->client);
    for (size_t i = 0; i < status->unserved_count; i++)
        node_client_ask(console->client, "ZCOUNT",
                        console_key(console, console->keys.unserved_prefix, status->unserved[i].name),
                        buffer_text(&now), "+inf", NULL);
    buffer_fini(&now);
    console_run(console);
    for (size_t i = 0; i < status->unserved_count; i++)
        status->unserved[i].tasks = node_client_integer(console->client, i, 0);
    if (status->unserved_count > 0)
        qsort(status->unserved, status->unserved_count, sizeof *status->unserved, by_tasks);
    while (status->unserved_count > 0 && status->unserved[status->unserved_count - 1].tasks == 0)
        free(status->unserved[--status->unserved_count].name);
}

int status_read(struct status *status, struct console *console)
{
    *status = (struct status){.schedule = -1};
    fleet_read(&status->fleet, console);
    backlog_read(&status->backlog, console);
    numbers_read(status, console);
    backlog_growth_read(&status->backlog, console, status->minute_processed);
    waiting_lists_read(&status->waiting, console);
    unserved_read(status, console);
    /* A task that waits for a lock is an entry of `schedule` too, and not scheduled. The two numbers were not read at
     * one moment. */
    long long scheduled = status->schedule - waiting_lists_total(&status->waiting);
    if (status->schedule >= 0)
        status->schedule = scheduled > 0 ? scheduled : 0;
    return console->code;
}

/* --- lock nodes --------------------------------------------------------------------------------------------------- */

/* Why a node does not vote, for a person. */
static void refusal_write(const struct redlock_node_view *view, const struct node_probe *probe, bool may_vote,
                          struct buffer *out)
{
    if (may_vote)
        buffer_append_text(out, probe->state == PROBE_ANSWERED ? probe->refusal : probe->reason);
    else if (view->trouble[0] != '\0')
        buffer_append_text(out, view->trouble);
    else
        buffer_format(out, "%s%s%s", view->state, view->state[0] != '\0' ? ", " : "", view->reason);
}

/* "lock1: connection refused; lock2, lock4: OOM ..." Adds a node; those that follow each other share a reason. */
static void refusal_add(struct buffer *all, struct buffer *former, const char *name, struct buffer *why)
{
    bool is_same = all->length > 0 && strcmp(buffer_text(former), buffer_text(why)) == 0;
    if (is_same)
        all->length -= former->length + strlen(": ");
    buffer_format(all, "%s%s: %s", is_same ? ", " : all->length > 0 ? "; " : "", name, buffer_text(why));
    buffer_clear(former);
    buffer_append(former, why->bytes, why->length);
    buffer_clear(why);
}

void status_votes_take(struct status_votes *votes, const struct redlock_node_view *views,
                       const struct node_probe *probes, size_t count)
{
    size_t reached = 0;
    struct buffer all = {0}, former = {0}, why = {0};
    votes->nodes = (unsigned)count;
    votes->voters = 0;
    for (size_t i = 0; i < count; i++)
        reached += views[i].is_reached;
    for (size_t i = 0; i < count; i++) {
        /* A new client cannot confirm the group without a majority; clients that know the group count these nodes. */
        bool may_vote = views[i].votes || (reached <= count / 2 && views[i].group[0] != '\0');
        if (may_vote && (probes == NULL || node_probe_grants(&probes[i]))) {
            votes->voters++;
            continue;
        }
        refusal_write(&views[i], probes != NULL ? &probes[i] : NULL, may_vote, &why);
        refusal_add(&all, &former, views[i].name, &why);
    }
    snprintf(votes->reason, sizeof votes->reason, "%s", buffer_text(&all));
    buffer_fini(&all);
    buffer_fini(&former);
    buffer_fini(&why);
}

int status_ask_locks(struct status *status, struct console *console, struct top_nodes *nodes)
{
    const struct config *config = console->config;
    struct redlock_node_view views[REDLOCK_NODES_MAX];
    struct node_probe probes[REDLOCK_NODES_MAX] = {0};
    struct error error = ERROR_NONE;
    char reason[TOP_NODES_REASON_MAX];
    status->is_lock_unknown = console->origin.kind == ORIGIN_OPTIONS || console->origin.kind == ORIGIN_DEFAULT;
    if (nodes == NULL)
        return EXIT_CODE_OK;
    for (size_t i = 0; i < config->lock_node_count; i++)
        probes[i] = (struct node_probe){
            .node = &config->lock_nodes[i], .use = NODE_FOR_LOCKS, .lock_prefix = config->lock.prefix};
    if (!node_probe_all(probes, config->lock_node_count, &error))
        return console_complain(console, "%s", error.text);
    top_nodes_wait(nodes);
    unsigned count = top_nodes_copy(nodes, views, reason);
    status_votes_take(&status->votes, views, probes, count);
    if (count == 0) { /* they cannot be looked at at all */
        status->votes.nodes = (unsigned)config->lock_node_count;
        snprintf(status->votes.reason, sizeof status->votes.reason, "%s", reason);
    }
    return EXIT_CODE_OK;
}

void status_free(struct status *status)
{
    fleet_free(&status->fleet);
    backlog_free(&status->backlog);
    waiting_lists_free(&status->waiting);
    for (size_t i = 0; i < status->unserved_count; i++)
        free(status->unserved[i].name);
    free(status->unserved);
}

long long status_serving(const struct status *status)
{
    long long serving = 0;
    for (size_t i = 0; i < status->fleet.count; i++)
        serving += status->fleet.items[i].state == FLEET_ALIVE && !status->fleet.items[i].is_quiet;
    return serving;
}
