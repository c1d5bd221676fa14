/* Where a command takes its configuration, and with it its nodes, from: one set of options for all commands.
 *
 *     struct example { struct origin origin; ... };
 *     {OPTION_TABLE, .table = origin_options, .offset = offsetof(struct example, origin)}          in its table
 *     int code = origin_open(&example.origin, &command_example, ORIGIN_NEEDS_LOCKS, &config);
 *     ...
 *     origin_close(&example.origin);
 *
 * In this order: -c FILE, --local, the options of the queue node or of lock nodes (then nothing else is known of the
 * fleet), $HOLDFAST_LOCK_NODES for a command that takes lock nodes, else the first of these files that is there:
 * $HOLDFAST_CONFIG, ./holdfast.conf, $XDG_CONFIG_HOME/holdfast/holdfast.conf, /etc/holdfast/holdfast.conf. Root and
 * services do not look at ./holdfast.conf, which others may have put there. A file that is there and cannot be read, or
 * is wrong, ends the command; the next one is not tried. Where there is none, a command that only reads from the queue
 * node takes 127.0.0.1:6379, and says so. A command that changes something takes nothing in place of a file: neither
 * that address, nor another file where ./holdfast.conf is passed over. */
#ifndef WORKER_ORIGIN_H
#define WORKER_ORIGIN_H

#include <stdbool.h>
#include <stdint.h>

#include "redlock/redlock.h"
#include "worker/commands/command.h"
#include "worker/config/command_options.h"
#include "worker/config/config.h"

enum origin_kind {
    ORIGIN_GIVEN,   /* -c FILE */
    ORIGIN_LOCAL,   /* --local */
    ORIGIN_OPTIONS, /* --host, --port ..., or lock nodes */
    ORIGIN_FOUND,   /* a file that was looked for */
    ORIGIN_DEFAULT, /* no file was found */
};

enum origin_needs {
    ORIGIN_NEEDS_NOTHING, /* what a file says counts; without one the defaults will do */
    ORIGIN_NEEDS_QUEUE,   /* the queue node will do */
    ORIGIN_NEEDS_LOCKS,   /* lock nodes too, or what else only a configuration says */
};

struct origin {
    /* What the options say. */
    const char *path;
    bool is_local, is_verbose;
    const char *host, *socket, *user, *password_file, *password_env;
    bool has_tls;
    const char *tls_ca_file, *tls_cert_file, *tls_key_file, *tls_server_name;
    int64_t port, database;
    bool has_port, has_database;
    int64_t node_timeout_ns; /* 0 = not given */
    bool takes_lock_nodes;   /* of the command: $HOLDFAST_LOCK_NODES counts */
    bool changes;            /* of the command: more than reading */
    struct option_texts lock_nodes;
    /* From origin_open on. */
    enum origin_kind kind;
    char *found;                          /* the file of ORIGIN_FOUND and ORIGIN_LOCAL */
    char *listed;                         /* what `lock_nodes` points to when the environment named them */
    char *secrets[REDLOCK_NODES_MAX + 1]; /* addresses with passwords, which are hidden where `ps` looks */
    size_t secret_count;
    bool is_of_environment;
    bool is_passed_over; /* ./holdfast.conf, which is there and is not `found` */
    bool is_told;
};

#define ORIGIN_HEADLINE "Which configuration, and which nodes"
extern const struct option_row origin_options[];       /* -c, --local, -v */
extern const struct option_row origin_queue_options[]; /* and those of the queue node: for ORIGIN_NEEDS_QUEUE */
extern const struct option_row origin_lock_options[];  /* and those of lock nodes: with takes_lock_nodes */

/* The file, NULL when there is none; complains, and returns an exit code. Also sets `kind`. */
int origin_find(struct origin *origin, const struct command *command, enum origin_needs needs) MUST_CHECK;
const char *origin_path(const struct origin *origin); /* after it; NULL: of the options, or of nothing */

/* origin_find, and what the file says. Complains, and returns an exit code; the configuration becomes the caller's.
 * `warnings` gets what was found in it and may be NULL. */
int origin_open(struct origin *origin, const struct command *command, enum origin_needs needs, struct config **config,
                struct findings *warnings) MUST_CHECK;
void origin_close(struct origin *origin);

/* Says on standard error which configuration the command uses, once; with -v also one that the user named. For
 * failures, and before what cannot be undone. */
void origin_tell(struct origin *origin, const struct command *command);

/* The files that are looked for, in their order; at most ORIGIN_FILES, the others are NULL; each is freed by the
 * caller. Pure. */
enum { ORIGIN_FILES = 4 };
struct origin_surroundings {
    const char *holdfast_config, *xdg_config_home, *home; /* of the environment; NULL = not set */
    bool is_trusting;                                     /* looks at the working directory */
};
void origin_files(const struct origin_surroundings *surroundings, char *files[ORIGIN_FILES]);

#endif
