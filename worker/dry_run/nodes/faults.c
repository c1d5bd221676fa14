/* A fault begins, and most of them end; both are deadlines of their own. Each asks its node something before, right
 * after, or at the end, and what is answered, and when, completes the text of its result: see the questions below. */
#include "worker/dry_run/nodes/faults.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/list.h"
#include "base/log.h"
#include "base/memory.h"
#include "redis/node.h"

#define SECONDS(ns)    ((double)(ns) / (double)NS_PER_S)
#define CALL_LIMIT_NS  (3600 * NS_PER_S) /* a stopped node answers when it goes on */
#define BACKOFF_MAX_NS (50 * NS_PER_MS)

/* --- questions ---------------------------------------------------------------------------------------------------- */

/* Asks one private node something small, by the way that workers take, and again until it answers, however long that
 * takes: what a fault did to it is seen by that. */
enum node_question_kind {
    NODE_QUESTION_PING,
    NODE_QUESTION_KEYS,  /* how many keys it has */
    NODE_QUESTION_FLUSH, /* not a question: it loses all of them */
    NODE_QUESTION_TIME,  /* by how much its clock is ahead of ours, in microseconds */
};

struct node_answer {
    int64_t took_ns; /* since it was asked first */
    int64_t number;
};

struct node_asker; /* the connection to one node */

struct node_question {
    /* Once; may ask it again. */
    void (*answered)(struct node_question *question, const struct node_answer *answer);
    struct list link;
    struct redis_call call;
    struct node_asker *asker;
    enum node_question_kind kind;
    struct instant asked;
};

struct node_asker {
    struct loop *loop;
    struct redis_node *node;
    struct list waiting; /* until it is up */
};

static void question_send(struct node_question *question)
{
    static const char *const commands[] = {[NODE_QUESTION_PING] = "PING",
                                           [NODE_QUESTION_KEYS] = "DBSIZE",
                                           [NODE_QUESTION_FLUSH] = "FLUSHALL",
                                           [NODE_QUESTION_TIME] = "TIME"};
    struct buffer request = {0};
    struct node_asker *asker = question->asker;
    redis_request_begin(&request, 1);
    redis_request_text(&request, commands[question->kind]);
    if (!redis_node_call(asker->node, &request, loop_after(asker->loop, CALL_LIMIT_NS), &question->call))
        list_append(&asker->waiting, &question->link);
    buffer_fini(&request);
}

static int64_t number_of(enum node_question_kind kind, const struct redis_reply *reply)
{
    if (kind == NODE_QUESTION_TIME && reply->kind == REDIS_ARRAY && reply->count == 2 &&
        reply->elements[0].kind == REDIS_STRING && reply->elements[1].kind == REDIS_STRING)
        return strtoll(reply->elements[0].bytes, NULL, 10) * US_PER_S + strtoll(reply->elements[1].bytes, NULL, 10) -
               wall_now().us;
    return reply->kind == REDIS_INTEGER ? reply->integer : 0;
}

static void call_done(struct redis_call *call, const struct redis_result *result)
{
    struct node_question *question = list_owner(call, struct node_question, call);
    if (result->outcome != REDIS_VALUE) { /* it was killed meanwhile, or is being started */
        list_append(&question->asker->waiting, &question->link);
        return;
    }
    const struct node_answer answer = {.took_ns = instant_since(question->asked, instant_now()),
                                       .number = number_of(question->kind, result->reply)};
    question->answered(question, &answer);
}

static void node_changed(void *context, struct redis_node *node, enum redis_node_state state, const char *reason)
{
    struct node_asker *asker = context;
    struct list batch;
    (void)node, (void)reason;
    list_init(&batch);
    for (struct list *link; state == REDIS_NODE_UP && (link = list_take_first(&asker->waiting)) != NULL;)
        list_append(&batch, link);
    for (struct list *link; (link = list_take_first(&batch)) != NULL;)
        question_send(list_owner(link, struct node_question, link));
}

static struct node_asker *node_asker_create(struct loop *loop, const struct private_nodes *nodes, unsigned number)
{
    struct node_asker *asker = memory_new(struct node_asker);
    asker->loop = loop;
    list_init(&asker->waiting);
    asker->node = redis_node_create(loop, &(struct redis_node_options){.name = private_nodes_name(nodes, number),
                                                                       .host = private_nodes_host(nodes),
                                                                       .port = private_nodes_port(nodes, number),
                                                                       .password = private_nodes_password(nodes),
                                                                       .client_name = "holdfast-dry-run",
                                                                       .backoff_max_ns = BACKOFF_MAX_NS,
                                                                       .silence_limit_ns = CALL_LIMIT_NS,
                                                                       .changed = node_changed,
                                                                       .context = asker});
    return asker;
}

/* Its questions must have been cancelled. NULL is fine. */
static void node_asker_destroy(struct node_asker *asker)
{
    if (asker == NULL)
        return;
    redis_node_destroy(asker->node);
    free(asker);
}

static void node_question_init(struct node_question *question)
{
    *question = (struct node_question){.call.done = call_done};
    list_init(&question->link);
}

static void node_question_cancel(struct node_question *question)
{
    redis_call_cancel(&question->call);
    list_remove(&question->link);
}

/* One that is still open is given up for this one. */
static void node_question_ask(struct node_asker *asker, struct node_question *question, enum node_question_kind kind)
{
    node_question_cancel(question);
    question->asker = asker;
    question->kind = kind;
    question->asked = instant_now();
    question_send(question);
}

/* --- faults ------------------------------------------------------------------------------------------------------- */

struct fault {
    struct faults *faults;
    const struct dry_run_fault *wanted;
    struct loop_timer begin, end;
    struct node_question question;
    bool goes_on; /* it has begun, and is to be ended */
    char done[RESULT_TEXT_MAX / 2], seen[RESULT_TEXT_MAX / 2 - 4];
    int64_t before; /* what was answered before: keys, or by how much its clock is off, in us */
    struct instant since;
};

struct faults {
    struct faults_options options;
    struct node_asker *askers[PRIVATE_NODES_MAX]; /* NULL = no fault names it */
    int64_t clock_ns[PRIVATE_NODES_MAX];          /* what the clock of the node is off by */
    struct fault all[DRY_RUN_FAULTS_MAX];
    struct result_fault results[DRY_RUN_FAULTS_MAX];
    unsigned count;
};

/* --- results ------------------------------------------------------------------------------------------------------ */

static void result_write(struct fault *fault)
{
    struct result_fault *result = &fault->faults->results[fault - fault->faults->all];
    snprintf(result->text, sizeof result->text, "%s%s%s", fault->done, fault->seen[0] != '\0' ? ": " : "", fault->seen);
    if (fault->faults->options.told != NULL)
        fault->faults->options.told(fault->faults->options.context, result);
}

static struct result_fault *result_of(struct fault *fault)
{
    return &fault->faults->results[fault - fault->faults->all];
}

static void PRINTF_LIKE(2, 3) did(struct fault *fault, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fault->done, sizeof fault->done, format, arguments);
    va_end(arguments);
    result_of(fault)->was_done = true;
    result_of(fault)->at = SECONDS(instant_since(fault->faults->options.began, instant_now()));
    result_write(fault);
}

static void PRINTF_LIKE(2, 3) did_not(struct fault *fault, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fault->done, sizeof fault->done, format, arguments);
    va_end(arguments);
    result_of(fault)->at = SECONDS(instant_since(fault->faults->options.began, instant_now()));
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

static unsigned node_of(const struct fault *fault)
{
    return fault->wanted->number;
}

static const char *name_of(const struct fault *fault)
{
    return private_nodes_name(fault->faults->options.nodes, node_of(fault));
}

static void ask(struct fault *fault, enum node_question_kind kind,
                void (*answered)(struct node_question *question, const struct node_answer *answer))
{
    fault->question.answered = answered;
    node_question_ask(fault->faults->askers[node_of(fault)], &fault->question, kind);
}

static struct fault *fault_of(struct node_question *question)
{
    return list_owner(question, struct fault, question);
}

static void stop_seen(struct node_question *question, const struct node_answer *answer)
{
    saw(fault_of(question), "what it was asked meanwhile it answered after %.2f s", SECONDS(answer->took_ns));
}

static void slow_seen(struct node_question *question, const struct node_answer *answer)
{
    saw(fault_of(question), "an answer took %.1f ms", SECONDS(answer->took_ns) * 1000);
}

/* Once it is back. */
static void restart_seen(struct node_question *question, const struct node_answer *answer)
{
    struct fault *fault = fault_of(question);
    saw(fault, "it answered again after %.2f s, with %lld keys", SECONDS(instant_since(fault->since, instant_now())),
        (long long)answer->number);
}

static void wipe_seen(struct node_question *question, const struct node_answer *answer)
{
    struct fault *fault = fault_of(question);
    saw(fault, "%lld keys were there before, %lld right after", (long long)fault->before, (long long)answer->number);
}

static void clock_seen(struct node_question *question, const struct node_answer *answer)
{
    struct fault *fault = fault_of(question);
    int64_t jumped_us = answer->number - fault->before;
    int64_t wanted_us = fault->wanted->amount_ns / NS_PER_US;
    result_of(fault)->was_done = llabs(jumped_us - wanted_us) < US_PER_S / 5 + llabs(wanted_us) / 10;
    saw(fault, "its TIME is off by %+.3f s, it was by %+.3f s", (double)answer->number / (double)US_PER_S,
        (double)fault->before / (double)US_PER_S);
}

/* --- beginning ---------------------------------------------------------------------------------------------------- */

static void stop_begin(struct fault *fault)
{
    private_nodes_stop(fault->faults->options.nodes, node_of(fault));
    did(fault, "%s was stopped for %.1f s", name_of(fault), SECONDS(fault->wanted->lasts_ns));
    ask(fault, NODE_QUESTION_PING, stop_seen);
}

static void kill_begin(struct fault *fault)
{
    private_nodes_kill(fault->faults->options.nodes, node_of(fault));
    did(fault, "%s was killed, to come back empty after %.1f s", name_of(fault), SECONDS(fault->wanted->lasts_ns));
}

static void wiped(struct node_question *question, const struct node_answer *answer)
{
    struct fault *fault = fault_of(question);
    did(fault, "%s lost all its keys (FLUSHALL)", name_of(fault));
    (void)answer;
    ask(fault, NODE_QUESTION_KEYS, wipe_seen);
}

static void wipe_counted(struct node_question *question, const struct node_answer *answer)
{
    struct fault *fault = fault_of(question);
    fault->before = answer->number;
    ask(fault, NODE_QUESTION_FLUSH, wiped);
}

static void slow_begin(struct fault *fault)
{
    private_nodes_delay(fault->faults->options.nodes, node_of(fault), fault->wanted->amount_ns);
    did(fault, "each answer of %s took %.1f ms longer for %.1f s", name_of(fault),
        SECONDS(fault->wanted->amount_ns) * 1000, SECONDS(fault->wanted->lasts_ns));
    ask(fault, NODE_QUESTION_PING, slow_seen);
}

static void clock_step(struct fault *fault, int64_t by_ns)
{
    struct faults *faults = fault->faults;
    faults->clock_ns[node_of(fault)] += by_ns;
    private_nodes_step_clock(faults->options.nodes, node_of(fault), faults->clock_ns[node_of(fault)]);
}

static void clock_read(struct node_question *question, const struct node_answer *answer)
{
    struct fault *fault = fault_of(question);
    fault->before = answer->number;
    clock_step(fault, fault->wanted->amount_ns);
    did(fault, "the clock of %s jumped by %+.3f s", name_of(fault), SECONDS(fault->wanted->amount_ns));
    ask(fault, NODE_QUESTION_TIME, clock_seen);
}

static void node_fault_begin(struct fault *fault)
{
    switch (fault->wanted->kind) {
    case DRY_RUN_FAULT_STOP:
    case DRY_RUN_FAULT_FREEZE:
        stop_begin(fault);
        break;
    case DRY_RUN_FAULT_KILL:
        kill_begin(fault);
        break;
    case DRY_RUN_FAULT_WIPE:
        ask(fault, NODE_QUESTION_KEYS, wipe_counted);
        break;
    case DRY_RUN_FAULT_SLOW:
        slow_begin(fault);
        break;
    case DRY_RUN_FAULT_CLOCK:
        ask(fault, NODE_QUESTION_TIME, clock_read);
        break;
    }
}

static void worker_fault_begin(struct fault *fault)
{
    const struct faults_workers *workers = &fault->faults->options.workers;
    unsigned number = fault->wanted->number;
    bool kills = fault->wanted->kind == DRY_RUN_FAULT_KILL;
    bool is_done = kills ? workers->kill(workers->context, number) : workers->freeze(workers->context, number);
    fault->goes_on = is_done && !kills;
    if (!is_done)
        did_not(fault, "worker process %u does not run any more", number);
    else if (kills)
        did(fault, "worker process %u was killed, and no other took its place", number);
    else
        did(fault, "worker process %u was stopped for %.1f s", number, SECONDS(fault->wanted->lasts_ns));
}

static bool has_node(const struct fault *fault)
{
    const struct private_nodes *nodes = fault->faults->options.nodes;
    return nodes != NULL && fault->wanted->number <= private_nodes_count(nodes);
}

static void begin_fire(struct loop_timer *timer)
{
    struct fault *fault = list_owner(timer, struct fault, begin);
    struct loop *loop = fault->faults->options.loop;
    fault->since = instant_now();
    if (fault->wanted->at_worker) {
        worker_fault_begin(fault);
    } else if (!has_node(fault)) {
        did_not(fault, "there is no such node of our own");
    } else {
        fault->goes_on = fault->wanted->kind != DRY_RUN_FAULT_WIPE &&
                         (fault->wanted->kind != DRY_RUN_FAULT_CLOCK || fault->wanted->lasts_ns > 0);
        node_fault_begin(fault);
    }
    if (fault->goes_on)
        loop_timer_set(loop, &fault->end, instant_after(fault->since, fault->wanted->lasts_ns));
}

/* --- ending ------------------------------------------------------------------------------------------------------- */

static void kill_end(struct fault *fault)
{
    struct error error = ERROR_NONE;
    if (private_nodes_restart(fault->faults->options.nodes, node_of(fault), &error))
        ask(fault, NODE_QUESTION_KEYS, restart_seen);
    else
        saw(fault, "it could not be started again: %s", error.text);
}

static void node_fault_end(struct fault *fault)
{
    struct private_nodes *nodes = fault->faults->options.nodes;
    if (fault->wanted->kind == DRY_RUN_FAULT_KILL)
        kill_end(fault);
    else if (fault->wanted->kind == DRY_RUN_FAULT_SLOW)
        private_nodes_delay(nodes, node_of(fault), 0);
    else if (fault->wanted->kind == DRY_RUN_FAULT_CLOCK)
        clock_step(fault, -fault->wanted->amount_ns);
    else
        private_nodes_continue(nodes, node_of(fault));
}

static void fault_end(struct fault *fault)
{
    const struct faults_workers *workers = &fault->faults->options.workers;
    if (!fault->goes_on)
        return;
    fault->goes_on = false;
    if (!fault->wanted->at_worker)
        node_fault_end(fault);
    else if (!workers->thaw(workers->context, fault->wanted->number))
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
        faults->results[i] = (struct result_fault){.fault = *fault->wanted};
        snprintf(faults->results[i].text, sizeof faults->results[i].text, "the run ended before its time had come");
        node_question_init(&fault->question);
        loop_timer_init(&fault->begin, begin_fire);
        loop_timer_init(&fault->end, end_fire);
        loop_timer_set(options->loop, &fault->begin, instant_after(options->began, fault->wanted->at_ns));
        unsigned node = fault->wanted->number;
        if (!fault->wanted->at_worker && has_node(fault) && faults->askers[node] == NULL)
            faults->askers[node] = node_asker_create(options->loop, options->nodes, node);
    }
    return faults;
}

void faults_undo(struct faults *faults)
{
    for (unsigned i = 0; i < faults->count; i++) {
        loop_timer_clear(faults->options.loop, &faults->all[i].begin);
        loop_timer_clear(faults->options.loop, &faults->all[i].end);
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
        node_question_cancel(&faults->all[i].question);
    for (unsigned i = 0; i < PRIVATE_NODES_MAX; i++)
        node_asker_destroy(faults->askers[i]);
    free(faults);
}
