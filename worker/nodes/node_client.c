/* One connection, and a loop that runs only while somebody waits for answers.
 *
 * Each request of a pipeline is an exchange: waiting (to be sent, or sent again), in flight, or answered. All that
 * wait are sent when the connection comes up, and again a moment after one was not answered. The run ends when none is
 * left, when the first attempt to connect has failed (unless it keeps trying), or when the patience is over. */
#include "worker/nodes/node_client.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/memory.h"
#include "redis/node.h"
#include "worker/config/node_options.h"

#define PATIENCE_NS     (10 * NS_PER_S)
#define ANSWER_LEAST_NS (3 * NS_PER_S)
#define AGAIN_NS        (200 * NS_PER_MS)

/* Operators look at more than a worker does. */
/* What ends a run, and what a program that owns the terminal has to hear as well. */
static const int end_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
enum { ENDS = 4, ENDS_OF_RUN = 2 };

enum { REPLY_LIMIT = 256 << 20, ELEMENT_LIMIT = 1 << 18, UNANSWERED_LIMIT = 64 << 20, REASON_MAX = 400 };

struct exchange {
    struct inquiry *inquiry;
    struct buffer request;
    struct redis_call call;
    bool was_sent;
    struct redis_reply *reply; /* NULL = not answered */
};

struct inquiry {
    struct inquiry_options options;
    struct loop *loop;
    struct redis_node *node;
    struct exchange **exchanges;
    size_t count, capacity, answered;
    struct loop_timer again, patience;
    bool running, was_up;
    struct loop_signal *signals[ENDS]; /* of a run; while attended all the time */
    struct loop_signal *resized, *suspended;
    bool is_attended, is_pause;
    bool is_held;    /* signals are heard between runs, too */
    bool is_closing; /* the watches of signals are about to be stopped */
    int late;        /* the signal that came then */
    bool is_over;    /* attended, and told to end: so are all further runs */
    struct inquiry_terminal terminal;
    enum inquiry_end end;
    char reason[REASON_MAX];
};

/* --- copies ----------------------------------------------------------------------------------------------------- */

static size_t copy_size(const struct redis_reply *reply)
{
    size_t size = reply->bytes != NULL ? reply->length + 1 : 0;
    for (size_t i = 0; reply->kind == REDIS_ARRAY && i < reply->count; i++)
        size += sizeof *reply + copy_size(&reply->elements[i]);
    return size;
}

/* Fills `to`: the slots of all elements come from `slots`, the bytes from `bytes`. */
static void copy_fill(struct redis_reply *to, const struct redis_reply *from, struct redis_reply **slots, char **bytes)
{
    *to = *from;
    if (from->bytes != NULL) {
        to->bytes = memcpy(*bytes, from->bytes, from->length);
        (*bytes)[from->length] = '\0';
        *bytes += from->length + 1;
    }
    if (from->kind != REDIS_ARRAY)
        return;
    struct redis_reply *elements = *slots;
    *slots += from->count;
    to->elements = elements;
    for (size_t i = 0; i < from->count; i++)
        copy_fill(&elements[i], &from->elements[i], slots, bytes);
}

static size_t element_count(const struct redis_reply *reply)
{
    size_t count = 0;
    for (size_t i = 0; reply->kind == REDIS_ARRAY && i < reply->count; i++)
        count += 1 + element_count(&reply->elements[i]);
    return count;
}

/* With all that it holds, in one piece of memory: free() frees it. */
static struct redis_reply *reply_copy(const struct redis_reply *reply)
{
    struct redis_reply *copy = memory_zeroed(1, sizeof *reply + copy_size(reply));
    struct redis_reply *slots = copy + 1;
    char *bytes = (char *)(slots + element_count(reply));
    copy_fill(copy, reply, &slots, &bytes);
    return copy;
}

/* --- a run ------------------------------------------------------------------------------------------------------ */

static void run_end(struct inquiry *inquiry, enum inquiry_end end)
{
    if (!inquiry->running)
        return;
    inquiry->running = false;
    inquiry->end = end;
    loop_stop(inquiry->loop);
}

static void again_later(struct inquiry *inquiry)
{
    if (!loop_timer_is_set(&inquiry->again))
        loop_timer_set(inquiry->loop, &inquiry->again, loop_after(inquiry->loop, AGAIN_NS));
}

static void answered(struct redis_call *call, const struct redis_result *result)
{
    struct exchange *exchange = list_owner(call, struct exchange, call);
    struct inquiry *inquiry = exchange->inquiry;
    if (result->reply == NULL || (result->outcome == REDIS_ERROR && redis_error_is_passing(result->error))) {
        exchange->was_sent = exchange->was_sent && result->outcome == REDIS_UNKNOWN;
        snprintf(inquiry->reason, sizeof inquiry->reason, "%s", result->reason);
        again_later(inquiry);
        return;
    }
    exchange->reply = reply_copy(result->reply);
    if (++inquiry->answered == inquiry->count)
        run_end(inquiry, INQUIRY_ANSWERED);
}

static void send_waiting(struct inquiry *inquiry)
{
    int64_t limit = inquiry->options.node->call_timeout_ns;
    struct instant deadline = instant_after(instant_now(), limit > ANSWER_LEAST_NS ? limit : ANSWER_LEAST_NS);
    for (size_t i = 0; inquiry->running && i < inquiry->count; i++) {
        struct exchange *exchange = inquiry->exchanges[i];
        if (exchange->reply != NULL || redis_call_is_outstanding(&exchange->call))
            continue;
        exchange->call.done = answered;
        if (!redis_node_call(inquiry->node, &exchange->request, deadline, &exchange->call)) {
            again_later(inquiry);
            return;
        }
        exchange->was_sent = true;
    }
}

static void again_fire(struct loop_timer *timer)
{
    struct inquiry *inquiry = list_owner(timer, struct inquiry, again);
    if (inquiry->running && redis_node_state(inquiry->node) == REDIS_NODE_UP)
        send_waiting(inquiry);
}

static bool anything_unknown(const struct inquiry *inquiry)
{
    for (size_t i = 0; i < inquiry->count; i++)
        if (inquiry->exchanges[i]->was_sent && inquiry->exchanges[i]->reply == NULL)
            return true;
    return false;
}

static void run_fail(struct inquiry *inquiry, enum inquiry_end end)
{
    run_end(inquiry, end != INQUIRY_REFUSED && anything_unknown(inquiry) ? INQUIRY_UNKNOWN : end);
}

static void patience_fire(struct loop_timer *timer)
{
    run_fail(list_owner(timer, struct inquiry, patience), INQUIRY_UNREACHABLE);
}

/* The reasons of lib/redis say "ADDRESS refused COMMAND: why" when a server is there and does not let us in. */
static void changed(void *context, struct redis_node *node, enum redis_node_state state, const char *reason)
{
    struct inquiry *inquiry = context;
    (void)node;
    if (state == REDIS_NODE_UP) {
        inquiry->was_up = true;
        if (inquiry->running)
            send_waiting(inquiry);
        return;
    }
    snprintf(inquiry->reason, sizeof inquiry->reason, "%s", reason);
    if (strstr(reason, " refused ") != NULL)
        run_fail(inquiry, INQUIRY_REFUSED);
    else if (!inquiry->was_up && !inquiry->options.keeps_trying)
        run_fail(inquiry, INQUIRY_UNREACHABLE);
}

static void input_ready(void *context, int events)
{
    struct inquiry *inquiry = context;
    (void)events;
    enum inquiry_typed typed = inquiry->terminal.typed(inquiry->terminal.context);
    inquiry->is_over |= typed == INQUIRY_TYPED_END;
    if (typed == INQUIRY_TYPED_END)
        run_end(inquiry, INQUIRY_INTERRUPTED);
    else if (typed == INQUIRY_TYPED_KEY && inquiry->is_pause)
        run_end(inquiry, INQUIRY_ANSWERED);
}

/* During a run it is only told: what was asked is waited for. */
static void terminal_changed(void *context, int number)
{
    struct inquiry *inquiry = context;
    (number == SIGWINCH ? inquiry->terminal.resized : inquiry->terminal.suspended)(inquiry->terminal.context);
    if (inquiry->is_pause)
        run_end(inquiry, INQUIRY_ANSWERED);
}

static void interrupted(void *context, int number)
{
    struct inquiry *inquiry = context;
    if (inquiry->is_closing) {
        inquiry->late = number;
        return;
    }
    snprintf(inquiry->reason, sizeof inquiry->reason, "%s", number == SIGINT ? "interrupted" : "told to stop");
    inquiry->is_over = inquiry->is_attended || inquiry->is_held;
    run_end(inquiry, INQUIRY_INTERRUPTED);
}

static void signals_start(struct inquiry *inquiry, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        inquiry->signals[i] = loop_signal_start(inquiry->loop, end_signals[i], interrupted, inquiry);
}

/* What came too late to end the run does to the process what it does to any: no signal is lost between the two. The
 * last turn of the loop delivers what was caught by then, and what comes during it is kept back. */
static void signals_stop(struct inquiry *inquiry)
{
    sigset_t ends, before;
    sigemptyset(&ends);
    for (unsigned i = 0; i < ENDS; i++)
        if (inquiry->signals[i] != NULL)
            sigaddset(&ends, end_signals[i]);
    pthread_sigmask(SIG_BLOCK, &ends, &before);
    inquiry->is_closing = true;
    loop_stop(inquiry->loop);
    loop_run(inquiry->loop);
    inquiry->is_closing = false;
    for (unsigned i = 0; i < ENDS; i++) {
        if (inquiry->signals[i] != NULL)
            loop_signal_stop(inquiry->signals[i]);
        inquiry->signals[i] = NULL;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (inquiry->late != 0)
        raise(inquiry->late);
    inquiry->late = 0;
}

/* Runs the loop until run_end, at the latest after `limit_ns`. */
static void loop_turn(struct inquiry *inquiry, int64_t limit_ns)
{
    struct loop_watch *input = NULL;
    inquiry->running = true;
    inquiry->reason[0] = '\0';
    bool is_heard = inquiry->is_attended || inquiry->is_held;
    if (!is_heard)
        signals_start(inquiry, ENDS_OF_RUN);
    if (inquiry->is_attended && inquiry->terminal.input >= 0)
        input = loop_watch_start(inquiry->loop, inquiry->terminal.input, LOOP_READABLE, input_ready, inquiry);
    loop_timer_set(inquiry->loop, &inquiry->patience, instant_after(instant_now(), limit_ns));
    loop_run(inquiry->loop);
    if (input != NULL)
        loop_watch_stop(input);
    if (!is_heard)
        signals_stop(inquiry);
    loop_timer_clear(inquiry->loop, &inquiry->patience);
    loop_timer_clear(inquiry->loop, &inquiry->again);
}

bool inquiry_run(struct inquiry *inquiry)
{
    int64_t patience = inquiry->options.patience_ns > 0 ? inquiry->options.patience_ns : PATIENCE_NS;
    if (inquiry->answered == inquiry->count || inquiry->is_over) {
        inquiry->end = inquiry->is_over ? INQUIRY_INTERRUPTED : INQUIRY_ANSWERED;
        return !inquiry->is_over;
    }
    if (redis_node_state(inquiry->node) == REDIS_NODE_UP)
        loop_timer_set(inquiry->loop, &inquiry->again, instant_now());
    loop_turn(inquiry, patience);
    for (size_t i = 0; i < inquiry->count; i++)
        redis_call_cancel(&inquiry->exchanges[i]->call);
    return inquiry->end == INQUIRY_ANSWERED;
}

bool inquiry_pause(struct inquiry *inquiry, int64_t duration_ns)
{
    inquiry_begin(inquiry);
    if (inquiry->is_over)
        return false;
    inquiry->is_pause = true;
    loop_turn(inquiry, duration_ns);
    inquiry->is_pause = false;
    return inquiry->end != INQUIRY_INTERRUPTED;
}

void inquiry_attend(struct inquiry *inquiry, const struct inquiry_terminal *terminal)
{
    inquiry->terminal = *terminal;
    inquiry->is_attended = true;
    signals_start(inquiry, ENDS);
    inquiry->resized = loop_signal_start(inquiry->loop, SIGWINCH, terminal_changed, inquiry);
    inquiry->suspended = loop_signal_start(inquiry->loop, SIGTSTP, terminal_changed, inquiry);
}

void inquiry_hold_signals(struct inquiry *inquiry, bool holds)
{
    if (holds && !inquiry->is_held)
        signals_start(inquiry, ENDS_OF_RUN);
    else if (!holds && inquiry->is_held)
        signals_stop(inquiry);
    inquiry->is_held = holds;
}

void inquiry_set_patience(struct inquiry *inquiry, int64_t patience_ns)
{
    inquiry->options.patience_ns = patience_ns;
}

/* --- the pipeline ----------------------------------------------------------------------------------------------- */

struct inquiry *inquiry_open(const struct inquiry_options *options, struct error *error)
{
    struct loop *loop = loop_create(error);
    if (loop == NULL)
        return NULL;
    struct inquiry *inquiry = memory_new(struct inquiry);
    struct redis_node_options node = node_options(options->node, options->client_name);
    inquiry->options = *options;
    inquiry->loop = loop;
    loop_timer_init(&inquiry->again, again_fire);
    loop_timer_init(&inquiry->patience, patience_fire);
    node.reply_limit = REPLY_LIMIT;
    node.element_limit = ELEMENT_LIMIT;
    node.unanswered_limit = UNANSWERED_LIMIT;
    node.scripts = options->scripts;
    node.script_count = options->script_count;
    node.changed = changed;
    node.context = inquiry;
    inquiry->node = redis_node_create(loop, &node);
    return inquiry;
}

void inquiry_begin(struct inquiry *inquiry)
{
    for (size_t i = 0; i < inquiry->count; i++) {
        buffer_fini(&inquiry->exchanges[i]->request);
        free(inquiry->exchanges[i]->reply);
        free(inquiry->exchanges[i]);
    }
    inquiry->count = inquiry->answered = 0;
}

void inquiry_close(struct inquiry *inquiry)
{
    if (inquiry == NULL)
        return;
    inquiry_begin(inquiry);
    free(inquiry->exchanges);
    inquiry_hold_signals(inquiry, false);
    if (inquiry->is_attended) {
        signals_stop(inquiry);
        loop_signal_stop(inquiry->resized);
        loop_signal_stop(inquiry->suspended);
    }
    redis_node_destroy(inquiry->node);
    loop_destroy(inquiry->loop);
    free(inquiry);
}

struct buffer *inquiry_compose(struct inquiry *inquiry)
{
    if (inquiry->count == inquiry->capacity) {
        inquiry->capacity = inquiry->capacity * 2 + 16;
        inquiry->exchanges = memory_resize(inquiry->exchanges, inquiry->capacity, sizeof(struct exchange *));
    }
    struct exchange *exchange = memory_new(struct exchange);
    exchange->inquiry = inquiry;
    inquiry->exchanges[inquiry->count++] = exchange;
    return &exchange->request;
}

size_t inquiry_ask_list(struct inquiry *inquiry, va_list texts)
{
    struct buffer *request = inquiry_compose(inquiry);
    va_list counted;
    size_t count = 0;
    va_copy(counted, texts);
    while (va_arg(counted, const char *) != NULL)
        count++;
    va_end(counted);
    redis_request_begin(request, count);
    for (size_t i = 0; i < count; i++)
        redis_request_text(request, va_arg(texts, const char *));
    return inquiry->count - 1;
}

size_t inquiry_ask(struct inquiry *inquiry, ...)
{
    va_list texts;
    va_start(texts, inquiry);
    size_t index = inquiry_ask_list(inquiry, texts);
    va_end(texts);
    return index;
}

size_t inquiry_count(const struct inquiry *inquiry)
{
    return inquiry->count;
}

/* --- answers ---------------------------------------------------------------------------------------------------- */

const struct redis_reply *inquiry_reply(const struct inquiry *inquiry, size_t index)
{
    static const struct redis_reply nothing = {.kind = REDIS_NIL};
    invariant(index < inquiry->count);
    const struct redis_reply *reply = inquiry->exchanges[index]->reply;
    return reply != NULL ? reply : &nothing;
}

const struct redis_reply *inquiry_reply_of(const struct inquiry *inquiry, size_t index, enum redis_reply_kind kind)
{
    const struct redis_reply *reply = inquiry_reply(inquiry, index);
    return reply->kind == kind ? reply : NULL;
}

long long inquiry_integer(const struct inquiry *inquiry, size_t index, long long otherwise)
{
    const struct redis_reply *reply = inquiry_reply(inquiry, index);
    return reply->kind == REDIS_INTEGER ? reply->integer : otherwise;
}

struct redis_reply *inquiry_take(struct inquiry *inquiry, size_t index)
{
    static const struct redis_reply nothing = {.kind = REDIS_NIL};
    struct redis_reply *reply = inquiry->exchanges[index]->reply;
    inquiry->exchanges[index]->reply = NULL;
    return reply != NULL ? reply : reply_copy(&nothing);
}

enum inquiry_end inquiry_ended(const struct inquiry *inquiry)
{
    return inquiry->end;
}

const char *inquiry_reason(const struct inquiry *inquiry)
{
    return inquiry->reason;
}

enum exit_code inquiry_complain(const struct inquiry *inquiry, const char *command)
{
    static const char *const texts[] = {
        [INQUIRY_ANSWERED] = "answered",
        [INQUIRY_UNREACHABLE] = "cannot be reached",
        [INQUIRY_REFUSED] = "does not let us in",
        [INQUIRY_UNKNOWN] = "did not answer, what was asked may have been done; repeating it is harmless",
        [INQUIRY_INTERRUPTED] = "was not waited for",
    };
    struct buffer address = {0};
    char reason[REASON_MAX];
    snprintf(reason, sizeof reason, "%s", inquiry->reason[0] != '\0' ? inquiry->reason : "no answer in time");
    config_node_address(inquiry->options.node, &address);
    fprintf(stderr, "holdfast %s: the node %s %s: %s\n", command, buffer_text(&address), texts[inquiry->end],
            log_defuse(reason));
    buffer_fini(&address);
    bool is_passing_trouble = inquiry->end == INQUIRY_UNREACHABLE || inquiry->end == INQUIRY_UNKNOWN;
    return is_passing_trouble ? EXIT_CODE_TEMPORARY : EXIT_CODE_FAILURE;
}

enum exit_code inquiry_complain_reply(const struct inquiry *inquiry, size_t index, const char *command)
{
    const struct redis_reply *reply = inquiry_reply(inquiry, index);
    char text[REASON_MAX];
    snprintf(text, sizeof text, "%s", reply->kind == REDIS_FAILURE ? reply->bytes : "an answer of an unexpected kind");
    fprintf(stderr, "holdfast %s: the node refused: %s\n", command, log_defuse(text));
    return EXIT_CODE_FAILURE;
}
