/* What the end of a program means for its task. */
#include "tests/support/test.h"

#include <errno.h>

#include "worker/isolation/program_status.h"

static struct failure failure;

static int verdict(const struct program_end *end)
{
    failure_clear(&failure);
    return program_verdict(end, &failure);
}

static int exited(int status)
{
    return status << 8;
}

TEST(each_status_has_its_meaning)
{
    static const int meanings[256] = {
        [0] = HF_OK + 1,    [64] = HF_BURY + 1,   [65] = HF_BURY + 1,   [77] = HF_BURY + 1,
        [78] = HF_BURY + 1, [98] = HF_SNOOZE + 1, [99] = HF_DISCARD + 1};
    for (int status = 0; status < 256; status++) {
        int wanted = meanings[status] > 0 ? meanings[status] - 1 : HF_FAIL;
        assert_int_equal(verdict(&(struct program_end){.wait_status = exited(status)}), wanted);
        const char *error_class = wanted == HF_OK || wanted == HF_SNOOZE ? ""
                                  : status == 126 || status == 127       ? "HF::NotStarted"
                                                                         : "HF::Failed";
        assert_string_equal(failure.error_class, error_class);
    }
}

TEST(the_last_line_is_in_the_message)
{
    static const char line[] = {'b', 'a', 'd', 'x'};
    verdict(&(struct program_end){.wait_status = exited(75), .last_line = line, .last_length = 3});
    assert_string_equal(failure.message, "it exited with status 75 (EX_TEMPFAIL): bad");
}

TEST(what_the_program_said_itself_counts)
{
    struct program_end end = {.wait_status = exited(1)};
    failure_clear(&failure);
    failure_set(&failure, "Net::Timeout", "no answer");
    assert_int_equal(program_verdict(&end, &failure), HF_FAIL);
    assert_string_equal(failure.error_class, "Net::Timeout");
    assert_string_equal(failure.message, "no answer");
    end.wait_status = exited(0);
    assert_int_equal(program_verdict(&end, &failure), HF_OK);
    assert_string_equal(failure.message, "");
}

TEST(signals_are_crashes)
{
    assert_int_equal(verdict(&(struct program_end){.wait_status = SIGSEGV}), HF_FAIL);
    assert_string_equal(failure.error_class, "HF::Crashed");
    assert_string_equal(failure.message, "it was killed by signal 11 (Segmentation fault)");
    assert_int_equal(verdict(&(struct program_end){.wait_status = SIGABRT, .memory_limit = 256 << 20}), HF_FAIL);
    assert_string_equal(failure.message, "it was killed by signal 6 (Aborted); its memory_limit is 256MiB");
    verdict(&(struct program_end){.wait_status = SIGKILL});
    assert_string_equal(failure.message, "it was killed by signal 9 (Killed); the kernel does so when memory is short");
    assert_int_equal(verdict(&(struct program_end){.wait_status = SIGTERM}), HF_FAIL);
}

TEST(who_was_asked_to_stop_and_did_has_not_failed)
{
    static const enum hf_cancel_reason reasons[] = {HF_LOCK_LOST, HF_SHUTDOWN, HF_CLAIM_LOST, HF_USER,
                                                    HF_HELD_TOO_LONG};
    static const int ends[] = {SIGTERM, 1 << 8, 75 << 8, (128 + SIGTERM) << 8};
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        for (size_t j = 0; j < sizeof ends / sizeof ends[0]; j++) {
            struct program_end end = {.wait_status = ends[j], .asked = reasons[i]};
            assert_int_equal(verdict(&end), HF_CANCELLED);
            assert_string_equal(failure.message, "");
            end.asked = HF_NOT_CANCELLED;
            end.was_warned = true;
            assert_int_equal(verdict(&end), HF_SNOOZE);
        }
}

TEST(a_verdict_on_the_task_stands_whatever_was_asked)
{
    struct program_end end = {.wait_status = exited(0), .asked = HF_SHUTDOWN, .was_warned = true};
    assert_int_equal(verdict(&end), HF_OK);
    end.wait_status = exited(65);
    assert_int_equal(verdict(&end), HF_BURY);
    end.wait_status = exited(99);
    assert_int_equal(verdict(&end), HF_DISCARD);
    end.wait_status = SIGSEGV;
    assert_int_equal(verdict(&end), HF_FAIL);
    assert_string_equal(failure.error_class, "HF::Crashed");
}

TEST(who_was_killed_had_no_time_left)
{
    struct program_end end = {.wait_status = SIGKILL, .was_killed = true};
    assert_int_equal(verdict(&end), HF_FAIL);
    assert_string_equal(failure.error_class, "HF::TimedOut");
    end.asked = HF_TIMEOUT;
    assert_int_equal(verdict(&end), HF_FAIL);
    assert_string_equal(failure.error_class, "HF::TimedOut");
    end.asked = HF_LOCK_LOST;
    assert_int_equal(verdict(&end), HF_CANCELLED);
    end.asked = HF_SHUTDOWN;
    assert_int_equal(verdict(&end), HF_CANCELLED);
    assert_string_equal(failure.message, "");
}

/* The slot says so, in the same words for every kind of run. */
TEST(who_stops_at_its_timeout_leaves_the_reason_to_the_slot)
{
    struct program_end end = {.wait_status = SIGTERM, .asked = HF_TIMEOUT};
    assert_int_equal(verdict(&end), HF_FAIL);
    assert_string_equal(failure.message, "");
    end.wait_status = exited(1);
    assert_int_equal(verdict(&end), HF_FAIL);
    assert_string_equal(failure.error_class, "");
}

TEST(what_cannot_be_started_is_told_from_what_the_worker_lacks)
{
    char reason[256];
    assert_true(program_start_verdict("/x/y", ENOENT, reason, sizeof reason));
    assert_string_equal(reason,
                        "/x/y: cannot be started: there is no such file, or the interpreter that its first line "
                        "names is missing");
    assert_true(program_start_verdict("/x/y", EACCES, reason, sizeof reason));
    assert_true(program_start_verdict("/x/y", ELOOP, reason, sizeof reason));
    assert_string_equal(reason, "/x/y: cannot be started: Too many levels of symbolic links");
    assert_false(program_start_verdict("/x/y", EAGAIN, reason, sizeof reason));
    assert_false(program_start_verdict("/x/y", EMFILE, reason, sizeof reason));
    assert_false(program_start_verdict("/x/y", EPIPE, reason, sizeof reason));
}

RUN_TESTS
