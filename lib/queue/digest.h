/* SHA-1 as hexadecimal text: the name under which a task is unique. It is no secret and no signature. It only has to
 * be available to every producer in every language (redis.sha1hex in scripts too), and to keep two tasks from colliding
 * by chance. Pure; any thread. */
#ifndef QUEUE_DIGEST_H
#define QUEUE_DIGEST_H

#include <stddef.h>

enum { DIGEST_TEXT_SIZE = 41 }; /* 40 digits and a NUL */

void digest_text(const void *bytes, size_t length, char text[DIGEST_TEXT_SIZE]);

#endif
