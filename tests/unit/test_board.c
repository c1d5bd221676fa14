/* The board: what is on it, whom its rule kills and when, and who has to be rung. */
#include "tests/support/test.h"

#include "worker/task/board.h"

enum { BERTHS = 5, SCHEDULES = 20000 };

static struct board *board;

static void set_up(void)
{
    board = board_create(BERTHS);
    assert_non_null(board);
}

static void tear_down(void)
{
    board_destroy(board);
}

static struct instant at(int64_t ns)
{
    return (struct instant){ns};
}

static struct berth *berth_taken(unsigned number, uint64_t occupant)
{
    struct berth *berth = board_berth(board, number);
    berth_open(berth, "jid", "Class");
    atomic_store(&berth->occupant, occupant);
    return berth;
}

static void berth_lock(struct berth *berth, int64_t until)
{
    atomic_store(&berth->validity.until, until);
    atomic_store(&berth->is_locked, true);
}

/* --- berths ----------------------------------------------------------------------------------------------------- */

TEST(a_new_board_kills_nobody)
{
    struct board_verdict verdict = board_look(board, 0, at(INT64_MAX - 1));
    assert_int_equal(verdict.child, 0);
    assert_int_equal(verdict.next.ns, INT64_MAX);
    for (unsigned i = 0; i < BERTHS; i++) {
        assert_int_equal(berth_ends_at(board_berth(board, i)), INT64_MAX);
        assert_false(board_must_ring(board, board_berth(board, i)));
    }
}

TEST(each_run_has_a_number_of_its_own)
{
    struct berth *berth = board_berth(board, 1);
    berth_open(berth, "first", "A");
    uint64_t first = atomic_load(&berth->run);
    berth_close(berth);
    berth_open(berth, "second", "B");
    assert_true(first > 0 && atomic_load(&berth->run) == first + 1);
    assert_string_equal(berth->jid, "second");
    assert_true(atomic_load(&berth->is_running));
}

TEST(long_names_are_cut_between_characters)
{
    char name[400] = "";
    while (strlen(name) < 390)
        strncat(name, "x\xC3\xA4", 4);
    struct berth *berth = board_berth(board, 0);
    berth_open(berth, name, name);
    assert_int_equal(strlen(berth->jid), ENVELOPE_JID_BYTES_MAX - ENVELOPE_JID_BYTES_MAX % 3 + 1);
    assert_int_equal(strlen(berth->class_name), 127);
    assert_memory_equal(berth->class_name, name, 127);
    memset(name, 'y', 127);
    memcpy(name + 126, "\xC3\xA4", 3);
    berth_open(berth, name, name);
    assert_int_equal(strlen(berth->class_name), 126);
}

TEST(a_forked_child_sees_what_is_written)
{
    pid_t child = fork();
    if (child == 0) {
        berth_kill_by(board, board_berth(board, 4), at(77));
        _exit(0);
    }
    waitpid(child, NULL, 0);
    assert_int_equal(berth_ends_at(board_berth(board, 4)), 77);
}

TEST(a_closed_berth_has_no_occupant)
{
    struct berth *berth = berth_taken(2, 9);
    berth_kill_by(board, berth, at(100));
    berth_close(berth);
    assert_int_equal(board_look(board, 0, at(200)).child, 0);
    assert_false(atomic_load(&berth->is_running));
    berth_clear(berth);
    assert_int_equal(berth_ends_at(berth), INT64_MAX);
}

/* --- the rule --------------------------------------------------------------------------------------------------- */

TEST(the_earlier_of_both_ends_counts)
{
    struct berth *berth = berth_taken(3, 9);
    assert_int_equal(berth_ends_at(berth), INT64_MAX);
    berth_lock(berth, 500);
    assert_int_equal(berth_ends_at(berth), 500);
    berth_kill_by(board, berth, at(700));
    assert_int_equal(berth_ends_at(berth), 500);
    berth_kill_by(board, berth, at(300));
    assert_int_equal(berth_ends_at(berth), 300);
    berth_kill_by(board, berth, at(400));
    assert_int_equal(berth_ends_at(berth), 300);
    atomic_store(&berth->is_locked, false);
    atomic_store(&berth->validity.until, 0);
    assert_int_equal(berth_ends_at(berth), 300);
}

TEST(a_run_is_over_at_its_end_and_not_before)
{
    struct berth *berth = berth_taken(3, 9);
    berth_lock(berth, 500);
    struct board_verdict verdict = board_look(board, 0, at(499));
    assert_int_equal(verdict.child, 0);
    assert_int_equal(verdict.next.ns, 500);
    verdict = board_look(board, 0, at(500));
    assert_int_equal(verdict.child, 9);
    assert_int_equal(verdict.berth, 3);
    assert_int_equal(verdict.run, atomic_load(&berth->run));
}

TEST(a_lost_lock_ends_a_run_at_once)
{
    berth_lock(berth_taken(0, 4), 0);
    assert_int_equal(board_look(board, 0, at(1)).child, 4);
}

TEST(who_is_over_is_no_reason_to_look_again)
{
    berth_lock(berth_taken(0, 4), 100);
    berth_lock(berth_taken(2, 5), 900);
    assert_int_equal(board_look(board, 0, at(200)).child, 4);
    struct board_verdict verdict = board_look(board, 1, at(200));
    assert_int_equal(verdict.child, 0);
    assert_int_equal(verdict.next.ns, 900);
}

/* What the rule means, said as plainly as possible; every look at one board goes through all of its berths. */
static void schedule_play(unsigned *random)
{
    int64_t now = rand_r(random) % 20, next = INT64_MAX;
    bool is_over[BERTHS];
    for (unsigned i = 0; i < BERTHS; i++) {
        struct berth *berth = board_berth(board, i);
        int64_t kill_at = rand_r(random) % 4 == 0 ? INT64_MAX : rand_r(random) % 20, until = rand_r(random) % 20;
        uint64_t occupant = rand_r(random) % 3 == 0 ? 0 : 100 + i;
        bool is_locked = rand_r(random) % 2;
        berth_clear(berth);
        berth_open(berth, "jid", "Class");
        atomic_store(&berth->occupant, occupant);
        atomic_store(&berth->is_locked, is_locked);
        atomic_store(&berth->validity.until, until);
        berth_kill_by(board, berth, at(kill_at));
        int64_t ends = is_locked && until < kill_at ? until : kill_at;
        is_over[i] = occupant != 0 && ends <= now;
        if (occupant != 0 && ends > now && ends < next)
            next = ends;
    }
    unsigned from = 0;
    for (unsigned i = 0; i < BERTHS; i++) {
        if (!is_over[i])
            continue;
        struct board_verdict verdict = board_look(board, from, at(now));
        assert_int_equal(verdict.child, 100 + i);
        assert_int_equal(verdict.berth, i);
        from = i + 1;
    }
    struct board_verdict last = board_look(board, from, at(now));
    assert_int_equal(last.child, 0);
    assert_int_equal(last.next.ns, next);
}

TEST(many_schedules_are_judged_alike)
{
    unsigned random = 1;
    for (int i = 0; i < SCHEDULES; i++)
        schedule_play(&random);
}

/* --- ringing ---------------------------------------------------------------------------------------------------- */

TEST(only_what_comes_before_the_alarm_is_rung_for)
{
    struct berth *berth = berth_taken(1, 9);
    atomic_store(&board->wakes_at, 1000);
    assert_false(berth_kill_by(board, berth, at(2000)));
    assert_false(berth_kill_by(board, berth, at(1000)));
    assert_true(berth_kill_by(board, berth, at(999)));
    berth_lock(berth, 500);
    assert_true(board_must_ring(board, berth));
    berth_close(berth);
    assert_false(board_must_ring(board, berth)); /* nobody is there to be killed */
}

/* The zygote looks, stores when it wakes up, and looks again; a deadline may be written before or after each of these
 * steps. Whenever that is, it is seen in the last look, or rung for. */
TEST(a_deadline_is_never_missed_by_both_sides)
{
    for (int place = 0; place < 4; place++) {
        struct berth *berth = board_berth(board, 0);
        berth_clear(berth);
        berth_open(berth, "jid", "Class");
        atomic_store(&berth->occupant, 1);
        atomic_store(&board->wakes_at, 0);
        struct instant next = INSTANT_NEVER;
        bool is_rung = false;
        for (int step = 0; step < 4; step++) {
            if (step == place)
                is_rung = berth_kill_by(board, berth, at(300));
            if (step == 0 || step == 2)
                next = board_look(board, 0, at(10)).next;
            else if (step == 1)
                atomic_store(&board->wakes_at, next.ns);
        }
        assert_true(is_rung || next.ns == 300);
        assert_int_equal(is_rung, place >= 2);
    }
}

TEST(a_board_has_room_for_all_its_berths)
{
    enum { MANY = 2000 };
    struct board *wide = board_create(MANY);
    assert_non_null(wide);
    for (unsigned i = 0; i < MANY; i++)
        berth_open(board_berth(wide, i), "jid", "Class");
    board_destroy(wide);
}

RUN_TESTS_BETWEEN(set_up, tear_down)
