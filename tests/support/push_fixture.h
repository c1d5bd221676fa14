/* For tests of `holdfast push`: each runs the program against one private server. */
#ifndef SUPPORT_PUSH_FIXTURE_H
#define SUPPORT_PUSH_FIXTURE_H

#include <stddef.h>

#include "tests/support/one_server.h"
#include "tests/support/program_run.h"
#include "tests/support/queue_probe.h"

enum { ARGUMENTS_MAX = 30 };

extern char port[16]; /* where the program is sent */
extern struct program_result result;

int push_set_up(void **state);
int push_tear_down(void **state);

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* "push -p PORT" and then the words. */
void complete(const char *const *words, const char *arguments[ARGUMENTS_MAX]);
/* Each runs it and sets `result`. */
void push(const char *const *words);
void push_from(const char *const *words, int input);
void push_text(const char *const *words, const char *text);
int input_of(const char *bytes, size_t length);

void assert_exit(int code);
void assert_length(const char *queue, long long length);

#endif
