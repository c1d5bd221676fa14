/* Private to lib/redlock: the loop's side of struct redlock_validity. See validity.c. */
#ifndef REDLOCK_VALIDITY_H
#define REDLOCK_VALIDITY_H

#include "base/clock.h"
#include "redlock/redlock_loop.h"

void validity_publish(struct redlock_validity *validity, struct instant until, struct instant danger_from);
/* Closes the descriptor: nobody asks any more. */
void validity_end(struct redlock_validity *validity);

#endif
