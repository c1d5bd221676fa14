/* The texts that commands about locks read: owners in the values of locks, and records of tasks that wait. */
#include "tests/support/test.h"

#include "base/memory.h"
#include "worker/commands/lock_view.h"
#include "worker/commands/waiting_lists.h"

/* --- owners ------------------------------------------------------------------------------------------------------- */

static struct lock_owner owner;

static bool reads(const char *text)
{
    return lock_owner_read(&owner, text, strlen(text));
}

TEST(an_owner_is_host_pid_slot_and_jid)
{
    assert_true(reads("web1.example:4711:12:0123456789abcdef01234567"));
    assert_string_equal(owner.host, "web1.example");
    assert_int_equal(owner.pid, 4711);
    assert_int_equal(owner.slot, 12);
    assert_string_equal(owner.jid, "0123456789abcdef01234567");
    assert_false(owner.is_cut);
}

TEST(hosts_and_jids_may_have_colons)
{
    assert_true(reads("fe80::1:a:4711:0:job:1:2"));
    assert_string_equal(owner.host, "fe80::1:a");
    assert_int_equal(owner.pid, 4711);
    assert_string_equal(owner.jid, "job:1:2");
}

TEST(a_jid_of_forty_bytes_may_be_longer)
{
    assert_true(reads("h:1:0:0123456789012345678901234567890123456789"));
    assert_true(owner.is_cut);
    assert_true(reads("h:1:0:012345678901234567890123456789012345678"));
    assert_false(owner.is_cut);
}

TEST(other_texts_are_no_owners)
{
    static const char *const others[] = {
        "",        "h",        "h:1",      "h:1:0",     "h:1:0:",         ":1:0:j",
        "h:x:0:j", "h:1:-1:j", "h:1:0:\n", "h:1:0:j\t", "h:1:0:\xc3\xa4", "h:99999999999:0:j"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (reads(others[i]))
            fail_msg("'%s' was read", others[i]);
    char long_host[LOCK_OWNER_HOST_MAX + 10], long_jid[6 + ENVELOPE_JID_BYTES_MAX + 2] = "h:1:0:";
    memset(long_host, 'h', sizeof long_host);
    memcpy(long_host + LOCK_OWNER_HOST_MAX, ":1:0:j", sizeof ":1:0:j");
    assert_true(reads(long_host));
    memcpy(long_host + LOCK_OWNER_HOST_MAX, "h:1:0:j", sizeof "h:1:0:j");
    assert_false(reads(long_host));
    memset(long_jid + 6, 'j', ENVELOPE_JID_BYTES_MAX + 1);
    assert_false(reads(long_jid));
    assert_false(lock_owner_read(&owner, "h:1:0:j\0k", 9));
}

TEST(a_process_is_known_by_host_and_pid)
{
    assert_true(reads("a:b:4711:0:j"));
    assert_true(lock_owner_is_of(&owner, "a:b:4711:0123456789ab"));
    assert_false(lock_owner_is_of(&owner, "a:b:47:0123456789ab"));
    assert_false(lock_owner_is_of(&owner, "a:b:47110:0123456789ab"));
    assert_false(lock_owner_is_of(&owner, "a:c:4711:0123456789ab"));
    assert_false(lock_owner_is_of(&owner, "b:4711:0123456789ab"));
    assert_false(lock_owner_is_of(&owner, "4711:0123456789ab"));
    assert_false(lock_owner_is_of(&owner, "a:b:x:0123456789ab"));
    assert_false(lock_owner_is_of(&owner, "nothing"));
    assert_false(lock_owner_is_of(&owner, ""));
}

TEST(the_host_of_a_process_may_be_longer)
{
    char text[LOCK_OWNER_HOST_MAX + 10], identity[LOCK_OWNER_HOST_MAX + 30];
    memset(text, 'h', sizeof text);
    memset(identity, 'h', sizeof identity);
    memcpy(text + LOCK_OWNER_HOST_MAX, ":1:0:j", sizeof ":1:0:j");
    memcpy(identity + LOCK_OWNER_HOST_MAX + 5, ":1:nonce", sizeof ":1:nonce");
    assert_true(reads(text));
    assert_true(lock_owner_is_of(&owner, identity));
    memcpy(identity + LOCK_OWNER_HOST_MAX - 1, ":1:nonce", sizeof ":1:nonce");
    assert_false(lock_owner_is_of(&owner, identity));
}

/* --- waiters ------------------------------------------------------------------------------------------------------ */

static struct lock_waiter waiter;

static enum lock_waiter_state waiter_state(const char *text, size_t length)
{
    free(waiter.queue);
    free(waiter.class_name);
    waiter = (struct lock_waiter){.queue = memory_text(""), .class_name = memory_text("")};
    lock_waiter_read(&waiter, text, length);
    return waiter.state;
}

static int forget(void **state)
{
    (void)state;
    free(waiter.queue);
    free(waiter.class_name);
    waiter = (struct lock_waiter){.jid = NULL};
    return 0;
}

#define DIGEST       "0123456789abcdef0123456789abcdef01234567"
#define WAITER(TEXT) waiter_state(TEXT, sizeof(TEXT) - 1)

TEST_WITH(a_waiter_has_five_lines, NULL, forget)
{
    assert_int_equal(WAITER("1795308920.026067\n" DIGEST "\njobs\nset\nclass\nof two"), LOCK_WAITER_PARKED);
    assert_string_equal(waiter.due_text, "1795308920.026067");
    assert_int_equal(waiter.due.us, 1795308920026067);
    assert_string_equal(waiter.queue, "jobs");
    assert_string_equal(waiter.class_name, "class\nof two");
}

TEST_WITH(without_a_digest_it_is_on_its_way, NULL, forget)
{
    assert_int_equal(WAITER("1795308920.026067\n\njobs\n\n"), LOCK_WAITER_ON_WAY);
    assert_string_equal(waiter.class_name, "");
}

static enum lock_waiter_state gone_at(int64_t us)
{
    lock_waiter_gone(&waiter, (struct wall_time){us});
    return waiter.state;
}

TEST_WITH(what_nobody_noted_as_moved_is_on_its_way_for_ten_seconds, NULL, forget)
{
    assert_int_equal(WAITER("1000.000000\n" DIGEST "\njobs\nset\nclass"), LOCK_WAITER_PARKED);
    assert_int_equal(gone_at(999999999), LOCK_WAITER_VANISHED); /* before its time */
    assert_int_equal(gone_at(1000000000), LOCK_WAITER_ON_WAY);
    assert_int_equal(gone_at(1009999999), LOCK_WAITER_ON_WAY);
    assert_int_equal(gone_at(1010000000), LOCK_WAITER_VANISHED);
}

TEST_WITH(what_is_no_place_is_unknown, NULL, forget)
{
    assert_int_equal(WAITER(""), LOCK_WAITER_UNKNOWN);
    assert_int_equal(WAITER("1.0\n\njobs\nset"), LOCK_WAITER_UNKNOWN);
    assert_int_equal(WAITER("\n\njobs\nset\nclass"), LOCK_WAITER_UNKNOWN);
    assert_int_equal(WAITER("-inf\n\njobs\nset\nclass"), LOCK_WAITER_UNKNOWN);
    assert_int_equal(WAITER("(1.0\n\njobs\nset\nclass"), LOCK_WAITER_UNKNOWN);
    assert_int_equal(WAITER("1795308920.0260670000000000000000\n\njobs\nset\nclass"), LOCK_WAITER_UNKNOWN);
    assert_int_equal(WAITER("1.0\nno digest\njobs\nset\nclass"), LOCK_WAITER_UNKNOWN);
    assert_int_equal(WAITER("1.0\n" DIGEST DIGEST "\njobs\nset\nclass"), LOCK_WAITER_UNKNOWN);
    assert_string_equal(waiter.queue, "");
}

RUN_TESTS
