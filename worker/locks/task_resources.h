/* What a task locks: what it names itself, else what the templates of its class make of its arguments.
 *
 *     enum task_resources_answer answer = task_resources_resolve(&resources, &envelope, &rules, known, &error);
 *     if (answer == TASK_RESOURCES_OK)
 *         lock resources.names[0 .. count - 1]
 *     else if (answer == TASK_RESOURCES_BAD)
 *         bury it with resources.fault and error.text
 *     else if (rules.must_lock)
 *         bury it: HF::NoResource
 *
 * A task of a class that locks nothing has none, whatever it names. Pure; any thread. */
#ifndef WORKER_TASK_RESOURCES_H
#define WORKER_TASK_RESOURCES_H

#include "queue/envelope.h"
#include "worker/config/config.h"
#include "worker/config/findings.h"
#include "worker/locks/resource_template.h"
#include "worker/plugin/plugin.h"
#include "worker/task/task_rules.h"

/* --- what the tasks of a class lock ------------------------------------------------------------------------------- */

/* What the tasks of each class lock that name no resource themselves (resource_template.h), and to which mode
 * (task_rules.h) the names belong that such templates make.
 *
 * A resource belongs to one mode. A class that locks it for efficiency only may run unlocked or let it linger, and a
 * class that relies on it for correctness would not be protected from that one. The names themselves are not known
 * before the tasks come, so the beginnings of the templates stand for them: two classes of different modes whose
 * templates could make the same name are refused at the start, and a task that names a resource itself is refused when
 * the name begins as a template of another mode does. Classes without lock have no part in it.
 *
 * Made from the configuration and the plugins at the start and at every reload, constant afterwards; any thread. */

struct class_resources; /* opaque */

struct resource_templates {
    struct resource_template *items;
    unsigned count; /* at most ENVELOPE_RESOURCES_MAX */
};

/* Of all classes that a plugin serves. What is wrong is told in `findings`, also about classes that nobody serves; a
 * wrong template is left out. Nothing of config and plugins is kept. */
struct class_resources *class_resources_create(const struct config *config, const struct plugins *plugins,
                                               struct findings *findings);
void class_resources_free(struct class_resources *resources); /* NULL is fine */

/* NULL when the class has none. */
const struct resource_templates *class_resources_find(const struct class_resources *resources, const char *class_name);
/* False, with a reason, when resources with this name belong to another mode than `mode`. */
bool class_resources_allow(const struct class_resources *resources, const char *name, enum config_mode mode,
                           struct error *error) MUST_CHECK;

/* --- what a task locks -------------------------------------------------------------------------------------------- */

enum task_resources_answer {
    TASK_RESOURCES_OK,   /* there are some */
    TASK_RESOURCES_NONE, /* it names none, and its class has no template */
    TASK_RESOURCES_BAD,  /* they cannot be told, or must not be locked by this class: it must not run */
};

/* Begins zeroed; task_resources_fini frees. May be used again and again. */
struct task_resources {
    const char *names[ENVELOPE_RESOURCES_MAX]; /* sorted by bytes, without duplicates */
    unsigned count;
    const char *fault; /* the class of the error: HF::BadResource, HF::ResourceMode; NULL = none */
    struct buffer texts;
};

/* `known` is what the templates are found in; NULL = there are none. The names live as long as the envelope and until
 * the next call. */
enum task_resources_answer task_resources_resolve(struct task_resources *resources, const struct envelope *envelope,
                                                  const struct task_rules *rules, const struct class_resources *known,
                                                  struct error *error);
void task_resources_fini(struct task_resources *resources);

#endif
