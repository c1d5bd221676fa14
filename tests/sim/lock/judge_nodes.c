/* What is done to the keys of locks on their nodes, seen from there: nobody changes, extends or deletes a key without
 * naming the value that it has (trespass), nothing but a marker stays for ever, and a client takes back what it
 * has planted and does not need any more soon after it has a connection again (stays). A key is given again (given)
 * only where no later hold was granted it, and only by a node that votes, or to whoever had it there within the ttl. */
#include <stdio.h>
#include <string.h>

#include "tests/sim/lock/schedule.h"

#define STAYS_NS (500 * NS_PER_MS)

/* What each node held after the last command. */
static struct key {
    char value[80];
    int64_t expires_ms;
    const struct process *planter; /* by a connection that it still had; NULL = another one, or it is to linger */
    struct instant heard_at;       /* when a script of its writer was executed there while nobody needed the key */
} keys[LOCK_NODES_MAX][LOCK_RESOURCES_MAX];
static struct instant seen_at[LOCK_NODES_MAX];

static void key_note(struct key *key, const struct value *value)
{
    *key = (struct key){.value = ""};
    if (value == NULL || value->type != VALUE_STRING)
        return;
    snprintf(key->value, sizeof key->value, "%.*s", (int)value->string.length, (const char *)value->string.bytes);
    key->expires_ms = value->expires_ms;
}

void lock_judge_forget_node(unsigned index)
{
    for (unsigned i = 0; i < LOCK_RESOURCES_MAX; i++)
        key_note(&keys[index][i], lock_value_on(lock_schedule.nodes[index], i));
    lock_judge_readers_forget(index);
    seen_at[index] = world_time();
}

static bool has_same_value(const struct key *key, const struct value *value)
{
    return value != NULL && value->type == VALUE_STRING && value->string.length == strlen(key->value) &&
           memcmp(value->string.bytes, key->value, value->string.length) == 0;
}

/* It vanished, was replaced, or lives for another time. */
static bool is_changed(const struct key *key, const struct value *value)
{
    return !has_same_value(key, value) || value->expires_ms != key->expires_ms;
}

static struct text text_of_value(const struct value *value)
{
    return (struct text){.bytes = value->string.bytes, .length = value->string.length};
}

/* The key has another holder now, or none. */
static void owner_left(unsigned index, const struct key *key, const struct value *value)
{
    struct lock_user *owner = key->value[0] == '\0' ? NULL : lock_user_of_value(text_of(key->value));
    if (owner != NULL && !has_same_value(key, value))
        owner->deleted |= 1u << index;
}

static void key_judge(const struct node *node, unsigned resource, const struct key *key, const struct value *value,
                      const struct server_event *event)
{
    if (key->value[0] != '\0' && strcmp(key->value, "hf:shared") != 0 && !votes_names(event, text_of(key->value)))
        play_violated("trespass", "%s changed %s on %s, whose value %s it does not name", event->command,
                      lock_key_name(resource), node->name, key->value);
    if (value != NULL && value->expires_ms == 0)
        play_violated("trespass", "%s left %s on %s for ever", event->command, lock_key_name(resource), node->name);
}

/* The first call of a client there measures the clock of the node. */
static void client_met(unsigned index)
{
    for (unsigned i = 0; i < lock_schedule.client_count; i++) {
        struct lock_client *client = &lock_schedule.clients[i];
        if (client->host == lock_schedule.nodes[index]->client && client->met_at[index].ns == 0)
            client->met_at[index] = world_time();
    }
}

static const struct process *planter_of(const struct node *node, const struct lock_user *owner,
                                        const struct server_event *event)
{
    bool is_its = owner != NULL && owner->client->host == node->client && event->script != NULL &&
                  !owner->is_lingering && owner->client->kind != LOCK_FOREIGN;
    return is_its ? owner->client->process : NULL;
}

bool lock_judge_lags(const struct node *node, const struct process *process)
{
    return node->slow_ns > 0 || process->is_paused || instant_before(world_time(), process->free_at);
}

/* The key is unchanged. Its writer has a connection, because its script arrived. */
static void stay_judge(const struct node *node, unsigned resource, struct key *key, const struct server_event *event)
{
    bool is_needed = key->planter == NULL || !key->planter->is_alive || lock_user_of_value(text_of(key->value)) != NULL;
    if (is_needed || event->script == NULL || key->planter->host != node->client || lock_judge_lags(node, key->planter))
        return;
    play_count("keys nobody needs", key->heard_at.ns == 0);
    if (key->heard_at.ns == 0)
        key->heard_at = world_time();
    else if (instant_since(key->heard_at, world_time()) > STAYS_NS)
        play_violated("stays", "%s keeps %s of %s, which nobody needs", node->name, lock_key_name(resource),
                      key->value);
}

static double fence_on(const struct node *node, unsigned resource)
{
    const struct value *fences = lock_named_on(node, "hf:fences");
    const struct item *fence = fences != NULL && fences->type == VALUE_ZSET
                                   ? table_find(&fences->table, text_of(lock_key_name(resource)))
                                   : NULL;
    return fence != NULL ? fence->score : 0;
}

static bool is_within_ttl(struct instant since)
{
    return since.ns != 0 && instant_before(world_time(), instant_after(since, lock_schedule.max_ttl_ns));
}

/* A clock that jumped is another matter: it is known once the node has answered. So is what the server granted that had
 * the address before: no judge saw it. */
static bool has_no_vote(unsigned index)
{
    const struct node *node = lock_schedule.nodes[index];
    return lock_schedule.is_exclusive && node->lost_at.ns != node->jumped_at.ns &&
           lock_schedule.former[index] == NULL && !is_within_ttl(lock_schedule.former_ended_at[index]) &&
           is_within_ttl(node->lost_at);
}

void lock_judge_given(struct lock_user *user, unsigned index, unsigned resource, const struct server_event *event)
{
    const struct node *node = lock_schedule.nodes[index];
    struct instant had_at = user->confirmed_at[index];
    int64_t ttl_ns = user->client->terms.ttl_ms * NS_PER_MS;
    bool had_it = had_at.ns != 0 && instant_before(world_time(), instant_after(had_at, ttl_ns + ttl_ns / 50));
    /* Its holder takes what is gone after a restart for forgotten, and then the node counts at once. */
    if (!had_it || instant_before(node->started_at, had_at))
        user->given_at[index] = world_time();
    play_count("given again", 1);
    if (user->token != 0 && fence_on(node, resource) > (double)user->token)
        play_violated("given", "%s gives %s on %s to user %u.%u again, and a later hold was granted it", event->script,
                      lock_key_name(resource), node->name, user->client->number, user->number);
    /* By a clock that stood still the node may have it yet. */
    bool stood = user->client->host->stood_ns != user->stood_ns;
    if (has_no_vote(index) && !had_it && !stood)
        play_violated("given", "%s gives %s on %s to user %u.%u, and the node has no vote", event->script,
                      lock_key_name(resource), node->name, user->client->number, user->number);
}

/* A holder that releases in this way needs the key no more. It may stay for a while, also on a node that got no
 * call. */
static void linger_note(const struct server_event *event)
{
    for (unsigned i = 0; i < lock_schedule.node_count; i++)
        for (unsigned resource = 0; resource < lock_schedule.resource_count; resource++)
            if (votes_names(event, text_of(keys[i][resource].value)))
                keys[i][resource].planter = NULL;
}

unsigned lock_judge_executed(unsigned index, const struct server_event *event)
{
    const struct node *node = lock_schedule.nodes[index];
    bool is_fresh = node->lost_at.ns != 0 && !instant_before(node->lost_at, seen_at[index]);
    unsigned changed = 0;
    client_met(index);
    if (event->script != NULL && strcmp(event->script, "linger") == 0)
        linger_note(event);
    for (unsigned resource = 0; resource < lock_schedule.resource_count; resource++) {
        struct key *key = &keys[index][resource];
        const struct value *value = lock_value_on(node, resource);
        if (lock_schedule.has_readers)
            lock_judge_readers(index, resource, is_fresh, event);
        struct lock_user *owner =
            value != NULL && value->type == VALUE_STRING ? lock_user_of_value(text_of_value(value)) : NULL;
        if (is_fresh || (key->expires_ms != 0 && (key->expires_ms + 1) * 1000 <= event->now_us))
            key->value[0] = '\0'; /* it was gone before */
        if (owner != NULL && event->script != NULL && strncmp(event->script, "replant", 7) == 0 &&
            !has_same_value(key, value))
            lock_judge_given(owner, index, resource, event);
        if (owner != NULL && votes_names(event, text_of_value(value))) {
            votes_note(&owner->votes, index, text_of_value(value));
            owner->confirmed_at[index] = world_time();
        }
        if (owner != NULL && key->value[0] == '\0' && lock_schedule.has_readers)
            lock_judge_turn(index, resource, owner, event);
        if (key->value[0] != '\0' && !is_changed(key, value))
            stay_judge(node, resource, key, event);
        if (key->value[0] == '\0' ? value == NULL : !is_changed(key, value))
            continue;
        key_judge(node, resource, key, value, event);
        owner_left(index, key, value);
        key_note(key, value);
        key->planter = planter_of(node, owner, event);
        world_tell("%s: %s %s of %s: %s", node->name, event->script != NULL ? event->script : event->command,
                   lock_key_name(resource), owner != NULL ? owner->owner : "nobody", value != NULL ? key->value : "-");
        changed |= 1u << resource;
    }
    seen_at[index] = world_time();
    return changed;
}
