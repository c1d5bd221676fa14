/* The configuration and its table as text. */
#ifndef WORKER_CONFIG_PRINT_H
#define WORKER_CONFIG_PRINT_H

#include "base/buffer.h"
#include "worker/config/config.h"

/* Prints all effective settings in the format of the file; reading them gives the same configuration. Values of
 * plugin settings with names like "password" become (redacted). */
void config_print(const struct config *config, struct buffer *out);
/* Prints conf/holdfast.conf: every key with its explanation. */
void config_print_sample(struct buffer *out);
/* Prints docs/configuration.md. */
void config_print_manual(struct buffer *out);
/* Prints the manual page holdfast.conf(5) for this version of the program. */
void config_print_page(const char *version, struct buffer *out);

#endif
