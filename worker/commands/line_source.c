/* Two chunks go round: the thread fills them in turn and posts each to the loop, the loop takes lines out of them in
 * turn and hands them back through a semaphore. A chunk belongs to the loop while `is_full`, else to the thread. A line
 * that lies in one chunk is given out as it lies there; only the pieces of one that does not are copied together.
 *
 * The thread waits in poll before it reads, with a descriptor beside the input that ends the wait. (Waiting in the
 * loop instead would need a non-blocking descriptor, and all programs that share the terminal or the pipe would get
 * that flag.) */
#include "worker/commands/line_source.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/invariant.h"
#include "base/memory.h"

enum { CHUNKS = 2, CHUNK_BYTES = 256 * 1024 };

struct chunk {
    struct loop_message message;
    struct line_source *source;
    bool is_full;
    ssize_t length; /* 0 = the end, -1 = `failure` */
    int failure;
    char bytes[CHUNK_BYTES];
};

struct line_source {
    struct loop *loop;
    int fd, wake;
    size_t line_max;
    void (*ready)(void *context);
    void *context;
    pthread_t thread;
    bool is_stopped;
    atomic_bool ends;
    sem_t empty; /* chunks that the thread may fill */
    struct chunk *chunks;
    /* the loop's: */
    unsigned reading; /* the chunk that comes next */
    size_t taken;     /* of its bytes */
    struct buffer carry;
    bool carry_is_out; /* it was given out as a line and is dropped by the next call */
    bool skips;        /* the rest of a line that was too long */
    uint64_t bytes;
};

/* --- the thread ------------------------------------------------------------------------------------------------- */

/* False when the source is being stopped. A regular file is always readable. */
static bool input_wait(struct line_source *source)
{
    struct pollfd fds[] = {{.fd = source->fd, .events = POLLIN}, {.fd = source->wake, .events = POLLIN}};
    while (poll(fds, 2, -1) < 0 && errno == EINTR)
        ;
    return !atomic_load(&source->ends);
}

static void chunk_fill(struct line_source *source, struct chunk *chunk)
{
    do
        chunk->length = read(source->fd, chunk->bytes, sizeof chunk->bytes);
    while (chunk->length < 0 && (errno == EINTR || errno == EAGAIN) && input_wait(source));
    chunk->failure = errno;
}

static void *input_read(void *context)
{
    struct line_source *source = context;
    pthread_setname_np(pthread_self(), "hf-input");
    for (unsigned next = 0;; next = (next + 1) % CHUNKS) {
        struct chunk *chunk = &source->chunks[next];
        while (sem_wait(&source->empty) != 0)
            ;
        if (atomic_load(&source->ends) || !input_wait(source))
            return NULL;
        chunk_fill(source, chunk);
        bool is_last = chunk->length <= 0;
        loop_post(source->loop, &chunk->message);
        if (is_last)
            return NULL;
    }
}

/* --- the loop --------------------------------------------------------------------------------------------------- */

static void chunk_arrived(struct loop_message *message)
{
    struct chunk *chunk = list_owner(message, struct chunk, message);
    chunk->is_full = true;
    if (!chunk->source->is_stopped)
        chunk->source->ready(chunk->source->context);
}

static void chunk_release(struct line_source *source, struct chunk *chunk)
{
    chunk->is_full = false;
    source->taken = 0;
    source->reading = (source->reading + 1) % CHUNKS;
    sem_post(&source->empty);
}

static enum line_found line_give(struct line_source *source, struct line *line, const char *text, size_t length)
{
    source->bytes += length + 1;
    if (source->carry.length > 0) {
        buffer_append(&source->carry, text, length);
        source->carry_is_out = true;
        text = source->carry.bytes;
        length = source->carry.length;
    }
    *line = (struct line){text, length};
    return length > source->line_max ? LINE_TOO_LONG : LINE_READ;
}

/* The newline has not come yet. Of a line that is too long only the beginning is kept, and it is given out at once. */
static enum line_found line_keep(struct line_source *source, struct line *line, const char *text, size_t length)
{
    source->bytes += length;
    if (source->skips)
        return LINE_NONE;
    size_t room = source->line_max + 1 - source->carry.length;
    buffer_append(&source->carry, text, length < room ? length : room);
    if (source->carry.length <= source->line_max)
        return LINE_NONE;
    source->skips = true;
    source->carry_is_out = true;
    *line = (struct line){source->carry.bytes, source->carry.length};
    return LINE_TOO_LONG;
}

/* The last line may lack its newline. */
static enum line_found input_ended(struct line_source *source, const struct chunk *chunk, struct line *line)
{
    if (chunk->length < 0)
        return LINE_FAILED;
    if (source->carry.length == 0)
        return LINE_END;
    return line_give(source, line, "", 0);
}

static void line_forget(struct line_source *source)
{
    if (source->carry_is_out)
        buffer_clear(&source->carry);
    source->carry_is_out = false;
}

enum line_found line_source_next(struct line_source *source, struct line *line)
{
    line_forget(source);
    for (;;) {
        struct chunk *chunk = &source->chunks[source->reading];
        if (!chunk->is_full)
            return LINE_NONE;
        if (chunk->length <= 0)
            return input_ended(source, chunk, line);
        const char *text = chunk->bytes + source->taken;
        size_t left = (size_t)chunk->length - source->taken;
        const char *newline = memchr(text, '\n', left);
        if (newline == NULL) {
            enum line_found found = line_keep(source, line, text, left);
            chunk_release(source, chunk);
            if (found != LINE_NONE)
                return found;
            continue;
        }
        source->taken += (size_t)(newline - text) + 1;
        if (!source->skips)
            return line_give(source, line, text, (size_t)(newline - text));
        source->skips = false;
        source->bytes += (size_t)(newline - text) + 1;
    }
}

uint64_t line_source_bytes(const struct line_source *source)
{
    return source->bytes;
}

const char *line_source_reason(const struct line_source *source)
{
    return strerror(source->chunks[source->reading].failure);
}

/* --- life ------------------------------------------------------------------------------------------------------- */

static bool thread_start(struct line_source *source, struct error *error)
{
    source->wake = eventfd(0, EFD_CLOEXEC);
    if (source->wake < 0)
        return error_set(error, "eventfd: %s", strerror(errno));
    int failure = pthread_create(&source->thread, NULL, input_read, source);
    if (failure != 0)
        return error_set(error, "cannot start a thread: %s", strerror(failure));
    return true;
}

static void source_free(struct line_source *source)
{
    if (source->wake >= 0)
        close(source->wake);
    sem_destroy(&source->empty);
    buffer_fini(&source->carry);
    free(source->chunks);
    free(source);
}

struct line_source *line_source_start(struct loop *loop, int fd, size_t line_max, void (*ready)(void *context),
                                      void *context, struct error *error)
{
    struct line_source *source = memory_new(struct line_source);
    source->loop = loop;
    source->fd = fd;
    source->line_max = line_max;
    source->ready = ready;
    source->context = context;
    source->chunks = memory_zeroed(CHUNKS, sizeof source->chunks[0]);
    for (unsigned i = 0; i < CHUNKS; i++) {
        source->chunks[i].source = source;
        source->chunks[i].message.deliver = chunk_arrived;
    }
    sem_init(&source->empty, 0, CHUNKS);
    if (thread_start(source, error))
        return source;
    source_free(source);
    return NULL;
}

void line_source_stop(struct line_source *source)
{
    if (source->is_stopped)
        return;
    uint64_t one = 1;
    atomic_store(&source->ends, true);
    invariant(write(source->wake, &one, sizeof one) == sizeof one);
    sem_post(&source->empty);
    pthread_join(source->thread, NULL);
    source->is_stopped = true;
}

void line_source_free(struct line_source *source)
{
    line_source_stop(source);
    source_free(source);
}
