/* Where a configuration is looked for, and in which order. */
#include "tests/support/test.h"

#include "worker/commands/origin.h"

/* `expected` ends with NULL. */
static void assert_tasks(struct origin_surroundings surroundings, const char *const expected[ORIGIN_FILES + 1])
{
    char *places[ORIGIN_FILES];
    memset(places, 0x55, sizeof places);
    origin_files(&surroundings, places);
    size_t count = 0;
    for (; expected[count] != NULL; count++) {
        assert_non_null(places[count]);
        assert_string_equal(places[count], expected[count]);
    }
    for (size_t i = count; i < ORIGIN_FILES; i++)
        assert_null(places[i]);
    for (size_t i = 0; i < ORIGIN_FILES; i++)
        free(places[i]);
}

#define PLACES(...) ((const char *const[ORIGIN_FILES + 1]){__VA_ARGS__})
#define ETC         "/etc/holdfast/holdfast.conf"

TEST(all_places_have_their_order)
{
    assert_tasks(
        (struct origin_surroundings){
            .holdfast_config = "my.conf", .xdg_config_home = "/xdg", .home = "/home/me", .is_trusting = true},
        PLACES("my.conf", "./holdfast.conf", "/xdg/holdfast/holdfast.conf", ETC));
}

TEST(what_the_environment_lacks_is_left_out)
{
    assert_tasks((struct origin_surroundings){0}, PLACES(ETC));
    assert_tasks((struct origin_surroundings){.holdfast_config = "", .xdg_config_home = "", .home = ""}, PLACES(ETC));
    assert_tasks((struct origin_surroundings){.is_trusting = true}, PLACES("./holdfast.conf", ETC));
}

TEST(without_trust_the_working_directory_is_left_out)
{
    assert_tasks((struct origin_surroundings){.holdfast_config = "/my.conf", .xdg_config_home = "/xdg"},
                 PLACES("/my.conf", "/xdg/holdfast/holdfast.conf", ETC));
}

TEST(the_home_directory_stands_in_for_xdg_config_home)
{
    const char *const *expected = PLACES("/home/me/.config/holdfast/holdfast.conf", ETC);
    assert_tasks((struct origin_surroundings){.home = "/home/me"}, expected);
    assert_tasks((struct origin_surroundings){.home = "/home/me", .xdg_config_home = ""}, expected);
    assert_tasks((struct origin_surroundings){.home = "/home/me", .xdg_config_home = "relative"}, expected);
}

RUN_TESTS
