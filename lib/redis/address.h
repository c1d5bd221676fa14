/* The address of a server, as people write it: "HOST:PORT", "[IPv6]:PORT", or an address with a scheme,
 *
 *     redis://[USER][:PASSWORD]@HOST[:PORT][/DATABASE]     the part up to the @ may be missing
 *     rediss://...                                         the same, with TLS
 *
 * where %XX in USER and PASSWORD is the byte XX. It may hold a password, so no message quotes it: a message says what
 * is wrong with it, and redis_address_shown makes a text that may be shown. Pure. */
#ifndef REDIS_ADDRESS_H
#define REDIS_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum { REDIS_HOST_MAX = 256, REDIS_PORT_DEFAULT = 6379, REDIS_DATABASE_MAX = 65535 };
enum { REDIS_ADDRESS_SHOWN_MAX = REDIS_HOST_MAX + 32 };

struct redis_address {
    char host[REDIS_HOST_MAX];
    unsigned port; /* 0: not named, which only an address with a scheme may leave out */
    bool has_scheme, is_secure, has_database;
    unsigned database;
    char *user, *password; /* NULL: not named */
};

/* Begins with redis:// or rediss://. NULL does not. */
bool redis_address_has_scheme(const char *text);
bool redis_address_is_secure(const char *text); /* with rediss:// */
/* False with a reason, which reads well behind the name of the thing that has the address. */
bool redis_address_parse(const char *text, struct redis_address *address, struct error *error) MUST_CHECK;
void redis_address_drop(struct redis_address *address); /* overwrites the password */
/* HOST:PORT without user and password; of a wrong address, what stands before all that may be a password. */
const char *redis_address_shown(const char *text, char out[REDIS_ADDRESS_SHOWN_MAX]);
/* Overwrites user and password in an argument, which others can read with `ps`. */
void redis_address_hide(char *text);

/* What is said of the server beside its address. */
struct redis_address_beside {
    unsigned port, database; /* a default says nothing */
    bool has_user, has_password, has_tls;
};
/* False with a reason unless the two go together. */
bool redis_address_agrees(const struct redis_address *address, const struct redis_address_beside *beside,
                          struct error *error) MUST_CHECK;

/* A name or an IP address, without a port, and nothing that may hold a password. */
bool redis_host_is_alone(const char *host);
/* The parts alone. A port is 0 if the text is none; a host is printable and without blanks. */
unsigned redis_port_parse(const char *text, size_t length);
bool redis_host_copy(char host[REDIS_HOST_MAX], const char *text, size_t length) MUST_CHECK;

#endif
