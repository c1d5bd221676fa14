#include "worker/isolation/board.h"

#include <stdio.h>
#include <sys/mman.h>

#include "base/invariant.h"

static size_t board_size(unsigned berths)
{
    return sizeof(struct board) + berths * sizeof(struct berth);
}

struct board *board_create(unsigned berths)
{
    struct board *board = mmap(NULL, board_size(berths), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED)
        return NULL;
    board->berth_count = berths;
    atomic_store(&board->pulse, INT64_MAX);
    atomic_store(&board->wakes_at, INT64_MAX);
    for (unsigned i = 0; i < berths; i++)
        berth_clear(&board->berths[i]);
    return board;
}

void board_destroy(struct board *board)
{
    if (board != NULL)
        munmap(board, board_size(board->berth_count));
}

struct berth *board_berth(struct board *board, unsigned number)
{
    invariant(number < board->berth_count);
    return &board->berths[number];
}

/* --- a berth ------------------------------------------------------------------------------------------------------ */

void berth_clear(struct berth *berth)
{
    atomic_store_explicit(&berth->is_locked, false, memory_order_relaxed);
    atomic_store_explicit(&berth->hold_until, 0, memory_order_relaxed);
    atomic_store_explicit(&berth->lost, 0, memory_order_relaxed);
    atomic_store_explicit(&berth->asked, 0, memory_order_relaxed);
    atomic_store_explicit(&berth->kill_at, INT64_MAX, memory_order_relaxed);
}

void berth_open(struct berth *berth, const char *jid, const char *class_name)
{
    snprintf(berth->jid, sizeof berth->jid, "%s", jid);
    snprintf(berth->class_name, sizeof berth->class_name, "%s", class_name);
    atomic_fetch_add_explicit(&berth->run, 1, memory_order_relaxed);
    atomic_store_explicit(&berth->is_running, true, memory_order_release);
}

void berth_close(struct berth *berth)
{
    atomic_store_explicit(&berth->is_running, false, memory_order_release);
}

int64_t berth_ends_at(const struct berth *berth)
{
    int64_t at = atomic_load(&berth->kill_at);
    if (!atomic_load(&berth->is_locked))
        return at;
    int64_t until = atomic_load(&berth->validity.until);
    return until < at ? until : at;
}

/* Both sides first say what they know and then look at what the other said: the loop stores a deadline and looks at
 * wakes_at, the zygote stores wakes_at and looks at the deadlines. So one of the two sees the other's. */
bool board_must_ring(struct board *board, const struct berth *berth)
{
    return atomic_load(&berth->occupant) != 0 && berth_ends_at(berth) < atomic_load(&board->wakes_at);
}

bool berth_kill_by(struct board *board, struct berth *berth, struct instant at)
{
    if (at.ns < atomic_load(&berth->kill_at))
        atomic_store(&berth->kill_at, at.ns);
    return board_must_ring(board, berth);
}

/* --- the zygote's rule --------------------------------------------------------------------------------------------- */

struct board_verdict board_look(const struct board *board, unsigned from, struct instant now)
{
    struct board_verdict verdict = {.next = INSTANT_NEVER};
    for (unsigned i = from; i < board->berth_count; i++) {
        const struct berth *berth = &board->berths[i];
        uint64_t run = atomic_load(&berth->run), occupant = atomic_load(&berth->occupant);
        int64_t ends_at = berth_ends_at(berth);
        if (occupant == 0)
            continue;
        if (ends_at > now.ns) {
            verdict.next = instant_earlier(verdict.next, (struct instant){ends_at});
            continue;
        }
        /* Still the same one: what was read belongs together. */
        if (atomic_load(&berth->occupant) == occupant && atomic_load(&berth->run) == run)
            return (struct board_verdict){.child = occupant, .berth = i, .run = run, .next = now};
    }
    return verdict;
}
