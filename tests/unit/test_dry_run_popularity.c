/* Which resource how often: shares, draws that follow them, and several different ones for one task. */
#include "tests/support/test.h"

#include <math.h>

#include "base/memory.h"
#include "tests/support/popularity_share.h"
#include "worker/dry_run/plan/popularity.h"

static void assert_near(double found, double wanted, double within)
{
    if (!(fabs(found - wanted) <= within))
        fail_msg("%.9g is not near %.9g", found, wanted);
}

static double sum_of_shares(const struct popularity *popularity)
{
    double sum = 0;
    for (unsigned i = 0; i < popularity->count; i++)
        sum += popularity_share(popularity, i);
    return sum;
}

/* Uniform numbers in even steps find every resource as often as its share says. */
static void assert_drawn_as_shared(const struct popularity *popularity)
{
    enum { STEPS = 1000000 };
    unsigned *found = memory_zeroed(popularity->count, sizeof *found);
    for (int i = 0; i < STEPS; i++)
        found[popularity_at(popularity, (i + 0.5) / STEPS, NULL, 0)]++;
    for (unsigned i = 0; i < popularity->count; i++)
        assert_near(found[i], popularity_share(popularity, i) * STEPS, 2);
    free(found);
}

static struct popularity popularity;

static void tear_down(void)
{
    popularity_fini(&popularity);
    popularity = (struct popularity){0};
}

static void prepare(struct popularity from)
{
    popularity_fini(&popularity);
    popularity = from;
    popularity_prepare(&popularity);
}

TEST(uniform_shares_are_equal)
{
    prepare((struct popularity){.kind = POPULARITY_UNIFORM, .count = 7});
    assert_near(popularity_share(&popularity, 6), 1.0 / 7, 1e-12);
    assert_drawn_as_shared(&popularity);
}

TEST(zipf_shares_fall_by_the_rank)
{
    prepare((struct popularity){POPULARITY_ZIPF, .count = 100, .exponent = 1.1});
    assert_near(sum_of_shares(&popularity), 1, 1e-12);
    for (unsigned i = 1; i < 100; i++)
        assert_near(popularity_share(&popularity, 0) / popularity_share(&popularity, i), pow(i + 1, 1.1), 1e-9);
    assert_drawn_as_shared(&popularity);
    prepare((struct popularity){POPULARITY_ZIPF, .count = 5, .exponent = 0});
    assert_near(popularity_share(&popularity, 4), 0.2, 1e-12);
}

TEST(a_hot_set_gets_its_share)
{
    prepare((struct popularity){POPULARITY_HOT, .count = 100, .hot = 10, .hot_share = 0.9});
    assert_near(popularity_share(&popularity, 0), 0.09, 1e-12);
    assert_near(popularity_share(&popularity, 9), 0.09, 1e-12);
    assert_near(popularity_share(&popularity, 10), 0.1 / 90, 1e-12);
    assert_near(sum_of_shares(&popularity), 1, 1e-12);
    assert_drawn_as_shared(&popularity);
    prepare((struct popularity){POPULARITY_HOT, .count = 4, .hot = 2, .hot_share = 1});
    for (int i = 0; i < 1000; i++)
        assert_true(popularity_at(&popularity, i / 1000.0, NULL, 0) < 2);
    prepare((struct popularity){POPULARITY_HOT, .count = 4, .hot = 9, .hot_share = 0.5});
    assert_near(popularity_share(&popularity, 3), 0.25, 1e-12);
}

TEST(weights_are_put_into_order_with_their_names)
{
    struct popular resources[] = {{"small", 1}, {"large", 7}, {"b", 1}, {"middle", 3}};
    popularity_weigh(&popularity, resources, 4);
    popularity_prepare(&popularity);
    static const char *const names[] = {"large", "middle", "b", "small"};
    static const double shares[] = {7.0 / 12, 3.0 / 12, 1.0 / 12, 1.0 / 12};
    for (unsigned i = 0; i < 4; i++) {
        assert_string_equal(popularity_name(&popularity, i, (char[POPULARITY_NAME_MAX]){0}), names[i]);
        assert_near(popularity_share(&popularity, i), shares[i], 1e-12);
    }
    assert_drawn_as_shared(&popularity);
    /* Again: what it had is freed. */
    struct popular other = {"only", 0.5};
    popularity_weigh(&popularity, &other, 1);
    popularity_prepare(&popularity);
    assert_int_equal(popularity_at(&popularity, 0.999, NULL, 0), 0);
}

TEST(resources_without_names_are_numbered)
{
    prepare((struct popularity){POPULARITY_UNIFORM, .count = 1000000});
    char name[POPULARITY_NAME_MAX];
    assert_string_equal(popularity_name(&popularity, 0, name), "r0");
    assert_string_equal(popularity_name(&popularity, 999999, name), "r999999");
}

/* A stretch has its beginning and not its end. */
TEST(the_ends_of_stretches_are_those_of_the_next)
{
    prepare((struct popularity){POPULARITY_UNIFORM, .count = 4});
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(popularity_at(&popularity, i * 0.25, NULL, 0), i);
}

TEST(the_ends_of_the_numbers_are_in_range)
{
    static const double exponents[] = {0.1, 1, 3, 20};
    for (size_t i = 0; i < sizeof exponents / sizeof exponents[0]; i++) {
        prepare((struct popularity){POPULARITY_ZIPF, .count = 1000, .exponent = exponents[i]});
        assert_int_equal(popularity_at(&popularity, 0, NULL, 0), 0);
        assert_true(popularity_at(&popularity, 1 - 0x1p-53, NULL, 0) < 1000);
    }
}

TEST(a_million_resources_are_no_trouble)
{
    prepare((struct popularity){POPULARITY_ZIPF, .count = 1000000, .exponent = 1.1});
    assert_near(sum_of_shares(&popularity), 1, 1e-9);
    unsigned before = 0;
    for (int i = 0; i < 100000; i++) {
        unsigned at = popularity_at(&popularity, i / 100000.0, NULL, 0);
        assert_true(at >= before && at < 1000000);
        before = at;
    }
    assert_true(before > 900000);
}

/* --- several for one task ----------------------------------------------------------------------------------------- */

/* Of three with the weights 4, 2, 1: the chance of the pair is that of both orders, where the second is drawn from what
 * the first has left. */
TEST(a_second_resource_is_drawn_from_what_is_left)
{
    struct popular resources[] = {{"a", 4}, {"b", 2}, {"c", 1}};
    popularity_weigh(&popularity, resources, 3);
    popularity_prepare(&popularity);
    static const double after[3][3] = {{0, 2.0 / 3, 1.0 / 3}, {0.8, 0, 0.2}, {2.0 / 3, 1.0 / 3, 0}};
    for (unsigned first = 0; first < 3; first++) {
        unsigned found[3] = {0};
        for (int i = 0; i < 30000; i++)
            found[popularity_at(&popularity, (i + 0.5) / 30000, &first, 1)]++;
        for (unsigned second = 0; second < 3; second++)
            assert_near(found[second] / 30000.0, after[first][second], 1e-3);
    }
}

TEST(all_can_be_taken_one_after_the_other)
{
    static const struct popularity kinds[] = {{POPULARITY_UNIFORM, .count = 16},
                                              {POPULARITY_ZIPF, .count = 16, .exponent = 40},
                                              {POPULARITY_HOT, .count = 16, .hot = 3, .hot_share = 1},
                                              {POPULARITY_HOT, .count = 16, .hot = 3, .hot_share = 0.999999999}};
    for (size_t kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++) {
        prepare(kinds[kind]);
        for (int trial = 0; trial < 200; trial++) {
            bool is_taken[16] = {false};
            unsigned taken[16];
            for (unsigned count = 0; count < 16; count++) {
                double uniform = trial == 0 ? 0 : trial == 1 ? 1 - 0x1p-53 : fmod(trial * 0.618 + count * 0.377, 1);
                unsigned resource = popularity_at(&popularity, uniform, taken, count);
                assert_true(resource < 16 && !is_taken[resource]);
                is_taken[resource] = true;
                unsigned length = 0;
                for (unsigned i = 0; i < 16; i++)
                    if (is_taken[i])
                        taken[length++] = i;
            }
        }
    }
}

TEST(a_copy_stands_alone)
{
    struct popular resources[] = {{"a", 4}, {"b", 2}};
    struct popularity copy;
    popularity_weigh(&popularity, resources, 2);
    popularity_prepare(&popularity);
    popularity_copy(&copy, &popularity);
    popularity_fini(&popularity);
    assert_string_equal(popularity_name(&copy, 1, NULL), "b");
    assert_near(popularity_share(&copy, 0), 2.0 / 3, 1e-12);
    assert_int_equal(popularity_at(&copy, 0.9, NULL, 0), 1);
    popularity_fini(&copy);
}

RUN_TESTS_BETWEEN(NULL, tear_down)
