#include "worker/task/board.h"

#include <string.h>
#include <sys/mman.h>

#include "base/invariant.h"

static size_t board_size(unsigned berths)
{
    return sizeof(struct board) + berths * sizeof(struct berth);
}

/* Fresh pages are zero: `wakes_at` too, so nobody rings before there is a zygote, which looks at all when it begins. */
struct board *board_create(unsigned berths)
{
    void *memory = mmap(NULL, board_size(berths), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    struct board *board = memory;
    board->berth_count = berths;
    atomic_store(&board->pulse, INT64_MAX);
    for (unsigned i = 0; i < berths; i++)
        berth_clear(&board->berths[i]);
    return board;
}

void board_destroy(struct board *board)
{
    if (board != NULL)
        invariant(munmap(board, board_size(board->berth_count)) == 0);
}

bool board_protect(const struct board *board)
{
    return mprotect((void *)(uintptr_t)board, board_size(board->berth_count), PROT_READ) == 0;
}

struct berth *board_berth(struct board *board, unsigned number)
{
    invariant(number < board->berth_count);
    return &board->berths[number];
}

const struct berth *board_culprit(const struct board *board)
{
    unsigned crashed = atomic_load(&board->crashed);
    return crashed > 0 && crashed <= board->berth_count ? &board->berths[crashed - 1] : NULL;
}

/* The last byte is never written, so that there is an end for whoever reads after a crash in the middle of this. */
static void text_set(char *to, size_t size, const char *from)
{
    size_t length = strnlen(from, size - 1);
    while (length > 0 && from[length] != '\0' && ((unsigned char)from[length] & 0xC0) == 0x80)
        length--; /* not within a character */
    memcpy(to, from, length);
    to[length] = '\0';
}

void berth_clear(struct berth *berth)
{
    atomic_store(&berth->is_locked, false);
    atomic_store(&berth->hold_until, 0);
    atomic_store(&berth->lost, 0);
    atomic_store(&berth->asked, 0);
    atomic_store(&berth->kill_at, INT64_MAX);
}

void berth_open(struct berth *berth, const char *jid, const char *class_name)
{
    text_set(berth->jid, sizeof berth->jid, jid);
    text_set(berth->class_name, sizeof berth->class_name, class_name);
    atomic_fetch_add(&berth->run, 1);
    atomic_store(&berth->is_running, true);
}

/* From then on nobody is killed for what else is on the berth. */
void berth_close(struct berth *berth)
{
    atomic_store(&berth->occupant, 0);
    atomic_store(&berth->is_running, false);
}

int64_t berth_ends_at(const struct berth *berth)
{
    int64_t kill_at = atomic_load(&berth->kill_at);
    if (!atomic_load(&berth->is_locked))
        return kill_at;
    int64_t until = atomic_load(&berth->validity.until);
    return until < kill_at ? until : kill_at;
}

/* The zygote stores when it will wake up and then looks at the berths once more; here the berth was written and then
 * that word is read. With all of it in one order, at least one of the two sees what the other wrote. The fence is for
 * words that were stored in a weaker order: those of the lock. */
bool board_must_ring(struct board *board, const struct berth *berth)
{
    if (atomic_load(&berth->occupant) == 0)
        return false;
    atomic_thread_fence(memory_order_seq_cst);
    return berth_ends_at(berth) < atomic_load(&board->wakes_at);
}

bool berth_kill_by(struct board *board, struct berth *berth, struct instant at)
{
    if (at.ns < atomic_load(&berth->kill_at))
        atomic_store(&berth->kill_at, at.ns);
    return board_must_ring(board, berth);
}

/* What one berth says, read while the loop may be writing: it is believed only when neither the run nor who has it has
 * changed meanwhile. If the loop changes them right after, the wrong run is killed, and its end says for which. */
struct sight {
    uint64_t occupant, run;
    int64_t ends_at;
};

static struct sight berth_look(const struct berth *berth)
{
    struct sight sight;
    do {
        sight.run = atomic_load(&berth->run);
        sight.occupant = atomic_load(&berth->occupant);
        sight.ends_at = berth_ends_at(berth);
    } while (atomic_load(&berth->run) != sight.run || atomic_load(&berth->occupant) != sight.occupant);
    return sight;
}

struct board_verdict board_look(const struct board *board, unsigned from, struct instant now)
{
    struct board_verdict verdict = {.next = INSTANT_NEVER};
    for (unsigned i = 0; i < board->berth_count; i++) {
        struct sight sight = berth_look(&board->berths[i]);
        if (sight.occupant == 0)
            continue;
        struct instant ends = {sight.ends_at};
        if (!instant_reached(now, ends))
            verdict.next = instant_earlier(verdict.next, ends);
        else if (i >= from && sight.ends_at != INT64_MAX)
            return (struct board_verdict){.child = sight.occupant, .berth = i, .run = sight.run, .next = INSTANT_NEVER};
    }
    return verdict;
}
