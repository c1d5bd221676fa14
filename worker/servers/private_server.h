/* One server of its own: a process on a port of 127.0.0.1 that nobody else can take, with its files in a directory that
 * is given to it. It keeps nothing on disk, and dies with the thread that started it, unless private_server_keep says
 * otherwise.
 *
 *     private_server_init(&server, "lock1", directory, password);
 *     if (!private_server_reserve(&server, &error) || !private_server_start(&server, program, &error) ||
 *         !private_server_await(&server, deadline, &error))
 *         ...
 *     private_server_kill(&server);
 *     private_server_fini(&server);
 *
 * The port is held by a socket of ours that is bound to it and does not listen: the kernel then gives it to nobody,
 * also while the server is dead. The server may bind it all the same, because both say SO_REUSEADDR. So may another
 * program that got this port, and then the first to listen has it.
 *
 * A server that is kept outlives us. It holds one byte of an open file, its life, by a lock (fcntl) that the kernel
 * gives free when it ends: so every process can see whether it lives, and under which id, and no second one can be
 * started while it does. The locks of a process on a file go when it closes any descriptor of that file.
 *
 * It is started without SIGINT of the terminal (a session of its own). Only private_server_await and _kill block. */
#ifndef WORKER_SERVERS_PRIVATE_SERVER_H
#define WORKER_SERVERS_PRIVATE_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/error.h"

struct private_server {
    char name[16];
    int lives; /* it is kept, and this is the file of lives; -1 = it dies with us */
    off_t life;
    char *data_path; /* of one that is kept: where it runs */
    bool keeps_data;
    char *config_path, *log_path, *program;
    char *password;
    int reservation; /* -1 = none */
    unsigned port;
    pid_t pid; /* 0 = not running */
    /* A clock that can be stepped, or NULLs: what is loaded into it, and where its offset is, in a file of its own. */
    char *preload, *clock_path;
    volatile int64_t *clock_offset_ns;
};

void private_server_init(struct private_server *server, const char *name, const char *directory, const char *password);
/* It must have been killed. */
void private_server_fini(struct private_server *server);

/* Its clock can be stepped from now on: `preload` is a library that is loaded into it. Before it is started. */
bool private_server_give_clock(struct private_server *server, const char *preload, struct error *error) MUST_CHECK;
/* It is kept: it runs in `directory`/NAME, which is made, has an append-only file there when it `keeps_data`, and holds
 * the byte `life` of the file `lives`. Before it is started. */
void private_server_keep(struct private_server *server, int lives, off_t life, bool keeps_data);
bool private_server_reserve(struct private_server *server, struct error *error) MUST_CHECK;
/* This port; false when another program has it. */
bool private_server_reserve_port(struct private_server *server, unsigned port) MUST_CHECK;
/* The port is held no longer. Harmless when none is. */
void private_server_release(struct private_server *server);
/* Starts the process, the first time or after it was killed: empty. Does not wait until it answers. */
bool private_server_start(struct private_server *server, const char *program, struct error *error) MUST_CHECK;
/* Returns when it answers; false when it has ended or the deadline is there, with the last lines of its log. */
bool private_server_await(struct private_server *server, struct instant deadline, struct error *error) MUST_CHECK;
/* Whether it answers this command with just this line, after the password. Blocks for a moment. */
bool private_server_answers(const struct private_server *server, const char *command, const char *line);
/* Also when it was stopped; harmless when it does not run. */
void private_server_kill(struct private_server *server);
/* Whether the process is there; one that ended by itself is not. Of one that is kept, whichever process started it. */
bool private_server_lives(struct private_server *server);

/* Holds a byte of an open file for this process, alone or together with others. False when others are in the way. */
bool life_hold(int lives, off_t byte, bool is_shared);
/* Whether another process holds it, and who: 0 when that process is out of sight (of another container). */
bool life_is_held(int lives, off_t byte, pid_t *holder);

/* --- a lock group of new servers ---------------------------------------------------------------------------------- */

/* Makes lock nodes that have just been started, and hold nothing, a lock group, as `holdfast nodes init` does.
 *
 * A process does it that is forked for this: it wants a loop, and the caller will fork again. So the caller must have
 * one thread and no loop. Blocks, for 15 s at most. */

/* Of three servers or more. `max_ttl_ns`: 1 s to 10 min, 0 = as `holdfast nodes init` has it: 60 s. */
bool new_group_make(const struct private_server *servers, unsigned count, int64_t max_ttl_ns,
                    struct error *error) MUST_CHECK;

/* --- the directory of a dry run ----------------------------------------------------------------------------------- */

/* A directory below TMPDIR (/tmp) for the files of a dry run, readable by nobody else. Its path is known before it is
 * there, so that another process can be charged with removing it (cleanup.h). */

/* Of the run with that id, which is random. The caller frees it. */
char *temporary_directory_path(const char *run);
/* False when it cannot be made, or is there already: then it is not ours. */
bool temporary_directory_make(const char *path, struct error *error) MUST_CHECK;
/* With everything in it, if it is a directory of this user. Links are not followed. False when something is left,
 * because a program still writes there. */
bool temporary_directory_remove(const char *path);

#endif
