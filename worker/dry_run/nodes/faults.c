/* A fault begins, and most of them end; both are deadlines of their own. Each asks its node something before, right
 * after, or at the end, and what is answered, and when, completes the text of its result. */
#include "worker/dry_run/nodes/faults.h"

#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "queue/retried_call.h"

#define SECONDS(ns)    ((double)(ns) / (double)NS_PER_S)
#define CALL_LIMIT_NS  (3600 * NS_PER_S) /* a stopped node answers when it goes on */
#define BACKOFF_MAX_NS (50 * NS_PER_MS)

struct fault {
    struct faults *faults;
    const struct dry_run_fault *wanted;
    struct result_fault *result;
    struct loop_timer begin, end;
    struct retried_call question;
    void (*answered)(struct fault *fault, int64_t number);
    bool goes_on; /* it has begun, and is to be ended */
    char done[RESULT_TEXT_MAX / 2], seen[RESULT_TEXT_MAX / 2 - 4];
    int64_t before; /* what was answered before: keys, or by how much its clock is off, in us */
    struct instant since, asked;
};

/* A connection to a node that faults name, by the way that workers take. */
struct faulty_node {
    struct redis_node *node; /* NULL = no fault names it */
    struct retried_calls calls;
    uint64_t repeats;
    int64_t clock_ns; /* what its clock is off by */
};

struct faults {
    struct faults_options options;
    struct faulty_node nodes[PRIVATE_NODES_MAX];
    struct fault all[DRY_RUN_FAULTS_MAX];
    struct result_fault results[DRY_RUN_FAULTS_MAX];
    unsigned count;
};

/* --- questions ---------------------------------------------------------------------------------------------------- */

static void node_changed(void *context, struct redis_node *node, enum redis_node_state state, const char *reason)
{
    struct faulty_node *faulty = context;
    (void)node, (void)reason;
    if (state == REDIS_NODE_UP)
        retried_calls_connected(&faulty->calls);
}

static void node_open(struct faulty_node *faulty, struct loop *loop, const struct private_nodes *nodes, unsigned number)
{
    retried_calls_init(&faulty->calls, loop, CALL_LIMIT_NS, &faulty->repeats);
    faulty->node = redis_node_create(loop, &(struct redis_node_options){.name = nodes->servers[number].name,
                                                                        .host = PRIVATE_NODES_HOST,
                                                                        .port = private_nodes_port(nodes, number),
                                                                        .password = nodes->password,
                                                                        .client_name = "holdfast-dry-run",
                                                                        .backoff_max_ns = BACKOFF_MAX_NS,
                                                                        .silence_limit_ns = CALL_LIMIT_NS,
                                                                        .changed = node_changed,
                                                                        .context = faulty});
    faulty->calls.node = faulty->node;
}

/* A number as it is, the time of TIME as by how much it is ahead of ours in microseconds, anything else as 0. */
static void question_answered(struct retried_call *question, const struct redis_reply *reply)
{
    struct fault *fault = list_owner(question, struct fault, question);
    int64_t number = reply->kind == REDIS_INTEGER ? reply->integer : 0;
    if (reply->kind == REDIS_ARRAY && reply->count == 2 && reply->elements[0].kind == REDIS_STRING &&
        reply->elements[1].kind == REDIS_STRING)
        number = strtoll(reply->elements[0].bytes, NULL, 10) * US_PER_S + strtoll(reply->elements[1].bytes, NULL, 10) -
                 wall_now().us;
    fault->answered(fault, number);
}

/* Again until it answers, however long that takes. A question that is still open is given up for this one. */
static void ask(struct fault *fault, const char *command, void (*answered)(struct fault *fault, int64_t number))
{
    struct retried_call *question = &fault->question;
    retried_call_cancel(question);
    question->retried_calls = &fault->faults->nodes[fault->wanted->number].calls;
    fault->answered = answered;
    fault->asked = instant_now();
    buffer_clear(&question->request);
    redis_request_command(&question->request, command);
    retried_call_start(question);
}

/* --- results ------------------------------------------------------------------------------------------------------ */

static void result_write(struct fault *fault)
{
    const struct faults_options *options = &fault->faults->options;
    snprintf(fault->result->text, sizeof fault->result->text, "%s%s%s", fault->done, fault->seen[0] != '\0' ? ": " : "",
             fault->seen);
    if (options->told != NULL)
        options->told(options->context, fault->result);
}

static void PRINTF_LIKE(3, 4) did(struct fault *fault, bool was_done, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fault->done, sizeof fault->done, format, arguments);
    va_end(arguments);
    fault->result->was_done |= was_done;
    result_write(fault);
}

static void PRINTF_LIKE(2, 3) saw(struct fault *fault, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fault->seen, sizeof fault->seen, format, arguments);
    va_end(arguments);
    result_write(fault);
}

/* --- what can be seen of it --------------------------------------------------------------------------------------- */

static struct private_server *server_of(const struct fault *fault)
{
    return &fault->faults->options.nodes->servers[fault->wanted->number];
}

static void server_signal(const struct fault *fault, int number)
{
    if (private_server_lives(server_of(fault)))
        kill(server_of(fault)->pid, number);
}

static void server_delay(const struct fault *fault, int64_t delay_ns)
{
    atomic_store(fault->faults->options.nodes->relays[fault->wanted->number].delay_ns, delay_ns);
}

static void stop_seen(struct fault *fault, int64_t number)
{
    (void)number;
    saw(fault, "what it was asked meanwhile it answered after %.2f s",
        SECONDS(instant_since(fault->asked, instant_now())));
}

static void slow_seen(struct fault *fault, int64_t number)
{
    (void)number;
    saw(fault, "an answer took %.1f ms", SECONDS(instant_since(fault->asked, instant_now())) * 1000);
}

/* Once it is back. */
static void restart_seen(struct fault *fault, int64_t keys)
{
    saw(fault, "it answered again after %.2f s, with %lld keys", SECONDS(instant_since(fault->since, instant_now())),
        (long long)keys);
}

static void wipe_seen(struct fault *fault, int64_t keys)
{
    saw(fault, "%lld keys were there before, %lld right after", (long long)fault->before, (long long)keys);
}

static void clock_seen(struct fault *fault, int64_t ahead_us)
{
    int64_t jumped_us = ahead_us - fault->before;
    int64_t wanted_us = fault->wanted->amount_ns / NS_PER_US;
    fault->result->was_done = llabs(jumped_us - wanted_us) < US_PER_S / 5 + llabs(wanted_us) / 10;
    saw(fault, "its TIME is off by %+.3f s, it was by %+.3f s", (double)ahead_us / (double)US_PER_S,
        (double)fault->before / (double)US_PER_S);
}

/* --- beginning ---------------------------------------------------------------------------------------------------- */

static void wiped(struct fault *fault, int64_t number)
{
    (void)number;
    did(fault, true, "%s lost all its keys (FLUSHALL)", server_of(fault)->name);
    ask(fault, "DBSIZE", wipe_seen);
}

static void wipe_counted(struct fault *fault, int64_t keys)
{
    fault->before = keys;
    ask(fault, "FLUSHALL", wiped);
}

static void clock_step(struct fault *fault, int64_t by_ns)
{
    struct faulty_node *faulty = &fault->faults->nodes[fault->wanted->number];
    faulty->clock_ns += by_ns;
    *server_of(fault)->clock_offset_ns = faulty->clock_ns;
}

/* Begins what is to be ended. */
static void goes_on_from(struct fault *fault, struct instant since)
{
    fault->since = since;
    fault->goes_on = true;
    loop_timer_set(fault->faults->options.loop, &fault->end, instant_after(since, fault->wanted->lasts_ns));
}

static void clock_read(struct fault *fault, int64_t ahead_us)
{
    fault->before = ahead_us;
    clock_step(fault, fault->wanted->amount_ns);
    if (fault->wanted->lasts_ns > 0)
        goes_on_from(fault, instant_now());
    did(fault, true, "the clock of %s jumped by %+.3f s", server_of(fault)->name, SECONDS(fault->wanted->amount_ns));
    ask(fault, "TIME", clock_seen);
}

static void node_fault_begin(struct fault *fault)
{
    switch (fault->wanted->kind) {
    case DRY_RUN_FAULT_STOP:
    case DRY_RUN_FAULT_FREEZE:
        server_signal(fault, SIGSTOP);
        did(fault, true, "%s is stopped", server_of(fault)->name);
        ask(fault, "PING", stop_seen);
        break;
    case DRY_RUN_FAULT_KILL:
        private_server_kill(server_of(fault));
        did(fault, true, "%s was killed", server_of(fault)->name);
        break;
    case DRY_RUN_FAULT_WIPE:
        ask(fault, "DBSIZE", wipe_counted);
        break;
    case DRY_RUN_FAULT_SLOW:
        server_delay(fault, fault->wanted->amount_ns);
        did(fault, true, "each answer of %s takes %.1f ms longer", server_of(fault)->name,
            SECONDS(fault->wanted->amount_ns) * 1000);
        ask(fault, "PING", slow_seen);
        break;
    case DRY_RUN_FAULT_CLOCK:
        ask(fault, "TIME", clock_read);
        break;
    }
}

static void worker_fault_begin(struct fault *fault)
{
    const struct faults_options *options = &fault->faults->options;
    unsigned number = fault->wanted->number;
    bool kills = fault->wanted->kind == DRY_RUN_FAULT_KILL;
    bool is_done = options->worker_signal(options->context, number, kills ? SIGKILL : SIGSTOP);
    if (is_done && !kills)
        goes_on_from(fault, fault->since);
    if (!is_done)
        did(fault, false, "worker process %u does not run any more", number);
    else if (kills)
        did(fault, true, "worker process %u was killed, and no other took its place", number);
    else
        did(fault, true, "worker process %u is stopped", number);
}

static bool has_node(const struct fault *fault)
{
    const struct private_nodes *nodes = fault->faults->options.nodes;
    return nodes != NULL && fault->wanted->number < nodes->count;
}

static void begin_fire(struct loop_timer *timer)
{
    struct fault *fault = list_owner(timer, struct fault, begin);
    fault->since = instant_now();
    fault->result->at = SECONDS(instant_since(fault->faults->options.began, fault->since));
    if (fault->wanted->at_worker) {
        worker_fault_begin(fault);
    } else if (!has_node(fault)) {
        did(fault, false, "there is no such node of our own");
    } else {
        if (fault->wanted->kind != DRY_RUN_FAULT_WIPE && fault->wanted->kind != DRY_RUN_FAULT_CLOCK)
            goes_on_from(fault, fault->since);
        node_fault_begin(fault);
    }
}

/* --- ending ------------------------------------------------------------------------------------------------------- */

static void kill_end(struct fault *fault, double lasted)
{
    struct error error = ERROR_NONE;
    did(fault, true, "%s was killed, and started again empty after %.1f s", server_of(fault)->name, lasted);
    if (private_server_start(server_of(fault), fault->faults->options.nodes->program.path, &error))
        ask(fault, "DBSIZE", restart_seen);
    else
        saw(fault, "it could not be started again: %s", error.text);
}

/* By now it is known how long it lasted: the end of the load may have come before the planned one. */
static void node_fault_end(struct fault *fault, double lasted)
{
    const char *name = server_of(fault)->name;
    switch (fault->wanted->kind) {
    case DRY_RUN_FAULT_KILL:
        kill_end(fault, lasted);
        return;
    case DRY_RUN_FAULT_SLOW:
        server_delay(fault, 0);
        did(fault, true, "each answer of %s took %.1f ms longer for %.1f s", name,
            SECONDS(fault->wanted->amount_ns) * 1000, lasted);
        return;
    case DRY_RUN_FAULT_CLOCK:
        retried_call_cancel(&fault->question); /* the answer would be about the right time */
        clock_step(fault, -fault->wanted->amount_ns);
        did(fault, true, "the clock of %s jumped by %+.3f s, and back after %.1f s", name,
            SECONDS(fault->wanted->amount_ns), lasted);
        return;
    default:
        server_signal(fault, SIGCONT);
        did(fault, true, "%s was stopped for %.1f s", name, lasted);
    }
}

static void fault_end(struct fault *fault)
{
    const struct faults_options *options = &fault->faults->options;
    double lasted = SECONDS(instant_since(fault->since, instant_now()));
    if (!fault->goes_on)
        return;
    fault->goes_on = false;
    if (!fault->wanted->at_worker)
        node_fault_end(fault, lasted);
    else if (options->worker_signal(options->context, fault->wanted->number, SIGCONT))
        did(fault, true, "worker process %u was stopped for %.1f s", fault->wanted->number, lasted);
    else
        saw(fault, "it was gone before it could go on");
}

static void end_fire(struct loop_timer *timer)
{
    fault_end(list_owner(timer, struct fault, end));
}

/* --- life --------------------------------------------------------------------------------------------------------- */

void faults_prepare(const struct dry_run_plan *plan, struct private_nodes_options *options)
{
    for (unsigned i = 0; i < plan->fault_count; i++) {
        const struct dry_run_fault *fault = &plan->faults[i];
        if (fault->at_worker || fault->number >= PRIVATE_NODES_MAX)
            continue;
        options->has_clock[fault->number] |= fault->kind == DRY_RUN_FAULT_CLOCK;
        options->is_slowed[fault->number] |= fault->kind == DRY_RUN_FAULT_SLOW;
    }
}

struct faults *faults_start(const struct faults_options *options)
{
    struct faults *faults = memory_new(struct faults);
    faults->options = *options;
    faults->count = options->plan->fault_count;
    for (unsigned i = 0; i < faults->count; i++) {
        struct fault *fault = &faults->all[i];
        fault->faults = faults;
        fault->wanted = &options->plan->faults[i];
        fault->result = &faults->results[i];
        *fault->result = (struct result_fault){.fault = *fault->wanted};
        snprintf(fault->result->text, sizeof fault->result->text, "the run ended before its time had come");
        retried_call_init(&fault->question, NULL, question_answered);
        loop_timer_init(&fault->begin, begin_fire);
        loop_timer_init(&fault->end, end_fire);
        loop_timer_set(options->loop, &fault->begin, instant_after(options->began, fault->wanted->at_ns));
        unsigned node = fault->wanted->number;
        if (!fault->wanted->at_worker && has_node(fault) && faults->nodes[node].node == NULL)
            node_open(&faults->nodes[node], options->loop, options->nodes, node);
    }
    return faults;
}

void faults_undo(struct faults *faults)
{
    for (unsigned i = 0; i < faults->count; i++) {
        loop_timer_clear(faults->options.loop, &faults->all[i].begin);
        loop_timer_clear(faults->options.loop, &faults->all[i].end);
        if (faults->all[i].answered == clock_read)
            retried_call_cancel(&faults->all[i].question); /* its clock has not jumped yet, and will not */
        fault_end(&faults->all[i]);
    }
}

const struct result_fault *faults_results(const struct faults *faults, unsigned *count)
{
    *count = faults->count;
    return faults->results;
}

void faults_destroy(struct faults *faults)
{
    if (faults == NULL)
        return;
    faults_undo(faults);
    for (unsigned i = 0; i < faults->count; i++)
        retried_call_fini(&faults->all[i].question);
    for (unsigned i = 0; i < PRIVATE_NODES_MAX; i++) {
        if (faults->nodes[i].node == NULL)
            continue;
        retried_calls_fini(&faults->nodes[i].calls);
        redis_node_destroy(faults->nodes[i].node);
    }
    free(faults);
}
