/* A Redis node as far as a lock can see it: keys with values and times to live, fences (counters of tokens), a marker,
 * a run id, a clock of its own, and what lib/redlock/scripts do with them. tests/integration/test_node_model.c runs one
 * table of cases against this model and against a live server, so that the simulation cannot drift away from what
 * servers do.
 *
 * The clock runs at its own rate from its own start, may be stepped, and is read in whole milliseconds by what expires
 * and in whole microseconds by scripts, as the server does it. A key is gone as soon as that reading has reached its
 * time; a server lets some of them live one millisecond longer, and the shorter life is the harder one for a lock.
 *
 * Texts are numbers here: the text of a marker is its number in some table of the caller's. */
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
#define MODEL_NO_MARKER   0u
#define MODEL_ANY_MARKER  (UINT16_MAX - 1) /* do not compare */
#define MODEL_BAD_MARKER  UINT16_MAX       /* something else is under its key */
#define MODEL_UNFENCED    UINT64_C(0)

/* Wrong scripts, to prove that the simulation would notice. */
enum model_bug {
    MODEL_SOUND,
    MODEL_EXTENDS_WITHOUT_COMPARE,
    MODEL_RELEASES_WITHOUT_COMPARE,
    MODEL_PROPOSAL_ONLY,          /* a grant answers the proposal, whatever its counter says */
    MODEL_KEEPS_FENCE,            /* a grant does not count a lower proposal up */
    MODEL_NO_CLAMP,               /* a proposal is taken, however far ahead it is */
    MODEL_RAISES_WITHOUT_COMPARE, /* the fence, whoever holds the key */
    MODEL_IGNORES_MARKER,         /* when granting */
    MODEL_IGNORES_DEADLINE,       /* when granting */
    MODEL_REPLANTS_LATE,          /* deadline not looked at */
    MODEL_REPLANTS_BLINDLY,       /* the fence not looked at */
    MODEL_REPLANTS_OVER,          /* somebody else's key */
    MODEL_REPLANTS_UNFENCED,      /* the fence is not set */
    MODEL_MARKS_WITHOUT_COMPARE,
    MODEL_FENCE_WITHOUT_TTL,
    MODEL_FENCES_FIRST_KEY,      /* of a lock of several */
    MODEL_SWAPS_WITHOUT_COMPARE, /* takes the place of any value */
    MODEL_SWAPS_UNFENCED,        /* the fence is not raised */
    MODEL_SWAPS_FIRST_KEY,       /* of a lock of several */
    MODEL_SWAPS_KEEP_TTL,        /* the new value lives as long as the old one would have */
    MODEL_BUGS,
};

struct model_key {
    uint32_t value;
    int64_t expires_ms; /* in the node's time */
};

struct model_fence {
    uint64_t token; /* 0 = none */
    int64_t expires_ms;
};

struct node_model {
    struct model_key keys[MODEL_KEYS_MAX];
    struct model_fence fences[MODEL_KEYS_MAX];
    uint16_t marker;
    uint32_t run; /* which run of the server this is */
    bool evicts;
    int64_t clock_start_ns; /* what the clock showed at time 0, plus all steps since */
    int64_t clock_rate;     /* in units of 1 / MODEL_NORMAL_RATE */
    enum model_bug bug;
    unsigned trespasses; /* changes of a key by a value that is not its own: must stay 0 */
};

int64_t node_model_clock_ns(const struct node_model *node, struct instant now);
int64_t node_model_clock_ms(const struct node_model *node, struct instant now);
int64_t node_model_clock_us(const struct node_model *node, struct instant now);
/* When the node's clock will show it, if nobody steps it. */
struct instant node_model_when(const struct node_model *node, int64_t clock_ms);

/* What is under the key at this moment of the node's clock; MODEL_NO_VALUE once it has expired. */
uint32_t node_model_get(const struct node_model *node, unsigned key, int64_t clock_ms);
void node_model_put(struct node_model *node, unsigned key, uint32_t value, int64_t expires_ms);
/* The counter of the key; 0 once it has expired. */
uint64_t node_model_fence(const struct node_model *node, unsigned key, int64_t clock_ms);
/* Keys, fences and the marker are gone; run and clock go on. */
void node_model_wipe(struct node_model *node);

/* The code that begins every answer but a release's. */
enum model_code { MODEL_DONE, MODEL_OTHER_MARKER, MODEL_TOO_LATE };

/* What a grant, a raise or a replant is asked. Sets of keys: bit i = key i. */
struct model_request {
    uint16_t marker;
    int64_t deadline_us; /* of a grant or a replant, in the node's time */
    int64_t ttl_ms, fence_ttl_ms;
    uint64_t token; /* the proposal, or the token; MODEL_UNFENCED for an unfenced grant */
    unsigned keys;
    uint32_t value;
    uint32_t old; /* of a grant: it may take the place of this value; MODEL_NO_VALUE = of none */
};

struct model_answer {
    enum model_code code;
    uint32_t held;  /* of a refused grant: the value of the first taken key; else MODEL_NO_VALUE */
    uint64_t token; /* of a grant or raise that was done: the fences then */
    bool done;      /* not refused */
    bool replaced;  /* of a grant that was done: it took the place of the old value under all keys */
};

/* grant.lua for one lock of one key, grant_all.lua for one of several. */
struct model_answer node_model_grant(struct node_model *node, const struct model_request *request, struct instant now);
struct model_answer node_model_raise(struct node_model *node, const struct model_request *request, struct instant now);
struct model_answer node_model_replant(struct node_model *node, const struct model_request *request,
                                       struct instant now);
/* Whether a script that names this marker goes on. */
bool node_model_has_marker(const struct node_model *node, uint16_t marker);
/* One character, as in the scripts' answers; the marker was compared before. */
char node_model_extend(struct node_model *node, unsigned key, uint32_t value, int64_t ttl_ms, int64_t clock_ms);
char node_model_release(struct node_model *node, unsigned key, uint32_t value, int64_t clock_ms);
/* mark.lua: true when `to` is there now. */
bool node_model_mark(struct node_model *node, uint16_t expected, uint16_t to);

#endif
