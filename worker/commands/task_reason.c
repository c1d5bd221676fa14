#include "worker/commands/task_reason.h"

#include <string.h>

#include "base/log.h"
#include "worker/commands/fleet.h"
#include "worker/print/human.h"

/* A scheduler takes due entries twice a second, and at most this later when its process dies. */
#define OVERDUE_US (30 * US_PER_S)

static const char *const names[TASK_REASONS] = {[TASK_GONE] = "gone",
                                                [TASK_UNKNOWN] = "unknown",
                                                [TASK_CANCELLED] = "cancelled",
                                                [TASK_DONE] = "done",
                                                [TASK_DEAD] = "dead",
                                                [TASK_RUNS] = "runs",
                                                [TASK_STARTS] = "starts",
                                                [TASK_BEING_RECOVERED] = "being_recovered",
                                                [TASK_TWIN] = "twin",
                                                [TASK_PAUSED] = "paused",
                                                [TASK_NO_WORKER] = "no_worker",
                                                [TASK_QUEUE_UNSERVED] = "queue_unserved",
                                                [TASK_CLASS_UNSERVED] = "class_unserved",
                                                [TASK_QUIET] = "quiet",
                                                [TASK_TERMS] = "terms",
                                                [TASK_QUEUED] = "queued",
                                                [TASK_SCHEDULED] = "scheduled",
                                                [TASK_RETRY] = "retry",
                                                [TASK_OVERDUE] = "overdue",
                                                [TASK_LOCK] = "lock",
                                                [TASK_LIMIT] = "limit",
                                                [TASK_SHARE] = "share",
                                                [TASK_NO_QUORUM] = "no_quorum",
                                                [TASK_BLOCKED] = "blocked",
                                                [TASK_TURN] = "turn"};

const char *task_reason_name(enum task_reason_code code)
{
    return names[code];
}

/* --- which it is -------------------------------------------------------------------------------------------------- */

/* What keeps a task from being taken, whatever it waits for; `otherwise` when nothing does. */
static enum task_reason_code of_workers(const struct task_facts *facts, enum task_reason_code otherwise)
{
    return facts->is_paused               ? TASK_PAUSED
           : facts->workers.living == 0   ? TASK_NO_WORKER
           : facts->workers.of_queue == 0 ? TASK_QUEUE_UNSERVED
           : facts->workers.awake == 0    ? TASK_QUIET
           : facts->workers.able == 0     ? TASK_CLASS_UNSERVED
           : facts->workers.allowed == 0  ? TASK_TERMS
                                          : otherwise;
}

static bool lacks_quorum(const struct task_facts *facts)
{
    return facts->lock.is_asked && (facts->lock.voters < facts->lock.quorum || facts->lock.state == LOCK_IS_UNKNOWN);
}

static enum task_reason_code of_list(const struct task_facts *facts)
{
    bool has_seats = facts->list == TASK_LIST_SEATS;
    if (facts->list == TASK_LIST_CLASS)
        return TASK_SHARE;
    if (!facts->lock.is_asked)
        return has_seats ? TASK_LIMIT : TASK_LOCK;
    if (lacks_quorum(facts))
        return TASK_NO_QUORUM;
    if (facts->lock.state == LOCK_IS_BLOCKED)
        return TASK_BLOCKED;
    if (facts->lock.state != LOCK_IS_HELD || (has_seats && facts->lock.holders < facts->lock.limit))
        return TASK_TURN;
    bool is_its_own = facts->lock.jid != NULL && strcmp(facts->lock.jid, facts->jid) == 0;
    return is_its_own ? TASK_TWIN : has_seats ? TASK_LIMIT : TASK_LOCK;
}

/* Any living worker serves `schedule` and `retry` for its own queues. */
static enum task_reason_code of_set(const struct task_facts *facts, enum task_reason_code otherwise,
                                    struct wall_time now)
{
    if (facts->at.us + OVERDUE_US >= now.us)
        return otherwise;
    return facts->workers.living == 0     ? TASK_NO_WORKER
           : facts->workers.of_queue == 0 ? TASK_QUEUE_UNSERVED
                                          : TASK_OVERDUE;
}

static enum task_reason_code of_schedule(const struct task_facts *facts, struct wall_time now)
{
    if (facts->list != TASK_LIST_NONE)
        return of_workers(facts, of_list(facts));
    if (facts->put_off_at.us == 0)
        return of_set(facts, TASK_SCHEDULED, now);
    bool is_refused = facts->workers.allowed < facts->workers.able; /* by one of them, perhaps */
    enum task_reason_code otherwise = is_refused ? TASK_TERMS : TASK_SCHEDULED;
    return of_workers(facts, lacks_quorum(facts) ? TASK_NO_QUORUM : of_set(facts, otherwise, now));
}

/* A worker with a thread for it would park it. One that has waited in a list was sent here since its turn has come. */
static enum task_reason_code of_queue(const struct task_facts *facts)
{
    if (lacks_quorum(facts))
        return TASK_NO_QUORUM;
    bool has_lock = facts->lock.is_asked && facts->list != TASK_LIST_NONE && facts->put_off_at.us == 0;
    enum task_reason_code code = has_lock ? of_list(facts) : TASK_QUEUED;
    return code == TASK_TURN ? TASK_QUEUED : code;
}

/* A worker asks for its lock, or keeps it ready to hand a lock on to it. */
static enum task_reason_code of_claim(const struct task_facts *facts)
{
    enum task_reason_code code = facts->lock.is_asked ? of_list(facts) : TASK_STARTS;
    return code == TASK_TURN || code == TASK_TWIN ? TASK_STARTS : code; /* it may have its lock by now */
}

static enum task_reason_code code_of(const struct task_facts *facts, struct wall_time now)
{
    if (!facts->is_found)
        return facts->was_cancelled      ? TASK_CANCELLED
               : facts->ended_at.us != 0 ? TASK_DONE
               : facts->was_cut          ? TASK_UNKNOWN
                                         : TASK_GONE;
    if (facts->twin != NULL)
        return TASK_TWIN;
    switch (facts->state) {
    case TASK_IN_DEAD:
        return TASK_DEAD;
    case TASK_IN_CLAIMS:
        return !facts->is_living ? TASK_BEING_RECOVERED : facts->since.us != 0 ? TASK_RUNS : of_claim(facts);
    case TASK_IN_QUEUE:
        return of_workers(facts, of_queue(facts));
    case TASK_IN_RETRY:
        return facts->unserved_at.us != 0 && facts->workers.able == 0 ? TASK_CLASS_UNSERVED
                                                                      : of_set(facts, TASK_RETRY, now);
    default:
        return of_schedule(facts, now);
    }
}

/* --- words -------------------------------------------------------------------------------------------------------- */

struct wording {
    const struct task_facts *facts;
    struct wall_time now;
    struct buffer *out;
    struct wall_time expected;
    char jid[LOG_QUOTE_MAX], queue[LOG_QUOTE_MAX], class_name[LOG_QUOTE_MAX], process[LOG_QUOTE_MAX];
    char list[LOG_QUOTE_MAX];
};

static const char *moment(const struct wording *words, struct wall_time at, char out[HUMAN_TEXT_MAX])
{
    return human_moment(at, words->now, out);
}

/* In its queue, or in the waiting list for what it needs. */
static void position_write(const struct wording *words)
{
    const struct task_facts *facts = words->facts;
    char ahead[HUMAN_TEXT_MAX], all[HUMAN_TEXT_MAX];
    if (facts->state == TASK_IN_QUEUE)
        buffer_format(words->out, "number %s of %s in the queue %s", human_count(facts->position, ahead),
                      human_count(facts->length > facts->position ? facts->length : facts->position, all),
                      words->queue);
    else if (facts->state == TASK_IN_CLAIMS)
        buffer_format(words->out, "claimed by %s, which takes the lock for it", words->process);
    else if (facts->is_listed && facts->ahead >= 0)
        buffer_format(words->out, "number %s of %s in the waiting list", human_count(facts->ahead + 1, ahead),
                      human_count(facts->waiting > facts->ahead ? facts->waiting : facts->ahead + 1, all));
    else
        buffer_format(words->out, "in %s, and looks again %s", task_state_name(facts->state),
                      moment(words, facts->at, ahead));
}

static const char *list_kind(const struct task_facts *facts)
{
    return facts->list == TASK_LIST_SEATS ? "a seat at" : "the lock on";
}

/* ", since 2026-11-21T18:05:06Z (3m ago)" */
static void since_write(const struct wording *words, struct wall_time since)
{
    char date[HUMAN_TEXT_MAX], human[HUMAN_TEXT_MAX];
    if (since.us != 0)
        buffer_format(words->out, " since %s (%s)", human_date(since, date), moment(words, since, human));
}

static bool is_late(const struct wording *words, struct wall_time beat)
{
    return beat.us != 0 && beat.us + FLEET_BEAT_LATE_US < words->now.us;
}

/* "its last heartbeat came 3.0 s ago": a process that was killed counts as alive until its lease ends. */
static void beat_write(const struct wording *words, const char *before, struct wall_time beat)
{
    char human[HUMAN_TEXT_MAX];
    buffer_format(words->out, "%s last heartbeat came %s", before, moment(words, beat, human));
}

/* Of the process that has claimed it. */
static void doubt_write(const struct wording *words)
{
    const struct task_facts *facts = words->facts;
    char human[HUMAN_TEXT_MAX], date[HUMAN_TEXT_MAX];
    if (!is_late(words, facts->beat))
        return;
    beat_write(words, "; its", facts->beat);
    if (facts->lease_end.us != 0)
        buffer_format(words->out, ": if it has died, a living worker gives the task back to its queue after %s (%s)",
                      human_date(facts->lease_end, date), moment(words, facts->lease_end, human));
}

static void process_write(const struct wording *words)
{
    const struct task_facts *facts = words->facts;
    char quoted[LOG_QUOTE_MAX];
    if (facts->lock.process == NULL)
        return;
    buffer_format(words->out, " in %s, ", log_quote(facts->lock.process, quoted));
    if (facts->lock.is_living && is_late(words, facts->lock.beat))
        beat_write(words, "whose", facts->lock.beat);
    else
        buffer_append_text(words->out, facts->lock.is_living ? "which is alive" : "whose lease has ended");
}

static void holder_write(const struct wording *words)
{
    const struct task_facts *facts = words->facts;
    bool is_task = facts->lock.is_ours && facts->lock.jid != NULL;
    char quoted[LOG_QUOTE_MAX];
    if (facts->list == TASK_LIST_SEATS)
        buffer_format(words->out, ": all of %u are taken, one", facts->lock.holders);
    else
        buffer_append_text(words->out, ", held");
    since_write(words, facts->lock.since);
    buffer_append_text(words->out, " by ");
    if (facts->lock.is_shared && facts->lock.holders > 1)
        buffer_format(words->out, "%u readers, one of them ", facts->lock.holders);
    buffer_format(words->out, "%s%s", is_task ? "the task " : "",
                  is_task ? log_quote(facts->lock.jid, quoted) : facts->lock.owner);
    if (facts->lock.class_name != NULL)
        buffer_format(words->out, " (%s)", log_quote(facts->lock.class_name, quoted));
    process_write(words);
}

/* By the mean hold of today; a dead holder has the lock until it expires. Of a hold that is longer, or is another
 * program's, nobody knows. */
static int64_t expected_us(const struct task_facts *facts, struct wall_time now)
{
    unsigned at_once = facts->list == TASK_LIST_SEATS && facts->lock.limit > 0 ? facts->lock.limit : 1;
    bool is_dead = facts->lock.process != NULL && !facts->lock.is_living;
    bool has_begun = facts->lock.since.us != 0 && facts->lock.since.us < now.us;
    int64_t hold_us = facts->lock.hold_us, held_us = has_begun ? now.us - facts->lock.since.us : 0;
    int64_t left_us = is_dead ? facts->lock.remaining_us : facts->lock.is_ours ? hold_us - held_us : -1;
    if (!facts->is_listed || left_us < 0 || (hold_us < 0 && facts->ahead > 0))
        return -1;
    return left_us + facts->ahead / at_once * hold_us;
}

static void expectation_write(struct wording *words)
{
    const struct task_facts *facts = words->facts;
    int64_t in_us = expected_us(facts, words->now);
    char human[HUMAN_TEXT_MAX], hold[HUMAN_TEXT_MAX];
    if (in_us >= 0) {
        words->expected.us = words->now.us + in_us;
        buffer_format(words->out, ", and starts in about %s", human_span(in_us, human));
    } else if (facts->lock.remaining_us >= 0 && !facts->lock.is_living) {
        buffer_format(words->out, "; the lock expires in %s, if nobody extends it",
                      human_span(facts->lock.remaining_us, human));
    }
    if (facts->lock.hold_us >= 0)
        buffer_format(words->out, " (such a lock is held for %s, the mean of today)",
                      human_span(facts->lock.hold_us, hold));
}

static void lock_write(struct wording *words)
{
    const struct task_facts *facts = words->facts;
    char quoted[LOG_QUOTE_MAX];
    buffer_format(words->out, "It waits for %s %s", list_kind(facts), words->list);
    if (facts->lock.is_asked) {
        holder_write(words);
    } else {
        buffer_format(words->out, "; who holds it is not known (%s)",
                      log_quote(facts->lock.why_not != NULL ? facts->lock.why_not : "", quoted));
    }
    buffer_append_text(words->out, "; it is ");
    position_write(words);
    if (facts->lock.is_asked)
        expectation_write(words);
}

static void quorum_write(const struct wording *words)
{
    const struct task_facts *facts = words->facts;
    if (facts->state == TASK_IN_QUEUE)
        buffer_append_text(words->out, "Its workers claim nothing");
    else if (facts->list != TASK_LIST_NONE)
        buffer_format(words->out, "It waits for %s %s, and nobody can have it", list_kind(facts), words->list);
    else
        buffer_append_text(words->out, "It waits for its lock, and nobody can have it");
    buffer_format(words->out, ": %u of %u lock nodes vote", facts->lock.voters, facts->lock.nodes);
    if (facts->lock.trouble != NULL && facts->lock.trouble[0] != '\0')
        buffer_format(words->out, " (%s)", facts->lock.trouble);
}

static void twin_write(const struct wording *words)
{
    const struct task_facts *facts = words->facts;
    char quoted[LOG_QUOTE_MAX], human[HUMAN_TEXT_MAX];
    if (facts->twin == NULL) {
        buffer_format(words->out, "It waits for %s %s, which an earlier run of the same task still has",
                      list_kind(facts), words->list);
        process_write(words);
        if (facts->lock.remaining_us >= 0)
            buffer_format(words->out, "; that lock expires in %s, if nobody extends it",
                          human_span(facts->lock.remaining_us, human));
        return;
    }
    buffer_format(words->out, "Another task with its jid runs in %s", log_quote(facts->twin, quoted));
    since_write(words, facts->since);
    buffer_append_text(words->out, "; this one is ");
    position_write(words);
}

static void recovery_write(struct wording *words)
{
    const struct task_facts *facts = words->facts;
    struct wall_time by = {facts->lease_end.us + FLEET_RECOVERY_US};
    char human[HUMAN_TEXT_MAX], ended[HUMAN_TEXT_MAX];
    buffer_format(words->out, "%s had taken it and is gone: its lease ended %s", words->process,
                  moment(words, facts->lease_end, ended));
    if (facts->workers.living == 0) {
        buffer_append_text(words->out, ", and no worker is alive that would give it back to its queue");
    } else if (by.us < words->now.us) {
        buffer_append_text(words->out, ", and nobody has given it back to its queue");
    } else {
        words->expected = by;
        buffer_format(words->out, "; a living worker gives it back to its queue, at the latest %s",
                      moment(words, by, human));
    }
}

static void class_write(const struct wording *words)
{
    const struct task_facts *facts = words->facts;
    char human[HUMAN_TEXT_MAX], quoted[LOG_QUOTE_MAX];
    buffer_format(words->out, "No worker of its queue %s serves its class %s", words->queue, words->class_name);
    if (facts->workers.elsewhere != NULL)
        buffer_format(words->out, "; %s does, which does not serve the queue",
                      log_quote(facts->workers.elsewhere, quoted));
    if (facts->unserved_at.us != 0)
        buffer_format(words->out, "; that was seen %s for the first time, and it is tried again %s",
                      moment(words, facts->unserved_at, human), moment(words, facts->at, quoted));
}

static void queued_write(const struct wording *words)
{
    const struct task_facts *facts = words->facts;
    bool is_full = facts->workers.busy >= facts->workers.threads;
    buffer_append_text(words->out, "It is ");
    position_write(words);
    if (facts->put_off_at.us != 0 && facts->list != TASK_LIST_NONE && facts->list != TASK_LIST_CLASS)
        buffer_format(words->out, " (its turn for %s %s has come)", list_kind(facts), words->list);
    buffer_format(words->out, ", which %zu worker%s serve%s: %s%lld of %lld threads %s busy", facts->workers.allowed,
                  human_plural((int64_t)facts->workers.allowed), facts->workers.allowed == 1 ? "s" : "",
                  is_full ? "all, " : "", facts->workers.busy, facts->workers.threads,
                  facts->workers.busy == 1 ? "is" : "are");
    if (is_late(words, facts->workers.beat))
        beat_write(words, facts->workers.allowed == 1 ? "; its" : "; their", facts->workers.beat);
}

static void retry_write(struct wording *words)
{
    const struct task_facts *facts = words->facts;
    char human[HUMAN_TEXT_MAX], date[HUMAN_TEXT_MAX], quoted[LOG_QUOTE_MAX];
    words->expected = facts->at;
    buffer_append_text(words->out, "It ");
    if (facts->failures > 0)
        buffer_format(words->out, "failed %u time%s%s", facts->failures, human_plural(facts->failures),
                      facts->error[0] != '\0' ? ", " : " and ");
    if (facts->error[0] != '\0')
        buffer_format(words->out, "%s with %s, and ", facts->failures > 0 ? "last" : "failed",
                      log_quote(facts->error, quoted));
    buffer_format(words->out, "is tried again %s (%s)", moment(words, facts->at, human), human_date(facts->at, date));
}

static void schedule_write(struct wording *words)
{
    const struct task_facts *facts = words->facts;
    char human[HUMAN_TEXT_MAX], date[HUMAN_TEXT_MAX];
    words->expected = facts->at;
    if (facts->put_off_at.us != 0)
        buffer_format(words->out, "It could not have its lock and is tried again %s", moment(words, facts->at, human));
    else
        buffer_format(words->out, "It is scheduled for %s (%s)", human_date(facts->at, date),
                      moment(words, facts->at, human));
}

static void ending_write(const struct wording *words, enum task_reason_code code)
{
    const struct task_facts *facts = words->facts;
    bool has_error = facts->error[0] != '\0';
    char human[HUMAN_TEXT_MAX], quoted[LOG_QUOTE_MAX];
    if (code == TASK_GONE)
        buffer_append_text(words->out, "It is nowhere: it ended and left no result, was deleted, or was never pushed");
    else if (code == TASK_UNKNOWN)
        buffer_append_text(words->out, "It was not found among the entries that were looked at, and there are more");
    else if (code == TASK_CANCELLED)
        buffer_format(words->out, "It was cancelled at %s", human_date(facts->ended_at, human));
    else if (code == TASK_DONE)
        buffer_format(words->out, "It was done at %s, and left a result", human_date(facts->ended_at, human));
    else
        buffer_format(words->out, "It died %s%s%s", moment(words, facts->at, human), has_error ? ": " : "",
                      has_error ? log_quote(facts->error, quoted) : "");
}

static void dead_worker_write(const struct wording *words)
{
    const struct task_facts *facts = words->facts;
    char quoted[LOG_QUOTE_MAX], human[HUMAN_TEXT_MAX];
    if (facts->workers.dead == NULL)
        return;
    buffer_format(words->out, "; the last one of its queue, %s, died", log_quote(facts->workers.dead, quoted));
    if (facts->workers.dead_lease_end.us != 0)
        buffer_format(words->out, ": its lease ended %s", moment(words, facts->workers.dead_lease_end, human));
    else if (facts->workers.dead_beat.us != 0)
        beat_write(words, ": its", facts->workers.dead_beat);
}

static void terms_write(const struct wording *words)
{
    const struct task_facts *facts = words->facts;
    char human[HUMAN_TEXT_MAX];
    if (facts->workers.allowed == 0)
        buffer_format(words->out, "No worker may run it now: %s", facts->workers.terms);
    else
        buffer_format(words->out, "A worker that may not run it now has put it off, and it is tried again %s: %s",
                      moment(words, facts->at, human), facts->workers.terms);
}

/* Why nobody takes it. */
static void workers_write(const struct wording *words, enum task_reason_code code)
{
    const struct task_facts *facts = words->facts;
    char quoted[LOG_QUOTE_MAX];
    if (code == TASK_PAUSED)
        buffer_format(words->out, "Its queue %s is paused", words->queue);
    else if (code == TASK_NO_WORKER)
        buffer_append_text(words->out, "No worker is alive");
    else if (code == TASK_QUEUE_UNSERVED)
        buffer_format(words->out, "No worker serves its queue %s", words->queue);
    else if (code == TASK_QUIET)
        buffer_format(words->out, "Every worker of its queue %s is quiet or stops, and takes no more tasks: %s",
                      words->queue, log_quote(facts->workers.quiet, quoted));
    else if (code == TASK_TERMS)
        terms_write(words);
    else
        class_write(words);
    if (code == TASK_NO_WORKER || code == TASK_QUEUE_UNSERVED)
        dead_worker_write(words);
}

/* What it waits for. */
static void wait_write(struct wording *words, enum task_reason_code code)
{
    const struct task_facts *facts = words->facts;
    char human[HUMAN_TEXT_MAX];
    if (code == TASK_LOCK || code == TASK_LIMIT) {
        lock_write(words);
    } else if (code == TASK_NO_QUORUM) {
        quorum_write(words);
    } else if (code == TASK_BLOCKED) {
        buffer_format(words->out,
                      "It waits for %s %s, and nobody can get it: %u lock node%s under its key what is no lock",
                      list_kind(facts), words->list, facts->lock.blocked, facts->lock.blocked == 1 ? " has" : "s have");
    } else if (code == TASK_SHARE) {
        buffer_format(words->out, "As many tasks of its class %s run as its share of the threads allows; it is ",
                      words->list);
        position_write(words);
    } else {
        buffer_format(words->out, "It waits for %s %s, which is free; it is ", list_kind(facts), words->list);
        position_write(words);
        buffer_format(words->out, ", and comes at the latest %s", moment(words, facts->at, human));
    }
}

static void run_write(const struct wording *words)
{
    buffer_format(words->out, "It runs in %s", words->process);
    since_write(words, words->facts->since);
    doubt_write(words);
}

static void start_write(const struct wording *words)
{
    bool is_quiet = is_late(words, words->facts->beat);
    buffer_format(words->out, "%s has %staken it: it starts it, or asks for its lock", words->process,
                  is_quiet ? "" : "just ");
    doubt_write(words);
}

static void overdue_write(const struct wording *words)
{
    buffer_format(words->out, "It is due in %s", task_state_name(words->facts->state));
    since_write(words, words->facts->at);
    buffer_format(words->out, ", and no worker has put it into its queue %s", words->queue);
}

static void sentence_write(struct wording *words, enum task_reason_code code)
{
    if (code <= TASK_DEAD)
        ending_write(words, code);
    else if (code == TASK_RUNS)
        run_write(words);
    else if (code == TASK_STARTS)
        start_write(words);
    else if (code == TASK_BEING_RECOVERED)
        recovery_write(words);
    else if (code == TASK_TWIN)
        twin_write(words);
    else if (code <= TASK_TERMS)
        workers_write(words, code);
    else if (code == TASK_QUEUED)
        queued_write(words);
    else if (code == TASK_SCHEDULED)
        schedule_write(words);
    else if (code == TASK_RETRY)
        retry_write(words);
    else if (code == TASK_OVERDUE)
        overdue_write(words);
    else
        wait_write(words, code);
    buffer_append_text(words->out, ".");
}

/* What is for later waits until then, and after that for what is in the way now. */
static enum task_reason_code later_of(const struct task_facts *facts, enum task_reason_code code)
{
    return code == TASK_SCHEDULED || code == TASK_RETRY ? of_workers(facts, code) : code;
}

/* --- what to do --------------------------------------------------------------------------------------------------- */

static void lock_advise(const struct wording *words)
{
    const struct task_facts *facts = words->facts;
    char quoted[LOG_QUOTE_MAX];
    if (facts->lock.is_asked && facts->lock.is_ours && facts->lock.jid != NULL && facts->lock.is_living)
        buffer_format(words->out,
                      "`holdfast who %s` shows more. If its holder hangs, `holdfast cancel %s` ends that task.",
                      words->list, log_quote(facts->lock.jid, quoted));
    else
        buffer_format(words->out,
                      "`holdfast who %s` shows more. `holdfast unlock %s` takes it from a holder that is gone.",
                      words->list, words->list);
}

static void recovery_advise(const struct wording *words)
{
    const struct task_facts *facts = words->facts;
    if (facts->workers.living == 0)
        buffer_format(words->out, "Start a worker, or give it back by `holdfast tasks retry %s`.", words->jid);
    else if (facts->lease_end.us + FLEET_RECOVERY_US < words->now.us)
        buffer_append_text(words->out, "`holdfast doctor` says what keeps the living workers from that.");
    else
        buffer_append_text(words->out, "Nothing.");
}

static void queued_advise(const struct wording *words)
{
    if (words->facts->workers.busy >= words->facts->workers.threads)
        buffer_append_text(words->out, "Wait, or start more workers; `holdfast top` shows what runs.");
    else
        buffer_format(words->out,
                      "Nothing, if it is taken in a moment; else see in which order its workers serve their "
                      "queues.");
}

static const char *const plain_advice[TASK_REASONS] = {
    [TASK_GONE] = "The log of the workers says how it ended (ending=); only a class with a result_ttl leaves a result.",
    [TASK_UNKNOWN] = "Look further with --scan-limit.",
    [TASK_CANCELLED] = "Nothing. If it is to run after all, push it again.",
    [TASK_STARTS] = "Nothing. If it stays so for a minute, see the log of that process.",
    [TASK_NO_WORKER] = "Start one (`holdfast work`, `systemctl start holdfast`). One that ends at once says why in the "
                       "last lines of its log.",
    [TASK_CLASS_UNSERVED] = "Deploy a handler of the class to a worker of the queue (`holdfast plugins` shows what a "
                            "worker has), or correct the name that is pushed.",
    [TASK_QUIET] = "Start a worker, or restart one that is quiet: no quiet worker takes tasks again.",
    [TASK_TERMS] = "Give both the same configuration; if the new one is meant, stop the last process with the old one.",
    [TASK_OVERDUE] = "`holdfast doctor` says what keeps the workers from it.",
    [TASK_SHARE] = "Wait, raise `share` of the class, or start more workers.",
    [TASK_NO_QUORUM] = "`holdfast nodes` says of each node why it does not vote, and what to do.",
    [TASK_TURN] = "Nothing."};

static void twin_advise(const struct wording *words)
{
    const struct task_facts *facts = words->facts;
    bool is_queued = facts->state == TASK_IN_QUEUE;
    if (facts->twin == NULL)
        buffer_append_text(words->out, "Nothing: it runs when that run has ended, or its lock has expired.");
    else
        buffer_format(
            words->out,
            "It runs too, when a worker takes it. If it was pushed twice by mistake: `holdfast tasks delete %s "
            "--state %s%s%s`.",
            words->jid, task_state_name(facts->state), is_queued ? " --queue " : "", is_queued ? words->queue : "");
}

static void advice_write(const struct wording *words, enum task_reason_code code)
{
    if (plain_advice[code] != NULL)
        buffer_append_text(words->out, plain_advice[code]);
    else if (code == TASK_DONE)
        buffer_format(words->out, "`holdfast result %s` prints it.", words->jid);
    else if (code == TASK_DEAD)
        buffer_format(words->out, "When the cause is mended: `holdfast tasks retry %s`.", words->jid);
    else if (code == TASK_RUNS)
        buffer_format(words->out, "Nothing. `holdfast cancel %s` stops it.", words->jid);
    else if (code == TASK_BEING_RECOVERED)
        recovery_advise(words);
    else if (code == TASK_TWIN)
        twin_advise(words);
    else if (code == TASK_PAUSED)
        buffer_format(words->out, "`holdfast resume %s` lets its tasks run.", words->queue);
    else if (code == TASK_QUEUE_UNSERVED)
        buffer_format(words->out, "%s; `holdfast status` shows which worker serves which.",
                      words->facts->workers.dead != NULL
                          ? "Start that one again (its log says how it ended), or name the queue in `queues` of another"
                          : "Name the queue in `queues` of a worker");
    else if (code == TASK_QUEUED)
        queued_advise(words);
    else if (code == TASK_SCHEDULED || code == TASK_RETRY)
        buffer_format(words->out, "Wait; or `holdfast tasks retry %s` runs it now.", words->jid);
    else if (code == TASK_BLOCKED)
        buffer_format(words->out, "`holdfast who %s` shows what it is, and how to delete it.", words->list);
    else
        lock_advise(words);
}

/* Within the back quotes, so that the commands can be copied. */
static void local_add(struct buffer *advice)
{
    struct buffer copy = {0};
    bool is_command = false;
    for (size_t i = 0; i < advice->length; i++) {
        if (advice->bytes[i] == '`' && is_command)
            buffer_append_text(&copy, " --local");
        if (advice->bytes[i] == '`')
            is_command = !is_command && strncmp(&advice->bytes[i + 1], "holdfast ", 9) == 0;
        buffer_append(&copy, &advice->bytes[i], 1);
    }
    buffer_fini(advice);
    *advice = copy;
}

/* --- both --------------------------------------------------------------------------------------------------------- */

void task_reason_find(struct task_reason *reason, const struct task_facts *facts, struct wall_time now)
{
    struct wording words = {.facts = facts, .now = now, .out = &reason->sentence};
    buffer_clear(&reason->sentence);
    buffer_clear(&reason->advice);
    log_quote(facts->jid, words.jid);
    log_quote(facts->queue, words.queue);
    log_quote(facts->class_name, words.class_name);
    log_quote(facts->process, words.process);
    log_quote(facts->list_name, words.list);
    reason->code = code_of(facts, now);
    enum task_reason_code later = later_of(facts, reason->code);
    sentence_write(&words, reason->code);
    if (later != reason->code) {
        buffer_append_text(words.out, " ");
        sentence_write(&words, later);
    }
    bool is_to_end = facts->is_cancelled && reason->code != TASK_DEAD;
    if (is_to_end)
        buffer_append_text(words.out, reason->code == TASK_RUNS
                                          ? " It was cancelled, so its handler was asked to stop."
                                          : " It was cancelled, so it ends without a run when a worker takes it.");
    words.out = &reason->advice;
    if (is_to_end)
        buffer_append_text(words.out, "Nothing.");
    else
        advice_write(&words, later);
    (void)buffer_text(&reason->advice);
    if (facts->is_local)
        local_add(&reason->advice);
    reason->expected = words.expected;
}

void task_reason_fini(struct task_reason *reason)
{
    buffer_fini(&reason->sentence);
    buffer_fini(&reason->advice);
}

static void holder_json(const struct task_facts *facts, struct json_writer *json)
{
    bool is_known = facts->lock.is_asked && facts->lock.state == LOCK_IS_HELD;
    if (!is_known) {
        json_nothing(json, "holder");
        return;
    }
    json_open(json, "holder", '{');
    json_text(json, "owner", facts->lock.owner);
    json_text(json, "jid", facts->lock.jid);
    json_text(json, "class", facts->lock.class_name);
    json_text(json, "identity", facts->lock.process);
    json_truth_if(json, "process_alive", facts->lock.process != NULL, facts->lock.is_living);
    json_seconds_if(json, "since", facts->lock.since.us != 0, facts->lock.since.us);
    json_seconds_if(json, "expires_in", facts->lock.remaining_us >= 0, facts->lock.remaining_us);
    json_number(json, "holders", facts->lock.holders);
    json_close(json, '}');
}

void task_reason_put(struct task_reason *reason, const struct task_facts *facts, struct printer *out)
{
    bool is_found = facts->is_found, is_resource = facts->list == TASK_LIST_RESOURCE || facts->list == TASK_LIST_SEATS;
    printer_line(out, "%s", buffer_text(&reason->sentence));
    printer_line(out, "What to do: %s", buffer_text(&reason->advice));
    if (!out->is_json)
        return;
    struct json_writer *json = &out->json;
    json_text(json, "state", is_found ? task_state_name(facts->state) : task_reason_name(reason->code));
    json_text(json, "reason", task_reason_name(reason->code));
    json_bytes(json, "sentence", reason->sentence.bytes, reason->sentence.length);
    json_bytes(json, "advice", reason->advice.bytes, reason->advice.length);
    json_text(json, "queue", facts->queue);
    json_text(json, "class", facts->class_name);
    json_seconds_if(json, "at", is_found && facts->at.us != 0, facts->at.us);
    json_number_if(json, "position", is_found && facts->state == TASK_IN_QUEUE, facts->position);
    json_text(json, "identity", facts->process);
    json_seconds_if(json, "since", facts->since.us != 0, facts->since.us);
    json_text(json, "resource", is_resource ? facts->list_name : NULL);
    json_number_if(json, "ahead", facts->is_listed && facts->ahead >= 0, facts->ahead);
    holder_json(facts, json);
    json_seconds_if(json, "expected_at", reason->expected.us != 0, reason->expected.us);
}
