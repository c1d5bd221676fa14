/* What completes command lines in a shell: a script of that shell, made from the rows of all commands. It offers the
 * commands, their options and the words that they take, and files where a value is one. Pure. */
#ifndef WORKER_COMPLETION_H
#define WORKER_COMPLETION_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/error.h"

/* "bash", "zsh" or "fish"; false for another. */
bool completion_print(const char *shell, struct buffer *out) MUST_CHECK;

#endif
