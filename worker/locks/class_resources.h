/* What the tasks of each class lock that name no resource themselves (resource_template.h), and to which mode
 * (class_mode.h) the names belong that such templates make.
 *
 * A resource belongs to one mode. A class that locks it for efficiency only may run unlocked or let it linger, and a
 * class that relies on it for correctness would not be protected from that one. The names themselves are not known
 * before the tasks come, so the beginnings of the templates stand for them: two classes of different modes whose
 * templates could make the same name are refused at the start, and a task that names a resource itself is refused when
 * the name begins as a template of another mode does. Classes without lock have no part in it.
 *
 * Made from the configuration and the plugins at the start and at every reload, constant afterwards; any thread. */
#ifndef WORKER_CLASS_RESOURCES_H
#define WORKER_CLASS_RESOURCES_H

#include "worker/config/config.h"
#include "worker/config/findings.h"
#include "worker/plugin/plugin.h"
#include "worker/locks/resource_template.h"

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

#endif
