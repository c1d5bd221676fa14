/* What was changed, command by command: the disk and the replicas run it too, later. Run at the same time of the same
 * clock in the same order, a command does the same again. */
#include "base/memory.h"
#include "tests/sim/server/server_private.h"

#define US_PER_SECOND INT64_C(1000000)

enum { JOURNAL_BYTES = 256 * 1024 };

/* --- records ------------------------------------------------------------------------------------------------------ */

void record_append(struct buffer *out, const struct text *arguments, size_t count, int64_t now_us)
{
    struct record record = {.now_us = now_us, .count = (uint32_t)count, .length = sizeof record};
    size_t from = out->length;
    buffer_append(out, &record, sizeof record);
    for (size_t i = 0; i < count; i++) {
        uint32_t length = (uint32_t)arguments[i].length;
        buffer_append(out, &length, sizeof length);
        buffer_append(out, arguments[i].bytes, arguments[i].length);
        buffer_append(out, "", 1);
    }
    record.length = (uint32_t)(out->length - from);
    memcpy(out->bytes + from, &record, sizeof record);
}

struct text *record_unpack(const char *at, struct replies *replies, struct record *record)
{
    memcpy(record, at, sizeof *record);
    at += sizeof *record;
    struct text *arguments = replies_take(replies, record->count * sizeof *arguments);
    for (uint32_t i = 0; i < record->count; i++) {
        uint32_t length;
        memcpy(&length, at, sizeof length);
        arguments[i] = (struct text){at + sizeof length, length};
        at += sizeof length + length + 1;
    }
    return arguments;
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

void journal_note(struct server *server, const struct text *arguments, size_t count)
{
    if (server->has_disk || !list_is_empty(&server->followers))
        record_append(&server->journal.bytes, arguments, count, server->space.now_us);
}

static uint64_t journal_at(const struct server *server)
{
    return server->journal.begin + server->journal.bytes.length;
}

/* --- followers ---------------------------------------------------------------------------------------------------- */

static void record_run(struct follower *follower, const struct text *arguments, const struct record *record,
                       struct replies *replies)
{
    struct keyspace *space = follower->space;
    bool was_replica = space->is_replica;
    struct command_call call = {.space = space,
                                .replies = replies,
                                .command = redis_command_find(arguments[0]),
                                .arguments = arguments,
                                .count = record->count,
                                .never_blocks = true};
    int64_t now_us = space->now_us;
    space->now_us = record->now_us;
    space->is_replica = false;
    (void)command_execute(&call);
    space->is_replica = was_replica;
    space->now_us = now_us;
    if (follower->replica != NULL)
        journal_note(follower->replica, arguments, record->count);
}

/* Runs what is older than `before_us`. */
static void follower_advance(struct server *server, struct follower *follower, int64_t before_us)
{
    struct replies replies = {0};
    while (follower->at < journal_at(server)) {
        struct record record;
        const struct text *arguments =
            record_unpack(server->journal.bytes.bytes + (follower->at - server->journal.begin), &replies, &record);
        if (record.now_us >= before_us)
            break;
        record_run(follower, arguments, &record, &replies);
        follower->at += record.length;
        replies_clear(&replies);
    }
    replies_fini(&replies);
    if (follower->replica != NULL)
        journal_end(follower->replica);
}

/* What the disk has for certain: it is synced at each full second. */
static int64_t synced_us(const struct server *server)
{
    return server->space.now_us - server->space.now_us % US_PER_SECOND;
}

static void journal_trim(struct server *server)
{
    uint64_t least = journal_at(server);
    if (server->has_disk) {
        follower_advance(server, &server->disk, synced_us(server));
        least = server->disk.at;
    }
    for (struct list *link = server->followers.next; link != &server->followers; link = link->next) {
        const struct follower *follower = list_owner(link, struct follower, link);
        least = follower->at < least ? follower->at : least;
    }
    buffer_drop_front(&server->journal.bytes, (size_t)(least - server->journal.begin));
    server->journal.begin = least;
}

void journal_end(struct server *server)
{
    if (server->journal.bytes.length < server->journal.trimmed_at + JOURNAL_BYTES)
        return;
    journal_trim(server);
    server->journal.trimmed_at = server->journal.bytes.length;
}

int64_t journal_next_us(const struct server *server)
{
    int64_t next = INT64_MAX;
    for (struct list *link = server->followers.next; link != &server->followers; link = link->next) {
        const struct follower *follower = list_owner(link, struct follower, link);
        struct record record;
        if (follower->at == journal_at(server))
            continue;
        memcpy(&record, server->journal.bytes.bytes + (follower->at - server->journal.begin), sizeof record);
        int64_t due = record.now_us + follower->lag_us;
        next = due < next ? due : next;
    }
    return next;
}

void journal_tick(struct server *server)
{
    for (struct list *link = server->followers.next; link != &server->followers; link = link->next) {
        struct follower *follower = list_owner(link, struct follower, link);
        follower_advance(server, follower, server->space.now_us - follower->lag_us + 1);
    }
}

/* --- whole copies ------------------------------------------------------------------------------------------------- */

static void follower_copy(struct server *server, struct follower *follower)
{
    bool is_replica = follower->space->is_replica;
    keyspace_clear(follower->space);
    keyspace_copy(follower->space, &server->space);
    follower->space->is_replica = is_replica;
    follower->at = journal_at(server);
}

/* All who follow take what there is now. */
static void followers_copy(struct server *server)
{
    if (server->has_disk)
        follower_copy(server, &server->disk);
    for (struct list *link = server->followers.next; link != &server->followers; link = link->next) {
        struct follower *follower = list_owner(link, struct follower, link);
        follower_copy(server, follower);
        followers_copy(follower->replica);
    }
    journal_trim(server);
}

static void saved_take(struct server *server)
{
    int64_t now_us = server->space.now_us;
    keyspace_clear(&server->space);
    keyspace_copy(&server->space, &server->saved);
    server->space.now_us = now_us;
}

void journal_restart(struct server *server, enum server_memory memory)
{
    if (memory == SERVER_LOSES_LAST_SECOND && server->has_disk) {
        follower_advance(server, &server->disk, synced_us(server));
        keyspace_clear(&server->space);
        keyspace_copy(&server->space, &server->disk_space);
    }
    if (memory == SERVER_EMPTY)
        keyspace_clear(&server->saved);
    if (memory == SERVER_EMPTY || memory == SERVER_SAVED)
        saved_take(server);
    followers_copy(server);
}

struct reply *command_save(struct command_call *call)
{
    keyspace_clear(&call->server->saved);
    keyspace_copy(&call->server->saved, call->space);
    return reply_status(call->replies, "OK");
}

/* --- replicas ----------------------------------------------------------------------------------------------------- */

bool server_is_replica(const struct server *server)
{
    return server->is_read_only || server->space.is_replica;
}

size_t server_replicas(const struct server *server)
{
    size_t count = 0;
    for (const struct list *link = server->followers.next; link != &server->followers; link = link->next)
        count++;
    return count;
}

void server_follow(struct server *replica, struct server *primary, int64_t lag_us, int64_t now_us)
{
    list_remove(&replica->following.link);
    replica->space.now_us = now_us;
    replica->space.is_replica = true;
    memcpy(replica->replication_id, primary->replication_id, sizeof replica->replication_id);
    replica->primary = primary;
    replica->following.space = &replica->space;
    replica->following.replica = replica;
    replica->following.lag_us = lag_us;
    list_append(&primary->followers, &replica->following.link);
    follower_copy(primary, &replica->following);
    followers_copy(replica);
    blocked_refuse_all(replica);
    server_settle(replica);
}

void server_promote(struct server *replica, int64_t now_us)
{
    list_remove(&replica->following.link);
    replica->space.now_us = now_us;
    replica->space.is_replica = false;
    replica->primary = NULL;
    replica->promotions++;
    server_draw_replication_id(replica);
}

void journal_fini(struct server *server)
{
    list_remove(&server->following.link);
    for (struct list *link; (link = list_take_first(&server->followers)) != NULL;)
        list_owner(link, struct follower, link)->replica->primary = NULL;
    buffer_fini(&server->journal.bytes);
}
