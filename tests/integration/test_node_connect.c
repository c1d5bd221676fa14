/* What only real servers show of how a connection comes up. The rest: tests/virtual/test_node_connection.c. */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis/node.h"
#include "tests/support/authority.h"
#include "tests/support/node_server_fixture.h"
#include "tests/support/relay.h"

/* --- who we are --------------------------------------------------------------------------------------------- */

TEST(test_a_server_that_repeats_the_password_in_its_error)
{
    start_server(&(struct redis_server_options){.config = "rename-command AUTH \"\"\n"});
    struct redis_node_options options = options_for_server();
    options.password = "s3cret";
    assert_never_up(&options, "refused AUTH (ERR)");
    assert_lacks(probe.reason, "s3cret");
}

TEST(test_a_server_without_scripts)
{
    static const struct redis_script script = {
        .name = "one", .sha1 = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", .source = "return 1", .length = 8};
    static const struct redis_script *const scripts[] = {&script};
    start_server(&(struct redis_server_options){.config = "rename-command SCRIPT \"\"\n"});
    struct redis_node_options options = options_for_server();
    options.scripts = scripts;
    options.script_count = 1;
    assert_never_up(&options, "refused to run Lua scripts, and every node has to run them");
}

/* --- what the connection is --------------------------------------------------------------------------------- */

TEST(test_database_and_client_name)
{
    start_server(NULL);
    struct redis_node_options options = options_for_server();
    options.database = 3;
    options.client_name = "holdfast-test";
    assert_comes_up(&options);
    char *list = redis_server_command(server, "CLIENT LIST");
    char *name = strstr(list, "name=holdfast-test");
    assert_non_null(name);
    char *database = strstr(name, " db=");
    assert_non_null(database);
    assert_int_equal(strncmp(database, " db=3 ", 6), 0);
    free(list);
}

TEST(test_unix_socket)
{
    start_server(NULL);
    struct redis_node_options options = options_for_server();
    options.host = NULL;
    options.unix_path = redis_server_unix_path(server);
    assert_comes_up(&options);
}

TEST(test_a_unix_path_that_is_missing_or_too_long)
{
    struct redis_node_options options = options_for_server();
    options.host = NULL;
    options.unix_path = "/nonexistent/redis.sock";
    assert_never_up(&options, "No such file");
    node_probe_stop(&probe);

    char path[200];
    memset(path, 'x', sizeof path - 1);
    path[0] = '/';
    path[sizeof path - 1] = '\0';
    probe = (struct node_probe){.node = NULL};
    options.unix_path = path;
    assert_never_up(&options, "at most");
}

TEST(test_a_name_is_resolved)
{
    if (!test_knows_localhost())
        test_skip("localhost is not known here");
    start_server(&(struct redis_server_options){.config = "bind * -::*\n"});
    struct redis_node_options options = options_for_server();
    options.host = "localhost";
    assert_comes_up(&options);
}

/* --- failures and recovery ---------------------------------------------------------------------------------- */

TEST(test_too_many_clients_is_an_ordinary_failure)
{
    start_server(&(struct redis_server_options){.config = "maxclients 1\n"});
    struct redis_node_options options = options_for_server();
    struct node_probe first = {.node = NULL};
    node_probe_start(&first, loop, &options);
    node_probe_wait_up(&first);
    node_probe_start(&probe, loop, &options);
    node_probe_wait_downs(&probe, 1);
    assert_contains(probe.reason, "max number of clients");
    node_probe_stop(&first);
    node_probe_wait_up(&probe);
}

/* A connection that ends anywhere, in the middle of a record of TLS too, costs what any lost connection costs. */
TEST(test_a_connection_through_tls_that_is_cut)
{
    char config[1024];
    struct authority *authority = authority_create();
    unsigned tls_port = free_port();
    authority_issue(authority, "server", NULL, 3600);
    snprintf(config, sizeof config,
             "tls-port %u\ntls-cert-file %s\ntls-key-file %s\ntls-ca-cert-file %s\n"
             "tls-auth-clients no\n",
             tls_port, authority_path(authority, "server", "pem"), authority_path(authority, "server", "key"),
             authority_file(authority));
    start_server(&(struct redis_server_options){.config = config});
    struct relay *relay = relay_start(tls_port);
    struct redis_node_options options = node_options_for(relay_port(relay));
    options.tls = (struct redis_tls_options){.is_on = true, .ca_file = authority_file(authority)};
    assert_comes_up(&options);
    for (unsigned i = 0; i < 20; i++) {
        struct call_probe call = {.completions = 0};
        unsigned ups = probe.ups;
        assert_true(call_probe_send(&call, &probe, TEST_PATIENCE_NS, "PING"));
        relay_cut(relay);
        call_probe_wait(&call, loop);
        loop_await(loop, probe.ups > ups || redis_node_state(probe.node) == REDIS_NODE_UP);
    }
    node_probe_stop(&probe);
    relay_destroy(relay);
    authority_destroy(authority);
}

RUN_TESTS_WITH(node_setup, node_server_teardown)
