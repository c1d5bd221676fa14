/* A worker process at a queue node as tests see it: a struct queue whose events are written down. */
#ifndef SUPPORT_QUEUE_PROBE_H
#define SUPPORT_QUEUE_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "queue/queue.h"
#include "tests/support/redis_server.h"

enum { QUEUE_PROBE_SLOTS_MAX = 64 };

struct queue_probe_slot {
    unsigned asked, answers; /* equal when no call is outstanding */
    unsigned lost;           /* claims, as a heartbeat, or a call to keep one, reported */
    unsigned confirmed;      /* claims as successors */
    enum queue_answer answer;
    char queue[32];
    char *payload; /* of the last QUEUE_CLAIMED, NUL-terminated */
    size_t length;
};

struct queue_probe {
    struct loop *loop;
    struct queue *queue;
    char identity[64];
    struct queue_probe_slot slots[QUEUE_PROBE_SLOTS_MAX];
    unsigned slot_count;
    struct instant lease_end; /* as the node renewed it last */
    unsigned rings, lefts;
    bool left; /* what the last `done` of queue_leave said */
    /* May be NULL; run last. */
    void (*on_answer)(struct queue_probe *probe, unsigned slot);
    void (*on_ring)(struct queue_probe *probe);
};

/* `names` is a list of queue names separated by blanks. `port` may be that of a relay before the server. Fills in what
 * `options` leaves zero (identity, slots, timeout). */
void queue_probe_start(struct queue_probe *probe, struct loop *loop, unsigned port, const char *names,
                       const struct queue_options *options);
void queue_probe_stop(struct queue_probe *probe); /* harmless when not started */

/* Each asks and returns at once. */
void queue_probe_settle(struct queue_probe *probe, unsigned slot, bool claim_next);
void queue_probe_postpone(struct queue_probe *probe, unsigned slot, enum queue_state state, int64_t delay_ns,
                          const char *payload);
void queue_probe_give_back(struct queue_probe *probe, unsigned slot);
void queue_probe_finish_with(struct queue_probe *probe, unsigned slot, const struct queue_task_name *task,
                             const struct queue_extras *extras);

/* Runs the loop until the slot's last call is answered. */
enum queue_answer queue_probe_wait(struct queue_probe *probe, unsigned slot);
void queue_probe_wait_all(struct queue_probe *probe);
/* Settles and claims; fails the test unless the slot gets `payload` (NULL: nothing). */
void queue_probe_claim(struct queue_probe *probe, unsigned slot, const char *payload);
void queue_probe_wait_rings(struct queue_probe *probe, unsigned rings);
void queue_probe_wait_up(struct queue_probe *probe);
/* Leaves and waits for the end; returns what `done` said. */
bool queue_probe_leave(struct queue_probe *probe, int64_t limit_ns);

/* Fails the test unless the command's reply is `expected`; see redis_server_command. */
#define assert_reply(server, expected, ...)                                                                            \
    do {                                                                                                               \
        char *reply_text = redis_server_command(server, __VA_ARGS__);                                                  \
        assert_string_equal(reply_text, expected);                                                                     \
        free(reply_text);                                                                                              \
    } while (0)

/* The reply as a number. */
long long queue_probe_number(struct redis_server *server, const char *command);
/* How many scripts were called, but for heartbeats, which come by time. */
unsigned queue_probe_scripts(struct redis_server *server);
/* All tasks of the node (lists, claims, blocking claims, sorted sets), sorted, one a line, each with its
 * key ("queue:a one"); read at one instant. The caller frees it. */
char *queue_probe_tasks(struct redis_server *server);

#endif
