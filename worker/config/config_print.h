/* The configuration and its table as text. */
#ifndef WORKER_CONFIG_PRINT_H
#define WORKER_CONFIG_PRINT_H

#include "base/buffer.h"
#include "worker/config/config.h"

/* Every setting that is in effect, in the format of the file; reading it again gives the same configuration. Values
 * of plugins' settings whose names speak of secrets are replaced by (redacted). */
void config_print(const struct config *config, struct buffer *out);
/* conf/holdfast.conf: every key with its explanation. */
void config_print_sample(struct buffer *out);
/* docs/configuration.md. */
void config_print_manual(struct buffer *out);
/* The manual page holdfast.conf(5), of that version of the program. */
void config_print_page(const char *version, struct buffer *out);

#endif
