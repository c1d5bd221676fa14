/* For tests of the loop: each has a loop of its own, with a guard that fails the test if nothing else ends it. */
#ifndef TESTS_SUPPORT_ONE_LOOP_H
#define TESTS_SUPPORT_ONE_LOOP_H

#include "base/loop.h"

extern struct loop *loop;
/* What happened, a letter each, in order. */
extern char trace[64];
extern size_t traced;

void note(char letter);

/* So many milliseconds from now. */
struct instant soon(int64_t milliseconds);
/* Ends the loop then. */
void stop_at(struct instant due);

int one_loop_set_up(void **state);
int one_loop_tear_down(void **state);

#endif
