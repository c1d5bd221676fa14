/* What stays on the queue node when everything has ended.
 *
 *   remains     a key without an end of its own is one that may stay (docs/data-model.md)
 *   nonsense    what is no task, and is dead, is blamed for that
 *   statistics  the totals are those of the runs, where nobody was killed and nothing was forgotten */
#include <stdlib.h>
#include <string.h>

#include "tests/sim/fleet/fleet.h"

/* The waiter that was woken and never came: a sweep of the list, which is named, removes it. */
static bool is_to_be_swept(const char *name)
{
    static const char waiting[] = "hf:2:waiting:", waiters[] = "hf:2:waiters:";
    struct keyspace *space = server_keyspace(fleet.queue->server);
    const struct item *contended = table_find(&space->keys, text_of("hf:2:contended"));
    const char *list = strncmp(name, waiting, sizeof waiting - 1) == 0   ? name + sizeof waiting - 1
                       : strncmp(name, waiters, sizeof waiters - 1) == 0 ? name + sizeof waiters - 1
                                                                         : NULL;
    return list != NULL && contended != NULL && table_find(&contended->value->table, text_of(list)) != NULL;
}

/* What came into the bell of a process that died, while nobody lived long enough to recover it: the process is still
 * listed. */
static bool is_to_be_recovered(const char *name)
{
    static const char bell[] = "hf:2:bell:";
    struct keyspace *space = server_keyspace(fleet.queue->server);
    const struct item *processes = table_find(&space->keys, text_of("hf:2:processes"));
    const char *queue = strrchr(name, ':');
    if (strncmp(name, bell, sizeof bell - 1) != 0 || processes == NULL)
        return false;
    const char *identity = name + sizeof bell - 1;
    bool is_listed =
        identity < queue && table_find(&processes->value->table,
                                       (struct text){.bytes = identity, .length = (size_t)(queue - identity)}) != NULL;
    if (is_listed)
        play_count("excused: its process is still listed", 1);
    return is_listed;
}

/* One tick that was pushed when the last worker was about to end, and was given back or put off. (waiters.c knows of no
 * other task that is left.) */
static bool is_late_tick(const struct item *key)
{
    bool is_there = strcmp(key->name, "queue:default") == 0 || strcmp(key->name, "schedule") == 0;
    bool may_be = fleet.has_ticks && is_there && value_count(key->value) == 1;
    if (may_be)
        play_count("excused: a late tick", 1);
    return may_be;
}

/* Names that end with * are beginnings. */
static bool may_stay(const char *name)
{
    static const char *const names[] = {"queues",         "dead",          "retry",          "stat:*", "hf:2:processes",
                                        "hf:2:process:*", "hf:2:periodic", "hf:2:contended", "paused", "processes"};
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t length = strlen(names[i]);
        bool is_beginning = names[i][length - 1] == '*';
        if (is_beginning ? strncmp(name, names[i], length - 1) == 0 : strcmp(name, names[i]) == 0)
            return true;
    }
    return false;
}

static long long number_at(const char *name)
{
    struct keyspace *space = server_keyspace(fleet.queue->server);
    const struct item *item = table_find(&space->keys, text_of(name));
    return item == NULL ? 0 : strtoll(buffer_text(&item->value->string), NULL, 10);
}

/* What has no jid of ours is nonsense; what cannot be read is blamed for that when it is claimed. */
static void nonsense_check(void)
{
    const struct item *dead = table_find(&server_keyspace(fleet.queue->server)->keys, text_of("dead")), *item;
    for (size_t at = 0; dead != NULL && (item = table_next(&dead->value->table, &at)) != NULL;) {
        bool is_unreadable = strstr(item->name, "\"jid\":\"t") == NULL && strstr(item->name, "sealed") == NULL;
        if (is_unreadable && strstr(item->name, "HF::InvalidTask") == NULL)
            play_violated("nonsense", "%s is dead", item->name);
    }
}

void fleet_remains_end(void)
{
    nonsense_check();
    const struct keyspace *space = server_keyspace(fleet.queue->server);
    const struct item *key;
    for (size_t at = 0; (key = table_next(&space->keys, &at)) != NULL;) {
        bool is_stray = key->value->expires_ms == 0 && !may_stay(key->name);
        if (is_stray && !is_to_be_swept(key->name) && !is_to_be_recovered(key->name) && !is_late_tick(key))
            play_violated("remains", "%s stays on the queue node", key->name);
    }
    long long before = 0; /* a task that is cancelled between its lock and its handler counts as a run */
    for (unsigned i = 0; i < fleet.task_count; i++)
        before += fleet.tasks[i].is_unwanted && fleet.tasks[i].begun == 0;
    bool is_exact = fleet.peace == PEACE_OF_MIND && fleet.isolation == CONFIG_ISOLATION_THREAD && fleet.vague_runs == 0;
    long long processed = number_at("stat:processed"), failed = number_at("stat:failed");
    play_count("exact statistics", is_exact);
    if (is_exact && (processed < fleet.runs || processed > fleet.runs + before))
        play_violated("statistics", "%lld runs are counted, and there were %u", processed, fleet.runs);
    if (failed > processed)
        play_violated("statistics", "%lld of %lld runs failed", failed, processed);
}
