/* Which sentinel to ask next, and what one answered: the rules of discovery, without I/O. Private to lib/redis. Loop
 * thread only.
 *
 *     sentinel_search_init(&search, &options);
 *     round:   sentinel_search_begin                   the best sentinel is in front
 *     step:    sentinel_search_current                 ask it: sentinel_ask
 *              sentinel_take                           what it answered; it moves to the front if it named a master
 *              or sentinel_search_skip                 it did not; false: none is left in this round
 *     found:   search.master_host, search.master_port  until the next round
 *              sentinel_search_distrust                that was no master: this sentinel is asked last from now on
 *
 * A sentinel that is cut off from the others still reports an old master. So one whose answer led to no master moves
 * behind the others, and the next round asks another one first. */
#ifndef REDIS_SENTINEL_H
#define REDIS_SENTINEL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "redis/node.h"

enum { SENTINEL_REASON_MAX = 160, SENTINEL_PORT_DEFAULT = 26379 };

struct sentinel {
    char host[REDIS_HOST_MAX];
    unsigned port;
    bool is_told; /* its failure was logged, since it last helped */
};

struct sentinel_search {
    const char *master; /* the name that the sentinels know it by; belongs to the options of the node */
    struct sentinel *items;
    size_t count; /* 0 = the node has an address of its own */
    size_t next;  /* to be asked in this round */
    bool found;
    char master_host[REDIS_HOST_MAX]; /* valid when found */
    unsigned master_port;
};

/* The addresses must be sound; copies them, but not the name of the master. */
void sentinel_search_init(struct sentinel_search *search, const struct redis_sentinels *options);
void sentinel_search_fini(struct sentinel_search *search);

void sentinel_search_begin(struct sentinel_search *search);
/* The sentinel to ask; NULL when there are none or the master is found. */
struct sentinel *sentinel_search_current(struct sentinel_search *search);
bool sentinel_search_skip(struct sentinel_search *search);
void sentinel_search_distrust(struct sentinel_search *search);

/* The question, as a request. */
void sentinel_ask(const struct sentinel_search *search, struct buffer *out);
/* Parses the answer of the current sentinel; false with a reason. */
bool sentinel_take(struct sentinel_search *search, const struct redis_reply *reply, char reason[SENTINEL_REASON_MAX]);

#endif
