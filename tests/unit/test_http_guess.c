#include "worker/http/http_guess.h"

#include "tests/support/test.h"

static struct http_guesses guesses;
static struct instant now;

static struct http_address address(const char *text)
{
    struct http_address address;
    struct error error = ERROR_NONE;
    assert_true(http_address_read(text, 0, &address, &error));
    return address;
}

static bool is_allowed(const char *from)
{
    struct http_address there = address(from);
    return http_guess_is_allowed(&guesses, &there, now);
}

/* Until none is looked at; how many were. */
static unsigned guess(const char *from)
{
    struct http_address there = address(from);
    unsigned count = 0;
    for (; http_guess_is_allowed(&guesses, &there, now); count++)
        http_guess_count(&guesses, &there, now);
    return count;
}

static int set_up(void **state)
{
    (void)state;
    guesses = (struct http_guesses){.next = 0};
    now = (struct instant){NS_PER_S};
    return 0;
}

TEST(an_address_has_eight_guesses_a_second)
{
    assert_int_equal(guess("10.0.0.1:1"), HTTP_GUESSES_OF_ONE);
    assert_false(is_allowed("10.0.0.1:2")); /* another port is the same client */
    assert_true(is_allowed("10.0.0.2:1"));
    now = instant_after(now, NS_PER_S - 1);
    assert_false(is_allowed("10.0.0.1:1"));
    now = instant_after(now, 1);
    assert_int_equal(guess("10.0.0.1:1"), HTTP_GUESSES_OF_ONE);
}

TEST(many_addresses_have_few_guesses_together)
{
    unsigned count = 0;
    char from[32];
    for (unsigned i = 1; i < 20; i++) {
        snprintf(from, sizeof from, "10.0.0.%u:1", i);
        count += guess(from);
    }
    assert_int_equal(count, HTTP_GUESSES_OF_ALL);
    assert_false(is_allowed("192.0.2.1:1"));
    now = instant_after(now, NS_PER_S);
    assert_true(is_allowed("192.0.2.1:1"));
}

TEST(a_network_of_ipv6_is_one_address)
{
    assert_int_equal(guess("[2001:db8:1:2::1]:1"), HTTP_GUESSES_OF_ONE);
    assert_false(is_allowed("[2001:db8:1:2:ffff::9]:1"));
    assert_true(is_allowed("[2001:db8:1:3::1]:1"));
    assert_int_equal(guess("[::ffff:10.0.0.1]:1"), HTTP_GUESSES_OF_ONE); /* one of IPv4 at a socket of IPv6 */
    assert_false(is_allowed("10.0.0.1:1"));
    assert_true(is_allowed("[::ffff:10.0.0.2]:1"));
}

TEST(all_unix_sockets_are_one_address)
{
    assert_int_equal(guess("/run/a"), HTTP_GUESSES_OF_ONE);
    assert_false(is_allowed("/run/b"));
}

RUN_TESTS_WITH(set_up, NULL)
