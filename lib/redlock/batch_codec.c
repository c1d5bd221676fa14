/* Encodes the request of a batch for each script, and reads the answers. The scripts document both. Every request but
 * a release names the marker that the node must have, and gets the node's time back. */
#include "redlock/batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/invariant.h"
#include "base/log.h"
#include "redlock/inspection.h"
#include "redlock/scripts.h"

/* Fencing tokens stay below what a double holds exactly (E44). */
#define TOKEN_END    (INT64_C(1) << 53)
#define SEATS_PREFIX "hf:seats:"
/* A key of another program may live for longer than nanoseconds can say. */
#define REMAINING_MAX_MS INT64_C(1000000000000)

_Static_assert(REDLOCK_LIMIT_MAX == REDLOCK_SCRIPT_LIMIT_MAX, "a node looks at each seat");
_Static_assert(REDLOCK_TURN_NS == REDLOCK_SCRIPT_TURN_MS * NS_PER_MS, "a node keeps a turn for as long");

/* --- requests --------------------------------------------------------------------------------------------------- */

/* Another lock of this process asks for the key at once, or has already done so. */
bool lock_is_taken_over(const struct redlock_lock *lock, unsigned index)
{
    struct key_span key = lock_key(lock, index);
    const struct local_waiter *owner =
        local_waiters_owner(lock->group->local_waiters, (struct local_key){key.bytes, key.length});
    return owner != NULL && owner != &lock->wait.claim &&
           list_owner(owner, const struct redlock_lock, wait.claim)->wait.is_silent;
}

/* The channel of a lock's key, the `number`th of the batch, or "" for nobody. NULL = nobody. */
static void channel_add(struct batch *batch, const struct redlock_lock *lock, unsigned index, unsigned number)
{
    char channel[NOTIFICATIONS_CHANNEL_MAX] = "";
    bool is_announced =
        lock != NULL && (batch->is_shared || (!lock->wait.is_quiet && !lock_is_taken_over(lock, index)));
    if (batch->is_quiet) {
        batch->announced[number / 64] |= (uint64_t)is_announced << number % 64;
        return;
    }
    if (is_announced) {
        struct key_span key = lock_key(lock, index);
        notifications_channel(lock->group->notifications, key.bytes, key.length, channel);
    }
    redis_request_text(&batch->others, channel);
}

/* Encodes old values up to the last lock that takes over; the locks behind it have none, which is the same as "".
 * Behind that of a lock of several keys follows the intent with which it keeps its turn. */
static void old_value_add(struct batch *batch, const struct redlock_lock *lock)
{
    if (lock->swaps_in == NULL && !lock->keeps_all)
        return;
    for (; !batch_is_of_one(batch) && batch->old_count < batch->key_count; batch->old_count++)
        redis_request_text(&batch->others, "");
    if (lock->swaps_in != NULL)
        redis_request_bytes(&batch->others, lock->swaps_in->value, lock->swaps_in->value_length);
    else
        redis_request_text(&batch->others, "");
    batch->old_count++;
    if (!lock->keeps_all)
        return;
    redis_request_bytes(&batch->others, lock->intent, lock->intent_length);
    batch->old_count++;
}

static void key_add(struct batch *batch, const struct redlock_lock *lock, unsigned index)
{
    struct key_span key = batch->kind == BATCH_INTENT ? lock_turn_key(lock, index) : lock_key(lock, index);
    redis_request_bytes(&batch->keys, key.bytes, key.length);
    if (batch->kind == BATCH_INTENT && index == 0)
        redis_request_bytes(&batch->values, lock->intent, lock->intent_length);
    else if (!batch_is_of_one(batch) || index == 0)
        redis_request_bytes(&batch->values, lock->value, lock->value_length);
    if (batch->kind == BATCH_EXTEND)
        redis_request_integer(&batch->others, lock->terms.ttl_ns / NS_PER_MS);
    if (batch->kind == BATCH_LINGER)
        redis_request_integer(&batch->others, (lock->linger_ns + NS_PER_MS - 1) / NS_PER_MS);
    if (batch->kind == BATCH_RELEASE)
        channel_add(batch, lock, index, batch->key_count + index);
}

/* What keeps readers out while a seat behind the first is held (scripts/include/seats.lua). */
static void seat_note_add(struct batch *batch, const struct redlock_lock *lock)
{
    char key[sizeof SEATS_PREFIX + REDLOCK_PREFIX_BYTES_MAX + REDLOCK_RESOURCE_BYTES_MAX];
    int length = snprintf(key, sizeof key, SEATS_PREFIX "%s%s", lock->group->key_prefix, lock->seats->resource);
    redis_request_bytes(&batch->keys, key, (size_t)length);
    redis_request_integer(&batch->values, (int64_t)lock->group->key_prefix_length);
    redis_request_integer(&batch->others, REDLOCK_SCRIPT_SEATS_MS);
}

void batch_codec_add(struct batch *batch, const struct redlock_lock *lock)
{
    for (unsigned i = 0; i < lock->key_count; i++)
        key_add(batch, lock, i);
    if (batch->kind == BATCH_EXTEND && lock_has_later_seat(lock))
        seat_note_add(batch, lock);
    if (batch->kind == BATCH_GRANT || batch->kind == BATCH_GRANT_ALL)
        old_value_add(batch, lock);
}

void batch_codec_add_withdrawal(struct batch *batch, const struct redlock_lock *lock, bool is_told)
{
    for (unsigned i = 0; i < lock->key_count; i++) {
        char channel[NOTIFICATIONS_CHANNEL_MAX] = "";
        struct key_span key = lock_turn_key(lock, i);
        redis_request_bytes(&batch->keys, key.bytes, key.length);
        redis_request_bytes(&batch->values, lock->intent, lock->intent_length);
        if (is_told)
            notifications_channel(lock->group->notifications, key.bytes, key.length, channel);
        redis_request_text(&batch->others, channel);
    }
}

/* Only the lock that failed to take the keys over may still announce that they are free: it has the same keys. */
void batch_codec_add_swapped(struct batch *batch, const struct lock_swap *swap, const struct redlock_lock *failed)
{
    for (unsigned i = 0, start = 0; i < swap->key_count; start = swap->key_ends[i++]) {
        redis_request_bytes(&batch->keys, swap->keys.bytes + start, swap->key_ends[i] - start);
        redis_request_bytes(&batch->values, swap->value, swap->value_length);
        channel_add(batch, failed, i, batch->key_count + i);
    }
}

static bool has_token(const struct batch *batch)
{
    return batch->kind == BATCH_GRANT || batch->kind == BATCH_GRANT_ALL || batch->kind == BATCH_REPLANT ||
           batch->kind == BATCH_RAISE;
}

bool batch_codec_puts_fences(const struct batch *batch)
{
    return has_token(batch) && batch->terms.fenced;
}

static const struct redis_script *shared_script_of(const struct batch *batch)
{
    switch (batch->kind) {
    case BATCH_RELEASE:
    case BATCH_LINGER:
        return &redlock_script_shared_release;
    case BATCH_EXTEND:
        return &redlock_script_shared_extend;
    case BATCH_REPLANT:
        return &redlock_script_replant;
    case BATCH_RAISE:
        return &redlock_script_raise;
    case BATCH_GRANT_ALL:
        return &redlock_script_shared_grant;
    case BATCH_INTENT:
        return &redlock_script_intent;
    case BATCH_GRANT:
    case BATCH_KINDS:
        break;
    }
    invariant_unreachable("a kind that shared locks do not have");
}

static const struct redis_script *script_of(const struct batch *batch)
{
    if (batch->is_shared)
        return shared_script_of(batch);
    switch (batch->kind) {
    case BATCH_RELEASE:
        return batch->is_quiet ? &redlock_script_release_quiet : &redlock_script_release;
    case BATCH_LINGER:
        return &redlock_script_linger;
    case BATCH_EXTEND:
        return &redlock_script_extend;
    case BATCH_REPLANT:
        return &redlock_script_replant;
    case BATCH_RAISE:
        return &redlock_script_raise;
    case BATCH_INTENT:
        return &redlock_script_intent;
    case BATCH_GRANT:
        return batch->terms.fenced ? &redlock_script_grant : &redlock_script_grant_unfenced;
    case BATCH_GRANT_ALL:
        return batch->terms.fenced ? &redlock_script_grant_all : &redlock_script_grant_all_unfenced;
    case BATCH_KINDS:
        break;
    }
    invariant_unreachable("a kind outside its enum");
}

/* A node executes these even if its marker is another one: they remove only what is ours. */
static bool gives_up(const struct batch *batch)
{
    return batch->kind == BATCH_RELEASE || batch->kind == BATCH_LINGER;
}

/* Arguments beside the keys and, where there is one, the marker's key. */
static size_t argument_count(const struct batch *batch)
{
    switch (batch->kind) {
    case BATCH_RELEASE:
    case BATCH_LINGER:
        return (batch->is_quiet ? 1 : 2) * (size_t)batch->key_count;
    case BATCH_EXTEND:
        return 1 + 2 * (size_t)batch->key_count;
    case BATCH_REPLANT:
        return 5 + batch->is_shared;
    case BATCH_RAISE:
        return 4 + batch->is_shared;
    case BATCH_INTENT:
        return 3;
    case BATCH_GRANT:
        return 4 + (size_t)batch->key_count + batch->old_count;
    case BATCH_GRANT_ALL:
        return 5 + (size_t)batch->old_count;
    case BATCH_KINDS:
        break;
    }
    invariant_unreachable("a kind outside its enum");
}

/* The same for all nodes: comes from the clocks of the nodes, which survive the loss of a node's counters. */
static int64_t token_proposal(const struct batch *batch, struct instant now)
{
    int64_t proposal = trust_median_us(&batch->group->trust, now);
    return proposal > 0 ? proposal : wall_now().us;
}

/* The last useful moment of a grant or an intent, in the time of the node: a later one would be an orphan. */
static int64_t grant_deadline_us(const struct batch *batch, unsigned node, struct instant now)
{
    int64_t latest = trust_node_time_us(&batch->group->trust, node, instant_after(now, batch->terms.silence_limit_ns));
    return latest > 0 ? latest : TOKEN_END;
}

/* A node that forgot gets the key back until it would have dropped it; one that does not have it, as by a grant. */
static int64_t replant_deadline_us(const struct batch *batch, unsigned node, struct instant now)
{
    const struct lease *lease = &batch->entries[0].lock->lease;
    return batch->gone & set_of(node) ? grant_deadline_us(batch, node, now)
                                      : trust_node_time_low_us(&batch->group->trust, node, lease->kept_until[node]);
}

static void grant_head(struct batch *batch, unsigned node, struct instant now)
{
    struct buffer *out = &batch->request;
    redis_request_integer(out, grant_deadline_us(batch, node, now));
    redis_request_integer(out, batch->terms.ttl_ns / NS_PER_MS);
    if (batch->terms.fenced)
        redis_request_integer(out, token_proposal(batch, now));
    else
        redis_request_text(out, "");
}

/* The arguments of a raise and a replant that follow the value. */
static void token_tail(struct batch *batch)
{
    struct buffer *out = &batch->request;
    redis_request_integer(out, (int64_t)batch->entries[0].lock->lease.token);
    redis_request_integer(out, batch->terms.ttl_ns / NS_PER_MS);
    if (batch->is_shared)
        redis_request_text(out, "shared");
}

void batch_codec_request(struct batch *batch, unsigned node)
{
    const struct redlock_group *group = batch->group;
    struct buffer *out = &batch->request;
    struct instant now = loop_now(group->loop);
    buffer_clear(out);
    redis_request_script(out, script_of(batch), batch->key_count + !gives_up(batch), argument_count(batch));
    if (!gives_up(batch))
        redis_request_text(out, MARKER_KEY);
    buffer_append(out, batch->keys.bytes, batch->keys.length);
    if (!gives_up(batch))
        redis_request_text(out, trust_marker_expected(&group->trust, node));
    if (batch->kind == BATCH_GRANT || batch->kind == BATCH_GRANT_ALL)
        grant_head(batch, node, now);
    if (batch->kind == BATCH_INTENT)
        redis_request_integer(out, grant_deadline_us(batch, node, now));
    if (batch->kind == BATCH_REPLANT)
        redis_request_integer(out, replant_deadline_us(batch, node, now));
    buffer_append(out, batch->values.bytes, batch->values.length);
    buffer_append(out, batch->others.bytes, batch->others.length);
    if (batch->kind == BATCH_RAISE || batch->kind == BATCH_REPLANT)
        token_tail(batch);
}

/* --- answers ---------------------------------------------------------------------------------------------------- */

static bool is_string(const struct redis_reply *reply)
{
    return reply->kind == REDIS_STRING;
}

static const char *number_skip(const char *at, int64_t *value)
{
    char *end = NULL;
    *value = strtoll(at, &end, 10);
    return end > at && *end == ' ' ? end + 1 : end > at && *end == '\0' ? end : NULL;
}

/* Reads "CODE SECONDS MICROSECONDS" and returns what follows. NULL for any other text. */
static const char *head_read(const char *text, int64_t *code, int64_t *node_us)
{
    int64_t seconds = 0, microseconds = 0;
    const char *at = number_skip(text, code);
    at = at != NULL ? number_skip(at, &seconds) : NULL;
    at = at != NULL ? number_skip(at, &microseconds) : NULL;
    bool makes_sense = at != NULL && seconds > 0 && seconds < INT64_MAX / NS_PER_S && microseconds >= 0 &&
                       microseconds < NS_PER_S / NS_PER_US;
    *node_us = makes_sense ? seconds * (NS_PER_S / NS_PER_US) + microseconds : 0;
    return makes_sense ? at : NULL;
}

/* Reads the token that all locks share (an unfenced call has none), and a sign for each. */
static bool signs_read(const struct batch *batch, struct batch_answer *answer)
{
    const char *signs = strchr(answer->text, ' ');
    answer->signs = signs != NULL ? signs + 1 : NULL;
    answer->token = strtoll(answer->text, NULL, 10);
    return signs != NULL && strspn(answer->signs, "+=") == batch->lock_count &&
           answer->signs[batch->lock_count] == '\0';
}

static bool reads_as_list(const struct batch *batch, const struct redis_reply *reply)
{
    if (batch->kind != BATCH_GRANT || reply->kind != REDIS_ARRAY || reply->count != 1 + batch->lock_count)
        return false;
    for (size_t i = 0; i < reply->count; i++)
        if (!is_string(&reply->elements[i]))
            return false;
    return true;
}

static bool reads_as_executed(const struct batch *batch, struct batch_answer *answer)
{
    if (answer->list != NULL)
        return *answer->text == '\0';
    if (batch->kind == BATCH_GRANT)
        return signs_read(batch, answer);
    return batch->kind == BATCH_EXTEND ? strlen(answer->text) == batch->key_count : *answer->text != '\0';
}

/* A reply that does not read as one of ours is no answer (E11). */
static struct batch_answer value_read(const struct batch *batch, const struct redis_reply *reply)
{
    struct batch_answer answer = {.kind = ANSWER_NONE};
    if (gives_up(batch)) {
        answer.text = reply->bytes;
        answer.is_heard = batch->is_quiet && is_string(reply) && reply->length == batch->key_count + 1;
        bool is_whole = is_string(reply) && reply->length == batch->key_count + answer.is_heard;
        answer.kind = is_whole ? ANSWER_EXECUTED : ANSWER_NONE;
        return answer;
    }
    if (reads_as_list(batch, reply))
        answer.list = reply->elements + 1;
    const struct redis_reply *head = answer.list != NULL ? reply->elements : reply;
    int64_t code = 0;
    answer.text = is_string(head) ? head_read(head->bytes, &code, &answer.node_us) : NULL;
    if (answer.text == NULL)
        return answer;
    answer.length = head->length - (size_t)(answer.text - head->bytes);
    if (code == 1)
        answer.kind = ANSWER_OTHER_MARKER;
    else if (code == 2)
        answer.kind = ANSWER_TOO_LATE;
    else if (code == 0 && reads_as_executed(batch, &answer))
        answer.kind = ANSWER_EXECUTED;
    return answer;
}

struct batch_answer batch_codec_answer(const struct batch *batch, const struct redis_result *result)
{
    if (result->outcome == REDIS_VALUE)
        return value_read(batch, result->reply);
    bool not_sent =
        result->outcome == REDIS_ERROR && (result->error == REDIS_ERROR_DOWN || result->error == REDIS_ERROR_OVERLOAD);
    return (struct batch_answer){.kind = not_sent ? ANSWER_NOT_SENT : ANSWER_NONE};
}

/* The answer about one lock: a sign, and what follows it. */
struct grant_word {
    char sign;
    int64_t token; /* 0 = none */
    const char *text;
    size_t length;
};

static struct grant_word word_of(const struct batch *batch, const struct batch_entry *entry,
                                 const struct batch_answer *answer)
{
    if (answer->signs != NULL)
        return (struct grant_word){answer->signs[entry - batch->entries], answer->token, answer->text, 0};
    const char *text = answer->text;
    size_t length = answer->length;
    if (answer->list != NULL) {
        text = answer->list[entry - batch->entries].bytes;
        length = answer->list[entry - batch->entries].length;
    }
    if (length == 0)
        return (struct grant_word){.text = ""};
    bool is_granted = text[0] == '+' || text[0] == '=';
    return (struct grant_word){text[0], is_granted ? strtoll(text + 1, NULL, 10) : 0, text + 1, length - 1};
}

/* --- votes ------------------------------------------------------------------------------------------------------ */

/* Tells owners apart without keeping their values; 0 means "unknown". */
static uint64_t owner_digest(const char *bytes, size_t length)
{
    return hash_bytes(0, bytes, length) | 1u;
}

/* Other Redlock clients choose values of their own, 20 random bytes for example, which must not reach logs as text. */
static bool is_readable(const char *text)
{
    while (*text > ' ' && *text <= '~')
        text++;
    return *text == '\0';
}

static const char *owner_in(const char *value)
{
    if (strcmp(value, READERS_VALUE) == 0)
        return "readers";
    if (strcmp(value, INTENT_VALUE) == 0)
        return "one that waits";
    return other_clients_wrote(value) ? value : value + 2 * VALUE_RANDOM_BYTES + 1;
}

static void refused_by(struct redlock_lock *lock, const char *value, int64_t remaining_ns)
{
    const char *owner = owner_in(value);
    if (lock->holder[0] == '\0' && (owner != value || is_readable(owner)))
        snprintf(lock->holder, sizeof lock->holder, "%s", owner);
    lock->told_at = loop_now(lock->group->loop);
    if (remaining_ns > lock->remaining_ns)
        lock->remaining_ns = remaining_ns;
}

/* Believes the first node that names a key. */
static void refused_at(struct redlock_lock *lock, unsigned long key)
{
    if (lock->refused_key == REFUSED_KEY_UNKNOWN && key < lock->key_count)
        lock->refused_key = (unsigned)key;
}

static void name_clash_tell(struct redlock_lock *lock, unsigned node, bool is_string_there)
{
    struct instant now = loop_now(lock->group->loop);
    lock->clashes = true;
    if (instant_before(now, instant_after(lock->group->clash_told, NS_PER_S)))
        return;
    char text[LOG_QUOTE_MAX];
    lock->group->clash_told = now;
    log_event(LOG_WARN, "lock_name_clash", "node=%s key=%s advice=\"%s is under the lock's key: use another prefix\"",
              redis_node_name(lock->group->nodes[node].node),
              log_value_bytes(lock->keys.bytes, lock->keys.length, text),
              is_string_there ? "a key without a ttl, which is no lock," : "a value of another kind");
}

/* "-PTTL:VALUE" or "!PTTL"; for several keys "-PTTL@NUMBER:VALUE". Any value means that the key is taken (E22). */
static enum lease_vote refusal_read(struct redlock_lock *lock, unsigned node, const struct grant_word *word,
                                    uint64_t *detail)
{
    char *end = NULL;
    long long pttl = strtoll(word->text, &end, 10);
    unsigned long key = *end == '@' ? strtoul(end + 1, &end, 10) : 0;
    bool is_later_seat = *end == 's';
    end += is_later_seat;
    refused_at(lock, key);
    if (word->sign == '!' || pttl == -1)
        name_clash_tell(lock, node, word->sign != '!');
    if (word->sign == '!' || *end != ':')
        return LEASE_NO;
    const char *value = end + 1;
    *detail = owner_digest(value, word->length - (size_t)(value - word->text)); /* a value may have any bytes */
    if (pttl == 0)
        pttl = 1; /* less than that is left, which is not unknown */
    refused_by(lock, value, pttl < 0 ? -1 : (pttl < REMAINING_MAX_MS ? pttl : REMAINING_MAX_MS) * NS_PER_MS);
    lock->meets_seats |= is_later_seat;
    if (strcmp(value, READERS_VALUE) == 0) {
        lock->readers_at |= set_of(node);
    } else if (owner_in(value) == value) {
        lock->others_at |= set_of(node);
        other_clients_seen(&lock->group->others, lock_refused_key(lock), *detail, lock->told_at);
    }
    return LEASE_NO;
}

/* Of "+" or "=" and the token; an unfenced lock has none. */
static enum lease_vote token_read(const struct redlock_lock *lock, int64_t token, uint64_t *detail)
{
    if (lock->terms.fenced && (token <= 0 || token >= TOKEN_END))
        return LEASE_UNKNOWN;
    *detail = lock->terms.fenced ? (uint64_t)token : 0;
    return LEASE_YES;
}

/* "#": a node that cannot continue from the last token of a resource does not grant it. */
static enum lease_vote fence_refused(struct redlock_lock *lock, unsigned node)
{
    struct redlock_group *group = lock->group;
    const char *name = redis_node_name(group->nodes[node].node);
    struct instant now = loop_now(group->loop);
    char key[LOG_QUOTE_MAX];
    log_value_bytes(lock->keys.bytes, lock->key_ends[0], key);
    lock->was_refused = true;
    snprintf(group->refusal, sizeof group->refusal,
             "too few lock nodes grant it: on %s its entry in hf:fences is no token: delete it, if nobody compares "
             "tokens that were given out for it",
             name);
    if (instant_before(now, instant_after(group->clash_told, NS_PER_S)))
        return LEASE_UNKNOWN;
    group->clash_told = now;
    log_event(LOG_WARN, "lock_fence_unusable", "node=%s key=%s keys=%u", name, key, lock->key_count);
    return LEASE_UNKNOWN;
}

static enum lease_vote grant_read(struct redlock_lock *lock, unsigned node, struct grant_word word, uint64_t *detail)
{
    if (word.sign == '+' || word.sign == '=')
        return token_read(lock, word.token, detail);
    if (word.sign == '-' || word.sign == '!')
        return refusal_read(lock, node, &word, detail);
    return word.sign == '#' ? fence_refused(lock, node) : LEASE_UNKNOWN;
}

/* All keys of a lock agree, or the worst answer counts: if one key is not ours, the lock is not ours. */
static enum lease_vote keys_read(const struct batch_entry *entry, const char *answers)
{
    enum lease_vote vote = LEASE_YES;
    for (unsigned i = 0; i < entry->key_count; i++) {
        char answer = answers[entry->first_key + i];
        if (answer == '2')
            return LEASE_FOREIGN;
        if (answer != '1')
            vote = LEASE_NO;
    }
    return vote;
}

static enum lease_vote executed_vote(const struct batch *batch, const struct batch_entry *entry, unsigned node,
                                     const struct batch_answer *answer, uint64_t *detail)
{
    switch (batch->kind) {
    case BATCH_RELEASE:
        return swap_release_vote(keys_read(entry, answer->text), (entry->unsure & (1u << node)) != 0);
    case BATCH_LINGER:
        return keys_read(entry, answer->text);
    case BATCH_EXTEND:
        return keys_read(entry, answer->text);
    case BATCH_REPLANT:
        return answer->text[0] == '1' ? LEASE_YES : LEASE_NO;
    case BATCH_INTENT:
        return LEASE_UNKNOWN; /* nobody asks */
    case BATCH_RAISE:
        return answer->text[0] == '+' ? token_read(entry->lock, strtoll(answer->text + 1, NULL, 10), detail) : LEASE_NO;
    case BATCH_GRANT:
    case BATCH_GRANT_ALL:
        return grant_read(entry->lock, node, word_of(batch, entry, answer), detail);
    case BATCH_KINDS:
        break;
    }
    invariant_unreachable("a kind outside its enum");
}

enum lease_vote batch_codec_vote(const struct batch *batch, const struct batch_entry *entry, unsigned node,
                                 const struct batch_answer *answer, uint64_t *detail)
{
    bool is_grant = batch->kind == BATCH_GRANT || batch->kind == BATCH_GRANT_ALL;
    switch (answer->kind) {
    case ANSWER_EXECUTED:
        return executed_vote(batch, entry, node, answer, detail);
    case ANSWER_OTHER_MARKER:
    case ANSWER_TOO_LATE:
    case ANSWER_NOT_SENT:
        return is_grant ? LEASE_UNSENT : LEASE_UNKNOWN;
    case ANSWER_NONE:
        return LEASE_UNKNOWN;
    }
    invariant_unreachable("an answer outside its enum");
}

enum lease_vote batch_codec_granted(const struct batch *batch, const struct batch_entry *entry,
                                    const struct batch_answer *answer)
{
    char said = word_of(batch, entry, answer).sign;
    if (said == '+' || said == '=')
        return LEASE_YES;
    return said == '-' || said == '!' ? LEASE_NO : LEASE_UNKNOWN;
}

enum swap_answer batch_codec_swap_answer(const struct batch *batch, const struct batch_entry *entry,
                                         const struct batch_answer *answer)
{
    if (answer->kind != ANSWER_EXECUTED)
        return answer->kind == ANSWER_NONE ? SWAP_UNKNOWN : SWAP_NOT;
    char said = word_of(batch, entry, answer).sign;
    return said == '=' ? SWAP_TAKEN : said == '+' ? SWAP_FREE : SWAP_NOT;
}
