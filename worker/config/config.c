/* Fills struct config from the tree of a file, by the table; then checks what involves more than one key.
 *
 * Reading continues after errors: a wrong value is reported, and its field keeps the default, so that one run shows
 * everything to fix. Runs at the start of the program, on the main thread. */
#include "worker/config/config.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/invariant.h"
#include "base/memory.h"
#include "base/secret.h"
#include "base/utf8.h"
#include "queue/envelope.h"
#include "queue/keys.h"
#include "redis/address.h"
#include "worker/config/config_file.h"
#include "worker/config/config_periodic.h"
#include "worker/config/config_table.h"
#include "worker/config/node_options.h"
#include "worker/config/suggest.h"
#include "worker/config/surroundings.h"
#include "worker/http/http_address.h"

/* --- queues ------------------------------------------------------------------------------------------------------- */

enum { SERVED_MAX = 64 };

static void words_clear(struct config_words *words)
{
    for (size_t i = 0; i < words->count; i++)
        free(words->items[i]);
    free(words->items);
    *words = (struct config_words){0};
}

#define BAD_NAME "is not 1 to %d bytes of UTF-8 without blanks and control characters, or begins with hf:"

static bool is_utf8(const char *text)
{
    const char *end = text + strlen(text);
    size_t step = 1;
    for (; text < end && step > 0; text += step)
        step = utf8_length(text, end);
    return step > 0;
}

#define BAD_CLASS "is not UTF-8, so no task can have it"

static void entry_check(const struct config *config, size_t index, struct findings *findings)
{
    const struct config_queue *entry = &config->queues[index];
    const char *where = entry->source.where;
    if (entry->source.is_broken)
        return;
    if (!queue_name_is_sound(entry->name))
        findings_error(findings, "%s: queue_settings[%zu].queue: " BAD_NAME, where, index, ENVELOPE_QUEUE_BYTES_MAX);
    for (size_t i = 0; i < index; i++)
        if (strcmp(entry->name, config->queues[i].name) == 0)
            findings_error(findings, "%s: the queue %s has a second entry (%s)", where, entry->name,
                           config->queues[i].source.where);
    for (size_t i = 0; i < entry->classes.count; i++)
        if (!is_utf8(entry->classes.items[i]))
            findings_error(findings, "%s: queue_settings[%zu].classes: the name of class %zu " BAD_CLASS, where, index,
                           i + 1);
    if (!config_words_hold(&config->worker.queues, entry->name))
        findings_warn(findings, "%s: the queue %s is not served here: it is not in worker.queues", where, entry->name);
}

static bool has_weights(const struct config *config)
{
    for (size_t i = 0; i < config->queue_count; i++)
        if (config->queues[i].weight > 1)
            return true;
    return false;
}

/* Invalid names and second entries are errors. An entry for a queue that is not served, and an unused weight, are
 * warnings, because groups of processes share files. */
static void config_queues_check(const struct config *config, struct findings *findings)
{
    for (size_t i = 0; i < config->worker.queues.count; i++)
        if (!queue_name_is_sound(config->worker.queues.items[i]))
            findings_error(findings, "%s: worker.queues: the name of queue %zu " BAD_NAME, config->worker.source.where,
                           i + 1, ENVELOPE_QUEUE_BYTES_MAX);
    for (size_t i = 0; i < config->queue_count; i++)
        entry_check(config, i, findings);
    if (config->worker.queue_order == CONFIG_ORDER_STRICT && has_weights(config))
        findings_warn(findings,
                      "%s: queue_settings: weights mean nothing while worker.queue_order is strict; set it to "
                      "\"weighted\"",
                      config->path);
}

/* --- what is served ----------------------------------------------------------------------------------------------- */

static void served_add(struct config_words *words, const char *name, struct findings *findings)
{
    if (!queue_name_is_sound(name))
        findings_error(findings, "--queues: a name " BAD_NAME, ENVELOPE_QUEUE_BYTES_MAX);
    else if (config_words_hold(words, name))
        findings_error(findings, "--queues: names the queue %s twice", name);
    else if (words->count == SERVED_MAX)
        findings_error(findings, "--queues: names more than %d queues", SERVED_MAX);
    else
        config_words_add(words, name);
}

void config_serve_queues(struct config *config, const char *names, struct findings *findings)
{
    char *copy = memory_text(names), *rest = copy, *name = NULL;
    words_clear(&config->worker.queues);
    while ((name = strsep(&rest, ",")) != NULL)
        served_add(&config->worker.queues, name, findings);
    free(copy);
}

/* --- questions ---------------------------------------------------------------------------------------------------- */

static const struct config_queue *entry_of(const struct config *config, const char *queue)
{
    for (size_t i = 0; i < config->queue_count; i++)
        if (strcmp(config->queues[i].name, queue) == 0)
            return &config->queues[i];
    return NULL;
}

unsigned config_queue_weight(const struct config *config, const char *queue)
{
    const struct config_queue *entry = entry_of(config, queue);
    return entry != NULL ? entry->weight : 1;
}

bool config_queue_allows(const struct config *config, const char *queue, const char *class_name)
{
    const struct config_queue *entry = entry_of(config, queue);
    return entry == NULL || entry->classes.count == 0 || config_words_hold(&entry->classes, class_name);
}

/* --- classes ------------------------------------------------------------------------------------------------------ */

#define MEMORY_LIMIT_MIN (INT64_C(64) * 1024 * 1024)
enum { OPEN_FILES_MIN = 16 };

struct envelope_limits config_task_limits(const struct config *config)
{
    return (struct envelope_limits){.size = (size_t)config->worker.max_task_size,
                                    .depth = config->worker.max_task_depth,
                                    .keys = config->worker.max_task_keys};
}

const struct config_class *config_class_find(const struct config *config, const char *class_name)
{
    for (size_t i = 0; i < config->class_count; i++)
        if (strcmp(config->classes[i].name, class_name) == 0)
            return &config->classes[i];
    return NULL;
}

bool config_runs_unlocked(const struct config *config)
{
    for (size_t i = 0; i < config->class_count; i++)
        if (config->classes[i].on_no_quorum == CONFIG_QUORUM_OPEN)
            return true;
    return false;
}

/* -1 = the handler decides, -2 = invalid. */
static long retry_read(const char *text)
{
    if (text == NULL || text[0] == '\0' || strcmp(text, "handler") == 0)
        return -1;
    if (strcmp(text, "no") == 0)
        return 0;
    size_t length = strlen(text);
    long count = length <= 7 && strspn(text, "0123456789") == length ? strtol(text, NULL, 10) : -2;
    return count <= ENVELOPE_RETRIES_MAX ? count : -2;
}

bool config_class_retries(const struct config_class *entry, unsigned *retries)
{
    long count = retry_read(entry->retry);
    if (count < 0)
        return false;
    *retries = (unsigned)count;
    return true;
}

/* A limit below the ttl is an error: the lock itself lives longer. */
static void hold_check(const struct config *config, const char *where, const char *name, int64_t max_hold_ns,
                       struct findings *findings)
{
    if (max_hold_ns > 0 && max_hold_ns < config->lock.ttl_ns)
        findings_error(findings, "%s: %s: must be at least lock.ttl, or 0s", where != NULL ? where : config->path,
                       name);
}

static void process_check(const struct config_class *entry, struct findings *findings)
{
    const char *where = entry->source.where;
    if (entry->memory_limit > 0 && entry->memory_limit < MEMORY_LIMIT_MIN)
        findings_error(findings, "%s: memory_limit: must be at least 64MiB, or 0", where);
    if (entry->open_files_limit > 0 && entry->open_files_limit < OPEN_FILES_MIN)
        findings_error(findings, "%s: open_files_limit: must be at least %d, or 0", where, OPEN_FILES_MIN);
    if (entry->program.count == 0 && !surroundings_are_empty(&entry->surroundings))
        findings_error(findings,
                       "%s: environment, environment_file and directory have no meaning without a program: a plugin "
                       "has its plugin_settings",
                       where);
    if (entry->program.count == 0)
        return;
    if (entry->program.items[0][0] != '/')
        findings_error(findings,
                       "%s: program: \"%s\" is no absolute path; what a worker runs must not depend on its "
                       "directory or PATH",
                       where, entry->program.items[0]);
    if (entry->isolation != CONFIG_ISOLATION_BY_HANDLER)
        findings_error(findings, "%s: has both program and isolation; a program is started for each task anyway",
                       where);
    if (entry->tasks_per_process > 0 || entry->memory_per_process > 0)
        findings_error(findings,
                       "%s: tasks_per_process and memory_per_process have no meaning for a program: it is "
                       "started for each task",
                       where);
}

static void class_check(const struct config *config, const struct config_class *entry, struct findings *findings)
{
    const char *where = entry->source.where, *queue = entry->retry_queue;
    if (!is_utf8(entry->name))
        findings_error(findings, "%s: class: this name " BAD_CLASS, where);
    if (retry_read(entry->retry) == -2)
        findings_error(findings, "%s: retry: \"%s\" is not allowed here; expected handler, no, or a number up to %d",
                       where, entry->retry, ENVELOPE_RETRIES_MAX);
    if (queue[0] != '\0' && !queue_name_is_sound(queue))
        findings_error(
            findings,
            "%s: retry_queue: not 1 to %d bytes of UTF-8 without blanks and control characters, or begins with hf:",
            where, ENVELOPE_QUEUE_BYTES_MAX);
    if (retry_read(entry->retry) >= 0 && entry->retry_for_ns > 0)
        findings_error(findings, "%s: has both retry and retry_for; keep one", where);
    hold_check(config, where, "max_hold", entry->max_hold_ns, findings);
    process_check(entry, findings);
    bool takes_locks = entry->mode == CONFIG_MODE_CORRECTNESS || entry->mode == CONFIG_MODE_EFFICIENCY;
    if ((entry->lock == CONFIG_LOCK_NONE && takes_locks) ||
        (entry->lock == CONFIG_LOCK_REQUIRED && entry->mode == CONFIG_MODE_NONE))
        findings_error(findings, "%s: lock and mode contradict each other; keep one", where);
}

static void classes_check(const struct config *config, struct findings *findings)
{
    hold_check(config, config->lock.source.where, "lock.max_hold", config->lock.max_hold_ns, findings);
    for (size_t i = 0; i < config->class_count; i++) {
        const struct config_class *entry = &config->classes[i];
        class_check(config, entry, findings);
        const struct config_class *first = config_class_find(config, entry->name);
        if (entry->name[0] != '\0' && first != entry)
            findings_error(findings, "%s: the class %s has a second entry (%s)", entry->source.where, entry->name,
                           first->source.where);
    }
}

/* --- on_event ----------------------------------------------------------------------------------------------------- */

static const char *const event_names[] = {"dead", "skipped", "dropped", "lock_lost", "failed", "expired", NULL};

static bool event_is_known(const char *name)
{
    for (size_t i = 0; event_names[i] != NULL; i++)
        if (strcmp(event_names[i], name) == 0)
            return true;
    return false;
}

static void event_check(const struct config *config, struct findings *findings)
{
    const struct config_event *event = &config->on_event;
    const char *where = event->source.where;
    if (event->command.count > 0 && event->command.items[0][0] != '/')
        findings_error(findings,
                       "%s: on_event.command: \"%s\" is no absolute path; what a worker runs must not depend on its "
                       "directory or PATH",
                       where, event->command.items[0]);
    for (size_t i = 0; i < event->events.count; i++)
        if (!event_is_known(event->events.items[i]))
            findings_error(findings,
                           "%s: on_event.events: \"%s\" is not allowed here; expected dead, skipped, dropped, "
                           "lock_lost, failed, or expired",
                           where, event->events.items[i]);
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

static void http_check(struct config_http *http, struct findings *findings)
{
    struct http_address address;
    struct error error = ERROR_NONE;
    const char *where = http->source.where != NULL ? http->source.where : "";
    if (http->token_file[0] != '\0')
        http->token = secret_read_token(http->token_file, &error);
    for (size_t i = 0; i < http->listen.count && !error_is_set(&error); i++)
        if (http_address_read(http->listen.items[i], 0, &address, &error) && !address.is_local && http->token == NULL)
            error_set(&error, "%s: other machines can reach this address: set token_file, too", http->listen.items[i]);
    if (error_is_set(&error))
        findings_error(findings, "%s: http: %s", where, error.text);
}

enum { LOCK_NODES_MAX = 15 };

/* Checks what the table cannot. A file is read for each connection (redis/node.h). */
static void password_resolve(struct config_node *node, struct findings *findings)
{
    struct error error = ERROR_NONE;
    bool has_file = node->password_file[0] != '\0';
    if (has_file && node->password_env[0] != '\0')
        error_set(&error, "has both password_file and password_env; keep one");
    else if (node->password_env[0] != '\0')
        node->password = secret_read_environment(node->password_env, &error);
    else if (node->user[0] != '\0' && !has_file)
        error_set(&error, "has a user but neither password_file nor password_env");
    if (error_is_set(&error))
        findings_error(findings, "%s: %s: %s", node->source.where, node->name, error.text);
}

static bool has_text(const char *text)
{
    return text != NULL && text[0] != '\0';
}

static void host_take(struct config_node *node, struct findings *findings)
{
    struct error error = ERROR_NONE;
    if (!node_host_take(node, &error))
        findings_error(findings, "%s: %s: %s", node->source.where, node->name, error.text);
}

/* After the passwords were read. */
static void options_check(struct config_node *node, struct findings *findings)
{
    struct error error = ERROR_NONE;
    if (!node_options_check(node, &error))
        findings_error(findings, "%s: %s: %s", node->source.where, node->name, error.text);
}

/* For lock nodes the texts are NULL: they have no keys for sentinels. */
static void sentinel_password_check(struct config_node *node, struct findings *findings)
{
    struct error error = ERROR_NONE;
    if (has_text(node->sentinel_user) && !has_text(node->sentinel_password_file))
        error_set(&error, "has a sentinel_user but no sentinel_password_file");
    if (error_is_set(&error))
        findings_error(findings, "%s: %s: %s", node->source.where, node->name, error.text);
}

static void address_check(const struct config_node *node, struct findings *findings)
{
    bool may_have_sentinels = node->master != NULL;
    if (has_text(node->host) + has_text(node->unix_path) + (node->sentinels.count > 0) != 1)
        findings_error(findings, "%s: %s: needs either host (and port) or unix_path%s", node->source.where, node->name,
                       may_have_sentinels ? " or sentinels (and master)" : "");
}

static void sentinels_check(const struct config_node *node, struct findings *findings)
{
    if (node->sentinels.count > 0 && !has_text(node->master))
        findings_error(findings, "%s: %s: sentinels need the key master: the name under which they know the server",
                       node->source.where, node->name);
    if (node->sentinels.count == 0 &&
        (has_text(node->master) || has_text(node->sentinel_user) || has_text(node->sentinel_password_file)))
        findings_error(findings,
                       "%s: %s: master, sentinel_user and sentinel_password_file mean nothing without sentinels",
                       node->source.where, node->name);
}

static void node_check(struct config_node *node, struct findings *findings)
{
    size_t errors_before = findings->errors;
    if (node->source.where == NULL) { /* already reported as missing */
        node->source.is_broken = true;
        return;
    }
    address_check(node, findings);
    host_take(node, findings);
    sentinels_check(node, findings);
    password_resolve(node, findings);
    sentinel_password_check(node, findings);
    if (findings->errors == errors_before)
        options_check(node, findings);
    node->source.is_broken |= findings->errors > errors_before;
}

static bool nodes_have_one_address(const struct config_node *a, const struct config_node *b)
{
    if (a->unix_path[0] != '\0' || b->unix_path[0] != '\0')
        return strcmp(a->unix_path, b->unix_path) == 0;
    return strcasecmp(a->host, b->host) == 0 && a->port == b->port;
}

/* Two entries for one server would give it two votes. Another database is still the same server. */
static void lock_node_compare(const struct config *config, size_t index, struct findings *findings)
{
    const struct config_node *node = &config->lock_nodes[index];
    for (size_t i = 0; i < index; i++) {
        const struct config_node *other = &config->lock_nodes[i];
        if (node->source.is_broken || other->source.is_broken)
            continue;
        if (nodes_have_one_address(node, other))
            findings_error(findings, "%s: %s is the same server as %s (%s): every lock node has one vote",
                           node->source.where, node->name, other->name, other->source.where);
        if (strcmp(node->name, other->name) == 0)
            findings_error(findings, "%s: two lock nodes are called %s (%s)", node->source.where, node->name,
                           other->source.where);
    }
}

static void lock_nodes_check(struct config *config, struct findings *findings)
{
    size_t count = config->lock_node_count;
    for (size_t i = 0; i < count; i++) {
        struct config_node *node = &config->lock_nodes[i];
        node_check(node, findings);
        lock_node_compare(config, i, findings);
        if (!node->source.is_broken && node->call_timeout_ns > config->lock.ttl_ns / 4)
            findings_error(findings,
                           "%s: %s: the timeout is more than a quarter of lock.ttl: one slow node would use up "
                           "the lock",
                           node->source.where, node->name);
    }
    if (count > LOCK_NODES_MAX)
        findings_error(findings, "%s: more than %d lock nodes", config->lock_nodes[LOCK_NODES_MAX].source.where,
                       LOCK_NODES_MAX);
    if (count > 0 && count % 2 == 0)
        findings_error(findings, "%s: %zu lock nodes tolerate no more failures than %zu: use an odd number, 3 or 5",
                       config->lock_nodes[count - 1].source.where, count, count - 1);
}

static void node_forget(struct config_node *node)
{
    secret_free(node->password);
}

const char *config_node_address(const struct config_node *node, struct buffer *out)
{
    char shown[REDIS_ADDRESS_SHOWN_MAX];
    buffer_clear(out);
    if (node->sentinels.count > 0)
        buffer_format(out, "%s (by %zu sentinel%s)", node->master, node->sentinels.count,
                      node->sentinels.count == 1 ? "" : "s");
    else if (node->unix_path[0] != '\0')
        buffer_append_text(out, node->unix_path);
    else if (!redis_host_is_alone(node->host))
        buffer_append_text(out, redis_address_shown(node->host, shown));
    else
        buffer_format(out, "%s:%u", node->host, node->port);
    return buffer_text(out);
}

enum { LIST_ITEMS_MAX = 256, SETTING_PATH_MAX = 128 };

struct reader {
    struct findings *findings;
    const char *directory;
};

/* --- one key ------------------------------------------------------------------------------------------------ */

static void value_error(struct reader *reader, const struct config_value *value, const char *path, const char *text)
{
    findings_error(reader->findings, "%s:%u: %s: %s", value->file, value->line, path, text);
}

static bool kind_fits(const struct config_key *key, enum config_kind kind)
{
    switch (key->type) {
    case CONFIG_COUNT:
        return kind == CONFIG_IS_INTEGER;
    case CONFIG_RATIO:
        return kind == CONFIG_IS_INTEGER || kind == CONFIG_IS_REAL;
    case CONFIG_FLAG:
        return kind == CONFIG_IS_BOOL;
    case CONFIG_WORDS:
        return kind == CONFIG_IS_LIST || (key->may_be_one && kind == CONFIG_IS_TEXT);
    case CONFIG_PAIRS:
        return kind == CONFIG_IS_GROUP;
    default:
        return kind == CONFIG_IS_TEXT;
    }
}

/* As JSON: a list, a group or a number that is meant as a text of it. */
static void value_print(const struct config_value *value, struct buffer *out)
{
    bool is_group = value->kind == CONFIG_IS_GROUP, is_list = value->kind == CONFIG_IS_LIST;
    if (value->kind == CONFIG_IS_TEXT)
        config_text_print(value->text, out);
    else if (!is_group && !is_list)
        buffer_append_text(out, value->text);
    else
        buffer_append_text(out, is_group ? "{" : "[");
    for (size_t i = 0; i < value->count; i++) {
        if (is_group)
            buffer_format(out, "%s\"%s\": ", i > 0 ? ", " : "", value->items[i].name);
        else
            buffer_append_text(out, i > 0 ? ", " : "");
        value_print(&value->items[i], out);
    }
    if (is_group || is_list)
        buffer_append_text(out, is_group ? "}" : "]");
}

/* What to write instead, where the value leaves no doubt about it. */
static void meant_append(const struct config_key *key, const struct config_value *value, struct buffer *out)
{
    bool is_text = value->kind == CONFIG_IS_TEXT,
         is_truth = is_text && (strcmp(value->text, "true") == 0 || strcmp(value->text, "false") == 0),
         is_quantity = key->type == CONFIG_DURATION || key->type == CONFIG_SIZE;
    struct buffer meant = {0};
    if (is_quantity && value->kind == CONFIG_IS_INTEGER) {
        buffer_format(&meant, "\"%s%s\", for example", value->text, key->type == CONFIG_DURATION ? "s" : "B");
    } else if (key->type == CONFIG_TEXT && !is_text) {
        struct buffer text = {0};
        value_print(value, &text);
        config_text_print(buffer_text(&text), &meant);
        buffer_fini(&text);
    } else if (key->type == CONFIG_WORDS && is_text) {
        buffer_append_text(&meant, "[");
        config_text_print(value->text, &meant);
        buffer_append_text(&meant, "]");
    } else if (is_text && ((key->type == CONFIG_COUNT && value->text[strspn(value->text, "0123456789")] == '\0') ||
                           (key->type == CONFIG_FLAG && is_truth))) {
        buffer_append_text(&meant, value->text);
    }
    if (meant.length > 0)
        buffer_format(out, "; write %s = %s", key->name, buffer_text(&meant));
    buffer_fini(&meant);
}

static void type_error(struct reader *reader, const struct config_key *key, const struct config_value *value,
                       const char *path)
{
    struct buffer text = {0};
    buffer_append_text(&text, "expected ");
    config_key_expects(key, &text);
    bool is_empty = value->kind == CONFIG_IS_LIST && value->count == 0;
    buffer_format(&text, ", found %s", is_empty ? "an empty list" : config_kind_name(value->kind));
    if (!kind_fits(key, value->kind))
        meant_append(key, value, &text);
    value_error(reader, value, path, buffer_text(&text));
    buffer_fini(&text);
}

static void word_apply(struct reader *reader, const struct config_key *key, const struct config_value *item,
                       const char *path, struct config_words *words)
{
    size_t longest = key->item_max > 0 ? key->item_max : CONFIG_ITEM_MAX;
    char expected[96];
    snprintf(expected, sizeof expected, "every item is to be a text of 1 to %zu bytes in quotes", longest);
    if (item->kind != CONFIG_IS_TEXT || item->text[0] == '\0' || strlen(item->text) > longest)
        value_error(reader, item, path, expected);
    else if (config_words_hold(words, item->text))
        value_error(reader, item, path, "names the same one twice");
    else
        config_words_add(words, item->text);
}

static void words_apply(struct reader *reader, const struct config_key *key, const struct config_value *value,
                        const char *path, struct config_words *field)
{
    struct config_words words = {0};
    bool is_one = value->kind == CONFIG_IS_TEXT;
    const struct config_value *items = is_one ? value : value->items;
    size_t count = is_one ? 1 : value->count;
    if ((int64_t)count < key->min || (int64_t)count > key->max) {
        type_error(reader, key, value, path);
        return;
    }
    for (size_t i = 0; i < count; i++)
        word_apply(reader, key, &items[i], path, &words);
    for (size_t i = 0; i < field->count; i++)
        free(field->items[i]);
    free(field->items);
    *field = words;
}

static void pairs_apply(struct reader *reader, const struct config_value *value, const char *path,
                        struct config_pairs *field)
{
    for (size_t i = 0; i < value->count; i++) {
        const struct config_value *item = &value->items[i];
        if (item->kind == CONFIG_IS_TEXT)
            config_pairs_add(field, item->name, item->text);
        else
            findings_error(reader->findings, "%s:%u: %s.%s: its values are texts: write the value in quotes",
                           item->file, item->line, path, item->name);
    }
}

static void key_apply(struct reader *reader, const struct config_key *key, const struct config_value *value,
                      const char *path, void *field)
{
    struct error error = ERROR_NONE;
    if (value->was_cut)
        return; /* reported by the scan */
    if (!kind_fits(key, value->kind))
        type_error(reader, key, value, path);
    else if (key->type == CONFIG_WORDS)
        words_apply(reader, key, value, path, field);
    else if (key->type == CONFIG_PAIRS)
        pairs_apply(reader, value, path, field);
    else if (!config_key_parse(key, value->text, reader->directory, field, &error))
        value_error(reader, value, path, error.text);
}

/* --- sections ----------------------------------------------------------------------------------------------- */

static const struct config_key *key_find(const struct config_section *section, const char *name)
{
    for (const struct config_key *key = section->keys; key->name != NULL; key++)
        if (strcmp(key->name, name) == 0)
            return key;
    return NULL;
}

static void unknown_key(struct reader *reader, const struct config_section *section, const struct config_value *value,
                        const char *path)
{
    struct suggestion suggestion = suggestion_for(value->name);
    for (const struct config_key *key = section->keys; key->name != NULL; key++)
        suggestion_offer(&suggestion, key->name);
    char hint[SUGGEST_HINT_MAX];
    bool is_password = strcmp(value->name, "password") == 0 && key_find(section, "password_file") != NULL;
    findings_error(reader->findings, "%s:%u: %s.%s: there is no such key%s", value->file, value->line, path,
                   value->name,
                   is_password ? "; passwords are not written here, use password_file or password_env"
                               : suggestion_hint(&suggestion, hint));
}

static char *where_of(const struct config_value *value)
{
    struct buffer where = {0};
    buffer_format(&where, "%s:%u", value->file, value->line);
    char *text = memory_text(buffer_text(&where));
    buffer_fini(&where);
    return text;
}

static void group_apply(struct reader *reader, const struct config_section *section, const struct config_value *group,
                        const char *path, void *item)
{
    if (group->kind != CONFIG_IS_GROUP) {
        findings_error(reader->findings, "%s:%u: %s: expected a group { ... }, found %s", group->file, group->line,
                       path, config_kind_name(group->kind));
        return;
    }
    struct config_source *source = item; /* every section starts with one */
    size_t errors_before = reader->findings->errors;
    source->where = where_of(group);
    for (size_t i = 0; i < group->count; i++) {
        const struct config_value *value = &group->items[i];
        const struct config_key *key = key_find(section, value->name);
        source->is_broken |= value->was_cut;
        if (key == NULL) {
            unknown_key(reader, section, value, path);
            continue;
        }
        char key_path[SETTING_PATH_MAX];
        snprintf(key_path, sizeof key_path, "%s.%s", path, key->name);
        key_apply(reader, key, value, key_path, (char *)item + key->offset);
    }
    for (const struct config_key *key = section->keys; key->name != NULL; key++)
        if (key->is_required && config_value_member(group, key->name) == NULL)
            findings_error(reader->findings, "%s:%u: %s: the key %s is missing", group->file, group->line, path,
                           key->name);
    source->is_broken |= reader->findings->errors > errors_before;
}

static void list_apply(struct reader *reader, const struct config_section *section, const struct config_value *value,
                       struct config *config)
{
    if (value->kind != CONFIG_IS_LIST || value->count > LIST_ITEMS_MAX) {
        findings_error(reader->findings, "%s:%u: %s: expected a list of up to %d groups ( { ... }, { ... } ), found %s",
                       value->file, value->line, section->name, LIST_ITEMS_MAX, config_kind_name(value->kind));
        return;
    }
    if (value->count == 0)
        return;
    char *items = memory_zeroed(value->count, section->item_size);
    for (size_t i = 0; i < value->count; i++) {
        char path[SETTING_PATH_MAX];
        snprintf(path, sizeof path, "%s[%zu]", section->name, i);
        config_section_init(section, items + i * section->item_size);
        group_apply(reader, section, &value->items[i], path, items + i * section->item_size);
    }
    memcpy((char *)config + section->offset, &items, sizeof items);
    memcpy((char *)config + section->count_offset, &value->count, sizeof value->count);
}

static void unknown_section(struct reader *reader, const struct config_value *value)
{
    struct suggestion suggestion = suggestion_for(value->name);
    for (const struct config_section *section = config_sections; section->name != NULL; section++) {
        suggestion_offer(&suggestion, section->name);
        if (key_find(section, value->name) != NULL && !section->is_list) {
            findings_error(reader->findings, "%s:%u: %s: this key belongs into the group %s: %s = { %s = ...; };",
                           value->file, value->line, value->name, section->name, section->name, value->name);
            return;
        }
    }
    char hint[SUGGEST_HINT_MAX];
    findings_error(reader->findings, "%s:%u: %s: there is no such section%s", value->file, value->line, value->name,
                   suggestion_hint(&suggestion, hint));
}

static const struct config_section *section_find(const char *name)
{
    for (const struct config_section *section = config_sections; section->name != NULL; section++)
        if (strcmp(section->name, name) == 0)
            return section;
    return NULL;
}

static void sections_apply(struct reader *reader, const struct config_value *root, struct config *config)
{
    for (size_t i = 0; i < root->count; i++) {
        const struct config_value *value = &root->items[i];
        const struct config_section *section = section_find(value->name);
        if (section == NULL)
            unknown_section(reader, value);
        else if (section->is_list)
            list_apply(reader, section, value, config);
        else
            group_apply(reader, section, value, section->name, (char *)config + section->offset);
    }
    for (const struct config_section *section = config_sections; section->name != NULL; section++)
        if (section->is_required && config_value_member(root, section->name) == NULL)
            findings_error(reader->findings,
                           "%s: %sthe section %s is missing, which says where a Redis server is; `holdfast config "
                           "--sample` shows how to write it",
                           config->path, root->count == 0 ? "is not filled in yet: " : "", section->name);
}

/* --- defaults that are not constants ------------------------------------------------------------------------ */

static void text_default(char **field, const char *text)
{
    if ((*field)[0] != '\0')
        return;
    free(*field);
    *field = memory_text(text);
}

/* The directory where `make install` of a plugin puts it, if it exists. */
static void default_jobs_directory(struct config_worker *worker)
{
    char program[4096];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (worker->jobs_directory[0] != '\0' || length <= 0)
        return;
    program[length] = '\0';
    char *directory = config_directory_of(program);
    char *installed = config_path_join(directory, "../lib/holdfast/jobs");
    char *plugins = config_path_join(installed, "*.so");
    glob_t found;
    if (glob(plugins, GLOB_NOSORT, NULL, &found) == 0) {
        text_default(&worker->jobs_directory, installed);
        globfree(&found);
    }
    free(directory);
    free(installed);
    free(plugins);
}

static void defaults_resolve(struct config *config)
{
    char host[256] = "";
    default_jobs_directory(&config->worker);
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0')
        snprintf(host, sizeof host, "localhost");
    host[64] = '\0';
    text_default(&config->worker.host, host);
    text_default(&config->queue_node.name, "queue");
    for (size_t i = 0; i < config->lock_node_count; i++) {
        char name[32];
        snprintf(name, sizeof name, "lock%zu", i + 1);
        text_default(&config->lock_nodes[i].name, name);
    }
}

/* --- checks over several keys ------------------------------------------------------------------------------- */

static void names_check(const struct config *config, struct findings *findings)
{
    for (size_t i = 0; i < config->plugin_count; i++)
        for (size_t j = 0; j < i; j++)
            if (config->plugins[i].name[0] != '\0' && strcmp(config->plugins[i].name, config->plugins[j].name) == 0)
                findings_error(findings, "%s: the plugin %s has a second entry (%s)", config->plugins[i].source.where,
                               config->plugins[i].name, config->plugins[j].source.where);
    size_t common = strnlen(config->lock.prefix, strlen("hf:")); /* "h" and the resource "f:lock:group", for example */
    if (common > 0 && strncmp(config->lock.prefix, "hf:", common) == 0)
        findings_error(findings, "%s: lock.prefix: makes keys that begin with hf:, which are Holdfast's own",
                       config->lock.source.where);
    if (config->worker.source.where != NULL && strpbrk(config->worker.host, ": \t") != NULL)
        findings_error(findings, "%s: worker.host: is part of identities HOST:PID:NONCE and takes no colon or space",
                       config->worker.source.where);
}

/* --- the whole ---------------------------------------------------------------------------------------------- */

struct config *config_read(const char *path, struct findings *findings)
{
    struct config_file *file = config_file_read(path, findings);
    if (file == NULL)
        return NULL;
    struct config *config = memory_new(struct config);
    config->path = memory_text(path);
    for (const struct config_section *section = config_sections; section->name != NULL; section++)
        if (!section->is_list)
            config_section_init(section, (char *)config + section->offset);
    config->queue_node.name = memory_text("");
    struct reader reader = {.findings = findings, .directory = config_file_directory(file)};
    sections_apply(&reader, config_file_root(file), config);
    config_file_free(file);
    defaults_resolve(config);
    node_check(&config->queue_node, findings);
    lock_nodes_check(config, findings);
    names_check(config, findings);
    classes_check(config, findings);
    config_queues_check(config, findings);
    config_periodic_check(config, findings);
    event_check(config, findings);
    http_check(&config->http, findings);
    return config;
}

void config_free(struct config *config)
{
    if (config == NULL)
        return;
    free(config->queue_node.name); /* it is no key of this section */
    node_forget(&config->queue_node);
    secret_free(config->http.token);
    for (size_t i = 0; i < config->lock_node_count; i++)
        node_forget(&config->lock_nodes[i]);
    for (const struct config_section *section = config_sections; section->name != NULL; section++) {
        size_t count;
        char *items = config_section_items(section, config, &count);
        for (size_t i = 0; i < count; i++)
            config_section_fini(section, items + i * section->item_size);
        if (section->is_list)
            free(items);
    }
    free(config->path);
    free(config);
}

void config_clear_list(struct config *config, const char *name)
{
    const struct config_section *section = section_find(name);
    size_t count = 0;
    invariant(section != NULL && section->is_list);
    char *items = config_section_items(section, config, &count);
    for (size_t i = 0; i < count; i++)
        config_section_fini(section, items + i * section->item_size);
    free(items);
    items = NULL;
    count = 0;
    memcpy((char *)config + section->offset, &items, sizeof items);
    memcpy((char *)config + section->count_offset, &count, sizeof count);
}

const char *config_plugin_setting(const struct config *config, const char *plugin, const char *key)
{
    for (size_t i = 0; i < config->plugin_count; i++) {
        const struct config_plugin *entry = &config->plugins[i];
        if (strcmp(entry->name, plugin) != 0)
            continue;
        for (size_t j = 0; j < entry->settings.count; j++)
            if (strcmp(entry->settings.items[j].key, key) == 0)
                return entry->settings.items[j].value;
    }
    return NULL;
}

/* Read through a memory file like any other file, so the same rules apply. */
struct config *config_read_written(const struct buffer *text, struct findings *findings)
{
    char path[64];
    struct config *config = NULL;
    int fd = memfd_create("configuration", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fd >= 0 && fchmod(fd, 0600) == 0 && write(fd, text->bytes, text->length) == (ssize_t)text->length)
        config = config_read(path, findings);
    else
        findings_error(findings, "the configuration of this run cannot be kept: %s", strerror(errno));
    if (fd >= 0)
        close(fd);
    return config;
}
