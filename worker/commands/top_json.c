/* The snapshot of `holdfast top` for programs. */
#include "worker/commands/top_screen.h"

#include "worker/print/json_writer.h"

/* A rate with one digit behind the point. */
static void rate_json(struct json_writer *json, const char *name, double rate)
{
    json_seconds(json, name, (int64_t)(rate * 10 + 0.5) * (US_PER_S / 10));
}

static void rates_json(struct json_writer *json, const struct top_facts *facts)
{
    if (!facts->has_rate) {
        json_nothing(json, "rate");
        return;
    }
    json_open(json, "rate", '{');
    rate_json(json, "processed", facts->processed_rate);
    rate_json(json, "failed", facts->failed_rate);
    json_seconds(json, "over", facts->rate_us);
    json_close(json, '}');
}

static void processes_json(struct json_writer *json, const struct fleet *fleet)
{
    json_open(json, "processes", '[');
    for (size_t i = 0; i < fleet->count; i++) {
        const struct fleet_process *process = &fleet->items[i];
        json_open(json, NULL, '{');
        json_text(json, "identity", process->identity);
        json_text(json, "state", fleet_state_name(process->state));
        json_number(json, "busy", process->busy);
        json_number(json, "threads", process->concurrency);
        json_truth(json, "quiet", process->is_quiet);
        json_number(json, "rss_kb", process->rss_kb);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void running_json(struct json_writer *json, const struct top_facts *facts)
{
    json_open(json, "running", '[');
    for (size_t i = 0; i < facts->task_count; i++) {
        const struct top_task *task = &facts->tasks[i];
        json_open(json, NULL, '{');
        json_text_or_nothing(json, "class", task->class_name);
        json_text_or_nothing(json, "jid", task->jid);
        json_text_or_nothing(json, "queue", task->queue);
        json_text_or_nothing(json, "process", task->process);
        json_seconds(json, "age", task->age_us);
        json_text_or_nothing(json, "resource", task->resource);
        json_text_or_nothing(json, "token", task->token);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void resources_json(struct json_writer *json, const struct top_facts *facts)
{
    json_open(json, "resources", '[');
    for (size_t i = 0; i < facts->resource_count; i++) {
        const struct top_resource *resource = &facts->resources[i];
        json_open(json, NULL, '{');
        json_text(json, "for", resource->kind);
        json_text(json, "name", resource->name);
        json_number(json, "waiters", resource->waiters);
        json_text(json, "holder", resource->holder != NULL ? resource->holder->jid : NULL);
        json_text(json, "process", resource->holder != NULL ? resource->holder->process : NULL);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void nodes_json(struct json_writer *json, const struct top_facts *facts)
{
    json_open(json, "lock_nodes", '[');
    for (unsigned i = 0; i < facts->node_count; i++) {
        const struct redlock_node_view *view = &facts->nodes[i];
        json_open(json, NULL, '{');
        json_text(json, "name", view->name);
        json_text(json, "address", view->address);
        json_truth(json, "reached", view->is_reached);
        json_truth(json, "votes", view->votes);
        json_text(json, "state", view->state);
        json_text(json, "reason", view->reason);
        if (view->is_reached)
            json_seconds(json, "latency", view->latency_ns / NS_PER_US);
        else
            json_nothing(json, "latency");
        json_seconds(json, "quarantine_left", view->quarantine_left_ns / NS_PER_US);
        json_close(json, '}');
    }
    json_close(json, ']');
}

void top_json_write(const struct top_facts *facts, struct buffer *out)
{
    struct json_writer json = {.out = out};
    json_open(&json, NULL, '{');
    json_seconds(&json, "time", facts->now.us);
    json_text(&json, "away", facts->away);
    rates_json(&json, facts);
    json_number_or_nothing(&json, "processed", facts->status.processed);
    json_number_or_nothing(&json, "failed", facts->status.failed);
    json_number_or_nothing(&json, "schedule", facts->status.schedule);
    json_number_or_nothing(&json, "retry", facts->status.retry);
    json_number_or_nothing(&json, "dead", facts->status.dead);
    processes_json(&json, &facts->status.fleet);
    running_json(&json, facts);
    resources_json(&json, facts);
    nodes_json(&json, facts);
    backlog_json(&facts->status.backlog, &json);
    json_close(&json, '}');
}
