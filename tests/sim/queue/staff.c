/* A worker process: it is enlisted, renews its lease, looks at `schedule` and `retry` about once a second, recovers the
 * claims of processes whose lease has ended, and is rung for when there is something in the queue. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "queue/scripts.h"
#include "tests/sim/queue/scene.h"

enum { KEY_BYTES = 96, PAGE = 20 };

#define BEAT_NS     (5 * NS_PER_S)
#define LEASE_TEXT  "15"
#define LOOK_MIN_NS (700 * NS_PER_MS)
#define LOOK_MAX_NS (1300 * NS_PER_MS)
#define CALL_NS     (500 * NS_PER_MS)

enum { SET_SCHEDULE, SET_RETRY };

static struct server *queue_node(struct staff *crew)
{
    return &crew->scene->queue_node;
}

static void process_write(const char *identity, char key[KEY_BYTES])
{
    snprintf(key, KEY_BYTES, "hf:2:process:%s", identity);
}

static void told_nothing(void *owner, uintptr_t detail, const struct reply *reply)
{
    (void)owner;
    (void)detail;
    (void)reply;
}

/* --- due tasks --------------------------------------------------------------------------------------------------- */

static const char *set_name(uintptr_t set)
{
    return set == SET_SCHEDULE ? "schedule" : "retry";
}

static const char *list_name(unsigned resource)
{
    static const char *const names[RESOURCES_MAX] = {"resource:r0", "resource:r1"};
    return names[resource];
}

/* Texts of a request, which are the caller's until it is sent. */
struct wait_words {
    char number[24], jid[24];
};

/* Each task names the waiting list in which it may be. */
static void waits_write(struct scene *scene, const struct reply *page, struct wait_words words[PAGE],
                        struct request *request)
{
    request_text(request, "hf:2:waiting:");
    request_text(request, "hf:2:places:");
    for (size_t i = 1; i < page->count; i++) {
        const struct chore *chore = chore_of(scene, page->items[i]->text);
        struct wait_words *of_this = &words[i - 1];
        snprintf(of_this->number, sizeof of_this->number, "%zu", i);
        snprintf(of_this->jid, sizeof of_this->jid, "j%u", chore->jid);
        request_text(request, of_this->number);
        request_text(request, of_this->jid);
        request_text(request, list_name(chore->resource));
    }
}

/* The text of a promoted task is another one, as its `enqueued_at` is. */
static void entries_promote(struct staff *crew, uintptr_t set, const struct reply *page)
{
    struct request request;
    char texts[PAGE][PAYLOAD_BYTES];
    struct wait_words words[PAGE];
    request_begin(&request, &queue_script_promote);
    request_key(&request, set_name(set));
    request_key(&request, "queues");
    request_key(&request, "dead");
    for (size_t i = 1; i < page->count; i++)
        request_key(&request, "queue:q");
    request_text(&request, "15552000");
    request_text(&request, "10000");
    for (size_t i = 1; i < page->count; i++) {
        const struct chore *chore = chore_of(crew->scene, page->items[i]->text);
        chore_write(chore, (unsigned)(++crew->scene->values), texts[i - 1]);
        request_text(&request, reply_text(page, i));
        request_text(&request, texts[i - 1]);
        request_text(&request, "q");
    }
    if (set == SET_SCHEDULE)
        waits_write(crew->scene, page, words, &request);
    crew->scene->counters->promoted += page->count - 1;
    server_ask_once(queue_node(crew), crew, &request, CALL_NS, told_nothing, crew, 0);
}

static void page_told(void *owner, uintptr_t detail, const struct reply *page)
{
    struct staff *crew = owner;
    if (page != NULL && page->count > 1)
        entries_promote(crew, detail, page);
}

static void due_ask(struct staff *crew, uintptr_t set)
{
    struct request request;
    request_begin(&request, &queue_script_due);
    request_key(&request, set_name(set));
    if (set == SET_SCHEDULE) {
        request_key(&request, "hf:2:contended");
        request_key(&request, "paused");
        request_key(&request, "retry");
        request_key(&request, "hf:2:processes");
        request_key(&request, "hf:2:heirs");
        request_text(&request, "0");
        request_text(&request, "20");
        request_text(&request, "1000000");
        request_text(&request, "hf:2:waiting:");
        request_text(&request, "hf:2:places:");
        request_text(&request, "queue:");
        request_text(&request, "hf:2:process:");
        request_text(&request, "hf:2:bell:");
    } else {
        request_text(&request, "0");
        request_text(&request, "20");
        request_text(&request, "1000000");
    }
    server_ask_once(queue_node(crew), crew, &request, CALL_NS, page_told, crew, set);
}

/* The first of what is expected; what this look finds is expected no more. */
static struct instant next_expected(struct staff *crew)
{
    struct instant next = INSTANT_NEVER;
    unsigned kept = 0;
    for (unsigned i = 0; i < crew->expected_count; i++) {
        if (!instant_before(crew->scene->now, crew->expected[i]))
            continue;
        crew->expected[kept++] = crew->expected[i];
        next = instant_earlier(next, crew->expected[i]);
    }
    crew->expected_count = kept;
    return next;
}

/* `retry` is empty unless something went wrong, so it is looked at without being told to. */
static void staff_looks(struct event *event)
{
    struct staff *crew = list_owner(event, struct staff, look);
    struct scene *scene = crew->scene;
    due_ask(crew, SET_RETRY);
    due_ask(crew, SET_SCHEDULE);
    struct instant usual = instant_after(scene->now, chance_between(&scene->chance, LOOK_MIN_NS, LOOK_MAX_NS));
    heap_set(&scene->heap, &event->item, instant_earlier(usual, next_expected(crew)));
}

/* A task that was parked here will be due: the next look is not later (promoter_expect). */
void staff_expect(struct staff *crew, int64_t due_ns)
{
    struct instant due = instant_after(crew->scene->now, due_ns);
    if (crew->scene->bug == BUG_FORGETS_DUE)
        return;
    if (due_ns <= LOOK_MAX_NS && crew->expected_count < EXPECTED_MAX)
        crew->expected[crew->expected_count++] = due;
    if (heap_holds(&crew->look.item) && instant_before(due, crew->look.item.at))
        heap_set(&crew->scene->heap, &crew->look.item, due);
}

/* --- what may be left of locks ------------------------------------------------------------------------------------ */

static void retell_follow(struct staff *crew)
{
    struct instant next = remnants_next(crew->remnants);
    if (next.ns == INSTANT_NEVER.ns)
        heap_remove(&crew->scene->heap, &crew->retell.item);
    else
        heap_set(&crew->scene->heap, &crew->retell.item, next);
}

static void staff_retells(struct event *event)
{
    struct staff *crew = list_owner(event, struct staff, retell);
    const char *list = NULL;
    while ((list = remnants_due(crew->remnants, crew->scene->now)) != NULL) {
        crew->scene->counters->retold++;
        call_free(crew, strcmp(list, list_name(0)) != 0, NULL, false);
    }
    retell_follow(crew);
}

void staff_doubt(struct staff *crew, unsigned resource)
{
    if (crew->scene->bug == BUG_LEAVES_REMNANTS)
        return;
    remnants_note(crew->remnants, list_name(resource), crew->scene->now, crew->scene->terms.ttl_ns);
    retell_follow(crew);
}

/* --- dead processes ---------------------------------------------------------------------------------------------- */

static void recover(struct staff *crew, const char *identity, const struct reply *orphans)
{
    struct request request;
    char process[KEY_BYTES], who[PAGE][KEY_BYTES], ids[PAGE][ID_BYTES], jids[PAGE][24];
    size_t count = orphans->count / 2 < PAGE ? orphans->count / 2 : PAGE;
    process_write(identity, process);
    request_begin(&request, &queue_script_recover);
    request_key(&request, "hf:2:processes");
    request_key(&request, process);
    request_key(&request, "dead");
    for (size_t i = 0; i < count; i++) {
        const struct text place = orphans->items[2 * i + 1]->text;
        const char *line = strchr(place.bytes + ID_BYTES, '\n');
        snprintf(jids[i], sizeof jids[i], "j%u", chore_of(crew->scene, text_of(line + 1))->jid);
        snprintf(who[i], KEY_BYTES, "hf:2:recovered:%.23s", jids[i]);
        memcpy(ids[i], place.bytes, ID_BYTES);
        request_key(&request, who[i]);
        request_key(&request, "queue:q");
        request_key(&request, "hf:2:unique:none");
    }
    request_text(&request, identity);
    char bells[KEY_BYTES];
    snprintf(bells, sizeof bells, "hf:2:bell:%s:", identity);
    request_text(&request, bells);
    request_text(&request, "queue:");
    request_text(&request, "100"); /* nothing is poison here */
    request_text(&request, "100");
    request_text(&request, "259200");
    request_text(&request, "15552000");
    request_text(&request, "10000");
    request_text(&request, "1");
    request_text(&request, "5");
    for (size_t i = 0; i < count; i++) {
        request_text(&request, reply_text(orphans, 2 * i));
        request_bytes(&request, ids[i], ID_BYTES);
        request_text(&request, jids[i]);
        request_text(&request, "");
    }
    crew->scene->counters->recovered += count;
    server_ask_once(queue_node(crew), crew, &request, CALL_NS, told_nothing, crew, 0);
}

/* `detail` is the number of the crew and of its life. */
static void identity_write(unsigned index, unsigned life, char identity[NAME_BYTES])
{
    snprintf(identity, NAME_BYTES, "h%u:1:%u", index, life);
}

static void orphans_told(void *owner, uintptr_t detail, const struct reply *reply)
{
    char identity[NAME_BYTES];
    identity_write(detail & 0xff, (unsigned)(detail >> 8), identity);
    if (reply != NULL)
        recover(owner, identity, reply);
}

static void orphans_ask(struct staff *crew, const char *identity)
{
    struct request request;
    char process[KEY_BYTES];
    unsigned index = 0, life = 0;
    if (sscanf(identity, "h%u:1:%u", &index, &life) != 2)
        abort();
    process_write(identity, process);
    request_begin(&request, &queue_script_orphans);
    request_key(&request, "hf:2:processes");
    request_key(&request, process);
    request_text(&request, identity);
    request_text(&request, "100000");
    server_ask_once(queue_node(crew), crew, &request, CALL_NS, orphans_told, crew, (uintptr_t)life << 8 | index);
}

/* --- the lease --------------------------------------------------------------------------------------------------- */

static void beat_told(void *owner, uintptr_t detail, const struct reply *reply)
{
    (void)detail;
    struct staff *crew = owner;
    if (reply == NULL)
        return;
    if (strcmp(reply_text(reply, 0), "lost") == 0) {
        staff_die(crew, NS_PER_S); /* it would start over by itself */
        return;
    }
    const struct reply *dead = reply->items[3];
    for (size_t i = 0; i < dead->count; i++)
        orphans_ask(crew, reply_text(dead, i));
}

static void staff_beats(struct event *event)
{
    struct staff *crew = list_owner(event, struct staff, beat);
    struct request request;
    char process[KEY_BYTES];
    process_write(crew->identity, process);
    request_begin(&request, &queue_script_beat);
    request_key(&request, "hf:2:processes");
    request_key(&request, process);
    request_key(&request, "paused");
    request_text(&request, crew->identity);
    request_text(&request, LEASE_TEXT);
    request_text(&request, "4");
    request_text(&request, "hf:2:process:");
    request_text(&request, "q");
    server_ask_once(queue_node(crew), crew, &request, CALL_NS, beat_told, crew, 0);
    event_set_in(crew->scene, event, BEAT_NS);
}

static void enlisted(void *owner, uintptr_t detail, const struct reply *reply)
{
    (void)detail;
    (void)reply;
    struct staff *crew = owner;
    crew->is_enlisted = true;
    event_set_in(crew->scene, &crew->beat, chance_below(&crew->scene->chance, BEAT_NS));
    event_set_in(crew->scene, &crew->look, chance_below(&crew->scene->chance, LOOK_MAX_NS));
    crews_ring(crew->scene);
}

/* --- bells ------------------------------------------------------------------------------------------------------- */

static bool is_idle(const struct seat *seat)
{
    return seat->flow.state == FLOW_IDLE && seat->mate->flow.state == FLOW_IDLE;
}

static void staff_rung(struct event *event)
{
    struct staff *crew = list_owner(event, struct staff, bell);
    for (unsigned i = 0; i < crew->scene->seat_count / 2; i++)
        if (is_idle(&crew->seats[i]))
            seat_wake(&crew->seats[i]);
}

static bool queue_is_empty(struct scene *scene)
{
    const struct text list = text_of("queue:q"), paused = text_of("paused");
    return keyspace_find(&scene->queue_node.space, list) == NULL ||
           keyspace_find(&scene->queue_node.space, paused) != NULL;
}

void crews_ring(struct scene *scene)
{
    if (queue_is_empty(scene))
        return;
    for (unsigned i = 0; i < scene->staff_count; i++) {
        struct staff *crew = &scene->crews[i];
        bool has_idle = false;
        if (!crew->is_enlisted || heap_holds(&crew->bell.item))
            continue;
        for (unsigned s = 0; s < scene->seat_count / 2; s++)
            has_idle = has_idle || is_idle(&crew->seats[s]);
        if (has_idle)
            event_set_in(scene, &crew->bell, chance_between(&scene->chance, 100 * NS_PER_US, NS_PER_MS));
    }
}

/* --- life and death ---------------------------------------------------------------------------------------------- */

void staff_start(struct staff *crew)
{
    struct scene *scene = crew->scene;
    struct request request;
    char process[KEY_BYTES];
    identity_write(crew->index, ++crew->life, crew->identity);
    crew->is_alive = true;
    crew->stopped_until = (struct instant){0};
    crew->expected_count = 0;
    crew->contention = contention_create(crew->life);
    crew->remnants = remnants_create();
    for (unsigned i = 0; i < scene->seat_count; i++)
        seat_init(&crew->seats[i], crew, i);
    scene_trace(scene, "%s starts", crew->identity);
    process_write(crew->identity, process);
    request_begin(&request, &queue_script_enlist);
    request_key(&request, "hf:2:processes");
    request_key(&request, process);
    request_text(&request, crew->identity);
    request_text(&request, LEASE_TEXT);
    request_text(&request, "q");
    server_ask_until_told(queue_node(crew), crew, &request, enlisted, crew, 0);
}

void staff_end(struct staff *crew)
{
    struct scene *scene = crew->scene;
    crew->is_alive = crew->is_enlisted = false;
    server_forget(crew);
    grips_forget(crew);
    contention_destroy(crew->contention);
    crew->contention = NULL;
    remnants_destroy(crew->remnants);
    crew->remnants = NULL;
    struct event *const events[] = {&crew->beat, &crew->look, &crew->bell, &crew->retell};
    for (unsigned i = 0; i < sizeof events / sizeof events[0]; i++)
        heap_remove(&scene->heap, &events[i]->item);
    for (unsigned i = 0; i < scene->seat_count; i++) {
        heap_remove(&scene->heap, &crew->seats[i].run_end.item);
        heap_remove(&scene->heap, &crew->seats[i].keep.item);
    }
}

bool staff_is_stopped(const struct staff *crew)
{
    return instant_before(crew->scene->now, crew->stopped_until);
}

void staff_die(struct staff *crew, int64_t back_in_ns)
{
    scene_trace(crew->scene, "%s dies", crew->identity);
    crew->scene->counters->deaths++;
    staff_end(crew);
    event_set_in(crew->scene, &crew->start, back_in_ns);
}

static void staff_starts(struct event *event)
{
    staff_start(list_owner(event, struct staff, start));
}

void staff_init(struct staff *crew, struct scene *scene, unsigned index)
{
    *crew = (struct staff){.scene = scene, .index = index};
    list_init(&crew->grips);
    crew->beat.crew = crew->look.crew = crew->bell.crew = crew->retell.crew = crew;
    crew->beat.happens = staff_beats;
    crew->look.happens = staff_looks;
    crew->bell.happens = staff_rung;
    crew->retell.happens = staff_retells;
    crew->start.happens = staff_starts;
    event_set_in(scene, &crew->start, chance_below(&scene->chance, 50 * NS_PER_MS));
}
