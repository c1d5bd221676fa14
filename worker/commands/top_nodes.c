#include "worker/commands/top_nodes.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "worker/commands/nodes.h"

struct top_nodes {
    const struct config *config;
    int64_t interval_ns;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t mutex; /* of what follows */
    pthread_cond_t changed;
    bool must_stop, has_looked;
    unsigned count;
    struct redlock_node_view views[REDLOCK_NODES_MAX];
    char reason[TOP_NODES_REASON_MAX];
};

/* Names of nodes belong to the configuration, so a copy of a view is whole. */
static void look(struct top_nodes *nodes, struct nodes_session *session)
{
    struct redlock_node_view found[REDLOCK_NODES_MAX];
    unsigned count = 0;
    if (session->nodes != NULL) {
        (void)redlock_nodes_look(session->nodes);
        count = redlock_nodes_group(session->nodes).nodes;
        for (unsigned i = 0; i < count; i++) {
            found[i] = *redlock_nodes_view(session->nodes, i);
            found[i].name = nodes->config->lock_nodes[i].name;
        }
    }
    pthread_mutex_lock(&nodes->mutex);
    memcpy(nodes->views, found, count * sizeof found[0]);
    nodes->count = count;
    nodes->has_looked = true;
    snprintf(nodes->reason, sizeof nodes->reason, "%s", session->nodes == NULL ? session->reason : "");
    pthread_cond_broadcast(&nodes->changed);
    pthread_mutex_unlock(&nodes->mutex);
}

/* False when it is to stop. */
static bool pause_before_next(struct top_nodes *nodes)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t ns = until.tv_nsec + nodes->interval_ns;
    until.tv_sec += ns / NS_PER_S;
    until.tv_nsec = ns % NS_PER_S;
    pthread_mutex_lock(&nodes->mutex);
    while (!nodes->must_stop && pthread_cond_timedwait(&nodes->changed, &nodes->mutex, &until) == 0)
        ;
    bool goes_on = !nodes->must_stop;
    pthread_mutex_unlock(&nodes->mutex);
    return goes_on;
}

static void *nodes_run(void *context)
{
    struct top_nodes *nodes = context;
    struct nodes_session session;
    bool is_open = nodes_session_open(&session, nodes->config, NULL);
    do
        look(nodes, &session);
    while (is_open && pause_before_next(nodes));
    nodes_session_close(&session);
    return NULL;
}

struct top_nodes *top_nodes_start(const struct config *config, int64_t interval_ns)
{
    if (config->lock_node_count == 0)
        return NULL;
    struct top_nodes *nodes = memory_new(struct top_nodes);
    nodes->config = config;
    nodes->interval_ns = interval_ns;
    pthread_mutex_init(&nodes->mutex, NULL);
    thread_condition_init(&nodes->changed);
    nodes->has_thread = thread_spawn(&nodes->thread, "hf-nodes", nodes_run, nodes) == 0;
    if (!nodes->has_thread) {
        nodes->has_looked = true;
        snprintf(nodes->reason, sizeof nodes->reason, "no thread to look at the lock nodes could be started");
    }
    return nodes;
}

void top_nodes_stop(struct top_nodes *nodes)
{
    if (nodes == NULL)
        return;
    pthread_mutex_lock(&nodes->mutex);
    nodes->must_stop = true;
    pthread_cond_broadcast(&nodes->changed);
    pthread_mutex_unlock(&nodes->mutex);
    if (nodes->has_thread)
        pthread_join(nodes->thread, NULL);
    pthread_cond_destroy(&nodes->changed);
    pthread_mutex_destroy(&nodes->mutex);
    free(nodes);
}

unsigned top_nodes_copy(struct top_nodes *nodes, struct redlock_node_view views[REDLOCK_NODES_MAX],
                        char reason[TOP_NODES_REASON_MAX])
{
    reason[0] = '\0';
    if (nodes == NULL)
        return 0;
    pthread_mutex_lock(&nodes->mutex);
    unsigned count = nodes->count;
    memcpy(views, nodes->views, count * sizeof views[0]);
    memcpy(reason, nodes->reason, sizeof nodes->reason);
    pthread_mutex_unlock(&nodes->mutex);
    return count;
}

void top_nodes_wait(struct top_nodes *nodes)
{
    if (nodes == NULL)
        return;
    pthread_mutex_lock(&nodes->mutex);
    while (!nodes->has_looked)
        pthread_cond_wait(&nodes->changed, &nodes->mutex);
    pthread_mutex_unlock(&nodes->mutex);
}
