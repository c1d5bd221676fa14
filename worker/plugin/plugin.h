/* The plugins of a worker: loaded from one directory, checked before anything of them is called, never unloaded; and
 * the programs that the configuration names for classes of tasks (plugin_programs.h).
 *
 *     struct plugins *plugins = plugins_load_vetted(directory, names, name_count, &findings);
 *     if (findings.errors == 0 && plugins_open(plugins, host_for, context, &error)) {
 *         const struct plugin_handler *handler = plugins_find(plugins, "transfer");    NULL: nobody serves it
 *         handler->run(job, plugin_handler_state(handler)) ...
 *     }
 *     plugins_close(plugins);
 *
 * A worker that reads its configuration again loads what has changed beside what it has (plugins_load_again), and then
 * its set becomes another (plugins_become): at one instant, on the thread that owns it. Plugins and handlers stay where
 * they are until plugins_close, so pointers to them stay valid.
 *
 * Threads: the set belongs to one thread, the main one and then the loop's. Handlers may be read by any thread. */
#ifndef WORKER_PLUGIN_H
#define WORKER_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/error.h"
#include "jobs/job.h"
#include "worker/config/findings.h"

/* By this a file is recognised as the one that was loaded. */
struct file_identity {
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec modified, changed;
};

/* To look at; only the files of this folder change it. */
struct plugin {
    char *path;
    int file; /* what was loaded, for loading the same elsewhere; open for as long as the library is in memory */
    struct file_identity identity;
    unsigned generation;
    hf_plugin descriptor; /* version and build are "" where the plugin says nothing */
    void *state;
    bool is_open;
};

/* What a class of tasks is run by. The texts belong to the plugin. */
struct plugin_handler {
    const char *class_name;
    const char *about;                    /* may be NULL */
    uint32_t flags;                       /* HF_LOCK_REQUIRED, HF_SERIAL, ... */
    int (*run)(hf_job *job, void *state); /* NULL for a program */
    const char *const *program;           /* the file and its first arguments, ends with NULL; NULL = a plugin's */
    const char *const *environment;       /* of a program, from the configuration: "NAME=VALUE", ends with NULL */
    const char *directory;                /* of a program; NULL = / */
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
    const char *origin;                        /* for messages: the plugin's file, or file and line of the program */
    const struct plugin *plugin;               /* NULL = a program */
};

struct plugins; /* what there is to run tasks: plugins and handlers */

/* None. */
struct plugins *plugins_create(void);
/* Loads NAME.so for every name, from the directory or, when it has none, from those that come with Holdfast; without
 * names all *.so of the directory in the order of their names. A directory "" has none. Every
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

/* Which plugins are opened, and with what. */
struct plugin_opening {
    const struct hf_host *(*host_for)(void *hosts, const char *plugin_name);
    void *hosts;
    /* Whether run() of this handler will be called in this process; NULL = of all. A plugin none of whose handlers runs
     * here is not opened. */
    bool (*runs_here)(void *context, const struct plugin_handler *handler);
    void *context;
};

/* Calls open() of each plugin that is not open yet. Stops at the first that refuses; plugins_close then closes those
 * before it. */
bool plugins_open_for(struct plugins *plugins, const struct plugin_opening *opening, struct error *error) MUST_CHECK;
/* Of all. */
bool plugins_open(struct plugins *plugins, const struct hf_host *(*host_for)(void *context, const char *plugin_name),
                  void *context, struct error *error) MUST_CHECK;
/* Calls close() of those that are open, in reverse order, and frees. The libraries stay in memory: unloading code
 * that threads have run is not safe. NULL is fine. */
void plugins_close(struct plugins *plugins);

/* The directory of a plugin that comes with Holdfast: beside the program in a build tree, in ../lib/holdfast once it is
 * installed. To be freed; NULL when none of them has that name. */
char *plugin_shipped_directory(const char *name);
/* The names of all of these; to be freed with their array. */
char **plugin_shipped_list(size_t *count);

/* --- another generation ----------------------------------------------------------------------------------------- */

/* The directory as it is now. What has not changed since it was loaded for `running` (by device, inode, size and
 * times of the file) is shared with that; what has changed, or is new, is copied into memory, vetted and loaded beside
 * the old code, which tasks that run go on using. Any one thread, while nobody changes `running`. */
struct plugins *plugins_load_again(const struct plugins *running, const char *directory, char *const *names,
                                   size_t name_count, struct findings *findings);
/* Whether nothing has changed. */
bool plugins_are_same(const struct plugins *plugins, const struct plugins *others);
/* From here on `plugins` is what `fresh` is, which is gone. Handlers and plugins that are not in it any more stay where
 * they are until plugins_close. */
void plugins_become(struct plugins *plugins, struct plugins *fresh);
/* Instead of that: nothing changes, but what was loaded for `fresh` is closed by plugins_close, and not now. */
void plugins_keep(struct plugins *plugins, struct plugins *fresh);
/* How often anything was loaded: 1 at first. */
unsigned plugins_generation(const struct plugins *plugins);

/* --- looking up ------------------------------------------------------------------------------------------------- */

const struct plugin_handler *plugins_find(const struct plugins *plugins, const char *class_name);
/* From now on nobody serves this class here. Before anybody looks it up. */
void plugins_leave_out(struct plugins *plugins, const char *class_name);
size_t plugins_handler_count(const struct plugins *plugins);
const struct plugin_handler *plugins_handler_at(const struct plugins *plugins, size_t index); /* sorted by class */
size_t plugins_count(const struct plugins *plugins);
const struct plugin *plugins_at(const struct plugins *plugins, size_t index);

void *plugin_handler_state(const struct plugin_handler *handler);

/* Handlers that are part of the program: a set of plugins that were loaded from nowhere. */

/* A set of one plugin without handlers, which is open: `state` is what its handlers are given, and stays the caller's.
 * `name` is copied. */
struct plugins *plugins_create_built_in(const char *name, void *state);
/* Adds a copy of the handler, as one of that plugin. What it points to is the caller's, and stays until plugins_close.
 * A class that is there already is not added again: false. Before anybody looks it up. */
bool plugins_add_built_in(struct plugins *plugins, const struct plugin_handler *handler);

#endif
