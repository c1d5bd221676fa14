/* What the worker asks for: one order at a time, so that deadlines are kept in between. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "worker/isolation/zygote.h"

/* An order as it came. There is one at a time, and the zygote has one thread. */
static struct {
    struct zygote_order order;
    int descriptors[ZYGOTE_DESCRIPTORS_MAX];
    unsigned descriptor_count;
    bool is_cut; /* the zygote had no room for the descriptors */
    char words[ZYGOTE_WORDS_MAX];
    char *pointers[ZYGOTE_WORDS_MAX + 2];
} in;

static void descriptors_collect(struct msghdr *message)
{
    in.descriptor_count = 0;
    in.is_cut = (message->msg_flags & MSG_CTRUNC) != 0;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part != NULL; part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        size_t bytes = part->cmsg_len - CMSG_LEN(0);
        memcpy(in.descriptors, CMSG_DATA(part), bytes);
        in.descriptor_count = (unsigned)(bytes / sizeof(int));
    }
}

static void descriptors_close(void)
{
    for (unsigned i = 0; i < in.descriptor_count; i++)
        close(in.descriptors[i]);
}

static ssize_t order_receive(void)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(ZYGOTE_DESCRIPTORS_MAX * sizeof(int))];
    } rights;
    struct iovec parts[] = {{&in.order, sizeof in.order}, {in.words, sizeof in.words}};
    struct msghdr message = {
        .msg_iov = parts, .msg_iovlen = 2, .msg_control = rights.bytes, .msg_controllen = sizeof rights.bytes};
    ssize_t length = recvmsg(ZYGOTE_SOCKET, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (length >= 0)
        descriptors_collect(&message);
    return length;
}

/* --- children --------------------------------------------------------------------------------------------------- */

static int words_fetch(void)
{
    if (in.order.words_in_file) {
        ssize_t length = pread(in.descriptors[in.descriptor_count - 1], in.words, in.order.words_length, 0);
        if (length < 0)
            return errno;
        if (length != (ssize_t)in.order.words_length)
            return EBADMSG;
    }
    return zygote_words_split(&in.order, in.words, in.pointers) ? 0 : EBADMSG;
}

static void birth_fill(struct zygote_birth *birth)
{
    unsigned count = in.order.descriptor_count > STDERR_FILENO ? in.order.descriptor_count : STDERR_FILENO + 1;
    const int *next = in.descriptors;
    for (unsigned i = 0; i < count; i++)
        birth->descriptors[i] = in.order.descriptors_sent >> i & 1 ? *next++ : ZYGOTE_NOTHING;
    birth->descriptor_count = count;
    birth->arguments = in.pointers;
    birth->environment = in.pointers + in.order.argument_count + 1;
}

static pid_t child_bear(struct zygote_process *zygote, ssize_t length)
{
    if (in.is_cut)
        return -EMFILE;
    if (!zygote_order_is_sound(&in.order, (size_t)length, in.descriptor_count))
        return -EBADMSG;
    struct zygote_birth birth = {.options = &zygote->options, .order = &in.order, .zygote = getpid()};
    birth.mark = zygote_mark(in.order.number);
    if (in.order.child_kind == CHILD_PROGRAM) {
        int failure = words_fetch();
        if (failure != 0)
            return -failure;
    }
    birth_fill(&birth);
    return zygote_child_bear(&birth);
}

static void spawn_perform(struct zygote_process *zygote, ssize_t length)
{
    pid_t pid = child_bear(zygote, length);
    struct zygote_child *child = zygote_child_add(zygote, in.order.number);
    if (pid > 0) {
        child->pid = pid;
        child->state = BIRTH_ALIVE;
        zygote->alive++;
    } else {
        child->failure = (int)-pid;
        child->state = BIRTH_FAILED;
    }
    zygote->has_news = true;
}

static void order_perform(struct zygote_process *zygote, ssize_t length)
{
    struct zygote_child *child;
    if (in.order.kind != ORDER_SPAWN && !zygote_order_is_sound(&in.order, (size_t)length, in.descriptor_count))
        return;
    switch ((enum zygote_order_kind)in.order.kind) {
    case ORDER_SPAWN:
        if (!zygote->worker_is_gone)
            spawn_perform(zygote, length);
        break;
    case ORDER_KILL:
        child = zygote_child_find(zygote, in.order.number);
        if (child != NULL)
            kill(-child->pid, in.order.signal);
        break;
    case ORDER_RING:
        break; /* the deadlines are looked at after every order */
    case ORDER_BYE:
        zygote->worker_is_gone = zygote->has_said_good_bye = true;
        break;
    }
}

/* A worker that closes its end with news in it that it did not read breaks the connection, and that is heard before
 * what it said last. */
void zygote_last_orders_take(struct zygote_process *zygote)
{
    enum { ORDERS_MAX = 4096 };
    for (int i = 0; i < ORDERS_MAX && !zygote->has_said_good_bye; i++) {
        ssize_t length = order_receive();
        if (length == 0 || (length < 0 && errno != EINTR && errno != ECONNRESET))
            return;
        if (length >= (ssize_t)sizeof in.order)
            order_perform(zygote, length);
        if (length > 0)
            descriptors_close();
    }
}

void zygote_order_take(struct zygote_process *zygote)
{
    ssize_t length = order_receive();
    if (length >= (ssize_t)sizeof in.order) {
        order_perform(zygote, length);
        descriptors_close();
    } else if (length >= 0 || (errno != EAGAIN && errno != EINTR)) {
        zygote->worker_is_gone = true;
    }
}
