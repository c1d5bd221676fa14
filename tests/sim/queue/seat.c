/* A slot of a worker process, as worker/slot*.c has it: performs the steps of flow.c. Two seats are a pair with one
 * runner; the one that runs under a lock lets its mate claim an heir. */
#include <stdio.h>
#include <string.h>

#include "tests/sim/queue/scene.h"

enum { CHAIN_MAX = 4 };
#define CHAIN_NS         (1 * NS_PER_S)
#define HELD_BELIEVED_NS (1 * NS_PER_S)
#define EXPIRY_SPREAD_NS (50 * NS_PER_MS)
#define SOON_MIN_NS      (5 * NS_PER_MS)
#define SOON_MAX_NS      (50 * NS_PER_MS)
#define ASKING_LOOK_NS   (200 * NS_PER_MS)
#define PARK_DELAY_NS    (1 * NS_PER_S)

static void seat_perform(struct seat *seat, struct flow_step step);

static struct scene *scene_of(const struct seat *seat)
{
    return seat->crew->scene;
}

static const char *list_of(const struct seat *seat)
{
    static const char *const names[RESOURCES_MAX] = {"resource:r0", "resource:r1"};
    return names[seat->chore->resource];
}

static int64_t spread(struct scene *scene)
{
    return chance_between(&scene->chance, 0, EXPIRY_SPREAD_NS);
}

/* --- the lock ---------------------------------------------------------------------------------------------------- */

static void names_take(struct seat *seat)
{
    if (!seat->has_taken)
        contention_take(seat->crew->contention, list_of(seat));
    seat->has_taken = true;
}

static void names_leave(struct seat *seat)
{
    if (seat->has_taken)
        contention_leave(seat->crew->contention, list_of(seat));
    seat->has_taken = false;
}

static void wait_plan(struct seat *seat, int64_t near_ns, int64_t seen_us)
{
    seat->wait.near_ns = near_ns;
    seat->wait.seen_us = seen_us;
}

/* Who only asks for the lock may be refused, and then nobody would look. */
static int64_t taken_near_ns(const struct seat *seat)
{
    struct scene *scene = scene_of(seat);
    for (unsigned i = 0; i < scene->seat_count; i++) {
        const struct seat *other = &seat->crew->seats[i];
        if (other->has_lock && other->chore->resource == seat->chore->resource)
            return scene->terms.ttl_ns + spread(scene);
    }
    return SOON_MAX_NS + chance_between(&scene->chance, 0, ASKING_LOOK_NS);
}

static bool must_wait(struct seat *seat)
{
    struct scene *scene = scene_of(seat);
    struct contention_held held;
    if (seat->is_heir)
        return false;
    if (seat->was_deserted) {
        wait_plan(seat, chance_between(&scene->chance, SOON_MIN_NS, SOON_MAX_NS), seat->seen_us);
        seat->was_deserted = false;
        return true;
    }
    if (contention_taken(seat->crew->contention, list_of(seat)) > 0) {
        scene_trace(scene, "%s slot %u: task %u waits for one of this process", seat->crew->identity, seat->number,
                    seat->chore->number);
        scene->counters->waited_unasked++;
        wait_plan(seat, taken_near_ns(seat), seat->seen_us);
        return true;
    }
    if (!contention_is_held(seat->crew->contention, list_of(seat), scene->now, &held))
        return false;
    scene_trace(scene, "%s slot %u: task %u waits for what is known to be held", seat->crew->identity, seat->number,
                seat->chore->number);
    scene->counters->waited_unasked++;
    wait_plan(seat, instant_since(scene->now, held.free_at) + spread(scene),
              held.seen_us < seat->seen_us ? held.seen_us : seat->seen_us);
    return true;
}

static bool is_holding(const struct seat *seat)
{
    return seat->has_lock && grip_is_valid(seat->grip);
}

static bool has_heir(const struct seat *seat)
{
    const struct seat *mate = seat->mate;
    return is_holding(seat) && mate->is_heir && mate->flow.state == FLOW_LOCKING && !mate->flow.claim_lost;
}

static bool waits_for_heir(const struct seat *seat)
{
    return is_holding(seat) && seat->mate->is_heir && seat->mate->flow.state == FLOW_CLAIMING;
}

void seat_locked(struct seat *seat)
{
    struct scene *scene = scene_of(seat);
    seat->has_lock = true;
    seat->is_heir = false;
    bool goes_on = seat->grip->was_handed_over;
    seat->chain.length = goes_on ? seat->mate->chain.length + 1 : 1;
    seat->chain.since = goes_on ? seat->mate->chain.since : scene->now;
    contention_forget_held(seat->crew->contention, list_of(seat));
    seat_perform(seat, flow_locked(&seat->flow));
}

static void busy_note(struct seat *seat)
{
    struct scene *scene = scene_of(seat);
    int64_t left_ns = seat->grip->left_ms > 0 ? seat->grip->left_ms * NS_PER_MS : scene->terms.ttl_ns;
    int64_t believed_ns = left_ns < HELD_BELIEVED_NS ? left_ns : HELD_BELIEVED_NS;
    contention_note_held(
        seat->crew->contention, list_of(seat), instant_after(scene->now, believed_ns),
        (struct contention_held){.seen_us = seat->seen_us, .free_at = instant_after(scene->now, left_ns + NS_PER_MS)});
    wait_plan(seat, left_ns + NS_PER_MS + spread(scene), seat->seen_us);
}

void seat_refused(struct seat *seat, enum flow_refusal refusal)
{
    struct scene *scene = scene_of(seat);
    if (seat->is_heir && refusal == FLOW_BUSY)
        refusal = FLOW_UNDECIDED; /* by what is left of the holder before, mostly */
    if (seat->is_heir)
        call_free(seat->crew, seat->chore->resource, NULL, false);
    seat->is_heir = false;
    scene->counters->refused_busy += refusal == FLOW_BUSY;
    scene->counters->refused_undecided += refusal != FLOW_BUSY;
    scene_trace(scene, "%s slot %u: task %u is refused, %s", seat->crew->identity, seat->number, seat->chore->number,
                refusal == FLOW_BUSY ? "busy" : "undecided");
    if (refusal == FLOW_BUSY)
        busy_note(seat);
    else if (refusal == FLOW_UNDECIDED)
        wait_plan(seat, chance_between(&scene->chance, SOON_MIN_NS, SOON_MAX_NS), seat->seen_us);
    else
        wait_plan(seat, PARK_DELAY_NS + chance_between(&scene->chance, 0, PARK_DELAY_NS / 2), seat->seen_us);
    seat_perform(seat, flow_refused(&seat->flow, refusal));
}

static void lock_leave(struct seat *seat, bool ends, enum flow_ending ending)
{
    bool had = seat->has_lock && ends;
    seat->left = !had ? LEFT_NOTHING : has_heir(seat) ? LEFT_TO_HEIR : LEFT_FREE;
    seat->gives_up_place = ending != FLOW_CLAIM_LOST; /* else others have the task, and its place */
    names_leave(seat);
    if (seat->grip != NULL) {
        struct grip *grip = seat->grip;
        seat->grip = NULL;
        grip_let_go(grip, seat->left == LEFT_FREE);
    }
    seat->has_lock = false;
}

/* --- heirs ------------------------------------------------------------------------------------------------------- */

static bool chain_may_go_on(const struct seat *seat)
{
    return seat->chain.length < CHAIN_MAX &&
           instant_before(scene_of(seat)->now, instant_after(seat->chain.since, CHAIN_NS));
}

static void seek_heir(struct seat *seat)
{
    struct seat *mate = seat->mate;
    if (mate->flow.state != FLOW_IDLE || seat->flow.state != FLOW_READY || !is_holding(seat) || seat->has_ended ||
        !chain_may_go_on(seat) || !contention_has_waiters(seat->crew->contention, list_of(seat), scene_of(seat)->now))
        return;
    mate->is_heir = true;
    seat_perform(mate, flow_wake(&mate->flow));
}

static void seats_seek_heir(struct staff *crew, unsigned resource)
{
    for (unsigned i = 0; i < crew->scene->seat_count; i++) {
        struct seat *seat = &crew->seats[i];
        if (seat->has_lock && seat->chore->resource == resource)
            seek_heir(seat);
    }
}

static bool will_hand_on(const struct seat *holder)
{
    return is_holding(holder) || (holder->flow.state == FLOW_LOCKING && holder->is_heir);
}

static void keep_later(struct seat *seat)
{
    event_set_in(scene_of(seat), &seat->keep, scene_of(seat)->terms.ttl_ns / 2);
}

static void keep_fires(struct event *event)
{
    struct seat *seat = list_owner(event, struct seat, keep);
    bool is_waiting = seat->is_heir && seat->flow.state == FLOW_LOCKING && !seat->flow.claim_lost;
    if (!is_waiting || seat->is_confirming)
        return;
    call_confirm(seat, scene_of(seat)->terms.ttl_ns);
    keep_later(seat);
}

static void heir_confirm(struct seat *seat)
{
    if (!seat->is_confirming)
        call_confirm(seat, 0);
    seat->is_confirming = true;
    seat->chore->is_successor = true;
}

/* Whether the claimed task is what was asked for, and its holder still there to hand the lock on. */
static void heir_judge(struct seat *seat)
{
    if (!seat->is_heir)
        return;
    const struct chore *own = seat->chore, *holders = seat->mate->chore;
    if (will_hand_on(seat->mate) && own->set != holders->set)
        judge_violation(scene_of(seat), "S9", "task %u, which locks something else, is the heir of task %u",
                        own->number, holders->number);
    seat->is_heir = will_hand_on(seat->mate) && own->resource == holders->resource && own->set == holders->set;
    seat->was_deserted = !seat->is_heir;
    seat->is_confirming = false;
    if (seat->is_heir)
        keep_later(seat);
    scene_of(seat)->counters->heirs++;
}

/* --- the runner -------------------------------------------------------------------------------------------------- */

static void seat_settle(struct seat *seat)
{
    if (!seat->has_ended)
        return;
    seat->has_ended = false;
    seat_perform(seat, flow_ran(&seat->flow, seat->result, seat->hold));
}

static void run_ends(struct event *event)
{
    struct seat *seat = list_owner(event, struct seat, run_end);
    struct scene *scene = scene_of(seat);
    bool fails = !scene->is_calm && chance_per_mille(&scene->chance, 30);
    seat->result = fails ? FLOW_RUN_FAILED : FLOW_RUN_OK;
    seat->hold = is_holding(seat) ? FLOW_HELD : FLOW_LOST;
    seat->has_ended = true;
    if (seat->is_late) {
        seat->result = FLOW_RUN_NOT_STARTED;
        seat_settle(seat);
        return;
    }
    seat->chore->runs += !fails && seat->hold == FLOW_HELD;
    seat->chore->failures += fails || seat->hold != FLOW_HELD;
    if (!waits_for_heir(seat))
        seat_settle(seat);
}

/* Its handler stops. */
void seat_lost(struct seat *seat)
{
    if (heap_holds(&seat->run_end.item))
        event_set_in(scene_of(seat), &seat->run_end, 0);
    else
        seat_settle(seat);
}

static void run_start(struct seat *seat)
{
    struct scene *scene = scene_of(seat);
    /* The first act of a run is to look whether its lock is still there. */
    seat->is_late = seat->has_lock && !grip_is_valid(seat->grip);
    if (seat->is_late) {
        event_set_in(scene, &seat->run_end, 0);
        return;
    }
    scene->counters->runs++;
    judge_runs(seat);
    event_set_in(scene, &seat->run_end, seat->chore->hold_ns);
    if (seat->has_waiters || contention_has_waiters(seat->crew->contention, list_of(seat), scene->now))
        seek_heir(seat);
}

/* --- moves ------------------------------------------------------------------------------------------------------- */

static bool may_claim(struct seat *seat)
{
    bool is_alone = seat->mate->flow.state == FLOW_IDLE;
    seat->owes_claim = !is_alone;
    if (is_alone)
        seat->mate->owes_claim = false;
    return is_alone;
}

static void waiters_tell(struct seat *seat)
{
    const struct chore *gives_up = seat->gives_up_place ? seat->chore : NULL;
    if (seat->left == LEFT_TO_HEIR)
        heir_confirm(seat->mate);
    if (seat->left != LEFT_NOTHING)
        call_free(seat->crew, seat->chore->resource, gives_up, seat->left == LEFT_TO_HEIR);
    seat->left = LEFT_NOTHING;
}

/* One call settles its task and claims the heir of its mate, to which its lock goes. */
static bool goes_on_as_heir(const struct seat *seat)
{
    return seat->left == LEFT_TO_HEIR && seat->gives_up_place && seat->chain.length + 1 < CHAIN_MAX &&
           chain_may_go_on(seat) && contention_has_waiters(seat->crew->contention, list_of(seat), scene_of(seat)->now);
}

static void claim(struct seat *seat)
{
    if (seat->is_heir) {
        call_heir(seat, NULL);
        return;
    }
    if (goes_on_as_heir(seat)) {
        seat->is_heir = true;
        seat->left = LEFT_NOTHING;
        seat->mate->chore->is_successor = seat->mate->is_confirming = true;
        call_heir(seat, seat->chore);
        return;
    }
    enum seat_left left = seat->gives_up_place ? seat->left : LEFT_NOTHING;
    if (seat->gives_up_place)
        seat->left = LEFT_NOTHING;
    seat->asks_for_waiters = left != LEFT_NOTHING;
    if (left == LEFT_TO_HEIR)
        heir_confirm(seat->mate);
    call_turn(seat, may_claim(seat), left != LEFT_NOTHING, left == LEFT_TO_HEIR);
}

static void park(struct seat *seat)
{
    contention_note_waiters(seat->crew->contention, list_of(seat), true, scene_of(seat)->now);
    call_park(seat);
}

static void seat_move(struct seat *seat, enum flow_move move)
{
    if (move == FLOW_MOVE_CLAIM)
        claim(seat);
    else if (move == FLOW_MOVE_PARK)
        park(seat);
    else if (move != FLOW_MOVE_NONE)
        call_move(seat, move);
    waiters_tell(seat);
}

static void seat_rest(struct seat *seat)
{
    struct seat *mate = seat->mate;
    seat->is_heir = false;
    if (mate->flow.state != FLOW_IDLE) {
        seek_heir(mate);
        return;
    }
    if (seat->owes_claim || mate->owes_claim) {
        seat->owes_claim = mate->owes_claim = false;
        seat_wake(seat);
        return;
    }
    crews_ring(scene_of(seat));
}

static void seat_perform(struct seat *seat, struct flow_step step)
{
    if (step.release)
        lock_leave(seat, step.ends, step.ending);
    if (step.ends)
        seat->is_heir = false;
    seat_move(seat, step.move);
    if (step.lock) {
        names_take(seat);
        grip_acquire(seat, seat->chore->resource, seat->is_heir);
    }
    if (step.confirm || step.open || step.run)
        names_take(seat);
    if (step.confirm)
        heir_confirm(seat);
    if (step.open)
        call_open(seat);
    if (step.run)
        run_start(seat);
    if (seat->flow.state == FLOW_IDLE)
        seat_rest(seat);
}

/* --- answers of the queue node ----------------------------------------------------------------------------------- */

static void waiters_note(struct seat *seat)
{
    if (seat->asks_for_waiters)
        contention_note_waiters(seat->crew->contention, list_of(seat), seat->has_waiters, scene_of(seat)->now);
    seat->asks_for_waiters = false;
}

void seat_claimed(struct seat *seat, const char *queue, struct text payload)
{
    (void)queue;
    waiters_note(seat);
    snprintf(seat->payload, sizeof seat->payload, "%s", payload.bytes);
    seat->chore = chore_of(scene_of(seat), payload);
    seat->has_ended = false;
    heir_judge(seat);
    struct flow_task task = {.is_valid = true,
                             .is_known = true,
                             .wants_lock = true,
                             .must_lock = true,
                             .must_open = seat->has_cancels,
                             .must_confirm = seat->is_heir,
                             .must_wait = must_wait(seat),
                             .if_failed = FLOW_RUN_FAILED};
    seat_perform(seat, flow_claimed(&seat->flow, &task));
    seat_settle(seat->mate);
}

void seat_emptied(struct seat *seat)
{
    waiters_note(seat);
    bool is_parked = seat->flow.state == FLOW_PARKING;
    if (seat->is_heir && seat->flow.state == FLOW_CLAIMING)
        contention_note_waiters(seat->crew->contention, list_of(seat->mate), false, scene_of(seat)->now);
    if (is_parked) {
        scene_of(seat)->counters->parked++;
        seats_seek_heir(seat->crew, seat->chore->resource);
    }
    seat_perform(seat, flow_nothing(&seat->flow));
    seat_settle(seat->mate);
}

void seat_kept(struct seat *seat)
{
    struct scene *scene = scene_of(seat);
    scene->counters->retried++;
    if (scene->bug == BUG_IGNORES_RETRY) {
        seat->flow.retried = true;
        seat->wait.seen_us = seat->seen_us;
        call_park(seat);
        return;
    }
    if (scene->bug != BUG_BELIEVES_HEARSAY)
        contention_forget_held(seat->crew->contention, list_of(seat));
    seat_perform(seat, flow_not_yet(&seat->flow, must_wait(seat)));
}

void seat_claim_lost(struct seat *seat)
{
    waiters_note(seat);
    seat_perform(seat, flow_claim_lost(&seat->flow));
    seat_settle(seat->mate);
}

void seat_confirmed(struct seat *seat)
{
    seat_perform(seat, flow_confirmed(&seat->flow));
}

/* Its lock, if that is still to come, is let go when it is there. */
void seat_claim_gone(struct seat *seat)
{
    seat->has_id = false;
    scene_trace(scene_of(seat), "%s slot %u: task %u is not its heir any more", seat->crew->identity, seat->number,
                seat->chore->number);
    seat_perform(seat, flow_claim_gone(&seat->flow, false));
}

void seat_opened(struct seat *seat, long long answer)
{
    if (answer == 1) {
        seat_perform(seat, flow_opened(&seat->flow));
    } else if (answer == 2) {
        scene_of(seat)->counters->cancelled++;
        seat_perform(seat, flow_unwanted(&seat->flow));
    } else {
        seat->has_id = false;
        seat_claim_lost(seat);
    }
}

/* --- life -------------------------------------------------------------------------------------------------------- */

void seat_wake(struct seat *seat)
{
    seat_perform(seat, flow_wake(&seat->flow));
}

void seat_init(struct seat *seat, struct staff *crew, unsigned number)
{
    unsigned runners = crew->scene->seat_count / 2;
    *seat = (struct seat){.crew = crew, .number = number};
    seat->mate = &crew->seats[(number + runners) % crew->scene->seat_count];
    seat->run_end.happens = run_ends;
    seat->keep.happens = keep_fires;
    seat->run_end.crew = seat->keep.crew = crew;
}
