/* Runs the examples of the installed headers (scripts/header-examples) at private servers, in C and in C++:
 *
 *     header_examples PORT PORT PORT PORT      of the queue, and of three lock nodes, which become a group
 *
 * The names that the examples use and do not explain are here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <holdfast/holdfast.h>
#include <redlock.h>
#include <redlock_mutex.h>
#include <redlock_nodes.h>

static unsigned ports[4];
static struct redlock_options options;
static struct redlock_client *client;
static struct hf_producer *producer;
static struct hf_task defaults;
static const char *names[] = {"account:7", "account:9"};
static const char *texts[] = {"[1]", "[2]", "no task"};
static unsigned steps, failed, ends;

static int fail(const char *reason)
{
    fprintf(stderr, "%s\n", reason);
    failed++;
    return 1;
}

static bool more_to_do(void)
{
    return steps % 3 != 2;
}

static void do_a_step(unsigned long long token)
{
    steps++;
    if (token == 0)
        fail("there is no token");
}

static void ended(void *context, const struct hf_stream_report *report)
{
    (void)context;
    ends += report->answer == HF_PUSH_QUEUED ? (unsigned)report->count : 0;
}

#include EXAMPLES /* its name, in quotes */

int main(int argc, char **argv)
{
    char reason[256];
    struct redlock_node nodes[3];
    struct redlock_group_terms terms;
    struct hf_producer_options queue;
    memset(nodes, 0, sizeof nodes);
    memset(&terms, 0, sizeof terms);
    memset(&queue, 0, sizeof queue);
    for (int i = 0; i < 4 && i + 1 < argc; i++)
        ports[i] = (unsigned)strtoul(argv[i + 1], NULL, 10);
    for (int i = 0; i < 3; i++) {
        nodes[i].host = "127.0.0.1";
        nodes[i].port = ports[i + 1];
        nodes[i].timeout_ms = 500; /* nobody waits for it */
    }
    options.nodes = nodes;
    options.node_count = 3;
    queue.port = ports[0];
    defaults.class_name = "echo";
    struct redlock_nodes *session = redlock_nodes_open(&options, reason, sizeof reason);
    if (session == NULL || redlock_nodes_init(session, &terms) != REDLOCK_NODES_DONE)
        return fail(redlock_nodes_reason(session));
    redlock_nodes_close(session);
    client = redlock_client_open(&options, reason, sizeof reason);
    producer = hf_producer_create(&queue, reason, sizeof reason);
    if (client == NULL || producer == NULL)
        return fail(reason);
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        steps = 0;
        if (examples[i]() != 0)
            fail("an example ended early");
    }
    hf_producer_destroy(producer);
    redlock_client_close(client);
    printf("%u examples, %u complaints, %u tasks by the stream\n", (unsigned)(sizeof examples / sizeof examples[0]),
           failed, ends);
    return 0;
}
