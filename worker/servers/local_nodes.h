/* The nodes of `--local`: a queue node that keeps its data, and three lock nodes, on this machine and for this user.
 *
 *     code = local_nodes_start(&path, &told, &error);        `holdfast work --local`, `local start`
 *     code = local_nodes_find(&path, &error);                every other command with --local
 *     config = config_read(path, &findings);
 *
 * All of them is in one directory, $XDG_STATE_HOME/holdfast/local (by default ~/.local/state/holdfast/local):
 *
 *     local.conf            a complete configuration, and so the record of ports; written anew by each start
 *     password              of all four servers, drawn once
 *     lock                  which processes live, see below
 *     NAME.conf, NAME.log   of each server: queue, lock1, lock2, lock3
 *     queue/                the data
 *
 * The servers outlive the process that started them. No process id is recorded: each server, each worker and each
 * command that changes something holds a byte of the file `lock` (fcntl). The kernel frees the byte when that process
 * ends, and names its holder. So there is never a second server on the same data, and no process is ended that is not
 * ours.
 *
 * All functions return an exit code; when it is not EXIT_CODE_OK, `error` says what is wrong and what to do. They block
 * for some seconds; a start that finds no answer, for half a minute. The process must have one thread and no loop. */
#ifndef WORKER_SERVERS_LOCAL_NODES_H
#define WORKER_SERVERS_LOCAL_NODES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/error.h"
#include "worker/print/exit_code.h"
#include "worker/servers/local_record.h"

/* Starts the servers that do not run, after waiting for another start that goes on. Lock nodes that are all new become
 * a group, so that nothing waits for a quarantine. `path` is that of the configuration, freed by the caller; lines that
 * people should read are written to `told` as they come. From now on this process counts as a worker of these nodes. */
enum exit_code local_nodes_start(char **path, FILE *told, struct error *error) MUST_CHECK;
/* A further process of the same worker counts as well: locks are not inherited by fork. */
enum exit_code local_nodes_join(struct error *error) MUST_CHECK;

/* Starts nothing: EXIT_CODE_TEMPORARY when no local nodes run. */
enum exit_code local_nodes_find(char **path, struct error *error) MUST_CHECK;

struct local_nodes_view {
    char *directory;  /* freed by local_nodes_view_fini */
    pid_t worker;     /* one of those that live; 0 = none does */
    unsigned up;      /* servers */
    bool is_changing; /* a command is starting or ending them: they may be up, and not a lock group yet */
    struct local_node_view {
        const char *name;
        unsigned port; /* 0 = there is no record */
        bool is_up;
        pid_t pid;     /* 0 = not known */
        int64_t bytes; /* of data on disk */
    } nodes[LOCAL_NODES];
};
enum exit_code local_nodes_look(struct local_nodes_view *view, struct error *error) MUST_CHECK;
void local_nodes_view_fini(struct local_nodes_view *view);

/* Ends the servers in order, and the data stays; or at once, and `removes` all that is in the directory. Harmless when
 * there is nothing. */
enum exit_code local_nodes_end(bool removes, struct error *error) MUST_CHECK;

#endif
