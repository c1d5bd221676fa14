/* What `holdfast serve` shows and lets do by HTTP, on a thread and a loop of its own, so that a node that hangs delays
 * no answer: it goes by the state that it was given last, which says how old it is.
 *
 *     struct serve_site *site = serve_site_start(&options, &error);
 *     serve_site_tell(site, state, sample);       again and again
 *     serve_site_stop(site);
 *
 * Rights. Reading needs a login if it is wanted for all, if an address is not a loopback one (a unix socket, with a
 * token: mostly a proxy asks there), if a proxy is before it (a prefix, or what it adds), or if the request names
 * another host than this machine: a page of any site can make its name lead here.
 * Changing always needs a login: the token of the options as `Authorization: Bearer TOKEN`, or typed into the page.
 * That gives a cookie that no script can read, and a text that every change has to repeat. Without a token nothing can
 * be changed. Each change is logged with its author. http_guess.h says how fast tokens can be guessed.
 *
 * Searches and changes are our own commands (command_child.h). Searches run one after the other, so many readers cost
 * the queue node no more than one; up to 32 wait. At most four changes run at a time. Threads: start, tell,
 * change_token and stop belong to one thread. */
#ifndef WORKER_SERVE_SITE_H
#define WORKER_SERVE_SITE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"
#include "worker/monitor/metric_store.h"

struct serve_site;

struct serve_site_options {
    const char *const *addresses; /* worker/http/http_address.h */
    size_t address_count;
    const char *prefix; /* of all paths; "" = none */
    const char *token;  /* NULL: nothing can be changed */
    bool asks_all;      /* reading needs a login, too, on this machine as well */
    const char *origin; /* the option that names the configuration for commands: "--config=FILE" */
};

/* The options must live as long as the site. NULL, with a reason, if it cannot listen. */
struct serve_site *serve_site_start(const struct serve_site_options *options, struct error *error) MUST_CHECK;
void serve_site_stop(struct serve_site *site); /* NULL is harmless */

struct serve_news {
    struct buffer state, sample;         /* JSON, without line ends; a sample is a point of the last hour, or empty */
    struct buffer metrics[METRIC_TEXTS]; /* for /metrics */
};

/* The buffers become the site's. */
void serve_site_tell(struct serve_site *site, const struct serve_news *news);
/* `token` is copied; for a site that has one. All sessions end if it is another one. */
void serve_site_change_token(struct serve_site *site, const char *token);
/* Whether a browser follows the state as it changes. */
bool serve_site_is_watched(const struct serve_site *site);
/* Where it listens; NULL beyond the last. */
const char *serve_site_address(const struct serve_site *site, size_t index, struct buffer *out);

#endif
