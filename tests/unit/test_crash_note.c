/* What is noted of a crash when the process goes on living: a handler that was there before caught the signal. */
#include "tests/support/test.h"

#include "worker/task/crash_note.h"

static struct board *board;
static volatile sig_atomic_t caught;

static void survive(int number)
{
    (void)number;
    caught++;
}

static void set_up(void)
{
    board = board_create(4);
    assert_non_null(board);
    caught = 0;
    assert_true(signal(SIGABRT, survive) != SIG_ERR);
    crash_notes_begin(board);
}

static void tear_down(void)
{
    crash_notes_end();
    board_destroy(board);
}

TEST(who_survives_its_signal_is_no_culprit)
{
    crash_note_run_begin(2);
    assert_int_equal(raise(SIGABRT), 0);
    assert_int_equal(caught, 1);
    assert_ptr_equal(board_culprit(board), &board->berths[2]);
    assert_int_equal(atomic_load(&board->crash_signal), SIGABRT);
    crash_note_run_end();
    assert_null(board_culprit(board));
    assert_int_equal(atomic_load(&board->crash_signal), 0);
}

TEST(the_end_of_another_run_takes_nothing_back)
{
    atomic_store(&board->crashed, 3);
    atomic_store(&board->crash_signal, SIGSEGV);
    crash_note_run_begin(1);
    crash_note_run_end();
    assert_ptr_equal(board_culprit(board), &board->berths[2]);
    assert_int_equal(atomic_load(&board->crash_signal), SIGSEGV);
    atomic_store(&board->crashed, 0);
    crash_note_run_begin(1);
    crash_note_run_end();
    assert_int_equal(atomic_load(&board->crash_signal), SIGSEGV);
}

RUN_TESTS_BETWEEN(set_up, tear_down)
