/* Whose clock stepped: a node's, or ours. And whose clock is far from all others. */
#include "redlock/trust_private.h"

#define TOGETHER_NS (3 * NS_PER_S) /* steps that may have one cause */

static int direction_of(int64_t step_ns)
{
    return (step_ns > 0) - (step_ns < 0);
}

static bool is_recent(struct instant at, struct instant now, int64_t span_ns)
{
    return instant_since(at, now) <= span_ns;
}

static bool stepped_along(const struct trust_node *node, int direction, struct instant now)
{
    return direction_of(node->step_ns) == direction && is_recent(node->stepped_at, now, TOGETHER_NS) &&
           node->vouched == 0;
}

/* The nodes that showed a step of ours together: a quorum of them, and nobody's clock speaks against it. */
static node_set nodes_along(const struct trust *trust, int direction, struct instant now)
{
    node_set along = 0;
    for (unsigned i = 0; i < trust->nodes; i++)
        if (stepped_along(&trust->node[i], direction, now))
            along |= bit(i);
    return is_group(trust) && (unsigned)__builtin_popcount(along) >= quorum(trust) ? along : 0;
}

/* The rest of a step of ours that was told already: each node shows it once. */
static bool is_rest_of_own_step(const struct trust *trust, unsigned index, int direction, struct instant now)
{
    return trust->own_clock_direction == direction && is_recent(trust->own_clock_stood_at, now, TOGETHER_NS) &&
           !(trust->own_clock_shown & bit(index));
}

/* Takes the blame from those that had it for this step. Their clocks have to agree with a quorum all the same: one that
 * was blamed before it was compared may be wrong. */
static void acquit(struct trust *trust, node_set nodes)
{
    trust->own_clock_shown |= nodes;
    for (unsigned i = 0; i < trust->nodes; i++) {
        struct trust_node *node = &trust->node[i];
        if (!(nodes & bit(i)))
            continue;
        node->doubt_wanted = node->doubts = false;
        node->step_ns = 0;
        if (node->quarantine == TRUST_CLOCK_STEPPED)
            node->quarantine = TRUST_CLOCK_UNCOMPARED;
    }
}

static void blame_own_clock(struct trust *trust, node_set along, int direction, struct instant now)
{
    trust->own_clock_stood_at = now;
    trust->own_clock_direction = direction;
    trust->own_clock_shown = 0;
    acquit(trust, along);
}

static void blame_node(struct trust *trust, struct trust_node *node, struct instant heard, struct instant now)
{
    trust_quarantine_clock(trust, node, TRUST_CLOCK_STEPPED, now);
    node->doubts = false;
    node->doubt_wanted = is_group(trust) && is_recent(heard, node->stepped_at, TRUST_FRESH_NS);
    memcpy(node->stepped_run, node->marker.run, sizeof node->stepped_run);
}

static void take_step(struct trust *trust, unsigned index, const struct trust_clock_news *news, struct instant heard,
                      const struct trust_reading *reading, struct instant now, struct trust_step *step)
{
    struct trust_node *node = &trust->node[index];
    int direction = direction_of(news->step_ns);
    node->incarnation++;
    step->forgot |= bit(index);
    node->step_ns = news->step_ns;
    node->step_from = news->from;
    node->stepped_at = reading->answered;
    node->vouched = 0;
    node_set along = nodes_along(trust, direction, now);
    if (is_rest_of_own_step(trust, index, direction, now)) {
        acquit(trust, bit(index));
    } else if (along) {
        step->own_clock_stood = true;
        blame_own_clock(trust, along, direction, now);
    } else {
        blame_node(trust, node, heard, now);
    }
}

/* The samples of `index` before and after somebody's step fit together: our clock did not stand still between them.
 * Returns whether that was news. */
static bool vouch(struct trust *trust, unsigned index, const struct trust_clock_news *news,
                  const struct trust_reading *reading)
{
    bool is_news = false;
    for (unsigned i = 0; i < trust->nodes; i++) {
        struct trust_node *node = &trust->node[i];
        int64_t size_ns = node->step_ns < 0 ? -node->step_ns : node->step_ns;
        bool spans = !instant_before(node->step_from, trust->node[index].clock.steady_since) &&
                     !instant_before(node->stepped_at, news->from) && !instant_before(reading->asked, node->stepped_at);
        if (i == index || size_ns <= news->blur_ns || !spans || (node->vouched & bit(index)))
            continue;
        node->vouched |= bit(index);
        is_news = true;
    }
    return is_news;
}

/* A sample that was long on its way could hide the very step or distance that is looked for. */
static bool is_sharp(const struct trust *trust, const struct trust_clock *clock, struct instant now)
{
    return clock->is_known &&
           trust_clock_high(clock, now) - trust_clock_low(clock, now) < TRUST_APART_NS + trust->timeout_ns;
}

bool trust_take_reading(struct trust *trust, unsigned index, const struct trust_reading *reading, struct instant now,
                        struct trust_step *step)
{
    struct trust_node *node = &trust->node[index];
    if (!trust_reading_makes_sense(reading))
        return false;
    struct instant heard = node->clock.heard;
    bool was_sharp = is_sharp(trust, &node->clock, node->clock.sampled);
    struct trust_clock_news news = trust_clock_read(&node->clock, reading);
    if (!was_sharp)
        trust_quarantine_clock(trust, node, TRUST_CLOCK_UNCOMPARED, now);
    if (news.step_ns != 0)
        take_step(trust, index, &news, heard, reading, now, step);
    return !was_sharp || news.step_ns != 0 || vouch(trust, index, &news, reading) ||
           node->quarantine == TRUST_CLOCK_UNCOMPARED;
}

static bool is_apart(const struct trust_clock *one, const struct trust_clock *other, struct instant now)
{
    return trust_clock_low(one, now) - trust_clock_high(other, now) > TRUST_APART_NS ||
           trust_clock_low(other, now) - trust_clock_high(one, now) > TRUST_APART_NS;
}

/* The clock of one node beside those of all that can be compared with it now: how many there are, and how many agree;
 * the node itself is one of both. */
struct comparison {
    unsigned known, agree;
};

static struct comparison compare(const struct trust *trust, unsigned index, struct instant now)
{
    const struct trust_clock *own = &trust->node[index].clock;
    struct comparison result = {1, 1};
    for (unsigned i = 0; i < trust->nodes && is_sharp(trust, own, now); i++) {
        const struct trust_clock *other = &trust->node[i].clock;
        if (i == index || !is_sharp(trust, other, now) || !is_recent(other->heard, now, TRUST_FRESH_NS))
            continue;
        result.known++;
        result.agree += !is_apart(own, other, now);
    }
    return result;
}

/* A majority would have to jump together to agree on a wrong time. So a node votes as soon as a quorum agrees with its
 * clock. When those that are not known yet cannot make a quorum either, the node is an outlier. Else nobody can
 * tell. */
void trust_compare_clocks(struct trust *trust, struct instant now)
{
    for (unsigned i = 0; i < trust->nodes; i++) {
        struct trust_node *node = &trust->node[i];
        if (node->quarantine != TRUST_CLOCK_UNCOMPARED)
            continue;
        struct comparison beside = compare(trust, i, now);
        if (beside.agree >= quorum(trust)) /* what the marker says against the node goes on */
            node->quarantine = trust_needs_healing(node) ? trust_reason_of(trust_proof_of(node)) : TRUST_FINE;
        else if (beside.agree + trust->nodes - beside.known < quorum(trust))
            node->quarantine = TRUST_CLOCK_OUTLIER;
    }
}
