/* The files of plugins: which there are, and whether they can be trusted. */
#ifndef WORKER_PLUGIN_FILE_H
#define WORKER_PLUGIN_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/config/findings.h"

enum { PLUGINS_MAX = 256 }; /* of a directory */

/* An open directory of plugins, -1 if it is refused (the reason is among the findings). */
int plugin_directory_open(const char *directory, struct findings *findings);
/* The directory of the plugins that come with Holdfast in which NAME.so is: beside the program in a build tree, in
 * ../lib/holdfast once it is installed. To be freed; NULL when none of them has that name. */
char *plugin_shipped_directory(const char *name);
/* The names of all that come with it; to be freed with their array. */
char **plugin_shipped_list(size_t *count);
/* The names of its *.so files without the ending, sorted; to be freed with their array. */
char **plugin_directory_list(int directory_fd, size_t *count);
bool plugin_directory_has(int directory_fd, const char *name);
/* A descriptor (O_PATH) of NAME.so, -1 if it is refused. `directory` is for messages only. */
int plugin_file_open(int directory_fd, const char *directory, const char *name, struct findings *findings);

#endif
