/* What the process of a slow relay does: see slow_relay.h. */
#ifndef WORKER_DRY_RUN_RELAY_LOOP_H
#define WORKER_DRY_RUN_RELAY_LOOP_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/error.h"

/* Takes clients from the listener, which does not block, for ever. False when there can be no loop. */
bool relay_loop_run(int listener, unsigned server_port, const _Atomic int64_t *delay_ns,
                    struct error *error) MUST_CHECK;

#endif
