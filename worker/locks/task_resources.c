#include "worker/locks/task_resources.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "queue/envelope.h"
#include "worker/task/task_rules.h"

static enum task_resources_answer bad(struct task_resources *resources, const char *fault)
{
    resources->count = 0;
    resources->fault = fault;
    return TASK_RESOURCES_BAD;
}

/* Takes the resources that the task names, in the order of the envelope. */
static enum task_resources_answer own_take(struct task_resources *resources, const struct envelope *envelope,
                                           const struct task_rules *rules, const struct class_resources *known,
                                           struct error *error)
{
    if (rules->limit > 1 && envelope->resource_count > 1) {
        (void)error_set(error, "its class has a limit of %u, which is for one resource, and it names %u", rules->limit,
                        envelope->resource_count);
        return bad(resources, "HF::BadResource");
    }
    for (unsigned i = 0; i < envelope->resource_count; i++) {
        if (known != NULL && !class_resources_allow(known, envelope->resources[i], rules, error))
            return bad(resources, "HF::ResourceMode");
        resources->names[i] = envelope->resources[i];
    }
    resources->count = envelope->resource_count;
    return TASK_RESOURCES_OK;
}

static enum task_resources_answer templates_fill(struct task_resources *resources,
                                                 const struct resource_templates *templates, struct text_span args,
                                                 struct error *error)
{
    size_t starts[ENVELOPE_RESOURCES_MAX];
    for (unsigned i = 0; i < templates->count; i++) {
        starts[i] = resources->texts.length;
        if (!resource_template_fill(&templates->items[i], args, &resources->texts, error))
            return bad(resources, "HF::BadResource");
        buffer_append(&resources->texts, "", 1);
    }
    /* only now, because the texts may have moved while they grew */
    for (unsigned i = 0; i < templates->count; i++)
        envelope_resource_insert(resources->names, &resources->count, resources->texts.bytes + starts[i]);
    return TASK_RESOURCES_OK;
}

enum task_resources_answer task_resources_resolve(struct task_resources *resources, const struct envelope *envelope,
                                                  const struct task_rules *rules, const struct class_resources *known,
                                                  struct error *error)
{
    resources->count = 0;
    resources->fault = NULL;
    buffer_clear(&resources->texts);
    if (rules->mode == CONFIG_MODE_NONE)
        return TASK_RESOURCES_NONE;
    if (envelope->resource_count > 0)
        return own_take(resources, envelope, rules, known, error);
    const struct resource_templates *templates =
        known != NULL ? class_resources_find(known, envelope->class_name) : NULL;
    return templates != NULL ? templates_fill(resources, templates, envelope->args, error) : TASK_RESOURCES_NONE;
}

void task_resources_fini(struct task_resources *resources)
{
    buffer_fini(&resources->texts);
}

/* --- what the tasks of a class lock ------------------------------------------------------------------------------- */

struct class_entry {
    char *class_name;
    char *where; /* in the configuration or the plugin */
    enum config_mode mode;
    unsigned limit;
    struct resource_templates templates;
};

/* Sorted by class_name, like the handlers. */
struct class_resources {
    struct class_entry *items;
    size_t count;
};

/* --- templates ---------------------------------------------------------------------------------------------------- */

static void template_add(struct resource_templates *templates, const char *text, const char *where, const char *what,
                         struct findings *findings)
{
    struct error error = ERROR_NONE;
    struct resource_template made;
    if (!resource_template_parse(&made, text, &error)) {
        findings_error(findings, "%s: %s: %s", where, what, error.text);
        return;
    }
    templates->items = memory_resize(templates->items, templates->count + 1, sizeof *templates->items);
    templates->items[templates->count++] = made;
}

static void templates_of_config(struct resource_templates *templates, const struct config_class *entry,
                                struct findings *findings)
{
    for (size_t i = 0; i < entry->resource.count; i++)
        template_add(templates, entry->resource.items[i], entry->source.where, "resource", findings);
}

static void templates_of_handler(struct resource_templates *templates, const struct plugin_handler *handler,
                                 struct findings *findings)
{
    char what[ENVELOPE_CLASS_BYTES_MAX + 64];
    const char *path = handler->origin;
    snprintf(what, sizeof what, "the handler of %s: resources", handler->class_name);
    for (size_t i = 0; handler->resources != NULL && handler->resources[i] != NULL; i++) {
        if (i == ENVELOPE_RESOURCES_MAX) {
            findings_error(findings, "%s: %s: more than %d; does the list end with NULL?", path, what,
                           ENVELOPE_RESOURCES_MAX);
            return;
        }
        template_add(templates, handler->resources[i], path, what, findings);
    }
}

static void templates_fini(struct resource_templates *templates)
{
    for (unsigned i = 0; i < templates->count; i++)
        resource_template_fini(&templates->items[i]);
    free(templates->items);
    *templates = (struct resource_templates){.count = 0};
}

/* --- modes -------------------------------------------------------------------------------------------------------- */

static const struct resource_template *meeting_of(const struct class_entry *a, const struct class_entry *b,
                                                  const struct resource_template **other)
{
    for (unsigned i = 0; i < a->templates.count; i++)
        for (unsigned j = 0; j < b->templates.count; j++)
            if (resource_templates_meet(&a->templates.items[i], &b->templates.items[j])) {
                *other = &b->templates.items[j];
                return &a->templates.items[i];
            }
    return NULL;
}

static void pair_check(const struct class_entry *a, const struct class_entry *b, struct findings *findings)
{
    const struct resource_template *other = NULL;
    if (a->mode == b->mode && a->limit == b->limit)
        return;
    const struct resource_template *one = meeting_of(a, b, &other);
    if (one == NULL)
        return;
    if (a->mode == b->mode) {
        findings_error(findings,
                       "%s: the class %s has the resource \"%.200s\" and a limit of %u, and the class %s has "
                       "\"%.200s\" and a limit of %u (%s): a resource has one limit; give one of them a name that "
                       "begins otherwise, or both classes one limit",
                       b->where, b->class_name, other->text, b->limit, a->class_name, one->text, a->limit, a->where);
        return;
    }
    findings_error(findings,
                   "%s: the class %s has the resource \"%.200s\" in mode %s, and the class %s has \"%.200s\" in mode "
                   "%s (%s): a resource belongs to one mode; give one of them a name that begins otherwise, or both "
                   "classes one mode",
                   b->where, b->class_name, other->text, class_mode_name(b->mode), a->class_name, one->text,
                   class_mode_name(a->mode), a->where);
}

static const struct resource_template *owner_of(const struct class_entry *entry, const char *name)
{
    for (unsigned j = 0; j < entry->templates.count; j++)
        if (resource_template_owns(&entry->templates.items[j], name))
            return &entry->templates.items[j];
    return NULL;
}

bool class_resources_allow(const struct class_resources *resources, const char *name, const struct task_rules *rules,
                           struct error *error)
{
    for (size_t i = 0; i < resources->count; i++) {
        const struct class_entry *entry = &resources->items[i];
        bool has_its_mode = entry->mode == rules->mode;
        const struct resource_template *owner =
            has_its_mode && entry->limit == rules->limit ? NULL : owner_of(entry, name);
        if (owner == NULL)
            continue;
        if (!has_its_mode)
            return error_set(error,
                             "its class has the mode %s, and a resource that begins with \"%.200s\" belongs to "
                             "the mode %s: the class %s has the resource \"%.200s\"",
                             class_mode_name(rules->mode), owner->prefix, class_mode_name(entry->mode),
                             entry->class_name, owner->text);
        return error_set(error,
                         "its class has a limit of %u, and a resource that begins with \"%.200s\" has a limit of %u: "
                         "the class %s has the resource \"%.200s\"",
                         rules->limit, owner->prefix, entry->limit, entry->class_name, owner->text);
    }
    return true;
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

static void entry_add(struct class_resources *resources, const struct config *config,
                      const struct plugin_handler *handler, struct findings *findings)
{
    const struct config_class *settings = config_class_find(config, handler->class_name);
    struct class_entry made = {.mode = class_mode_of(config, settings, handler), .limit = class_limit_of(settings)};
    if (settings != NULL && settings->resource.count > 0)
        templates_of_config(&made.templates, settings, findings);
    else
        templates_of_handler(&made.templates, handler, findings);
    if (made.mode == CONFIG_MODE_NONE)
        templates_fini(&made.templates); /* they were checked, but the class locks nothing */
    if (made.limit > 1 && made.templates.count > 1)
        findings_error(
            findings,
            "%s: limit: the class %s has %u resources, and a limit is for one; make one name of them, or set "
            "the limit to 1",
            settings->source.where, handler->class_name, made.templates.count);
    if (made.templates.count == 0)
        return;
    made.class_name = memory_text(handler->class_name);
    made.where = memory_text(settings != NULL ? settings->source.where : handler->origin);
    resources->items = memory_resize(resources->items, resources->count + 1, sizeof *resources->items);
    resources->items[resources->count++] = made;
}

static void unserved_check(const struct config *config, const struct plugins *plugins, struct findings *findings)
{
    for (size_t i = 0; i < config->class_count; i++) {
        struct resource_templates templates = {.count = 0};
        if (plugins_find(plugins, config->classes[i].name) != NULL)
            continue;
        templates_of_config(&templates, &config->classes[i], findings);
        templates_fini(&templates);
    }
}

struct class_resources *class_resources_create(const struct config *config, const struct plugins *plugins,
                                               struct findings *findings)
{
    struct class_resources *resources = memory_new(struct class_resources);
    for (size_t i = 0; i < plugins_handler_count(plugins); i++)
        entry_add(resources, config, plugins_handler_at(plugins, i), findings);
    unserved_check(config, plugins, findings);
    for (size_t i = 0; i < resources->count; i++)
        for (size_t j = 0; j < i; j++)
            pair_check(&resources->items[j], &resources->items[i], findings);
    return resources;
}

void class_resources_free(struct class_resources *resources)
{
    if (resources == NULL)
        return;
    for (size_t i = 0; i < resources->count; i++) {
        free(resources->items[i].class_name);
        free(resources->items[i].where);
        templates_fini(&resources->items[i].templates);
    }
    free(resources->items);
    free(resources);
}

static int compare_class(const void *class_name, const void *entry)
{
    return strcmp(class_name, ((const struct class_entry *)entry)->class_name);
}

const struct resource_templates *class_resources_find(const struct class_resources *resources, const char *class_name)
{
    if (resources->count == 0)
        return NULL;
    const struct class_entry *found =
        bsearch(class_name, resources->items, resources->count, sizeof *resources->items, compare_class);
    return found != NULL ? &found->templates : NULL;
}
