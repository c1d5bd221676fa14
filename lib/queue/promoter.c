/* The promoter reads pages of due entries, first of `schedule`, then, if that answer says that `retry` has due entries,
 * of `retry`. So a look that finds nothing is one call.
 *
 *   look_fire ─▶ page_send ─▶ page_answered ─▶ promote_send ─▶ promote_answered ─▶ page_next ─▶ page_send ...
 *                                  │ nothing of the page is ours                      ▲   └──▶ sleeps
 *                                  └──────────────────────────────────────────────────┘
 *
 * Entries that stay are skipped by their number: `stays` of them have been seen from the front of the set. Other
 * processes may move entries meanwhile; then a page begins too far behind, and the next round finds what it misses.
 * That round begins at the front once the end of the due entries has been reached.
 *
 * At most one call is outstanding. A look takes a bounded number of pages of each set from which nothing is moved
 * (IDLE_PAGES). Pages from which something is moved follow each other at once and alternate between the sets
 * (BUSY_PAGES), until there is nothing to move. */
#include "queue/promoter.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "queue/keys.h"
#include "queue/scripts.h"

#define INTERVAL_MIN_NS (1 * NS_PER_S)
#define INTERVAL_MAX_NS (15 * NS_PER_S)
#define LOOKS_A_SECOND  2 /* of all processes that serve a queue */

/* Usual intervals between two looks that empty bells: all processes that serve a queue together do that about every 2
 * s. It costs the node half as much as the whole look, and is needed only if a process hangs. */
#define BELLS_EVERY 4

/* Between looks for what is expected. */
#define EXPECTED_MIN_NS (5 * NS_PER_MS)

enum { EXPECTED_MAX = 16 };
enum { ENTRIES_A_PAGE = 100, BYTES_A_PAGE = 4 << 20, IDLE_PAGES = 10, BUSY_PAGES = 50 };

enum { SET_SCHEDULE, SET_RETRY, SETS };

/* The first element of what due.lua answers. */
enum { PAGE_MORE = 1, PAGE_OTHER = 2 };

struct promoter {
    struct loop *loop;
    struct queue *queue;
    struct promoter_options options;
    char **names;
    bool paused;
    struct loop_timer timer;
    struct instant look_at, bells_at;      /* bells are emptied by the first look from `bells_at` on */
    struct instant expected[EXPECTED_MAX]; /* when entries will be due that nobody has looked for yet; in no order */
    unsigned expected_count;
    struct redis_call call;
    struct envelope envelope;
    struct buffer request, keys, entries, waits, text, name;
    unsigned set;          /* which one is being looked at */
    long long stays[SETS]; /* entries at the front that were seen and stay */
    struct instant round_began[SETS];
    struct instant seen[SETS]; /* when the last round began that came to the end of what was due */
    unsigned idle_pages;       /* since this set is looked at: nothing was moved */
    unsigned busy_pages;       /* something was moved, and there was more */
    bool again;                /* some set was left in the middle of being moved */
    size_t shown, sent;        /* entries of this page, and how many of them may be moved */
    size_t waiting;            /* and how many of those name a waiting list: in `waits` */
    bool more;                 /* more is due behind this page */
    bool retry_is_due;         /* something of it is, as the last page of `schedule` said */
    uint64_t moved;
};

static const char *set_key(const struct promoter *promoter)
{
    const struct queue_keys *keys = queue_keys_of(promoter->queue);
    return promoter->set == SET_RETRY ? keys->retry : keys->schedule;
}

static struct instant call_deadline(const struct promoter *promoter)
{
    return loop_after(promoter->loop, promoter->options.timeout_ns);
}

/* --- looking ---------------------------------------------------------------------------------------------------- */

/* The first expected time that the last look at `schedule` was too early for; late enough that looks do not pile up. */
static struct instant expected_next(struct promoter *promoter)
{
    struct instant next = INSTANT_NEVER, soonest = loop_after(promoter->loop, EXPECTED_MIN_NS);
    unsigned kept = 0;
    for (unsigned i = 0; i < promoter->expected_count; i++) {
        struct instant due = promoter->expected[i];
        if (!instant_before(promoter->round_began[SET_SCHEDULE], due))
            continue;
        promoter->expected[kept++] = due;
        next = instant_earlier(next, due);
    }
    promoter->expected_count = kept;
    return instant_before(next, soonest) ? soonest : next;
}

int64_t promoter_interval_ns(unsigned serving)
{
    int64_t share_ns = serving * NS_PER_S / LOOKS_A_SECOND;
    if (share_ns < INTERVAL_MIN_NS)
        return INTERVAL_MIN_NS;
    return share_ns < INTERVAL_MAX_NS ? share_ns : INTERVAL_MAX_NS;
}

/* The longest wait to the next usual look. */
static int64_t wait_longest(const struct promoter *promoter)
{
    return promoter_interval_ns(queue_serving(promoter->queue)) / 10 * 13;
}

static int64_t wait_shortest(const struct promoter *promoter)
{
    return promoter_interval_ns(queue_serving(promoter->queue)) / 10 * 7;
}

static void look_later(struct promoter *promoter)
{
    promoter->set = SET_SCHEDULE;
    promoter->idle_pages = promoter->busy_pages = 0;
    promoter->again = false;
    struct instant usual = loop_after(promoter->loop, random_between(wait_shortest(promoter), wait_longest(promoter)));
    promoter->look_at = instant_earlier(usual, expected_next(promoter));
    if (!promoter->paused)
        loop_timer_set(promoter->loop, &promoter->timer, promoter->look_at);
}

/* Once in a while, with the first page of a look. */
static bool bells_are_due(struct promoter *promoter)
{
    struct instant now = loop_now(promoter->loop);
    if (promoter->stays[SET_SCHEDULE] > 0 || instant_before(now, promoter->bells_at))
        return false;
    promoter->bells_at = instant_after(now, BELLS_EVERY * promoter_interval_ns(queue_serving(promoter->queue)));
    return true;
}

static void page_answered(struct redis_call *call, const struct redis_result *result);

static void page_send(struct promoter *promoter)
{
    struct buffer *out = &promoter->request;
    const struct queue_keys *keys = queue_keys_of(promoter->queue);
    bool examines = promoter->set == SET_SCHEDULE;
    bool empties = examines && bells_are_due(promoter);
    if (promoter->stays[promoter->set] == 0)
        promoter->round_began[promoter->set] = loop_now(promoter->loop);
    buffer_clear(out);
    redis_request_script(out, &queue_script_due, examines ? 6 : 1, empties ? 8 : 7);
    redis_request_text(out, set_key(promoter));
    if (examines) {
        redis_request_texts(out, keys->contended, keys->paused, keys->retry, keys->processes, keys->successors);
    }
    redis_request_integer(out, promoter->stays[promoter->set]);
    redis_request_integer(out, ENTRIES_A_PAGE);
    redis_request_integer(out, BYTES_A_PAGE);
    redis_request_texts(out, keys->waiting_prefix, keys->waiters_prefix, keys->queue_prefix, keys->process_prefix);
    if (empties)
        redis_request_text(out, keys->any_bell_prefix);
    promoter->call.done = page_answered;
    if (!redis_node_call(queue_node(promoter->queue), out, call_deadline(promoter), &promoter->call))
        look_later(promoter);
}

/* Turns to the other set, or ends the look. If `retry` has no due entries, a round through it is complete. */
static void set_next(struct promoter *promoter)
{
    promoter->again = promoter->again || promoter->busy_pages == BUSY_PAGES;
    promoter->idle_pages = promoter->busy_pages = 0;
    if (++promoter->set == SET_RETRY && !promoter->retry_is_due) {
        promoter->stays[SET_RETRY] = 0;
        promoter->seen[SET_RETRY] = promoter->round_began[SET_SCHEDULE];
        promoter->set = SETS;
    }
    if (promoter->set == SETS && promoter->again) {
        promoter->again = false;
        promoter->set = SET_SCHEDULE;
    }
    if (promoter->set == SETS || promoter->paused)
        look_later(promoter);
    else
        page_send(promoter);
}

/* Goes on after a page of which `moved` entries have left the set. */
static void page_next(struct promoter *promoter, size_t moved)
{
    long long *stays = &promoter->stays[promoter->set];
    if (!promoter->more)
        promoter->seen[promoter->set] = promoter->round_began[promoter->set];
    *stays = promoter->more ? *stays + (long long)(promoter->shown - moved) : 0;
    promoter->idle_pages += moved == 0;
    promoter->busy_pages += moved > 0 && promoter->more;
    if (promoter->more && promoter->idle_pages < IDLE_PAGES && promoter->busy_pages < BUSY_PAGES && !promoter->paused)
        page_send(promoter);
    else
        set_next(promoter);
}

/* --- moving ----------------------------------------------------------------------------------------------------- */

static bool is_served(const struct promoter *promoter, const char *queue)
{
    const struct promoter_options *options = &promoter->options;
    for (unsigned i = 0; i < options->name_count; i++)
        if (strcmp(promoter->names[i], queue) == 0)
            return true;
    return options->name_count == 0;
}

/* A text that we cannot read as a task, or that is too large, may be valid for processes that serve its queue. */
static bool is_for_others(struct promoter *promoter, const char *entry, size_t length)
{
    buffer_clear(&promoter->name);
    return envelope_find_queue(entry, length, &promoter->name) && !is_served(promoter, buffer_text(&promoter->name));
}

static void entry_rewrite(struct promoter *promoter, struct wall_time now)
{
    const struct envelope *envelope = &promoter->envelope;
    struct buffer at = {0}, expiry = {0};
    struct text_span former = envelope_member_value(envelope, "enqueued_at");
    envelope_append_time_like(&at, now, former, promoter->options.keep_ms);
    struct envelope_change changes[] = {{"enqueued_at", {at.bytes, at.length}}, {"at", {NULL, 0}}, {"expires_at", {0}}};
    struct wall_time expires_at = envelope_expiry_when_due(envelope, now);
    bool expires = promoter->set == SET_SCHEDULE && expires_at.us != 0;
    if (expires) {
        envelope_append_time(&expiry, expires_at);
        changes[2].value = (struct text_span){expiry.bytes, expiry.length};
    }
    envelope_rewrite(envelope, changes, expires ? 3 : 2, &promoter->text);
    buffer_fini(&at);
    buffer_fini(&expiry);
}

/* The queue for the entry, "" if it is no task and `text` goes to `dead`; NULL if it stays. */
static const char *entry_target(struct promoter *promoter, const char *entry, size_t length)
{
    struct error error = ERROR_NONE;
    struct wall_time now = queue_now(promoter->queue);
    buffer_clear(&promoter->text);
    if (envelope_parse(&promoter->envelope, entry, length, promoter->options.limits, &error)) {
        const char *queue = promoter->envelope.queue[0] != '\0' ? promoter->envelope.queue : "default";
        if (!is_served(promoter, queue))
            return NULL;
        entry_rewrite(promoter, now);
        return queue;
    }
    if (is_for_others(promoter, entry, length))
        return NULL;
    char why[LOG_QUOTE_MAX];
    log_event(LOG_WARN, "task_invalid", "state=%s bytes=%zu reason=%s", set_key(promoter), length,
              log_value(error.text, why));
    envelope_write_invalid(entry, length, "", error.text, now, &promoter->text);
    return "";
}

/* The entry that was added last may wait in a waiting list. */
static void wait_add(struct promoter *promoter)
{
    const struct envelope *envelope = &promoter->envelope;
    if (envelope->list[0] == '\0' || envelope->jid[0] == '\0')
        return;
    promoter->waiting++;
    redis_request_integer(&promoter->waits, (int64_t)promoter->sent);
    redis_request_texts(&promoter->waits, envelope->jid, envelope->list);
}

static void entry_add(struct promoter *promoter, const struct redis_reply *entry)
{
    const char *queue = entry_target(promoter, entry->bytes, entry->length);
    if (queue == NULL)
        return;
    promoter->sent++;
    queue_keys_request_queue(queue_keys_of(promoter->queue), queue, &promoter->keys);
    redis_request_bytes(&promoter->entries, entry->bytes, entry->length);
    redis_request_bytes(&promoter->entries, promoter->text.bytes, promoter->text.length);
    redis_request_text(&promoter->entries, queue);
    if (promoter->set == SET_SCHEDULE && queue[0] != '\0')
        wait_add(promoter);
}

static void promote_answered(struct redis_call *call, const struct redis_result *result)
{
    struct promoter *promoter = list_owner(call, struct promoter, call);
    if (result->outcome != REDIS_VALUE) {
        look_later(promoter);
        return;
    }
    long long moved = result->reply->kind == REDIS_INTEGER ? result->reply->integer : 0;
    promoter->moved += (uint64_t)moved;
    page_next(promoter, (size_t)moved);
}

static void promote_send(struct promoter *promoter)
{
    const struct queue_keys *keys = queue_keys_of(promoter->queue);
    struct buffer *out = &promoter->request;
    buffer_clear(out);
    size_t of_waits = promoter->waiting > 0 ? 2 + 3 * promoter->waiting : 0;
    redis_request_script(out, &queue_script_promote, 3 + promoter->sent, 2 + 3 * promoter->sent + of_waits);
    redis_request_texts(out, set_key(promoter), keys->queues, keys->dead);
    buffer_append(out, promoter->keys.bytes, promoter->keys.length);
    redis_request_integer(out, DEAD_AGE_S);
    redis_request_integer(out, DEAD_ENTRIES);
    buffer_append(out, promoter->entries.bytes, promoter->entries.length);
    if (promoter->waiting > 0) {
        redis_request_texts(out, keys->waiting_prefix, keys->waiters_prefix);
        buffer_append(out, promoter->waits.bytes, promoter->waits.length);
    }
    promoter->call.done = promote_answered;
    if (!redis_node_call(queue_node(promoter->queue), out, call_deadline(promoter), &promoter->call))
        look_later(promoter);
}

/* The first element says what is due beyond it. */
static bool is_page(const struct redis_result *result)
{
    return result->outcome == REDIS_VALUE && result->reply->kind == REDIS_ARRAY && result->reply->count > 0;
}

/* A foreign value under `schedule` does not keep the entries of `retry` from moving. */
static void page_failed(struct promoter *promoter, const struct redis_result *result)
{
    if (promoter->set == SET_SCHEDULE && result->reply != NULL) {
        promoter->retry_is_due = true;
        set_next(promoter);
    } else {
        look_later(promoter);
    }
}

static void page_answered(struct redis_call *call, const struct redis_result *result)
{
    struct promoter *promoter = list_owner(call, struct promoter, call);
    if (!is_page(result) || promoter->paused) {
        page_failed(promoter, result);
        return;
    }
    const struct redis_reply *page = result->reply;
    promoter->more = (page->elements[0].integer & PAGE_MORE) != 0;
    if (promoter->set == SET_SCHEDULE)
        promoter->retry_is_due = (page->elements[0].integer & PAGE_OTHER) != 0;
    promoter->shown = page->count - 1;
    promoter->sent = promoter->waiting = 0;
    buffer_clear(&promoter->keys);
    buffer_clear(&promoter->entries);
    buffer_clear(&promoter->waits);
    for (size_t i = 1; i < page->count; i++)
        entry_add(promoter, &page->elements[i]);
    if (promoter->sent > 0)
        promote_send(promoter);
    else
        page_next(promoter, 0);
}

/* --- life ------------------------------------------------------------------------------------------------------- */

static void look_fire(struct loop_timer *timer)
{
    page_send(list_owner(timer, struct promoter, timer));
}

void promoter_pause(struct promoter *promoter, bool paused)
{
    if (promoter->paused == paused)
        return;
    promoter->paused = paused;
    if (paused)
        loop_timer_clear(promoter->loop, &promoter->timer);
    else if (!redis_call_is_outstanding(&promoter->call))
        look_later(promoter);
}

/* Beyond the limit keeps the soonest: a late look matters least to a task that waits for long anyway. */
static void expected_add(struct promoter *promoter, struct instant due)
{
    struct instant *latest = &promoter->expected[0];
    if (promoter->expected_count < EXPECTED_MAX) {
        promoter->expected[promoter->expected_count++] = due;
        return;
    }
    for (unsigned i = 1; i < EXPECTED_MAX; i++)
        if (instant_before(*latest, promoter->expected[i]))
            latest = &promoter->expected[i];
    *latest = instant_earlier(*latest, due);
}

void promoter_expect(struct promoter *promoter, int64_t due_ns)
{
    struct instant due = loop_after(promoter->loop, due_ns);
    if (due_ns <= wait_longest(promoter))
        expected_add(promoter, due);
    if (loop_timer_is_set(&promoter->timer) && instant_before(due, promoter->look_at)) {
        promoter->look_at = due;
        loop_timer_set(promoter->loop, &promoter->timer, due);
    }
}

struct promoter *promoter_create(struct loop *loop, struct queue *queue, const struct promoter_options *options)
{
    struct promoter *promoter = memory_new(struct promoter);
    promoter->loop = loop;
    promoter->queue = queue;
    promoter->options = *options;
    promoter->names = memory_zeroed(options->name_count + 1, sizeof(char *));
    for (unsigned i = 0; i < options->name_count; i++)
        promoter->names[i] = memory_text(options->names[i]);
    loop_timer_init(&promoter->timer, look_fire);
    look_later(promoter);
    return promoter;
}

void promoter_destroy(struct promoter *promoter)
{
    loop_timer_clear(promoter->loop, &promoter->timer);
    redis_call_cancel(&promoter->call);
    envelope_fini(&promoter->envelope);
    struct buffer *const buffers[] = {&promoter->request, &promoter->keys, &promoter->entries,
                                      &promoter->waits,   &promoter->text, &promoter->name};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        buffer_fini(buffers[i]);
    for (unsigned i = 0; i < promoter->options.name_count; i++)
        free(promoter->names[i]);
    free(promoter->names);
    free(promoter);
}

struct instant promoter_seen(const struct promoter *promoter)
{
    return instant_earlier(promoter->seen[SET_SCHEDULE], promoter->seen[SET_RETRY]);
}

uint64_t promoter_moved(const struct promoter *promoter)
{
    return promoter->moved;
}
