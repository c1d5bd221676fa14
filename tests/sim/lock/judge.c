/* What must never happen, judged from outside: from what users were told, by the clocks of their hosts, and from what
 * the lock nodes hold.
 *
 *   overlap   two users believe in the same resource at once, and not both are readers. A belief lasts until the
 *             published deadline, so a process that stands still counts as well: it would believe when it goes on.
 *   lease     while a user believes, fewer than a quorum of nodes would grant its resource to another: looked ahead to
 *             the end of the belief, so that a key which will expire too early is found although nobody asks for it
 *   minority  with trouble at a minority of the nodes alone, nobody loses a lock or misses a majority
 *   rolling   while nodes are away for long, one after the other, and all vote before the next is, a hold that nobody
 *             else wants is not lost
 *   starved   one that wants all of what others take one by one, without a moment between them, has it in time
 *   members   who knows too few of the nodes gets no lock
 *   liveness  when the trouble is over everybody gets locks again, every node votes again, and nothing is left behind
 *   tokens, told, trespass, readers   judge_tokens.c, judge_told.c, judge_nodes.c, judge_readers.c
 *
 * `overlap` and `lease` hold where exclusion is promised, but for a hold whose key was deleted by hand, or where the
 * clock of its client stood still: others may rightly have the resource then. And `overlap` but for one who was granted
 * what a node forgot by a jump of its clock, and who met the node only then (docs/lock-nodes.md, "start no workers
 * while clocks of lock nodes are being corrected"). */
#include <stdlib.h>
#include <string.h>

#include "tests/sim/lock/schedule.h"

#define APART_NS    (1 * NS_PER_S) /* clocks that are further apart disagree */
#define PATIENCE_NS (6 * NS_PER_S)
#define RECORD_NS   (20 * NS_PER_S) /* clients may notice late that the connection is dead */

#define schedule lock_schedule

/* --- who ---------------------------------------------------------------------------------------------------------- */

/* A value ends with the owner, which is another for each hold: CLIENT.USER.TRY */
struct lock_user *lock_user_of_value(struct text value)
{
    size_t at = value.length;
    while (at > 0 && value.bytes[at - 1] != ':')
        at--;
    size_t length = value.length - at;
    if (at == 0 || length < 5 || length >= sizeof(struct lock_user){.number = 0}.owner)
        return NULL;
    unsigned client = (unsigned)(value.bytes[at] - '0'), user = (unsigned)(value.bytes[at + 2] - '0');
    if (client >= schedule.client_count || user >= schedule.user_count)
        return NULL;
    struct lock_user *found = &schedule.clients[client].users[user];
    bool is_its = strlen(found->owner) == length && memcmp(found->owner, value.bytes + at, length) == 0;
    return is_its ? found : NULL;
}

const struct value *lock_named_on(const struct node *node, const char *name)
{
    return keyspace_peek(server_keyspace(node->server), text_of(name), node_now_us(node));
}

const struct value *lock_value_on(const struct node *node, unsigned resource)
{
    return lock_named_on(node, lock_key_name(resource));
}

/* The resources that it has or wants. Any clock may stop between the grant and its report. */
static unsigned resources_of(const struct lock_user *user)
{
    unsigned seat = user->searches && user->lock != NULL ? redlock_lock_seat(user->lock) : 0;
    return seat > 0 ? 1u << (seat - 1) : user->resources;
}

static const char *excuse_of(const struct lock_user *user)
{
    if (user->excuse != NULL)
        return user->excuse;
    const struct host *host = user->client->host;
    return host->is_frozen || host->stood_ns != user->stood_ns ? "excused: its clock stood still" : NULL;
}

/* --- beliefs ------------------------------------------------------------------------------------------------------ */

/* How long the user believes, by the clock of its host; 0 = it does not. */
int64_t lock_judge_belief_ns(const struct lock_user *user)
{
    struct process *process = user->client->process;
    int64_t ns = 0;
    if (user->resources == 0 || !process->is_alive)
        return 0;
    if (user->believes_until.ns != 0)
        ns = instant_since(host_boot(process->host, world_time()), user->believes_until);
    if (user->held != NULL || user->lock != NULL) {
        struct process *before = process_lend(process);
        int64_t ahead_ns = process->ahead_ns;
        unsigned stall_after = process->stall_after;
        process->stall_after = 0; /* a judge's own read does not count */
        ns = user->held != NULL ? redlock_held_valid_for_ms(user->held) * NS_PER_MS
                                : redlock_validity_left_ns(redlock_lock_validity(user->lock));
        process->stall_after = stall_after;
        process->ahead_ns = ahead_ns;
        process_lend(before);
    }
    return ns > 0 ? ns : 0;
}

/* The node voted for the holder, then its clock jumped to where those of a majority are, and the holder's key may have
 * expired by that. Whoever met it only after that cannot know, for as long as somebody else's lock may live. */
static bool is_forgetful(unsigned index, const struct lock_user *holder, const struct lock_user *later)
{
    const struct node *node = schedule.nodes[index];
    return node->jumped_at.ns != 0 && llabs(node->stepped_ns) <= APART_NS && holder->confirmed_at[index].ns != 0 &&
           !instant_before(node->jumped_at, holder->confirmed_at[index]) &&
           !instant_before(later->client->met_at[index], node->jumped_at) &&
           instant_before(world_time(), instant_after(node->jumped_at, schedule.max_ttl_ns));
}

/* Without those nodes it had no majority. */
static bool counts_forgetful(const struct lock_user *holder, const struct lock_user *later)
{
    unsigned votes = 0, forgetful = 0;
    for (unsigned i = 0; i < schedule.node_count; i++) {
        bool voted = later->confirmed_at[i].ns != 0;
        votes += voted;
        forgetful += voted && is_forgetful(i, holder, later);
    }
    return forgetful > 0 && votes - forgetful <= schedule.node_count / 2;
}

static void overlapped(const struct lock_user *user, const struct lock_user *other)
{
    const char *excuse = excuse_of(user) != NULL ? excuse_of(user) : excuse_of(other);
    if (excuse == NULL && (counts_forgetful(user, other) || counts_forgetful(other, user)))
        excuse = "excused: met a node after its clock jumped";
    if (!schedule.is_exclusive)
        play_count("overlaps where none is promised", 1);
    else if (excuse != NULL)
        play_count(excuse, 1);
    else
        play_violated("overlap", "users %u.%u and %u.%u both believe that they hold", user->client->number,
                      user->number, other->client->number, other->number);
}

/* A reader excludes the holders of all seats, and has the key of the first. */
static unsigned excluded_by(const struct lock_user *user)
{
    bool reads_all = user->is_reader && schedule.limit > 0 && user->resources != 0;
    return reads_all ? (1u << schedule.resource_count) - 1 : resources_of(user);
}

static void overlap_check(const struct lock_user *user)
{
    for (unsigned i = 0; i < schedule.client_count; i++)
        for (unsigned k = 0; k < schedule.user_count; k++) {
            const struct lock_user *other = &schedule.clients[i].users[k];
            if (other != user && !(user->is_reader && other->is_reader) &&
                (excluded_by(other) & excluded_by(user)) != 0 && lock_judge_belief_ns(other) > 0)
                overlapped(user, other);
        }
}

/* --- what nodes hold ---------------------------------------------------------------------------------------------- */

static bool keeps_until(const struct node *node, unsigned resource, const struct lock_user *user, struct instant end)
{
    const struct value *value = lock_value_on(node, resource);
    int64_t ends_ms = user->is_reader ? lock_reader_ends_ms(node, resource, user) : 0;
    if (ends_ms > 0)
        return !instant_before(instant_after(world_time(), ends_ms * NS_PER_MS - node_now_us(node) * NS_PER_US), end);
    if (value == NULL || value->type != VALUE_STRING ||
        lock_user_of_value((struct text){value->string.bytes, value->string.length}) != user)
        return false;
    int64_t left_ns = value->expires_ms * NS_PER_MS - node_now_us(node) * NS_PER_US;
    return !instant_before(instant_after(world_time(), left_ns), end);
}

static bool is_bare(const struct node *node)
{
    return keyspace_find(server_keyspace(node->server), text_of("hf:lock:group")) == NULL;
}

/* Everybody keeps a server that forgot, or whose clock jumped, from voting for a while; one without a marker gets it
 * now at best. */
static bool is_quarantined_until(const struct node *node, struct instant end)
{
    if (schedule.node_count == 1)
        return false;
    struct instant lost_at = is_bare(node) ? world_time() : node->lost_at;
    return lost_at.ns != 0 &&
           instant_before(end, instant_after(lost_at, schedule.max_ttl_ns - schedule.max_ttl_ns / 50));
}

/* Two servers: which of them a client counts is not simple to say. */
static bool are_members_in_doubt(void)
{
    for (unsigned i = 0; i < schedule.node_count; i++)
        if (schedule.former[i] != NULL && !(schedule.was_replaced && i == schedule.replaced))
            return true;
    return schedule.is_replacing;
}

static void lease_violated(const struct lock_user *user, unsigned resource, int64_t ns, unsigned others)
{
    if (excuse_of(user) != NULL)
        play_count(excuse_of(user), 1);
    else if (are_members_in_doubt())
        play_count("excused: two servers of one member", 1);
    else
        play_violated("lease", "user %u.%u believes for %.3f ms more in %s, but %u of %u nodes do not keep it",
                      user->client->number, user->number, (double)ns / 1e6, lock_key_name(resource), others,
                      schedule.node_count);
}

void lock_judge_lease(struct lock_user *user)
{
    int64_t ns = schedule.is_exclusive ? lock_judge_belief_ns(user) : 0;
    struct instant end = instant_after(world_time(), ns - ns / 50); /* its clock may be slower than all others */
    for (unsigned resource = 0; ns > 0 && resource < schedule.resource_count; resource++) {
        unsigned others = 0;
        if ((resources_of(user) & 1u << resource) == 0)
            continue;
        for (unsigned i = 0; i < schedule.node_count; i++)
            others +=
                !keeps_until(schedule.nodes[i], resource, user, end) && !is_quarantined_until(schedule.nodes[i], end);
        if (others > schedule.node_count / 2)
            lease_violated(user, resource, ns, others);
    }
}

static void executed(void *context, const struct server_event *event)
{
    struct node *node = context;
    unsigned index = 0;
    while (index < schedule.node_count && schedule.nodes[index] != node)
        index++;
    if (event->reply == NULL || index == schedule.node_count)
        return;
    unsigned changed = lock_judge_executed(index, event);
    for (unsigned i = 0; changed != 0 && i < schedule.client_count; i++)
        for (unsigned k = 0; k < schedule.user_count; k++)
            if ((schedule.clients[i].users[k].resources & changed) != 0)
                lock_judge_lease(&schedule.clients[i].users[k]);
}

void lock_judge_watch(struct node *node)
{
    server_observe(node->server, executed, node);
    for (unsigned i = 0; i < schedule.node_count; i++)
        if (schedule.nodes[i] == node)
            lock_judge_forget_node(i);
}

/* The holder does not know until it asks; and who is granted it meanwhile may lose it at some nodes. */
void lock_judge_deleted_by_hand(unsigned resource, bool is_over)
{
    schedule.deleting[resource] += is_over ? -1U : 1U;
    schedule.deleted_at[resource] = schedule.deleting[resource] == 0 ? world_time() : INSTANT_NEVER;
    for (unsigned i = 0; i < schedule.client_count; i++)
        for (unsigned k = 0; k < schedule.user_count; k++)
            if ((schedule.clients[i].users[k].resources & 1u << resource) != 0)
                schedule.clients[i].users[k].excuse = "excused: deleted by hand";
}

/* --- what users tell ---------------------------------------------------------------------------------------------- */

void lock_judge_asked(struct lock_user *user)
{
    user->asked = world_time();
    user->token = 0;
    user->deleted = 0;
    user->excuse = NULL;
    user->is_lingering = false;
    user->stood_ns = user->client->host->stood_ns;
    memset(user->confirmed_at, 0, sizeof user->confirmed_at);
    memset(user->given_at, 0, sizeof user->given_at);
    user->votes = (struct votes){.values = {""}};
}

static void hand_check(struct lock_user *user)
{
    for (unsigned resource = 0; resource < schedule.resource_count; resource++)
        if ((user->resources & 1u << resource) != 0 && !instant_before(schedule.deleted_at[resource], user->asked))
            user->excuse = "excused: deleted by hand";
}

void lock_judge_acquired(struct lock_user *user)
{
    user->acquired++;
    play_count("acquired to read", user->is_reader);
    if (user->client->kind == LOCK_OLD)
        play_violated("members", "user %u.%u got a lock, and knows too few of the nodes", user->client->number,
                      user->number);
    hand_check(user);
    lock_judge_holds(user);
    lock_judge_lease(user);
    lock_judge_token(user);
}

void lock_judge_holds(struct lock_user *user)
{
    if (lock_judge_belief_ns(user) > 0)
        overlap_check(user);
}

static bool is_recent(struct instant at)
{
    return at.ns == INSTANT_NEVER.ns || (at.ns != 0 && instant_before(world_time(), instant_after(at, RECORD_NS)));
}

/* A server that has just come back without what it knew is recorded at the others: for a round trip or two a pass may
 * find no majority of one generation. */
static bool is_record_window(void)
{
    for (unsigned i = 0; i < schedule.node_count; i++)
        if (is_recent(schedule.nodes[i]->lost_at))
            return true;
    return is_recent(schedule.healed_at);
}

/* A client noticed the trouble. */
static void noticed(const struct lock_user *user, const char *what)
{
    if (!schedule.is_minor || user->client->kind == LOCK_OLD)
        return;
    if (is_record_window())
        play_count("excused: a server is recorded", 1);
    else
        play_violated("minority", "user %u.%u %s, and a majority of the nodes was well", user->client->number,
                      user->number, what);
}

void lock_judge_lost(struct lock_user *user)
{
    play_count("lost", 1);
    if (user->client->terms.max_hold_ms > 0)
        return;
    if (lock_user_is_steward(user))
        play_violated("rolling", "user %u.%u lost its lock, and no two nodes were away at a time", user->client->number,
                      user->number);
    if (schedule.is_minor && votes_are_narrow(&user->votes, schedule.node_count))
        play_count("excused: others were in its way at some nodes", 1);
    else
        noticed(user, "lost its lock");
}

void lock_judge_refused(struct lock_user *user, enum redlock_answer answer)
{
    if (answer == REDLOCK_NO_QUORUM || answer == REDLOCK_TOO_SLOW)
        noticed(user, "was refused for want of a majority");
}

/* Those who hold one of the resources leave in time, and nobody is in trouble. */
void lock_judge_patience(void)
{
    for (unsigned i = 0; i < schedule.client_count; i++) {
        const struct lock_user *user = &schedule.clients[i].users[0];
        int64_t waited_ns = instant_since(user->asked, world_time());
        if (!lock_user_is_pressed(user) || user->resources == 0 || lock_judge_belief_ns(user) > 0)
            continue;
        if (waited_ns > PATIENCE_NS)
            play_violated("starved", "user %u.%u waits for all resources since %.3f s", user->client->number,
                          user->number, (double)waited_ns / 1e9);
    }
}

/* --- when the trouble is over ------------------------------------------------------------------------------------- */

/* Plain clients have no turn, and old ones get nothing. */
static bool is_owed(const struct lock_user *user)
{
    return user->client->kind == LOCK_BLOCKING || user->client->kind == LOCK_LOOP;
}

bool lock_judge_has_recovered(const struct lock_user **who)
{
    for (unsigned i = 0; i < schedule.client_count; i++)
        for (unsigned k = 0; k < schedule.user_count; k++) {
            *who = &schedule.clients[i].users[k];
            if (is_owed(*who) && (*who)->acquired == (*who)->acquired_before)
                return false;
        }
    return true;
}

/* Long after the last release, or the death of the last owner. */
void lock_judge_left(void)
{
    for (unsigned i = 0; i < schedule.node_count; i++) {
        struct node *node = schedule.nodes[i];
        struct keyspace *space = server_keyspace(node->server);
        size_t position = 0;
        for (unsigned resource = 0; resource < schedule.resource_count; resource++)
            if (lock_value_on(node, resource) != NULL && node->lost_at.ns == 0) /* else its clock may be anywhere */
                play_violated("liveness", "%s still holds the lock of %s", node->name, lock_key_name(resource));
        for (struct item *key; (key = table_next(&space->keys, &position)) != NULL;)
            if (key->value->expires_ms == 0 && strncmp(key->name, "hf:lock:", strlen("hf:lock:")) != 0 &&
                strncmp(key->name, "hf:fences", strlen("hf:fences")) != 0)
                play_violated("liveness", "%s keeps %s for ever", node->name, key->name);
    }
}
