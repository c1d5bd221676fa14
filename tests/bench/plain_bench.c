/* What a lock, and a task under a lock, cost without this library's trust, fences and waiting: SET NX PX to all nodes,
 * a majority awaited, then a script that compares and deletes. As many users as --conc at once, each with a resource
 * that nobody else wants. With --queue-port each fetches a task by LMOVE before and removes it by RPOP behind it, until
 * the list is empty; the tasks are pushed before and not measured. The yardstick of tests/bench/run.
 *
 *     plain-bench --ports P,P,... [--conc C] [--secs S | --queue-port P --tasks N]
 *
 * One JSON line goes to standard output. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/loop.h"
#include "base/memory.h"
#include "base/random.h"
#include "redis/node.h"
#include "tests/support/cpu_time.h"

enum { NODES_MAX = 15, USERS_MAX = 1024, VALUE_DIGITS = 32, SLICE = 500, TASK_LENGTH = 170 };

#define COMPARE "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"

static const struct redis_script compare = {.name = "compare",
                                            .sha1 = "2e47b373b4dbd63ee966d2eb9fe24ed6a138ad4e",
                                            .source = COMPARE,
                                            .length = sizeof COMPARE - 1};

struct ask {
    struct redis_call call;
    struct user *user;
};

struct user {
    struct ask grants[NODES_MAX], releases[NODES_MAX], fetch;
    unsigned grants_had, releases_had, outstanding;
    bool is_over; /* the cycle, but for answers that are still to come */
    char value[VALUE_DIGITS], claims[32], resource[48];
};

static struct loop *loop;
static struct redis_node *nodes[NODES_MAX], *queue;
static struct user users[USERS_MAX];
static unsigned ports[NODES_MAX], node_count, queue_port, conc = 64, up, busy;
static unsigned long tasks, pushed, cycles;
static double seconds = 2;
static bool is_measuring;
static struct instant began, ends, ended;
static int64_t cpu_us;
static struct buffer request;

_Noreturn static void fail(const char *text)
{
    fprintf(stderr, "plain-bench: %s\n", text);
    exit(1);
}

static void user_begin(struct user *user);

static void ask(struct redis_node *node, struct ask *ask)
{
    if (!redis_node_call(node, &request, instant_after(loop_now(loop), 10 * NS_PER_S), &ask->call))
        fail("a node takes no request");
    ask->user->outstanding++;
}

static void cycle_end(struct user *user)
{
    if (!user->is_over || user->outstanding > 0)
        return;
    cycles += queue != NULL || !instant_reached(instant_now(), ends);
    user_begin(user);
}

/* Who counts an answer: yes or no, and a node that fails ends the program. */
static struct user *answered(struct redis_call *call, const struct redis_result *result)
{
    struct user *user = list_owner(call, struct ask, call)->user;
    if (result->outcome != REDIS_VALUE)
        fail(result->reason);
    user->outstanding--;
    return user;
}

static void removed(struct redis_call *call, const struct redis_result *result)
{
    struct user *user = answered(call, result);
    user->is_over = true;
    cycle_end(user);
}

static void released(struct redis_call *call, const struct redis_result *result)
{
    struct user *user = answered(call, result);
    bool is_free = ++user->releases_had == node_count / 2 + 1;
    if (is_free && queue == NULL)
        user->is_over = true;
    else if (is_free) {
        buffer_clear(&request);
        redis_request_begin(&request, 2);
        redis_request_text(&request, "RPOP");
        redis_request_text(&request, user->claims);
        user->fetch.call.done = removed;
        ask(queue, &user->fetch);
    }
    cycle_end(user);
}

static void release(struct user *user)
{
    for (unsigned i = 0; i < node_count; i++) {
        buffer_clear(&request);
        redis_request_script(&request, &compare, 1, 1);
        redis_request_text(&request, user->resource);
        redis_request_bytes(&request, user->value, VALUE_DIGITS);
        user->releases[i].call.done = released;
        ask(nodes[i], &user->releases[i]);
    }
}

static void granted(struct redis_call *call, const struct redis_result *result)
{
    struct user *user = answered(call, result);
    if (!redis_reply_is_status(result->reply, "OK"))
        fail("a lock that nobody has is refused");
    if (++user->grants_had == node_count / 2 + 1)
        release(user);
    cycle_end(user);
}

static void lock(struct user *user)
{
    static unsigned long number;
    user->grants_had = user->releases_had = 0;
    user->is_over = false;
    random_digits(user->value, VALUE_DIGITS);
    snprintf(user->resource, sizeof user->resource, "plain:%lu", number++);
    for (unsigned i = 0; i < node_count; i++) {
        buffer_clear(&request);
        redis_request_begin(&request, 6);
        redis_request_text(&request, "SET");
        redis_request_text(&request, user->resource);
        redis_request_bytes(&request, user->value, VALUE_DIGITS);
        redis_request_text(&request, "NX");
        redis_request_text(&request, "PX");
        redis_request_integer(&request, 30000);
        user->grants[i].call.done = granted;
        ask(nodes[i], &user->grants[i]);
    }
}

static void user_is_done(void)
{
    if (--busy > 0)
        return;
    ended = instant_now();
    cpu_us += cpu_time_us();
    loop_stop(loop);
}

static void fetched(struct redis_call *call, const struct redis_result *result)
{
    struct user *user = answered(call, result);
    if (result->reply->length < TASK_LENGTH)
        user_is_done();
    else
        lock(user);
}

static void user_begin(struct user *user)
{
    if (queue == NULL && instant_reached(instant_now(), ends)) {
        user_is_done();
        return;
    }
    if (queue == NULL) {
        lock(user);
        return;
    }
    user->is_over = false;
    buffer_clear(&request);
    redis_request_begin(&request, 5);
    redis_request_text(&request, "LMOVE");
    redis_request_text(&request, "bench:in");
    redis_request_text(&request, user->claims);
    redis_request_text(&request, "RIGHT");
    redis_request_text(&request, "LEFT");
    user->fetch.call.done = fetched;
    ask(queue, &user->fetch);
}

static void all_begin(void)
{
    busy = conc;
    began = instant_now();
    ends = instant_after(began, (int64_t)(seconds * (double)NS_PER_S));
    cpu_us = -cpu_time_us();
    for (unsigned i = 0; i < conc; i++)
        user_begin(&users[i]);
}

static void slice_push(void);

static void slice_pushed(struct redis_call *call, const struct redis_result *result)
{
    (void)answered(call, result);
    slice_push();
}

static void slice_push(void)
{
    char task[TASK_LENGTH];
    if (pushed >= tasks) {
        all_begin();
        return;
    }
    memset(task, 'x', sizeof task);
    buffer_clear(&request);
    redis_request_begin(&request, 2 + SLICE);
    redis_request_text(&request, "LPUSH");
    redis_request_text(&request, "bench:in");
    for (unsigned i = 0; i < SLICE; i++)
        redis_request_bytes(&request, task, sizeof task);
    pushed += SLICE;
    users[0].fetch.call.done = slice_pushed;
    ask(queue, &users[0].fetch);
}

static void node_changed(void *context, struct redis_node *node, enum redis_node_state state, const char *reason)
{
    (void)context, (void)node;
    if (state != REDIS_NODE_UP)
        fail(reason);
    if (++up < node_count + (queue_port > 0) || is_measuring)
        return;
    is_measuring = true;
    slice_push();
}

static struct redis_node *node_open(unsigned port)
{
    static const struct redis_script *const scripts[] = {&compare};
    return redis_node_create(loop, &(struct redis_node_options){.name = "node",
                                                                .host = "127.0.0.1",
                                                                .port = port,
                                                                .scripts = scripts,
                                                                .script_count = 1,
                                                                .changed = node_changed});
}

static void ports_take(char *text)
{
    for (char *word; (word = strsep(&text, ",")) != NULL;) {
        unsigned long port = strtoul(word, NULL, 10);
        if (node_count == NODES_MAX || port == 0 || port > 65535)
            fail("--ports takes up to 15 ports");
        ports[node_count++] = (unsigned)port;
    }
}

static void command_line_take(int count, char **words)
{
    static const struct option known[] = {
        {"ports", required_argument, NULL, 'p'}, {"conc", required_argument, NULL, 'c'},
        {"secs", required_argument, NULL, 's'},  {"queue-port", required_argument, NULL, 'q'},
        {"tasks", required_argument, NULL, 't'}, {NULL, 0, NULL, 0}};
    for (int option; (option = getopt_long(count, words, "", known, NULL)) != -1;)
        if (option == 'p')
            ports_take(optarg);
        else if (option == 'c')
            conc = (unsigned)strtoul(optarg, NULL, 10);
        else if (option == 's')
            seconds = strtod(optarg, NULL);
        else if (option == 'q')
            queue_port = (unsigned)strtoul(optarg, NULL, 10);
        else if (option == 't')
            tasks = strtoul(optarg, NULL, 10);
        else
            exit(2);
    if (node_count == 0 || conc == 0 || conc > USERS_MAX || (queue_port > 0) != (tasks > 0) || tasks % SLICE != 0)
        fail("it takes --ports, and --queue-port only with --tasks, a multiple of 500");
}

int main(int count, char **words)
{
    command_line_take(count, words);
    log_set_level(LOG_WARN);
    loop = loop_create(NULL);
    for (unsigned i = 0; i < conc; i++) {
        struct user *user = &users[i];
        snprintf(user->claims, sizeof user->claims, "bench:claims:%u", i);
        user->fetch.user = user;
        for (unsigned node = 0; node < node_count; node++)
            user->grants[node].user = user->releases[node].user = user;
    }
    for (unsigned i = 0; i < node_count; i++)
        nodes[i] = node_open(ports[i]);
    if (queue_port > 0)
        queue = node_open(queue_port);
    loop_run(loop);
    double secs = (double)instant_since(began, ended) / (double)NS_PER_S;
    printf("{\"cycles\": %lu, \"secs\": %.3f, \"per_s\": %.0f, \"client_cpu_us\": %.2f}\n", cycles, secs,
           (double)cycles / secs, (double)cpu_us / (double)cycles);
    for (unsigned i = 0; i < node_count; i++)
        redis_node_destroy(nodes[i]);
    redis_node_destroy(queue);
    loop_destroy(loop);
    buffer_fini(&request);
    return 0;
}
