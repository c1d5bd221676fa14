/* Nodes of the configuration that are found through sentinels. */
#include "tests/support/test.h"

#include "tests/support/config_place.h"
#include "worker/config/config_change.h"
#include "worker/config/config_print.h"
#include "worker/config/node_options.h"

#define CANARY "canary-77ab-8c1f"

TEST(sentinels_take_the_place_of_an_address)
{
    config_place_write("secret", CANARY "\n", 0600);
    struct config *config =
        config_place_read_good("queue_node = { sentinels = [\"a:1\", \"[::1]:2\"]; master = \"m\"; sentinel_user = "
                               "\"u\"; sentinel_password_file = \"secret\"; };\n");
    struct redis_node_options options = node_options(&config->queue_node, "me");
    assert_null(options.host);
    assert_null(options.unix_path);
    assert_int_equal(options.sentinels.count, 2);
    assert_string_equal(options.sentinels.addresses[0], "a:1");
    assert_string_equal(options.sentinels.addresses[1], "[::1]:2");
    assert_string_equal(options.sentinels.master, "m");
    assert_string_equal(options.sentinels.user, "u");
    assert_string_equal(options.sentinels.password_file, config->queue_node.sentinel_password_file);
    struct buffer text = {0};
    assert_string_equal(config_node_address(&config->queue_node, &text), "m (by 2 sentinels)");
    buffer_clear(&text);
    config_print(config, &text);
    assert_lacks(buffer_text(&text), CANARY);
    assert_contains(buffer_text(&text), "sentinels = [\"a:1\", \"[::1]:2\"];");
    buffer_fini(&text);
}

TEST(a_sentinel_may_ask_for_tls)
{
    struct config *config =
        config_place_read_good("queue_node = { sentinels = [\"a:1\", \"rediss://b\"]; master = \"m\"; };\n");
    assert_true(config->queue_node.tls);
    config_place_expect_error("queue_node = { sentinels = [\"rediss://a\", \"redis://b\"]; master = \"m\"; };\n",
                              "t.conf:1: queue: the sentinel b:6379: redis:// is without TLS, which is for the node "
                              "and all of its sentinels: "
                              "write rediss://");
    config_place_expect_error(
        "queue_node = { sentinels = [\"redis://u:p@a\"]; master = \"m\"; };\n",
        "t.conf:1: queue: the sentinel a:6379: no user, no password and no database belong into the "
        "address of a sentinel");
}

TEST(a_host_with_a_scheme_is_taken_apart)
{
    config_place_write("secret", CANARY "\n", 0600);
    struct config *config = config_place_read_good(
        "queue_node = { host = \"rediss://me@q:7000/3\"; password_file = \"secret\"; };\n"
        "lock_nodes = ( { host = \"redis://a\"; }, { host = \"redis://b\"; port = 7; }, { host = \"c\"; } );\n");
    const struct config_node *queue = &config->queue_node, *locks = config->lock_nodes;
    assert_string_equal(queue->host, "q");
    assert_string_equal(queue->user, "me");
    assert_non_null(strstr(queue->password_file, "secret"));
    assert_true(queue->tls && queue->port == 7000 && queue->database == 3);
    assert_true(!locks[0].tls && locks[0].port == 6379 && locks[1].port == 7);
    struct buffer text = {0};
    config_print(config, &text);
    config_place_read_good(buffer_text(&text));
    buffer_fini(&text);
}

TEST(a_wrong_address_is_told_without_its_password)
{
    static const struct {
        const char *settings, *why;
    } cases[] = {
        {"host = \"redis://u:" CANARY "@q\";", "t.conf:1: queue: host: no password belongs into a configuration"},
        {"host = \"redis://:" CANARY "\";", "t.conf:1: queue: host: it has no host"},
        {"host = \"u:" CANARY "\";", "t.conf:1: queue: its address: its port is not 1 to 65535"},
        {"host = \"redis://u:" CANARY "/@q\";", "host: a / in its user or password is written %2F"},
        {"host = \"redis://q:1\"; port = 2;", "host: its port is given twice"},
        {"host = \"redis://q/1\"; database = 2;", "host: its database is given twice"},
        {"host = \"redis://q\"; tls = true;", "host: redis:// is without TLS"},
        {"host = \"redis://u@q\";", "has a user but neither password_file nor password_env"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        struct findings findings = {0};
        snprintf(text, sizeof text, "queue_node = { %s };\n", cases[i].settings);
        config_place_read(text, &findings);
        assert_non_null(findings_find(&findings, cases[i].why));
        assert_null(findings_find(&findings, CANARY));
        findings_fini(&findings);
    }
}

TEST(without_sentinels_there_are_none)
{
    struct config *config = config_place_read_good(CONFIG_NODES);
    struct redis_node_options options = node_options(&config->queue_node, "me");
    assert_string_equal(options.host, "q");
    assert_int_equal(options.sentinels.count, 0);
    assert_null(options.sentinels.user);
    assert_null(options.sentinels.password);
}

TEST(mistakes_are_told_with_what_is_allowed)
{
    static const char either[] = "t.conf:1: queue: needs either host (and port) or unix_path or sentinels (and master)";
    config_place_expect_error("queue_node = { host = \"a\"; sentinels = [\"b:1\"]; master = \"m\"; };\n", either);
    config_place_expect_error("queue_node = { unix_path = \"a\"; sentinels = [\"b:1\"]; master = \"m\"; };\n", either);
    config_place_expect_error("queue_node = { sentinels = []; };\n", either);
    config_place_expect_error(
        "queue_node = { sentinels = [\"b:1\"]; };\n",
        "t.conf:1: queue: sentinels need the key master: the name under which they know the server");
    config_place_expect_error("queue_node = { sentinels = [\"b:1\", \"c\"]; master = \"m\"; };\n",
                              "t.conf:1: queue: the sentinel c: it has no port: HOST:PORT, or [IPv6]:PORT");
    config_place_expect_error("queue_node = { sentinels = [\"b:1\", \"b:1\"]; master = \"m\"; };\n",
                              "t.conf:1: queue_node.sentinels: names the same one twice");
    config_place_expect_error("queue_node = { sentinels = [\"b:1\"]; master = \"m\"; sentinel_user = \"u\"; };\n",
                              "t.conf:1: queue: has a sentinel_user but no sentinel_password_file");
    config_place_expect_error(
        "queue_node = { host = \"a\"; master = \"m\"; };\n",
        "t.conf:1: queue: master, sentinel_user and sentinel_password_file mean nothing without sentinels");
}

TEST(the_password_file_has_to_be_private)
{
    config_place_write("secret", CANARY "\n", 0644);
    struct findings findings = {0};
    config_place_read("queue_node = { sentinels = [\"b:1\"]; master = \"m\"; sentinel_password_file = \"secret\"; };\n",
                      &findings);
    assert_int_equal(findings.errors, 1);
    assert_non_null(findings_find(&findings, "others than its owner have access"));
    assert_null(findings_find(&findings, CANARY));
    findings_fini(&findings);
}

TEST(lock_nodes_have_no_sentinels)
{
    struct findings findings = {0};
    config_place_read(CONFIG_NODES "lock_nodes = ( { sentinels = [\"b:1\"]; } );\n", &findings);
    assert_non_null(findings_find(&findings, "lock_nodes[0].sentinels: there is no such key"));
    assert_non_null(findings_find(&findings, "needs either host (and port) or unix_path"));
    assert_null(findings_find(&findings, "or sentinels"));
    findings_fini(&findings);
}

static unsigned told;

static void count_change(void *context, const struct config_change *change)
{
    (void)context, (void)change;
    told++;
}

/* It is read again for each connection. */
TEST(another_password_in_the_file_is_no_change)
{
    static const char text[] =
        "queue_node = { sentinels = [\"b:1\"]; master = \"m\"; sentinel_password_file = \"secret\"; };\n";
    config_place_write("secret", "one\n", 0600);
    struct config *before = config_place_read_good(text);
    config_place_write("secret", "two\n", 0600);
    struct config *after = config_place_read_good(text);
    config_changes(before, after, count_change, NULL);
    assert_int_equal(told, 0);
}

/* --- http --------------------------------------------------------------------------------------------------------- */

#define HTTP_ALONE(settings) "http = { " settings " };\n" CONFIG_NODES

TEST(where_to_listen_is_checked)
{
    config_place_write("secret", CANARY "\n", 0600);
    (void)config_place_read_good(CONFIG_NODES "http = { listen = [\"127.0.0.1:1\", \"/run/x\"]; };\n");
    struct config *config =
        config_place_read_good(CONFIG_NODES "http = { listen = \"0.0.0.0:1\"; token_file = \"secret\"; };\n");
    assert_string_equal(config->http.token, CANARY);
    config_place_expect_error(HTTP_ALONE("listen = \"0.0.0.0:1\";"),
                              "t.conf:1: http: 0.0.0.0:1: other machines can reach this address: set token_file, too");
    config_place_write("secret", "fifteen letters\n", 0600);
    config_place_expect_error(HTTP_ALONE("listen = \"0.0.0.0:1\"; token_file = \"secret\";"),
                              "t.conf:1: http: secret: a token has at least 16 characters");
    config_place_expect_error(HTTP_ALONE("listen = \"9190\";"),
                              "t.conf:1: http: 9190: an address to listen on is ADDRESS:PORT, [ADDRESS]:PORT or the "
                              "path of a unix socket, like 127.0.0.1:9190, [::1]:9190 or /run/holdfast/http.sock");
}

RUN_TESTS_WITH(config_place_enter, config_place_leave)
