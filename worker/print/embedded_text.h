/* Files that are part of the program (scripts/embed-texts). A table ends with a name that is NULL. */
#ifndef WORKER_EMBEDDED_TEXT_H
#define WORKER_EMBEDDED_TEXT_H

#include <stdbool.h>
#include <stddef.h>

struct embedded_text {
    const char *directory, *name; /* the last of its directories, and the file: "python", "Makefile" */
    bool is_executable;
    const char *text;
};

extern const struct embedded_text plugin_templates[]; /* jobs/template; the directory is the language */
extern const struct embedded_text page_texts[];       /* the style and the scripts of pages */
extern const struct embedded_text user_rules[];       /* conf/redis-users.conf */

#endif
