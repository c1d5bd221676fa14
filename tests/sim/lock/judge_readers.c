/* The readers of a key on its node, seen from there:
 *
 *   trespass  nobody changes or ends what a reader has without naming it, and the key goes to nobody else before that
 *   readers   a key that is shared has readers, and it and their set end with the last of them; what keeps readers out
 *             for a writer ends a turn after they do, is cut to a turn when the last reader leaves, and is withdrawn
 *             by a writer that gives up and has a connection. What keeps all out ends a turn after the last of the keys
 *             that its waiter wants, and until then nobody gets one of them but that waiter, an older one, or, if it is
 *             one of readers, another reader */
#include <stdio.h>
#include <string.h>

#include "tests/sim/lock/schedule.h"

#define TURN_MS  200
#define STAYS_NS (500 * NS_PER_MS)
#define LATE_MS  2    /* what is rounded */
#define POLL_MS  1000 /* a reader that keeps a turn asks again by then */

enum { READERS_MAX = 64 };

/* What each node held after the last command. */
static struct readers {
    unsigned count;
    struct reader {
        char value[80];
        int64_t ends_ms;
    } each[READERS_MAX];
} readers[LOCK_NODES_MAX][LOCK_RESOURCES_MAX];

/* What keeps new readers out there. */
static struct intent {
    char value[80];
    int64_t expires_ms;
    const struct process *planter; /* by a connection that it still had; NULL = another one, or it comes back */
    struct instant heard_at;       /* when a script of its writer was executed there while the writer waited no more */
} intents[LOCK_NODES_MAX][LOCK_RESOURCES_MAX];

static const struct value *readers_on(const struct node *node, unsigned resource)
{
    char name[64];
    snprintf(name, sizeof name, "hf:readers:%s", lock_key_name(resource));
    return lock_named_on(node, name);
}

bool lock_is_shared(const struct value *value)
{
    return value != NULL && value->type == VALUE_STRING &&
           text_is((struct text){value->string.bytes, value->string.length}, text_of("hf:shared"));
}

int64_t lock_reader_ends_ms(const struct node *node, unsigned resource, const struct lock_user *user)
{
    const struct value *key = lock_value_on(node, resource), *set = readers_on(node, resource);
    size_t position = 0;
    if (!lock_is_shared(key) || set == NULL || set->type != VALUE_ZSET)
        return 0;
    for (struct item *item; (item = table_next(&set->table, &position)) != NULL;)
        if (lock_user_of_value(item_name(item)) == user)
            return item->score < (double)key->expires_ms ? (int64_t)item->score : key->expires_ms;
    return 0;
}

static void violated(const struct server_event *event, const struct node *node, unsigned resource, const char *what)
{
    play_violated("readers", "%s on %s: %s %s", event->script != NULL ? event->script : event->command, node->name,
                  lock_key_name(resource), what);
}

/* For the present state of the node. */
static void note(struct readers *had, const struct node *node, unsigned resource)
{
    const struct value *set = lock_is_shared(lock_value_on(node, resource)) ? readers_on(node, resource) : NULL;
    size_t position = 0;
    had->count = 0;
    if (set == NULL || set->type != VALUE_ZSET)
        return;
    for (struct item *item; (item = table_next(&set->table, &position)) != NULL && had->count < READERS_MAX;) {
        struct reader *reader = &had->each[had->count++];
        snprintf(reader->value, sizeof reader->value, "%s", item->name);
        reader->ends_ms = (int64_t)item->score;
    }
}

void lock_judge_readers_forget(unsigned index)
{
    for (unsigned i = 0; i < lock_schedule.resource_count; i++)
        note(&readers[index][i], lock_schedule.nodes[index], i);
}

static const struct reader *find(const struct readers *had, const char *value)
{
    for (unsigned i = 0; i < had->count; i++)
        if (strcmp(had->each[i].value, value) == 0)
            return &had->each[i];
    return NULL;
}

/* A reader whose time has not ended is still there, unless the event names it. */
static void entries_judge(const struct readers *had, const struct readers *has, const struct node *node, unsigned index,
                          unsigned resource, const struct server_event *event)
{
    bool is_by_hand = votes_names(event, text_of("hf:shared"));
    for (unsigned i = 0; i < had->count; i++) {
        const struct reader *before = &had->each[i], *now = find(has, before->value);
        struct lock_user *owner = lock_user_of_value(text_of(before->value));
        bool is_over = (before->ends_ms + 1) * 1000 <= event->now_us;
        if (is_over || (now != NULL && now->ends_ms == before->ends_ms))
            continue;
        if (owner != NULL && now == NULL)
            owner->deleted |= 1u << index;
        if (!is_by_hand && !votes_names(event, text_of(before->value)))
            play_violated("trespass", "%s changed what %s has of %s on %s, and does not name it",
                          event->script != NULL ? event->script : event->command, before->value,
                          lock_key_name(resource), node->name);
    }
}

/* A reader that the event names and that is there is a vote. */
static void votes_take(const struct readers *had, const struct readers *has, unsigned index, unsigned resource,
                       const struct server_event *event)
{
    bool gives = event->script != NULL && strcmp(event->script, "replant") == 0;
    for (unsigned i = 0; i < has->count; i++) {
        struct text value = text_of(has->each[i].value);
        struct lock_user *owner = lock_user_of_value(value);
        if (owner == NULL || !votes_names(event, value))
            continue;
        if (gives && find(had, has->each[i].value) == NULL)
            lock_judge_given(owner, index, resource, event);
        votes_note(&owner->votes, index, value);
        owner->confirmed_at[index] = world_time();
    }
}

static void ends_judge(const struct readers *has, const struct node *node, unsigned resource,
                       const struct server_event *event)
{
    const struct value *key = lock_value_on(node, resource), *set = readers_on(node, resource);
    int64_t last_ms = 0;
    if (!lock_is_shared(key))
        return;
    for (unsigned i = 0; i < has->count; i++)
        last_ms = has->each[i].ends_ms > last_ms ? has->each[i].ends_ms : last_ms;
    if ((last_ms + LATE_MS) * 1000 <= event->now_us)
        violated(event, node, resource, "is held by readers, and has none");
    else if (key->expires_ms < last_ms || set->expires_ms < last_ms)
        violated(event, node, resource, "ends before its last reader");
    else if (key->expires_ms > last_ms + LATE_MS || set->expires_ms > last_ms + LATE_MS)
        violated(event, node, resource, "outlives its last reader");
}

/* The key is unchanged. Its writer has a connection, because its script arrived. */
static void intent_stay_judge(struct intent *had, const struct node *node, unsigned resource,
                              const struct server_event *event)
{
    const struct lock_user *writer = lock_user_of_value(text_of(had->value));
    bool is_needed = had->planter == NULL || !had->planter->is_alive || (writer != NULL && writer->resources != 0);
    if (is_needed || event->script == NULL || had->planter->host != node->client || lock_judge_lags(node, had->planter))
        return;
    play_count("intents nobody needs", had->heard_at.ns == 0);
    if (had->heard_at.ns == 0)
        had->heard_at = world_time();
    else if (instant_since(had->heard_at, world_time()) > STAYS_NS)
        violated(event, node, resource, "keeps readers out for a writer that gave up");
}

/* True if it is the one that was there. */
static bool intent_note(struct intent *had, const struct node *node, const struct value *intent, bool is_fresh,
                        unsigned resource, const struct server_event *event)
{
    struct text value = {0};
    if (intent != NULL && intent->type == VALUE_STRING)
        value = (struct text){intent->string.bytes, intent->string.length};
    if (!is_fresh && value.length > 0 && text_is(value, text_of(had->value))) {
        intent_stay_judge(had, node, resource, event);
        return true;
    }
    struct lock_user *writer = value.length > 0 ? lock_user_of_value(value) : NULL;
    bool is_its = writer != NULL && writer->client->host == node->client && !writer->comes_back;
    *had = (struct intent){.planter = is_its ? writer->client->process : NULL};
    snprintf(had->value, sizeof had->value, "%.*s", (int)value.length, value.bytes);
    return false;
}

/* '+' keeps everybody out; '*' all but readers. */
static char sign_of(const char *value)
{
    enum { SIGN = 31 };
    return strlen(value) > SIGN && (value[SIGN] == '+' || value[SIGN] == '*') ? value[SIGN] : '\0';
}

static int64_t left_ms_of(const struct value *value, const struct server_event *event)
{
    int64_t left_ms = value != NULL ? value->expires_ms - event->now_us / 1000 : 0;
    return left_ms > 0 ? left_ms : 0;
}

/* It lasts until a turn after the key is free, and that of several until the last of them is, if nobody extends. Who
 * reads asks again within a second. */
static int64_t turn_most_ms(const struct intent *has, const struct node *node, unsigned resource,
                            const struct server_event *event)
{
    const struct lock_user *writer = lock_user_of_value(text_of(has->value));
    char sign = sign_of(has->value);
    unsigned all = (1u << lock_schedule.resource_count) - 1;
    bool waits = writer != NULL && writer->resources != 0; /* else it has given up since */
    unsigned wanted = sign == '\0' ? 1u << resource : waits ? writer->resources : all;
    int64_t most_ms = sign == '*' ? POLL_MS : 0;
    for (unsigned i = 0; i < lock_schedule.resource_count; i++) {
        int64_t left_ms = (wanted & 1u << i) != 0 ? left_ms_of(lock_value_on(node, i), event) : 0;
        most_ms = left_ms > most_ms ? left_ms : most_ms;
    }
    return most_ms + TURN_MS;
}

/* Nothing but the script of that name plants an intent or makes it last longer. */
static void intent_planted(const struct intent *has, const struct node *node, unsigned resource,
                           const struct server_event *event)
{
    bool is_due = event->script != NULL && strcmp(event->script, "intent") == 0;
    int64_t most_ms = turn_most_ms(has, node, resource, event);
    play_count("a turn kept from all", sign_of(has->value) == '+');
    play_count("a turn kept for readers", sign_of(has->value) == '*');
    if (!is_due)
        violated(event, node, resource, "keeps others out, and nobody asked for that");
    else if (has->expires_ms - event->now_us / 1000 > most_ms + LATE_MS)
        violated(event, node, resource, "keeps others out for too long");
}

static void intent_judge(bool has_left, bool is_fresh, unsigned index, unsigned resource,
                         const struct server_event *event)
{
    char name[64];
    const struct node *node = lock_schedule.nodes[index];
    struct intent *had = &intents[index][resource];
    int64_t before_ms = had->expires_ms;
    snprintf(name, sizeof name, "hf:writer:%s", lock_key_name(resource));
    const struct value *intent = lock_named_on(node, name);
    bool is_same = intent_note(had, node, intent, is_fresh, resource, event);
    had->expires_ms = intent != NULL ? intent->expires_ms : 0;
    play_count("readers kept out for a writer", intent != NULL);
    if (is_fresh || intent == NULL)
        return;
    if (!is_same || had->expires_ms > before_ms)
        intent_planted(had, node, resource, event);
    if (has_left && sign_of(had->value) == '\0' && left_ms_of(intent, event) > TURN_MS + LATE_MS)
        violated(event, node, resource, "keeps readers out for too long");
}

/* Who is older may pass by the turn of several that a younger one keeps. */
void lock_judge_turn(unsigned index, unsigned resource, const struct lock_user *user, const struct server_event *event)
{
    const struct node *node = lock_schedule.nodes[index];
    const struct intent *had = &intents[index][lock_schedule.limit > 0 ? 0 : resource];
    bool is_later_seat = lock_schedule.limit > 0 && resource > 0;
    bool is_kept = sign_of(had->value) == '*' || (sign_of(had->value) == '+' && !is_later_seat);
    bool may_be_older = __builtin_popcount(user->resources) > 1 && !user->is_reader && lock_schedule.limit == 0;
    if (!is_kept || may_be_older || node->lost_at.ns != 0 || votes_names(event, text_of(had->value)))
        return;
    if (event->script != NULL && strncmp(event->script, "grant", 5) == 0)
        violated(event, node, resource, "goes to another than the one that keeps its turn");
}

void lock_judge_readers(unsigned index, unsigned resource, bool is_fresh, const struct server_event *event)
{
    const struct node *node = lock_schedule.nodes[index];
    struct readers *had = &readers[index][resource], has;
    note(&has, node, resource);
    if (is_fresh)
        had->count = 0;
    entries_judge(had, &has, node, index, resource, event);
    votes_take(had, &has, index, resource, event);
    bool has_left = had->count > 0 && has.count == 0 && votes_names(event, text_of(had->each[0].value)) &&
                    (had->each[0].ends_ms + 1) * 1000 > event->now_us;
    bool is_joined = event->script != NULL && strcmp(event->script, "shared_grant") == 0 && has.count > had->count;
    *had = has;
    if (node->lost_at.ns != 0) /* some keys may be gone, and its clock may be anywhere */
        return;
    ends_judge(&has, node, resource, event);
    intent_judge(has_left, is_fresh, index, resource, event);
    const char *turn = intents[index][resource].value;
    if (is_joined && !is_fresh && turn[0] != '\0' && sign_of(turn) != '*')
        violated(event, node, resource, "is read by another one, and a writer keeps its turn");
}
