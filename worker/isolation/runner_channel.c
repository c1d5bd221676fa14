#include "worker/isolation/runner_channel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HIGH_DESCRIPTOR = 200, READ_BYTES = 1 << 16, KEEP_BYTES_MAX = 1 << 20 };

int descriptor_raise(int descriptor)
{
    struct rlimit limit = {.rlim_cur = HIGH_DESCRIPTOR * 2};
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    int high = limit.rlim_cur > HIGH_DESCRIPTOR + 8 ? HIGH_DESCRIPTOR : (int)limit.rlim_cur / 2;
    int raised = fcntl(descriptor, F_DUPFD_CLOEXEC, high);
    if (raised < 0) {
        (void)fcntl(descriptor, F_SETFD, FD_CLOEXEC);
        return descriptor;
    }
    close(descriptor);
    return raised;
}

void channel_open(struct runner_channel *channel, int socket, size_t limit)
{
    struct stat facts = {0};
    *channel =
        (struct runner_channel){.socket = descriptor_raise(socket), .owner = getpid(), .limit = limit, .passed = -1};
    (void)fstat(channel->socket, &facts);
    channel->device = facts.st_dev;
    channel->inode = facts.st_ino;
    pthread_mutex_init(&channel->writing, NULL);
}

bool channel_is_ours(const struct runner_channel *channel)
{
    return getpid() == channel->owner;
}

/* The descriptor still is the socket. */
static bool is_sound(const struct runner_channel *channel)
{
    struct stat facts;
    return fstat(channel->socket, &facts) == 0 && facts.st_dev == channel->device && facts.st_ino == channel->inode;
}

/* False when `until` is over. */
static bool socket_await(const struct runner_channel *channel, short events, struct instant until)
{
    struct pollfd wanted = {.fd = channel->socket, .events = events};
    for (;;) {
        int64_t left_ns = instant_since(instant_now(), until);
        int timeout_ms = until.ns == INSTANT_NEVER.ns ? -1
                         : left_ns > 3600 * NS_PER_S  ? 3600 * 1000
                         : left_ns > 0                ? (int)(left_ns / NS_PER_MS) + 1
                                                      : 0;
        int ready = poll(&wanted, 1, timeout_ms);
        if (ready > 0 || (ready < 0 && errno != EINTR))
            return true; /* what is wrong with it shows when it is used */
        if (ready == 0 && left_ns <= 0)
            return false;
    }
}

/* --- writing ---------------------------------------------------------------------------------------------------- */

struct buffer *channel_write(struct runner_channel *channel)
{
    if (!channel_is_ours(channel))
        return NULL;
    pthread_mutex_lock(&channel->writing);
    return &channel->out;
}

static bool bytes_send(struct runner_channel *channel)
{
    size_t sent = 0;
    if (!is_sound(channel))
        return false;
    while (sent < channel->out.length) {
        ssize_t count = send(channel->socket, channel->out.bytes + sent, channel->out.length - sent, MSG_NOSIGNAL);
        if (count > 0)
            sent += (size_t)count;
        else if (errno == EAGAIN)
            (void)socket_await(channel, POLLOUT, INSTANT_NEVER);
        else if (errno != EINTR)
            return false;
    }
    return true;
}

bool channel_send(struct runner_channel *channel)
{
    bool is_sent = bytes_send(channel);
    buffer_clear(&channel->out);
    if (channel->out.capacity > KEEP_BYTES_MAX)
        buffer_fini(&channel->out);
    pthread_mutex_unlock(&channel->writing);
    return is_sent;
}

/* --- reading ---------------------------------------------------------------------------------------------------- */

int channel_take_descriptor(struct runner_channel *channel)
{
    int taken = channel->passed;
    channel->passed = -1;
    return taken;
}

static void passed_take(struct runner_channel *channel, struct msghdr *message)
{
    struct cmsghdr *head = CMSG_FIRSTHDR(message);
    if (head == NULL || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS ||
        head->cmsg_len != CMSG_LEN(sizeof(int)))
        return;
    if (channel->passed >= 0)
        close(channel->passed);
    memcpy(&channel->passed, CMSG_DATA(head), sizeof channel->passed);
}

/* More bytes, at least one. */
static enum channel_news bytes_receive(struct runner_channel *channel, size_t wanted, struct instant until)
{
    size_t room = wanted > READ_BYTES ? wanted : READ_BYTES;
    struct iovec place = {.iov_base = buffer_reserve(&channel->in, room), .iov_len = room};
    for (;;) {
        _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
        struct msghdr message = {
            .msg_iov = &place, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        if (until.ns != INSTANT_NEVER.ns && !socket_await(channel, POLLIN, until))
            return CHANNEL_TOO_LATE;
        ssize_t count = is_sound(channel) ? recvmsg(channel->socket, &message, MSG_CMSG_CLOEXEC) : 0;
        if (count > 0) {
            channel->in.length += (size_t)count;
            passed_take(channel, &message);
            return CHANNEL_FRAME;
        }
        if (count < 0 && errno == EAGAIN)
            (void)socket_await(channel, POLLIN, until);
        else if (count == 0 || errno != EINTR)
            return CHANNEL_GONE;
    }
}

enum channel_news channel_receive(struct runner_channel *channel, struct instant until, struct frame *frame)
{
    size_t whole = 0;
    buffer_drop_front(&channel->in, channel->taken);
    channel->taken = 0;
    for (;;) {
        enum frame_found found = frame_find(channel->in.bytes, channel->in.length, channel->limit, frame, &whole);
        if (found == FRAME_BROKEN)
            return CHANNEL_NONSENSE;
        if (found == FRAME_WHOLE)
            break;
        enum channel_news news = bytes_receive(channel, whole - channel->in.length, until);
        if (news != CHANNEL_FRAME)
            return news;
    }
    channel->taken = whole;
    return CHANNEL_FRAME;
}

void channel_keep(struct runner_channel *channel, struct buffer *kept)
{
    struct buffer former = *kept;
    size_t taken = channel->taken;
    *kept = channel->in;
    if (former.capacity > KEEP_BYTES_MAX)
        buffer_fini(&former);
    buffer_clear(&former);
    buffer_append(&former, kept->bytes + taken, kept->length - taken);
    channel->in = former;
    channel->taken = 0;
}
