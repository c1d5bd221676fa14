/* Private to plugin.c (what is loaded), plugin_load.c (one library), plugin_file.c (those of a directory) and
 * plugin_programs.c. */
#ifndef WORKER_PLUGIN_PRIVATE_H
#define WORKER_PLUGIN_PRIVATE_H

#include "worker/plugin/plugin.h"

/* A handler with what is its own; NULL where the texts are the plugin's. */
struct handler_entry {
    struct plugin_handler handler; /* first */
    char *class_name, *about, *origin;
    char **program, **environment, *directory; /* of a program */
};

/* A set of plugins and handlers, and what was made for it: a set that follows on another shares with that what did not
 * change. The set of the worker takes over what its successors have made, so that all of it is there until the end. */
struct plugins {
    struct plugin **items;
    size_t count;
    const struct plugin_handler **handlers; /* sorted by class_name once all are there */
    size_t handler_count;
    struct plugin **own;
    size_t own_count;
    struct handler_entry **own_handlers;
    size_t own_handler_count;
    unsigned generation; /* of what is loaded for it; the first is 1 */
};

/* What is to be loaded. */
struct library {
    int fd;
    const char *path; /* for messages */
    struct file_identity identity;
    void (*loaded)(void *context); /* may be NULL */
    void *context;
};

/* Loads it, and adds what it serves; a descriptor of a library that is in memory stays open. */
void plugins_add_library(struct plugins *plugins, const struct library *library, struct findings *findings);
/* The plugin was made for this set, which frees it; its handlers are not added. */
void plugins_add(struct plugins *plugins, struct plugin *plugin);
/* It belongs to another set. */
void plugins_share(struct plugins *plugins, struct plugin *plugin, const struct plugins *of);
/* The entry was made for this set. */
void plugins_add_handler(struct plugins *plugins, struct handler_entry *entry);
void plugins_share_handler(struct plugins *plugins, const struct plugin_handler *handler);
void plugins_sort(struct plugins *plugins);
const struct plugin_handler *plugins_handler_of(const struct plugins *plugins, const char *class_name); /* unsorted */
void plugin_free(struct plugin *plugin);

#endif
