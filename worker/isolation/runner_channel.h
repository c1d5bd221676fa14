/* A runner process's end of its socket. What is written and read here are frames.
 *
 *     struct buffer *out = channel_write(&channel);    NULL: this is not the process that the socket belongs to
 *     ... frames ...
 *     channel_send(&channel);
 *
 *     switch (channel_receive(&channel, INSTANT_NEVER, &frame)) ...      it lies in the channel until the next one
 *
 * The handler shares the process with it, so the channel protects itself: its descriptor is a high one, out of the way
 * of who closes what he thinks is his; it is looked at before it is used, in case it was closed all the same and is
 * another file by now; and in a process that the handler forked it is dead.
 *
 * Threads: any may write; one reads at a time, which the callers see to. */
#ifndef WORKER_RUNNER_CHANNEL_H
#define WORKER_RUNNER_CHANNEL_H

#include <pthread.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/clock.h"
#include "worker/isolation/frame.h"

struct runner_channel {
    int socket;
    dev_t device; /* with the inode: which socket it is */
    ino_t inode;
    pid_t owner;
    size_t limit; /* bytes of the body of a frame that comes */
    pthread_mutex_t writing;
    struct buffer out;
    struct buffer in;
    size_t taken; /* bytes of `in` that have been handed out */
    int passed;   /* the descriptor that came last and was not taken; -1 = none */
};

/* A copy of the descriptor that is far above those that programs open, which replaces it; the same one when the limit
 * leaves no room. Close-on-exec. */
int descriptor_raise(int descriptor);

void channel_open(struct runner_channel *channel, int socket, size_t limit);

/* False in a process that was forked from the one that opened it. */
bool channel_is_ours(const struct runner_channel *channel);
/* Where frames go; no other thread can write before channel_send. NULL in another process. */
struct buffer *channel_write(struct runner_channel *channel);
/* False when the socket is gone. */
bool channel_send(struct runner_channel *channel);

enum channel_news { CHANNEL_FRAME, CHANNEL_TOO_LATE, CHANNEL_GONE, CHANNEL_NONSENSE };
enum channel_news channel_receive(struct runner_channel *channel, struct instant until, struct frame *frame);
/* The frame that was received last stays where it is until the next call of this: its bytes move into `kept`. */
void channel_keep(struct runner_channel *channel, struct buffer *kept);
/* The descriptor that came with the frame; -1 = none. The caller's. */
int channel_take_descriptor(struct runner_channel *channel);

#endif
