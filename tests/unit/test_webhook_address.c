/* Which addresses a webhook is not sent to. */
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <sys/un.h>

#include "jobs/webhook/address.h"

static const char *refusal_of(const char *text)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
        return webhook_address_refusal((const struct sockaddr *)&v4);
    assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
    return webhook_address_refusal((const struct sockaddr *)&v6);
}

TEST(addresses_of_the_inside_are_refused)
{
    static const char *const addresses[] = {"0.0.0.0",
                                            "0.1.2.3",
                                            "10.0.0.1",
                                            "10.255.255.255",
                                            "100.64.0.1",
                                            "100.127.255.255",
                                            "100.100.100.200",
                                            "127.0.0.1",
                                            "127.255.255.255",
                                            "168.63.129.16",
                                            "169.254.169.254",
                                            "172.16.0.1",
                                            "172.31.255.255",
                                            "192.0.0.192",
                                            "192.0.2.1",
                                            "192.88.99.1",
                                            "192.168.0.1",
                                            "198.18.0.1",
                                            "198.19.255.255",
                                            "198.51.100.7",
                                            "203.0.113.9",
                                            "224.0.0.1",
                                            "239.255.255.255",
                                            "240.0.0.1",
                                            "255.255.255.255",
                                            "::",
                                            "::1",
                                            "::127.0.0.1",
                                            "::ffff:127.0.0.1",
                                            "::ffff:10.1.2.3",
                                            "::ffff:169.254.1.1",
                                            "64:ff9b::10.0.0.1",
                                            "64:ff9b:1::1",
                                            "100::1",
                                            "2001::1",
                                            "2001:db8::1",
                                            "2002:7f00:1::1",
                                            "2002:c0a8:101::",
                                            "3fff::1",
                                            "fc00::1",
                                            "fd00:ec2::254",
                                            "fe80::1",
                                            "febf::1",
                                            "fec0::1",
                                            "ff02::1",
                                            "4000::1",
                                            "fdff:ffff::1"};
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++)
        if (refusal_of(addresses[i]) == NULL)
            fail_msg("%s is not refused", addresses[i]);
}

TEST(addresses_of_the_internet_are_not)
{
    static const char *const addresses[] = {
        "1.1.1.1",     "9.255.255.255", "11.0.0.0",        "100.63.255.255",   "100.128.0.0",     "126.255.255.255",
        "128.0.0.1",   "168.63.129.17", "169.253.255.255", "172.15.255.255",   "172.32.0.0",      "192.0.1.1",
        "192.167.0.1", "192.169.0.1",   "198.17.255.255",  "198.20.0.0",       "223.255.255.255", "2606:4700::1111",
        "2a00::1",     "2001:4860::1",  "::ffff:1.1.1.1",  "64:ff9b::1.1.1.1", "2002:101:101::1"};
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++)
        if (refusal_of(addresses[i]) != NULL)
            fail_msg("%s is refused as %s", addresses[i], refusal_of(addresses[i]));
}

TEST(the_kind_is_told)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    assert_string_equal(refusal_of("127.1.1.1"), "loopback");
    assert_string_equal(refusal_of("::1"), "loopback");
    assert_string_equal(refusal_of("::ffff:192.168.1.1"), "private");
    assert_string_equal(refusal_of("168.63.129.16"), "metadata");
    assert_string_equal(refusal_of("fe80::2"), "link-local");
    assert_string_equal(webhook_address_refusal((const struct sockaddr *)&local), "no internet address");
}

RUN_TESTS
