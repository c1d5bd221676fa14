/* See overlap_detector.h. Each visited resource has its visits: those that are open, few, and those
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

enum { PROCESSES = 64, OVER_MAX = 65536 };

/* Threads of a process write into rings of their own: so much later may one be read than another. */
#define SLACK_NS NS_PER_S

struct visit {
    struct list link; /* in open or over */
    unsigned process;
    uint64_t token;
    int64_t entered, left;
    int64_t returned; /* as its worker reported; 0 = not yet */
    bool was_refused; /* or cannot be: it was not left, but ended */
    struct {
        int64_t left;
        uint64_t token;
    } top;
    char jid[];
};

struct visits {
    struct list link; /* of all with any */
    unsigned resource;
    struct list open, over;
    unsigned over_count;
};

struct overlap_detector {
    struct overlap_told told;
    struct visits **visits; /* by number of the resource; NULL = no visit is known */
    size_t resource_count;
    struct list used;         /* visits of a resource */
    int64_t heard[PROCESSES]; /* 0 = never, or dead */
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

static void visits_free(struct overlap_detector *detector, struct visits *visits)
{
    while (!list_is_empty(&visits->open))
        visit_free(detector, visit_of(visits->open.next));
    while (!list_is_empty(&visits->over))
        visit_free(detector, visit_of(visits->over.next));
    detector->visits[visits->resource] = NULL;
    list_remove(&visits->link);
    free(visits);
}

void overlap_detector_destroy(struct overlap_detector *detector)
{
    if (detector == NULL)
        return;
    while (!list_is_empty(&detector->used))
        visits_free(detector, list_owner(detector->used.next, struct visits, link));
    free(detector->visits);
    free(detector);
}

static struct visits *visits_at(struct overlap_detector *detector, unsigned resource)
{
    if (resource >= detector->resource_count) {
        size_t count = ((size_t)resource + 1) * 2;
        detector->visits = memory_resize(detector->visits, count, sizeof detector->visits[0]);
        memset(detector->visits + detector->resource_count, 0,
               (count - detector->resource_count) * sizeof detector->visits[0]);
        detector->resource_count = count;
    }
    struct visits *visits = detector->visits[resource];
    if (visits != NULL)
        return visits;
    visits = memory_new(struct visits);
    visits->resource = resource;
    list_init(&visits->link);
    list_init(&visits->open);
    list_init(&visits->over);
    list_append(&detector->used, &visits->link);
    detector->visits[resource] = visits;
    return visits;
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

static bool intersect(const struct visit *a, const struct visit *b)
{
    return least(a->left, b->left) > most(a->entered, b->entered);
}

static void overlaps_find(struct overlap_detector *detector, struct visits *visits, const struct visit *visit)
{
    for (struct list *link = visits->over.next; link != &visits->over; link = link->next) {
        const struct visit *other = visit_of(link);
        if (other->top.left <= visit->entered)
            return;
        if (!intersect(visit, other))
            continue;
        bool is_fenced = visit->token != 0 && other->token != 0 && visit->token != other->token;
        detector->told.overlap(detector->told.context, visits->resource, is_fenced);
    }
}

static void refuse(struct overlap_detector *detector, const struct visits *visits, struct visit *visit)
{
    visit->was_refused = true;
    detector->told.refusal(detector->told.context, visits->resource);
}

/* True when `late` was left after `next`, which has a larger token, had begun. */
static bool is_stale(const struct visit *late, const struct visit *next)
{
    return late->token != 0 && late->token < next->token && late->left > next->entered;
}

/* Whether a visit with a larger token began before the end of `visit`, which was just left. */
static bool has_successor(const struct visits *visits, const struct visit *visit)
{
    for (struct list *link = visits->open.next; link != &visits->open; link = link->next)
        if (is_stale(visit, visit_of(link)))
            return true;
    for (struct list *link = visits->over.next; link != &visits->over; link = link->next) {
        const struct visit *other = visit_of(link);
        if (visit->left > other->entered)
            return visit->token != 0 && visit->token < other->top.token;
    }
    return false;
}

static void refusals_find(struct overlap_detector *detector, struct visits *visits, const struct visit *next)
{
    for (struct list *link = visits->over.next; link != &visits->over; link = link->next) {
        struct visit *late = visit_of(link);
        if (late->top.left <= next->entered)
            return;
        if (!late->was_refused && is_stale(late, next))
            refuse(detector, visits, late);
    }
}

/* --- visits ------------------------------------------------------------------------------------------------------- */

/* From `visit` to the latest: what is known of all older ones. */
static void tops_set(struct visits *visits, struct visit *visit)
{
    for (struct list *link = &visit->link; link != &visits->over; link = link->previous) {
        struct visit *at = visit_of(link);
        at->top.left = at->left;
        at->top.token = at->token;
        if (link->next == &visits->over)
            continue;
        const struct visit *older = visit_of(link->next);
        if (older->top.left > at->top.left)
            at->top.left = older->top.left;
        if (older->top.token > at->top.token)
            at->top.token = older->top.token;
    }
}

/* What is older than any that could still matter goes, when there are too many. */
static void over_limit(struct overlap_detector *detector, struct visits *visits)
{
    if (visits->over_count <= OVER_MAX)
        return;
    visit_free(detector, visit_of(visits->over.previous));
    visits->over_count--;
}

static void visit_end(struct overlap_detector *detector, struct visits *visits, struct visit *visit, int64_t left)
{
    visit->left = left > visit->entered ? left : visit->entered;
    list_remove(&visit->link);
    overlaps_find(detector, visits, visit);
    struct list *after = &visits->over;
    while (after->next != &visits->over && visit_of(after->next)->entered > visit->entered)
        after = after->next;
    list_prepend(after, &visit->link);
    visits->over_count++;
    tops_set(visits, visit);
    over_limit(detector, visits);
}

static struct visit *open_find(struct visits *visits, const struct overlap_visit *told)
{
    for (struct list *link = visits->open.next; link != &visits->open; link = link->next) {
        struct visit *visit = visit_of(link);
        if (visit->process == told->process && strcmp(visit->jid, told->jid) == 0)
            return visit;
    }
    return NULL;
}

void overlap_detector_entered(struct overlap_detector *detector, const struct overlap_visit *told)
{
    invariant(told->process < PROCESSES);
    struct visits *visits = visits_at(detector, told->resource);
    size_t jid_size = strlen(told->jid) + 1;
    struct visit *visit = memory_zeroed(1, sizeof *visit + jid_size);
    memcpy(visit->jid, told->jid, jid_size);
    visit->process = told->process;
    visit->token = told->token;
    visit->entered = told->at.ns;
    visit->left = INT64_MAX;
    list_init(&visit->link);
    list_append(&visits->open, &visit->link);
    detector->remembered++;
    refusals_find(detector, visits, visit);
}

void overlap_detector_left(struct overlap_detector *detector, const struct overlap_visit *told)
{
    struct visits *visits = visits_at(detector, told->resource);
    struct visit *visit = open_find(visits, told);
    if (visit == NULL)
        return;
    visit->left = told->at.ns;
    bool is_refused = has_successor(visits, visit);
    visit_end(detector, visits, visit, told->at.ns);
    if (is_refused)
        refuse(detector, visits, visit);
}

void overlap_detector_returned(struct overlap_detector *detector, const struct overlap_visit *told)
{
    struct visit *visit = open_find(visits_at(detector, told->resource), told);
    if (visit == NULL || visit->entered > told->at.ns)
        return;
    visit->returned = told->at.ns;
}

/* Ends without having been left, so nothing of it is refused. */
static void visit_cut(struct overlap_detector *detector, struct visits *visits, struct visit *visit, int64_t at)
{
    visit->was_refused = true;
    visit_end(detector, visits, visit, visit->returned != 0 ? visit->returned : at);
}

/* --- processes ---------------------------------------------------------------------------------------------------- */

void overlap_detector_heard(struct overlap_detector *detector, unsigned process, struct instant at)
{
    invariant(process < PROCESSES);
    int64_t *heard = &detector->heard[process];
    if (at.ns > *heard)
        *heard = at.ns;
    if (at.ns > detector->latest)
        detector->latest = at.ns;
}

/* Which of the open visits end now. */
struct cut {
    bool of_process;
    unsigned process;
    int64_t at;
    int64_t returned_before; /* 0 = any */
};

static bool is_cut(const struct cut *cut, const struct visit *visit)
{
    if (cut->of_process)
        return visit->process == cut->process;
    return cut->returned_before == 0 || (visit->returned != 0 && visit->returned < cut->returned_before);
}

static void open_cut(struct overlap_detector *detector, struct visits *visits, const struct cut *cut)
{
    for (struct list *link = visits->open.next, *next; link != &visits->open; link = next) {
        next = link->next;
        if (is_cut(cut, visit_of(link)))
            visit_cut(detector, visits, visit_of(link), cut->at);
    }
}

static void all_cut(struct overlap_detector *detector, const struct cut *cut)
{
    for (struct list *link = detector->used.next; link != &detector->used; link = link->next)
        open_cut(detector, list_owner(link, struct visits, link), cut);
}

void overlap_detector_died(struct overlap_detector *detector, unsigned process, struct instant at)
{
    invariant(process < PROCESSES);
    all_cut(detector, &(struct cut){.of_process = true, .process = process, .at = at.ns});
    detector->heard[process] = 0;
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
    for (unsigned i = 0; i < PROCESSES; i++)
        if (detector->heard[i] != 0 && detector->heard[i] < horizon)
            horizon = detector->heard[i];
    int64_t limit = detector->latest - OVERLAP_MEMORY_NS;
    return (horizon > limit ? horizon : limit) - SLACK_NS;
}

/* What is over can still meet what is open since before its end. */
static void visits_tidy(struct overlap_detector *detector, struct visits *visits, int64_t horizon)
{
    for (struct list *link = visits->open.next; link != &visits->open; link = link->next)
        if (visit_of(link)->entered < horizon)
            horizon = visit_of(link)->entered;
    while (!list_is_empty(&visits->over)) {
        struct visit *oldest = visit_of(visits->over.previous);
        if (oldest->left >= horizon)
            return;
        visit_free(detector, oldest);
        visits->over_count--;
    }
}

void overlap_detector_tidy(struct overlap_detector *detector)
{
    int64_t horizon = horizon_of(detector);
    struct cut lost = {.returned_before = horizon};
    for (struct list *link = detector->used.next, *next; link != &detector->used; link = next) {
        struct visits *visits = list_owner(link, struct visits, link);
        next = link->next;
        if (horizon > 0)
            open_cut(detector, visits, &lost);
        visits_tidy(detector, visits, horizon);
        if (list_is_empty(&visits->open) && list_is_empty(&visits->over))
            visits_free(detector, visits);
    }
}

uint64_t overlap_detector_remembered(const struct overlap_detector *detector)
{
    return detector->remembered;
}
