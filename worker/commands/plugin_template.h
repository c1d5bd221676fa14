/* The files of a new handler, from jobs/template: made into a part of the program by scripts/embed-templates. */
#ifndef WORKER_PLUGIN_TEMPLATE_H
#define WORKER_PLUGIN_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>

/* What stands in the text where the name of the handler belongs, and in `name` before the ending. */
#define PLUGIN_TEMPLATE_NAME "@NAME@"
#define PLUGIN_TEMPLATE_FILE "handler"

struct plugin_template {
    const char *language; /* NULL ends the list */
    const char *name;     /* of the file */
    bool is_executable;
    const char *text;
};

extern const struct plugin_template plugin_templates[];

#endif
