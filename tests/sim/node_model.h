/* A Redis node as far as a lock can see it: keys with values and times to live, a clock of its own, and the three
 * operations of lib/redlock/scripts. tests/integration/test_node_model.c runs one table of cases against this model
 * and against a live server, so that the simulation cannot drift away from what servers do.
 *
 * The clock runs at its own rate from its own start, and is read in whole milliseconds, as the server does it. A key
 * is gone as soon as that reading has reached its time; a server lets some of them live one millisecond longer, and
 * the shorter life is the harder one for a lock. */
#ifndef SIM_NODE_MODEL_H
#define SIM_NODE_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

enum { MODEL_KEYS_MAX = 8 };

/* Values are numbers, drawn afresh for each pass. */
#define MODEL_NO_VALUE    UINT32_C(0)
#define MODEL_OTHER_TYPE  UINT32_MAX /* a key that is no string */
#define MODEL_NEVER_MS    INT64_MAX  /* a key without a time to live */
#define MODEL_NORMAL_RATE (INT64_C(1) << 20)

/* Wrong scripts, to prove that the simulation would notice. */
enum model_bug { MODEL_SOUND, MODEL_EXTENDS_WITHOUT_COMPARE, MODEL_RELEASES_WITHOUT_COMPARE };

struct model_key {
    uint32_t value;
    int64_t expires_ms; /* in the node's time */
};

struct node_model {
    struct model_key keys[MODEL_KEYS_MAX];
    int64_t clock_start_ns;
    int64_t clock_rate; /* in units of 1 / MODEL_NORMAL_RATE */
    enum model_bug bug;
    unsigned trespasses; /* changes of a key by a value that is not its own: must stay 0 */
};

int64_t node_model_clock_ms(const struct node_model *node, struct instant now);
/* When the node's clock will show it. */
struct instant node_model_when(const struct node_model *node, int64_t clock_ms);

/* What is under the key at this moment of the node's clock; MODEL_NO_VALUE once it has expired. */
uint32_t node_model_get(const struct node_model *node, unsigned key, int64_t clock_ms);
void node_model_put(struct node_model *node, unsigned key, uint32_t value, int64_t expires_ms);
void node_model_wipe(struct node_model *node);

/* All keys of the set (bit i = key i) or none. Returns MODEL_NO_VALUE when granted, else what the first taken key
 * holds. */
uint32_t node_model_grant(struct node_model *node, unsigned keys, uint32_t value, int64_t ttl_ms, int64_t clock_ms);
/* One character, as in the scripts' answers. */
char node_model_extend(struct node_model *node, unsigned key, uint32_t value, int64_t ttl_ms, int64_t clock_ms);
char node_model_release(struct node_model *node, unsigned key, uint32_t value, int64_t clock_ms);

#endif
