/* How many wrong tokens a server looks at: of an address eight a second, of all 32. While one has given that many, no
 * token of its is looked at, so a right one tells nothing either; and somebody who guesses elsewhere keeps no scraper
 * out. It counts when a token came, so to break off the connection makes no room. Addresses of IPv6 count as one if
 * they share 64 bits: who has one of them has all. Pure. */
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

/* Whether a token from there is looked at now. */
bool http_guess_is_allowed(const struct http_guesses *guesses, const struct http_address *from, struct instant now);
/* It was, and was wrong. */
void http_guess_count(struct http_guesses *guesses, const struct http_address *from, struct instant now);

#endif
