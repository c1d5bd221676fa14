/* Vetting plugins: a child process loads each file and looks at its descriptor before the worker maps it. A constructor
 * that crashes, ends the process, hangs or aborts costs the child only, and the plugin is refused with the reason.
 *
 *     struct vetted_file files[] = {{.fd = fd, .path = path}, ...};
 *     plugin_vetting_run(files, count, &findings);
 *     for each: if (!files[i].is_refused) ... load it, from the same descriptor
 *
 * The child is this program itself (/proc/self/exe), started by posix_spawn with the descriptors of the files: so what
 * was vetted is what is loaded, and it does not matter how many threads the caller has, nor what state their locks are
 * in, as it would for a fork. All files are vetted by one child, one after the other; when it dies, the file at which
 * it was is refused, and another child goes on behind it. A file that takes longer than 20 seconds is refused, and
 * its child killed together with its process group. What the child prints is dropped, but its last line is reported
 * with the reason.
 *
 * A program that calls this has to call plugin_vetting_serve when it is started so. open() is not called, nor check().
 * This is no sandbox: the child has all rights of the caller. It finds accidents, not attacks.
 *
 * Threads: any; the caller waits. If the caller dies, the child is killed. */
#ifndef WORKER_PLUGIN_VETTING_H
#define WORKER_PLUGIN_VETTING_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/config/findings.h"

/* The first argument of a program that is started to vet. */
#define PLUGIN_VETTING_ARGUMENT "--vet-plugins"

struct vetted_file {
    int fd;           /* of the file; O_PATH will do */
    const char *path; /* for messages */
    bool is_refused;  /* out: there is an error about it among the findings */
};

void plugin_vetting_run(struct vetted_file *files, size_t count, struct findings *findings);
/* The child: `arguments` are those behind PLUGIN_VETTING_ARGUMENT. Does not return. */
_Noreturn void plugin_vetting_serve(int count, char **arguments);

#endif
