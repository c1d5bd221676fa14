/* One connection, and a loop that runs only while the caller waits for answers.
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
#include "base/process.h"
#include "queue/answer_window.h"
#include "redis/node.h"
#include "worker/config/node_options.h"

#define PATIENCE_NS     (10 * NS_PER_S)
#define ANSWER_LEAST_NS (3 * NS_PER_S)
#define AGAIN_NS        (200 * NS_PER_MS)

/* Operators look at more than a worker does. */
/* What ends a run, and what a program that owns the terminal has to watch as well. */
static const int end_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
enum { ENDS = 4, ENDS_OF_RUN = 2 };

enum { REPLY_LIMIT = 256 << 20, ELEMENT_LIMIT = 1 << 18, UNANSWERED_LIMIT = 64 << 20, REASON_MAX = 400 };

struct exchange {
    struct node_client *client;
    struct buffer request;
    struct redis_call call;
    bool was_sent;
    struct redis_reply *reply; /* NULL = not answered */
};

struct node_client {
    struct node_client_options options;
    struct loop *loop;
    struct redis_node *node;
    struct exchange **exchanges;
    size_t count, capacity, answered;
    struct answer_window window;
    unsigned outstanding;
    bool may_divide;
    struct loop_timer again, patience;
    bool running, was_up;
    struct loop_signal *signals[ENDS]; /* of a run; while attended all the time */
    struct loop_signal *resized, *suspended;
    struct loop_signal *reload_watch;
    void (*reload)(void *context);
    void *reload_context;
    bool is_attended, is_pause;
    bool is_held;    /* signals are watched between runs, too */
    bool is_closing; /* the watches of signals are about to be stopped */
    int late;        /* the signal that came then */
    bool is_over;    /* attended, and a signal or key ended it: all further runs end at once */
    struct node_client_terminal terminal;
    enum node_client_end end;
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

static void run_end(struct node_client *client, enum node_client_end end)
{
    if (!client->running)
        return;
    client->running = false;
    client->end = end;
    loop_stop(client->loop);
}

static void again_later(struct node_client *client)
{
    if (!loop_timer_is_set(&client->again))
        loop_timer_set(client->loop, &client->again, loop_after(client->loop, AGAIN_NS));
}

static void answer_lost(struct node_client *client)
{
    bool is_down = redis_node_state(client->node) != REDIS_NODE_UP;
    answer_window_lost(&client->window, 1);
    if (is_down && client->may_divide && client->outstanding == 0 && client->window.lost == 1)
        run_end(client, NODE_CLIENT_CUT);
}

static void send_waiting(struct node_client *client);

static void answered(struct redis_call *call, const struct redis_result *result)
{
    struct exchange *exchange = list_owner(call, struct exchange, call);
    struct node_client *client = exchange->client;
    client->outstanding--;
    if (result->reply == NULL || (result->outcome == REDIS_ERROR && redis_error_is_passing(result->error))) {
        exchange->was_sent = exchange->was_sent && result->outcome == REDIS_UNKNOWN;
        snprintf(client->reason, sizeof client->reason, "%s", result->reason);
        again_later(client);
        if (result->outcome == REDIS_UNKNOWN)
            answer_lost(client);
        return;
    }
    exchange->reply = reply_copy(result->reply);
    bool was_limited = client->window.limit > 0;
    answer_window_answered(&client->window);
    if (++client->answered == client->count)
        run_end(client, NODE_CLIENT_ANSWERED);
    else if (was_limited)
        send_waiting(client);
}

static void send_waiting(struct node_client *client)
{
    int64_t limit = client->options.node->call_timeout_ns;
    struct instant deadline = instant_after(instant_now(), limit > ANSWER_LEAST_NS ? limit : ANSWER_LEAST_NS);
    for (size_t i = 0; client->running && i < client->count; i++) {
        struct exchange *exchange = client->exchanges[i];
        if (exchange->reply != NULL || redis_call_is_outstanding(&exchange->call))
            continue;
        if (!answer_window_takes(&client->window, client->outstanding, 1))
            return;
        exchange->call.done = answered;
        if (!redis_node_call(client->node, &exchange->request, deadline, &exchange->call)) {
            again_later(client);
            return;
        }
        answer_window_sent(&client->window);
        client->outstanding++;
        exchange->was_sent = true;
    }
}

static void again_fire(struct loop_timer *timer)
{
    struct node_client *client = list_owner(timer, struct node_client, again);
    if (client->running && redis_node_state(client->node) == REDIS_NODE_UP)
        send_waiting(client);
}

static bool anything_unknown(const struct node_client *client)
{
    for (size_t i = 0; i < client->count; i++)
        if (client->exchanges[i]->was_sent && client->exchanges[i]->reply == NULL)
            return true;
    return false;
}

static void run_fail(struct node_client *client, enum node_client_end end)
{
    run_end(client, end != NODE_CLIENT_REFUSED && anything_unknown(client) ? NODE_CLIENT_UNKNOWN : end);
}

/* The reasons of lib/redis say "ADDRESS refused COMMAND: why" when a server is there and does not let us in. */
static bool is_refused(const struct node_client *client)
{
    return strstr(client->reason, " refused ") != NULL;
}

static void patience_fire(struct loop_timer *timer)
{
    struct node_client *client = list_owner(timer, struct node_client, patience);
    if (redis_node_state(client->node) != REDIS_NODE_UP)
        snprintf(client->reason, sizeof client->reason, "%s", redis_node_reason(client->node));
    run_fail(client, is_refused(client) ? NODE_CLIENT_REFUSED : NODE_CLIENT_UNREACHABLE);
}

/* A node that has let us in may do so again: its password may be about to be replaced in its file. */
static void changed(void *context, struct redis_node *node, enum redis_node_state state, const char *reason)
{
    struct node_client *client = context;
    (void)node;
    if (state == REDIS_NODE_UP) {
        client->was_up = true;
        if (client->running)
            send_waiting(client);
        return;
    }
    snprintf(client->reason, sizeof client->reason, "%s", reason);
    if (client->was_up)
        return;
    if (is_refused(client))
        run_fail(client, NODE_CLIENT_REFUSED);
    else if (!client->options.keeps_trying)
        run_fail(client, NODE_CLIENT_UNREACHABLE);
}

static void input_ready(void *context, int events)
{
    struct node_client *client = context;
    (void)events;
    enum node_client_typed typed = client->terminal.typed(client->terminal.context);
    client->is_over |= typed == NODE_CLIENT_TYPED_END;
    if (typed == NODE_CLIENT_TYPED_END)
        run_end(client, NODE_CLIENT_INTERRUPTED);
    else if (typed == NODE_CLIENT_TYPED_KEY && client->is_pause)
        run_end(client, NODE_CLIENT_ANSWERED);
}

/* During a run this only notifies: the run goes on until its answers are there. */
static void terminal_changed(void *context, int number)
{
    struct node_client *client = context;
    (number == SIGWINCH ? client->terminal.resized : client->terminal.suspended)(client->terminal.context);
    if (client->is_pause)
        run_end(client, NODE_CLIENT_ANSWERED);
}

static void interrupted(void *context, int number)
{
    struct node_client *client = context;
    if (client->is_closing) {
        client->late = number;
        return;
    }
    snprintf(client->reason, sizeof client->reason, "%s", number == SIGINT ? "interrupted" : "told to stop");
    client->is_over = client->is_attended || client->is_held;
    run_end(client, NODE_CLIENT_INTERRUPTED);
}

static void signals_start(struct node_client *client, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (!process_ignores(end_signals[i]))
            client->signals[i] = loop_signal_start(client->loop, end_signals[i], interrupted, client);
}

/* What came too late to end the run does to the process what it does to any: no signal is lost between the two. The
 * last cycle of the loop delivers what was caught by then, and what comes during it is kept back. */
static void signals_stop(struct node_client *client)
{
    sigset_t ends, before;
    sigemptyset(&ends);
    for (unsigned i = 0; i < ENDS; i++)
        if (client->signals[i] != NULL)
            sigaddset(&ends, end_signals[i]);
    pthread_sigmask(SIG_BLOCK, &ends, &before);
    client->is_closing = true;
    loop_stop(client->loop);
    loop_run(client->loop);
    client->is_closing = false;
    for (unsigned i = 0; i < ENDS; i++) {
        if (client->signals[i] != NULL)
            loop_signal_stop(client->signals[i]);
        client->signals[i] = NULL;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (client->late != 0)
        raise(client->late);
    client->late = 0;
}

/* Runs the loop until run_end, at the latest after `limit_ns`. */
static void loop_cycle(struct node_client *client, int64_t limit_ns)
{
    struct loop_watch *input = NULL;
    client->running = true;
    client->reason[0] = '\0';
    bool is_heard = client->is_attended || client->is_held;
    if (!is_heard)
        signals_start(client, ENDS_OF_RUN);
    if (client->is_attended && client->terminal.input >= 0)
        input = loop_watch_start(client->loop, client->terminal.input, LOOP_READABLE, input_ready, client);
    loop_timer_set(client->loop, &client->patience, instant_after(instant_now(), limit_ns));
    loop_run(client->loop);
    if (input != NULL)
        loop_watch_stop(input);
    if (!is_heard)
        signals_stop(client);
    loop_timer_clear(client->loop, &client->patience);
    loop_timer_clear(client->loop, &client->again);
}

bool node_client_run(struct node_client *client)
{
    int64_t patience = client->options.patience_ns > 0 ? client->options.patience_ns : PATIENCE_NS;
    if (client->answered == client->count || client->is_over) {
        client->end = client->is_over ? NODE_CLIENT_INTERRUPTED : NODE_CLIENT_ANSWERED;
        return !client->is_over;
    }
    if (redis_node_state(client->node) == REDIS_NODE_UP)
        loop_timer_set(client->loop, &client->again, instant_now());
    loop_cycle(client, patience);
    for (size_t i = 0; i < client->count; i++)
        redis_call_cancel(&client->exchanges[i]->call);
    client->outstanding = 0;
    return client->end == NODE_CLIENT_ANSWERED;
}

bool node_client_pause(struct node_client *client, int64_t duration_ns)
{
    node_client_begin(client);
    if (client->is_over)
        return false;
    client->is_pause = true;
    loop_cycle(client, duration_ns);
    client->is_pause = false;
    return client->end != NODE_CLIENT_INTERRUPTED;
}

void node_client_attend(struct node_client *client, const struct node_client_terminal *terminal)
{
    client->terminal = *terminal;
    client->is_attended = true;
    signals_start(client, ENDS);
    client->resized = loop_signal_start(client->loop, SIGWINCH, terminal_changed, client);
    client->suspended = loop_signal_start(client->loop, SIGTSTP, terminal_changed, client);
}

void node_client_hold_signals(struct node_client *client, bool holds)
{
    if (holds && !client->is_held)
        signals_start(client, ENDS_OF_RUN);
    else if (!holds && client->is_held)
        signals_stop(client);
    client->is_held = holds;
}

static void reload_asked(void *context, int number)
{
    struct node_client *client = context;
    (void)number;
    client->reload(client->reload_context);
    if (client->is_pause)
        run_end(client, NODE_CLIENT_ANSWERED);
}

void node_client_watch_reload(struct node_client *client, void (*reload)(void *context), void *context)
{
    client->reload = reload;
    client->reload_context = context;
    client->reload_watch = loop_signal_start(client->loop, SIGHUP, reload_asked, client);
}

void node_client_may_divide(struct node_client *client, bool may)
{
    client->may_divide = may;
}

void node_client_set_patience(struct node_client *client, int64_t patience_ns)
{
    client->options.patience_ns = patience_ns;
}

/* --- the pipeline ----------------------------------------------------------------------------------------------- */

struct node_client *node_client_open(const struct node_client_options *options, struct error *error)
{
    struct loop *loop = loop_create(error);
    if (loop == NULL)
        return NULL;
    struct node_client *client = memory_new(struct node_client);
    struct redis_node_options node = node_options(options->node, options->client_name);
    client->options = *options;
    client->loop = loop;
    loop_timer_init(&client->again, again_fire);
    loop_timer_init(&client->patience, patience_fire);
    node.reply_limit = REPLY_LIMIT;
    node.element_limit = ELEMENT_LIMIT;
    node.unanswered_limit = UNANSWERED_LIMIT;
    node.unfit_pause_ns = -1;
    node.scripts = options->scripts;
    node.script_count = options->script_count;
    node.changed = changed;
    node.context = client;
    client->node = redis_node_create(loop, &node);
    return client;
}

void node_client_begin(struct node_client *client)
{
    for (size_t i = 0; i < client->count; i++) {
        buffer_fini(&client->exchanges[i]->request);
        free(client->exchanges[i]->reply);
        free(client->exchanges[i]);
    }
    client->count = client->answered = 0;
}

void node_client_close(struct node_client *client)
{
    if (client == NULL)
        return;
    node_client_begin(client);
    free(client->exchanges);
    node_client_hold_signals(client, false);
    if (client->is_attended) {
        signals_stop(client);
        loop_signal_stop(client->resized);
        loop_signal_stop(client->suspended);
    }
    if (client->reload_watch != NULL)
        loop_signal_stop(client->reload_watch);
    redis_node_destroy(client->node);
    loop_destroy(client->loop);
    free(client);
}

struct buffer *node_client_compose(struct node_client *client)
{
    if (client->count == client->capacity) {
        client->capacity = client->capacity * 2 + 16;
        client->exchanges = memory_resize(client->exchanges, client->capacity, sizeof(struct exchange *));
    }
    struct exchange *exchange = memory_new(struct exchange);
    exchange->client = client;
    client->exchanges[client->count++] = exchange;
    return &exchange->request;
}

size_t node_client_ask_list(struct node_client *client, va_list texts)
{
    struct buffer *request = node_client_compose(client);
    va_list counted;
    size_t count = 0;
    va_copy(counted, texts);
    while (va_arg(counted, const char *) != NULL)
        count++;
    va_end(counted);
    redis_request_begin(request, count);
    for (size_t i = 0; i < count; i++)
        redis_request_text(request, va_arg(texts, const char *));
    return client->count - 1;
}

size_t node_client_ask(struct node_client *client, ...)
{
    va_list texts;
    va_start(texts, client);
    size_t index = node_client_ask_list(client, texts);
    va_end(texts);
    return index;
}

size_t node_client_count(const struct node_client *client)
{
    return client->count;
}

/* --- answers ---------------------------------------------------------------------------------------------------- */

const struct redis_reply *node_client_reply(const struct node_client *client, size_t index)
{
    static const struct redis_reply nothing = {.kind = REDIS_NIL};
    invariant(index < client->count);
    const struct redis_reply *reply = client->exchanges[index]->reply;
    return reply != NULL ? reply : &nothing;
}

const struct redis_reply *node_client_reply_of(const struct node_client *client, size_t index,
                                               enum redis_reply_kind kind)
{
    const struct redis_reply *reply = node_client_reply(client, index);
    return reply->kind == kind ? reply : NULL;
}

long long node_client_integer(const struct node_client *client, size_t index, long long otherwise)
{
    const struct redis_reply *reply = node_client_reply(client, index);
    return reply->kind == REDIS_INTEGER ? reply->integer : otherwise;
}

struct redis_reply *node_client_take(struct node_client *client, size_t index)
{
    static const struct redis_reply nothing = {.kind = REDIS_NIL};
    struct redis_reply *reply = client->exchanges[index]->reply;
    client->exchanges[index]->reply = NULL;
    return reply != NULL ? reply : reply_copy(&nothing);
}

enum node_client_end node_client_ended(const struct node_client *client)
{
    return client->end;
}

const char *node_client_reason(const struct node_client *client)
{
    return client->reason;
}

enum exit_code node_client_complain(const struct node_client *client, const char *command)
{
    static const char *const texts[] = {
        [NODE_CLIENT_ANSWERED] = "answered",
        [NODE_CLIENT_UNREACHABLE] = "cannot be reached",
        [NODE_CLIENT_REFUSED] = "does not let us in",
        [NODE_CLIENT_UNKNOWN] = "did not answer, what was asked may have been done; repeating it is harmless",
        [NODE_CLIENT_CUT] = "did not answer",
        [NODE_CLIENT_INTERRUPTED] = "was not waited for",
    };
    struct buffer address = {0};
    char reason[REASON_MAX];
    snprintf(reason, sizeof reason, "%s", client->reason[0] != '\0' ? client->reason : "no answer in time");
    config_node_address(client->options.node, &address);
    fprintf(stderr, "holdfast %s: the node %s %s: %s\n", command, buffer_text(&address), texts[client->end],
            log_defuse(reason));
    buffer_fini(&address);
    bool is_passing_trouble = client->end == NODE_CLIENT_UNREACHABLE || client->end == NODE_CLIENT_UNKNOWN;
    return is_passing_trouble ? EXIT_CODE_TEMPORARY : EXIT_CODE_FAILURE;
}

enum exit_code node_client_complain_reply(const struct node_client *client, size_t index, const char *command)
{
    const struct redis_reply *reply = node_client_reply(client, index);
    char text[REASON_MAX];
    snprintf(text, sizeof text, "%s", reply->kind == REDIS_FAILURE ? reply->bytes : "an answer of an unexpected kind");
    fprintf(stderr, "holdfast %s: the node refused: %s\n", command, log_defuse(text));
    return EXIT_CODE_FAILURE;
}
