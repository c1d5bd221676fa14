#include "worker/dry_run/run/coordinator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "queue/dry_runs.h"
#include "worker/config/node_options.h"

#define INTERVAL_NS (200 * NS_PER_MS)
#define PATIENCE_NS (2 * NS_PER_S)
/* So many of the largest shipments, of 8 MB (join_client.c), are one reply. The rest is requested next. */
enum { BATCHES = 8, REPLY_BYTES_MAX = 72 * 1024 * 1024, REPLY_ELEMENTS_MAX = 4096 };

struct coordinator {
    struct loop *loop;
    struct coordinator_options options;
    struct redis_node *node;
    struct redis_call call;
    struct loop_timer timer;
    struct buffer request, run;
    struct instant asked;
    struct coordinator_answer answer; /* the last */
    bool had_records;                 /* in it */
    enum run_state state;
    unsigned changes, changes_sent, changes_heard;
    bool is_written, is_sent; /* the node has the run as it is; the call that is outstanding brings it */
    struct node_clock clock;
    struct remote_host hosts[REMOTE_HOSTS_MAX];
    unsigned host_count;
};

static struct remote_host *host_find(struct coordinator *coordinator, const char *name)
{
    for (unsigned i = 0; i < coordinator->host_count; i++)
        if (strcmp(coordinator->hosts[i].name, name) == 0)
            return &coordinator->hosts[i];
    if (coordinator->host_count == REMOTE_HOSTS_MAX || strlen(name) > REMOTE_HOST_BYTES_MAX)
        return NULL;
    struct remote_host *host = &coordinator->hosts[coordinator->host_count++];
    host->name = memory_text(name);
    host->heard = loop_now(coordinator->loop);
    return host;
}

static void host_beats(void *context, const char *name, struct text_span text)
{
    struct coordinator *coordinator = context;
    struct host_heartbeat beat;
    struct remote_host *host = host_heartbeat_read(text, &beat) ? host_find(coordinator, name) : NULL;
    if (host == NULL)
        return;
    if (memcmp(&beat, &host->beat, sizeof beat) != 0)
        host->heard = loop_now(coordinator->loop);
    host->beat = beat;
    bool was_gone = host->is_gone;
    host->is_gone = beat.has_ended || instant_since(host->heard, loop_now(coordinator->loop)) > HOST_SILENCE_NS;
    if (host->is_gone && !was_gone && !beat.has_ended)
        coordinator->options.missed(coordinator->options.context, (unsigned)(host - coordinator->hosts));
}

static void records_come(void *context, const char *name, struct text_span records)
{
    struct coordinator *coordinator = context;
    struct remote_host *host = host_find(coordinator, name);
    coordinator->had_records = true;
    if (host != NULL)
        coordinator->options.brought(coordinator->options.context, (unsigned)(host - coordinator->hosts), records);
}

static void look_again(struct coordinator *coordinator, int64_t after_ns)
{
    loop_timer_set(coordinator->loop, &coordinator->timer, loop_after(coordinator->loop, after_ns));
}

static void answered(struct redis_call *call, const struct redis_result *result)
{
    struct coordinator *coordinator = list_owner(call, struct coordinator, call);
    const struct coordinator_handler handler = {.host = host_beats, .records = records_come, .context = coordinator};
    look_again(coordinator, INTERVAL_NS);
    if (result->outcome != REDIS_VALUE)
        return;
    coordinator->had_records = false;
    if (!coordinator_read(result->reply, &handler, &coordinator->answer)) {
        log_event(LOG_WARN, "meeting_unreadable",
                  "advice=\"something else has written where the hosts of this dry "
                  "run meet\"");
        return;
    }
    node_clock_note(&coordinator->clock, coordinator->asked, loop_now(coordinator->loop), coordinator->answer.node_us);
    if (coordinator->is_sent || !coordinator->answer.is_there)
        coordinator->is_written = coordinator->answer.is_there && coordinator->changes_sent == coordinator->changes;
    if (coordinator->answer.is_there)
        coordinator->changes_heard = coordinator->changes_sent;
    if (coordinator->had_records || !coordinator->is_written)
        look_again(coordinator, 0);
}

static void look(struct loop_timer *timer)
{
    struct coordinator *coordinator = list_owner(timer, struct coordinator, timer);
    coordinator->is_sent = !coordinator->is_written;
    buffer_clear(&coordinator->request);
    struct text_span run = {coordinator->run.bytes, coordinator->is_sent ? coordinator->run.length : 0};
    coordinator_request(&coordinator->request, coordinator->options.space, run, run_state_name(coordinator->state),
                        coordinator->answer.taken, BATCHES);
    coordinator->asked = instant_now();
    coordinator->changes_sent = coordinator->changes;
    if (!redis_node_call(coordinator->node, &coordinator->request, loop_after(coordinator->loop, PATIENCE_NS),
                         &coordinator->call))
        look_again(coordinator, INTERVAL_NS);
}

struct coordinator *coordinator_create(struct loop *loop, const struct coordinator_options *options)
{
    struct coordinator *coordinator = memory_new(struct coordinator);
    struct redis_node_options node = node_options(options->node, "dry-run");
    node.scripts = dry_run_host_scripts;
    node.script_count = DRY_RUN_HOST_SCRIPTS;
    node.reply_limit = REPLY_BYTES_MAX;
    node.element_limit = REPLY_ELEMENTS_MAX;
    coordinator->loop = loop;
    coordinator->options = *options;
    coordinator->call.done = answered;
    snprintf(coordinator->answer.taken, sizeof coordinator->answer.taken, "0");
    loop_timer_init(&coordinator->timer, look);
    coordinator->node = redis_node_create(loop, &node);
    coordinator_tell(coordinator, RUN_GATHERS);
    return coordinator;
}

void coordinator_destroy(struct coordinator *coordinator)
{
    if (coordinator == NULL)
        return;
    loop_timer_clear(coordinator->loop, &coordinator->timer);
    redis_node_destroy(coordinator->node);
    for (unsigned i = 0; i < coordinator->host_count; i++)
        free(coordinator->hosts[i].name);
    buffer_fini(&coordinator->request);
    buffer_fini(&coordinator->run);
    free(coordinator);
}

void coordinator_tell(struct coordinator *coordinator, enum run_state state)
{
    buffer_clear(&coordinator->run);
    run_state_write(&coordinator->run, state, coordinator->options.plan);
    coordinator->state = state;
    coordinator->is_written = false;
    coordinator->changes++;
    if (!redis_call_is_outstanding(&coordinator->call))
        look_again(coordinator, 0);
}

void coordinator_stop(struct coordinator *coordinator)
{
    loop_timer_clear(coordinator->loop, &coordinator->timer);
    redis_call_cancel(&coordinator->call);
}

bool coordinator_is_heard(const struct coordinator *coordinator)
{
    return coordinator->changes_heard == coordinator->changes;
}

unsigned coordinator_host_count(const struct coordinator *coordinator)
{
    return coordinator->host_count;
}

const struct remote_host *coordinator_host(const struct coordinator *coordinator, unsigned host)
{
    return &coordinator->hosts[host];
}

const struct remote_host *coordinator_laggard(const struct coordinator *coordinator)
{
    for (unsigned i = 0; i < coordinator->host_count; i++) {
        const struct remote_host *host = &coordinator->hosts[i];
        if (!host->is_gone && host->beat.serving < host->beat.processes)
            return host;
    }
    return NULL;
}

bool coordinator_is_over(const struct coordinator *coordinator)
{
    for (unsigned i = 0; i < coordinator->host_count; i++)
        if (!coordinator->hosts[i].is_gone)
            return false;
    return coordinator->host_count == 0 || (coordinator_is_heard(coordinator) && !coordinator->had_records);
}

const struct node_clock *coordinator_clock(const struct coordinator *coordinator)
{
    return &coordinator->clock;
}
