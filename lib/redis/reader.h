/* The reply parser: hiredis' redisReader used as a codec only, building struct redis_reply values of our own, within
 * limits that hold whatever a server sends. Private to lib/redis. Loop thread only.
 *
 *     redis_reader_give(reader, bytes, length);
 *     while ((found = redis_reader_next(reader, &reply)) == REDIS_READER_REPLY)
 *         ... reply is valid until the next call ...
 *
 * After REDIS_READER_NOTHING all given bytes have been copied. After REDIS_READER_BROKEN the reader repeats that
 * answer until redis_reader_reset. */
#ifndef REDIS_READER_H
#define REDIS_READER_H

#include <stdbool.h>
#include <stddef.h>

#include "redis/reply.h"

struct redis_reader;

enum redis_reader_found { REDIS_READER_REPLY, REDIS_READER_NOTHING, REDIS_READER_BROKEN };

struct redis_reader *redis_reader_create(size_t reply_limit, size_t element_limit);
void redis_reader_destroy(struct redis_reader *reader);
/* Changes the limit for further replies. */
void redis_reader_limit(struct redis_reader *reader, size_t reply_limit);
/* Forgets everything, for a new connection. */
void redis_reader_reset(struct redis_reader *reader);

/* The bytes must stay where they are until redis_reader_next has found nothing more. */
void redis_reader_give(struct redis_reader *reader, const char *bytes, size_t length);
enum redis_reader_found redis_reader_next(struct redis_reader *reader, const struct redis_reply **reply);
/* Why the reader is broken. */
const char *redis_reader_reason(const struct redis_reader *reader);
/* True if no byte of an unfinished reply was given. */
bool redis_reader_is_idle(const struct redis_reader *reader);

#endif
