#include "worker/commands/status.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "worker/print/human.h"
#include "base/memory.h"
#include "base/real.h"
#include "worker/node_facts.h"
#include "worker/node_probe.h"

/* Living processes recover the claims of a dead one sooner than this. */
#define RECOVERY_US (60 * US_PER_S)
#define MINUTE_US   (60 * US_PER_S)

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
static struct buffer *request_begin(struct inquiry *inquiry, const char *command)
{
    struct buffer *request = inquiry_compose(inquiry);
    redis_request_begin(request, 2);
    redis_request_text(request, command);
    return request;
}

static int numbers_read(struct status *status, struct console *console)
{
    struct inquiry *inquiry = console->inquiry;
    struct wall_time minute = {console->now.us - MINUTE_US};
    struct tm then = parts_of(minute);
    const char *processed = console->keys.processed, *failed = console->keys.failed;
    strftime(status->minute, sizeof status->minute, "%Y-%m-%dT%H:%MZ", &then);
    inquiry_begin(inquiry);
    inquiry_ask(inquiry, "ZCARD", console->keys.schedule, NULL);
    inquiry_ask(inquiry, "ZCARD", console->keys.retry, NULL);
    inquiry_ask(inquiry, "ZCARD", console->keys.dead, NULL);
    inquiry_ask(inquiry, "GET", processed, NULL);
    inquiry_ask(inquiry, "GET", failed, NULL);
    queue_keys_request_day(processed, console->now, request_begin(inquiry, "GET"));
    queue_keys_request_day(failed, console->now, request_begin(inquiry, "GET"));
    queue_keys_request_period(&console->keys, QUEUE_MINUTE_8, minute, request_begin(inquiry, "HGETALL"));
    inquiry_ask(inquiry, "INFO", NULL);
    inquiry_ask(inquiry, "ZRANGE", console->keys.schedule, "0", "0", "WITHSCORES", NULL);
    inquiry_ask(inquiry, "ZRANGE", console->keys.retry, "0", "0", "WITHSCORES", NULL);
    int code = console_run(console);
    if (code != EXIT_CODE_OK)
        return code;
    status->schedule = inquiry_integer(inquiry, 0, -1);
    status->retry = inquiry_integer(inquiry, 1, -1);
    status->dead = inquiry_integer(inquiry, 2, -1);
    status->processed = number_of(inquiry_reply(inquiry, 3));
    status->failed = number_of(inquiry_reply(inquiry, 4));
    status->processed_today = number_of(inquiry_reply(inquiry, 5));
    status->failed_today = number_of(inquiry_reply(inquiry, 6));
    minute_take(status, inquiry_reply(inquiry, 7));
    info_take(status, inquiry_reply(inquiry, 8));
    status->overdue_us[0] = overdue_of(inquiry_reply(inquiry, 9), console->now);
    status->overdue_us[1] = overdue_of(inquiry_reply(inquiry, 10), console->now);
    return code;
}

int status_read(struct status *status, struct console *console)
{
    *status = (struct status){.schedule = -1};
    int code = fleet_read(&status->fleet, console);
    if (code == EXIT_CODE_OK)
        code = backlog_read(&status->backlog, console);
    if (code == EXIT_CODE_OK)
        code = numbers_read(status, console);
    return code;
}

int status_ask_locks(struct status *status, struct console *console)
{
    const struct config *config = console->config;
    struct error error = ERROR_NONE;
    if (config->lock_node_count == 0)
        return EXIT_CODE_OK;
    struct node_probe *probes = memory_zeroed(config->lock_node_count, sizeof *probes);
    for (size_t i = 0; i < config->lock_node_count; i++)
        probes[i] = (struct node_probe){
            .node = &config->lock_nodes[i], .use = NODE_FOR_LOCKS, .lock_prefix = config->lock.prefix};
    bool was_run = node_probe_all(probes, config->lock_node_count, &error);
    status->lock_nodes = was_run ? config->lock_node_count : 0;
    for (size_t i = 0; i < status->lock_nodes; i++) {
        if (!node_probe_grants(&probes[i]) && status->lock_nodes_away++ == 0)
            snprintf(status->lock_reason, sizeof status->lock_reason, "%s",
                     probes[i].state == PROBE_ANSWERED ? probes[i].refusal : probes[i].reason);
    }
    free(probes);
    return was_run ? EXIT_CODE_OK : console_complain(console, "%s", error.text);
}

void status_free(struct status *status)
{
    fleet_free(&status->fleet);
    backlog_free(&status->backlog);
}

/* --- judging ---------------------------------------------------------------------------------------------------- */

long long status_serving(const struct status *status)
{
    long long serving = 0;
    for (size_t i = 0; i < status->fleet.count; i++)
        serving += status->fleet.items[i].state == FLEET_ALIVE && !status->fleet.items[i].is_quiet;
    return serving;
}

static const char *separator(const struct buffer *out)
{
    return out->length > 0 ? "; " : "";
}

static void judge_queues(const struct status *status, int64_t max_latency_ns, struct buffer *out)
{
    char waited[HUMAN_TEXT_MAX];
    for (size_t i = 0; i < status->backlog.count; i++) {
        const struct backlog_queue *queue = &status->backlog.items[i];
        if (queue->length < 0)
            buffer_format(out, "%sthe key of queue %s holds no list", separator(out), queue->name);
        if (max_latency_ns >= 0 && !queue->is_paused && queue->latency_us > max_latency_ns / NS_PER_US)
            buffer_format(out, "%sthe oldest task of queue %s has waited %s", separator(out), queue->name,
                          human_span(queue->latency_us, waited));
    }
}

/* What is due and stays in its set waits as much as what is in a queue: nobody moves it. */
static void judge_sets(const struct status *status, const struct status_bounds *bounds, struct buffer *out)
{
    static const char *const names[] = {"schedule", "retry"};
    char waited[HUMAN_TEXT_MAX];
    for (size_t i = 0; bounds->max_latency_ns >= 0 && i < sizeof names / sizeof names[0]; i++)
        if (status->overdue_us[i] > bounds->max_latency_ns / NS_PER_US)
            buffer_format(out, "%san entry of %s has been due for %s and was not moved to its queue", separator(out),
                          names[i], human_span(status->overdue_us[i], waited));
    if (bounds->max_dead >= 0 && status->dead > bounds->max_dead)
        buffer_format(out, "%s%lld dead tasks, at most %lld are accepted", separator(out), status->dead,
                      bounds->max_dead);
}

/* Keys without which workers cannot go on. */
static void judge_keys(const struct status *status, struct buffer *out)
{
    const struct {
        const char *name, *kind;
        bool is_fine;
    } keys[] = {{"queues", "set", status->backlog.knows_listed},
                {"paused", "set", status->backlog.knows_paused},
                {"schedule", "sorted set", status->schedule >= 0},
                {"retry", "sorted set", status->retry >= 0},
                {"dead", "sorted set", status->dead >= 0}};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (!keys[i].is_fine)
            buffer_format(out, "%sthe key %s holds no %s", separator(out), keys[i].name, keys[i].kind);
}

static void judge_nodes(const struct status *status, struct buffer *out)
{
    char used[HUMAN_TEXT_MAX], most[HUMAN_TEXT_MAX];
    if (status->memory_max > 0 && status->memory_used > status->memory_max)
        buffer_format(out, "%sthe queue node uses %s of %s and refuses writes", separator(out),
                      human_size(status->memory_used, used), human_size(status->memory_max, most));
    if (status->lock_nodes > 0 && status->lock_nodes - status->lock_nodes_away <= status->lock_nodes / 2)
        buffer_format(out, "%sonly %zu of %zu lock nodes grant locks, which is no majority: %s", separator(out),
                      status->lock_nodes - status->lock_nodes_away, status->lock_nodes, status->lock_reason);
}

void status_judge(const struct status *status, const struct status_bounds *bounds, struct wall_time now,
                  struct buffer *out)
{
    long long serving = status_serving(status);
    if (serving < bounds->min_processes)
        buffer_format(out, "%lld process%s take tasks, at least %lld should", serving, serving == 1 ? "" : "es",
                      bounds->min_processes);
    judge_nodes(status, out);
    judge_keys(status, out);
    judge_queues(status, bounds->max_latency_ns, out);
    judge_sets(status, bounds, out);
    for (size_t i = 0; i < status->fleet.count; i++) {
        const struct fleet_process *process = &status->fleet.items[i];
        if (process->state == FLEET_LOST && process->lease_end.us < now.us - RECOVERY_US)
            buffer_format(out, "%snobody recovers the claims of %s", separator(out), process->identity);
        if (process->is_clash)
            buffer_format(out, "%sthe claims of %s cannot be read: their key holds no hash", separator(out),
                          process->identity);
    }
}
