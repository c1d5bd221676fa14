#include "worker/dry_run/run/dry_config.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/invariant.h"
#include "base/memory.h"
#include "worker/config/surroundings.h"
#include "worker/dry_run/plan/load_generator.h"

/* What runs is a sleep that listens. */
#define STOP_TIMEOUT_NS (200 * NS_PER_MS)
/* A token must outlive whatever may still write with an older one: nothing does, once the run is over. */

static void text_replace(char **field, const char *text)
{
    char *copy = memory_text(text);
    free(*field);
    *field = copy;
}

static void words_clear(struct config_words *words)
{
    for (size_t i = 0; i < words->count; i++)
        free(words->items[i]);
    free(words->items);
    *words = (struct config_words){0};
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

static struct config *config_of(struct buffer *text, struct findings *findings)
{
    struct config *config = config_read_written(text, findings);
    buffer_fini(text);
    return config;
}

struct config *dry_config_built_in(struct findings *findings)
{
    struct buffer text = {0};
    buffer_format(&text, "queue_node = { host = \"127.0.0.1\"; };\nworker = { queues = [\"%s\"]; };\n", LOAD_QUEUE);
    return config_of(&text, findings);
}

static void node_take_over(struct config_node *node, const struct config_node *former, const char *password)
{
    if (password != NULL)
        node->password = memory_text(password);
    if (former == NULL)
        return;
    node->connect_timeout_ns = former->connect_timeout_ns;
    node->call_timeout_ns = former->call_timeout_ns;
}

void dry_config_use_nodes(struct config *config, const struct dry_config_nodes *nodes)
{
    struct buffer text = {0};
    struct findings findings = {0};
    buffer_format(&text, "queue_node = { host = \"%s\"; port = %u; };\nlock_nodes = (", nodes->host, nodes->queue_port);
    for (unsigned i = 0; i < nodes->lock_count; i++)
        buffer_format(&text, "%s{ host = \"%s\"; port = %u; }", i > 0 ? ", " : " ", nodes->host, nodes->lock_ports[i]);
    buffer_append_text(&text, " );\n");
    struct config *fresh = config_of(&text, &findings);
    invariant(fresh != NULL && findings.errors == 0);
    findings_fini(&findings); /* it warns that an even number of nodes is odd */
    const struct config_node *last =
        config->lock_node_count > 0 ? &config->lock_nodes[config->lock_node_count - 1] : NULL;
    node_take_over(&fresh->queue_node, &config->queue_node, nodes->password);
    for (size_t i = 0; i < fresh->lock_node_count; i++)
        node_take_over(&fresh->lock_nodes[i], i < config->lock_node_count ? &config->lock_nodes[i] : last,
                       nodes->password);
    struct config_node queue_node = config->queue_node, *lock_nodes = config->lock_nodes;
    size_t lock_node_count = config->lock_node_count;
    config->queue_node = fresh->queue_node;
    config->lock_nodes = fresh->lock_nodes;
    config->lock_node_count = fresh->lock_node_count;
    fresh->queue_node = queue_node;
    fresh->lock_nodes = lock_nodes;
    fresh->lock_node_count = lock_node_count;
    config_free(fresh);
}

/* --- converting --------------------------------------------------------------------------------------------------- */

static void classes_convert(struct config *config)
{
    for (size_t i = 0; i < config->class_count; i++) {
        struct config_class *entry = &config->classes[i];
        words_clear(&entry->program);
        surroundings_clear(&entry->surroundings);
        entry->isolation = CONFIG_ISOLATION_THREAD;
        entry->tasks_per_process = entry->open_files_limit = 0;
        entry->memory_per_process = entry->memory_limit = 0;
        entry->grace_ns = entry->result_ttl_ns = 0;
    }
}

static void queues_convert(struct config *config, const struct dry_run_plan *plan)
{
    if (plan->kind == DRY_RUN_SHADOW)
        return;
    config_clear_list(config, "queue_settings");
    words_clear(&config->worker.queues);
    config->worker.queues.items = memory_zeroed(1, sizeof config->worker.queues.items[0]);
    config->worker.queues.items[0] = memory_text(load_queue(plan));
    config->worker.queues.count = 1;
}

bool dry_config_convert(struct config *config, const struct dry_run_plan *plan, struct error *error)
{
    char prefix[REDLOCK_PREFIX_BYTES_MAX + 1], path[64];
    int length = snprintf(prefix, sizeof prefix, "%sdry:%s:", config->lock.prefix, plan_run(plan));
    if (length >= (int)sizeof prefix)
        return error_set(error, "%s: lock.prefix: is too long: \"dry:RUN:\" has to fit behind it within %d bytes",
                         config->path, REDLOCK_PREFIX_BYTES_MAX);
    text_replace(&config->lock.prefix, prefix);
    config->lock.is_guest = !plan->is_local;
    classes_convert(config);
    queues_convert(config, plan);
    config->worker.threads = plan->threads;
    config->worker.allow_root = true;
    config->worker.log_level = LOG_WARN;
    text_replace(&config->worker.log_file, "");
    if (config->worker.stop_timeout_ns > STOP_TIMEOUT_NS)
        config->worker.stop_timeout_ns = STOP_TIMEOUT_NS;
    config_clear_list(config, "periodic");
    words_clear(&config->on_event.command);
    /* no file can be there */
    snprintf(path, sizeof path, "/proc/self/dry run %s", plan->id);
    text_replace(&config->path, path);
    return true;
}

const char *dry_config_key_space(const struct dry_run_plan *plan, char space[DRY_CONFIG_SPACE_MAX])
{
    snprintf(space, DRY_CONFIG_SPACE_MAX, "hf:2:dry:%s:", plan_run(plan));
    return space;
}
