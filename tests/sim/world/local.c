#include "tests/sim/world/local.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/invariant.h"
#include "base/loop.h"
#include "base/memory.h"
#include "tests/sim/world/wrapped.h"

enum { FIRST_FD = 1 << 21, LOCALS_MAX = 1024 };

struct local_message {
    struct list link;
    struct local *rights[LOCAL_RIGHTS_MAX];
    unsigned right_count;
    size_t length, taken;
    char bytes[];
};

struct local {
    struct local *other; /* NULL = it is gone */
    struct list in;
    bool is_packet;
    unsigned references;
    struct loop *loop;
    struct process *waits; /* a thread of it */
    void (*told)(void *context);
    void *context;
};

static struct {
    struct local *local;
    const struct process *process;
} table[LOCALS_MAX];

/* --- ends ----------------------------------------------------------------------------------------------------- */

static struct local *local_find(int fd)
{
    return fd >= FIRST_FD && fd < FIRST_FD + LOCALS_MAX ? table[fd - FIRST_FD].local : NULL;
}

bool local_is(int fd)
{
    return local_find(fd) != NULL;
}

static void tell(struct local *local)
{
    if (local->loop != NULL)
        loop_wake(local->loop);
    if (local->waits != NULL)
        thread_wake(local->waits, local, true);
    if (local->told != NULL)
        local->told(local->context);
}

static void message_free(struct local_message *message)
{
    for (unsigned i = 0; i < message->right_count; i++)
        local_drop(message->rights[i]);
    free(message);
}

void local_drop(struct local *local)
{
    if (--local->references > 0)
        return;
    struct local *other = local->other;
    for (struct list *link; (link = list_take_first(&local->in)) != NULL;)
        message_free(list_owner(link, struct local_message, link));
    free(local);
    if (other == NULL)
        return;
    other->other = NULL;
    tell(other);
}

struct local *local_take(int fd)
{
    struct local *local = local_find(fd);
    if (local != NULL)
        local->references++;
    return local;
}

void local_listen(struct local *local, void (*told)(void *context), void *context)
{
    local->told = told;
    local->context = context;
}

static struct local *local_make(bool is_packet)
{
    struct local *local = world_owns(memory_new(struct local));
    local->is_packet = is_packet;
    local->references = 1;
    list_init(&local->in);
    return local;
}

/* --- reading and writing -------------------------------------------------------------------------------------- */

static struct local_message *message_add(struct local *to, size_t length)
{
    struct local_message *message = world_owns(memory_zeroed(1, sizeof *message + length));
    message->length = length;
    list_init(&message->link);
    list_append(&to->in, &message->link);
    return message;
}

/* All that is in a file, and then its end. */
static struct local *file_take(int fd)
{
    struct stat facts;
    struct local *local = local_make(false);
    invariant(fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_size > 0);
    struct local_message *message = message_add(local, (size_t)facts.st_size);
    invariant(pread(fd, message->bytes, message->length, 0) == facts.st_size);
    return local;
}

static bool write_with(struct local *local, const void *bytes, size_t length, const int *rights, unsigned right_count)
{
    struct local *to = local->other;
    if (to == NULL)
        return false;
    struct local_message *message = message_add(to, length);
    memcpy(message->bytes, bytes, length);
    for (unsigned i = 0; i < right_count && i < LOCAL_RIGHTS_MAX; i++)
        message->rights[message->right_count++] = local_is(rights[i]) ? local_take(rights[i]) : file_take(rights[i]);
    tell(to);
    return true;
}

bool local_write(struct local *local, const void *bytes, size_t length)
{
    return write_with(local, bytes, length, NULL, 0);
}

ssize_t local_read(struct local *local, char *bytes, size_t size, struct local *rights[LOCAL_RIGHTS_MAX],
                   unsigned *right_count)
{
    *right_count = 0;
    if (list_is_empty(&local->in))
        return local->other == NULL ? 0 : -1;
    struct local_message *message = list_owner(local->in.next, struct local_message, link);
    size_t left = message->length - message->taken, part = left < size ? left : size;
    memcpy(bytes, message->bytes + message->taken, part);
    message->taken += part;
    *right_count = message->right_count;
    memcpy(rights, message->rights, message->right_count * sizeof rights[0]);
    message->right_count = 0;
    if (local->is_packet || message->taken == message->length) {
        list_remove(&message->link);
        message_free(message);
    }
    return (ssize_t)part;
}

void local_await(struct local *local, struct instant until)
{
    bool is_late = false;
    local->waits = process_current();
    while (list_is_empty(&local->in) && local->other != NULL && !is_late)
        is_late = !thread_wait(local, until);
    local->waits = NULL;
}

int local_ready(int fd)
{
    const struct local *local = local_find(fd);
    if (local == NULL)
        return 0;
    return (list_is_empty(&local->in) && local->other != NULL ? 0 : LOOP_READABLE) | LOOP_WRITABLE;
}

void local_watch(int fd, struct loop *loop)
{
    struct local *local = local_find(fd);
    if (local != NULL)
        local->loop = loop;
}

ssize_t local_send(int fd, const void *bytes, size_t length)
{
    if (local_write(local_find(fd), bytes, length))
        return (ssize_t)length;
    errno = EPIPE;
    return -1;
}

ssize_t local_receive(int fd, void *bytes, size_t size)
{
    struct local *rights[LOCAL_RIGHTS_MAX];
    unsigned right_count;
    ssize_t length = local_read(local_find(fd), bytes, size, rights, &right_count);
    for (unsigned i = 0; i < right_count; i++)
        local_drop(rights[i]);
    if (length < 0)
        errno = EAGAIN;
    return length;
}

void local_close(int fd)
{
    struct local *local = local_find(fd);
    table[fd - FIRST_FD].local = NULL;
    local_drop(local);
}

void locals_end(const struct process *process)
{
    for (int i = 0; i < LOCALS_MAX; i++)
        if (table[i].local != NULL && table[i].process == process) {
            table[i].local->loop = NULL;
            local_close(FIRST_FD + i);
        }
}

/* --- what the linker puts in the place of the kernel's -------------------------------------------------------- */

WRAPPED(int, socketpair, int domain, int type, int protocol, int ends[2]);
WRAPPED(int, pipe2, int ends[2], int flags);
WRAPPED(ssize_t, sendmsg, int fd, const struct msghdr *message, int flags);
WRAPPED(int, fcntl, int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...);

static int number_take(struct local *local)
{
    int i = 0;
    while (i < LOCALS_MAX && table[i].local != NULL)
        i++;
    invariant(i < LOCALS_MAX);
    table[i].local = local;
    table[i].process = process_current();
    return FIRST_FD + i;
}

static void pair_make(int ends[2], bool is_packet)
{
    struct local *pair[2] = {local_make(is_packet), local_make(is_packet)};
    for (unsigned i = 0; i < 2; i++) {
        pair[i]->other = pair[1 - i];
        ends[i] = number_take(pair[i]);
    }
}

int __wrap_socketpair(int domain, int type, int protocol, int ends[2])
{
    if (process_current() == NULL)
        return __real_socketpair(domain, type, protocol, ends);
    pair_make(ends, (type & 0xf) == SOCK_SEQPACKET);
    return 0;
}

int __wrap_pipe2(int ends[2], int flags)
{
    if (process_current() == NULL)
        return __real_pipe2(ends, flags);
    pair_make(ends, false);
    return 0;
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    struct local *local = local_find(fd);
    if (local == NULL)
        return __real_sendmsg(fd, message, flags);
    invariant(message->msg_iovlen == 1);
    int rights[LOCAL_RIGHTS_MAX];
    unsigned count = 0;
    const struct cmsghdr *head = CMSG_FIRSTHDR(message);
    if (head != NULL && message->msg_controllen > 0) {
        count = (unsigned)((head->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(rights, CMSG_DATA(head), count * sizeof(int));
    }
    if (write_with(local, message->msg_iov->iov_base, message->msg_iov->iov_len, rights, count))
        return (ssize_t)message->msg_iov->iov_len;
    errno = EPIPE;
    return -1;
}

/* Nothing blocks here, and descriptors are copied for nobody but the world. */
int __wrap_fcntl(int fd, int command, ...)
{
    va_list values;
    va_start(values, command);
    long value = va_arg(values, long);
    va_end(values);
    if (!local_is(fd))
        return __real_fcntl(fd, command, value);
    return command == F_DUPFD_CLOEXEC || command == F_DUPFD ? number_take(local_take(fd)) : 0;
}

int __wrap_fcntl64(int fd, int command, ...)
{
    va_list values;
    va_start(values, command);
    long value = va_arg(values, long);
    va_end(values);
    return __wrap_fcntl(fd, command, value);
}
