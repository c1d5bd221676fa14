/* What a simulated server answers. It lives among the replies of its call: it is never changed, and everything of one
 * call goes away together. */
#ifndef SIM_REDIS_REPLY_H
#define SIM_REDIS_REPLY_H

#include "tests/sim/server/keyspace.h"

enum reply_kind {
    REPLY_NIL,
    REPLY_NIL_ARRAY,
    REPLY_INTEGER,
    REPLY_BULK,
    REPLY_STATUS,
    REPLY_ERROR,
    REPLY_ARRAY,
    REPLY_SEVERAL /* one behind the other, as to SUBSCRIBE */
};

struct reply {
    enum reply_kind kind;
    long long integer;
    struct text text; /* NUL behind it */
    struct reply **items;
    size_t count, room;
};

struct replies {
    struct replies_block *blocks;
};

void replies_fini(struct replies *replies);  /* a zeroed one is empty */
void replies_clear(struct replies *replies); /* keeps some memory for the next */
void *replies_take(struct replies *replies, size_t size);
struct text replies_text(struct replies *replies, struct text text);
struct text replies_number(struct replies *replies, long long number);
struct text replies_format(struct replies *replies, const char *format, ...) PRINTF_LIKE(2, 3);

struct reply *reply_nil(struct replies *replies);
struct reply *reply_nil_array(struct replies *replies);
struct reply *reply_integer(struct replies *replies, long long integer);
struct reply *reply_bulk(struct replies *replies, struct text text);
struct reply *reply_number(struct replies *replies, long long number); /* as a text */
struct reply *reply_status(struct replies *replies, const char *text);
struct reply *reply_error(struct replies *replies, const char *text);
struct reply *reply_array(struct replies *replies, size_t most); /* empty */
struct reply *reply_several(struct replies *replies, size_t most);
void reply_add(struct reply *array, struct reply *item);
/* As servers write scores. */
struct reply *reply_score(struct replies *replies, double score);

/* Its bytes in RESP2. */
void reply_write(const struct reply *reply, struct buffer *out);

/* The item's text; "" when there is none. */
const char *reply_text(const struct reply *array, size_t index);

#endif
