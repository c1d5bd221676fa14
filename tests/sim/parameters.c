#include "tests/sim/parameters.h"

#include "tests/sim/node_model.h"

#define TTL_MIN_NS    (500 * NS_PER_MS)
#define TTL_MAX_NS    (60 * NS_PER_S)
#define PASS_SLACK_NS (10 * NS_PER_MS) /* as in the driver */

static int64_t whole_ms(int64_t ns)
{
    return ns - ns % NS_PER_MS;
}

static void group_draw(struct parameters *p, struct chance *chance)
{
    static const unsigned sizes[] = {1, 2, 3, 3, 3, 3, 4, 5, 5, 5, 5, 7};
    p->nodes = sizes[chance_pick(chance, sizeof sizes / sizeof sizes[0])];
    p->clients = 3 + chance_pick(chance, SIM_CLIENTS_MAX - 2);
    p->locks = chance_pick(chance, 4) == 0 ? SIM_LOCKS_MAX : 1;
    p->resources = 1 + chance_pick(chance, SIM_RESOURCES_MAX);
    p->herd = chance_pick(chance, 4) == 0;
}

/* A prompt schedule keeps to what redlock_terms_check allows; the others go beyond, because the rules of the lock must
 * not depend on a well chosen timeout. */
static void terms_draw(struct parameters *p, struct chance *chance)
{
    int64_t ttl = whole_ms(chance_scale(chance, TTL_MIN_NS, TTL_MAX_NS));
    double drift = (double)chance_scale(chance, 1, 100) / 1000;
    bool generous = !p->prompt && chance_pick(chance, 3) == 0;
    bool mixed = !p->prompt && chance_pick(chance, 4) == 0;
    p->longest_ttl_ns = 0;
    p->shortest_ttl_ns = INT64_MAX;
    for (unsigned i = 0; i < p->clients; i++) {
        struct lease_terms *terms = &p->terms[i];
        *terms = (struct lease_terms){.nodes = p->nodes, .ttl_ns = ttl, .drift_factor = drift};
        if (mixed && ttl >= 4 * TTL_MIN_NS)
            terms->ttl_ns = whole_ms(ttl >> chance_pick(chance, 3));
        if (i == 0 || mixed)
            p->timeout_ns[i] = chance_scale(chance, terms->ttl_ns / 100, terms->ttl_ns / (generous ? 2 : 4));
        else
            p->timeout_ns[i] = p->timeout_ns[0];
        terms->pass_limit_ns = p->timeout_ns[i] + PASS_SLACK_NS;
        terms->tries = 1 + chance_pick(chance, 4);
        terms->retry_delay_ns = chance_scale(chance, NS_PER_MS, terms->ttl_ns / 10);
        terms->retry_jitter_ns = chance_below(chance, terms->ttl_ns / 10);
        lease_terms_derive(terms);
        if (terms->ttl_ns > p->longest_ttl_ns)
            p->longest_ttl_ns = terms->ttl_ns;
        if (terms->ttl_ns < p->shortest_ttl_ns)
            p->shortest_ttl_ns = terms->ttl_ns;
    }
}

static int64_t shortest_timeout(const struct parameters *p)
{
    int64_t shortest = p->timeout_ns[0];
    for (unsigned i = 1; i < p->clients; i++)
        if (p->timeout_ns[i] < shortest)
            shortest = p->timeout_ns[i];
    return shortest;
}

static void network_draw(struct parameters *p, struct chance *chance)
{
    static const unsigned spikes[] = {0, 0, 5, 50};
    int64_t timeout = shortest_timeout(p);
    /* There and back: two delays and two jitters, and still within the timeout when prompt. */
    int64_t most = p->prompt ? timeout / 5 : timeout * 3 / 4;
    p->delay_ns = chance_scale(chance, chance_pick(chance, 2) == 0 ? most / 8 : p->shortest_ttl_ns / 10000, most);
    p->delay_jitter_ns = chance_below(chance, p->prompt ? timeout / 5 : 2 * p->delay_ns);
    p->spike_per_mille = p->prompt ? 0 : spikes[chance_pick(chance, 4)];
    p->spike_ns = p->shortest_ttl_ns;
    p->late_ns = chance_below(chance, p->longest_ttl_ns);
}

static void faults_draw(struct parameters *p, struct chance *chance)
{
    p->faults = p->calm ? 0 : (unsigned)chance_between(chance, 1, (1 << FAULT_KINDS) - 1);
    p->fault_gap_ns = chance_between(chance, p->longest_ttl_ns / 20, p->longest_ttl_ns);
    if (p->faults & 1u << FAULT_PAUSE)
        p->pause_per_mille = chance_pick(chance, 40);
}

void parameters_draw(struct parameters *p, struct chance *chance)
{
    *p = (struct parameters){.begin = {NS_PER_S}};
    p->calm = chance_pick(chance, 5) == 0;
    p->prompt = p->calm && chance_pick(chance, 2) == 0;
    p->abrupt = !p->calm && chance_pick(chance, 3) == 0;
    p->replies_first = chance_pick(chance, 2) == 0;
    p->late_votes = chance_pick(chance, 2) == 0;
    group_draw(p, chance);
    terms_draw(p, chance);
    network_draw(p, chance);
    faults_draw(p, chance);
    p->calm_from = instant_after(p->begin, chance_between(chance, 2, 5) * p->longest_ttl_ns);
    p->drain_from = instant_after(p->calm_from, p->longest_ttl_ns * 7 / 2);
    if (p->abrupt)
        p->drain_from = p->calm_from;
    if (p->calm) /* without faults there is nothing to get over; a drain at any moment shows more leaks */
        p->drain_from = instant_after(p->begin, chance_below(chance, 3 * p->longest_ttl_ns));
}

int64_t parameters_node_rate(const struct parameters *p, struct chance *chance)
{
    int64_t most = (int64_t)(p->terms[0].drift_factor * (double)MODEL_NORMAL_RATE);
    switch (chance_pick(chance, 4)) {
    case 0:
        return MODEL_NORMAL_RATE + most;
    case 1:
        return MODEL_NORMAL_RATE - most;
    default:
        return MODEL_NORMAL_RATE + chance_between(chance, -most, most);
    }
}
