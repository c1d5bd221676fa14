/* The address of a server as people write it, right and wrong. */
#include "tests/support/test.h"

#include "redis/address.h"
#include "redis/node.h"

static struct redis_address address;
static char shown[REDIS_ADDRESS_SHOWN_MAX];

static void parse(const char *text)
{
    struct error error = ERROR_NONE;
    redis_address_drop(&address);
    if (!redis_address_parse(text, &address, &error))
        fail_msg("\"%s\" was refused: %s", text, error.text);
}

static void assert_wrong(const char *text, const char *why)
{
    struct error error = ERROR_NONE;
    redis_address_drop(&address);
    if (redis_address_parse(text, &address, &error))
        fail_msg("\"%s\" was taken for an address", text);
    assert_contains(error.text, why);
    assert_null(strstr(error.text, "secret"));
    assert_null(strstr(redis_address_shown(text, shown), "secret"));
    assert_null(address.user);
    assert_null(address.password);
}

static void assert_login(const char *text, const char *user, const char *password)
{
    parse(text);
    if (user == NULL)
        assert_null(address.user);
    else
        assert_string_equal(address.user, user);
    if (password == NULL)
        assert_null(address.password);
    else
        assert_string_equal(address.password, password);
    assert_string_equal(address.host, "h");
}

TEST(without_a_scheme_host_and_port_are_taken_apart)
{
    static const struct {
        const char *text, *host;
        unsigned port;
    } good[] = {{"host:1", "host", 1},
                {"10.0.0.1:26379", "10.0.0.1", 26379},
                {"[::1]:65535", "::1", 65535},
                {"s.example.org:6379", "s.example.org", 6379}};
    static const char *const bad[] = {
        "",      "host", "host:",   ":1",          "host:0", "host:65536", "host:1x", "host: 1",  "ho st:1", "::1:100",
        "[::1]", "[]:1", "host:-1", "host:123456", "h\n:1",  "[::1]1",     "[::1:1",  "host:1/2", "a/b:1",   "[a:b]:1"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        parse(good[i].text);
        assert_string_equal(address.host, good[i].host);
        assert_int_equal(address.port, good[i].port);
        assert_false(address.has_scheme || address.is_secure || address.has_database);
        assert_string_equal(redis_address_shown(good[i].text, shown), good[i].text);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_wrong(bad[i], "");
    assert_string_equal(redis_address_shown("host", shown), "host");
}

TEST(a_host_that_is_too_long_is_refused)
{
    char text[REDIS_HOST_MAX + 3];
    memset(text, 'x', sizeof text);
    memcpy(text + REDIS_HOST_MAX - 1, ":1", 3);
    parse(text);
    memcpy(text + REDIS_HOST_MAX - 1, "x:1", 4);
    assert_wrong(text, "at most 255 bytes");
}

TEST(with_a_scheme_the_rest_may_be_missing)
{
    parse("redis://h");
    assert_true(address.has_scheme && !address.is_secure && !address.has_database);
    assert_int_equal(address.port, 0);
    assert_string_equal(redis_address_shown("redis://h", shown), "h:6379");
    parse("rediss://[::1]:7000/15");
    assert_true(address.is_secure && address.has_database);
    assert_string_equal(address.host, "::1");
    assert_int_equal(address.port, 7000);
    assert_int_equal(address.database, 15);
    assert_string_equal(redis_address_shown("rediss://u:secret@[::1]:7000/15", shown), "[::1]:7000");
    parse("REDISS://[::1]/");
    assert_true(address.is_secure && !address.has_database);
}

TEST(user_and_password_are_decoded)
{
    assert_login("redis://h", NULL, NULL);
    assert_login("redis://u@h", "u", NULL);
    assert_login("redis://:p@h", NULL, "p");
    assert_login("redis://u:p:q@h/0", "u", "p:q");
    assert_login("rediss://u%40x:%2f%3F%23%25%c3%A4@h:1", "u@x", "/?#%\xc3\xa4");
    assert_login("redis://u:a@b@h", "u", "a@b");
}

TEST(each_wrong_part_is_named_and_no_password)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"redis://", "it has no host"},
        {"redis://:1", "it has no host"},
        {"redis://u:secret@", "it has no host"},
        {"redis://u:secret@:1", "it has no host"},
        {"redis://u:secret@h h", "no name and no IP address"},
        {"redis://u:secret@h:0", "its port is not 1 to 65535"},
        {"redis://u:secret@h:secret", "its port is not 1 to 65535"},
        {"redis://:secret", "it has no host"}, /* the @ was forgotten */
        {"redis://u:secret@::1:1", "belongs into brackets"},
        {"redis://u:secret@[::1]x", "belongs into brackets"},
        {"redis://u:@h", "no password before its @"},
        {"redis://@h", "no password before its @"},
        {"redis://:@h", "no password before its @"},
        {"redis://u:secret%@h", "two digits of a byte"},
        {"redis://u:secret%4@h", "two digits of a byte"},
        {"redis://u:secret%xy@h", "two digits of a byte"},
        {"redis://u:secret%00@h", "two digits of a byte"},
        {"redis://secret%zz:p@h", "two digits of a byte"},
        {"redis://u:secret/x@h", "is written %2F"},
        {"redis://u:secret@h/x", "no number of a database"},
        {"redis://u:secret@h/65536", "no number of a database"},
        {"redis://u:secret@h/1/2", "no number of a database"},
        {"redis://u:secret@h?timeout=1", "nothing but /DATABASE"},
        {"redis://u:secret@h/1?timeout=1", "nothing but /DATABASE"},
        {"redis://u:secret@h#1", "nothing but /DATABASE"},
        {"http://u:secret@h:1", "neither with redis:// nor with rediss://"},
        {"u:secret@h:1", "begins with redis:// or rediss://"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_wrong(cases[i].text, cases[i].why);
}

TEST(a_wrong_address_is_shown_up_to_its_first_colon)
{
    static const struct {
        const char *text, *shown;
    } cases[] = {
        {"host", "host"},
        {"", "\"\""},
        {"u:secret", "u:..."},
        {"u:secret:1", "u:..."},
        {"a b:secret", "\"a b\":..."},
        {"host:65536", "host:..."},
        {"[2001:db8::1]", "\"[2001:db8::1]\""},
        {"[2001:db8::1]:secret", "\"[2001:db8::1]\":..."},
        {"[u:secret]", "\"[u\":..."},
        {":", "(not quoted: it may hold a password)"},
        {":secret", "(not quoted: it may hold a password)"},
        {"u/secret", "(not quoted: it may hold a password)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_wrong(cases[i].text, "");
        assert_string_equal(redis_address_shown(cases[i].text, shown), cases[i].shown);
    }
}

TEST(a_host_alone_is_a_name_or_an_ip_address)
{
    static const char *const alone[] = {"h", "h.example", "10.0.0.1", "::1", "2001:db8::a.1", "fe80::1%eth0", ""};
    static const char *const more[] = {"h:1", "u:secret", "u:secret:x", "u@h", "/s", "1:2", "::1/8"};
    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++)
        assert_true(redis_host_is_alone(alone[i]));
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        assert_false(redis_host_is_alone(more[i]));
}

TEST(what_is_beside_an_address_must_agree)
{
    static const struct {
        struct redis_address_beside beside;
        const char *why; /* NULL: they agree */
    } cases[] = {
        {{.port = REDIS_PORT_DEFAULT}, NULL},
        {{.port = 7, .database = 3, .has_tls = true}, NULL},
        {{.port = 8}, "its port is given twice"},
        {{.database = 4}, "its database is given twice"},
        {{.has_user = true}, "its user is given twice"},
        {{.has_password = true}, "its password is given twice"},
    };
    struct error plain = ERROR_NONE;
    parse("rediss://u:p@h:7/3");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error error = ERROR_NONE;
        assert_int_equal(redis_address_agrees(&address, &cases[i].beside, &error), cases[i].why == NULL);
        if (cases[i].why != NULL)
            assert_contains(error.text, cases[i].why);
    }
    parse("redis://h");
    assert_false(redis_address_agrees(&address, &(struct redis_address_beside){.has_tls = true}, &plain));
    assert_contains(plain.text, "write rediss://");
    parse("h:1"); /* says nothing of TLS */
    assert_true(redis_address_agrees(&address, &(struct redis_address_beside){.has_tls = true}, &plain));
}

TEST(an_argument_is_hidden_from_ps)
{
    char argument[] = "redis://u:secret@h/1", wrong[] = "u:secret/@x", harmless[] = "redis://h:1";
    redis_address_hide(argument);
    redis_address_hide(wrong);
    redis_address_hide(harmless);
    assert_string_equal(argument, "redis://********@h/1");
    assert_string_equal(wrong, "*********@x");
    assert_string_equal(harmless, "redis://h:1");
}

/* --- as an option of a node --------------------------------------------------------------------------------------- */

static void assert_options_wrong(const struct redis_node_options *options, const char *why)
{
    struct error error = ERROR_NONE;
    assert_false(redis_node_options_check(options, &error));
    assert_contains(error.text, why);
    assert_null(strstr(error.text, "secret"));
}

TEST(a_host_and_sentinels_may_be_addresses)
{
    struct error error = ERROR_NONE;
    static const char *const mixed[] = {"a:1", "rediss://b", "redis://c:3"}, *const login[] = {"redis://:secret@a:1"};
    struct redis_node_options options = {.name = "n", .host = "redis://u:secret@h:1"};
    assert_true(redis_node_options_check(&options, &error));
    assert_false(redis_node_options_want_tls(&options));
    options.password = "other";
    assert_options_wrong(&options, "its address: its password is given twice");
    assert_options_wrong(&(struct redis_node_options){.name = "n", .host = "redis://u@h:1"}, "a user needs a password");
    assert_options_wrong(&(struct redis_node_options){.name = "n", .host = "redis://:secret"}, "it has no host");
    assert_options_wrong(&(struct redis_node_options){.name = "n", .host = "http://secret@h"}, "begins neither with");
    assert_options_wrong(&(struct redis_node_options){.name = "n", .host = "u:secret@h"}, "begins with redis://");
    assert_options_wrong(&(struct redis_node_options){.name = "n", .host = "u:secret"}, "its port is not");
    assert_options_wrong(&(struct redis_node_options){.name = "n", .host = "h:1"},
                         "with a port it begins with redis://");
    options = (struct redis_node_options){.name = "n", .host = "rediss://h", .tls.ca_file = "/nowhere"};
    assert_true(redis_node_options_want_tls(&options));
    assert_options_wrong(&options, "/nowhere");

    options = (struct redis_node_options){
        .name = "n", .sentinels = {.master = "m", .addresses = mixed, .count = 2}, .tls.ca_file = "/nowhere"};
    assert_true(redis_node_options_want_tls(&options));
    assert_options_wrong(&options, "/nowhere");
    options.sentinels.count = 3;
    assert_options_wrong(&options, "the sentinel c:3: redis:// is without TLS");
    options.sentinels.addresses = login, options.sentinels.count = 1;
    assert_options_wrong(&options, "the sentinel a:1: no user, no password and no database");
    options = (struct redis_node_options){.name = "n", .unix_path = "/s", .tls.is_on = true};
    assert_options_wrong(&options, "a unix socket has no TLS");
}

static int tear_down(void **state)
{
    (void)state;
    redis_address_drop(&address);
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    return 0;
}

RUN_TESTS_WITH(set_up, tear_down)
