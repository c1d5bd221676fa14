/* How many wrong tokens a server compares at once: eight a second from one address, 32 from all. What an address sends
 * beyond that, right or wrong, has to wait (http_server.h): guessing is slow, and nobody who shares the address (a
 * proxy) is kept out. The time when a token arrived counts, so closing the connection makes no room. IPv6 addresses
 * that share 64 bits count as one, because one host may have all of them. Pure. */
#ifndef WORKER_HTTP_GUESS_H
#define WORKER_HTTP_GUESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "worker/http/http_address.h"

enum { HTTP_GUESSES_OF_ONE = 8, HTTP_GUESSES_OF_ALL = 32 };

/* Zeroed at first. */
struct http_guesses {
    struct http_guess {
        uint64_t from;
        struct instant until;     /* then it counts no more */
    } wrong[HTTP_GUESSES_OF_ALL]; /* a ring */
    unsigned next;
};

/* What stands for the address. */
uint64_t http_guess_network(const struct http_address *address);
/* Whether a token from there is looked at now. */
bool http_guess_is_allowed(const struct http_guesses *guesses, const struct http_address *from, struct instant now);
/* It was, and was wrong. */
void http_guess_count(struct http_guesses *guesses, const struct http_address *from, struct instant now);

#endif
