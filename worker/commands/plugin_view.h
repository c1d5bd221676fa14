/* What there is to run tasks, as the commands about plugins show it. */
#ifndef WORKER_PLUGIN_VIEW_H
#define WORKER_PLUGIN_VIEW_H

#include "worker/print/json_writer.h"
#include "worker/config/config.h"
#include "worker/plugin/plugin.h"

/* Two tables: plugins, and classes. Without a configuration (NULL) the classes are as their handlers say. */
void plugin_view_print(const struct plugins *plugins, const struct config *config);
/* The members `plugins`, each with its `classes`, and `programs`. */
void plugin_view_json(struct json_writer *json, const struct plugins *plugins, const struct config *config);
/* The members `errors` and `warnings`. */
void plugin_findings_json(struct json_writer *json, const struct findings *findings);

#endif
