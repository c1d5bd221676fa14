/* The clocks of nodes beside ours, and whose clock stepped: a node's, or ours. */
#include "redlock/trust_private.h"

#include <math.h>
#include <string.h>

/* Far beyond any clock, and far enough from the ends of int64_t that nothing below overflows. */
static const int64_t latest_us = INT64_MAX / 4 / NS_PER_US;

/* False for a time that no clock shows, and for one that was not read between two moments. */
static bool trust_reading_makes_sense(const struct trust_reading *reading)
{
    return reading->node_us > 0 && reading->node_us <= latest_us && !instant_before(reading->answered, reading->asked);
}

/* rate x ns, rounded down; never overflows. */
static int64_t rate_of(const struct trust_promise *promise, int64_t ns)
{
    int64_t part = 1000000;
    return ns / part * promise->rate_ppm + ns % part * promise->rate_ppm / part;
}

/* How far bounds have moved apart since their origin. A step is forgiven once in a window. */
static int64_t spread(const struct trust_promise *promise, struct instant origin, struct instant at)
{
    int64_t apart = instant_since(origin, at);
    apart = apart < 0 ? -apart : apart;
    return rate_of(promise, apart) + 2 + (apart / promise->window_ns + 1) * LEASE_FORGIVEN_NS;
}

struct trust_span trust_clock_offset(const struct trust_clock *clock, const struct trust_promise *promise,
                                     struct instant at)
{
    struct trust_span offset = {INT64_MIN, INT64_MAX};
    int64_t before = instant_since(at, clock->heard), more = 0;
    if (before > 0) { /* before the last sample, its own bounds are what is known */
        at = clock->heard;
        more = rate_of(promise, before) + 1;
    }
    for (unsigned i = 0; i < clock->count; i++) {
        const struct trust_bounds *bounds = &clock->bounds[i];
        int64_t apart = spread(promise, bounds->origin, at);
        offset.least = bounds->low - apart > offset.least ? bounds->low - apart : offset.least;
        offset.most = bounds->high + apart < offset.most ? bounds->high + apart : offset.most;
    }
    return (struct trust_span){offset.least - more, offset.most + more};
}

/* The node cut its time to whole microseconds. The upper bound assumes that it read the time when it was asked, the
 * lower one when it answered. */
static struct trust_bounds bounds_of(const struct trust_promise *promise, const struct trust_reading *reading)
{
    int64_t trip_ns = instant_since(reading->asked, reading->answered);
    int64_t node_ns = reading->node_us * NS_PER_US;
    return (struct trust_bounds){.origin = reading->asked,
                                 .low = node_ns - reading->answered.ns + rate_of(promise, trip_ns),
                                 .high = node_ns + (NS_PER_US - 1) - reading->asked.ns};
}

/* The origin of the first stays. */
static void merge(struct trust_bounds *bounds, const struct trust_promise *promise, const struct trust_bounds *newer)
{
    int64_t moved = rate_of(promise, instant_since(bounds->origin, newer->origin));
    bounds->low = newer->low + moved > bounds->low ? newer->low + moved : bounds->low;
    bounds->high = newer->high - moved < bounds->high ? newer->high - moved : bounds->high;
}

/* The sample that was the newest joins the others of its time. */
static void keep(struct trust_clock *clock, const struct trust_promise *promise, const struct trust_bounds *fresh)
{
    int64_t span_ns = promise->window_ns / (TRUST_CLOCK_BUCKETS - 2);
    struct trust_bounds *newest = clock->count > 0 ? &clock->bounds[clock->count - 1] : NULL;
    struct trust_bounds *others = clock->count > 1 ? newest - 1 : NULL;
    if (others == NULL || instant_since(others->origin, newest->origin) >= span_ns) {
        if (clock->count == TRUST_CLOCK_BUCKETS)
            memmove(&clock->bounds[0], &clock->bounds[1], --clock->count * sizeof clock->bounds[0]);
        clock->bounds[clock->count++] = *fresh;
        return;
    }
    merge(others, promise, newest);
    *newest = *fresh;
}

/* The newest bounds that show the step by themselves: it was after them. */
static struct instant stepped_after(const struct trust_clock *clock, const struct trust_promise *promise,
                                    const struct trust_reading *reading, const struct trust_span *told)
{
    for (unsigned i = clock->count - 1; i > 0; i--) {
        const struct trust_bounds *bounds = &clock->bounds[i];
        int64_t apart = spread(promise, bounds->origin, reading->answered);
        if (told->least > bounds->high + apart || told->most < bounds->low - apart)
            return bounds->origin;
    }
    return clock->bounds[0].origin;
}

/* The newest sample may have been on its way when our clock stood: its width then hides the first part of the step. */
static struct trust_span with_hidden_part(const struct trust_clock *clock, const struct trust_promise *promise,
                                          const struct trust_reading *reading, const struct trust_span *told,
                                          struct trust_span moved)
{
    struct trust_clock before = *clock;
    if (--before.count == 0)
        return moved;
    int64_t least = told->least - trust_clock_offset(&before, promise, reading->answered).most;
    int64_t most = told->most - trust_clock_offset(&before, promise, reading->asked).least;
    if (moved.least > 0 && most > moved.most)
        moved.most = most;
    if (moved.most < 0 && least < moved.least)
        moved.least = least;
    return moved;
}

struct trust_clock_news trust_clock_read(struct trust_clock *clock, const struct trust_promise *promise,
                                         const struct trust_reading *reading)
{
    invariant(trust_reading_makes_sense(reading));
    struct trust_clock_news news = {.is_first = !clock->is_known};
    struct trust_bounds fresh = bounds_of(promise, reading);
    struct trust_span told = {reading->node_us * NS_PER_US - reading->answered.ns, fresh.high};
    if (!news.is_first) {
        int64_t low = trust_clock_offset(clock, promise, reading->asked).least;
        int64_t high = trust_clock_offset(clock, promise, reading->answered).most;
        news.moved = (struct trust_span){told.least - high, told.most - low};
        news.blur_ns = (high - low) + (told.most - told.least);
        news.is_step = news.moved.least > 0 || news.moved.most < 0;
        news.from = clock->bounds[clock->count - 1].origin;
    }
    if (news.is_step) {
        news.from = stepped_after(clock, promise, reading, &told);
        news.moved = with_hidden_part(clock, promise, reading, &told, news.moved);
    }
    if (news.is_step || news.is_first)
        *clock = (struct trust_clock){.is_known = true, .steady_since = reading->asked};
    keep(clock, promise, &fresh);
    clock->heard = reading->answered;
    return news;
}

/* The double next to INT64_MAX is above it. */
static int64_t whole(double number)
{
    if (number >= (double)INT64_MAX)
        return INT64_MAX;
    return number <= (double)INT64_MIN ? INT64_MIN : (int64_t)number;
}

static double ppm_of(double node_ns, double our_ns)
{
    return (node_ns / our_ns - 1) * 1e6;
}

/* The node cut both times to whole microseconds. If its time went back, our shorter time gives the lower rate. */
struct trust_span trust_rate_ppm(const struct trust_reading *first, const struct trust_reading *second)
{
    double shortest = (double)instant_since(first->answered, second->asked);
    double longest = (double)instant_since(first->asked, second->answered);
    if (shortest <= 0 || !trust_reading_makes_sense(first) || !trust_reading_makes_sense(second))
        return (struct trust_span){INT64_MIN, INT64_MAX};
    double least = (double)((second->node_us - first->node_us - 1) * NS_PER_US);
    double most = (double)((second->node_us - first->node_us + 1) * NS_PER_US);
    return (struct trust_span){whole(floor(ppm_of(least, least < 0 ? shortest : longest))),
                               whole(ceil(ppm_of(most, most < 0 ? longest : shortest)))};
}

int64_t trust_median_low(int64_t *numbers, unsigned count)
{
    invariant(count > 0);
    for (unsigned i = 1; i < count; i++)
        for (unsigned j = i; j > 0 && numbers[j] < numbers[j - 1]; j--) {
            int64_t smaller = numbers[j];
            numbers[j] = numbers[j - 1];
            numbers[j - 1] = smaller;
        }
    return numbers[(count - 1) / 2];
}

/* --- whose clock stepped ------------------------------------------------------------------------------------------ */

#define TOGETHER_NS (3 * NS_PER_S) /* steps that may have one cause */

static bool is_step(struct trust_span span)
{
    return span.least > 0 || span.most < 0;
}

static struct trust_span sum_of(struct trust_span one, struct trust_span other)
{
    return (struct trust_span){one.least + other.least, one.most + other.most};
}

static struct trust_span less(struct trust_span whole, struct trust_span part)
{
    return (struct trust_span){whole.least - part.most, whole.most - part.least};
}

static bool is_recent(struct instant at, struct instant now, int64_t span_ns)
{
    return instant_since(at, now) <= span_ns;
}

/* How far off a step of ours may seem on a node, whose clock ran at its own rate meanwhile and may have made a forgiven
 * step. */
static int64_t own_blur(const struct trust *trust, int64_t ns)
{
    struct trust_promise promise = trust_promise_of(trust);
    double size = fabs((double)ns);
    double forgiven = (size / (double)promise.window_ns + 1) * (double)LEASE_FORGIVEN_NS;
    return (int64_t)(size * trust->drift_factor / (1 - trust->drift_factor) + forgiven) + 1;
}

/* How long our clock stood, if that was the cause. */
static struct trust_span own_step(const struct trust *trust, struct trust_span shown)
{
    return (struct trust_span){shown.least - own_blur(trust, shown.least), shown.most + own_blur(trust, shown.most)};
}

static bool has_shown(const struct trust_node *node, struct instant now)
{
    return is_step(node->shown) && is_recent(node->stepped_at, now, TOGETHER_NS);
}

/* The nodes that can have shown a step of exactly this size at exactly this moment, and that no clock contradicts. */
static node_set nodes_along(const struct trust *trust, int64_t size_ns, struct instant at, struct instant now)
{
    node_set along = 0;
    for (unsigned i = 0; i < trust->nodes; i++) {
        const struct trust_node *node = &trust->node[i];
        bool by_that = node->shown.least <= size_ns && size_ns <= node->shown.most;
        bool was_then = !instant_before(at, node->shown_from) && !instant_before(node->shown_to, at);
        if (has_shown(node, now) && node->vouched == 0 && by_that && was_then)
            along |= set_of(i);
    }
    return along;
}

/* A quorum of nodes that showed a step of ours together: those that share the size and the moment that most nodes
 * share. What many spans have in common includes the beginning of one of them. */
static node_set nodes_that_agree(const struct trust *trust, struct instant now)
{
    node_set best = 0;
    for (unsigned i = 0; i < trust->nodes && is_group(trust); i++)
        for (unsigned k = 0; k < trust->nodes; k++) {
            node_set along = nodes_along(trust, trust->node[i].shown.least, trust->node[k].shown_from, now);
            if (__builtin_popcount(along) > __builtin_popcount(best))
                best = along;
        }
    return (unsigned)__builtin_popcount(best) >= quorum(trust) ? best : 0;
}

/* Takes the blame for these steps from the node, but not that for an earlier one. Its clock still has to agree with a
 * quorum: a clock that was blamed before it was compared may be wrong. */
static void acquit(struct trust_node *node)
{
    node->doubt_wanted = node->doubts = false;
    node->step = node->shown = node->owed = (struct trust_span){0};
    if (node->quarantine != TRUST_CLOCK_STEPPED)
        return;
    if (node->blamed_before.ns != 0)
        node->quarantined_at = node->blamed_before;
    else
        node->quarantine = TRUST_CLOCK_UNCOMPARED;
}

/* A node that has not answered since the first of them showed the step has yet to show it. */
static void blame_own_clock(struct trust *trust, node_set along, struct instant now)
{
    struct trust_span size = {INT64_MIN, INT64_MAX};
    struct instant first = now;
    for (unsigned i = 0; i < trust->nodes; i++) {
        struct trust_node *node = &trust->node[i];
        if (!(along & set_of(i)))
            continue;
        size.least = node->shown.least > size.least ? node->shown.least : size.least;
        size.most = node->shown.most < size.most ? node->shown.most : size.most;
        first = instant_earlier(first, node->stepped_at);
        acquit(node);
    }
    for (unsigned i = 0; i < trust->nodes; i++) {
        struct trust_node *node = &trust->node[i];
        if (!(along & set_of(i)) && instant_before(node->clock.heard, first) && !has_shown(node, now))
            node->owed = sum_of(node->owed, size);
    }
}

static void blame_node(struct trust *trust, struct trust_node *node, struct instant heard, struct instant now)
{
    trust_quarantine_clock(trust, node, TRUST_CLOCK_STEPPED, now);
    node->doubts = false;
    node->doubt_wanted = is_group(trust) && is_recent(heard, node->stepped_at, TRUST_FRESH_NS);
    memcpy(node->stepped_run, node->marker.run, sizeof node->stepped_run);
}

/* An answer that was on its way while our clock stood may show a part of the step, and the next one the rest. */
static void show(struct trust_node *node, struct trust_span own, const struct trust_clock_news *news,
                 const struct trust_reading *reading, struct instant now)
{
    bool is_part = has_shown(node, now) && (node->shown.least > 0) == (own.least > 0);
    if (is_part) {
        node->shown = sum_of(node->shown, own);
        node->shown_from = node->shown_asked;
        return;
    }
    node->shown = own;
    node->shown_asked = reading->asked;
    node->shown_from = news->from;
    node->shown_to = reading->answered;
    node->blamed_before = node->quarantine == TRUST_CLOCK_STEPPED ? node->quarantined_at : (struct instant){0};
}

static void take_step(struct trust *trust, unsigned index, const struct trust_clock_news *news, struct instant heard,
                      const struct trust_reading *reading, struct instant now, struct trust_step *step)
{
    struct trust_node *node = &trust->node[index];
    struct trust_span own = less(own_step(trust, news->moved), node->owed);
    step->forgot |= set_of(index);
    bool is_ours = is_step(node->owed) && !is_step(own);
    node->owed = (struct trust_span){0};
    if (is_ours)
        return;
    show(node, own, news, reading, now);
    node->step = news->moved;
    node->step_from = news->from;
    node->stepped_at = reading->answered;
    node->vouched = 0;
    node_set along = nodes_that_agree(trust, now);
    step->own_clock_stood = along != 0;
    if (along)
        blame_own_clock(trust, along, now);
    if (along & set_of(index))
        return;
    blame_node(trust, node, heard, now);
    step->look = (node_set)((1u << trust->nodes) - 1u);
    step->suspect_ns = own.most > 0 ? own.most : 0;
}

/* The samples of `index` before and after another node's step fit together, so our clock did not stand still between
 * them. Returns whether that was not known yet. */
static bool vouch(struct trust *trust, unsigned index, const struct trust_clock_news *news,
                  const struct trust_reading *reading)
{
    bool is_news = false;
    for (unsigned i = 0; i < trust->nodes; i++) {
        struct trust_node *node = &trust->node[i];
        bool spans = !instant_before(node->step_from, trust->node[index].clock.steady_since) &&
                     !instant_before(node->stepped_at, news->from) && !instant_before(reading->asked, node->stepped_at);
        int64_t size_ns = node->step.least > 0 ? node->step.least : -node->step.most;
        if (i == index || size_ns <= news->blur_ns || !spans || (node->vouched & set_of(index)))
            continue;
        node->vouched |= set_of(index);
        is_news = true;
    }
    return is_news;
}

/* A sample that was long on its way could hide the very step or distance that is looked for. */
static bool is_sharp(const struct trust *trust, const struct trust_clock *clock, struct instant now)
{
    struct trust_span offset = trust_offset(trust, clock, now);
    return clock->is_known && offset.most - offset.least < TRUST_APART_NS + trust->timeout_ns;
}

bool trust_take_reading(struct trust *trust, unsigned index, const struct trust_reading *reading, struct instant now,
                        struct trust_step *step)
{
    struct trust_node *node = &trust->node[index];
    if (!trust_reading_makes_sense(reading))
        return false;
    struct trust_promise promise = trust_promise_of(trust);
    struct instant heard = node->clock.heard;
    bool was_sharp = is_sharp(trust, &node->clock, node->clock.heard);
    struct trust_clock_news news = trust_clock_read(&node->clock, &promise, reading);
    if (!was_sharp && !news.is_first && node->quarantine != TRUST_CLOCK_UNCOMPARED)
        step->forgot |= set_of(index); /* its quarantine ended by time: what it granted since is no vote */
    if (!was_sharp)
        trust_quarantine_clock(trust, node, TRUST_CLOCK_UNCOMPARED, now);
    if (news.is_step)
        take_step(trust, index, &news, heard, reading, now, step);
    else if (news.is_first || is_step(less(own_step(trust, news.moved), node->owed)))
        node->owed = (struct trust_span){0}; /* it stood still with us, or stepped back as far */
    return !was_sharp || news.is_step || vouch(trust, index, &news, reading) ||
           node->quarantine == TRUST_CLOCK_UNCOMPARED;
}

/* A majority would have to jump together to agree on a wrong time, so a node votes as soon as a quorum agrees with its
 * clock. It is an outlier when even the clocks that are not known yet cannot make that a quorum. */
void trust_compare_clocks(struct trust *trust, struct instant now)
{
    for (unsigned i = 0; i < trust->nodes; i++) {
        struct trust_node *node = &trust->node[i];
        unsigned known = 1, agree = 1; /* the node itself */
        if (node->quarantine != TRUST_CLOCK_UNCOMPARED)
            continue;
        struct trust_span here = trust_offset(trust, &node->clock, now);
        for (unsigned k = 0; k < trust->nodes && is_sharp(trust, &node->clock, now); k++) {
            const struct trust_clock *other = &trust->node[k].clock;
            if (k == i || !is_sharp(trust, other, now) || !is_recent(other->heard, now, TRUST_FRESH_NS))
                continue;
            struct trust_span there = trust_offset(trust, other, now);
            known++;
            agree += here.least - there.most <= TRUST_APART_NS && there.least - here.most <= TRUST_APART_NS;
        }
        if (agree >= quorum(trust)) /* what the marker says against the node goes on */
            node->quarantine = trust_needs_healing(node) ? trust_reason_of(trust_proof_of(node)) : TRUST_FINE;
        else if (agree + trust->nodes - known < quorum(trust))
            node->quarantine = TRUST_CLOCK_OUTLIER;
    }
}
