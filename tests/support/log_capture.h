/* What the program itself logs, as text. One at a time. */
#ifndef SUPPORT_LOG_CAPTURE_H
#define SUPPORT_LOG_CAPTURE_H

#include <stddef.h>

/* From now on, at level info and above. */
void log_capture_begin(void);
/* All until now; up to a megabyte, valid until the next begin. */
const char *log_capture_end(size_t *length);

#endif
