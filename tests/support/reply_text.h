/* A reply as tests compare it: numbers in digits, errors as "-ERR ...", nil as "(nil)", arrays by lines. */
#ifndef SUPPORT_REPLY_TEXT_H
#define SUPPORT_REPLY_TEXT_H

#include "base/buffer.h"
#include "redis/reply.h"

void reply_text_write(const struct redis_reply *reply, struct buffer *out);

#endif
