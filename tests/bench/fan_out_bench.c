/* What a Redlock costs without this library: one user, a thread with a blocking connection for each node, and a
 * majority waited for. The yardstick for the time that one user waits for a lock; lock-bench --mode loop --conc 1 is
 * what it is compared with. Either with the textbook commands (SET NX PX, compare and delete by script) or, with
 * --fenced, with this library's scripts, so that only the ways of asking differ.
 *
 *     fan-out-bench --ports P,P,... [--secs S] [--fenced]
 *
 * One JSON line goes to standard output. */
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/histogram.h"
#include "base/invariant.h"
#include "base/random.h"
#include "redis/request.h"
#include "redlock/scripts.h"
#include "tests/bench/bench_node.h"

enum { NODES_MAX = 15, VALUE_DIGITS = 32 };

struct node {
    int fd;
    pthread_t thread;
    sem_t asked;
    const struct buffer *request;
};

static struct node nodes[NODES_MAX];
static unsigned node_count;
static sem_t answered;
static struct buffer grant, release;
static bool is_fenced;

static const struct redis_script compare = {
    .name = "compare",
    .sha1 = "2e47b373b4dbd63ee966d2eb9fe24ed6a138ad4e",
    .source = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0",
};

_Noreturn static void fail(const char *text)
{
    fprintf(stderr, "fan-out-bench: %s\n", text);
    exit(1);
}

static void say(int fd, const struct buffer *request)
{
    if (send(fd, request->bytes, request->length, MSG_NOSIGNAL) != (ssize_t)request->length)
        fail("a node does not take a request");
}

/* So many lines: what the commands answer here. */
static void hear(int fd, unsigned lines, char *text, size_t size)
{
    size_t length = 0;
    for (unsigned seen = 0; seen < lines;) {
        ssize_t got = recv(fd, text + length, size - 1 - length, 0);
        if (got <= 0)
            fail("a node does not answer");
        for (ssize_t i = 0; i < got; i++)
            seen += text[length++] == '\n';
    }
    text[length] = '\0';
}

static bool is_yes(const char *text)
{
    return text[0] == ':' || strcmp(text, "$1\r\n1\r\n") == 0 || strcmp(text, "+OK\r\n") == 0 ||
           strstr(text, " +\r\n") != NULL;
}

static void *node_run(void *argument)
{
    struct node *node = argument;
    char text[256];
    for (;;) {
        while (sem_wait(&node->asked) != 0)
            continue;
        if (node->request == NULL)
            return NULL;
        say(node->fd, node->request);
        hear(node->fd, is_fenced ? 2 : 1, text, sizeof text);
        if (!is_yes(text))
            fail(text);
        sem_post(&answered);
    }
}

static void script_load(const struct node *node, const struct redis_script *script)
{
    struct buffer load = {0};
    char text[128];
    redis_request_begin(&load, 3);
    redis_request_text(&load, "SCRIPT");
    redis_request_text(&load, "LOAD");
    redis_request_text(&load, script->source);
    say(node->fd, &load);
    hear(node->fd, 2, text, sizeof text);
    if (strstr(text, script->sha1) == NULL)
        fail(text);
    buffer_fini(&load);
}

static void node_open(struct node *node, unsigned port)
{
    node->fd = bench_node_connect(port);
    if (node->fd < 0)
        fail("a node cannot be reached");
    script_load(node, &compare);
    script_load(node, &redlock_script_grant_unfenced);
    script_load(node, &redlock_script_release);
    sem_init(&node->asked, 0, 0);
    if (pthread_create(&node->thread, NULL, node_run, node) != 0)
        fail("no thread can be started");
}

static void all_ask(const struct buffer *request)
{
    for (unsigned i = 0; i < node_count; i++) {
        nodes[i].request = request;
        sem_post(&nodes[i].asked);
    }
}

static void answers_await(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        while (sem_wait(&answered) != 0)
            continue;
}

static void textbook_encode(const char value[VALUE_DIGITS])
{
    redis_request_begin(&grant, 6);
    redis_request_text(&grant, "SET");
    redis_request_text(&grant, "lock:fan-out");
    redis_request_bytes(&grant, value, VALUE_DIGITS);
    redis_request_text(&grant, "NX");
    redis_request_text(&grant, "PX");
    redis_request_integer(&grant, 10000);
    redis_request_script(&release, &compare, 1, 1);
    redis_request_text(&release, "lock:fan-out");
    redis_request_bytes(&release, value, VALUE_DIGITS);
}

/* The marker is not compared: it differs from node to node, and one request is sent to all. */
static void fenced_encode(const char value[VALUE_DIGITS])
{
    redis_request_script(&grant, &redlock_script_grant_unfenced, 2, 6);
    redis_request_text(&grant, "hf:lock:group");
    redis_request_text(&grant, "lock:fan-out");
    redis_request_text(&grant, "");
    redis_request_integer(&grant, INT64_C(1) << 53);
    redis_request_integer(&grant, 10000);
    redis_request_integer(&grant, wall_now().us);
    redis_request_integer(&grant, 604800000);
    redis_request_bytes(&grant, value, VALUE_DIGITS);
    redis_request_script(&release, &redlock_script_release, 1, 1);
    redis_request_text(&release, "lock:fan-out");
    redis_request_bytes(&release, value, VALUE_DIGITS);
}

static void cycle_encode(void)
{
    char value[VALUE_DIGITS];
    random_digits(value, VALUE_DIGITS);
    buffer_clear(&grant);
    buffer_clear(&release);
    if (is_fenced)
        fenced_encode(value);
    else
        textbook_encode(value);
}

/* A majority decides; the rest is waited for between the cycles, off the clock, so that replies stay matched. */
static void cycle_run(struct histogram *acquire, struct histogram *cycle)
{
    unsigned quorum = node_count / 2 + 1;
    cycle_encode();
    struct instant asked = instant_now();
    all_ask(&grant);
    answers_await(quorum);
    struct instant had = instant_now();
    answers_await(node_count - quorum);
    struct instant given = instant_now();
    all_ask(&release);
    answers_await(quorum);
    struct instant over = instant_now();
    answers_await(node_count - quorum);
    histogram_record(acquire, instant_since(asked, had) / NS_PER_US);
    histogram_record(cycle, (instant_since(asked, had) + instant_since(given, over)) / NS_PER_US);
}

static void ports_take(char *text)
{
    char *word = NULL;
    while ((word = strsep(&text, ",")) != NULL) {
        unsigned port = (unsigned)strtoul(word, NULL, 10);
        if (node_count == NODES_MAX || port == 0 || port > 65535)
            fail("--ports takes up to 15 ports");
        node_open(&nodes[node_count++], port);
    }
}

int main(int count, char **words)
{
    static const struct option known[] = {{"ports", required_argument, NULL, 'p'},
                                          {"secs", required_argument, NULL, 's'},
                                          {"fenced", no_argument, NULL, 'f'},
                                          {NULL, 0, NULL, 0}};
    static struct histogram acquire, cycle;
    double seconds = 2;
    int option = 0;
    sem_init(&answered, 0, 0);
    while ((option = getopt_long(count, words, "", known, NULL)) != -1) {
        if (option == 'p')
            ports_take(optarg);
        else if (option == 's')
            seconds = strtod(optarg, NULL);
        else if (option == 'f')
            is_fenced = true;
        else
            return 2;
    }
    if (node_count == 0)
        fail("--ports is missing: which nodes?");
    struct instant end = instant_after(instant_now(), (int64_t)(seconds * (double)NS_PER_S));
    uint64_t cycles = 0;
    for (; !instant_reached(instant_now(), end); cycles++)
        cycle_run(&acquire, &cycle);
    printf("{\"mode\": \"fan-out%s\", \"nodes\": %u, \"conc\": 1, \"cycles\": %" PRIu64 ", \"acq_p50_us\": %" PRId64
           ", \"acq_p99_us\": %" PRId64 ", \"p50_us\": %" PRId64 ", \"p99_us\": %" PRId64 "}\n",
           is_fenced ? ", fenced" : "", node_count, cycles, histogram_quantile(&acquire, 0.5),
           histogram_quantile(&acquire, 0.99), histogram_quantile(&cycle, 0.5), histogram_quantile(&cycle, 0.99));
    all_ask(NULL);
    for (unsigned i = 0; i < node_count; i++) {
        pthread_join(nodes[i].thread, NULL);
        close(nodes[i].fd);
    }
    buffer_fini(&grant);
    buffer_fini(&release);
    return 0;
}
