/* What a library shows of itself, read from its file. */
#ifndef WORKER_PLUGIN_SYMBOLS_H
#define WORKER_PLUGIN_SYMBOLS_H

#include <stddef.h>

#include "base/buffer.h"

/* How many functions and variables others could see, besides holdfast_plugin, and the names of the first few, separated
 * by commas. 0 also when the file cannot be understood. `fd` may be opened with O_PATH. */
size_t plugin_symbols_shown(int fd, struct buffer *names);

#endif
