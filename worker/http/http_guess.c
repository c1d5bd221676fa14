#include "worker/http/http_guess.h"

#include <netinet/in.h>
#include <string.h>

#define COUNTS_NS (1 * NS_PER_S)

/* All unix sockets are one address: that of this machine. */
uint64_t http_guess_network(const struct http_address *address)
{
    const struct in6_addr *six = &((const struct sockaddr_in6 *)&address->bytes)->sin6_addr;
    uint64_t network = 0;
    if (address->bytes.ss_family == AF_INET)
        return ((const struct sockaddr_in *)&address->bytes)->sin_addr.s_addr;
    if (address->bytes.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(six))
        return six->s6_addr32[3];
    if (address->bytes.ss_family == AF_INET6)
        memcpy(&network, six, sizeof network);
    return network;
}

bool http_guess_is_allowed(const struct http_guesses *guesses, const struct http_address *from, struct instant now)
{
    unsigned of_one = 0, of_all = 0;
    for (unsigned i = 0; i < HTTP_GUESSES_OF_ALL; i++)
        if (!instant_reached(now, guesses->wrong[i].until)) {
            of_one += guesses->wrong[i].from == http_guess_network(from);
            of_all++;
        }
    return of_one < HTTP_GUESSES_OF_ONE && of_all < HTTP_GUESSES_OF_ALL;
}

void http_guess_count(struct http_guesses *guesses, const struct http_address *from, struct instant now)
{
    guesses->wrong[guesses->next] =
        (struct http_guess){.from = http_guess_network(from), .until = instant_after(now, COUNTS_NS)};
    guesses->next = (guesses->next + 1) % HTTP_GUESSES_OF_ALL;
}
