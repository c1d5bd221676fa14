/* Where a request goes: the parts of a URL that rules are about. */
#ifndef JOBS_WEBHOOK_PLACE_H
#define JOBS_WEBHOOK_PLACE_H

#include <stddef.h>

enum { WEBHOOK_URL_MAX = 8192 };

struct webhook_place {
    char *url;
    char *scheme, *host, *port; /* the port is always there; an IPv6 host stands in brackets */
};

/* Returns 1, or 0 with a reason: it is no URL, neither http nor https, too long, or has a user or password in it, which
 * would be seen wherever tasks are seen. */
int webhook_place_read(struct webhook_place *place, const char *url, char *reason, size_t reason_size);
void webhook_place_fini(struct webhook_place *place); /* zeroed is fine */

/* Whether both are the same scheme, host and port. */
int webhook_place_is_same(const struct webhook_place *a, const struct webhook_place *b);
/* Whether the host is one of the names in `list`, which stand between blanks or commas. */
int webhook_place_is_among(const struct webhook_place *place, const char *list);

#endif
