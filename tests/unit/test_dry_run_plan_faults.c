/* Faults and the points of a what-if as texts: every form, and that what is none is refused with a reason. */
#include "tests/unit/plan_options_fixture.h"

static void assert_fault(const char *text, struct dry_run_fault wanted)
{
    take("fault", text);
    const struct dry_run_fault *fault = &plan.faults[plan.fault_count - 1];
    assert_int_equal(fault->kind, wanted.kind);
    assert_int_equal(fault->at_ns, wanted.at_ns);
    assert_int_equal(fault->lasts_ns, wanted.lasts_ns);
    assert_int_equal(fault->amount_ns, wanted.amount_ns);
    assert_int_equal(fault->at_worker, wanted.at_worker);
    assert_int_equal(fault->number, wanted.number);
}

TEST(forms_of_faults)
{
    const int64_t s = NS_PER_S, ms = NS_PER_MS;
    assert_fault("5s:stop:lock2:3s", (struct dry_run_fault){DRY_RUN_FAULT_STOP, 5 * s, 3 * s, 0, false, 2});
    assert_fault("5s:kill:lock2:3s", (struct dry_run_fault){DRY_RUN_FAULT_KILL, 5 * s, 3 * s, 0, false, 2});
    assert_fault("6s:wipe:lock1", (struct dry_run_fault){DRY_RUN_FAULT_WIPE, 6 * s, 0, 0, false, 1});
    assert_fault("5s:slow:lock3:20ms:4s", (struct dry_run_fault){DRY_RUN_FAULT_SLOW, 5 * s, 4 * s, 20 * ms, false, 3});
    assert_fault("5s:clock:lock2:+5s", (struct dry_run_fault){DRY_RUN_FAULT_CLOCK, 5 * s, 0, 5 * s, false, 2});
    assert_fault("0:clock:lock2:-1.5s", (struct dry_run_fault){DRY_RUN_FAULT_CLOCK, 0, 0, -1500 * ms, false, 2});
    assert_fault("5s:freeze:worker1:4s", (struct dry_run_fault){DRY_RUN_FAULT_FREEZE, 5 * s, 4 * s, 0, true, 1});
    assert_fault("5s:kill:worker2", (struct dry_run_fault){DRY_RUN_FAULT_KILL, 5 * s, 0, 0, true, 2});
    assert_fault("100ms:stop:queue:1s", (struct dry_run_fault){DRY_RUN_FAULT_STOP, 100 * ms, s, 0, false, 0});
    assert_fault("100ms:slow:queue:1ms:1s", (struct dry_run_fault){DRY_RUN_FAULT_SLOW, 100 * ms, s, ms, false, 0});
    assert_int_equal(plan.fault_count, 10);
}

TEST(hostile_faults_are_refused)
{
    static const struct {
        const char *text, *reason;
    } hostile[] = {
        {"", "write WHEN:WHAT:WHOM and how"},
        {"5s", "write WHEN:WHAT:WHOM and how"},
        {"5s:stop", "write WHEN:WHAT:WHOM and how"},
        {"::::::", "write WHEN:WHAT:WHOM and how"},
        {"5s:slow:lock1:1ms:1s:1s", "write WHEN:WHAT:WHOM and how"},
        {"::", "is not when it is done"},
        {"5:stop:lock1:3s", "\"5\" is not when it is done"},
        {"-5s:stop:lock1:3s", "is not when it is done"},
        {"48h:stop:lock1:3s", "is not when it is done"},
        {"5s:stop:lock:3s", "\"lock\" is nobody"},
        {"5s:stop:lock0:3s", "\"lock0\" is nobody"},
        {"5s:stop:lock999:3s", "\"lock999\" is nobody"},
        {"5s:stop:node1:3s", "\"node1\" is nobody"},
        {"5s:stop:queue1:3s", "\"queue1\" is nobody"},
        {"5s:freeze:worker:3s", "\"worker\" is nobody"},
        {"5s:stop::3s", "is nobody"},
        {"5s:break:lock1:3s", "\"break\" is not a fault: stop, kill, wipe, slow, clock and freeze are"},
        {"5s:\33[2J:lock1:3s", "is not a fault"},
        {"5s:stop:worker1:3s", "that cannot be done to a worker"},
        {"5s:wipe:worker1", "that cannot be done to a worker"},
        {"5s:freeze:lock1:3s", "that cannot be done to a node"},
        {"5s:kill:queue:3s", "the queue node has the tasks of the run"},
        {"5s:wipe:queue", "the queue node has the tasks of the run"},
        {"5s:stop:lock1", "how long follows"},
        {"5s:stop:lock1:0", "is not how long it lasts"},
        {"5s:stop:lock1:", "is not how long it lasts"},
        {"5s:stop:lock1:3s:3s", "how long follows"},
        {"5s:wipe:lock1:3s", "nothing follows"},
        {"5s:kill:worker1:3s", "nothing follows"},
        {"5s:kill:lock1", "how long follows"},
        {"5s:slow:lock1:20ms", "how much slower and how long follow"},
        {"5s:slow:lock1:0:4s", "is not how much slower it is"},
        {"5s:clock:lock1:5s", "is not a step of a clock: write +5s or -5s"},
        {"5s:clock:lock1:+", "is not a step of a clock"},
        {"5s:clock:lock1:+-5s", "is not a step of a clock"},
        {"5s:clock:lock1:+0", "is not a step of a clock"},
        {"5s:stop:lock1111111111111111111111111111111111111111111111:3s", "write WHEN:WHAT:WHOM and how"},
    };
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++)
        assert_refused("fault", hostile[i].text, hostile[i].reason);
    assert_int_equal(plan.fault_count, 0);
}

TEST(there_are_only_so_many_faults)
{
    for (int i = 0; i < DRY_RUN_FAULTS_MAX; i++)
        take("fault", "5s:wipe:lock1");
    assert_refused("fault", "5s:wipe:lock1", "there are 64 faults already");
}

TEST(points_of_a_what_if)
{
    take("what-if", "threads=8,16,1024");
    assert_int_equal(plan.point_count, 3);
    assert_int_equal(plan.points[0], 8);
    assert_int_equal(plan.points[2], 1024);
    take("what-if", "threads=4");
    assert_int_equal(plan.point_count, 1);
    static const char *const hostile[] = {"",
                                          "threads",
                                          "threads=",
                                          "threads=,",
                                          "threads=8,",
                                          "threads=,8",
                                          "8,16",
                                          "processes=8",
                                          "threads=8 16",
                                          "threads=0",
                                          "threads=1025",
                                          "threads=8;16",
                                          "threads=8,8",
                                          "threads=-1",
                                          "threads=8,,9",
                                          "threads=99999999999999999999",
                                          "threads=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17"};
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++)
        assert_refused("what-if", hostile[i], "hreads");
}

RUN_TESTS_BETWEEN(set_up, tear_down)
