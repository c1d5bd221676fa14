/* The hosts of tests (tests/support/hosts.h) do what is said of them: what is cut is lost, in that direction only, also
 * on connections that exist; servers hang, forget, are replaced, and live by clocks of their own. */
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>

#include "tests/support/hosts.h"

enum { WORKERS = 2, NODES = 2, SHORT_MS = 300 };

static struct hosts hosts;

static int on_a_network(void **state)
{
    (void)state;
    hosts_start(&hosts, WORKERS, NODES, NULL);
    if (!hosts_can_cut(&hosts))
        print_message("on addresses of this machine only: %s\n", private_network_reason(hosts.network));
    return 0;
}

static int on_this_machine(void **state)
{
    (void)state;
    setenv("HOLDFAST_NO_PRIVATE_NETWORK", "1", 1);
    hosts_start(&hosts, WORKERS, NODES, NULL);
    unsetenv("HOLDFAST_NO_PRIVATE_NETWORK");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hosts_stop(&hosts);
    return 0;
}

/* --- clients ------------------------------------------------------------------------------------------------------ */

/* A connection from a worker host to a lock node; -1 when nobody accepts it in a short time. */
static int connect_from(unsigned worker_host, unsigned node)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)hosts.ports[node])};
    inet_pton(AF_INET, private_network_address(hosts.network, WORKERS + node), &address.sin_addr);
    private_network_enter(hosts.network, worker_host);
    int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    private_network_leave(hosts.network);
    struct timeval limit = {.tv_usec = SHORT_MS * 1000};
    setsockopt(file, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (connect(file, (struct sockaddr *)&address, sizeof address) == 0)
        return file;
    close(file);
    return -1;
}

static bool is_answered(int file, const char *command)
{
    char answer[64];
    dprintf(file, "%s\r\n", command);
    return recv(file, answer, sizeof answer, 0) > 0;
}

static bool node_has(unsigned node, const char *key)
{
    char command[64];
    snprintf(command, sizeof command, "EXISTS %s", key);
    char *reply = hosts_ask(&hosts, node, command);
    bool has = strcmp(reply, "1") == 0;
    free(reply);
    return has;
}

static bool everybody_is_answered(void)
{
    bool are_answered = true;
    for (unsigned worker = 0; worker < WORKERS; worker++)
        for (unsigned node = 0; node < NODES; node++) {
            int file = connect_from(worker, node);
            are_answered = are_answered && file >= 0 && is_answered(file, "PING");
            close(file);
        }
    return are_answered;
}

static void skip_unless_cut(void)
{
    if (!hosts_can_cut(&hosts))
        skip();
}

/* --- cuts --------------------------------------------------------------------------------------------------------- */

static void everybody_reaches_every_node(void **state)
{
    (void)state;
    assert_true(everybody_is_answered());
}

/* It is not gone: whoever it was for gets it when it is sent again, long after the client has lost its patience. */
static void a_request_that_is_cut_off_comes_late(void **state)
{
    (void)state;
    skip_unless_cut();
    int file = connect_from(0, 0), other = connect_from(1, 0);
    assert_true(is_answered(file, "PING"));
    hosts_cut(&hosts, 0, 0, HOSTS_TO_NODE);
    assert_false(is_answered(file, "SET late 1"));
    assert_false(node_has(0, "late"));
    assert_int_equal(connect_from(0, 0), -1);
    assert_true(is_answered(other, "PING"));
    close(file);
    hosts_heal(&hosts);
    test_await(node_has(0, "late"));
    assert_true(everybody_is_answered());
    close(other);
}

static void a_reply_that_is_cut_off_belongs_to_what_was_done(void **state)
{
    (void)state;
    skip_unless_cut();
    int file = connect_from(1, 1);
    assert_true(is_answered(file, "PING"));
    hosts_cut(&hosts, 1, 1, HOSTS_FROM_NODE);
    assert_false(is_answered(file, "SET done 1"));
    assert_true(node_has(1, "done"));
    assert_int_equal(connect_from(1, 1), -1);
    close(connect_from(0, 1));
    hosts_heal(&hosts);
    assert_true(everybody_is_answered());
    close(file);
}

static void both_ways_are_cut_for_that_pair_only(void **state)
{
    (void)state;
    skip_unless_cut();
    hosts_cut(&hosts, 0, 1, HOSTS_BOTH_WAYS);
    assert_int_equal(connect_from(0, 1), -1);
    int near = connect_from(0, 0), other = connect_from(1, 1);
    assert_true(is_answered(near, "PING"));
    assert_true(is_answered(other, "PING"));
    hosts_heal(&hosts);
    assert_true(everybody_is_answered());
    close(near);
    close(other);
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

static void a_node_that_hangs_accepts_and_says_nothing(void **state)
{
    (void)state;
    hosts_hang(&hosts, 0);
    int file = connect_from(0, 0);
    assert_true(file >= 0);
    assert_false(is_answered(file, "SET late 1"));
    hosts_heal(&hosts);
    test_await(node_has(0, "late"));
    close(file);
}

static void a_wiped_node_and_a_restarted_one_know_nothing(void **state)
{
    (void)state;
    free(hosts_ask(&hosts, 0, "SET here 1"));
    hosts_wipe(&hosts, 0);
    assert_false(node_has(0, "here"));
    free(hosts_ask(&hosts, 0, "SET here 1"));
    hosts_restart(&hosts, 0);
    assert_false(node_has(0, "here"));
    assert_true(everybody_is_answered());
}

static void another_server_takes_over_the_address(void **state)
{
    (void)state;
    pid_t spare = redis_server_pid(hosts.spare);
    free(hosts_ask(&hosts, 1, "SET here 1"));
    hosts_replace(&hosts, 1);
    assert_int_equal(redis_server_pid(hosts.servers[1]), spare);
    assert_false(node_has(1, "here"));
    assert_true(everybody_is_answered());
    int file = connect_from(0, 1);
    assert_true(is_answered(file, "SET there 1"));
    assert_true(node_has(1, "there"));
    close(file);
}

static long long number_asked(unsigned node, const char *command)
{
    char *reply = hosts_ask(&hosts, node, command);
    long long number = strtoll(reply, NULL, 10);
    free(reply);
    return number;
}

static void the_clock_of_one_node_is_set(void **state)
{
    (void)state;
    long long now = wall_now().us / US_PER_S;
    free(hosts_ask(&hosts, 0, "SET lock 1 PX 60000"));
    free(hosts_ask(&hosts, 1, "SET lock 1 PX 60000"));
    hosts_set_clock(&hosts, 0, -3600);
    assert_in_range(number_asked(0, "TIME"), now - 3600, now - 3500);
    assert_in_range(number_asked(0, "PTTL lock"), 3600000, 3660000);
    hosts_set_clock(&hosts, 0, 3600);
    assert_in_range(number_asked(0, "TIME"), now + 3600, now + 3700);
    assert_false(node_has(0, "lock"));
    assert_in_range(number_asked(1, "TIME"), now, now + 100);
    assert_true(node_has(1, "lock"));
    hosts_restart(&hosts, 0);
    assert_in_range(number_asked(0, "TIME"), now + 3600, now + 3700);
}

#define network_test(function) cmocka_unit_test_setup_teardown(function, on_a_network, tear_down)
#define machine_test(function) cmocka_unit_test_setup_teardown(function, on_this_machine, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        network_test(everybody_reaches_every_node),
        network_test(a_request_that_is_cut_off_comes_late),
        network_test(a_reply_that_is_cut_off_belongs_to_what_was_done),
        network_test(both_ways_are_cut_for_that_pair_only),
        network_test(a_node_that_hangs_accepts_and_says_nothing),
        network_test(a_wiped_node_and_a_restarted_one_know_nothing),
        network_test(another_server_takes_over_the_address),
        network_test(the_clock_of_one_node_is_set),
        machine_test(everybody_reaches_every_node),
        machine_test(a_node_that_hangs_accepts_and_says_nothing),
        machine_test(a_wiped_node_and_a_restarted_one_know_nothing),
        machine_test(another_server_takes_over_the_address),
        machine_test(the_clock_of_one_node_is_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
