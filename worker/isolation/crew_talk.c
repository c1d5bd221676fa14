/* What a runner process says, and what it is answered. Nothing of it is believed: what is no frame, comes at the wrong
 * time or is out of bounds ends the process.
 *
 * In the steady state a run is one send and one recv here: frames are looked at where they were read, and only what is
 * not whole yet is kept. A process that says much gets its turn once in a turn of the loop. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/log.h"
#include "worker/isolation/crew_private.h"

enum { KEEP_BYTES_MAX = 1 << 20, ANSWERS_BYTES_MAX = 1 << 16 };

/* --- writing ---------------------------------------------------------------------------------------------------- */

static void writing_follow(struct crew_member *member, bool waits)
{
    if (member->waits_to_write == waits)
        return;
    member->waits_to_write = waits;
    if (member->watch != NULL)
        loop_watch_change(member->watch, waits ? LOOP_READABLE | LOOP_WRITABLE : LOOP_READABLE);
}

bool member_flush(struct crew_member *member)
{
    size_t sent = 0;
    ssize_t count = 0;
    while (sent < member->out.length && count >= 0) {
        count = send(member->socket, member->out.bytes + sent, member->out.length - sent, MSG_NOSIGNAL);
        if (count > 0)
            sent += (size_t)count;
        else if (errno == EINTR)
            count = 0;
        else if (errno != EAGAIN)
            return false;
    }
    buffer_drop_front(&member->out, sent);
    if (member->out.length == 0 && member->out.capacity > KEEP_BYTES_MAX)
        buffer_fini(&member->out);
    writing_follow(member, member->out.length > 0);
    return true;
}

/* --- questions about the lock ----------------------------------------------------------------------------------- */

static void answer_add(struct crew_member *member, enum frame_kind kind, int64_t question, bool is_yes)
{
    size_t start = frame_begin(&member->out, kind);
    frame_add_number(&member->out, question);
    frame_add_number(&member->out, is_yes);
    frame_end(&member->out, start);
}

static void verified(struct redlock_verify *verify, bool is_held)
{
    struct crew_member *member = list_owner(verify, struct crew_member, verify);
    member->is_asked = false;
    answer_add(member, FRAME_VERIFIED, member->question, is_held);
    (void)member_flush(member); /* that nobody reads it shows at the socket */
}

void member_unask(struct crew_member *member)
{
    if (member->is_asked)
        redlock_lock_verify_cancel(member->run->lock, &member->verify);
    member->is_asked = false;
}

/* Who only asks, and does not read what it is answered, would fill the memory of the worker. */
static bool question_read(const struct crew_member *member, const struct frame *frame, int64_t *question)
{
    struct frame_reader reader = frame_read(frame);
    *question = frame_take_number(&reader, 1, INT64_MAX);
    return frame_is_used_up(&reader) && member->out.length <= ANSWERS_BYTES_MAX;
}

/* Who asks again has given up on the question before. */
static bool verify_came(struct crew_member *member, const struct frame *frame)
{
    int64_t question = 0;
    if (!question_read(member, frame, &question))
        return false;
    member_unask(member);
    member->question = question;
    struct hf_job *job = member->run->job;
    if (member->run->lock == NULL) { /* there is none, or a pretended one, of which its link knows at once */
        answer_add(member, FRAME_VERIFIED, question, job->validity == NULL || job->link->verify(job, 0));
        (void)member_flush(member);
        return true;
    }
    member->is_asked = true;
    member->verify.done = verified;
    redlock_lock_verify(member->run->lock, &member->verify);
    return true;
}

/* False when it cannot come along now. */
static bool descriptor_send(struct crew_member *member, int64_t question, int descriptor)
{
    struct buffer whole = {0};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
    if (descriptor < 0 || member->out.length > 0)
        return false;
    size_t start = frame_begin(&whole, FRAME_DESCRIBED);
    frame_add_number(&whole, question);
    frame_add_number(&whole, true);
    frame_end(&whole, start);
    struct iovec place = {.iov_base = whole.bytes, .iov_len = whole.length};
    struct msghdr message = {
        .msg_iov = &place, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof descriptor);
    memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
    ssize_t sent = sendmsg(member->socket, &message, MSG_NOSIGNAL);
    if (sent > 0 && (size_t)sent < whole.length) /* the rest follows */
        buffer_append(&member->out, whole.bytes + sent, whole.length - (size_t)sent);
    buffer_fini(&whole);
    return sent > 0;
}

/* What is passed is the lock's own timer: the worker goes on setting it. */
static int descriptor_of(const struct isolated_run *run)
{
    if (run->lock != NULL)
        return redlock_validity_descriptor(redlock_lock_validity(run->lock));
    return run->job->validity != NULL ? run->job->link->descriptor(run->job) : -1;
}

static bool descriptor_came(struct crew_member *member, const struct frame *frame)
{
    int64_t question = 0;
    if (!question_read(member, frame, &question))
        return false;
    if (!descriptor_send(member, question, descriptor_of(member->run)))
        answer_add(member, FRAME_DESCRIBED, question, false);
    (void)member_flush(member);
    return true;
}

/* --- what is only said ------------------------------------------------------------------------------------------ */

static bool log_came(struct crew_member *member, const struct frame *frame)
{
    enum hf_log_level level = HF_LOG_INFO;
    const char *text = NULL;
    struct hf_job *job = member->run->job;
    if (!runner_log_read(frame, &level, &text))
        return false;
    if (job->link->hears(job, level))
        job->link->log(job, level, text);
    return true;
}

static bool event_came(struct crew_member *member, const struct frame *frame)
{
    struct runner_event event;
    struct hf_job *job = member->run->job;
    if (!runner_event_read(frame, &event))
        return false;
    if (job->link->hears(job, event.level))
        job->link->event(job, event.level, event.name, event.fields, event.count);
    return true;
}

static bool progress_came(struct crew_member *member, const struct frame *frame)
{
    struct frame_reader reader = frame_read(frame);
    struct text_span json = frame_take_text(&reader, ITERATION_BYTES_MAX);
    struct hf_job *job = member->run->job;
    if (!frame_is_used_up(&reader) || !job->reports_progress || !iteration_text_is_sound(json.bytes, json.length))
        return false;
    (void)job->link->progress(job, json.bytes);
    return true;
}

/* --- the beginning and the end ---------------------------------------------------------------------------------- */

static bool ready_came(struct crew_member *member, const struct frame *frame)
{
    if (member->was_opened || frame->length != 0)
        return false;
    member->was_opened = true;
    pool_opened(member->pool);
    if (member->state == MEMBER_STARTING)
        member_enter(member, MEMBER_IDLE);
    return true;
}

static bool refused_came(struct crew_member *member, const struct frame *frame)
{
    struct frame_reader reader = frame_read(frame);
    const char *reason = frame_take_string(&reader, RUNNER_REASON_MAX);
    if (member->was_opened || !frame_is_used_up(&reader))
        return false;
    member->has_struck = true;
    pool_struck(member->pool, reason);
    member_condemn(member, "refused to open its plugin");
    return true;
}

static bool end_came(struct crew_member *member, const struct frame *frame)
{
    struct runner_end end;
    struct job_outcome *outcome = &member->run->job->outcome;
    job_outcome_clear(outcome);
    if (!runner_end_read(frame, &end, outcome) || end.run != member->run_number)
        return false;
    if (end.memory >= 0)
        member->memory = end.memory;
    member_finish(member, end.started ? end.code : ISOLATION_NOT_STARTED);
    return true;
}

static bool frame_came(struct crew_member *member, const struct frame *frame)
{
    if (frame->kind == FRAME_READY)
        return ready_came(member, frame);
    if (frame->kind == FRAME_REFUSED)
        return refused_came(member, frame);
    if (member->run == NULL)
        return false;
    switch ((int)frame->kind) {
    case FRAME_END:
        return end_came(member, frame);
    case FRAME_LOG:
        return log_came(member, frame);
    case FRAME_EVENT:
        return event_came(member, frame);
    case FRAME_PROGRESS:
        return progress_came(member, frame);
    case FRAME_VERIFY:
        return verify_came(member, frame);
    case FRAME_DESCRIPTOR:
        return descriptor_came(member, frame);
    default:
        return false;
    }
}

/* --- reading ---------------------------------------------------------------------------------------------------- */

/* Looks at the whole frames there are; returns the bytes of these. Stops when it is condemned. */
static size_t frames_take(struct crew_member *member, const char *bytes, size_t length)
{
    size_t used = 0, whole = 0;
    struct frame frame;
    while (member->complaint[0] == '\0') {
        enum frame_found found = frame_find(bytes + used, length - used, RUNNER_FRAME_MAX, &frame, &whole);
        if (found == FRAME_PART)
            return used;
        if (found == FRAME_BROKEN || !frame_came(member, &frame))
            member_condemn(member, "said nonsense to the worker");
        else
            used += whole;
    }
    return length;
}

static void bytes_came(struct crew_member *member, const char *bytes, size_t length)
{
    if (member->in.length > 0) {
        buffer_append(&member->in, bytes, length);
        buffer_drop_front(&member->in, frames_take(member, member->in.bytes, member->in.length));
    } else {
        size_t used = frames_take(member, bytes, length);
        buffer_append(&member->in, bytes + used, length - used);
    }
    if (member->in.length == 0 && member->in.capacity > KEEP_BYTES_MAX)
        buffer_fini(&member->in);
}

/* One read: a full buffer is rare, and then it is readable again. */
static bool part_listen(struct crew_member *member, bool *is_full)
{
    struct crew *crew = member->crew;
    ssize_t count = recv(member->socket, crew->scratch, sizeof crew->scratch, 0);
    *is_full = count == (ssize_t)sizeof crew->scratch;
    if (count > 0)
        bytes_came(member, crew->scratch, (size_t)count);
    return count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR));
}

bool member_listen(struct crew_member *member)
{
    bool is_full = true, is_open = true;
    while (is_full && is_open && member->complaint[0] == '\0')
        is_open = part_listen(member, &is_full);
    return is_open;
}

/* An end of the socket means the end of the process, now or, when a handler has closed it, at the end of its run. One
 * that has not opened its plugin keeps its place until it is known why, so that no other is tried before. */
static void socket_ended(struct crew_member *member)
{
    if (member->state != MEMBER_STARTING) {
        member_enter(member, MEMBER_CONDEMNED);
        return;
    }
    loop_watch_stop(member->watch);
    member->watch = NULL;
}

void member_watched(void *context, int events)
{
    struct crew_member *member = context;
    bool is_full = false;
    if ((events & LOOP_WRITABLE) != 0 && member->waits_to_write && !member_flush(member))
        events |= LOOP_READABLE;
    if ((events & LOOP_READABLE) != 0 && !part_listen(member, &is_full) && member->state != MEMBER_CONDEMNED)
        socket_ended(member);
}
