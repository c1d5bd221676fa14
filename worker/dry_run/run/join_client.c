/* A host that takes part in a dry run which another one leads (coordinator.h): its workers run in the same key space,
 * on the same lock nodes, and their records are brought to the host that leads. If this process dies, its workers die
 * with it; the host that leads sees it fall silent. */
#include "worker/dry_run/run/dry_run.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/loop.h"
#include "base/memory.h"
#include "queue/keys.h"
#include "queue/dry_runs.h"
#include "worker/nodes/node_client.h"
#include "worker/dry_run/run/apart.h"
#include "worker/dry_run/run/host_heartbeat.h"
#include "worker/config/node_options.h"

#define TICK_NS     (5 * NS_PER_MS)
#define INTERVAL_NS (200 * NS_PER_MS)
#define PATIENCE_NS (2 * NS_PER_S)
#define SILENCE_NS  (30 * NS_PER_S)
/* With the last call after the workers are gone. */
#define PARTING_NS (5 * NS_PER_S)
/* A shipment is a little larger: what was in the last ring that was read comes whole, and one has 4 MB at most. */
enum {
    WAITING_MAX = 64, /* that the host has not taken yet; then this one waits, and at last its rings are full */
    RECORDS_MAX = 5000,
    SHIPMENT_BYTES = 1024 * 1024,
    REQUEST_BYTES_MAX = 16 * 1024 * 1024
};

/* --- before there is a loop --------------------------------------------------------------------------------------- */

struct join_client_question {
    const struct config *config;
    const char *key;
};

static int run_ask(void *context, int descriptor)
{
    struct join_client_question *question = context;
    struct error error = ERROR_NONE;
    struct node_client *client = node_client_open(
        &(struct node_client_options){.node = &question->config->queue_node, .client_name = "dry-run"}, &error);
    if (client == NULL)
        return EXIT_CODE_FAILURE;
    node_client_begin(client);
    node_client_ask(client, "GET", question->key, NULL);
    if (!node_client_run(client)) {
        dprintf(descriptor, "%s", node_client_reason(client));
        return node_client_ended(client) == NODE_CLIENT_UNREACHABLE ? EXIT_CODE_TEMPORARY : EXIT_CODE_FAILURE;
    }
    const struct redis_reply *run = node_client_reply_of(client, 0, REDIS_STRING);
    if (run == NULL) {
        dprintf(descriptor, "there is no such run on this queue node: the host that leads it tells its id");
        return EXIT_CODE_FAILURE;
    }
    bool is_written = write(descriptor, run->bytes, run->length) == (ssize_t)run->length;
    node_client_close(client);
    return is_written ? EXIT_CODE_OK : EXIT_CODE_FAILURE;
}

bool join_client_ask(const struct config *config, const char *key_space, struct dry_run_plan *plan,
                     bool *is_unreachable, struct error *error)
{
    struct queue_keys keys;
    struct buffer key = {0}, output = {0};
    enum run_state state;
    queue_keys_init(&keys, key_space, "");
    buffer_format(&key, "%srun", keys.meeting_prefix);
    queue_keys_fini(&keys);
    int status = apart_do(run_ask, &(struct join_client_question){.config = config, .key = buffer_text(&key)}, &output);
    *is_unreachable = status == EXIT_CODE_TEMPORARY;
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

/* --- the client --------------------------------------------------------------------------------------------------- */

struct join_client {
    const struct dry_run *run;
    const char *name;
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
    bool is_stopping, is_parting; /* the workers were asked to end; they are gone, and the leader gets that */
    bool said_last;               /* the call that is outstanding says so */
    bool is_orderly;
    struct instant part_by;
    struct error *error;
};

static void over(struct join_client *client, bool is_orderly)
{
    client->is_orderly = is_orderly;
    loop_stop(client->loop);
}

static void stop(struct join_client *client)
{
    if (!client->is_stopping)
        workforce_stop(client->run->workforce);
    client->is_stopping = true;
}

static void state_heard(struct join_client *client, struct text_span state)
{
    enum run_state before = client->state;
    if (state.bytes == NULL || !run_state_named(state, &client->state))
        client->state = RUN_ENDS; /* the host that leads it is gone */
    if (client->state == RUN_GOES_ON && before == RUN_GATHERS)
        workforce_go(client->run->workforce);
    if (client->state == RUN_ENDS)
        stop(client);
}

static void call_after(struct join_client *client, int64_t ns)
{
    loop_timer_set(client->loop, &client->call_timer, loop_after(client->loop, ns));
}

static void answered(struct redis_call *call, const struct redis_result *result)
{
    struct join_client *client = list_owner(call, struct join_client, call);
    struct text_span state;
    uint64_t left;
    int64_t node_us;
    call_after(client, INTERVAL_NS);
    if (result->outcome != REDIS_VALUE || !remote_host_read(result->reply, &state, &left, &node_us))
        return;
    client->heard = loop_now(client->loop);
    node_clock_note(&client->clock, client->asked, client->heard, node_us);
    if (left >= client->number || state.bytes == NULL)
        buffer_clear(&client->underway);
    if (client->said_last)
        over(client, true);
    else
        state_heard(client, state);
}

static void beat_write(struct join_client *client)
{
    struct node_clock clock = client->clock;
    clock.error_ns = node_clock_error(&client->clock, loop_now(client->loop));
    buffer_clear(&client->beat);
    host_heartbeat_write(&client->beat,
                         &(struct host_heartbeat){.processes = client->run->plan->processes,
                                                  .threads = client->run->plan->threads,
                                                  .serving = workforce_serving(client->run->workforce),
                                                  .clock = clock,
                                                  .records_lost = workforce_records_lost(client->run->workforce),
                                                  .has_ended = client->said_last});
}

/* What was not answered is sent again as it was, under its number. */
static void call_out(struct loop_timer *timer)
{
    struct join_client *client = list_owner(timer, struct join_client, call_timer);
    if (client->underway.length == 0 && client->gathered.length > 0) {
        struct buffer empty = client->underway;
        client->underway = client->gathered;
        client->gathered = empty;
        client->number++;
    }
    client->said_last = client->is_parting && client->underway.length == 0;
    beat_write(client);
    buffer_clear(&client->request);
    remote_host_request(&client->request, client->run->key_space, client->name, text_span_of(&client->beat),
                        client->number, text_span_of(&client->underway), WAITING_MAX);
    client->asked = instant_now();
    if (!redis_node_call(client->node, &client->request, loop_after(client->loop, PATIENCE_NS), &client->call))
        call_after(client, INTERVAL_NS);
}

static void record_take(void *context, unsigned number, const struct record *record, const char *bytes, size_t length)
{
    struct join_client *client = context;
    size_t before = client->gathered.length;
    (void)record;
    buffer_append(&client->gathered, bytes, length);
    record_mark(client->gathered.bytes + before, number - 1);
}

static void worker_ended(void *context, const struct workforce_exit *end)
{
    struct join_client *client = context;
    if (!end->was_wanted)
        error_set(client->error, "worker process %u ended by itself", end->number);
}

static void worker_said(void *context, unsigned number, const char *text)
{
    struct join_client *client = context;
    if (client->run->request->says != NULL)
        fprintf(client->run->request->says, "worker %u: %s\n", number, text);
}

static void tick(struct loop_timer *timer)
{
    struct join_client *client = list_owner(timer, struct join_client, tick);
    struct workforce *workforce = client->run->workforce;
    struct instant now = loop_now(client->loop);
    loop_timer_set(client->loop, timer, loop_after(client->loop, TICK_NS));
    size_t records =
        client->gathered.length < SHIPMENT_BYTES ? workforce_read(workforce, RECORDS_MAX, record_take, client) : 1;
    workforce_reap(workforce, worker_ended, client);
    workforce_read_log(workforce, worker_said, client);
    bool is_silent = instant_since(client->heard, now) > SILENCE_NS;
    if (!client->is_stopping && is_silent) {
        error_set(client->error, "nothing was heard of the queue node for 30 seconds: %s",
                  redis_node_reason(client->node));
        stop(client);
    }
    if (client->is_parting && instant_reached(now, client->part_by)) {
        error_set(client->error, "the queue node was not reached at the end: what the workers said last is lost");
        over(client, false);
    }
    if (client->is_parting || (records > 0 && !is_silent) || workforce_alive(workforce) > 0)
        return;
    client->is_parting = true;
    client->part_by = instant_after(now, PARTING_NS);
    if (!redis_call_is_outstanding(&client->call))
        call_after(client, 0);
}

static void interrupted(void *context, int number)
{
    (void)number;
    stop(context);
}

static bool join_client_open(struct join_client *client, struct error *error)
{
    struct redis_node_options node = node_options(&client->run->config->queue_node, "dry-run");
    client->loop = loop_create(error);
    if (client->loop == NULL)
        return false;
    node.scripts = dry_run_host_scripts;
    node.script_count = DRY_RUN_HOST_SCRIPTS;
    node.unanswered_limit = REQUEST_BYTES_MAX;
    client->node = redis_node_create(client->loop, &node);
    client->call.done = answered;
    client->heard = instant_now();
    loop_timer_init(&client->tick, tick);
    loop_timer_init(&client->call_timer, call_out);
    loop_timer_set(client->loop, &client->tick, client->heard);
    loop_timer_set(client->loop, &client->call_timer, client->heard);
    client->interrupt = loop_signal_start(client->loop, SIGINT, interrupted, client);
    client->termination = loop_signal_start(client->loop, SIGTERM, interrupted, client);
    interrupts_hear();
    return true;
}

static void join_client_close(struct join_client *client)
{
    if (client->loop == NULL)
        return;
    loop_signal_end(client->interrupt);
    loop_signal_end(client->termination);
    loop_timer_clear(client->loop, &client->tick);
    loop_timer_clear(client->loop, &client->call_timer);
    redis_node_destroy(client->node);
    loop_destroy(client->loop);
    buffer_fini(&client->request);
    buffer_fini(&client->beat);
    buffer_fini(&client->gathered);
    buffer_fini(&client->underway);
}

bool join_client_run(const struct dry_run *run, const char *name, struct error *error)
{
    struct join_client *client = memory_new(struct join_client);
    client->run = run;
    client->name = name;
    client->error = error;
    bool is_open = join_client_open(client, error);
    if (is_open)
        loop_run(client->loop);
    bool is_orderly = is_open && client->is_orderly && error->text[0] == '\0';
    join_client_close(client);
    free(client);
    return is_orderly;
}
