/* holdfast push: puts tasks into queues, one from the command line or many from standard input.
 *
 * Feeds lines to a stream of libholdfast as long as it has room, and stops at trouble.
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
 * Everything here runs on a loop of its own, on the calling thread; the library reports ends on its thread, which
 * posts them to the loop. */
#include "worker/commands/command.h"

#include <inttypes.h>
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
#include "base/process.h"
#include "base/quantity.h"
#include "queue/holdfast.h"
#include "queue/push.h"
#include "worker/commands/console.h"
#include "worker/commands/fleet.h"
#include "worker/commands/line_source.h"
#include "worker/commands/progress_bar.h"
#include "worker/commands/task_await.h"
#include "worker/plugin/argument_check.h"
#include "worker/print/human.h"
#include "worker/print/printer.h"

/* For the look whether the node is for tasks. */
#define CHECK_PATIENCE_NS (500 * NS_PER_MS)

struct push_command {
    struct console console;
    struct hf_task task;
    struct envelope_limits limits;
    struct option_texts resources, tags;
    char retry[32], jid[ENVELOPE_NEW_JID_SIZE];
    bool from_stdin, dry_run, keep_going;
    const char *single;           /* arguments of the class; NULL = lines of standard input */
    struct task_builder *builder; /* checks and completes every task, also of a dry run */
    struct built_task single_task;
    struct hf_producer_options producer;
    const char *address; /* of the node, for people */
    struct task_await await;
};

/* --- options ---------------------------------------------------------------------------------------------------- */

static bool retry_take(void *target, const char *text, struct error *error)
{
    int64_t count = 0;
    bool is_yes = strcmp(text, "true") == 0 || strcmp(text, "yes") == 0;
    bool is_word = is_yes || strcmp(text, "false") == 0 || strcmp(text, "no") == 0;
    if (!is_word && !count_parse(text, 0, ENVELOPE_RETRIES_MAX, &count))
        return error_set(error, "it is a number up to %d, yes or no, not \"%s\"", ENVELOPE_RETRIES_MAX, text);
    if (is_word)
        snprintf(target, sizeof((struct push_command *)0)->retry, "%s", is_yes ? "true" : "false");
    else
        snprintf(target, sizeof((struct push_command *)0)->retry, "%" PRId64, count);
    return true;
}

/* In the library's unit, rounded up; 0, which means something else there, is as little as possible. */
static int64_t ms_of(int64_t ns)
{
    return ns == 0 ? 1 : (ns - 1) / NS_PER_MS + 1;
}

static bool ms_take(void *target, const char *text, struct error *error)
{
    int64_t ns = 0;
    bool is_good = duration_parse(text, &ns, error);
    *(int64_t *)target = ms_of(ns);
    return is_good;
}

static bool unique_take(void *target, const char *text, struct error *error)
{
    int64_t ns = 0;
    if (text != NULL && duration_parse(text, &ns, error) && ns == 0)
        return error_set(error, "%s would end at once; leave --unique out for a task that need not be unique", text);
    return text == NULL || ms_take(target, text, error);
}

static bool at_take(void *target, const char *text, struct error *error)
{
    struct wall_time moment = {0};
    bool is_good = moment_parse(text, &moment, error);
    *(int64_t *)target = moment.us / 1000;
    return is_good;
}

#define AT(member) offsetof(struct push_command, member)
static const struct option_row options[] = {
    {OPTION_TEXT, 'q', "queue", "NAME", "the queue, where a task names none (default)", .offset = AT(task.queue)},
    {OPTION_TEXTS, 'r', "resource", "NAME", "the task is run under the lock of NAME; may be repeated",
     .offset = AT(resources), .most = ENVELOPE_RESOURCES_MAX},
    {OPTION_TEXT, 0, "jid", "ID", "the task's id, instead of a new one", .offset = AT(task.jid)},
    {OPTION_TAKEN, 0, "retry", "N|no|yes", "how often a failed task is retried (yes: 25 times)", .offset = AT(retry),
     .take = retry_take},
    {OPTION_TAKEN, 0, "at", "TIME", "run it at this time: 2026-11-21T18:00:00Z, or seconds since 1970",
     .offset = AT(task.at_ms), .take = at_take},
    {OPTION_TAKEN, 0, "in", "DURATION", "run it in a while", .offset = AT(task.in_ms), .take = ms_take},
    {OPTION_TAKEN, 0, "expires-in", "DURATION", "drop it unless it is started by then",
     .offset = AT(task.expires_in_ms), .take = ms_take},
    {OPTION_TAKEN, 0, "unique", "[=TTL]", "not while a task with the same class and arguments waits or runs (24h)",
     .offset = AT(task.unique_ms), .given = GIVEN(AT(task.unique)), .take = unique_take},
    {OPTION_TEXT, 0, "traceparent", "TEXT", "the trace it belongs to (W3C Trace Context; default: $TRACEPARENT)",
     .offset = AT(task.traceparent)},
    {OPTION_TEXTS, 't', "tag", "TEXT", "shown by dashboards; may be repeated", .offset = AT(tags), .most = HF_TAGS_MAX},
    {OPTION_DURATION, 'w', "wait", "[=DURATION]", "print its result, when it has one; wait at most so long",
     .offset = AT(await.wait_ns), .given = GIVEN(AT(await.waits))},
    {OPTION_FLAG, 0, "stdin", NULL, "read tasks from standard input, one a line; the same as -",
     .offset = AT(from_stdin)},
    {OPTION_FLAG, 'k', "keep-going", NULL, "leave out lines that are no tasks instead of stopping there",
     .offset = AT(keep_going)},
    {OPTION_FLAG, 0, "dry-run", NULL, "only check the tasks; nothing is pushed, no node is needed",
     .offset = AT(dry_run)},
    {OPTION_TABLE, .table = console_options, .offset = AT(console)},
    {.type = OPTION_END},
};
#undef AT

/* CLASS [ARGS], CLASS -, or - alone. */
static int arguments_take(struct push_command *command, char **arguments, int count)
{
    bool dash = count > 0 && strcmp(arguments[count - 1], "-") == 0;
    command->from_stdin = command->from_stdin || dash;
    count -= dash;
    if (count > 0)
        command->task.class_name = arguments[0];
    if (command->from_stdin && count > 1)
        return command_misused(&command_push, "the arguments come from standard input, not also from \"%s\"",
                               arguments[1]);
    if (!command->from_stdin && count == 0)
        return command_misused(&command_push, "name a class, or - to read tasks from standard input");
    if (!command->from_stdin)
        command->single = count > 1 ? arguments[1] : "[]";
    if (command->from_stdin && command->task.jid != NULL)
        return command_misused(&command_push, "--jid is for one task, not for standard input");
    if (command->task.at_ms != 0 && command->task.in_ms != 0)
        return command_misused(&command_push, "a task runs --at a time or --in a while, not both");
    if (command->await.waits && (command->from_stdin || command->dry_run || command->task.jid != NULL))
        return command_misused(&command_push, "--wait is for one task that is pushed, with a jid that is made for it");
    return EXIT_CODE_OK;
}

enum { COMPLAINTS_MAX = 20, SIGNALS = 3 };

struct pusher {
    const struct push_command *command;
    struct loop *loop;
    struct hf_producer *producer; /* NULL in a dry run, like the stream */
    struct hf_stream *stream;
    struct line_source *source;
    struct loop_signal *signals[SIGNALS];
    struct progress progress;
    uint64_t input_size; /* of a regular file; 0 = not known */
    struct instant started;

    bool input_over;  /* nothing more is read */
    bool input_ended; /* because there was no more */
    bool troubled;    /* something was refused or is unknown */
    bool is_added;    /* since the last flush */
    unsigned interrupts;
    uint64_t line, tasks, bad, complaints;
    int64_t last_at_us; /* when the task that was read last is to run; 0 = now */
    uint64_t ended, ends[HF_PUSH_UNKNOWN + 1];
};

/* What the library reported about some tasks, on its way to the loop. */
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
    va_list values;
    progress_end(&pusher->progress);
    va_start(values, format);
    command_complain_list(&command_push, format, values);
    va_end(values);
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
        complain(pusher, "the task %s may or may not be in the queue %s: %s", pusher->command->task.jid, ending->queue,
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
        complain(pusher, "the queue node %s %s: %s", pusher->command->address,
                 ending->answer == HF_PUSH_DENIED ? "does not let us in" : "cannot be reached", ending->reason);
    else if (pusher->command->single != NULL)
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
    if (pusher->command->single != NULL)
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
    if (pusher->command->single != NULL)
        complain(pusher, "%s", reason);
    else
        complain(pusher, "line %llu: %s", (unsigned long long)pusher->line, reason);
    if (!pusher->command->keep_going)
        pusher->input_over = true;
}

static void task_take(struct pusher *pusher, const struct built_task *task)
{
    if (pusher->stream != NULL)
        hf_stream_add_built(pusher->stream, task, pusher->line);
    pusher->tasks++;
    pusher->is_added = true;
}

static void text_take(struct pusher *pusher, const char *text, size_t length)
{
    struct built_task task;
    struct error error = ERROR_NONE;
    struct wall_time now = pusher->producer != NULL ? hf_producer_now(pusher->producer) : wall_now();
    if (!task_build(pusher->command->builder, text, length, now, &task, &error)) {
        line_refuse(pusher, error.text);
        return;
    }
    task_take(pusher, &task);
    pusher->last_at_us = task.at_us;
}

/* Takes one line; false when there is none now. */
static bool line_take(struct pusher *pusher)
{
    struct line line;
    char reason[96];
    enum line_found found = line_source_next(pusher->source, &line);
    pusher->line += found == LINE_READ || found == LINE_TOO_LONG;
    switch (found) {
    case LINE_READ:
        if (!is_blank(&line))
            text_take(pusher, line.text, line.length);
        return true;
    case LINE_TOO_LONG:
        snprintf(reason, sizeof reason, "longer than the %zu bytes that a task may have", pusher->command->limits.size);
        line_refuse(pusher, reason);
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
    const struct push_command *command = pusher->command;
    if (command->dry_run)
        return true;
    pusher->producer = hf_producer_create(&command->producer, error->text, sizeof error->text);
    if (pusher->producer != NULL)
        pusher->stream = hf_stream_open_built(pusher->producer, stream_ended, pusher);
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
    static const int heard[SIGNALS] = {SIGINT, SIGTERM, SIGHUP};
    const struct push_command *command = pusher->command;
    struct stat status;
    pusher->loop = loop_create(error);
    if (pusher->loop == NULL)
        return false;
    for (int i = 0; i < SIGNALS; i++)
        if (!process_ignores(heard[i]))
            pusher->signals[i] = loop_signal_start(pusher->loop, heard[i], interrupted, pusher);
    if (!stream_open(pusher, error))
        return false;
    if (command->single != NULL)
        return true;
    if (fstat(STDIN_FILENO, &status) == 0 && S_ISREG(status.st_mode))
        pusher->input_size = (uint64_t)status.st_size;
    progress_start(&pusher->progress, STDERR_FILENO, "pushing", 0);
    pusher->source = line_source_start(pusher->loop, STDIN_FILENO, command->limits.size, input_ready, pusher, error);
    return pusher->source != NULL;
}

static void end(struct pusher *pusher)
{
    if (pusher->source != NULL)
        line_source_stop(pusher->source);
    if (pusher->stream != NULL)
        hf_stream_close(pusher->stream);
    hf_producer_destroy(pusher->producer);
    for (int i = 0; i < SIGNALS; i++)
        if (pusher->signals[i] != NULL)
            loop_signal_stop(pusher->signals[i]);
    if (pusher->loop != NULL)
        loop_destroy(pusher->loop);
    if (pusher->source != NULL)
        line_source_free(pusher->source);
}

/* --- the account ------------------------------------------------------------------------------------------------ */

static void single_tell(const struct pusher *pusher)
{
    const struct hf_task *task = &pusher->command->task;
    if (pusher->command->dry_run)
        printf("%.*s\n", (int)pusher->command->single_task.payload.length, pusher->command->single_task.payload.bytes);
    if (pusher->command->dry_run || pushed(pusher) == 0)
        return;
    struct printer out = printer_begin(pusher->command->console.as_json, wall_now(), &(struct buffer){0});
    printer_line(&out, "%s", task->jid);
    printer_text(&out, NULL, "jid", task->jid);
    printer_text(&out, NULL, "class", task->class_name);
    printer_text(&out, NULL, "queue", task->queue != NULL ? task->queue : "default");
    if (pusher->ends[HF_PUSH_SCHEDULED] > 0)
        printer_moment(&out, NULL, "at", (struct wall_time){pusher->last_at_us});
    printer_end(&out);
}

static void bulk_tell_json(const struct pusher *pusher, double seconds)
{
    const uint64_t *ends = pusher->ends;
    uint64_t in_flight = pusher->command->dry_run ? 0 : pusher->tasks - pusher->ended;
    struct json_writer json = json_begin(&(struct buffer){0});
    json_number(&json, "pushed", (int64_t)pushed(pusher));
    json_number(&json, "duplicate", (int64_t)ends[HF_PUSH_DUPLICATE]);
    json_number(&json, "unknown", (int64_t)(ends[HF_PUSH_UNKNOWN] + in_flight));
    json_number(&json, "refused", (int64_t)ends[HF_PUSH_REFUSED]);
    json_number(&json, "not_sent", (int64_t)(ends[HF_PUSH_DROPPED] + ends[HF_PUSH_UNREACHABLE] + ends[HF_PUSH_DENIED]));
    json_number(&json, "bad_lines", (int64_t)pusher->bad);
    json_number(&json, "lines", (int64_t)pusher->line);
    json_truth(&json, "complete", pusher->input_ended);
    json_seconds(&json, "seconds", (int64_t)(seconds * 1000 + 0.5) * 1000);
    json_finish(&json);
}

static void bulk_tell(struct pusher *pusher)
{
    uint64_t done = pushed(pusher);
    double seconds = (double)instant_since(pusher->started, instant_now()) / (double)NS_PER_S;
    if (pusher->complaints > COMPLAINTS_MAX)
        command_complain(&command_push, "... and %llu more", (unsigned long long)(pusher->complaints - COMPLAINTS_MAX));
    if (!pusher->input_ended)
        command_complain(&command_push, "nothing after line %llu was pushed", (unsigned long long)pusher->line);
    if (pusher->command->console.as_json)
        bulk_tell_json(pusher, seconds);
    else if (pusher->command->dry_run)
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

/* The answer to "what was pushed" must not get lost: a caller without it would push again. */
static bool output_reach(struct pusher *pusher)
{
    if (fflush(stdout) == 0 && ferror(stdout) == 0)
        return true;
    if (pushed(pusher) == 0 || pusher->command->dry_run)
        return false;
    if (pusher->command->single != NULL)
        command_complain(&command_push, "the result could not be written, but the task %s was pushed",
                         pusher->command->task.jid);
    else
        command_complain(&command_push, "the result could not be written, but %llu of %llu tasks were pushed",
                         (unsigned long long)pushed(pusher), (unsigned long long)pusher->tasks);
    return false;
}

static enum exit_code account(struct pusher *pusher)
{
    bool is_fine = pusher->bad == 0 && !pusher->troubled && pusher->ends[HF_PUSH_DUPLICATE] == 0;
    progress_end(&pusher->progress);
    if (pusher->command->single == NULL)
        bulk_tell(pusher);
    else if (pusher->tasks > 0 && !pusher->command->await.waits)
        single_tell(pusher);
    if (output_reach(pusher) && is_fine && pusher->interrupts == 0)
        return EXIT_CODE_OK;
    return may_call_again(pusher) ? EXIT_CODE_TEMPORARY : EXIT_CODE_FAILURE;
}

static enum exit_code pusher_run(const struct push_command *command)
{
    struct pusher pusher = {.command = command, .started = instant_now()};
    struct error error = ERROR_NONE;
    enum exit_code code = EXIT_CODE_FAILURE;
    if (begin(&pusher, &error)) {
        if (command->single != NULL) {
            text_take(&pusher, command->single, strlen(command->single));
            pusher.input_over = pusher.input_ended = true;
        }
        feed(&pusher);
        loop_run(pusher.loop);
        code = account(&pusher);
        if (pusher.interrupts > 1) { /* a second signal means: do not wait for answers */
            fflush(stdout);
            _exit((int)code);
        }
    } else {
        command_complain(&command_push, "%s", error.text);
    }
    end(&pusher);
    return code;
}

/* --- the node --------------------------------------------------------------------------------------------------- */

/* The configuration says "" where the library says NULL. */
static const char *text_or_null(const char *text)
{
    return text != NULL && text[0] != '\0' ? text : NULL;
}

static void node_take(struct push_command *command)
{
    const struct config_node *node = &command->console.config->queue_node;
    struct hf_producer_options *producer = &command->producer;
    bool has_sentinels = node->sentinels.count > 0;
    producer->unix_path = text_or_null(node->unix_path);
    producer->host = producer->unix_path != NULL || has_sentinels ? NULL : text_or_null(node->host);
    producer->port = producer->host != NULL ? node->port : 0;
    producer->sentinel_master = has_sentinels ? node->master : NULL;
    producer->sentinels = (const char *const *)node->sentinels.items;
    producer->sentinel_count = node->sentinels.count;
    producer->sentinel_user = has_sentinels ? text_or_null(node->sentinel_user) : NULL;
    producer->sentinel_password_file = text_or_null(node->sentinel_password_file);
    producer->user = text_or_null(node->user);
    producer->password = text_or_null(node->password);
    producer->password_file = text_or_null(node->password_file);
    producer->tls = node->tls;
    producer->tls_ca_file = text_or_null(node->tls_ca_file);
    producer->tls_cert_file = text_or_null(node->tls_cert_file);
    producer->tls_key_file = text_or_null(node->tls_key_file);
    producer->tls_server_name = text_or_null(node->tls_server_name);
    producer->database = node->database;
    producer->client_name = "holdfast-push";
    producer->connect_timeout_ms = node->connect_timeout_ns / NS_PER_MS;
    producer->wait_ms =
        command->console.origin.node_timeout_ns > 0 ? ms_of(command->console.origin.node_timeout_ns) : 0;
}

/* --- the run ---------------------------------------------------------------------------------------------------- */

/* A task that is wrong on the command line is a mistake of the caller. */
static int single_check(struct push_command *command)
{
    struct error error = ERROR_NONE;
    const char *text = command->single;
    if (task_build(command->builder, text, strlen(text), wall_now(), &command->single_task, &error))
        return EXIT_CODE_OK;
    return command_misused(&command_push, "%s: %.200s", error.text, text);
}

/* A class is often named as its plugin is: then what a worker would say of the arguments is known here, too. Before
 * there is a second thread. */
static void arguments_try(const struct push_command *command)
{
    const struct config_worker *worker = &command->console.config->worker;
    const char *class_name = command->task.class_name, *args = command->single;
    char *name = memory_text(class_name);
    struct argument_answer answer = {.verdict = ARGUMENT_PASSES};
    struct argument_check *check = NULL;
    struct findings findings = {0}; /* the plugins are the worker's affair */
    struct error error = ERROR_NONE;
    bool is_name = name[0] != '.' && strchr(name, '/') == NULL;
    struct plugins *plugins = is_name ? plugins_load_vetted(worker->jobs_directory, &name, 1, &findings) : NULL;
    if (plugins != NULL && plugins_find(plugins, class_name) != NULL &&
        argument_check_start(&check, plugins, strlen(args), 0, &error))
        argument_check_ask(check, class_name, args, strlen(args), &answer);
    if (answer.verdict == ARGUMENT_REFUSED)
        command_complain(&command_push, "warning: a worker buries a task %s with these arguments: %s", class_name,
                         answer.reason);
    argument_check_end(check);
    plugins_close(plugins);
    findings_fini(&findings);
    free(name);
}

/* By a connection of its own; a node that is slow to answer is left to that of the pushes. */
static int node_check(struct push_command *command)
{
    struct console *console = &command->console;
    int64_t patience_ns = console->origin.node_timeout_ns;
    if (console->origin.kind != ORIGIN_OPTIONS || command->dry_run)
        return EXIT_CODE_OK;
    if (patience_ns == 0 || patience_ns > CHECK_PATIENCE_NS)
        console->origin.node_timeout_ns = CHECK_PATIENCE_NS;
    console->is_silent = true;
    bool is_there = console_connect(console, false) == EXIT_CODE_OK;
    console->is_silent = false;
    console->has_complained = false;
    console->origin.node_timeout_ns = patience_ns;
    int code = is_there ? console_refuse_lock_node(console) : EXIT_CODE_OK;
    if (!is_there && node_client_ended(console->client) == NODE_CLIENT_INTERRUPTED)
        code = console_complain(console, "interrupted; nothing was pushed");
    node_client_close(console->client);
    console->client = NULL;
    return code;
}

/* What will be printed about a single task is known from the beginning. */
static void single_settle(struct push_command *command)
{
    struct hf_task *task = &command->task;
    if (task->jid == NULL) {
        envelope_new_jid(command->jid);
        task->jid = command->jid;
    }
}

static int push(struct push_command *command)
{
    struct error error = ERROR_NONE;
    struct buffer address = {0};
    command->limits = config_task_limits(command->console.config);
    command->task.resources = command->resources.items;
    command->task.resource_count = command->resources.count;
    const char *trace = getenv("TRACEPARENT");
    if (command->task.traceparent == NULL && trace != NULL && traceparent_is_sound(trace, strlen(trace)))
        command->task.traceparent = trace;
    command->task.tags = command->tags.items;
    command->task.tag_count = command->tags.count;
    command->task.retry = command->retry[0] != '\0' ? command->retry : NULL;
    if (command->single != NULL)
        single_settle(command);
    command->builder = task_builder_create(&command->task, &command->limits, NULL, &error);
    if (command->builder == NULL)
        return command_misused(&command_push, "%s", error.text);
    int code = command->single != NULL ? single_check(command) : EXIT_CODE_OK;
    if (code == EXIT_CODE_OK && command->single != NULL)
        arguments_try(command);
    if (code == EXIT_CODE_OK)
        code = node_check(command);
    if (code == EXIT_CODE_OK) {
        node_take(command);
        command->address = config_node_address(&command->console.config->queue_node, &address);
        code = (int)pusher_run(command);
        command->console.has_complained = code != EXIT_CODE_OK;
    }
    task_builder_destroy(command->builder);
    buffer_fini(&address);
    return code;
}

/* What was pushed is there, whatever keeps us from waiting for it. */
static int await_result(struct push_command *command)
{
    struct task_await *await = &command->await;
    await->console = &command->console;
    await->jid = command->task.jid;
    int code = console_connect(&command->console, false);
    if (code == EXIT_CODE_OK)
        code = task_await(await);
    if (code == EXIT_CODE_TEMPORARY)
        command_complain(&command_push, "the task was pushed; `holdfast result %s%s --wait` goes on waiting",
                         await->jid, command->console.origin.kind == ORIGIN_LOCAL ? " --local" : "");
    return code;
}

/* Tells people, and no scripts, that nobody takes the task. What cannot be asked is no failure of the push, and not
 * told. */
static void servers_look(struct push_command *command)
{
    struct console *console = &command->console;
    struct fleet fleet = {.items = NULL};
    const char *queue = command->task.queue != NULL ? command->task.queue : "default";
    const char *class_name = command->task.class_name;
    char quoted[LOG_QUOTE_MAX];
    console->is_silent = true;
    if (console_connect(console, false) == EXIT_CODE_OK && fleet_read(&fleet, console) == EXIT_CODE_OK) {
        bool has_foreign = false;
        for (size_t i = 0; i < fleet.count; i++)
            has_foreign = has_foreign || fleet.items[i].state == FLEET_FOREIGN;
        bool has_queue = fleet_servers(&fleet, queue) > 0;
        if (!has_queue || !(has_foreign || fleet_announces(&fleet, class_name)))
            command_complain(&command_push,
                             "the task was pushed, and waits: no living worker serves the %s %s; `holdfast why %s%s` "
                             "says what to do",
                             has_queue ? "class" : "queue", log_quote(has_queue ? class_name : queue, quoted),
                             command->task.jid, console->origin.kind == ORIGIN_LOCAL ? " --local" : "");
    }
    fleet_free(&fleet);
    console->code = EXIT_CODE_OK;
    console->has_complained = false;
}

static int run(int argc, char **argv)
{
    struct push_command command = {.await = {.wait_ns = INT64_MAX, .scan_limit = TASK_AWAIT_SCAN, .was_pushed = true}};
    struct command_line line;
    if (!command_line_read(&line, &command_push, argc, argv, &command))
        return line.exit_code;
    int code = arguments_take(&command, line.arguments, line.argument_count);
    if (code != EXIT_CODE_OK)
        return code;
    command.console.origin.changes = !command.dry_run;
    code = console_configure(&command.console, &command_push, ORIGIN_NEEDS_QUEUE);
    if (code == EXIT_CODE_OK)
        code = push(&command);
    if (code == EXIT_CODE_OK && command.await.waits)
        code = await_result(&command);
    else if (code == EXIT_CODE_OK && command.single != NULL && !command.dry_run && isatty(STDERR_FILENO))
        servers_look(&command);
    return console_close(&command.console, code);
}

const struct command command_push = {
    .name = "push",
    .summary = "put tasks into queues",
    .arguments = "CLASS [ARGS] | [CLASS] -",
    .about =
        "Pushes one task and prints its id, or pushes the tasks that come on standard input, one a line.\n"
        "\n"
        "CLASS names the handler and ARGS are its arguments as a JSON array, [] by default. With - each line is a\n"
        "whole task, a JSON object with at least \"class\" and \"args\"; with CLASS and - each line is an array of\n"
        "arguments. What a task lacks (jid, queue, created_at, enqueued_at, retry) is added, what it has stays byte\n"
        "for byte. Blank lines are skipped.\n"
        "\n"
        "With --at or --in, or with \"at\" in a task, it waits in the schedule until then; a time that is past means\n"
        "now. A number of seconds since 1970 has ten digits or more: --at refuses a smaller one, which is hardly\n"
        "meant, and as \"at\" of a task it counts from now, as in Sidekiq. With --unique a task is refused while\n"
        "another with the same class and the same bytes of arguments waits or runs: until that one is done, dead,\n"
        "discarded, expired or cancelled, or an operator buries or deletes it, or for TTL after it may run. Whether\n"
        "another program deleted it is looked for; a push that finds it gone takes a second longer.\n"
        "\n"
        "Every task is accounted for. At the first line that is no task the reading stops, and the tasks before it\n"
        "are pushed; with --keep-going such lines are left out. Nothing is ever pushed twice: a lost answer is asked\n"
        "for again in a way that the node recognises. Lines whose outcome is still unknown when --node-timeout (2s) "
        "is\n"
        "over are named, and it is for you to decide about them.\n"
        "\n"
        "With --wait the result of the task is printed instead of its id, as `holdfast result` does, with its exit\n"
        "codes: 1 when there will be none, 75 when there is none yet. Standard error then names the task.\n"
        "\n"
        "A single task whose arguments the handler of its class would refuse is pushed with a warning, if a plugin of\n"
        "that name is installed here. At a terminal it is told when no living worker serves its queue or class.\n"
        "\n"
        "Exit codes without --wait: 0 all were pushed; 1 not all were, or standard output could not be written, and\n"
        "standard error says what was pushed; 2 wrong use; 75 the node could not be reached and nothing was pushed,\n"
        "so that the same call may simply be repeated.\n",
    .examples = "  holdfast push transfer '[\"alice\",\"bob\",25]' -r account:alice -r account:bob\n"
                "  holdfast push echo --queue urgent --retry 3\n"
                "  holdfast push --host redis.example -p 6380 --password-file secret - < tasks.jsonl\n"
                "  holdfast push report '[2026]' --at 2026-12-01T06:00:00Z --unique=1h\n"
                "  seq 1000 | sed 's/.*/[&]/' | holdfast push render - -r screen\n",
    .options = options,
    .arguments_max = 2,
    .run = run,
};
