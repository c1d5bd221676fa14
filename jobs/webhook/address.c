/* The registries of special addresses of IANA, as tables of prefixes. Of IPv6 only 2000::/3 is public. */
#include "jobs/webhook/address.h"

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct prefix {
    uint8_t bytes[8];
    unsigned bits;
    const char *kind;
};

static const struct prefix prefixes_v4[] = {
    {{0}, 8, "this host"},
    {{10}, 8, "private"},
    {{100, 64}, 10, "shared by a provider"},
    {{127}, 8, "loopback"},
    {{168, 63, 129, 16}, 32, "metadata"}, /* Azure's, among public addresses */
    {{169, 254}, 16, "link-local"},
    {{172, 16}, 12, "private"},
    {{192, 0, 0}, 24, "reserved"},
    {{192, 0, 2}, 24, "documentation"},
    {{192, 88, 99}, 24, "reserved"},
    {{192, 168}, 16, "private"},
    {{198, 18}, 15, "benchmarking"},
    {{198, 51, 100}, 24, "documentation"},
    {{203, 0, 113}, 24, "documentation"},
    {{224}, 4, "multicast"},
    {{240}, 4, "reserved"},
};

static const struct prefix prefixes_v6[] = {
    {{0x20, 0x01, 0, 0}, 23, "reserved"}, /* Teredo and others */
    {{0x20, 0x01, 0x0d, 0xb8}, 32, "documentation"},
    {{0x3f, 0xff}, 20, "documentation"},
    {{0xfc}, 7, "private"},
    {{0xfe, 0x80}, 10, "link-local"},
    {{0xfe, 0xc0}, 10, "private"},
    {{0xff}, 8, "multicast"},
};

static int has_prefix(const uint8_t *address, const uint8_t *bytes, unsigned bits)
{
    unsigned whole = bits / 8, rest = bits % 8;
    return memcmp(address, bytes, whole) == 0 && (rest == 0 || (address[whole] ^ bytes[whole]) >> (8 - rest) == 0);
}

static const char *kind_among(const struct prefix *prefixes, size_t count, const uint8_t *address)
{
    for (size_t i = 0; i < count; i++)
        if (has_prefix(address, prefixes[i].bytes, prefixes[i].bits))
            return prefixes[i].kind;
    return NULL;
}

static const char *refusal_v4(const uint8_t *address)
{
    return kind_among(prefixes_v4, sizeof prefixes_v4 / sizeof prefixes_v4[0], address);
}

static const char *refusal_v6(const uint8_t *address)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff}, nat64[12] = {0, 0x64, 0xff, 0x9b},
                         loopback[16] = {[15] = 1};
    if (memcmp(address, loopback, 16) == 0)
        return "loopback";
    if (memcmp(address, mapped, 12) == 0 || memcmp(address, nat64, 12) == 0)
        return refusal_v4(address + 12);
    const char *kind = kind_among(prefixes_v6, sizeof prefixes_v6 / sizeof prefixes_v6[0], address);
    if (kind != NULL)
        return kind;
    if (address[0] == 0x20 && address[1] == 0x02) /* 6to4 */
        return refusal_v4(address + 2);
    return address[0] >> 5 == 1 ? NULL : "reserved";
}

const char *webhook_address_refusal(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, address, sizeof v4);
        return refusal_v4((const uint8_t *)&v4.sin_addr);
    }
    if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, address, sizeof v6);
        return refusal_v6(v6.sin6_addr.s6_addr);
    }
    return "no internet address";
}
