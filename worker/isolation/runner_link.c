#include "worker/isolation/runner_link.h"

#include <unistd.h>

#include "base/list.h"

static struct runner_run *run_of(struct hf_job *job)
{
    return list_owner(job, struct runner_run, job);
}

/* --- what is only said ------------------------------------------------------------------------------------------ */

static bool link_hears(struct hf_job *job, enum hf_log_level level)
{
    return level >= run_of(job)->order.log_level;
}

static void link_log(struct hf_job *job, enum hf_log_level level, const char *text)
{
    struct runner_channel *channel = run_of(job)->channel;
    struct buffer *out = channel_write(channel);
    if (out == NULL)
        return;
    runner_log_write(level, text, out);
    (void)channel_send(channel);
}

static void link_event(struct hf_job *job, enum hf_log_level level, const char *name, const hf_field *fields,
                       size_t count)
{
    struct runner_channel *channel = run_of(job)->channel;
    struct buffer *out = channel_write(channel);
    if (out == NULL)
        return;
    runner_event_write(level, name, fields, count < RUNNER_FIELDS_MAX ? count : RUNNER_FIELDS_MAX, out);
    (void)channel_send(channel);
}

static bool link_progress(struct hf_job *job, const char *json)
{
    struct runner_channel *channel = run_of(job)->channel;
    size_t length = strnlen(json, ITERATION_BYTES_MAX + 1);
    struct buffer *out = iteration_text_is_sound(json, length) ? channel_write(channel) : NULL;
    if (out == NULL)
        return false;
    size_t start = frame_begin(out, FRAME_PROGRESS);
    frame_add_text(out, json, length);
    frame_end(out, start);
    return channel_send(channel);
}

/* --- what is answered ------------------------------------------------------------------------------------------- */

/* Whether there was an answer in time that says yes. Answers to earlier questions are skipped. */
static bool answer_await(struct runner_run *run, enum frame_kind kind, struct instant until)
{
    struct frame frame;
    while (channel_receive(run->channel, until, &frame) == CHANNEL_FRAME) {
        struct frame_reader reader = frame_read(&frame);
        int64_t number = frame_take_number(&reader, 0, INT64_MAX);
        bool is_yes = frame_take_flag(&reader);
        if (frame.kind == kind && number == run->questions && frame_is_used_up(&reader))
            return is_yes;
    }
    return false;
}

static bool ask(struct runner_run *run, enum frame_kind question, enum frame_kind answer, int64_t limit_ns)
{
    int64_t patience_ns = limit_ns < run->patience_ns ? limit_ns : run->patience_ns;
    struct instant until = instant_after(instant_now(), patience_ns);
    struct buffer *out = channel_write(run->channel);
    if (out == NULL)
        return false;
    size_t start = frame_begin(out, question);
    frame_add_number(out, ++run->questions);
    frame_end(out, start);
    return channel_send(run->channel) && answer_await(run, answer, until);
}

/* Not in a process that the handler forked: whoever held the mutex is not there. */
static bool asking_begin(struct runner_run *run)
{
    if (!channel_is_ours(run->channel))
        return false;
    pthread_mutex_lock(&run->asking);
    return true;
}

static bool link_verify(struct hf_job *job, int64_t limit_ns)
{
    struct runner_run *run = run_of(job);
    if (!asking_begin(run))
        return false;
    bool is_held = ask(run, FRAME_VERIFY, FRAME_VERIFIED, limit_ns);
    pthread_mutex_unlock(&run->asking);
    return is_held;
}

static int link_descriptor(struct hf_job *job)
{
    struct runner_run *run = run_of(job);
    if (!asking_begin(run))
        return -1;
    if (run->descriptor < 0 && ask(run, FRAME_DESCRIPTOR, FRAME_DESCRIBED, run->patience_ns))
        run->descriptor = channel_take_descriptor(run->channel);
    int descriptor = run->descriptor;
    pthread_mutex_unlock(&run->asking);
    return descriptor;
}

const struct job_link runner_link = {
    .verify = link_verify,
    .descriptor = link_descriptor,
    .hears = link_hears,
    .log = link_log,
    .event = link_event,
    .progress = link_progress,
};

void runner_link_end(struct runner_run *run)
{
    if (run->descriptor >= 0)
        close(run->descriptor);
    run->descriptor = -1;
}
