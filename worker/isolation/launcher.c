/* Orders are sent at once while the socket has room, which is nearly always. While it is full (the zygote is stopped,
 * or busy with many starts), they wait here in order, with copies of their descriptors. A ring never waits: a zygote
 * with orders to read checks the run table after each.
 *
 * Callbacks may use the launcher, but not destroy it. */
#include "worker/isolation/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/invariant.h"
#include "base/memory.h"
#include "worker/isolation/zygote_message.h"

enum { REPORTS_A_CYCLE = 64, EXIT_AS_NOT_FOUND = 127 };

/* If the kernel has no room for descriptors in flight, nothing signals when it has room again. */
static const int64_t RETRY_NS = 10 * NS_PER_MS;

struct launcher {
    struct loop *loop;
    struct zygote *zygote;
    void (*lost)(void *context);
    void *context;
    struct run_table *run_table;
    struct loop_watch *watch; /* NULL once the zygote is lost */
    struct loop_timer retry;
    struct list children; /* starting or alive */
    struct list failures; /* struct failure: reported at the end of the cycle */
    struct list outgoing; /* struct packet */
    struct loop_hook failures_hook;
    uint64_t last_number;
};

/* An outgoing order; its descriptors are the caller's unless it has to wait. */
struct packet {
    struct list link;
    uint64_t number;
    int descriptors[ZYGOTE_DESCRIPTORS_MAX];
    unsigned descriptor_count;
    size_t length;
    char bytes[sizeof(struct zygote_order) + ZYGOTE_WORDS_INLINE_MAX];
};

struct failure {
    struct list link;
    struct child *child;
    int reason;
};

void child_init(struct child *child, void (*spawned)(struct child *child, pid_t pid, int failure),
                void (*exited)(struct child *child, const struct child_exit *end))
{
    *child = (struct child){.spawned = spawned, .exited = exited};
    list_init(&child->link);
}

/* --- children that do not start ----------------------------------------------------------------------------------- */

static void failure_tell(struct child *child, int reason)
{
    if (child->spawned != NULL) {
        child->spawned(child, 0, reason);
        return;
    }
    struct child_exit end = {.wait_status = EXIT_AS_NOT_FOUND << 8};
    child->exited(child, &end);
}

static void failures_tell(struct loop_hook *hook)
{
    struct launcher *launcher = list_owner(hook, struct launcher, failures_hook);
    for (struct list *link; (link = list_take_first(&launcher->failures)) != NULL;) {
        struct failure failure = *list_owner(link, struct failure, link);
        free(list_owner(link, struct failure, link));
        list_remove(&failure.child->link);
        failure_tell(failure.child, failure.reason);
    }
}

static void failure_note(struct launcher *launcher, struct child *child, int reason)
{
    struct failure *failure = memory_new(struct failure);
    failure->child = child;
    failure->reason = reason;
    list_init(&failure->link);
    list_append(&launcher->failures, &failure->link);
    loop_at_cycle_end(launcher->loop, LOOP_GATHER, &launcher->failures_hook);
}

static struct child *child_find(struct launcher *launcher, uint64_t number)
{
    for (struct list *link = launcher->children.next; link != &launcher->children; link = link->next) {
        struct child *child = list_owner(link, struct child, link);
        if (child->number == number)
            return child;
    }
    return NULL;
}

/* --- the zygote is gone ------------------------------------------------------------------------------------------- */

static void packet_free(struct packet *packet)
{
    for (unsigned i = 0; i < packet->descriptor_count; i++)
        close(packet->descriptors[i]);
    list_remove(&packet->link);
    free(packet);
}

static void all_forget(struct launcher *launcher)
{
    struct list *link;
    while (!list_is_empty(&launcher->outgoing))
        packet_free(list_owner(launcher->outgoing.next, struct packet, link));
    while ((link = list_take_first(&launcher->failures)) != NULL)
        free(list_owner(link, struct failure, link));
    while (list_take_first(&launcher->children) != NULL)
        ;
    loop_hook_cancel(&launcher->failures_hook);
    loop_timer_clear(launcher->loop, &launcher->retry);
    if (launcher->watch != NULL)
        loop_watch_stop(launcher->watch);
    launcher->watch = NULL;
}

/* --- sending ------------------------------------------------------------------------------------------------------ */

/* 0, or the errno. */
static int packet_send(const struct launcher *launcher, const struct packet *packet)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(ZYGOTE_DESCRIPTORS_MAX * sizeof(int))];
    } rights = {.bytes = {0}};
    struct iovec part = {(void *)(uintptr_t)packet->bytes, packet->length};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    size_t size = packet->descriptor_count * sizeof(int);
    if (size > 0) {
        message.msg_control = rights.bytes;
        message.msg_controllen = CMSG_SPACE(size);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(size)};
        memcpy(CMSG_DATA(header), packet->descriptors, size);
    }
    ssize_t sent;
    do
        sent = sendmsg(launcher->zygote->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? errno : 0;
}

static bool must_wait(int failure)
{
    return failure == EAGAIN || failure == ENOBUFS || failure == ENOMEM || failure == ETOOMANYREFS;
}

static void wait_for_room(struct launcher *launcher, int failure)
{
    bool is_told = failure == EAGAIN;
    loop_watch_change(launcher->watch, is_told ? LOOP_READABLE | LOOP_WRITABLE : LOOP_READABLE);
    if (!is_told)
        loop_timer_set(launcher->loop, &launcher->retry, loop_after(launcher->loop, RETRY_NS));
}

/* The child of an order that cannot be sent never starts. Reading detects a broken connection. */
static void packet_refused(struct launcher *launcher, uint64_t number, int failure)
{
    struct child *child = child_find(launcher, number);
    if (child != NULL && failure != EPIPE && failure != ECONNRESET)
        failure_note(launcher, child, failure);
}

static void outgoing_send(struct launcher *launcher)
{
    while (!list_is_empty(&launcher->outgoing)) {
        struct packet *packet = list_owner(launcher->outgoing.next, struct packet, link);
        int failure = packet_send(launcher, packet);
        if (must_wait(failure)) {
            wait_for_room(launcher, failure);
            return;
        }
        if (failure != 0)
            packet_refused(launcher, packet->number, failure);
        packet_free(packet);
    }
    loop_watch_change(launcher->watch, LOOP_READABLE);
}

static void retry_fires(struct loop_timer *timer)
{
    outgoing_send(list_owner(timer, struct launcher, retry));
}

/* Copies the descriptors: the caller may close its own at once. */
static int packet_queue(struct launcher *launcher, const struct packet *packet)
{
    size_t size = offsetof(struct packet, bytes) + packet->length;
    struct packet *copy = memory_zeroed(1, size);
    memcpy(copy, packet, size);
    list_init(&copy->link);
    copy->descriptor_count = 0;
    for (unsigned i = 0; i < packet->descriptor_count; i++) {
        int descriptor = fcntl(packet->descriptors[i], F_DUPFD_CLOEXEC, 0);
        if (descriptor < 0) {
            int failure = errno;
            packet_free(copy);
            return failure;
        }
        copy->descriptors[copy->descriptor_count++] = descriptor;
    }
    list_append(&launcher->outgoing, &copy->link);
    return 0;
}

/* Sends or queues the packet; 0, or the errno. */
static int packet_post(struct launcher *launcher, const struct packet *packet)
{
    if (!list_is_empty(&launcher->outgoing))
        return packet_queue(launcher, packet);
    int failure = packet_send(launcher, packet);
    if (!must_wait(failure))
        return failure;
    int queued = packet_queue(launcher, packet);
    if (queued == 0)
        wait_for_room(launcher, failure);
    return queued;
}

static void packet_order(struct packet *packet, const struct zygote_order *order)
{
    memcpy(packet->bytes, order, sizeof *order);
    packet->length = sizeof *order;
    packet->number = order->number;
}

/* --- what users request ------------------------------------------------------------------------------------------- */

static int words_file(const struct child_plan *plan, size_t length)
{
    char *words = memory_zeroed(1, length);
    zygote_words_write(plan, words);
    int file = memfd_create("words", MFD_CLOEXEC);
    size_t done = 0;
    while (file >= 0 && done < length) {
        ssize_t written = write(file, words + done, length - done);
        if (written < 0 && errno != EINTR) {
            int failure = errno;
            close(file);
            errno = failure;
            file = -1;
        } else if (written > 0) {
            done += (size_t)written;
        }
    }
    free(words);
    return file;
}

/* 0, or the errno. */
static int packet_fill(struct packet *packet, uint64_t number, const struct child_plan *plan)
{
    struct zygote_order order;
    if (!zygote_order_of(&order, number, plan))
        return E2BIG;
    packet_order(packet, &order);
    packet->descriptor_count = 0;
    for (unsigned i = 0; i < plan->descriptor_count; i++)
        if (plan->descriptors[i] >= 0)
            packet->descriptors[packet->descriptor_count++] = plan->descriptors[i];
    if (!order.words_in_file) {
        zygote_words_write(plan, packet->bytes + packet->length);
        packet->length += order.words_length;
        return 0;
    }
    int file = words_file(plan, order.words_length);
    if (file < 0)
        return errno;
    packet->descriptors[packet->descriptor_count++] = file;
    return 0;
}

static int plan_post(struct launcher *launcher, uint64_t number, const struct child_plan *plan)
{
    struct packet packet;
    int failure = packet_fill(&packet, number, plan);
    if (failure != 0)
        return failure;
    failure = packet_post(launcher, &packet);
    struct zygote_order order;
    memcpy(&order, packet.bytes, sizeof order);
    if (order.words_in_file)
        close(packet.descriptors[packet.descriptor_count - 1]);
    return failure;
}

void launcher_spawn(struct launcher *launcher, struct child *child, const struct child_plan *plan)
{
    invariant(plan->descriptor_count <= CHILD_DESCRIPTORS_MAX && list_is_empty(&child->link));
    invariant(plan->kind == CHILD_RUNNER || (plan->arguments != NULL && plan->arguments[0] != NULL));
    child->number = ++launcher->last_number;
    list_append(&launcher->children, &child->link);
    /* before the order, after which the zygote checks the run table */
    if (plan->run_entry != NULL)
        atomic_store(&plan->run_entry->occupant, child->number);
    int failure = launcher->watch != NULL ? plan_post(launcher, child->number, plan) : EPIPE;
    bool will_be_lost = launcher->watch != NULL && (failure == EPIPE || failure == ECONNRESET);
    if (failure != 0 && !will_be_lost)
        failure_note(launcher, child, failure);
}

void launcher_kill(struct launcher *launcher, const struct child *child, int signal)
{
    if (launcher->watch == NULL || list_is_empty(&child->link))
        return;
    struct zygote_order order = {.kind = ORDER_KILL, .number = child->number, .signal = signal};
    struct packet packet;
    packet.descriptor_count = 0;
    packet_order(&packet, &order);
    packet.number = 0; /* a failure to send is not reported */
    (void)packet_post(launcher, &packet);
}

void launcher_ring(struct launcher *launcher)
{
    if (launcher->watch == NULL || !list_is_empty(&launcher->outgoing))
        return;
    struct zygote_order order = {.kind = ORDER_RING};
    (void)!send(launcher->zygote->socket, &order, sizeof order, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* --- what the zygote says ----------------------------------------------------------------------------------------- */

static void report_tell(struct launcher *launcher, const struct zygote_report *report)
{
    struct child *child = child_find(launcher, report->number);
    if (child == NULL)
        return;
    bool is_alive = report->kind == REPORT_SPAWNED && report->failure == 0;
    if (!is_alive)
        list_remove(&child->link);
    if (report->kind == REPORT_EXITED)
        child->exited(child, &report->end);
    else if (report->failure != 0)
        failure_tell(child, report->failure);
    else if (child->spawned != NULL)
        child->spawned(child, report->pid, 0);
}

static void reports_read(struct launcher *launcher)
{
    for (int i = 0; i < REPORTS_A_CYCLE; i++) {
        struct zygote_report report;
        ssize_t length = recv(launcher->zygote->socket, &report, sizeof report, MSG_DONTWAIT);
        if (length == (ssize_t)sizeof report) {
            report_tell(launcher, &report);
        } else if (length < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        } else {
            all_forget(launcher);
            atomic_store(&launcher->run_table->wakes_at, 0); /* no zygote is left to ring */
            launcher->lost(launcher->context);
            return;
        }
    }
}

static void socket_ready(void *context, int events)
{
    struct launcher *launcher = context;
    if (events & LOOP_WRITABLE)
        outgoing_send(launcher);
    if (events & LOOP_READABLE)
        reports_read(launcher);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

struct launcher *launcher_create(struct loop *loop, struct zygote *zygote, struct run_table *run_table,
                                 void (*lost)(void *context), void *context)
{
    struct launcher *launcher = memory_new(struct launcher);
    launcher->loop = loop;
    launcher->zygote = zygote;
    launcher->run_table = run_table;
    launcher->lost = lost;
    launcher->context = context;
    list_init(&launcher->children);
    list_init(&launcher->failures);
    list_init(&launcher->outgoing);
    loop_hook_init(&launcher->failures_hook, failures_tell);
    loop_timer_init(&launcher->retry, retry_fires);
    launcher->watch = loop_watch_start(loop, zygote->socket, LOOP_READABLE, socket_ready, launcher);
    return launcher;
}

void launcher_destroy(struct launcher *launcher)
{
    if (launcher == NULL)
        return;
    all_forget(launcher);
    zygote_end(launcher->zygote);
    free(launcher);
}
