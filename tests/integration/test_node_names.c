/* What a node makes of a resolver that names several addresses, is slow, or is silent. Its resolver is that of this
 * file, below. */
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/memory.h"
#include "tests/support/node_server_fixture.h"

/* --- the resolver ------------------------------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t released = PTHREAD_COND_INITIALIZER;
static bool is_silent;
static unsigned asked; /* for the silent name */

static unsigned times_asked(void)
{
    pthread_mutex_lock(&lock);
    unsigned times = asked;
    pthread_mutex_unlock(&lock);
    return times;
}

static void silence_set(bool silent)
{
    pthread_mutex_lock(&lock);
    is_silent = silent;
    pthread_cond_broadcast(&released);
    pthread_mutex_unlock(&lock);
}

static void silence_wait(void)
{
    pthread_mutex_lock(&lock);
    asked++;
    while (is_silent)
        pthread_cond_wait(&released, &lock);
    pthread_mutex_unlock(&lock);
}

static int address_append(const char *text, size_t length, const char *service, struct addrinfo **end)
{
    struct fake {
        struct addrinfo info;
        struct sockaddr_in address;
    } *fake = memory_new(struct fake);
    char host[32];
    snprintf(host, sizeof host, "%.*s", (int)length, text);
    fake->address.sin_family = AF_INET;
    fake->address.sin_port = htons((uint16_t)strtoul(service, NULL, 10));
    fake->info = (struct addrinfo){.ai_family = AF_INET,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_addr = (struct sockaddr *)&fake->address,
                                   .ai_addrlen = sizeof fake->address};
    *end = &fake->info;
    return inet_pton(AF_INET, host, &fake->address.sin_addr) == 1 ? 0 : EAI_NONAME;
}

/* Both instead of libc's, in libuv too. "a,b" has these two addresses; "silent" has none for a while, and then that of
 * this machine. */
#define REPLACES_LIBC __attribute__((visibility("default")))

REPLACES_LIBC void freeaddrinfo(struct addrinfo *found)
{
    for (struct addrinfo *next; found != NULL; found = next) {
        next = found->ai_next;
        free(found);
    }
}

REPLACES_LIBC int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                              struct addrinfo **found)
{
    bool is_silent_name = strcmp(host, "silent") == 0;
    const char *comma = strchr(host, ',');
    *found = NULL;
    if ((is_silent_name || comma != NULL) && (hints->ai_flags & AI_NUMERICHOST) != 0)
        return EAI_NONAME;
    if (is_silent_name)
        silence_wait();
    const char *first = is_silent_name ? "127.0.0.1" : host;
    int code = address_append(first, strcspn(first, ","), service, found);
    if (code == 0 && comma != NULL)
        code = address_append(comma + 1, strlen(comma + 1), service, &(*found)->ai_next);
    return code;
}

/* --- several addresses -------------------------------------------------------------------------------------------- */

TEST(the_second_address_is_tried_when_the_first_refuses)
{
    start_server(NULL);
    struct redis_node_options options = options_for_server();
    options.host = "127.0.0.2,127.0.0.1";
    assert_comes_up(&options);
    assert_int_equal(probe.downs, 0);
}

/* Nobody connects to a group of hosts, such as 224.0.0.1: that hides no refusal. */
TEST(it_is_told_when_all_refuse)
{
    static const struct {
        const char *host, *reason;
    } rows[] = {
        {"127.0.0.2,127.0.0.3", "Connection refused"},
        {"127.0.0.2,224.0.0.1", "Connection refused"},
        {"224.0.0.1,127.0.0.2", "Connection refused"},
        {"224.0.0.1,224.0.0.2", "Network is unreachable"},
    };
    start_server(NULL);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct redis_node_options options = options_for_server();
        options.host = rows[i].host;
        assert_never_up(&options, rows[i].reason);
        node_probe_stop(&probe);
        probe = (struct node_probe){.node = NULL};
    }
}

/* Its queue is full, so the kernel leaves every further SYN unanswered. */
TEST(an_address_that_swallows_everything_has_its_share_of_the_time)
{
    start_server(NULL);
    struct redis_node_options options = options_for_server();
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)options.port), .sin_addr.s_addr = inet_addr("127.0.0.2")};
    int listener = socket(AF_INET, SOCK_STREAM, 0), clients[4];
    assert_int_equal(bind(listener, (struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(listen(listener, 0), 0);
    for (unsigned i = 0; i < 4; i++) {
        clients[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)connect(clients[i], (struct sockaddr *)&to, sizeof to);
    }
    options.host = "127.0.0.2,127.0.0.1";
    options.connect_timeout_ns = 200 * NS_PER_MS;
    node_probe_start(&probe, loop, &options);
    node_probe_wait_up(&probe);
    for (unsigned i = 0; i < 4; i++)
        close(clients[i]);
    close(listener);
}

/* --- a silent resolver -------------------------------------------------------------------------------------------- */

TEST(an_answer_that_comes_after_the_attempt_is_that_of_the_next)
{
    start_server(NULL);
    struct redis_node_options options = options_for_server();
    options.host = "silent";
    options.connect_timeout_ns = 20 * NS_PER_MS;
    unsigned before = times_asked();
    silence_set(true);
    node_probe_start(&probe, loop, &options);
    node_probe_wait_downs(&probe, 1);
    assert_contains(probe.reason, "resolving the name took longer than 20 ms");
    loop_await(loop, times_asked() > before); /* until then a look-up can be stopped */
    loop_for(loop, 200 * NS_PER_MS);          /* some attempts more */
    assert_int_equal(times_asked(), before + 1);

    struct node_probe other = {.node = NULL};
    options.host = "127.0.0.1,127.0.0.1";
    options.connect_timeout_ns = TEST_PATIENCE_NS;
    node_probe_start(&other, loop, &options);
    node_probe_wait_up(&other);
    node_probe_stop(&other);

    silence_set(false);
    node_probe_wait_up(&probe);
}

static int tear_down(void **state)
{
    silence_set(false); /* the loop waits for the resolver */
    return node_server_teardown(state);
}

RUN_TESTS_WITH(node_setup, tear_down)
