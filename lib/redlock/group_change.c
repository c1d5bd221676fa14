/* Making a group, healing nodes and replacing one: performs what membership.c plans and what trust.c wants written, and
 * looks at all nodes again after each step. */
#include <string.h>

#include "base/log.h"
#include "base/random.h"
#include "redlock/limits.h"
#include "redlock/operator_session.h"

#define SOON_NS          (20 * NS_PER_MS)
#define LOOK_NS          (250 * NS_PER_MS) /* between two looks at all nodes while time passes */
#define OTHERS_RETURN_NS (6 * NS_PER_S)    /* a client at rest looks at each node every 5 s */
#define HEAL_SLACK_NS    (1 * NS_PER_S)    /* for what is asked and written meanwhile */
#define LOOK_AGAIN_NS    (500 * NS_PER_MS)

/* One change of membership under way. */
struct change {
    struct redlock_nodes *nodes;
    int leaving; /* MEMBERSHIP_NOBODY: only bring members up to date */
    struct server *newcomer;
    char new_id[MARKER_ID_DIGITS + 1];
    uint32_t waiting_for; /* a generation; 0 = none yet */
    struct instant waited_at;
};

static struct change change_begin(struct redlock_nodes *nodes, int leaving, struct server *newcomer)
{
    struct change change = {.nodes = nodes, .leaving = leaving, .newcomer = newcomer};
    random_digits(change.new_id, MARKER_ID_DIGITS);
    return change;
}

static struct membership_step change_plan(struct change *change)
{
    struct redlock_nodes *nodes = change->nodes;
    struct membership_node newcomer;
    struct membership membership = {.nodes = nodes->count, .leaving = change->leaving, .new_id = change->new_id};
    for (unsigned i = 0; i < nodes->count; i++)
        server_member(&nodes->servers[i], &membership.node[i]);
    if (change->newcomer == &nodes->servers[nodes->count]) {
        server_member(change->newcomer, &newcomer);
        membership.newcomer = &newcomer;
    } else if (change->newcomer != NULL) {
        membership.newcomer = &membership.node[change->leaving];
        memcpy(change->new_id, change->newcomer->inspection.run_id, MARKER_ID_DIGITS); /* as clients record it */
    }
    if (change->waiting_for != 0 && instant_reached(instant_now(), change->waited_at))
        membership.waited_for = change->waiting_for;
    return membership_next(&membership);
}

/* How long a grant can live after the last vote for it, by our own clock. */
static int64_t nodes_wait_ns(const struct redlock_nodes *nodes, const struct marker *group)
{
    return lease_wait_ns(group->max_ttl_ms * NS_PER_MS, redlock_drift_factor(nodes->options),
                         nodes->longest_patience_ns);
}

static int64_t change_left_ns(struct change *change, const struct membership_step *step)
{
    struct instant now = instant_now();
    if (change->waiting_for != step->group.generation) {
        bool gives_away = change->leaving != MEMBERSHIP_NOBODY; /* else others may know better */
        change->waiting_for = step->group.generation;
        change->waited_at =
            instant_after(now, gives_away ? nodes_wait_ns(change->nodes, &step->group) : OTHERS_RETURN_NS);
    }
    return instant_since(now, change->waited_at);
}

/* False when it could not be written; the next look tells what is there now. */
static bool change_write(struct change *change, const struct membership_step *step)
{
    struct redlock_nodes *nodes = change->nodes;
    struct server *server = step->server == MEMBERSHIP_NEWCOMER ? change->newcomer : &nodes->servers[step->server];
    unsigned but = change->leaving != MEMBERSHIP_NOBODY ? (unsigned)change->leaving : nodes->count;
    int64_t highest = step->gives_vote ? trust_highest_token(&nodes->trust, but) : TRUST_KEEPS_FENCES;
    return server_mark(server, step->expected, step->text, highest) != MARK_FAILED;
}

/* --- healing ------------------------------------------------------------------------------------------------------ */

struct healing {
    struct redlock_nodes *nodes;
    const bool *wanted; /* NULL = all */
    struct instant end; /* it may wait until then */
    bool waits;
    struct change members, readmission; /* one at a time */
    bool is_readmitting;
    struct instant blank_since[REDLOCK_NODES_MAX]; /* 0 = it has a marker, or was not looked at */
    bool is_stuck;                                 /* the membership itself lets nobody in */
    bool wrote;                                    /* in this round */
    struct instant next;                           /* when something is due; INSTANT_NEVER = nothing ever */
    struct instant all_vote;                       /* not before */
    unsigned refused, unreachable, to_wait;
};

static void healing_waits(struct healing *healing, struct instant until)
{
    healing->to_wait++;
    healing->next = instant_earlier(healing->next, until);
    if (instant_before(healing->all_vote, until))
        healing->all_vote = until;
}

/* Afterwards the contested numbers are given anew, to nodes that have no vote before a quarantine is over. */
static void changes_meet(struct healing *healing, const struct membership_step *step)
{
    struct instant settled = instant_after(instant_now(), change_left_ns(&healing->members, step));
    healing_waits(healing, instant_after(settled, nodes_wait_ns(healing->nodes, &step->group)));
    healing->next = instant_earlier(healing->next, settled);
}

/* Brings members up to date that a change did not reach. */
static void members_update(struct healing *healing)
{
    struct membership_step step = change_plan(&healing->members);
    if (step.verdict == MEMBERSHIP_WRITE)
        healing->wrote |= change_write(&healing->members, &step);
    healing->is_stuck = step.verdict != MEMBERSHIP_WRITE && step.verdict != MEMBERSHIP_DONE;
    if (!healing->is_stuck)
        return;
    if (step.verdict == MEMBERSHIP_WAIT)
        changes_meet(healing, &step);
    healing->unreachable += step.verdict == MEMBERSHIP_TOO_FEW;
    healing->refused += step.verdict == MEMBERSHIP_REFUSED;
    nodes_tell(healing->nodes, "%s", step.reason);
}

/* A process that saw a server under its number gives it back, and holders give their locks back. So it gets its time
 * for that; and who has no time for all of it begins nothing. */
static bool others_may_know(struct healing *healing, unsigned index, const struct marker *group)
{
    struct instant now = instant_now(), *since = &healing->blank_since[index];
    bool is_blank = healing->nodes->trust.node[index].reason == TRUST_NO_MARKER;
    if (since->ns == 0)
        *since = now;
    struct instant begin = is_blank ? instant_after(*since, OTHERS_RETURN_NS) : *since;
    if (healing->waits && instant_reached(now, begin))
        return false;
    healing_waits(healing, instant_after(begin, nodes_wait_ns(healing->nodes, group)));
    healing->next = instant_earlier(healing->next, instant_earlier(begin, instant_after(now, LOOK_AGAIN_NS)));
    return true;
}

/* Gives a number to a node that has lost its marker, or whose marker names a number that it no longer has. */
static void node_readmit(struct healing *healing, unsigned index)
{
    struct redlock_nodes *nodes = healing->nodes;
    struct change *change = &healing->readmission;
    if (healing->is_readmitting && change->leaving != (int)index) { /* one after the other */
        healing->to_wait++;
        return;
    }
    if (!healing->is_readmitting)
        *change = change_begin(nodes, (int)index, &nodes->servers[index]);
    struct membership_step step = change_plan(change);
    healing->is_readmitting = step.verdict == MEMBERSHIP_WRITE;
    if (healing->is_readmitting && others_may_know(healing, index, &step.group)) {
        healing->is_readmitting = false;
    } else if (step.verdict == MEMBERSHIP_WRITE) {
        healing->wrote |= change_write(change, &step);
        healing_waits(healing, instant_now());
    } else if (step.verdict == MEMBERSHIP_TOO_FEW || step.verdict == MEMBERSHIP_REFUSED) {
        healing->unreachable += step.verdict == MEMBERSHIP_TOO_FEW;
        healing->refused += step.verdict == MEMBERSHIP_REFUSED;
        nodes_tell(nodes, "%s: %s", nodes->servers[index].name, step.reason);
    }
}

static bool wants_number(const struct trust_node *trusted)
{
    return trusted->reason == TRUST_NO_MARKER || trusted->reason == TRUST_NOT_A_MEMBER ||
           trusted->reason == TRUST_OTHER_GENERATION;
}

static void node_heal(struct healing *healing, unsigned index)
{
    struct redlock_nodes *nodes = healing->nodes;
    const struct server *server = &nodes->servers[index];
    const struct trust_node *trusted = &nodes->trust.node[index];
    if (healing->readmission.leaving == (int)index && !wants_number(trusted))
        healing->is_readmitting = false; /* it has its number: the next node may get one */
    if (!server->is_reached) {
        healing->unreachable++;
        nodes_tell(nodes, "%s: cannot be asked: %s", server->name, server->trouble);
    } else if (server->unwritable[0] != '\0') {
        healing->refused++;
        nodes_tell(nodes, "%s: its marker cannot be written: %s", server->name, server->unwritable);
    } else if (trusted->state == TRUST_QUARANTINED) {
        healing_waits(healing, trust_node_until(&nodes->trust, index));
    } else if (healing->is_stuck) {
        return;
    } else if (wants_number(trusted)) {
        node_readmit(healing, index);
    } else if (trusted->state != TRUST_VOTES) {
        bool waits_for_others = trusted->reason == TRUST_UNRECORDED;
        healing->unreachable += waits_for_others;
        healing->refused += !waits_for_others;
        nodes_tell(nodes, "%s: %s", server->name, trust_advice(&nodes->trust, index));
    }
}

/* True when nothing more can be done without time passing. */
static bool healing_round(struct healing *healing)
{
    struct redlock_nodes *nodes = healing->nodes;
    nodes_begin(nodes);
    healing->wrote = false;
    healing->refused = healing->unreachable = healing->to_wait = 0;
    healing->next = INSTANT_NEVER;
    healing->all_vote = instant_now();
    nodes_inspect(nodes);
    members_update(healing);
    if (!healing->wrote)
        healing->wrote = nodes_write_trusted(nodes);
    for (unsigned i = 0; i < nodes->count && !healing->wrote; i++)
        if (healing->wanted == NULL || healing->wanted[i])
            node_heal(healing, i);
    return !healing->wrote;
}

static int64_t pause_ns(int64_t left_ns)
{
    return left_ns < SOON_NS ? SOON_NS : left_ns < LOOK_NS ? left_ns : LOOK_NS;
}

/* What a process waited for is known to that process alone, so the time of several calls does not add up. */
static bool is_too_short(const struct healing *healing)
{
    return healing->waits && instant_before(healing->end, healing->all_vote);
}

static enum redlock_nodes_end healing_ends(struct healing *healing)
{
    struct redlock_nodes *nodes = healing->nodes;
    int64_t left_ns = instant_since(instant_now(), healing->all_vote);
    if (healing->to_wait > 0)
        nodes_tell(nodes, "%u node%s need%s time before %s can vote: about %lld s", healing->to_wait,
                   healing->to_wait == 1 ? "" : "s", healing->to_wait == 1 ? "s" : "",
                   healing->to_wait == 1 ? "it" : "they", (long long)(left_ns / NS_PER_S + 1));
    if (healing->to_wait > 0 && is_too_short(healing))
        nodes_tell(nodes,
                   "that is longer than it may wait, and the time of several calls does not add up: let one "
                   "wait for %lld s",
                   (long long)((left_ns + HEAL_SLACK_NS) / NS_PER_S + 1));
    if (healing->refused > 0)
        return REDLOCK_NODES_REFUSED;
    if (healing->to_wait > 0)
        return REDLOCK_NODES_WAITING;
    return healing->unreachable > 0 ? REDLOCK_NODES_TOO_FEW : REDLOCK_NODES_DONE;
}

enum redlock_nodes_end redlock_nodes_heal(struct redlock_nodes *nodes, const bool *wanted, int64_t wait_ms)
{
    if (nodes == NULL)
        return REDLOCK_NODES_REFUSED;
    struct healing healing = {.nodes = nodes, .wanted = wanted, .waits = wait_ms > 0, .end = INSTANT_NEVER};
    if (wait_ms < INT64_MAX)
        healing.end = instant_after(instant_now(), ns_from_ms(wait_ms));
    healing.members = change_begin(nodes, MEMBERSHIP_NOBODY, NULL);
    for (;;) {
        if (!healing_round(&healing))
            continue;
        if (!healing.waits || healing.to_wait == 0 || is_too_short(&healing))
            return healing_ends(&healing);
        int64_t left_ns = instant_since(instant_now(), healing.next);
        if (!nodes_pause(nodes, "waiting until what nodes may have forgotten has expired", left_ns, pause_ns(left_ns)))
            return healing_ends(&healing);
    }
}

/* --- replacing ---------------------------------------------------------------------------------------------------- */

/* Tells what keeps the server out of any group, such as that it is the `same` as another. False: nothing does. */
static bool is_unfit(struct redlock_nodes *nodes, const struct server *server, const struct server *same)
{
    if (!server->is_reached)
        nodes_tell(nodes, "%s: cannot be asked: %s", server->name, server->trouble);
    else if (same != NULL)
        nodes_tell(nodes, "%s: is the same server as %s (run id %s): every node needs a server of its own",
                   server->name, same->name, server->inspection.run_id);
    else if (server->inspection.evicts)
        nodes_tell(nodes, "%s: evicts keys when its memory is full (maxmemory-policy %s): set it to noeviction",
                   server->name, server->view.eviction);
    else
        return false;
    return true;
}

/* Tells of a key below `prefix`, or that it is not known whether there is one. False: there is none. */
static bool has_keys(struct redlock_nodes *nodes, struct server *server, const char *prefix, const char *already,
                     const char *advice)
{
    char quoted[LOG_QUOTE_MAX];
    if (!server_find_key(server, prefix))
        nodes_tell(nodes, "%s: whether there are keys is not known: %s", server->name, server->trouble);
    else if (server->found.length > 0)
        nodes_tell(nodes, "%s: there are keys%s, such as %s: %s", server->name, already,
                   log_quote(buffer_text(&server->found), quoted), advice);
    else
        return false;
    return true;
}

/* Whether the server can be a member at all. membership.c judges what it is to the group. */
static enum redlock_nodes_end newcomer_check(struct redlock_nodes *nodes)
{
    struct server *newcomer = &nodes->servers[nodes->count];
    bool may_have_its_number = newcomer->has_marker;
    if (!is_unfit(nodes, newcomer, nodes_same_server(nodes, newcomer)) &&
        (may_have_its_number || !has_keys(nodes, newcomer, "", "", "only an empty server can become a member")))
        return REDLOCK_NODES_DONE;
    return newcomer->is_reached || newcomer->is_refused ? REDLOCK_NODES_REFUSED : REDLOCK_NODES_TOO_FEW;
}

static enum redlock_nodes_end replacement_run(struct redlock_nodes *nodes, struct change *change)
{
    for (;;) {
        nodes_begin(nodes);
        nodes_inspect(nodes);
        enum redlock_nodes_end end = newcomer_check(nodes);
        if (end != REDLOCK_NODES_DONE)
            return end;
        struct membership_step step = change_plan(change);
        if (step.verdict == MEMBERSHIP_DONE)
            return REDLOCK_NODES_DONE;
        if (step.verdict == MEMBERSHIP_WRITE) {
            change_write(change, &step); /* a node that cannot be written counts as unreachable from then on */
            continue;
        }
        if (step.verdict != MEMBERSHIP_WAIT) {
            end = nodes_tell(nodes, "%s", step.reason);
            return step.verdict == MEMBERSHIP_TOO_FEW ? REDLOCK_NODES_TOO_FEW : end;
        }
        int64_t left_ns = change_left_ns(change, &step);
        if (nodes_pause(nodes, "waiting until what was granted with the old node has expired", left_ns,
                        pause_ns(left_ns)))
            continue;
        nodes_tell(nodes, "the replacement was begun and is not finished: call it again, it goes on");
        return REDLOCK_NODES_WAITING;
    }
}

enum redlock_nodes_end redlock_nodes_replace(struct redlock_nodes *nodes, size_t index,
                                             const struct redlock_node *successor)
{
    if (nodes == NULL)
        return REDLOCK_NODES_REFUSED;
    char reason[256];
    struct server *newcomer = &nodes->servers[nodes->count];
    nodes_begin(nodes);
    if (nodes->count < 3 || index >= nodes->count)
        return nodes_tell(nodes, "only a node of a lock group can be replaced");
    if (!redlock_options_check(&(struct redlock_options){.nodes = successor, .node_count = 1}, reason, sizeof reason))
        return nodes_tell(nodes, "the new server: %s", successor != NULL ? reason : "it is NULL");
    server_open(nodes, newcomer, successor);
    nodes_settle(nodes);
    struct change change = change_begin(nodes, (int)index, newcomer);
    enum redlock_nodes_end end = replacement_run(nodes, &change);
    server_close(newcomer);
    return end;
}

/* --- a new group -------------------------------------------------------------------------------------------------- */

/* Everything is checked before anything is written. The nodes are written one after the other, and nobody votes before
 * a quorum of them has its marker. If one fails, the earlier ones are taken back by compare-and-delete. A process that
 * dies in between leaves some markers of a group, which the next `init` reports. */

static void server_check(struct redlock_nodes *nodes, struct server *server, bool keep_keys)
{
    const struct server *same = nodes_same_server(nodes, server);
    const char *prefix = nodes->options->key_prefix != NULL ? nodes->options->key_prefix : "";
    if (is_unfit(nodes, server, same != NULL && same < server ? same : NULL))
        return;
    if (server->has_marker)
        nodes_tell(nodes,
                   "%s: belongs to a lock group already (%s, generation %u). `holdfast nodes` shows it; if that group "
                   "is of no use to anybody, remove the key %s there first",
                   server->name, server->marker.group, (unsigned)server->marker.generation, MARKER_KEY);
    else if (server->is_of_other_scheme)
        nodes_tell(
            nodes,
            "%s: another version of Holdfast, with another scheme, made the group that its key %s names. If that "
            "is the newer one, update this program first; else see docs/operations.md, Upgrades",
            server->name, MARKER_KEY);
    else if (server->bad_marker)
        nodes_tell(nodes, "%s: what is under its key %s is no marker: remove it", server->name, MARKER_KEY);
    else if (!keep_keys)
        (void)has_keys(
            nodes, server, prefix, " already",
            "a new group begins without locks. Empty it, or, when these nodes served a fleet before they were a "
            "group, keep the keys (--keep-keys)");
}

static enum redlock_nodes_end all_check(struct redlock_nodes *nodes, bool keep_keys)
{
    unsigned unreachable = 0, complaints = 0;
    for (unsigned i = 0; i < nodes->count; i++) {
        size_t before = nodes->reason.length;
        server_check(nodes, &nodes->servers[i], keep_keys);
        complaints += nodes->reason.length > before;
        unreachable += !nodes->servers[i].is_reached && !nodes->servers[i].is_refused;
    }
    if (complaints == 0)
        return REDLOCK_NODES_DONE;
    return unreachable == complaints ? REDLOCK_NODES_TOO_FEW : REDLOCK_NODES_REFUSED;
}

static struct marker group_draw(const struct redlock_nodes *nodes, int64_t max_ttl_ms)
{
    struct marker group = {.generation = 1, .max_ttl_ms = max_ttl_ms, .member_count = nodes->count};
    random_digits(group.group, MARKER_GROUP_DIGITS);
    for (unsigned i = 0; i < nodes->count; i++)
        do
            random_digits(group.members[i], MARKER_ID_DIGITS);
        while (marker_number_of(&group, group.members[i]) != (int)i);
    return group;
}

static void text_of(const struct redlock_nodes *nodes, struct marker group, unsigned index, bool keep_keys,
                    char text[MARKER_TEXT_MAX])
{
    memcpy(group.self, group.members[index], sizeof group.self);
    if (!keep_keys)
        memcpy(group.run, nodes->servers[index].inspection.run_id, sizeof group.run);
    marker_write(&group, text);
}

static void take_back(struct redlock_nodes *nodes, const struct marker *group, unsigned count, bool keep_keys)
{
    char text[MARKER_TEXT_MAX];
    for (unsigned i = 0; i < count; i++) {
        text_of(nodes, *group, i, keep_keys, text);
        if (server_mark(&nodes->servers[i], text, "", TRUST_KEEPS_FENCES) == MARK_FAILED)
            nodes_tell(nodes,
                       "%s: its marker could not be taken back (%s): remove the key %s there before you try again",
                       nodes->servers[i].name, nodes->servers[i].trouble, MARKER_KEY);
    }
}

static enum redlock_nodes_end all_write(struct redlock_nodes *nodes, const struct marker *group, bool keep_keys)
{
    char text[MARKER_TEXT_MAX];
    for (unsigned i = 0; i < nodes->count; i++) {
        text_of(nodes, *group, i, keep_keys, text);
        enum mark_outcome outcome = server_mark(&nodes->servers[i], "", text, TRUST_KEEPS_FENCES);
        if (outcome == MARK_DONE)
            continue;
        nodes_tell(nodes, "%s: its marker could not be written: %s. There is no group; what was written is taken back",
                   nodes->servers[i].name,
                   outcome == MARK_FAILED ? nodes->servers[i].trouble : "somebody else wrote one at the same time");
        take_back(nodes, group, outcome == MARK_FAILED ? i + 1 : i, keep_keys); /* a lost reply may hide a success */
        return outcome == MARK_FAILED ? REDLOCK_NODES_TOO_FEW : REDLOCK_NODES_REFUSED;
    }
    return REDLOCK_NODES_DONE;
}

enum redlock_nodes_end redlock_nodes_init(struct redlock_nodes *nodes, const struct redlock_group_terms *terms)
{
    if (nodes == NULL)
        return REDLOCK_NODES_REFUSED;
    nodes_begin(nodes);
    if (terms == NULL)
        return nodes_tell(nodes, "the terms of the group are NULL");
    int64_t max_ttl_ms = terms->max_ttl_ms != 0 ? terms->max_ttl_ms : REDLOCK_MAX_TTL_DEFAULT_MS;
    if (nodes->count == 1)
        return nodes_tell(nodes, "one lock node alone needs no group (and is no Redlock)");
    if (max_ttl_ms < 1000 || max_ttl_ms > 600000)
        return nodes_tell(nodes, "the longest ttl must be from 1 s to 10 min");
    nodes_inspect(nodes);
    enum redlock_nodes_end end = all_check(nodes, terms->keep_keys);
    if (end != REDLOCK_NODES_DONE)
        return end;
    struct marker group = group_draw(nodes, max_ttl_ms);
    end = all_write(nodes, &group, terms->keep_keys);
    nodes_inspect(nodes);
    return end;
}
