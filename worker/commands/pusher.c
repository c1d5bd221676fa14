/* Feeds lines to a stream of libholdfast as long as it has room, and stops at trouble.
 *
 *   input ──▶ stream ──▶ ended: queued, scheduled, duplicate
 *               │          └──── anything else: no more is read, what was not sent is dropped, what is in flight is
 *               │                waited for, and every task is accounted for
 *               └─ bad line
 *
 * A bad line stops the reading, but the tasks before it are pushed. Whether to push tasks of an unknown outcome again
 * is not for us to decide. The exit code says TEMPORARY only when nothing can have been pushed, so that a script may
 * simply call again.
 *
 * Everything here runs on a loop of its own, on the calling thread; the library tells about ends on its thread, from
 * where they are posted to the loop. */
#include "worker/commands/pusher.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/loop.h"
#include "base/memory.h"
#include "worker/commands/line_source.h"
#include "worker/commands/progress.h"
#include "worker/print/human.h"
#include "worker/print/json_writer.h"

enum { COMPLAINTS_MAX = 20, COMPLAINT_TEXT_MAX = 1024 };

struct pusher {
    const struct pusher_options *options;
    struct loop *loop;
    struct hf_producer *producer; /* NULL in a dry run, like the stream */
    struct hf_stream *stream;
    struct line_source *source;
    struct loop_signal *signals[2];
    struct progress progress;
    uint64_t input_size; /* of a regular file; 0 = not known */
    struct instant started;

    bool input_over;  /* nothing more is read */
    bool input_ended; /* because there was no more */
    bool troubled;    /* something was refused or is unknown */
    bool is_added;    /* since the last flush */
    unsigned interrupts;
    uint64_t line, tasks, bad, complaints;
    uint64_t ended, ends[HF_PUSH_UNKNOWN + 1];
    struct buffer single; /* what the single task would be, in a dry run */
};

/* What the library told about some tasks, on its way to the loop. */
struct ending {
    struct loop_message message;
    struct pusher *pusher;
    enum hf_push_answer answer;
    size_t count;
    uint64_t first, last;
    char queue[HF_QUEUE_SIZE], holder[HF_JID_SIZE], reason[HF_REASON_SIZE];
};

/* --- telling ---------------------------------------------------------------------------------------------------- */

static void complain(struct pusher *pusher, const char *format, ...) PRINTF_LIKE(2, 3);

static void complain(struct pusher *pusher, const char *format, ...)
{
    if (++pusher->complaints > COMPLAINTS_MAX)
        return;
    char text[COMPLAINT_TEXT_MAX];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    progress_end(&pusher->progress);
    fprintf(stderr, "holdfast push: %s\n", log_defuse(text));
}

static bool is_good(enum hf_push_answer answer)
{
    return answer == HF_PUSH_QUEUED || answer == HF_PUSH_SCHEDULED;
}

/* Nothing was sent, and the node is to blame. */
static bool is_away(enum hf_push_answer answer)
{
    return answer == HF_PUSH_UNREACHABLE || answer == HF_PUSH_DENIED;
}

static void single_complain(struct pusher *pusher, const struct ending *ending)
{
    if (ending->answer == HF_PUSH_UNKNOWN)
        complain(pusher, "the task %s may or may not be in the queue %s: %s", pusher->options->task.jid, ending->queue,
                 ending->reason);
    else if (ending->answer == HF_PUSH_REFUSED)
        complain(pusher, "refused by the node: %s", ending->reason);
    else if (ending->answer == HF_PUSH_DUPLICATE)
        complain(pusher, "not pushed: the task %s has this class and these arguments, and waits or runs",
                 ending->holder);
}

static const char *answer_text(enum hf_push_answer answer)
{
    switch (answer) {
    case HF_PUSH_REFUSED:
        return "refused by the node: ";
    case HF_PUSH_UNKNOWN:
        return "they may or may not have been pushed: ";
    default:
        return "not pushed: ";
    }
}

static void slice_complain(struct pusher *pusher, const struct ending *ending)
{
    if (ending->answer == HF_PUSH_DUPLICATE)
        complain(pusher, "line %llu: not pushed: the task %s has this class and these arguments, and waits or runs",
                 (unsigned long long)ending->first, ending->holder);
    else
        complain(pusher, "lines %llu to %llu, %zu task%s for queue %s: %s%s", (unsigned long long)ending->first,
                 (unsigned long long)ending->last, ending->count, human_plural((int64_t)ending->count), ending->queue,
                 answer_text(ending->answer), ending->reason);
}

static void ending_complain(struct pusher *pusher, const struct ending *ending)
{
    if (is_away(ending->answer))
        complain(pusher, "the queue node %s %s: %s", pusher->options->address,
                 ending->answer == HF_PUSH_DENIED ? "does not let us in" : "cannot be reached", ending->reason);
    else if (pusher->options->single != NULL)
        single_complain(pusher, ending);
    else
        slice_complain(pusher, ending);
}

static uint64_t pushed(const struct pusher *pusher)
{
    return pusher->ends[HF_PUSH_QUEUED] + pusher->ends[HF_PUSH_SCHEDULED];
}

static void progress_show(struct pusher *pusher)
{
    uint64_t read = pusher->source != NULL ? line_source_bytes(pusher->source) : 0;
    if (pusher->options->single != NULL)
        return;
    if (pusher->input_size > 0 && read > 0) /* lines are about as long as those that were seen */
        pusher->progress.total = (uint64_t)((double)pusher->tasks * (double)pusher->input_size / (double)read);
    progress_update(&pusher->progress, pushed(pusher));
}

/* --- input ------------------------------------------------------------------------------------------------------ */

static bool is_blank(const struct line *line)
{
    for (size_t i = 0; i < line->length; i++)
        if (line->text[i] != ' ' && line->text[i] != '\t' && line->text[i] != '\r')
            return false;
    return true;
}

static void line_refuse(struct pusher *pusher, const char *reason)
{
    pusher->bad++;
    if (pusher->options->single != NULL)
        complain(pusher, "%s", reason);
    else
        complain(pusher, "line %llu: %s", (unsigned long long)pusher->line, reason);
    if (!pusher->options->keep_going)
        pusher->input_over = true;
}

/* Adds it to the stream, or only looks at it. */
static bool text_accept(struct pusher *pusher, const char *text, size_t length, struct error *error)
{
    struct intake_task task;
    if (pusher->stream != NULL)
        return hf_stream_add(pusher->stream, text, length, pusher->line, error->text, sizeof error->text);
    if (!intake_take(pusher->options->intake, text, length, wall_now(), &task, error))
        return false;
    if (pusher->options->single != NULL)
        buffer_append(&pusher->single, task.payload.bytes, task.payload.length);
    return true;
}

static void text_take(struct pusher *pusher, const char *text, size_t length)
{
    struct error error = ERROR_NONE;
    if (!text_accept(pusher, text, length, &error)) {
        line_refuse(pusher, error.text);
        return;
    }
    pusher->tasks++;
    pusher->is_added = true;
}

static void line_refuse_long(struct pusher *pusher)
{
    char reason[96];
    snprintf(reason, sizeof reason, "longer than the %zu bytes that a task may have", pusher->options->line_max);
    line_refuse(pusher, reason);
}

/* Takes one line; false when there is none now. */
static bool line_take(struct pusher *pusher)
{
    struct line line;
    enum line_found found = line_source_next(pusher->source, &line);
    pusher->line += found == LINE_READ || found == LINE_TOO_LONG;
    switch (found) {
    case LINE_READ:
        if (!is_blank(&line))
            text_take(pusher, line.text, line.length);
        return true;
    case LINE_TOO_LONG:
        line_refuse_long(pusher);
        return true;
    case LINE_NONE:
        return false;
    case LINE_FAILED:
        complain(pusher, "reading standard input: %s", line_source_reason(pusher->source));
        pusher->troubled = pusher->input_over = true;
        return true;
    case LINE_END:
        break;
    }
    pusher->input_over = pusher->input_ended = true;
    return true;
}

/* --- the stream --------------------------------------------------------------------------------------------------- */

/* Reads and pushes until there is enough to send, or nothing to read; ends the run when all is over. */
static void feed(struct pusher *pusher)
{
    bool more = true;
    while (!pusher->input_over && more && (pusher->stream == NULL || !hf_stream_is_full(pusher->stream)))
        more = line_take(pusher);
    if (pusher->stream != NULL && pusher->is_added && (pusher->input_over || !more)) {
        hf_stream_flush(pusher->stream);
        pusher->is_added = false;
    }
    bool is_idle = pusher->stream == NULL || pusher->ended == pusher->tasks;
    if (pusher->input_over && is_idle)
        loop_stop(pusher->loop);
}

static void stop(struct pusher *pusher)
{
    pusher->input_over = true;
    pusher->is_added = false;
    if (pusher->stream != NULL)
        hf_stream_drop(pusher->stream);
}

static void ending_take(struct pusher *pusher, const struct ending *ending)
{
    bool is_first_away = is_away(ending->answer) && pusher->ends[ending->answer] == 0;
    pusher->ended += ending->count;
    pusher->ends[ending->answer] += ending->count;
    if (is_first_away || !(is_good(ending->answer) || is_away(ending->answer)))
        ending_complain(pusher, ending);
    progress_show(pusher);
    bool is_trouble = !is_good(ending->answer) && ending->answer != HF_PUSH_DUPLICATE;
    if (is_trouble && !pusher->troubled) {
        pusher->troubled = true;
        stop(pusher);
    }
    feed(pusher);
}

static void ending_deliver(struct loop_message *message)
{
    struct ending *ending = list_owner(message, struct ending, message);
    ending_take(ending->pusher, ending);
    free(ending);
}

/* On the library's thread. */
static void stream_ended(void *context, const struct hf_stream_report *report)
{
    struct pusher *pusher = context;
    struct ending *ending = memory_new(struct ending);
    ending->message.deliver = ending_deliver;
    ending->pusher = pusher;
    ending->answer = report->answer;
    ending->count = report->count;
    ending->first = report->numbers[0];
    ending->last = report->numbers[report->count - 1];
    snprintf(ending->queue, sizeof ending->queue, "%s", report->queue);
    snprintf(ending->holder, sizeof ending->holder, "%s", report->holder);
    snprintf(ending->reason, sizeof ending->reason, "%s", report->reason);
    loop_post(pusher->loop, &ending->message);
}

static bool stream_open(struct pusher *pusher, struct error *error)
{
    const struct pusher_options *options = pusher->options;
    if (options->dry_run)
        return true;
    pusher->producer = hf_producer_create(&options->producer, error->text, sizeof error->text);
    if (pusher->producer != NULL)
        pusher->stream =
            hf_stream_open(pusher->producer, &options->task, stream_ended, pusher, error->text, sizeof error->text);
    return pusher->stream != NULL;
}

/* --- the run ---------------------------------------------------------------------------------------------------- */

static void interrupted(void *context, int number)
{
    struct pusher *pusher = context;
    if (pusher->interrupts++ == 0) {
        complain(pusher, "%s: no more is read", number == SIGINT ? "interrupted" : "told to stop");
        stop(pusher);
        feed(pusher);
    } else {
        loop_stop(pusher->loop);
    }
}

static void input_ready(void *context)
{
    feed(context);
}

static bool begin(struct pusher *pusher, struct error *error)
{
    const struct pusher_options *options = pusher->options;
    struct stat status;
    pusher->loop = loop_create(error);
    if (pusher->loop == NULL)
        return false;
    pusher->signals[0] = loop_signal_start(pusher->loop, SIGINT, interrupted, pusher);
    pusher->signals[1] = loop_signal_start(pusher->loop, SIGTERM, interrupted, pusher);
    if (!stream_open(pusher, error))
        return false;
    if (options->single != NULL)
        return true;
    if (fstat(options->fd, &status) == 0 && S_ISREG(status.st_mode))
        pusher->input_size = (uint64_t)status.st_size;
    progress_start(&pusher->progress, STDERR_FILENO, "pushing", 0);
    pusher->source = line_source_start(pusher->loop, options->fd, options->line_max, input_ready, pusher, error);
    return pusher->source != NULL;
}

static void end(struct pusher *pusher)
{
    if (pusher->source != NULL)
        line_source_stop(pusher->source);
    if (pusher->stream != NULL)
        hf_stream_close(pusher->stream);
    hf_producer_destroy(pusher->producer);
    for (int i = 0; pusher->loop != NULL && i < 2; i++)
        loop_signal_stop(pusher->signals[i]);
    if (pusher->loop != NULL)
        loop_destroy(pusher->loop);
    if (pusher->source != NULL)
        line_source_free(pusher->source);
    buffer_fini(&pusher->single);
}

/* --- the account ------------------------------------------------------------------------------------------------ */

static void single_tell_json(const struct pusher *pusher)
{
    const struct hf_task *task = &pusher->options->task;
    const char *queue = task->queue != NULL ? task->queue : "default";
    struct json_writer json = json_begin(&(struct buffer){0});
    json_text(&json, "jid", task->jid);
    json_text(&json, "class", task->class_name);
    json_text(&json, "queue", queue);
    if (pusher->ends[HF_PUSH_SCHEDULED] > 0)
        json_seconds(&json, "at", task->at_ms * 1000);
    json_finish(&json);
}

static void single_tell(const struct pusher *pusher)
{
    if (pusher->options->dry_run)
        printf("%.*s\n", (int)pusher->single.length, pusher->single.bytes);
    else if (pushed(pusher) > 0 && pusher->options->as_json)
        single_tell_json(pusher);
    else if (pushed(pusher) > 0)
        printf("%s\n", pusher->options->task.jid);
}

static void bulk_tell_json(const struct pusher *pusher, double seconds)
{
    const uint64_t *ends = pusher->ends;
    uint64_t in_flight = pusher->options->dry_run ? 0 : pusher->tasks - pusher->ended;
    uint64_t not_sent = ends[HF_PUSH_DROPPED] + ends[HF_PUSH_UNREACHABLE] + ends[HF_PUSH_DENIED];
    printf("{\"pushed\":%llu,\"duplicate\":%llu,\"unknown\":%llu,\"refused\":%llu,\"not_sent\":%llu,"
           "\"bad_lines\":%llu,\"lines\":%llu,\"complete\":%s,\"seconds\":%.3f}\n",
           (unsigned long long)pushed(pusher), (unsigned long long)ends[HF_PUSH_DUPLICATE],
           (unsigned long long)(ends[HF_PUSH_UNKNOWN] + in_flight), (unsigned long long)ends[HF_PUSH_REFUSED],
           (unsigned long long)not_sent, (unsigned long long)pusher->bad, (unsigned long long)pusher->line,
           pusher->input_ended ? "true" : "false", seconds);
}

static void bulk_tell(struct pusher *pusher)
{
    uint64_t done = pushed(pusher);
    double seconds = (double)instant_since(pusher->started, instant_now()) / (double)NS_PER_S;
    if (pusher->complaints > COMPLAINTS_MAX)
        fprintf(stderr, "holdfast push: ... and %llu more\n",
                (unsigned long long)(pusher->complaints - COMPLAINTS_MAX));
    if (!pusher->input_ended)
        fprintf(stderr, "holdfast push: nothing after line %llu was pushed\n", (unsigned long long)pusher->line);
    if (pusher->options->as_json)
        bulk_tell_json(pusher, seconds);
    else if (pusher->options->dry_run)
        printf("%llu %s fine\n", (unsigned long long)pusher->tasks, pusher->tasks == 1 ? "task is" : "tasks are");
    else
        printf("%llu task%s pushed in %.2f s (%.0f/s)\n", (unsigned long long)done, done == 1 ? "" : "s", seconds,
               seconds > 0 ? (double)done / seconds : 0);
}

/* Nothing can have been pushed, and later it may be possible. */
static bool may_call_again(const struct pusher *pusher)
{
    const uint64_t *ends = pusher->ends;
    uint64_t unsent = ends[HF_PUSH_UNREACHABLE] + ends[HF_PUSH_DROPPED];
    return ends[HF_PUSH_UNREACHABLE] > 0 && pusher->tasks == unsent && pusher->bad == 0;
}

/* The answer to "what was pushed" must not get lost: who does not know would push it again. */
static bool output_reach(struct pusher *pusher)
{
    if (fflush(stdout) == 0 && ferror(stdout) == 0)
        return true;
    if (pushed(pusher) == 0 || pusher->options->dry_run)
        return false;
    if (pusher->options->single != NULL)
        fprintf(stderr, "holdfast push: the result could not be written, but the task %s was pushed\n",
                pusher->options->task.jid);
    else
        fprintf(stderr, "holdfast push: the result could not be written, but %llu of %llu tasks were pushed\n",
                (unsigned long long)pushed(pusher), (unsigned long long)pusher->tasks);
    return false;
}

static enum exit_code account(struct pusher *pusher)
{
    bool is_fine = pusher->bad == 0 && !pusher->troubled && pusher->ends[HF_PUSH_DUPLICATE] == 0;
    progress_end(&pusher->progress);
    if (pusher->options->single == NULL)
        bulk_tell(pusher);
    else if (pusher->tasks > 0 && !pusher->options->is_awaited)
        single_tell(pusher);
    if (output_reach(pusher) && is_fine && pusher->interrupts == 0)
        return EXIT_CODE_OK;
    return may_call_again(pusher) ? EXIT_CODE_TEMPORARY : EXIT_CODE_FAILURE;
}

enum exit_code pusher_run(const struct pusher_options *options)
{
    struct pusher pusher = {.options = options, .started = instant_now()};
    struct error error = ERROR_NONE;
    enum exit_code code = EXIT_CODE_FAILURE;
    if (begin(&pusher, &error)) {
        if (options->single != NULL) {
            text_take(&pusher, options->single, strlen(options->single));
            pusher.input_over = pusher.input_ended = true;
        }
        feed(&pusher);
        loop_run(pusher.loop);
        code = account(&pusher);
        if (pusher.interrupts > 1) { /* whoever asks twice does not want to wait for answers */
            fflush(stdout);
            _exit((int)code);
        }
    } else {
        fprintf(stderr, "holdfast push: %s\n", error.text);
    }
    end(&pusher);
    return code;
}
