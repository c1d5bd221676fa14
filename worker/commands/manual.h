/* What is said of commands, all of it from their rows: --help, docs/commands.md, pages for man. Pure. */
#ifndef WORKER_MANUAL_H
#define WORKER_MANUAL_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/error.h"
#include "worker/commands/command.h"

void manual_print_usage(const struct command *command, struct buffer *out);
void manual_print_command(const struct command *command, struct buffer *out); /* holdfast COMMAND --help */
void manual_print_program(struct buffer *out);                                /* holdfast --help */
void manual_print_markdown(struct buffer *out);                               /* docs/commands.md */

/* The names of the pages for man, one a line: holdfast.1, holdfast-push.1, holdfast.conf.5 ... */
void manual_list_pages(struct buffer *out);
/* False when there is no such page. */
bool manual_print_page(const char *name, struct buffer *out) MUST_CHECK;

/* What completes command lines in "bash", "zsh" or "fish"; false for another. */
bool completion_print(const char *shell, struct buffer *out) MUST_CHECK;

#endif
