#include "worker/periodic/periodic_entry.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"

enum { PATIENCE_MIN_S = 60, RETRY_DIGITS_MAX = 7 };

/* --- making ----------------------------------------------------------------------------------------------------- */

static bool times_take(struct periodic_entry *entry, struct error *error)
{
    char quoted[LOG_QUOTE_MAX];
    if (!cron_parse(entry->config->cron, &entry->cron, error)) {
        error_prefix(error, "cron %s", log_quote(entry->config->cron, quoted));
        return false;
    }
    entry->zone = time_zone_open(entry->config->zone, error);
    if (entry->zone == NULL)
        error_prefix(error, "zone");
    return entry->zone != NULL;
}

/* Checked by itself: put into the task, `[1],"queue":[2]` would become more than arguments. */
static bool args_check(const struct config_periodic *config, const struct envelope_limits *limits, struct error *error)
{
    if (!json_check(config->args, strlen(config->args), limits, error)) {
        error_prefix(error, "args");
        return false;
    }
    return config->args[0] == '[' || error_set(error, "args: expected a JSON array: \"[1, \\\"two\\\"]\"");
}

/* Else it is left to the class. */
static bool has_retry(const struct config_periodic *config)
{
    return strcmp(config->retry, "class") != 0;
}

static bool retry_check(const struct config_periodic *config, struct error *error)
{
    size_t digits = strspn(config->retry, "0123456789");
    bool is_number = digits > 0 && digits <= RETRY_DIGITS_MAX && config->retry[digits] == '\0' &&
                     (digits == 1 || config->retry[0] != '0');
    if (!has_retry(config) || (is_number && strtol(config->retry, NULL, 10) <= ENVELOPE_RETRIES_MAX))
        return true;
    return error_set(error, "retry: expected \"class\" or a number from \"0\" to \"%d\"", ENVELOPE_RETRIES_MAX);
}

bool periodic_entry_init(struct periodic_entry *entry, const struct config_periodic *config,
                         const struct envelope_limits *limits, struct error *error)
{
    *entry = (struct periodic_entry){.config = config};
    if (!times_take(entry, error) || !args_check(config, limits, error) || !retry_check(config, error))
        return false;
    struct buffer schedule = {0};
    buffer_format(&schedule, "%s %s", config->cron, config->zone);
    entry->schedule = memory_text(buffer_text(&schedule));
    buffer_fini(&schedule);
    entry->builder = task_builder_create(&(struct hf_task){.queue = config->queue,
                                                           .retry = has_retry(config) ? config->retry : NULL,
                                                           .resources = (const char *const *)config->resources.items,
                                                           .resource_count = config->resources.count},
                                         limits, NULL, error);
    /* What fits with the longest times that there are always will. */
    struct built_task task;
    return entry->builder != NULL &&
           periodic_entry_task(entry, PERIODIC_LATEST_S, (struct wall_time){PERIODIC_LATEST_S * US_PER_S}, &task,
                               error);
}

void periodic_entry_fini(struct periodic_entry *entry)
{
    time_zone_close(entry->zone);
    free(entry->schedule);
    task_builder_destroy(entry->builder);
    buffer_fini(&entry->text);
}

struct periodic_entries *periodic_entries_make(const struct config *config, const struct envelope_limits *limits,
                                               struct error *error)
{
    struct periodic_entries *entries = memory_new(struct periodic_entries);
    entries->items = memory_zeroed(config->periodic_count + 1, sizeof *entries->items);
    while (entries->count < config->periodic_count) {
        const struct config_periodic *source = &config->periodic[entries->count];
        bool is_made = periodic_entry_init(&entries->items[entries->count++], source, limits, error);
        if (!is_made) {
            error_prefix(error, "%s: periodic task \"%s\"", source->source.where, source->name);
            periodic_entries_free(entries);
            return NULL;
        }
    }
    return entries;
}

void periodic_entries_free(struct periodic_entries *entries)
{
    for (size_t i = 0; entries != NULL && i < entries->count; i++)
        periodic_entry_fini(&entries->items[i]);
    if (entries != NULL)
        free(entries->items);
    free(entries);
}

/* --- when ------------------------------------------------------------------------------------------------------- */

/* A tick is never exactly on time, so an entry that skips missed ticks has a minute, too. */
int64_t periodic_entry_patience_s(const struct periodic_entry *entry)
{
    int64_t seconds = entry->config->catch_up_ns / NS_PER_S;
    return entry->config->missed == CONFIG_MISSED_SKIP || seconds < PATIENCE_MIN_S ? PATIENCE_MIN_S : seconds;
}

int64_t periodic_entry_plan(const struct periodic_entry *entry, int64_t noted, int64_t now, bool *skipped)
{
    int64_t oldest = now - periodic_entry_patience_s(entry);
    int64_t after = noted >= oldest ? noted : oldest - 1;
    int64_t latest = cron_latest(&entry->cron, after, now, entry->zone);
    int64_t next = latest != CRON_NEVER ? latest : cron_next(&entry->cron, noted > now ? noted : now, entry->zone);
    int64_t first = noted < now ? cron_next(&entry->cron, noted, entry->zone) : next;
    *skipped = first < next;
    return next;
}

/* --- what ------------------------------------------------------------------------------------------------------- */

static void member_append(struct buffer *out, const char *name, const char *text)
{
    buffer_format(out, "\"%s\":", name);
    envelope_append_string(out, text, strlen(text));
}

bool periodic_entry_task(struct periodic_entry *entry, int64_t tick, struct wall_time now, struct built_task *task,
                         struct error *error)
{
    const struct config_periodic *config = entry->config;
    struct buffer *out = &entry->text;
    buffer_clear(out);
    buffer_append_text(out, "{");
    member_append(out, "class", config->class_name);
    buffer_format(out, ",\"args\":%s,", config->args);
    member_append(out, "periodic", config->name);
    buffer_append_text(out, ",\"tick\":");
    envelope_append_time(out, (struct wall_time){tick * US_PER_S});
    if (config->expires_in_ns > 0) {
        buffer_append_text(out, ",\"expires_in\":");
        envelope_append_time(out, (struct wall_time){config->expires_in_ns / NS_PER_US});
    }
    buffer_append_text(out, "}");
    return task_build(entry->builder, out->bytes, out->length, now, task, error);
}
