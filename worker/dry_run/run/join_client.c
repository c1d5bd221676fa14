#include "worker/dry_run/run/visit.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/loop.h"
#include "base/memory.h"
#include "queue/keys.h"
#include "queue/meeting.h"
#include "worker/nodes/inquiry.h"
#include "worker/dry_run/run/apart.h"
#include "worker/config/node_options.h"

#define TICK_NS     (5 * NS_PER_MS)
#define INTERVAL_NS (200 * NS_PER_MS)
#define PATIENCE_NS (2 * NS_PER_S)
#define SILENCE_NS  (30 * NS_PER_S)
/* With the last call after the workers are gone. */
#define PARTING_NS (5 * NS_PER_S)
/* A shipment is a little larger: what was in the last ring that was read comes whole, and one has 4 MB at most. */
enum {
    TTL_MS = 120000,
    WAITING_MAX =
        64, /* shipments that the host has not taken yet; then this one waits, and at last its rings are full */
    RECORDS_MAX = 5000,
    SHIPMENT_BYTES = 1024 * 1024,
    REQUEST_BYTES_MAX = 16 * 1024 * 1024
};

/* --- before there is a loop --------------------------------------------------------------------------------------- */

struct visit_question {
    const struct config *config;
    const char *key;
};

static int run_ask(void *context, int descriptor)
{
    struct visit_question *question = context;
    struct error error = ERROR_NONE;
    struct inquiry *inquiry = inquiry_open(
        &(struct inquiry_options){.node = &question->config->queue_node, .client_name = "dry-run"}, &error);
    if (inquiry == NULL)
        return EXIT_CODE_FAILURE;
    inquiry_begin(inquiry);
    inquiry_ask(inquiry, "GET", question->key, NULL);
    if (!inquiry_run(inquiry)) {
        dprintf(descriptor, "%s", inquiry_reason(inquiry));
        return EXIT_CODE_FAILURE;
    }
    const struct redis_reply *run = inquiry_reply_of(inquiry, 0, REDIS_STRING);
    if (run == NULL) {
        dprintf(descriptor, "there is no such run on this queue node: the host that leads it tells its id");
        return EXIT_CODE_FAILURE;
    }
    bool is_written = write(descriptor, run->bytes, run->length) == (ssize_t)run->length;
    inquiry_close(inquiry);
    return is_written ? EXIT_CODE_OK : EXIT_CODE_FAILURE;
}

bool visit_ask(const struct config *config, const char *key_space, struct dry_run_plan *plan, struct error *error)
{
    struct queue_keys keys;
    struct buffer key = {0}, output = {0};
    enum run_state state;
    queue_keys_init(&keys, key_space, "");
    buffer_format(&key, "%srun", keys.meeting_prefix);
    queue_keys_fini(&keys);
    int status = apart_do(run_ask, &(struct visit_question){.config = config, .key = buffer_text(&key)}, &output);
    bool is_one = status == EXIT_CODE_OK || error_set(error, "%s", buffer_text(&output));
    is_one = is_one && run_state_read((struct text_span){output.bytes, output.length}, &state, plan, error);
    if (is_one && state == RUN_ENDS) {
        plan_fini(plan);
        is_one = error_set(error, "this run is at its end");
    }
    buffer_fini(&key);
    buffer_fini(&output);
    return is_one;
}

/* --- the visit ---------------------------------------------------------------------------------------------------- */

struct visit {
    struct visit_terms terms;
    struct loop *loop;
    struct loop_timer tick, call_timer;
    struct loop_signal *interrupt, *termination;
    struct redis_node *node;
    struct redis_call call;
    struct buffer request, beat, gathered, underway; /* shipments */
    uint64_t number;                                 /* of what is underway */
    struct instant asked, heard;
    struct node_clock clock;
    enum run_state state;
    bool is_stopping, is_parting; /* the workers are told to end; they are gone, and the host is told */
    bool said_last;               /* the call that is outstanding says so */
    bool is_orderly;
    struct instant part_by;
    struct error *error;
};

static void over(struct visit *visit, bool is_orderly)
{
    visit->is_orderly = is_orderly;
    loop_stop(visit->loop);
}

static void stop(struct visit *visit)
{
    if (!visit->is_stopping)
        workforce_stop(visit->terms.workforce);
    visit->is_stopping = true;
}

static void state_heard(struct visit *visit, struct text_span state)
{
    enum run_state before = visit->state;
    if (state.bytes == NULL || !run_state_named(state, &visit->state))
        visit->state = RUN_ENDS; /* the host that leads it is gone */
    if (visit->state == RUN_GOES_ON && before == RUN_GATHERS)
        workforce_go(visit->terms.workforce);
    if (visit->state == RUN_ENDS)
        stop(visit);
}

static void call_after(struct visit *visit, int64_t ns)
{
    loop_timer_set(visit->loop, &visit->call_timer, loop_after(visit->loop, ns));
}

static void answered(struct redis_call *call, const struct redis_result *result)
{
    struct visit *visit = list_owner(call, struct visit, call);
    struct text_span state;
    uint64_t left;
    int64_t node_us;
    call_after(visit, INTERVAL_NS);
    if (result->outcome != REDIS_VALUE || !meeting_visit_read(result->reply, &state, &left, &node_us))
        return;
    visit->heard = loop_now(visit->loop);
    node_clock_note(&visit->clock, visit->asked, visit->heard, node_us);
    if (left >= visit->number || state.bytes == NULL)
        buffer_clear(&visit->underway);
    if (visit->said_last)
        over(visit, true);
    else
        state_heard(visit, state);
}

static void beat_write(struct visit *visit)
{
    struct node_clock clock = visit->clock;
    clock.error_ns = node_clock_error(&visit->clock, loop_now(visit->loop));
    buffer_clear(&visit->beat);
    guest_beat_write(&visit->beat, &(struct guest_beat){.processes = visit->terms.processes,
                                                        .threads = visit->terms.threads,
                                                        .serving = workforce_serving(visit->terms.workforce),
                                                        .clock = clock,
                                                        .cpu_ns = workforce_cpu_ns(visit->terms.workforce),
                                                        .records_lost = workforce_records_lost(visit->terms.workforce),
                                                        .has_ended = visit->said_last});
}

/* What was not answered is sent again as it was, under its number. */
static void call_out(struct loop_timer *timer)
{
    struct visit *visit = list_owner(timer, struct visit, call_timer);
    if (visit->underway.length == 0 && visit->gathered.length > 0) {
        struct buffer empty = visit->underway;
        visit->underway = visit->gathered;
        visit->gathered = empty;
        visit->number++;
    }
    visit->said_last = visit->is_parting && visit->underway.length == 0;
    beat_write(visit);
    buffer_clear(&visit->request);
    meeting_visit_request(&visit->request,
                          &(struct meeting_visit){.space = visit->terms.key_space,
                                                  .name = visit->terms.name,
                                                  .beat = {visit->beat.bytes, visit->beat.length},
                                                  .ttl_ms = TTL_MS,
                                                  .number = visit->number,
                                                  .waiting_max = WAITING_MAX,
                                                  .records = {visit->underway.bytes, visit->underway.length}});
    visit->asked = instant_now();
    if (!redis_node_call(visit->node, &visit->request, loop_after(visit->loop, PATIENCE_NS), &visit->call))
        call_after(visit, INTERVAL_NS);
}

static void record_take(void *context, unsigned number, const struct record *record, const char *bytes, size_t length)
{
    struct visit *visit = context;
    (void)record;
    shipment_add(&visit->gathered, number - 1, bytes, length);
}

static void worker_ended(void *context, const struct workforce_exit *end)
{
    struct visit *visit = context;
    if (!end->was_wanted)
        error_set(visit->error, "worker process %u ended by itself", end->number);
}

static void worker_said(void *context, unsigned number, const char *text)
{
    struct visit *visit = context;
    char quoted[LOG_QUOTE_MAX];
    if (visit->terms.says != NULL)
        fprintf(visit->terms.says, "worker %u: %s\n", number, log_quote(text, quoted));
}

static void tick(struct loop_timer *timer)
{
    struct visit *visit = list_owner(timer, struct visit, tick);
    struct workforce *workforce = visit->terms.workforce;
    struct instant now = loop_now(visit->loop);
    loop_timer_set(visit->loop, timer, loop_after(visit->loop, TICK_NS));
    size_t records =
        visit->gathered.length < SHIPMENT_BYTES ? workforce_read(workforce, RECORDS_MAX, record_take, visit) : 1;
    workforce_reap(workforce, worker_ended, visit);
    workforce_read_log(workforce, worker_said, visit);
    bool is_silent = instant_since(visit->heard, now) > SILENCE_NS;
    if (!visit->is_stopping && is_silent) {
        error_set(visit->error, "nothing was heard of the queue node for 30 seconds: %s",
                  redis_node_reason(visit->node));
        stop(visit);
    }
    if (visit->is_parting && instant_reached(now, visit->part_by)) {
        error_set(visit->error, "the queue node was not reached at the end: what the workers said last is lost");
        over(visit, false);
    }
    if (visit->is_parting || (records > 0 && !is_silent) || workforce_alive(workforce) > 0)
        return;
    visit->is_parting = true;
    visit->part_by = instant_after(now, PARTING_NS);
    if (!redis_call_is_outstanding(&visit->call))
        call_after(visit, 0);
}

static void interrupted(void *context, int number)
{
    (void)number;
    stop(context);
}

static bool visit_open(struct visit *visit, struct error *error)
{
    struct redis_node_options node = node_options(visit->terms.node, "dry-run");
    visit->loop = loop_create(error);
    if (visit->loop == NULL)
        return false;
    node.scripts = meeting_scripts;
    node.script_count = MEETING_SCRIPTS;
    node.unanswered_limit = REQUEST_BYTES_MAX;
    visit->node = redis_node_create(visit->loop, &node);
    visit->call.done = answered;
    visit->heard = instant_now();
    loop_timer_init(&visit->tick, tick);
    loop_timer_init(&visit->call_timer, call_out);
    loop_timer_set(visit->loop, &visit->tick, visit->heard);
    loop_timer_set(visit->loop, &visit->call_timer, visit->heard);
    visit->interrupt = loop_signal_start(visit->loop, SIGINT, interrupted, visit);
    visit->termination = loop_signal_start(visit->loop, SIGTERM, interrupted, visit);
    interrupts_hear();
    return true;
}

static void visit_close(struct visit *visit)
{
    if (visit->loop == NULL)
        return;
    loop_signal_end(visit->interrupt);
    loop_signal_end(visit->termination);
    loop_timer_clear(visit->loop, &visit->tick);
    loop_timer_clear(visit->loop, &visit->call_timer);
    redis_node_destroy(visit->node);
    loop_destroy(visit->loop);
    buffer_fini(&visit->request);
    buffer_fini(&visit->beat);
    buffer_fini(&visit->gathered);
    buffer_fini(&visit->underway);
}

bool visit_run(const struct visit_terms *terms, struct error *error)
{
    struct visit *visit = memory_new(struct visit);
    visit->terms = *terms;
    visit->error = error;
    bool is_open = visit_open(visit, error);
    if (is_open)
        loop_run(visit->loop);
    bool is_orderly = is_open && visit->is_orderly && error->text[0] == '\0';
    visit_close(visit);
    free(visit);
    return is_orderly;
}
