/* Signals at the blocking questions of the commands, without a node: pauses are runs that ask nothing. */
#include "tests/support/test.h"

#include <signal.h>
#include <sys/wait.h>

#include "worker/nodes/node_client.h"

static struct node_client *opened(void)
{
    char none[] = "", host[] = "127.0.0.1", name[] = "queue";
    const struct config_node node = {
        .name = name, .host = host, .port = 1, .unix_path = none, .user = none, .connect_timeout_ns = NS_PER_S};
    struct node_client *client =
        node_client_open(&(struct node_client_options){.node = &node, .client_name = "test"}, NULL);
    assert_non_null(client);
    return client;
}

TEST(a_signal_ends_what_comes_after_it_while_signals_are_held)
{
    struct node_client *client = opened();
    assert_true(node_client_pause(client, 1)); /* which hears signals itself, and no more */
    node_client_hold_signals(client, true);
    raise(SIGTERM);
    assert_false(node_client_pause(client, TEST_PATIENCE_NS));
    assert_false(node_client_pause(client, 1));
    node_client_hold_signals(client, false);
    node_client_close(client);
}

/* It was caught, and nobody looks any more: as if it had come a moment later. In a child. */
TEST(a_signal_that_comes_as_a_run_ends_is_not_lost)
{
    pid_t child = fork();
    if (child == 0) {
        struct node_client *client = opened();
        node_client_hold_signals(client, true);
        raise(SIGTERM);
        node_client_hold_signals(client, false);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

RUN_TESTS
