/* The plugins that come with Holdfast. */
#ifndef WORKER_PLUGIN_FILE_H
#define WORKER_PLUGIN_FILE_H

#include <stddef.h>

/* The directory of those in which NAME.so is: beside the program in a build tree, in ../lib/holdfast once it is
 * installed. To be freed; NULL when none of them has that name. */
char *plugin_shipped_directory(const char *name);
/* The names of all; to be freed with their array. */
char **plugin_shipped_list(size_t *count);

#endif
