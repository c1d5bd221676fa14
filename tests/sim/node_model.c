#include "tests/sim/node_model.h"

int64_t node_model_clock_ms(const struct node_model *node, struct instant now)
{
    return (node->clock_start_ns + (now.ns * node->clock_rate) / MODEL_NORMAL_RATE) / NS_PER_MS;
}

struct instant node_model_when(const struct node_model *node, int64_t clock_ms)
{
    if (clock_ms == MODEL_NEVER_MS)
        return INSTANT_NEVER;
    int64_t passed = clock_ms * NS_PER_MS - node->clock_start_ns;
    if (passed <= 0)
        return (struct instant){0};
    return (struct instant){(passed * MODEL_NORMAL_RATE + node->clock_rate - 1) / node->clock_rate};
}

uint32_t node_model_get(const struct node_model *node, unsigned key, int64_t clock_ms)
{
    const struct model_key *found = &node->keys[key];
    return clock_ms < found->expires_ms ? found->value : MODEL_NO_VALUE;
}

void node_model_put(struct node_model *node, unsigned key, uint32_t value, int64_t expires_ms)
{
    node->keys[key] = (struct model_key){value, expires_ms};
}

void node_model_wipe(struct node_model *node)
{
    for (unsigned key = 0; key < MODEL_KEYS_MAX; key++)
        node_model_put(node, key, MODEL_NO_VALUE, 0);
}

uint32_t node_model_grant(struct node_model *node, unsigned keys, uint32_t value, int64_t ttl_ms, int64_t clock_ms)
{
    for (unsigned key = 0; key < MODEL_KEYS_MAX; key++) {
        uint32_t held = node_model_get(node, key, clock_ms);
        if ((keys >> key & 1u) && held != MODEL_NO_VALUE)
            return held;
    }
    for (unsigned key = 0; key < MODEL_KEYS_MAX; key++)
        if (keys >> key & 1u)
            node_model_put(node, key, value, clock_ms + ttl_ms);
    return MODEL_NO_VALUE;
}

/* Whether an operation that compares may go on; the planted bugs skip the comparison. */
static bool passes(struct node_model *node, uint32_t held, uint32_t value, enum model_bug bug)
{
    if (held == value)
        return true;
    if (held == MODEL_NO_VALUE || node->bug != bug)
        return false;
    node->trespasses++;
    return true;
}

char node_model_extend(struct node_model *node, unsigned key, uint32_t value, int64_t ttl_ms, int64_t clock_ms)
{
    uint32_t held = node_model_get(node, key, clock_ms);
    if (!passes(node, held, value, MODEL_EXTENDS_WITHOUT_COMPARE))
        return '0';
    node->keys[key].expires_ms = clock_ms + ttl_ms;
    return '1';
}

char node_model_release(struct node_model *node, unsigned key, uint32_t value, int64_t clock_ms)
{
    uint32_t held = node_model_get(node, key, clock_ms);
    if (!passes(node, held, value, MODEL_RELEASES_WITHOUT_COMPARE))
        return held == MODEL_NO_VALUE ? '0' : '2';
    node_model_put(node, key, MODEL_NO_VALUE, 0);
    return '1';
}
