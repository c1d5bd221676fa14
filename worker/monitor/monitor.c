#include "worker/monitor/monitor.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/secret.h"
#include "base/thread.h"
#include "worker/http/http_request.h"
#include "worker/http/http_server.h"
#include "worker/monitor/metric_store.h"
#include "worker/print/version.h"

enum { CONNECTIONS_MAX = 64 };

/* What the loop publishes. */
struct published {
    struct metric_store *store;
    struct instant at;
    bool is_ready;
    char reason[MONITOR_REASON_MAX];
};

struct monitor {
    struct metric_store *counted; /* the loop's own */
    unsigned queue_count;
    struct histogram cycles; /* the same */
    pthread_mutex_t lock;
    struct published published; /* under the lock */
    struct published shown;     /* the thread's copy */
    struct http_server *server;
    char *token; /* the thread's, as the loop is; NULL: none is needed */
    struct loop *loop;
    pthread_t thread;
    struct wall_time started;
    struct buffer text;
};

static const struct metric_at nowhere = {{0}};

/* --- publishing, on the worker's loop ----------------------------------------------------------------------------- */

static void set(struct monitor *monitor, enum metric metric, int64_t value)
{
    metric_set(monitor->counted, metric, nowhere, value);
}

static void several_set(struct monitor *monitor, enum metric metric, const uint64_t *values, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        metric_set(monitor->counted, metric, (struct metric_at){{i}}, (int64_t)values[i]);
}

static void node_set(struct monitor *monitor, const struct redlock_group *locks, unsigned node)
{
    const struct redlock_node_counters *said = redlock_group_node_counters(locks, node);
    struct redlock_node_status status;
    struct metric_at at = {{node}};
    struct metric_store *store = monitor->counted;
    redlock_group_node_status_read(locks, node, &status);
    metric_set(store, METRIC_NODE_UP, at, status.is_up);
    metric_set(store, METRIC_NODE_VOTES, at, status.votes);
    metric_set(store, METRIC_NODE_CLOCK, at, status.clock_ahead_ns);
    metric_set(store, METRIC_NODE_QUARANTINE, at, status.quarantine_left_ns);
    metric_set(store, METRIC_NODE_SILENCE, at, status.silence_ns);
    metric_set(store, METRIC_NODE_REQUESTS, at, (int64_t)said->requests);
    metric_spread(store, METRIC_NODE_LATENCY, at, &said->latency);
    const uint64_t answers[] = {said->granted, said->refused, said->errors, said->timeouts};
    for (unsigned i = 0; i < sizeof answers / sizeof answers[0]; i++)
        metric_set(store, METRIC_NODE_ANSWERS, (struct metric_at){{node, i}}, (int64_t)answers[i]);
}

static void locks_set(struct monitor *monitor, const struct redlock_group *locks)
{
    const struct redlock_counters *counted = redlock_group_counters(locks);
    const uint64_t answers[] = {counted->acquired, counted->busy,      counted->split,  counted->no_quorum,
                                counted->too_slow, counted->cancelled, counted->invalid};
    const uint64_t releases[] = {counted->released, counted->expired, counted->foreign, counted->unknown};
    struct redlock_group_status status;
    several_set(monitor, METRIC_LOCK_REQUESTS, answers, sizeof answers / sizeof answers[0]);
    several_set(monitor, METRIC_LOCK_RELEASES, releases, sizeof releases / sizeof releases[0]);
    set(monitor, METRIC_LOCK_TRIES, (int64_t)counted->attempts);
    set(monitor, METRIC_LOCK_HANDED_OVER, (int64_t)counted->handed_over);
    set(monitor, METRIC_LOCK_EXTENSIONS, (int64_t)counted->extensions);
    set(monitor, METRIC_LOCK_DANGERS, (int64_t)counted->dangers);
    set(monitor, METRIC_LOCK_LOST, (int64_t)counted->lost);
    metric_spread(monitor->counted, METRIC_LOCK_EXTENSION, nowhere, redlock_group_extensions(locks));
    redlock_group_status_read(locks, &status);
    set(monitor, METRIC_NODES, status.nodes);
    set(monitor, METRIC_NODES_VOTING, status.voters);
    for (unsigned i = 0; i < status.nodes; i++)
        node_set(monitor, locks, i);
}

static void class_set(struct monitor *monitor, const struct tally *tally, unsigned number)
{
    static const struct {
        enum metric metric;
        enum tally_time time;
    } times[] = {{METRIC_TASK_WAIT, TALLY_QUEUED},
                 {METRIC_TASK_RUN, TALLY_RUN},
                 {METRIC_LOCK_QUORUM, TALLY_LOCK},
                 {METRIC_LOCK_HOLD, TALLY_HOLD}};
    const struct tally_row *row = tally_class(tally, number);
    struct metric_store *store = monitor->counted;
    struct metric_at at = {{number}};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        if (row->times[times[i].time] != NULL)
            metric_spread(store, times[i].metric, at, row->times[times[i].time]);
    metric_set(store, METRIC_FENCED_OFF, at, (int64_t)row->counts[TALLY_FENCED_OFF]);
    for (unsigned queue = 0; queue < monitor->queue_count; queue++) {
        const uint64_t *endings = tally_endings(tally, number, queue);
        for (unsigned ending = 0; ending < FLOW_ENDINGS; ending++)
            if (endings[ending] > 0) /* few are */
                metric_set(store, METRIC_TASKS, (struct metric_at){{queue, number, ending}}, (int64_t)endings[ending]);
    }
}

/* Classes have the numbers of the tally. */
static void tasks_set(struct monitor *monitor, const struct tally *tally)
{
    while (metric_class_count(monitor->counted) < tally_class_count(tally))
        metric_class_add(monitor->counted, tally_class(tally, metric_class_count(monitor->counted))->name);
    for (unsigned i = 0; i < tally_class_count(tally); i++)
        class_set(monitor, tally, i);
}

void monitor_publish(struct monitor *monitor, const struct monitor_state *state)
{
    tasks_set(monitor, state->tally);
    set(monitor, METRIC_READY, state->is_ready);
    set(monitor, METRIC_RUNNERS, state->runners);
    set(monitor, METRIC_RUNNERS_BUSY, state->busy);
    set(monitor, METRIC_CLAIMS, (int64_t)state->queue->claims);
    set(monitor, METRIC_CLAIM_CALLS, (int64_t)state->queue->claim_calls);
    set(monitor, METRIC_RECOVERED, (int64_t)state->queue->recovered);
    set(monitor, METRIC_QUEUE_NODE_UP, state->queue_is_up);
    set(monitor, METRIC_CPU, state->cpu_ns);
    set(monitor, METRIC_LOG_DROPPED, (int64_t)log_dropped());
    metric_spread(monitor->counted, METRIC_LOOP_CYCLE, nowhere, &monitor->cycles);
    if (state->locks != NULL)
        locks_set(monitor, state->locks);
    if (pthread_mutex_trylock(&monitor->lock) != 0)
        return; /* the next time */
    metric_store_copy(monitor->published.store, monitor->counted);
    monitor->published.at = state->at;
    monitor->published.is_ready = state->is_ready;
    memcpy(monitor->published.reason, state->reason, sizeof state->reason);
    pthread_mutex_unlock(&monitor->lock);
}

/* --- answering, on the thread ------------------------------------------------------------------------------------- */

/* Copies what was published; returns its age. */
static int64_t published_take(struct monitor *monitor)
{
    struct published *shown = &monitor->shown;
    pthread_mutex_lock(&monitor->lock);
    metric_store_copy(shown->store, monitor->published.store);
    shown->at = monitor->published.at;
    shown->is_ready = monitor->published.is_ready;
    memcpy(shown->reason, monitor->published.reason, sizeof shown->reason);
    pthread_mutex_unlock(&monitor->lock);
    return instant_since(shown->at, instant_now());
}

static int64_t descriptors_open(void)
{
    int64_t count = 0;
    DIR *directory = opendir("/proc/self/fd");
    if (directory == NULL)
        return 0;
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count - 3; /* ".", "..", and the directory's own */
}

/* What need not be asked of the loop. */
static void process_set(struct monitor *monitor, int64_t age_ns)
{
    struct metric_store *store = monitor->shown.store;
    struct rlimit limit = {0};
    getrlimit(RLIMIT_NOFILE, &limit);
    metric_set(store, METRIC_AGE, nowhere, age_ns);
    metric_set(store, METRIC_INFO, nowhere, 1);
    metric_set(store, METRIC_MEMORY, nowhere, memory_resident());
    metric_set(store, METRIC_OPEN_FDS, nowhere, descriptors_open());
    metric_set(store, METRIC_MAX_FDS, nowhere, limit.rlim_cur > INT64_MAX ? INT64_MAX : (int64_t)limit.rlim_cur);
    metric_set(store, METRIC_START_TIME, nowhere, monitor->started.us);
}

static void metrics_get(void *context, struct http_exchange *exchange)
{
    struct monitor *monitor = context;
    enum metric_text form = metric_text_for(http_request_header(http_exchange_request(exchange), "Accept"));
    process_set(monitor, published_take(monitor));
    buffer_clear(&monitor->text);
    metric_store_print(monitor->shown.store, form, &monitor->text);
    http_respond(exchange, 200, metric_text_types[form], monitor->text.bytes, monitor->text.length);
}

/* True, and answered, if the loop is stuck. */
static bool is_stuck(struct http_exchange *exchange, int64_t age_ns)
{
    char line[MONITOR_REASON_MAX];
    if (age_ns < MONITOR_SILENT_NS)
        return false;
    snprintf(line, sizeof line, "the loop of the worker has not turned for %.1f s", (double)age_ns / (double)NS_PER_S);
    http_respond_text(exchange, 503, line);
    return true;
}

static void health_get(void *context, struct http_exchange *exchange)
{
    if (!is_stuck(exchange, published_take(context)))
        http_respond_text(exchange, 200, "the worker is alive");
}

static void ready_get(void *context, struct http_exchange *exchange)
{
    struct monitor *monitor = context;
    if (!is_stuck(exchange, published_take(monitor)))
        http_respond_text(exchange, monitor->shown.is_ready ? 200 : 503, monitor->shown.reason);
}

static const struct http_route routes[] = {
    {HTTP_GET, "/metrics", metrics_get},
    {HTTP_GET, "/healthz", health_get},
    {HTTP_GET, "/readyz", ready_get},
};

static void *thread_run(void *context)
{
    struct monitor *monitor = context;
    loop_run(monitor->loop);
    return NULL;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static void store_build(struct monitor *monitor, const struct monitor_options *options)
{
    const struct config *config = options->config;
    const char *nodes[REDLOCK_NODES_MAX] = {NULL};
    struct buffer labels = {0};
    char number[16];
    for (size_t i = 0; i < config->lock_node_count; i++)
        nodes[i] = config->lock_nodes[i].name;
    snprintf(number, sizeof number, "%u", options->process);
    metric_label_append(&labels, "host", config->worker.host);
    metric_label_append(&labels, "process", number);
    metric_label_append(&labels, "version", HOLDFAST_VERSION);
    monitor->counted = metric_store_create(&(struct metric_names){
        .queues = (const char *const *)config->worker.queues.items,
        .queue_count = (unsigned)config->worker.queues.count,
        .nodes = nodes,
        .node_count = (unsigned)config->lock_node_count,
        .class_max = options->class_max,
        .process = buffer_text(&labels),
    });
    buffer_fini(&labels);
    monitor->queue_count = (unsigned)config->worker.queues.count;
    monitor->published.store = metric_store_twin(monitor->counted);
    monitor->shown.store = metric_store_twin(monitor->counted);
    metric_store_copy(monitor->published.store, monitor->counted);
}

static bool server_start(struct monitor *monitor, struct error *error)
{
    int code = thread_spawn(&monitor->thread, "hf-http", thread_run, monitor);
    return code == 0 || error_set(error, "no thread for http.listen: %s", strerror(code));
}

static void addresses_tell(const struct monitor *monitor)
{
    struct buffer address = {0};
    char text[LOG_QUOTE_MAX];
    for (size_t i = 0; http_server_address(monitor->server, i, &address) != NULL; i++)
        log_event(LOG_INFO, "http_listens", "address=%s", log_value(buffer_text(&address), text));
    buffer_fini(&address);
}

struct monitor *monitor_create(const struct monitor_options *options, struct error *error)
{
    const struct config_http *http = &options->config->http;
    struct monitor *monitor = memory_new(struct monitor);
    monitor->started = wall_now();
    monitor->token = http->token != NULL ? memory_text(http->token) : NULL;
    monitor->published.at = instant_now();
    snprintf(monitor->published.reason, MONITOR_REASON_MAX, "the worker is starting");
    pthread_mutex_init(&monitor->lock, NULL);
    store_build(monitor, options);
    monitor->loop = loop_create(error);
    if (monitor->loop != NULL)
        monitor->server =
            http_server_create(&(struct http_server_options){.loop = monitor->loop,
                                                             .addresses = (const char *const *)http->listen.items,
                                                             .address_count = http->listen.count,
                                                             .process = options->process,
                                                             .token = monitor->token,
                                                             .routes = routes,
                                                             .route_count = sizeof routes / sizeof routes[0],
                                                             .context = monitor,
                                                             .connections_max = CONNECTIONS_MAX},
                               error);
    if (monitor->server == NULL || !server_start(monitor, error)) {
        error_prefix(error, "http.listen");
        monitor_destroy(monitor);
        return NULL;
    }
    addresses_tell(monitor);
    return monitor;
}

void monitor_destroy(struct monitor *monitor)
{
    if (monitor == NULL)
        return;
    if (monitor->thread != 0) {
        loop_stop(monitor->loop);
        pthread_join(monitor->thread, NULL);
    }
    http_server_destroy(monitor->server);
    monitor->server = NULL; /* a new token may still be on its way */
    if (monitor->loop != NULL)
        loop_destroy(monitor->loop);
    metric_store_destroy(monitor->shown.store);
    metric_store_destroy(monitor->published.store);
    metric_store_destroy(monitor->counted);
    pthread_mutex_destroy(&monitor->lock);
    buffer_fini(&monitor->text);
    secret_free(monitor->token);
    free(monitor);
}

struct histogram *monitor_cycles(struct monitor *monitor)
{
    return &monitor->cycles;
}

struct new_token {
    struct loop_message message;
    struct monitor *monitor;
    char *token;
};

static void token_deliver(struct loop_message *message)
{
    struct new_token *fresh = list_owner(message, struct new_token, message);
    struct monitor *monitor = fresh->monitor;
    if (monitor->server != NULL)
        http_server_change_token(monitor->server, fresh->token);
    secret_free(monitor->token);
    monitor->token = fresh->token;
    free(fresh);
}

void monitor_change_token(struct monitor *monitor, const char *token)
{
    struct new_token *fresh = memory_new(struct new_token);
    *fresh = (struct new_token){.message.deliver = token_deliver, .monitor = monitor, .token = memory_text(token)};
    loop_post(monitor->loop, &fresh->message);
}
