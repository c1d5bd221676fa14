/* What is noted of a crash when the process goes on living: a handler that was there before caught the signal. */
#include "tests/support/test.h"

#include "worker/task/crash_note.h"

static struct run_table *run_table;
static volatile sig_atomic_t caught;

static void survive(int number)
{
    (void)number;
    caught++;
}

static void set_up(void)
{
    run_table = run_table_create(4);
    assert_non_null(run_table);
    caught = 0;
    assert_true(signal(SIGABRT, survive) != SIG_ERR);
    crash_notes_begin(run_table);
}

static void tear_down(void)
{
    crash_notes_end();
    run_table_destroy(run_table);
}

TEST(who_survives_its_signal_is_no_culprit)
{
    crash_note_run_begin(2);
    assert_int_equal(raise(SIGABRT), 0);
    assert_int_equal(caught, 1);
    assert_ptr_equal(run_table_suspect(run_table), &run_table->run_entries[2]);
    assert_int_equal(atomic_load(&run_table->crash_signal), SIGABRT);
    crash_note_run_end();
    assert_null(run_table_suspect(run_table));
    assert_int_equal(atomic_load(&run_table->crash_signal), 0);
}

TEST(the_end_of_another_run_takes_nothing_back)
{
    atomic_store(&run_table->crashed, 3);
    atomic_store(&run_table->crash_signal, SIGSEGV);
    crash_note_run_begin(1);
    crash_note_run_end();
    assert_ptr_equal(run_table_suspect(run_table), &run_table->run_entries[2]);
    assert_int_equal(atomic_load(&run_table->crash_signal), SIGSEGV);
    atomic_store(&run_table->crashed, 0);
    crash_note_run_begin(1);
    crash_note_run_end();
    assert_int_equal(atomic_load(&run_table->crash_signal), SIGSEGV);
}

RUN_TESTS_BETWEEN(set_up, tear_down)
