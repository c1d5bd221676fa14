/* Socket pairs and pipes inside a host: what a worker has of its children. Both ends have descriptors at first; one may
 * be passed on, by a message, to the world's own code, which has it as a struct local. A file that is passed on is read
 * there as one, too. */
#ifndef SIM_LOCAL_H
#define SIM_LOCAL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "tests/sim/world/world.h"

enum { LOCAL_RIGHTS_MAX = 8 };

struct local; /* one end */

/* The end of a descriptor, for the world's own code: to be dropped there. NULL = it is none. */
struct local *local_take(int fd);
void local_drop(struct local *local);
/* Told from then on when there is something to read, or the other end is gone. */
void local_listen(struct local *local, void (*told)(void *context), void *context);
/* One message of a pair of packets, or what there is of bytes. -1 = nothing, 0 = the other end is gone. Ends that came
 * along are the caller's. */
ssize_t local_read(struct local *local, char *bytes, size_t size, struct local *rights[LOCAL_RIGHTS_MAX],
                   unsigned *right_count);
/* The thread waits until there is something to read, or the other end is gone; not beyond `until`, by its clock. */
void local_await(struct local *local, struct instant until);
/* False when the other end is gone. */
bool local_write(struct local *local, const void *bytes, size_t length);

/* For network.c and system.c. */
bool local_is(int fd);
int local_ready(int fd);
void local_watch(int fd, struct loop *loop);
ssize_t local_send(int fd, const void *bytes, size_t length);
ssize_t local_receive(int fd, void *bytes, size_t size);
void local_close(int fd);
void locals_end(const struct process *process);

#endif
