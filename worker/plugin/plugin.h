/* The plugins of a worker: loaded from one directory, checked before anything of them is called, never unloaded.
 *
 *     struct plugins *plugins = plugins_load_vetted(directory, names, name_count, &findings);
 *     if (findings.errors == 0 && plugins_open(plugins, host_for, context, &error)) {
 *         const struct plugin_handler *handler = plugins_find(plugins, "transfer");    NULL: nobody serves it
 *         handler->run(job, plugin_handler_state(handler)) ...
 *     }
 *     plugins_close(plugins);
 *
 * Threads: all of this belongs to the main thread, except that plugins_find and the handlers may be read by any
 * thread between plugins_open and plugins_close. */
#ifndef WORKER_PLUGIN_H
#define WORKER_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "jobs/job.h"
#include "worker/config/findings.h"

struct plugin; /* opaque */

/* What a class of tasks is run by. The texts belong to the plugin. */
struct plugin_handler {
    const char *class_name;
    const char *about;                    /* may be NULL */
    uint32_t flags;                       /* HF_LOCK_REQUIRED, HF_SERIAL, ... */
    int (*run)(hf_job *job, void *state); /* NULL for a program */
    const char *const *program;           /* the file and its first arguments, ends with NULL; NULL = a plugin's */
    int (*check)(const char *args, size_t length, char *reason, size_t reason_size); /* may be NULL */
    unsigned retries;                                                                /* 0 = as usual */
    int64_t retry_for_ms;                                                            /* 0 = not limited by time */
    const char *retry_queue;                                                         /* NULL = where it came from */
    int64_t expires_in_ms;                                                           /* 0 = never */
    enum hf_mode mode;
    const char *const *resources; /* templates, ends with NULL; NULL = none */
    enum hf_on_conflict on_conflict;
    int64_t hold_at_least_ms; /* 0 = not at all */
    enum hf_isolation isolation;
    int64_t timeout_ms, grace_ms, max_hold_ms; /* 0 = as usual */
    const struct plugin *plugin;
};

struct plugins;

/* Loads NAME.so for every name or, when there are none, all *.so of the directory in the order of their names. Every
 * plugin that is refused is an error among the findings; the others are there. Constructors of the libraries run
 * here, open() does not. */
struct plugins *plugins_load(const char *directory, char *const *names, size_t name_count, struct findings *findings);
/* The same after a child process has tried each file (plugin_vetting.h): what crashes there is refused. */
struct plugins *plugins_load_vetted(const char *directory, char *const *names, size_t name_count,
                                    struct findings *findings);
/* Loads the file into this process only to see what is wrong with it: for that child. `loaded` is called between the
 * constructors and the look at the descriptor. */
void plugin_inspect(int fd, const char *path, void (*loaded)(void *context), void *context, struct findings *findings);
/* The one of an open file that was checked before, in another process perhaps; takes the descriptor. */
struct plugins *plugins_load_file(int fd, const char *path, struct findings *findings);
/* Calls open() of each plugin with the host that `host_for` makes for it (by the plugin's name). Stops at the first
 * that refuses; plugins_close then closes those before it. */
bool plugins_open(struct plugins *plugins, const struct hf_host *(*host_for)(void *context, const char *plugin_name),
                  void *context, struct error *error) MUST_CHECK;
/* Calls close() of those that are open, in reverse order, and frees. The libraries stay in memory: unloading code
 * that threads have run is not safe. NULL is fine. */
void plugins_close(struct plugins *plugins);

const struct plugin_handler *plugins_find(const struct plugins *plugins, const char *class_name);
size_t plugins_handler_count(const struct plugins *plugins);
const struct plugin_handler *plugins_handler_at(const struct plugins *plugins, size_t index); /* sorted by class */
size_t plugins_count(const struct plugins *plugins);
const struct plugin *plugins_at(const struct plugins *plugins, size_t index);

const char *plugin_name(const struct plugin *plugin);
const char *plugin_version(const struct plugin *plugin);
const char *plugin_path(const struct plugin *plugin);
/* The descriptor of what was loaded (O_PATH), for loading the same elsewhere. */
int plugin_file(const struct plugin *plugin);
void *plugin_handler_state(const struct plugin_handler *handler);

#endif
