/* A node and its calls as tests see them: everything that happens to them is written down. */
#ifndef SUPPORT_NODE_PROBE_H
#define SUPPORT_NODE_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "redis/node.h"

struct node_probe {
    struct loop *loop;
    struct redis_node *node;
    unsigned ups, downs; /* calls of `changed` */
    char reason[256];
    void (*on_change)(struct node_probe *probe, enum redis_node_state state); /* may be NULL */
};

/* Creates the node; `changed` and `context` of the options are replaced. */
void node_probe_start(struct node_probe *probe, struct loop *loop, const struct redis_node_options *options);
/* Destroys the node if there still is one. */
void node_probe_stop(struct node_probe *probe);
/* Each fails the test when it does not happen. */
void node_probe_wait_up(struct node_probe *probe);
void node_probe_wait_downs(struct node_probe *probe, unsigned downs);

struct call_probe {
    struct redis_call call;
    unsigned completions;
    unsigned order; /* its place among all completions of the test program, from 1 */
    enum redis_outcome outcome;
    enum redis_error error;
    enum redis_reply_kind kind;
    long long integer;
    size_t count, length; /* of an array, of a text */
    char text[128];       /* the beginning of a string, a status or an error */
    char reason[256];
    void (*on_done)(struct call_probe *probe); /* may be NULL; runs last */
};

/* Sends the words of a command, separated by single spaces. False when the node refused at once. */
bool call_probe_send(struct call_probe *probe, struct node_probe *node, int64_t timeout_ns, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Runs the loop until the call has completed. */
void call_probe_wait(struct call_probe *probe, struct loop *loop);
/* Sends, waits, and fails the test unless the outcome is a value. */
void call_probe_run(struct call_probe *probe, struct node_probe *node, const char *command);

#endif
