/* See overlap_detector.h. Each visited resource has a place: the visits that are open, few, and those
 * that are over, in the order of their beginnings, the latest first. Each of these also knows the latest end and the
 * largest token of itself and all older ones, so that a search for what intersects stops where nothing can.
 *
 *     over:  latest ─▶ ... ─▶ oldest      top.left  = the latest end from here to the oldest
 *                                         top.token = the largest token from here to the oldest
 *
 * A pair is judged when the second of the two is over. A refusal is found from both sides: when a visit is left, among
 * those that began before; and when one begins, among those that were left after it, for records come in any order. */
#include "worker/dry_run/count/overlap_detector.h"

#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/list.h"
#include "base/memory.h"

enum { HOSTS = 256, PROCESSES = 64, OVER_MAX = 65536 };

/* Threads of a process write into rings of their own: so much later may one be read than another. */
#define SLACK_NS NS_PER_S

struct visit {
    struct list link; /* in open or over */
    unsigned host, process;
    uint64_t token;
    int64_t entered, left;
    int64_t returned;                /* as another process reported; 0 = none did */
    int64_t clock_error;             /* of its host, the largest while its times were reported */
    int64_t moved_least, moved_most; /* what was added to its times */
    bool was_refused;                /* or cannot be: it was not left, but ended */
    struct {
        int64_t left;
        uint64_t token;
    } top;
    char jid[];
};

struct place {
    struct list link; /* of the places */
    unsigned resource;
    struct list open, over;
    unsigned over_count;
};

struct overlap_detector {
    struct overlap_told told;
    struct place **places; /* by number of the resource; NULL = no visit is known */
    size_t place_count;
    struct list used; /* places */
    int64_t clock_errors[HOSTS];
    int64_t worst_error;
    int64_t heard[HOSTS][PROCESSES]; /* 0 = never, or dead */
    int64_t latest;
    uint64_t remembered;
};

struct overlap_detector *overlap_detector_create(const struct overlap_told *told)
{
    struct overlap_detector *detector = memory_new(struct overlap_detector);
    detector->told = *told;
    list_init(&detector->used);
    return detector;
}

static struct visit *visit_of(struct list *link)
{
    return list_owner(link, struct visit, link);
}

static void visit_free(struct overlap_detector *detector, struct visit *visit)
{
    list_remove(&visit->link);
    free(visit);
    detector->remembered--;
}

static void place_free(struct overlap_detector *detector, struct place *place)
{
    while (!list_is_empty(&place->open))
        visit_free(detector, visit_of(place->open.next));
    while (!list_is_empty(&place->over))
        visit_free(detector, visit_of(place->over.next));
    detector->places[place->resource] = NULL;
    list_remove(&place->link);
    free(place);
}

void overlap_detector_destroy(struct overlap_detector *detector)
{
    if (detector == NULL)
        return;
    while (!list_is_empty(&detector->used))
        place_free(detector, list_owner(detector->used.next, struct place, link));
    free(detector->places);
    free(detector);
}

static struct place *place_of(struct overlap_detector *detector, unsigned resource)
{
    if (resource >= detector->place_count) {
        size_t count = ((size_t)resource + 1) * 2;
        detector->places = memory_resize(detector->places, count, sizeof detector->places[0]);
        memset(detector->places + detector->place_count, 0,
               (count - detector->place_count) * sizeof detector->places[0]);
        detector->place_count = count;
    }
    struct place *place = detector->places[resource];
    if (place != NULL)
        return place;
    place = memory_new(struct place);
    place->resource = resource;
    list_init(&place->link);
    list_init(&place->open);
    list_init(&place->over);
    list_append(&detector->used, &place->link);
    detector->places[resource] = place;
    return place;
}

/* --- judging ------------------------------------------------------------------------------------------------------ */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Times closer than this have no order: the clocks differ by as much. */
static int64_t doubt(const struct visit *a, const struct visit *b)
{
    if (a->host != b->host)
        return a->clock_error + b->clock_error;
    return most(a->moved_most, b->moved_most) - least(a->moved_least, b->moved_least);
}

/* One more of its times was reported. */
static void clock_note(const struct overlap_detector *detector, struct visit *visit, int64_t moved_ns)
{
    visit->clock_error = most(visit->clock_error, detector->clock_errors[visit->host]);
    visit->moved_least = least(visit->moved_least, moved_ns);
    visit->moved_most = most(visit->moved_most, moved_ns);
}

static bool intersect(const struct visit *a, const struct visit *b)
{
    return least(a->left, b->left) - most(a->entered, b->entered) > doubt(a, b);
}

static void overlaps_find(struct overlap_detector *detector, struct place *place, const struct visit *visit)
{
    for (struct list *link = place->over.next; link != &place->over; link = link->next) {
        const struct visit *other = visit_of(link);
        if (other->top.left <= visit->entered)
            return;
        if (!intersect(visit, other))
            continue;
        bool is_fenced = visit->token != 0 && other->token != 0 && visit->token != other->token;
        detector->told.overlap(detector->told.context, place->resource, is_fenced);
    }
}

static void refuse(struct overlap_detector *detector, const struct place *place, struct visit *visit)
{
    visit->was_refused = true;
    detector->told.refusal(detector->told.context, place->resource);
}

/* True when `late` was left after `next`, which has a larger token, had begun. */
static bool is_stale(const struct visit *late, const struct visit *next)
{
    return late->token != 0 && late->token < next->token && late->left - next->entered > doubt(late, next);
}

/* Whether a visit with a larger token began before the end of `visit`, which was just left. Visits that began clearly
 * before that end, by any clock, count together with all older ones. */
static bool has_successor(const struct overlap_detector *detector, const struct place *place, const struct visit *visit)
{
    for (struct list *link = place->open.next; link != &place->open; link = link->next)
        if (is_stale(visit, visit_of(link)))
            return true;
    for (struct list *link = place->over.next; link != &place->over; link = link->next) {
        const struct visit *other = visit_of(link);
        if (visit->left - other->entered > 2 * detector->worst_error)
            return visit->token != 0 && visit->token < other->top.token;
        if (is_stale(visit, other))
            return true;
    }
    return false;
}

static void refusals_find(struct overlap_detector *detector, struct place *place, const struct visit *next)
{
    for (struct list *link = place->over.next; link != &place->over; link = link->next) {
        struct visit *late = visit_of(link);
        if (late->top.left <= next->entered)
            return;
        if (!late->was_refused && is_stale(late, next))
            refuse(detector, place, late);
    }
}

/* --- visits ------------------------------------------------------------------------------------------------------- */

/* From `visit` to the latest: what is known of all older ones. */
static void tops_set(struct place *place, struct visit *visit)
{
    for (struct list *link = &visit->link; link != &place->over; link = link->previous) {
        struct visit *at = visit_of(link);
        at->top.left = at->left;
        at->top.token = at->token;
        if (link->next == &place->over)
            continue;
        const struct visit *older = visit_of(link->next);
        if (older->top.left > at->top.left)
            at->top.left = older->top.left;
        if (older->top.token > at->top.token)
            at->top.token = older->top.token;
    }
}

/* What is older than any that could still matter goes, when there are too many. */
static void over_limit(struct overlap_detector *detector, struct place *place)
{
    if (place->over_count <= OVER_MAX)
        return;
    visit_free(detector, visit_of(place->over.previous));
    place->over_count--;
}

static void visit_end(struct overlap_detector *detector, struct place *place, struct visit *visit, int64_t left)
{
    visit->left = left > visit->entered ? left : visit->entered;
    list_remove(&visit->link);
    overlaps_find(detector, place, visit);
    struct list *after = &place->over;
    while (after->next != &place->over && visit_of(after->next)->entered > visit->entered)
        after = after->next;
    list_prepend(after, &visit->link);
    place->over_count++;
    tops_set(place, visit);
    over_limit(detector, place);
}

static struct visit *open_find(struct place *place, const struct overlap_visit *told)
{
    for (struct list *link = place->open.next; link != &place->open; link = link->next) {
        struct visit *visit = visit_of(link);
        if (visit->host == told->host && visit->process == told->process && strcmp(visit->jid, told->jid) == 0)
            return visit;
    }
    return NULL;
}

void overlap_detector_entered(struct overlap_detector *detector, const struct overlap_visit *told)
{
    invariant(told->host < HOSTS && told->process < PROCESSES);
    struct place *place = place_of(detector, told->resource);
    size_t jid_size = strlen(told->jid) + 1;
    struct visit *visit = memory_zeroed(1, sizeof *visit + jid_size);
    memcpy(visit->jid, told->jid, jid_size);
    visit->host = told->host;
    visit->process = told->process;
    visit->token = told->token;
    visit->entered = told->at.ns;
    visit->left = INT64_MAX;
    visit->moved_least = visit->moved_most = told->moved_ns;
    clock_note(detector, visit, told->moved_ns);
    list_init(&visit->link);
    list_append(&place->open, &visit->link);
    detector->remembered++;
    refusals_find(detector, place, visit);
}

void overlap_detector_left(struct overlap_detector *detector, const struct overlap_visit *told)
{
    struct place *place = place_of(detector, told->resource);
    struct visit *visit = open_find(place, told);
    if (visit == NULL)
        return;
    visit->left = told->at.ns;
    clock_note(detector, visit, told->moved_ns);
    bool is_refused = has_successor(detector, place, visit);
    visit_end(detector, place, visit, told->at.ns);
    if (is_refused)
        refuse(detector, place, visit);
}

void overlap_detector_returned(struct overlap_detector *detector, const struct overlap_visit *told)
{
    struct visit *visit = open_find(place_of(detector, told->resource), told);
    if (visit == NULL || visit->entered > told->at.ns)
        return;
    visit->returned = told->at.ns;
    clock_note(detector, visit, told->moved_ns);
}

/* Ends without having been left, so nothing of it is refused. */
static void visit_cut(struct overlap_detector *detector, struct place *place, struct visit *visit, int64_t at)
{
    visit->was_refused = true;
    visit_end(detector, place, visit, visit->returned != 0 ? visit->returned : at);
}

/* --- hosts and processes ------------------------------------------------------------------------------------------ */

void overlap_detector_host(struct overlap_detector *detector, unsigned host, int64_t clock_error_ns)
{
    invariant(host < HOSTS);
    detector->clock_errors[host] = clock_error_ns;
    if (clock_error_ns > detector->worst_error)
        detector->worst_error = clock_error_ns;
}

void overlap_detector_heard(struct overlap_detector *detector, unsigned host, unsigned process, struct instant at)
{
    invariant(host < HOSTS && process < PROCESSES);
    int64_t *heard = &detector->heard[host][process];
    if (at.ns > *heard)
        *heard = at.ns;
    if (at.ns > detector->latest)
        detector->latest = at.ns;
}

/* Which of the open visits end now. */
struct cut {
    bool of_process;
    unsigned host, process;
    int64_t at;
    int64_t returned_before; /* 0 = any */
};

static bool is_cut(const struct cut *cut, const struct visit *visit)
{
    if (cut->of_process)
        return visit->host == cut->host && visit->process == cut->process;
    return cut->returned_before == 0 || (visit->returned != 0 && visit->returned < cut->returned_before);
}

static void open_cut(struct overlap_detector *detector, struct place *place, const struct cut *cut)
{
    for (struct list *link = place->open.next, *next; link != &place->open; link = next) {
        next = link->next;
        if (is_cut(cut, visit_of(link)))
            visit_cut(detector, place, visit_of(link), cut->at);
    }
}

static void all_cut(struct overlap_detector *detector, const struct cut *cut)
{
    for (struct list *link = detector->used.next; link != &detector->used; link = link->next)
        open_cut(detector, list_owner(link, struct place, link), cut);
}

void overlap_detector_died(struct overlap_detector *detector, unsigned host, unsigned process, struct instant at)
{
    invariant(host < HOSTS && process < PROCESSES);
    all_cut(detector, &(struct cut){.of_process = true, .host = host, .process = process, .at = at.ns});
    detector->heard[host][process] = 0;
}

void overlap_detector_missed(struct overlap_detector *detector, unsigned host, unsigned process)
{
    invariant(host < HOSTS && process < PROCESSES);
    struct instant told = {detector->heard[host][process] - SLACK_NS};
    overlap_detector_died(detector, host, process, told);
}

void overlap_detector_end(struct overlap_detector *detector, struct instant at)
{
    all_cut(detector, &(struct cut){.at = at.ns});
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

/* Nothing comes any more that lies before. */
static int64_t horizon_of(const struct overlap_detector *detector)
{
    int64_t horizon = detector->latest;
    for (unsigned i = 0; i < HOSTS; i++)
        for (unsigned j = 0; j < PROCESSES; j++)
            if (detector->heard[i][j] != 0 && detector->heard[i][j] < horizon)
                horizon = detector->heard[i][j];
    int64_t limit = detector->latest - OVERLAP_MEMORY_NS;
    return (horizon > limit ? horizon : limit) - SLACK_NS;
}

/* What is over can still meet what is open since before its end. */
static void place_tidy(struct overlap_detector *detector, struct place *place, int64_t horizon)
{
    for (struct list *link = place->open.next; link != &place->open; link = link->next)
        if (visit_of(link)->entered < horizon)
            horizon = visit_of(link)->entered;
    while (!list_is_empty(&place->over)) {
        struct visit *oldest = visit_of(place->over.previous);
        if (oldest->left >= horizon)
            return;
        visit_free(detector, oldest);
        place->over_count--;
    }
}

void overlap_detector_tidy(struct overlap_detector *detector)
{
    int64_t horizon = horizon_of(detector);
    struct cut lost = {.returned_before = horizon};
    for (struct list *link = detector->used.next, *next; link != &detector->used; link = next) {
        struct place *place = list_owner(link, struct place, link);
        next = link->next;
        if (horizon > 0)
            open_cut(detector, place, &lost);
        place_tidy(detector, place, horizon);
        if (list_is_empty(&place->open) && list_is_empty(&place->over))
            place_free(detector, place);
    }
}

uint64_t overlap_detector_remembered(const struct overlap_detector *detector)
{
    return detector->remembered;
}
