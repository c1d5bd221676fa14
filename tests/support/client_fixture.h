/* A blocking client of the servers of one_cluster.h for each test. */
#ifndef SUPPORT_CLIENT_FIXTURE_H
#define SUPPORT_CLIENT_FIXTURE_H

#include "tests/support/test.h"

#include "redlock/client.h"
#include "redlock/redlock_mutex.h"
#include "tests/support/one_cluster.h"

static struct redlock_client *client;
static char reason[256];

/* No lock is lost, and no node counts as silent, when a thread or a server gets no processor for some seconds. */
enum { CLIENT_TIMEOUT_MS = 2500, MUTEX_TTL_MS = 20000 };

static inline struct redlock_mutex mutex_of(const char *name)
{
    return (struct redlock_mutex){.client = client, .name = name, .terms = quick_terms(MUTEX_TTL_MS, 3)};
}

/* For the whole group, instead of one_cluster_set_up. */
static inline int patient_cluster_set_up(void **state)
{
    (void)one_cluster_set_up(state);
    for (unsigned i = 0; i < NODES; i++)
        cluster.nodes[i].timeout_ms = CLIENT_TIMEOUT_MS;
    return 0;
}

struct loop_look {
    struct loop_message message;
    unsigned (*look)(void);
    unsigned found;
    _Atomic bool is_over;
};

static inline void loop_look_deliver(struct loop_message *message)
{
    struct loop_look *question = list_owner(message, struct loop_look, message);
    question->found = question->look();
    question->is_over = true;
}

/* What the loop of the client sees: other threads may not look. */
static inline unsigned loop_look(unsigned (*look)(void))
{
    struct loop_look question = {.message.deliver = loop_look_deliver, .look = look};
    loop_post(client->loop, &question.message);
    test_await(question.is_over);
    return question.found;
}

static inline int client_set_up(void **state)
{
    (void)state;
    lock_cluster_heal(&cluster);
    client = redlock_client_open(&cluster.options, reason, sizeof reason);
    assert_non_null(client);
    return 0;
}

static inline int client_tear_down(void **state)
{
    (void)state;
    redlock_client_close(client);
    return 0;
}

#endif
