#include "worker/task/run_table.h"

#include <string.h>
#include <sys/mman.h>

#include "base/invariant.h"

static size_t run_table_size(unsigned run_entries)
{
    return sizeof(struct run_table) + run_entries * sizeof(struct run_entry);
}

/* Fresh pages are zero: `wakes_at` too, so nothing rings before the zygote exists. The zygote checks all run entries
 * when it begins. */
struct run_table *run_table_create(unsigned run_entries)
{
    void *memory = mmap(NULL, run_table_size(run_entries), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    struct run_table *run_table = memory;
    run_table->run_entry_count = run_entries;
    atomic_store(&run_table->lease_end, INT64_MAX);
    for (unsigned i = 0; i < run_entries; i++)
        run_entry_clear(&run_table->run_entries[i]);
    return run_table;
}

void run_table_destroy(struct run_table *run_table)
{
    if (run_table != NULL)
        invariant(munmap(run_table, run_table_size(run_table->run_entry_count)) == 0);
}

bool run_table_protect(const struct run_table *run_table)
{
    return mprotect((void *)(uintptr_t)run_table, run_table_size(run_table->run_entry_count), PROT_READ) == 0;
}

struct run_entry *run_table_entry(struct run_table *run_table, unsigned number)
{
    invariant(number < run_table->run_entry_count);
    return &run_table->run_entries[number];
}

const struct run_entry *run_table_suspect(const struct run_table *run_table)
{
    unsigned crashed = atomic_load(&run_table->crashed);
    return crashed > 0 && crashed <= run_table->run_entry_count ? &run_table->run_entries[crashed - 1] : NULL;
}

bool run_table_is_leased(const struct run_table *run_table, struct instant now)
{
    return now.ns < atomic_load_explicit(&run_table->lease_end, memory_order_relaxed);
}

/* Never writes the last byte: a reader finds the end even after a crash inside this function. */
static void text_set(char *to, size_t size, const char *from)
{
    size_t length = strnlen(from, size - 1);
    while (length > 0 && from[length] != '\0' && ((unsigned char)from[length] & 0xC0) == 0x80)
        length--; /* cut between characters */
    memcpy(to, from, length);
    to[length] = '\0';
}

const char *run_table_suspect_plugin(const struct run_table *run_table)
{
    return atomic_load(&run_table->crashed) == RUN_TABLE_OPENING + 1 ? run_table->opening : NULL;
}

void run_table_opening_set(struct run_table *run_table, const char *plugin)
{
    text_set(run_table->opening, sizeof run_table->opening, plugin);
}

void run_entry_clear(struct run_entry *run_entry)
{
    atomic_store(&run_entry->is_locked, false);
    atomic_store(&run_entry->is_claimed, false);
    atomic_store(&run_entry->hold_until, 0);
    atomic_store(&run_entry->lost, 0);
    atomic_store(&run_entry->asked, 0);
    atomic_store(&run_entry->kill_at, INT64_MAX);
}

void run_entry_open(struct run_entry *run_entry, const char *jid, const char *class_name)
{
    text_set(run_entry->jid, sizeof run_entry->jid, jid);
    text_set(run_entry->class_name, sizeof run_entry->class_name, class_name);
    atomic_fetch_add(&run_entry->run, 1);
    atomic_store(&run_entry->is_running, true);
}

/* Afterwards the rest of the run entry causes no kill. */
void run_entry_close(struct run_entry *run_entry)
{
    atomic_store(&run_entry->occupant, 0);
    atomic_store(&run_entry->is_running, false);
}

int64_t run_entry_ends_at(const struct run_entry *run_entry)
{
    int64_t kill_at = atomic_load(&run_entry->kill_at);
    if (!atomic_load(&run_entry->is_locked))
        return kill_at;
    int64_t until = atomic_load(&run_entry->validity.until);
    return until < kill_at ? until : kill_at;
}

/* The zygote stores when it will wake up, and then checks the run entries again. Here the run entry was written
 * first, and then that word is read. In a sequentially consistent order at least one of the two sees what the other
 * wrote. The fence covers the lock's words, which are stored in a weaker order. */
bool run_table_must_ring(struct run_table *run_table, const struct run_entry *run_entry)
{
    if (atomic_load(&run_entry->occupant) == 0)
        return false;
    atomic_thread_fence(memory_order_seq_cst);
    return run_entry_ends_at(run_entry) < atomic_load(&run_table->wakes_at);
}

bool run_entry_kill_by(struct run_table *run_table, struct run_entry *run_entry, struct instant at)
{
    if (at.ns < atomic_load(&run_entry->kill_at))
        atomic_store(&run_entry->kill_at, at.ns);
    return run_table_must_ring(run_table, run_entry);
}

/* A snapshot of one run entry, read while the loop may write. It counts only if neither the run nor its occupant
 * changed meanwhile. If the loop changes them right afterwards, the wrong run is killed, and its exit says for which
 * run. */
struct sight {
    uint64_t occupant, run;
    int64_t ends_at;
};

static struct sight run_entry_look(const struct run_entry *run_entry)
{
    struct sight sight;
    do {
        sight.run = atomic_load(&run_entry->run);
        sight.occupant = atomic_load(&run_entry->occupant);
        sight.ends_at = run_entry_ends_at(run_entry);
    } while (atomic_load(&run_entry->run) != sight.run || atomic_load(&run_entry->occupant) != sight.occupant);
    return sight;
}

struct run_table_verdict run_table_look(const struct run_table *run_table, unsigned from, struct instant now)
{
    struct run_table_verdict verdict = {.next = INSTANT_NEVER};
    for (unsigned i = 0; i < run_table->run_entry_count; i++) {
        struct sight sight = run_entry_look(&run_table->run_entries[i]);
        if (sight.occupant == 0)
            continue;
        struct instant ends = {sight.ends_at};
        if (!instant_reached(now, ends))
            verdict.next = instant_earlier(verdict.next, ends);
        else if (i >= from && sight.ends_at != INT64_MAX)
            return (struct run_table_verdict){
                .child = sight.occupant, .run_entry = i, .run = sight.run, .next = INSTANT_NEVER};
    }
    return verdict;
}
