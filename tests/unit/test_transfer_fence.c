/* The transfer job under a lock with a token: right in every order, even when the lock keeps nobody out. */
#include "tests/unit/transfer_fixture.h"

#include "tests/support/crowd.h"

static const char *const a_and_b[] = {"account:a", "account:b"}, *const b_and_c[] = {"account:b", "account:c"};

static hf_job fenced(hf_job job, const char *const *resources, const char *token)
{
    job.resources = resources;
    job.resource_count = 2;
    job.token = token;
    return job;
}

TEST(the_fence_of_every_locked_resource_advances)
{
    hf_job job = fenced(order("1", "a", "b", 30), a_and_b, "1790000000000007");
    assert_int_equal(fake_plugin_run(bank->plugin, &job), HF_OK);
    assert_int_equal(balance("b"), 30);
    assert_int_equal(ask("SELECT count(*) FROM holdfast_fence WHERE token = 1790000000000007 AND"
                         " resource IN ('account:a', 'account:b')"),
                     2);
    job = fenced(order("1", "a", "b", 30), a_and_b, "1790000000000008"); /* it was recovered and runs again */
    assert_int_equal(fake_plugin_run(bank->plugin, &job), HF_OK);
    assert_int_equal(balance("b"), 30);
}

static void run_a_later_holder_in_between(hf_job *job)
{
    job->when_asked = NULL;
    hf_job later = fenced(order("second", "b", "c", 40), b_and_c, "10");
    assert_int_equal(fake_plugin_run(bank->plugin, &later), HF_OK);
}

/* What loses money without a fence: the same interleaving. */
TEST(a_holder_whose_time_is_over_is_fenced_off)
{
    hf_job first = fenced(order("first", "a", "b", 100), a_and_b, "9");
    first.when_asked = run_a_later_holder_in_between;
    assert_int_equal(fake_plugin_run(bank->plugin, &first), HF_FAIL);
    assert_string_equal(first.error_class, "HF::FencedOff");
    assert_contains(first.error, "account:b has a later holder");
    assert_int_equal(ask("SELECT count(*) FROM done WHERE jid = 'first'"), 0);
    first = fenced(order("first", "a", "b", 100), a_and_b, "11"); /* tried again */
    assert_int_equal(fake_plugin_run(bank->plugin, &first), HF_OK);
    assert_int_equal(balance("a"), -100);
    assert_int_equal(balance("b"), 60);
    assert_int_equal(balance("c"), 40);
}

static void read_only_as_a_later_holder(hf_job *job)
{
    job->when_asked = NULL;
    hf_job later = fenced(order("second", "b", "c", 40), b_and_c, "10");
    later.when_asked = cancel_at_once; /* it has read, and not written */
    assert_int_equal(fake_plugin_run(bank->plugin, &later), HF_CANCELLED);
}

TEST(it_is_fenced_off_before_the_later_holder_has_written_too)
{
    hf_job first = fenced(order("first", "a", "b", 100), a_and_b, "9");
    first.when_asked = read_only_as_a_later_holder;
    assert_int_equal(fake_plugin_run(bank->plugin, &first), HF_FAIL);
    assert_string_equal(first.error_class, "HF::FencedOff");
    assert_int_equal(ask("SELECT count(*) FROM accounts"), 0);
    first = fenced(order("first", "a", "b", 100), a_and_b, "8"); /* and does not even begin */
    assert_int_equal(fake_plugin_run(bank->plugin, &first), HF_FAIL);
    assert_int_equal(first.asked, 0);
}

TEST(a_token_that_is_none_is_a_failure)
{
    hf_job job = fenced(order("1", "a", "b", 30), a_and_b, "1.5");
    assert_int_equal(fake_plugin_run(bank->plugin, &job), HF_FAIL);
    assert_string_equal(job.error_class, "LedgerError");
    assert_contains(job.error, "1.5");
    assert_int_equal(ask("SELECT count(*) FROM accounts"), 0);
}

enum { CLERKS = 4, ORDERS = 25 };

/* Moves money from one account to the next, under tokens of a lock that keeps nobody out, until it is done. */
static void clerk(struct crowd *crowd, void *context, unsigned *seed)
{
    (void)context;
    static const char *const accounts[] = {"a", "b", "c", "a"};
    char reason[512] = "", jid[40], token[24];
    struct fake_plugin *plugin = fake_plugin_open("transfer", bank->settings, reason);
    if (plugin == NULL)
        _exit(1);
    for (int i = 0; i < ORDERS; i++) {
        unsigned from = (unsigned)i % 3;
        int code = HF_FAIL;
        snprintf(jid, sizeof jid, "%d-%d", (int)getpid(), i);
        while (code != HF_OK) {
            crowd_token(crowd, token);
            crowd_pause(seed); /* so that the larger token may be there first */
            hf_job job = fenced(order(jid, accounts[from], accounts[from + 1], 3), &accounts[from], token);
            code = fake_plugin_run(plugin, &job);
            if (code != HF_OK && strcmp(job.error_class, "HF::FencedOff") != 0)
                _exit(2);
            atomic_fetch_add(code == HF_OK ? &crowd->accepted : &crowd->refused, 1);
        }
    }
    fake_plugin_close(plugin);
}

TEST(with_a_fence_no_lock_has_to_keep_anybody_out)
{
    int64_t expected[3] = {0};
    struct crowd *crowd = crowd_run(CLERKS, clerk, NULL);
    assert_int_equal(crowd->failed, 0);
    assert_int_equal(crowd->accepted, CLERKS * ORDERS);
    for (int i = 0; i < ORDERS; i++) {
        expected[i % 3] -= 3 * CLERKS;
        expected[(i + 1) % 3] += 3 * CLERKS;
    }
    assert_int_equal(balance("a"), expected[0]);
    assert_int_equal(balance("b"), expected[1]);
    assert_int_equal(balance("c"), expected[2]);
    crowd_destroy(crowd);
}

RUN_TESTS_BETWEEN(enter, leave)
