/* What a handler says about its locks. */
#include "tests/support/test.h"

#include "worker/plugin/plugin.h"

static struct plugins *load(const char *name, struct findings *findings)
{
    char copy[128], directory[512];
    char *names[] = {copy};
    snprintf(copy, sizeof copy, "%s", name);
    snprintf(directory, sizeof directory, "%s/tests/plugins", test_build());
    *findings = (struct findings){.count = 0};
    return plugins_load(directory, names, 1, findings);
}

TEST(a_handler_says_how_it_is_locked)
{
    struct findings findings;
    struct plugins *plugins = load("modes", &findings);
    assert_int_equal(findings.errors, 0);
    const struct plugin_handler *handler = plugins_find(plugins, "modes.quick");
    assert_true(handler->mode == HF_EFFICIENCY && handler->on_conflict == HF_CONFLICT_SKIP);
    assert_string_equal(handler->resources[0], "page:{0.id}");
    assert_null(handler->resources[1]);
    assert_int_equal(handler->hold_at_least_ms, 1500);
    plugins_close(plugins);
}

TEST(what_handlers_may_not_say_about_their_locks_is_refused)
{
    struct findings findings;
    struct plugins *plugins = load("bad_modes", &findings);
    assert_int_equal(findings.errors, 8);
    for (size_t i = 0; i < findings.count; i++)
        assert_contains(findings.items[i].text, "states a mode or on_conflict that there is not");
    assert_int_equal(plugins_handler_count(plugins), 1);
    assert_non_null(plugins_find(plugins, "good"));
    plugins_close(plugins);
    findings_fini(&findings);
}

RUN_TESTS
