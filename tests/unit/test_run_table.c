/* The run table: what is on it, whom its rule kills and when, and who has to be rung. */
#include "tests/support/test.h"

#include "worker/task/run_table.h"

enum { RUN_ENTRYS = 5, SCHEDULES = 20000 };

static struct run_table *run_table;

static void set_up(void)
{
    run_table = run_table_create(RUN_ENTRYS);
    assert_non_null(run_table);
}

static void tear_down(void)
{
    run_table_destroy(run_table);
}

static struct instant at(int64_t ns)
{
    return (struct instant){ns};
}

static struct run_entry *run_entry_taken(unsigned number, uint64_t occupant)
{
    struct run_entry *run_entry = run_table_entry(run_table, number);
    run_entry_open(run_entry, "jid", "Class");
    atomic_store(&run_entry->occupant, occupant);
    return run_entry;
}

static void run_entry_lock(struct run_entry *run_entry, int64_t until)
{
    atomic_store(&run_entry->validity.until, until);
    atomic_store(&run_entry->is_locked, true);
}

/* --- run entries -------------------------------------------------------------------------------------------------- */

TEST(a_new_run_table_kills_nobody)
{
    struct run_table_verdict verdict = run_table_look(run_table, 0, at(INT64_MAX - 1));
    assert_int_equal(verdict.child, 0);
    assert_int_equal(verdict.next.ns, INT64_MAX);
    for (unsigned i = 0; i < RUN_ENTRYS; i++) {
        assert_int_equal(run_entry_ends_at(run_table_entry(run_table, i)), INT64_MAX);
        assert_false(run_table_must_ring(run_table, run_table_entry(run_table, i)));
    }
}

TEST(each_run_has_a_number_of_its_own)
{
    struct run_entry *run_entry = run_table_entry(run_table, 1);
    run_entry_open(run_entry, "first", "A");
    uint64_t first = atomic_load(&run_entry->run);
    run_entry_close(run_entry);
    run_entry_open(run_entry, "second", "B");
    assert_true(first > 0 && atomic_load(&run_entry->run) == first + 1);
    assert_string_equal(run_entry->jid, "second");
    assert_true(atomic_load(&run_entry->is_running));
}

TEST(long_names_are_cut_between_characters)
{
    char name[400] = "";
    while (strlen(name) < 390)
        strncat(name, "x\xC3\xA4", 4);
    struct run_entry *run_entry = run_table_entry(run_table, 0);
    run_entry_open(run_entry, name, name);
    assert_int_equal(strlen(run_entry->jid), ENVELOPE_JID_BYTES_MAX - ENVELOPE_JID_BYTES_MAX % 3 + 1);
    assert_int_equal(strlen(run_entry->class_name), 127);
    assert_memory_equal(run_entry->class_name, name, 127);
    memset(name, 'y', 127);
    memcpy(name + 126, "\xC3\xA4", 3);
    run_entry_open(run_entry, name, name);
    assert_int_equal(strlen(run_entry->class_name), 126);
}

TEST(a_forked_child_sees_what_is_written)
{
    pid_t child = fork();
    if (child == 0) {
        run_entry_kill_by(run_table, run_table_entry(run_table, 4), at(77));
        _exit(0);
    }
    waitpid(child, NULL, 0);
    assert_int_equal(run_entry_ends_at(run_table_entry(run_table, 4)), 77);
}

TEST(a_closed_run_entry_has_no_occupant)
{
    struct run_entry *run_entry = run_entry_taken(2, 9);
    run_entry_kill_by(run_table, run_entry, at(100));
    run_entry_close(run_entry);
    assert_int_equal(run_table_look(run_table, 0, at(200)).child, 0);
    assert_false(atomic_load(&run_entry->is_running));
    run_entry_clear(run_entry);
    assert_int_equal(run_entry_ends_at(run_entry), INT64_MAX);
}

/* --- the rule ----------------------------------------------------------------------------------------------------- */

TEST(the_earlier_of_both_ends_counts)
{
    struct run_entry *run_entry = run_entry_taken(3, 9);
    assert_int_equal(run_entry_ends_at(run_entry), INT64_MAX);
    run_entry_lock(run_entry, 500);
    assert_int_equal(run_entry_ends_at(run_entry), 500);
    run_entry_kill_by(run_table, run_entry, at(700));
    assert_int_equal(run_entry_ends_at(run_entry), 500);
    run_entry_kill_by(run_table, run_entry, at(300));
    assert_int_equal(run_entry_ends_at(run_entry), 300);
    run_entry_kill_by(run_table, run_entry, at(400));
    assert_int_equal(run_entry_ends_at(run_entry), 300);
    atomic_store(&run_entry->is_locked, false);
    atomic_store(&run_entry->validity.until, 0);
    assert_int_equal(run_entry_ends_at(run_entry), 300);
}

TEST(a_run_is_over_at_its_end_and_not_before)
{
    struct run_entry *run_entry = run_entry_taken(3, 9);
    run_entry_lock(run_entry, 500);
    struct run_table_verdict verdict = run_table_look(run_table, 0, at(499));
    assert_int_equal(verdict.child, 0);
    assert_int_equal(verdict.next.ns, 500);
    verdict = run_table_look(run_table, 0, at(500));
    assert_int_equal(verdict.child, 9);
    assert_int_equal(verdict.run_entry, 3);
    assert_int_equal(verdict.run, atomic_load(&run_entry->run));
}

TEST(a_lost_lock_ends_a_run_at_once)
{
    run_entry_lock(run_entry_taken(0, 4), 0);
    assert_int_equal(run_table_look(run_table, 0, at(1)).child, 4);
}

TEST(who_is_over_is_no_reason_to_look_again)
{
    run_entry_lock(run_entry_taken(0, 4), 100);
    run_entry_lock(run_entry_taken(2, 5), 900);
    assert_int_equal(run_table_look(run_table, 0, at(200)).child, 4);
    struct run_table_verdict verdict = run_table_look(run_table, 1, at(200));
    assert_int_equal(verdict.child, 0);
    assert_int_equal(verdict.next.ns, 900);
}

/* What the rule means, said as plainly as possible; every look at one run table goes through all of its run entries. */
static void schedule_play(unsigned *random)
{
    int64_t now = rand_r(random) % 20, next = INT64_MAX;
    bool is_over[RUN_ENTRYS];
    for (unsigned i = 0; i < RUN_ENTRYS; i++) {
        struct run_entry *run_entry = run_table_entry(run_table, i);
        int64_t kill_at = rand_r(random) % 4 == 0 ? INT64_MAX : rand_r(random) % 20, until = rand_r(random) % 20;
        uint64_t occupant = rand_r(random) % 3 == 0 ? 0 : 100 + i;
        bool is_locked = rand_r(random) % 2;
        run_entry_clear(run_entry);
        run_entry_open(run_entry, "jid", "Class");
        atomic_store(&run_entry->occupant, occupant);
        atomic_store(&run_entry->is_locked, is_locked);
        atomic_store(&run_entry->validity.until, until);
        run_entry_kill_by(run_table, run_entry, at(kill_at));
        int64_t ends = is_locked && until < kill_at ? until : kill_at;
        is_over[i] = occupant != 0 && ends <= now;
        if (occupant != 0 && ends > now && ends < next)
            next = ends;
    }
    unsigned from = 0;
    for (unsigned i = 0; i < RUN_ENTRYS; i++) {
        if (!is_over[i])
            continue;
        struct run_table_verdict verdict = run_table_look(run_table, from, at(now));
        assert_int_equal(verdict.child, 100 + i);
        assert_int_equal(verdict.run_entry, i);
        from = i + 1;
    }
    struct run_table_verdict last = run_table_look(run_table, from, at(now));
    assert_int_equal(last.child, 0);
    assert_int_equal(last.next.ns, next);
}

TEST(many_schedules_are_judged_alike)
{
    unsigned random = 1;
    for (int i = 0; i < SCHEDULES; i++)
        schedule_play(&random);
}

/* --- ringing ------------------------------------------------------------------------------------------------------ */

TEST(only_what_comes_before_the_alarm_is_rung_for)
{
    struct run_entry *run_entry = run_entry_taken(1, 9);
    atomic_store(&run_table->wakes_at, 1000);
    assert_false(run_entry_kill_by(run_table, run_entry, at(2000)));
    assert_false(run_entry_kill_by(run_table, run_entry, at(1000)));
    assert_true(run_entry_kill_by(run_table, run_entry, at(999)));
    run_entry_lock(run_entry, 500);
    assert_true(run_table_must_ring(run_table, run_entry));
    run_entry_close(run_entry);
    assert_false(run_table_must_ring(run_table, run_entry)); /* nobody is there to be killed */
}

/* The zygote looks, stores when it wakes up, and looks again; a deadline may be written before or after each of these
 * steps. Whenever that is, it is seen in the last look, or rung for. */
TEST(a_deadline_is_never_missed_by_both_sides)
{
    for (int place = 0; place < 4; place++) {
        struct run_entry *run_entry = run_table_entry(run_table, 0);
        run_entry_clear(run_entry);
        run_entry_open(run_entry, "jid", "Class");
        atomic_store(&run_entry->occupant, 1);
        atomic_store(&run_table->wakes_at, 0);
        struct instant next = INSTANT_NEVER;
        bool is_rung = false;
        for (int step = 0; step < 4; step++) {
            if (step == place)
                is_rung = run_entry_kill_by(run_table, run_entry, at(300));
            if (step == 0 || step == 2)
                next = run_table_look(run_table, 0, at(10)).next;
            else if (step == 1)
                atomic_store(&run_table->wakes_at, next.ns);
        }
        assert_true(is_rung || next.ns == 300);
        assert_int_equal(is_rung, place >= 2);
    }
}

TEST(a_run_table_has_room_for_all_its_run_entries)
{
    enum { MANY = 2000 };
    struct run_table *wide = run_table_create(MANY);
    assert_non_null(wide);
    for (unsigned i = 0; i < MANY; i++)
        run_entry_open(run_table_entry(wide, i), "jid", "Class");
    run_table_destroy(wide);
}

RUN_TESTS_BETWEEN(set_up, tear_down)
