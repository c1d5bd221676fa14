/* Feeds lines to the producer of lib/queue as long as it wants more, and stops at trouble.
 *
 *   input ──▶ intake ──▶ push ──▶ ended: acknowledged
 *               │                  └──── refused or unknown: no more is read, what was not sent is dropped, what is in
 *               └─ bad line              flight is waited for, and every task is accounted for
 *
 * A bad line stops the reading, but the tasks before it are pushed. Nothing is tried twice: whether to push the tasks
 * of an unknown outcome again is not for us to decide. The exit code says TEMPORARY only when nothing can have been
 * pushed, so that a script may simply call again. */
#include "worker/pusher.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/loop.h"
#include "queue/push.h"
#include "worker/line_source.h"
#include "worker/progress.h"

enum { COMPLAINTS_MAX = 20, COMPLAINT_TEXT_MAX = 1024 };

struct pusher {
    const struct pusher_options *options;
    struct loop *loop;
    struct push *push; /* NULL in a dry run */
    struct line_source *source;
    struct loop_signal *signals[2];
    struct loop_timer patience;
    struct progress progress;
    uint64_t input_size; /* of a regular file; 0 = not known */
    struct instant started;

    bool input_over;  /* nothing more is read */
    bool input_ended; /* because there was no more */
    bool troubled;    /* something was refused or is unknown */
    bool is_away;     /* the node is, and patience with it is over */
    bool is_refused;  /* the node does not let us in */
    unsigned interrupts;
    uint64_t line, tasks, bad, complaints;
    char jid[ENVELOPE_JID_BYTES_MAX + 1]; /* of the single task */
    struct buffer single;                 /* what it would be, in a dry run */
    char queue[ENVELOPE_QUEUE_BYTES_MAX + 1];
    char class_name[ENVELOPE_CLASS_BYTES_MAX + 1];
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

static const char *end_text(enum push_end end)
{
    switch (end) {
    case PUSH_REFUSED:
        return "refused by the node: ";
    case PUSH_UNKNOWN:
        return "they may or may not have been pushed: ";
    default:
        return "not pushed: ";
    }
}

static void slice_complain(struct pusher *pusher, const struct push_report *report)
{
    if (pusher->options->single != NULL && report->end == PUSH_UNKNOWN)
        complain(pusher, "the task %s may or may not be in the queue %s: %s", pusher->jid, report->queue,
                 report->reason);
    else if (pusher->options->single != NULL && report->end == PUSH_REFUSED)
        complain(pusher, "refused by the node: %s", report->reason);
    else if (pusher->options->single == NULL)
        complain(pusher, "lines %llu to %llu, %zu tasks for queue %s: %s%s", (unsigned long long)report->first,
                 (unsigned long long)report->last, report->count, report->queue, end_text(report->end), report->reason);
}

static void progress_show(struct pusher *pusher)
{
    uint64_t read = pusher->source != NULL ? line_source_bytes(pusher->source) : 0;
    uint64_t done = push_counters(pusher->push)->acknowledged;
    if (pusher->options->single != NULL)
        return;
    if (pusher->input_size > 0 && read > 0) /* lines are about as long as those that were seen */
        pusher->progress.total = (uint64_t)((double)pusher->tasks * (double)pusher->input_size / (double)read);
    progress_update(&pusher->progress, done);
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

static void single_keep(struct pusher *pusher, const struct intake_task *task)
{
    snprintf(pusher->jid, sizeof pusher->jid, "%s", task->jid);
    snprintf(pusher->queue, sizeof pusher->queue, "%s", task->queue);
    snprintf(pusher->class_name, sizeof pusher->class_name, "%s", task->class_name);
    buffer_append(&pusher->single, task->payload.bytes, task->payload.length);
}

static void text_take(struct pusher *pusher, const char *text, size_t length)
{
    struct intake_task task;
    struct error error = ERROR_NONE;
    if (!intake_take(pusher->options->intake, text, length, wall_now(), &task, &error)) {
        line_refuse(pusher, error.text);
        return;
    }
    pusher->tasks++;
    if (pusher->options->single != NULL)
        single_keep(pusher, &task);
    if (pusher->push != NULL)
        push_add(pusher->push, task.queue, task.payload.bytes, task.payload.length, pusher->line);
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

/* --- the node --------------------------------------------------------------------------------------------------- */

static void patience_start(struct pusher *pusher)
{
    bool is_up = redis_node_state(push_node(pusher->push)) == REDIS_NODE_UP;
    if (!is_up && !loop_timer_is_set(&pusher->patience))
        loop_timer_set(pusher->loop, &pusher->patience,
                       instant_after(loop_now(pusher->loop), pusher->options->wait_ns));
}

/* Reads and pushes until there is enough to send, or nothing to read; ends the run when all is over. */
static void feed(struct pusher *pusher)
{
    bool more = true;
    while (!pusher->input_over && more && (pusher->push == NULL || !push_is_full(pusher->push)))
        more = line_take(pusher);
    if (pusher->push != NULL && (pusher->input_over || !more))
        push_flush(pusher->push);
    bool is_idle = pusher->push == NULL || push_is_idle(pusher->push);
    if (!is_idle)
        patience_start(pusher);
    if (pusher->input_over && is_idle)
        loop_stop(pusher->loop);
}

static void stop(struct pusher *pusher)
{
    pusher->input_over = true;
    if (pusher->push != NULL)
        push_drop(pusher->push);
}

static void slice_ended(void *context, const struct push_report *report)
{
    struct pusher *pusher = context;
    if (report->end != PUSH_ACKNOWLEDGED)
        slice_complain(pusher, report);
    if (report->end == PUSH_DROPPED)
        return;
    progress_show(pusher);
    if (report->end != PUSH_ACKNOWLEDGED && !pusher->troubled) {
        pusher->troubled = true;
        stop(pusher);
    }
    feed(pusher);
}

static void away_for_good(struct pusher *pusher, const char *reason)
{
    complain(pusher, "the queue node %s %s: %s", pusher->options->address,
             pusher->is_refused ? "does not let us in" : "cannot be reached", reason);
    pusher->is_away = true;
    stop(pusher);
    feed(pusher);
}

/* A server that is there and refuses us will go on doing so; the texts are those of lib/redis. */
static bool is_refusal(const char *reason)
{
    return strstr(reason, " refused AUTH") != NULL || strstr(reason, " refused SELECT") != NULL ||
           strstr(reason, ": NOAUTH") != NULL || strstr(reason, ": NOPERM") != NULL;
}

static void node_changed(void *context, enum redis_node_state state, const char *reason)
{
    struct pusher *pusher = context;
    loop_timer_clear(pusher->loop, &pusher->patience);
    if (state == REDIS_NODE_UP) {
        feed(pusher);
        return;
    }
    pusher->is_refused = is_refusal(reason);
    if (pusher->is_refused && !pusher->is_away)
        away_for_good(pusher, reason);
    else if (!push_is_idle(pusher->push))
        patience_start(pusher);
}

static void patience_over(struct loop_timer *timer)
{
    struct pusher *pusher = list_owner(timer, struct pusher, patience);
    const char *reason = redis_node_reason(push_node(pusher->push));
    if (redis_node_state(push_node(pusher->push)) == REDIS_NODE_UP || push_is_idle(pusher->push))
        return;
    pusher->is_refused = is_refusal(reason);
    away_for_good(pusher, reason[0] != '\0' ? reason : "no answer");
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
    loop_timer_init(&pusher->patience, patience_over);
    pusher->signals[0] = loop_signal_start(pusher->loop, SIGINT, interrupted, pusher);
    pusher->signals[1] = loop_signal_start(pusher->loop, SIGTERM, interrupted, pusher);
    if (!options->dry_run)
        pusher->push = push_create(pusher->loop, &(struct push_options){.node = options->node,
                                                                        .timeout_ns = options->timeout_ns,
                                                                        .ended = slice_ended,
                                                                        .changed = node_changed,
                                                                        .context = pusher});
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
    push_destroy(pusher->push);
    for (int i = 0; pusher->loop != NULL && i < 2; i++)
        loop_signal_stop(pusher->signals[i]);
    if (pusher->loop != NULL) {
        loop_timer_clear(pusher->loop, &pusher->patience);
        loop_destroy(pusher->loop);
    }
    if (pusher->source != NULL)
        line_source_free(pusher->source);
    buffer_fini(&pusher->single);
}

/* --- the account ------------------------------------------------------------------------------------------------ */

static void single_tell(const struct pusher *pusher, bool is_pushed)
{
    if (pusher->options->dry_run) {
        printf("%.*s\n", (int)pusher->single.length, pusher->single.bytes);
        return;
    }
    if (!is_pushed)
        return;
    if (!pusher->options->as_json) {
        printf("%s\n", pusher->jid);
        return;
    }
    struct buffer text = {0};
    const char *const facts[][2] = {
        {"{\"jid\":", pusher->jid}, {",\"class\":", pusher->class_name}, {",\"queue\":", pusher->queue}};
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++) {
        buffer_append_text(&text, facts[i][0]);
        envelope_append_string(&text, facts[i][1], strlen(facts[i][1]));
    }
    printf("%s}\n", buffer_text(&text));
    buffer_fini(&text);
}

static void bulk_tell_json(const struct pusher *pusher, const struct push_counters *counters, double seconds)
{
    uint64_t in_flight = counters->sent - counters->acknowledged - counters->refused - counters->unknown;
    printf("{\"pushed\":%llu,\"unknown\":%llu,\"refused\":%llu,\"not_sent\":%llu,\"bad_lines\":%llu,\"lines\":%llu,"
           "\"complete\":%s,\"seconds\":%.3f}\n",
           (unsigned long long)counters->acknowledged, (unsigned long long)(counters->unknown + in_flight),
           (unsigned long long)counters->refused, (unsigned long long)counters->dropped,
           (unsigned long long)pusher->bad, (unsigned long long)pusher->line, pusher->input_ended ? "true" : "false",
           seconds);
}

static void bulk_tell(struct pusher *pusher, const struct push_counters *counters)
{
    double seconds = (double)instant_since(pusher->started, instant_now()) / (double)NS_PER_S;
    if (pusher->complaints > COMPLAINTS_MAX)
        fprintf(stderr, "holdfast push: ... and %llu more\n",
                (unsigned long long)(pusher->complaints - COMPLAINTS_MAX));
    if (!pusher->input_ended)
        fprintf(stderr, "holdfast push: nothing after line %llu was pushed\n", (unsigned long long)pusher->line);
    if (pusher->options->as_json)
        bulk_tell_json(pusher, counters, seconds);
    else if (pusher->options->dry_run)
        printf("%llu %s fine\n", (unsigned long long)pusher->tasks, pusher->tasks == 1 ? "task is" : "tasks are");
    else
        printf("%llu task%s pushed in %.2f s (%.0f/s)\n", (unsigned long long)counters->acknowledged,
               counters->acknowledged == 1 ? "" : "s", seconds,
               seconds > 0 ? (double)counters->acknowledged / seconds : 0);
}

static enum exit_code account(struct pusher *pusher)
{
    static const struct push_counters none = {0};
    const struct push_counters *counters = pusher->push != NULL ? push_counters(pusher->push) : &none;
    bool is_fine = pusher->bad == 0 && !pusher->troubled && !pusher->is_away && pusher->interrupts == 0;
    progress_end(&pusher->progress);
    if (pusher->options->single == NULL)
        bulk_tell(pusher, counters);
    else if (pusher->tasks > 0)
        single_tell(pusher, counters->acknowledged > 0);
    if (is_fine)
        return EXIT_CODE_OK;
    bool may_call_again = pusher->is_away && !pusher->is_refused && counters->sent == 0 && pusher->bad == 0;
    return may_call_again ? EXIT_CODE_TEMPORARY : EXIT_CODE_FAILURE;
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
    } else {
        fprintf(stderr, "holdfast push: %s\n", error.text);
    }
    end(&pusher);
    return code;
}
