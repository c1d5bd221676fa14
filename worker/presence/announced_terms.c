#include "worker/presence/announced_terms.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "queue/envelope.h"
#include "worker/task/task_rules.h"

/* --- writing ------------------------------------------------------------------------------------------------------ */

static int compare_texts(const void *one, const void *other)
{
    return strcmp(*(const char *const *)one, *(const char *const *)other);
}

/* What a task locks does not depend on the order of the templates. */
static void templates_write(const char *const *templates, size_t count, struct buffer *out)
{
    const char *sorted[ENVELOPE_RESOURCES_MAX];
    count = count < ENVELOPE_RESOURCES_MAX ? count : ENVELOPE_RESOURCES_MAX;
    for (size_t i = 0; i < count; i++)
        sorted[i] = templates[i];
    qsort(sorted, count, sizeof sorted[0], compare_texts);
    for (size_t i = 0; i < count; i++) {
        buffer_append_text(out, i > 0 ? " and " : "");
        envelope_append_string(out, sorted[i], strlen(sorted[i]));
    }
    if (count == 0)
        buffer_append_text(out, "what a task names");
}

static void class_words_write(const struct config_class *entry, const struct plugin_handler *handler,
                              enum config_mode mode, struct buffer *out)
{
    size_t count = 0;
    while (handler->resources != NULL && handler->resources[count] != NULL)
        count++;
    if (mode == CONFIG_MODE_NONE) {
        buffer_append_text(out, "no lock"); /* enlist.lua knows these words */
        return;
    }
    buffer_append_text(out, class_limit_of(entry) > 1 ? "one of several seats of " : "a lock on ");
    if (entry != NULL && entry->resource.count > 0)
        templates_write((const char *const *)entry->resource.items, entry->resource.count, out);
    else
        templates_write(handler->resources, count, out);
}

static void class_write(const struct config *config, const struct plugin_handler *handler, struct buffer *out)
{
    const struct config_class *entry = config_class_find(config, handler->class_name);
    enum config_mode mode = class_mode_of(config, entry, handler);
    struct buffer name = {0}, words = {0}, rest = {0};
    int64_t hold_ns = entry != NULL && entry->max_hold_ns > 0 ? entry->max_hold_ns : handler->max_hold_ms * NS_PER_MS;
    buffer_format(&name, TERMS_OF_CLASS "%s", handler->class_name);
    class_words_write(entry, handler, mode, &words);
    buffer_format(&rest, "mode %s, limit %u, max_hold %lld ms", class_mode_name(mode), class_limit_of(entry),
                  (long long)((hold_ns > 0 ? hold_ns : config->lock.max_hold_ns) / NS_PER_MS));
    terms_append(out, buffer_text(&name), buffer_text(&words), buffer_text(&rest));
    buffer_fini(&name);
    buffer_fini(&words);
    buffer_fini(&rest);
}

static void locks_write(const struct config *config, const char *group, struct buffer *out)
{
    struct buffer words = {0}, rest = {0};
    if (group[0] != '\0')
        buffer_format(&words, config->lock_node_count > 1 ? "in lock group %s" : "on the single lock node %s", group);
    else
        buffer_append_text(&words, "on a single lock node that nobody has used yet (it has no id)");
    buffer_append_text(&words, " below ");
    envelope_append_string(&words, config->lock.prefix, strlen(config->lock.prefix));
    buffer_format(&rest, "lease %lld ms", (long long)(config->worker.lease_ns / NS_PER_MS));
    terms_append(out, TERMS_OF_LOCKS, buffer_text(&words), buffer_text(&rest));
    buffer_fini(&words);
    buffer_fini(&rest);
}

void announced_terms_write(const struct config *config, const struct plugins *plugins, const char *group,
                           struct buffer *out)
{
    bool locks = false;
    for (size_t i = 0; i < plugins_handler_count(plugins); i++) {
        const struct plugin_handler *handler = plugins_handler_at(plugins, i);
        const struct config_class *entry = config_class_find(config, handler->class_name);
        locks = locks || class_mode_of(config, entry, handler) != CONFIG_MODE_NONE;
    }
    if (locks && group != NULL)
        locks_write(config, group, out);
    for (size_t i = 0; i < plugins_handler_count(plugins); i++)
        class_write(config, plugins_handler_at(plugins, i), out);
}

/* --- what is announced -------------------------------------------------------------------------------------------- */

struct announced_terms {
    struct announced_terms_options options;
    char *wanted;    /* NULL = not known yet */
    char *announced; /* the same, but for classes that have tasks of former terms */
    char *answered;  /* of the last answer; NULL = none */
    char *waits;
    bool is_pending;               /* `announced` is not `wanted` */
    bool serves_all, serves_locks; /* all that is wanted, and that holds for locks */
    struct buffer reason;          /* why it does not */
    struct buffer warned;          /* the last warnings, one a line */
    struct buffer told;            /* while an answer is read: those of it */
};

static void text_set(char **text, const char *value)
{
    char *copy = memory_text(value);
    free(*text);
    *text = copy;
}

static bool is_busy(const struct announced_terms *terms, struct text_span name)
{
    size_t prefix = sizeof TERMS_OF_CLASS - 1;
    if (name.length < prefix || memcmp(name.bytes, TERMS_OF_CLASS, prefix) != 0)
        return false;
    char *class_name = memory_text_of(name.bytes + prefix, name.length - prefix);
    bool answer = terms->options.is_busy(terms->options.context, class_name);
    free(class_name);
    return answer;
}

/* The former words of an item whose tasks are not all gone. */
static bool is_kept(const struct announced_terms *terms, const struct terms_item *former)
{
    struct terms_item now;
    bool is_same = terms_find(terms->wanted, former->name, &now) && terms_span_equals(former->breaking, now.breaking);
    return !is_same && is_busy(terms, former->name);
}

static void line_append(struct buffer *out, const struct terms_item *item)
{
    buffer_format(out, "%.*s\t%.*s\t%.*s\n", (int)item->name.length, item->name.bytes, (int)item->breaking.length,
                  item->breaking.bytes, (int)item->disturbing.length, item->disturbing.bytes);
}

/* True when something former has to stay. */
static bool announcement_write(const struct announced_terms *terms, struct buffer *out)
{
    struct terms_item item, former;
    struct buffer kept = {0};
    for (const char *at = terms->announced != NULL ? terms->announced : ""; terms_next(&at, &former);)
        if (is_kept(terms, &former))
            line_append(&kept, &former);
    for (const char *at = terms->wanted; terms_next(&at, &item);)
        if (!terms_find(buffer_text(&kept), item.name, &former))
            line_append(out, &item);
    bool is_pending = kept.length > 0;
    buffer_append(out, kept.bytes, kept.length);
    buffer_fini(&kept);
    return is_pending;
}

static void announce(struct announced_terms *terms)
{
    struct buffer text = {0};
    terms->is_pending = announcement_write(terms, &text);
    if (terms->announced == NULL || strcmp(terms->announced, buffer_text(&text)) != 0) {
        text_set(&terms->announced, buffer_text(&text));
        queue_announce(terms->options.queue, terms->announced);
    }
    buffer_fini(&text);
}

/* --- what may be served ------------------------------------------------------------------------------------------- */

static bool item_is_served(const struct announced_terms *terms, struct text_span name)
{
    struct terms_item wanted, answered;
    return terms_find(terms->wanted, name, &wanted) && terms_find(terms->answered, name, &answered) &&
           terms_span_equals(wanted.breaking, answered.breaking) && !terms_lists(terms->waits, name);
}

static const struct text_span of_locks = {TERMS_OF_LOCKS, sizeof TERMS_OF_LOCKS - 1};

static void served_note(struct announced_terms *terms)
{
    struct terms_item locks;
    terms->serves_all =
        terms->answered != NULL && terms->waits[0] == '\0' && strcmp(terms->wanted, terms->answered) == 0;
    terms->serves_locks = terms->serves_all && terms_find(terms->wanted, of_locks, &locks);
}

bool announced_terms_are_known(const struct announced_terms *terms)
{
    return terms->answered != NULL;
}

bool announced_terms_allow(const struct announced_terms *terms, const char *class_name, bool locks)
{
    if (locks ? terms->serves_locks : terms->serves_all)
        return true;
    if (terms->answered == NULL)
        return false;
    struct buffer line = {0}, name = {0};
    struct terms_item item;
    buffer_format(&name, TERMS_OF_CLASS "%s", class_name);
    terms_append(&line, buffer_text(&name), "", "");
    const char *at = buffer_text(&line);
    bool allows =
        terms_next(&at, &item) && item_is_served(terms, item.name) && (!locks || item_is_served(terms, of_locks));
    buffer_fini(&line);
    buffer_fini(&name);
    return allows;
}

const char *announced_terms_reason(const struct announced_terms *terms)
{
    return terms->reason.length > 0 ? buffer_text((struct buffer *)&terms->reason) : "";
}

/* --- the answer --------------------------------------------------------------------------------------------------- */

struct telling {
    struct announced_terms *terms;
    struct buffer reason, fields; /* of the other whose name comes first: they come in any order */
    const char *other;
};

/* First, as the end of a long text is cut. */
#define WAITS "waits until all with other terms have ended: "

/* A sentence is too long for a value of the log. */
static void fields_write(const struct terms_difference *difference, struct buffer *out)
{
    char name[LOG_QUOTE_MAX], here[LOG_QUOTE_MAX], there[LOG_QUOTE_MAX], other[LOG_QUOTE_MAX];
    buffer_format(out, "item=%s here=%s there=%s other=%s",
                  log_value_bytes(difference->name.bytes, difference->name.length, name),
                  log_value_bytes(difference->here.bytes, difference->here.length, here),
                  log_value_bytes(difference->there.bytes, difference->there.length, there),
                  log_value(difference->other, other));
}

static void difference_note(void *context, const struct terms_difference *difference)
{
    struct telling *telling = context;
    if (!difference->breaks) {
        fields_write(difference, &telling->terms->told);
        buffer_append_text(&telling->terms->told, "\n");
    } else if ((telling->other == NULL || strcmp(difference->other, telling->other) < 0) &&
               terms_lists(telling->terms->waits, difference->name)) {
        telling->other = difference->other;
        buffer_clear(&telling->reason);
        buffer_clear(&telling->fields);
        buffer_format(&telling->reason, WAITS "%s", difference->sentence);
        fields_write(difference, &telling->fields);
    }
}

/* A warning that was not among the last ones. */
static void warnings_log(struct announced_terms *terms)
{
    char *copy = memory_text(buffer_text(&terms->told)), *rest = copy;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;)
        if (line[0] != '\0' && !terms_lists(buffer_text(&terms->warned), (struct text_span){line, strlen(line)}))
            log_event(LOG_WARN, "terms_differ", "advice=\"give all workers the same\" %s", line);
    free(copy);
    buffer_clear(&terms->warned);
    buffer_append(&terms->warned, terms->told.bytes, terms->told.length);
}

static void reason_take(struct announced_terms *terms, struct telling *telling)
{
    bool waited = terms->reason.length > 0;
    bool is_same = strcmp(buffer_text(&terms->reason), buffer_text(&telling->reason)) == 0;
    buffer_fini(&terms->reason);
    terms->reason = telling->reason;
    if (!is_same && terms->reason.length > 0)
        log_event(LOG_WARN, "terms_wait", "advice=\"not served until all with other terms have ended\" %s",
                  buffer_text(&telling->fields));
    else if (!is_same && waited)
        log_event(LOG_INFO, "terms_served", "advice=\"no other terms are left: all is served\"");
    buffer_fini(&telling->fields);
}

/* The others may be those that the queue node has forgotten, or more than it tells of. */
static void reason_guess(struct telling *telling)
{
    char name[LOG_QUOTE_MAX];
    const char *waits = telling->terms->waits;
    size_t length = strcspn(waits, "\n");
    buffer_format(&telling->reason,
                  WAITS "%.*s: others with other terms may be there, which the queue node has forgotten", (int)length,
                  waits);
    buffer_format(&telling->fields, "item=%s reason=\"the queue node has forgotten the others\"",
                  log_value_bytes(waits, length, name));
}

void announced_terms_told(struct announced_terms *terms, const char *text, const char *waits,
                          const struct terms_party *others, size_t count)
{
    struct telling telling = {.terms = terms};
    struct terms_party own = {terms->options.identity, text, waits};
    text_set(&terms->answered, text);
    text_set(&terms->waits, waits);
    buffer_clear(&terms->told);
    for (size_t i = 0; i < count; i++)
        terms_compare(&own, &others[i], difference_note, &telling);
    if (waits[0] != '\0' && telling.reason.length == 0)
        reason_guess(&telling);
    warnings_log(terms);
    reason_take(terms, &telling);
    served_note(terms);
    terms->options.changed(terms->options.context);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

void announced_terms_set(struct announced_terms *terms, const char *text)
{
    text_set(&terms->wanted, text);
    served_note(terms);
    announce(terms);
}

void announced_terms_look(struct announced_terms *terms)
{
    if (terms->is_pending)
        announce(terms);
}

struct announced_terms *announced_terms_create(const struct announced_terms_options *options)
{
    struct announced_terms *terms = memory_new(struct announced_terms);
    terms->options = *options;
    return terms;
}

void announced_terms_destroy(struct announced_terms *terms)
{
    if (terms == NULL)
        return;
    free(terms->wanted);
    free(terms->announced);
    free(terms->answered);
    free(terms->waits);
    buffer_fini(&terms->reason);
    buffer_fini(&terms->warned);
    buffer_fini(&terms->told);
    free(terms);
}
