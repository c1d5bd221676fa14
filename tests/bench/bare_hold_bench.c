/* How often one resource can be held on these nodes at most: no library, no queue of waiters, nobody else. A program
 * that waits for the length of a hold, asks all nodes for the next one in one round, and begins the next hold as
 * soon as a majority has answered. What the hot cases of tests/bench/run lose against 1 / hold is to be seen beside
 * this: the rest of it is spent by the nodes and by the machine, which wakes all of them from their sleep each time.
 *
 *     bare-hold-bench --ports P,P,... [--secs S] [--hold-us H] [--scripts]
 *
 * Asked is a SET with a ttl, which guards nothing, or, with --scripts, the grant in which this library puts the next
 * holder in the place of the one before. One JSON line goes to standard output. */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/random.h"
#include "redis/request.h"
#include "redlock/scripts.h"
#include "tests/bench/bench_node.h"
#include "tests/bench/lock_figures.h"
#include "tests/support/cpu_time.h"

enum { NODES_MAX = 15, VALUE_DIGITS = 32, TTL_MS = 10000, TIMER = NODES_MAX };

#define KEY "lock:bare"

struct node {
    int fd;
    unsigned asked, lines; /* requests that are not answered yet, and lines of the first of these answers */
    bool is_of_this_round;
};

static struct node nodes[NODES_MAX];
static unsigned node_count;
static int poller, timer;
static bool uses_scripts;
static int64_t hold_ns = NS_PER_MS;
static char values[2][VALUE_DIGITS]; /* of this hold, and of the one before */

_Noreturn static void fail(const char *text)
{
    fprintf(stderr, "bare-hold-bench: %s\n", text);
    exit(1);
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

static void say(struct node *node, const struct buffer *request)
{
    if (send(node->fd, request->bytes, request->length, MSG_NOSIGNAL) != (ssize_t)request->length)
        fail("a node does not take a request");
    node->asked++;
}

/* An answer has one line (+OK) or, of the script, two: the length of a text and the text. */
static void hear(struct node *node)
{
    char text[1024];
    ssize_t length = recv(node->fd, text, sizeof text, 0);
    if (length <= 0)
        fail("a node does not answer");
    if (text[0] == '-')
        fail("a node refuses");
    for (ssize_t i = 0; i < length; i++)
        node->lines += text[i] == '\n';
    unsigned each = uses_scripts ? 2 : 1;
    for (; node->lines >= each; node->lines -= each)
        node->asked--;
}

static void ask(struct node *node, const struct buffer *request, char answer)
{
    char text[128];
    say(node, request);
    node->asked = 0;
    if (recv(node->fd, text, sizeof text, 0) <= 0 || text[0] != answer)
        fail("a node does not do what is asked before the first hold");
}

/* The lock may still be there from a run before: then the script would refuse it. */
static void node_prepare(struct node *node)
{
    struct buffer request = {0};
    redis_request_command(&request, "DEL", KEY);
    ask(node, &request, ':');
    buffer_clear(&request);
    redis_request_command(&request, "SCRIPT", "LOAD", redlock_script_grant_unfenced.source);
    ask(node, &request, '$');
    buffer_fini(&request);
}

static void watch(int fd, unsigned number)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = number};
    if (fd < 0 || epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event) != 0)
        fail(strerror(errno));
}

static void node_open(unsigned port)
{
    struct node *node = &nodes[node_count];
    node->fd = bench_node_connect(port);
    if (node->fd < 0)
        fail("a node cannot be reached");
    node_prepare(node);
    watch(node->fd, node_count++);
}

/* --- rounds ------------------------------------------------------------------------------------------------------- */

/* The marker is not compared: it differs from node to node, and one request is sent to all. */
static void request_encode(struct buffer *out)
{
    memcpy(values[1], values[0], VALUE_DIGITS);
    random_digits(values[0], VALUE_DIGITS);
    buffer_clear(out);
    if (!uses_scripts) {
        redis_request_begin(out, 5);
        redis_request_text(out, "SET");
        redis_request_text(out, KEY);
        redis_request_bytes(out, values[0], VALUE_DIGITS);
        redis_request_text(out, "PX");
        redis_request_integer(out, TTL_MS);
        return;
    }
    redis_request_script(out, &redlock_script_grant_unfenced, 2, 7);
    redis_request_text(out, "hf:lock:group");
    redis_request_text(out, KEY);
    redis_request_text(out, "");
    redis_request_integer(out, INT64_C(1) << 53);
    redis_request_integer(out, TTL_MS);
    redis_request_integer(out, wall_now().us);
    redis_request_integer(out, 604800000);
    redis_request_bytes(out, values[0], VALUE_DIGITS);
    redis_request_bytes(out, values[1], VALUE_DIGITS);
}

/* One look at what came. Who answered all that it was asked has answered this round. */
static bool look(unsigned *votes)
{
    struct epoll_event events[NODES_MAX + 1];
    bool is_time = false;
    uint64_t times;
    int count = epoll_wait(poller, events, NODES_MAX + 1, -1);
    for (int i = 0; i < count; i++) {
        struct node *node = &nodes[events[i].data.u32];
        if (events[i].data.u32 == TIMER) {
            is_time |= read(timer, &times, sizeof times) == sizeof times;
            continue;
        }
        hear(node);
        *votes += node->asked == 0 && node->is_of_this_round;
        node->is_of_this_round &= node->asked > 0;
    }
    return is_time;
}

static void hold(void)
{
    struct itimerspec length = {.it_value = {.tv_sec = hold_ns / NS_PER_S, .tv_nsec = hold_ns % NS_PER_S}};
    unsigned late = 0;
    timerfd_settime(timer, 0, &length, NULL);
    while (!look(&late))
        continue;
}

static void round_run(struct buffer *request)
{
    unsigned votes = 0;
    request_encode(request);
    for (unsigned i = 0; i < node_count; i++) {
        say(&nodes[i], request);
        nodes[i].is_of_this_round = true;
    }
    while (votes < node_count / 2 + 1)
        look(&votes);
}

static void measure(double seconds)
{
    static struct figures figures;
    struct buffer request = {0};
    round_run(&request);
    int64_t cpu_us = -cpu_time_us();
    struct instant had = instant_now(), end = instant_after(had, (int64_t)(seconds * (double)NS_PER_S));
    while (!instant_reached(had, end)) {
        struct instant held = had;
        hold();
        struct instant asked = instant_now();
        round_run(&request);
        had = instant_now();
        figures_count(&figures, asked, had, instant_after(had, instant_since(held, asked)), had);
    }
    printf("{\"mode\": \"bare%s\", \"nodes\": %u, \"conc\": 1, ", uses_scripts ? ", scripts" : "", node_count);
    figures_print(&figures, seconds, cpu_us + cpu_time_us());
    buffer_fini(&request);
}

int main(int count, char **words)
{
    static const struct option known[] = {{"ports", required_argument, NULL, 'p'},
                                          {"secs", required_argument, NULL, 's'},
                                          {"hold-us", required_argument, NULL, 'h'},
                                          {"scripts", no_argument, NULL, 'l'},
                                          {NULL, 0, NULL, 0}};
    char *ports = NULL, *word = NULL;
    double seconds = 2;
    int option = 0;
    while ((option = getopt_long(count, words, "", known, NULL)) != -1) {
        if (option == 'p')
            ports = optarg;
        else if (option == 's')
            seconds = strtod(optarg, NULL);
        else if (option == 'h')
            hold_ns = strtoll(optarg, NULL, 10) * NS_PER_US;
        else if (option == 'l')
            uses_scripts = true;
        else
            return 2;
    }
    poller = epoll_create1(EPOLL_CLOEXEC);
    timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    watch(timer, TIMER);
    while ((word = strsep(&ports, ",")) != NULL && node_count < NODES_MAX)
        node_open((unsigned)strtoul(word, NULL, 10));
    if (node_count == 0 || seconds <= 0 || hold_ns <= 0)
        fail("--ports is missing, or a number is none");
    measure(seconds);
    return 0;
}
