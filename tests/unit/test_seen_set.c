/* Names that were seen before. */
#include "tests/support/test.h"

#include "worker/dry_run/load/seen_set.h"

TEST(a_name_is_new_once)
{
    struct seen_set set = {0};
    assert_true(seen_set_add(&set, "one", 3));
    assert_true(seen_set_add(&set, "two", 3));
    assert_false(seen_set_add(&set, "one", 3));
    assert_false(seen_set_add(&set, "two", 3));
    assert_true(seen_set_add(&set, "", 0));
    assert_false(seen_set_add(&set, "", 0));
    assert_int_equal(set.count, 3);
    seen_set_fini(&set);
    assert_int_equal(set.count, 0);
    assert_true(seen_set_add(&set, "one", 3));
    seen_set_fini(&set);
}

/* It grows a dozen times meanwhile. */
TEST(none_of_many_is_forgotten_or_invented)
{
    enum { NAMES = 1000000 };
    struct seen_set set = {0};
    char name[32];
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < NAMES; i++) {
            snprintf(name, sizeof name, "%024x", (unsigned)i);
            if (seen_set_add(&set, name, strlen(name)) != (round == 0))
                fail_msg("%s is %s", name, round == 0 ? "known before it was added" : "not known");
        }
    assert_int_equal(set.count, NAMES);
    assert_true(set.capacity >= 2 * set.count && set.capacity <= 4 * set.count);
    seen_set_fini(&set);
}

RUN_TESTS
