#include "tests/sim/node_model.h"

/* A proposal that is further ahead of the node's clock is cut there. */
#define PROPOSAL_AHEAD_US INT64_C(60000000)

/* --- the clock --------------------------------------------------------------------------------------------------- */

int64_t node_model_clock_ns(const struct node_model *node, struct instant now)
{
    return node->clock_start_ns + now.ns / MODEL_NORMAL_RATE * node->clock_rate +
           now.ns % MODEL_NORMAL_RATE * node->clock_rate / MODEL_NORMAL_RATE;
}

int64_t node_model_clock_ms(const struct node_model *node, struct instant now)
{
    return node_model_clock_ns(node, now) / NS_PER_MS;
}

int64_t node_model_clock_us(const struct node_model *node, struct instant now)
{
    return node_model_clock_ns(node, now) / NS_PER_US;
}

struct instant node_model_when(const struct node_model *node, int64_t clock_ms)
{
    if (clock_ms == MODEL_NEVER_MS)
        return INSTANT_NEVER;
    int64_t passed = clock_ms * NS_PER_MS - node->clock_start_ns;
    if (passed <= 0)
        return (struct instant){0};
    /* Rounded up: at that time the clock shows it, not before. */
    int64_t at = (int64_t)(((__int128)passed * MODEL_NORMAL_RATE + node->clock_rate - 1) / node->clock_rate);
    return (struct instant){at};
}

/* --- keys -------------------------------------------------------------------------------------------------------- */

uint32_t node_model_get(const struct node_model *node, unsigned key, int64_t clock_ms)
{
    const struct model_key *found = &node->keys[key];
    return clock_ms < found->expires_ms ? found->value : MODEL_NO_VALUE;
}

void node_model_put(struct node_model *node, unsigned key, uint32_t value, int64_t expires_ms)
{
    node->keys[key] = (struct model_key){value, expires_ms};
}

uint64_t node_model_fence(const struct node_model *node, unsigned key, int64_t clock_ms)
{
    const struct model_fence *found = &node->fences[key];
    return clock_ms < found->expires_ms ? found->token : 0;
}

void node_model_wipe(struct node_model *node)
{
    for (unsigned key = 0; key < MODEL_KEYS_MAX; key++) {
        node_model_put(node, key, MODEL_NO_VALUE, 0);
        node->fences[key] = (struct model_fence){0, 0};
    }
    node->marker = MODEL_NO_MARKER;
}

/* Sets of keys are walked from the lowest: for (unsigned left = keys; left != 0; left &= left - 1). */
static unsigned lowest(unsigned set)
{
    return (unsigned)__builtin_ctz(set);
}

static void fences_set(struct node_model *node, const struct model_request *request, uint64_t token, int64_t clock_ms)
{
    int64_t expires_ms = node->bug == MODEL_FENCE_WITHOUT_TTL ? MODEL_NEVER_MS : clock_ms + request->fence_ttl_ms;
    unsigned keys = request->keys;
    if (node->bug == MODEL_FENCES_FIRST_KEY)
        keys &= ~keys + 1;
    for (unsigned left = keys; left != 0; left &= left - 1)
        node->fences[lowest(left)] = (struct model_fence){token, expires_ms};
}

static uint64_t fence_highest(const struct node_model *node, unsigned keys, int64_t clock_ms)
{
    uint64_t highest = 0;
    for (unsigned left = keys; left != 0; left &= left - 1) {
        uint64_t token = node_model_fence(node, lowest(left), clock_ms);
        if (token > highest)
            highest = token;
    }
    return highest;
}

/* --- the scripts ------------------------------------------------------------------------------------------------- */

bool node_model_has_marker(const struct node_model *node, uint16_t marker)
{
    return marker == MODEL_ANY_MARKER || marker == node->marker;
}

static uint64_t token_of_grant(const struct node_model *node, const struct model_request *request, struct instant now)
{
    uint64_t most = (uint64_t)(node_model_clock_us(node, now) + PROPOSAL_AHEAD_US);
    uint64_t token = request->token > most && node->bug != MODEL_NO_CLAMP ? most : request->token;
    uint64_t last = fence_highest(node, request->keys, node_model_clock_ms(node, now));
    if (last < token || node->bug == MODEL_PROPOSAL_ONLY)
        return token;
    return node->bug == MODEL_KEEPS_FENCE ? last : last + 1;
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

/* Held by anybody but whom the grant may take the place of. */
static uint32_t first_taken(struct node_model *node, const struct model_request *request, int64_t clock_ms)
{
    for (unsigned left = request->keys; left != 0; left &= left - 1) {
        uint32_t held = node_model_get(node, lowest(left), clock_ms);
        bool may_replace =
            request->old != MODEL_NO_VALUE && passes(node, held, request->old, MODEL_SWAPS_WITHOUT_COMPARE);
        if (held != MODEL_NO_VALUE && !may_replace)
            return held;
    }
    return MODEL_NO_VALUE;
}

/* The keys that are not free, when all are free or to be replaced. */
static unsigned keys_with(const struct node_model *node, const struct model_request *request, int64_t clock_ms)
{
    unsigned keys = 0;
    for (unsigned left = request->keys; left != 0; left &= left - 1)
        if (node_model_get(node, lowest(left), clock_ms) != MODEL_NO_VALUE)
            keys |= 1u << lowest(left);
    return keys;
}

static void grant_key(struct node_model *node, const struct model_request *request, unsigned key, int64_t clock_ms)
{
    bool replaces = node_model_get(node, key, clock_ms) != MODEL_NO_VALUE;
    if (replaces && node->bug == MODEL_SWAPS_FIRST_KEY && key != lowest(request->keys))
        return;
    bool keeps = replaces && node->bug == MODEL_SWAPS_KEEP_TTL;
    node_model_put(node, key, request->value, keeps ? node->keys[key].expires_ms : clock_ms + request->ttl_ms);
}

struct model_answer node_model_grant(struct node_model *node, const struct model_request *request, struct instant now)
{
    int64_t clock_ms = node_model_clock_ms(node, now);
    if (!node_model_has_marker(node, request->marker) && node->bug != MODEL_IGNORES_MARKER)
        return (struct model_answer){.code = MODEL_OTHER_MARKER};
    if (node_model_clock_us(node, now) > request->deadline_us && node->bug != MODEL_IGNORES_DEADLINE)
        return (struct model_answer){.code = MODEL_TOO_LATE};
    uint32_t held = first_taken(node, request, clock_ms);
    if (held != MODEL_NO_VALUE)
        return (struct model_answer){.held = held};
    bool replaced = keys_with(node, request, clock_ms) == request->keys;
    for (unsigned left = request->keys; left != 0; left &= left - 1)
        grant_key(node, request, lowest(left), clock_ms);
    if (request->token == MODEL_UNFENCED)
        return (struct model_answer){.done = true, .replaced = replaced};
    uint64_t token = token_of_grant(node, request, now);
    if (replaced && node->bug == MODEL_SWAPS_UNFENCED)
        return (struct model_answer){.done = true, .replaced = true, .token = token};
    fences_set(node, request, token, clock_ms);
    return (struct model_answer){.done = true, .replaced = replaced, .token = token};
}

struct model_answer node_model_raise(struct node_model *node, const struct model_request *request, struct instant now)
{
    int64_t clock_ms = node_model_clock_ms(node, now);
    if (!node_model_has_marker(node, request->marker))
        return (struct model_answer){.code = MODEL_OTHER_MARKER};
    bool is_ours = true;
    for (unsigned left = request->keys; left != 0; left &= left - 1)
        is_ours = is_ours && node_model_get(node, lowest(left), clock_ms) == request->value;
    if (!is_ours && node->bug != MODEL_RAISES_WITHOUT_COMPARE)
        return (struct model_answer){.done = false};
    uint64_t token = fence_highest(node, request->keys, clock_ms);
    if (token < request->token)
        token = request->token;
    for (unsigned left = is_ours ? request->keys : 0; left != 0; left &= left - 1)
        node->keys[lowest(left)].expires_ms = clock_ms + request->ttl_ms;
    fences_set(node, request, token, clock_ms);
    return (struct model_answer){.done = true, .token = token};
}

struct model_answer node_model_replant(struct node_model *node, const struct model_request *request, struct instant now)
{
    int64_t clock_ms = node_model_clock_ms(node, now);
    if (!node_model_has_marker(node, request->marker))
        return (struct model_answer){.code = MODEL_OTHER_MARKER};
    if (node_model_clock_us(node, now) > request->deadline_us && node->bug != MODEL_REPLANTS_LATE)
        return (struct model_answer){.code = MODEL_TOO_LATE};
    if (fence_highest(node, request->keys, clock_ms) > request->token && node->bug != MODEL_REPLANTS_BLINDLY)
        return (struct model_answer){.done = false};
    for (unsigned left = request->keys; left != 0; left &= left - 1) {
        uint32_t held = node_model_get(node, lowest(left), clock_ms);
        if (held != MODEL_NO_VALUE && !passes(node, held, request->value, MODEL_REPLANTS_OVER))
            return (struct model_answer){.done = false};
    }
    for (unsigned left = request->keys; left != 0; left &= left - 1)
        node_model_put(node, lowest(left), request->value, clock_ms + request->ttl_ms);
    if (node->bug != MODEL_REPLANTS_UNFENCED)
        fences_set(node, request, request->token, clock_ms);
    return (struct model_answer){.done = true, .token = request->token};
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

bool node_model_mark(struct node_model *node, uint16_t expected, uint16_t to)
{
    if (node->marker != expected && node->marker != to && node->bug != MODEL_MARKS_WITHOUT_COMPARE)
        return false;
    node->marker = to;
    return true;
}
