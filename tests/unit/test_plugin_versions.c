/* Plugins that were built with other versions of job.h, and what a handler of this version says about its locks. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

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

static void a_plugin_with_an_older_and_shorter_handler_is_loaded(void **state)
{
    (void)state;
    struct findings findings;
    struct plugins *plugins = load("old_handler", &findings);
    assert_int_equal(findings.errors, 0);
    assert_non_null(plugins_find(plugins, "old"));
    assert_null(plugins_find(plugins, "old")->check);
    const struct plugin_handler *minor_1 = plugins_find(plugins, "old.minor_1");
    assert_non_null(minor_1->check);
    assert_int_equal(minor_1->retries, 0);
    assert_null(minor_1->retry_queue);
    assert_int_equal(minor_1->retry_for_ms | minor_1->expires_in_ms, 0);
    plugins_close(plugins);
}

/* Its table of lock functions ended earlier, and it goes on using what it knows. */
static void a_plugin_of_version_0_2_is_loaded(void **state)
{
    (void)state;
    struct findings findings;
    struct plugins *plugins = load("minor_2", &findings);
    assert_int_equal(findings.errors, 0);
    assert_non_null(plugins_find(plugins, "minor_2"));
    plugins_close(plugins);
}

/* Its handlers ended before they could say how they are locked. */
static void a_plugin_of_version_0_3_is_loaded(void **state)
{
    (void)state;
    struct findings findings;
    struct plugins *plugins = load("minor_3", &findings);
    assert_int_equal(findings.errors, 0);
    const struct plugin_handler *handler = plugins_find(plugins, "minor_3");
    assert_non_null(handler);
    assert_true(handler->retries == 7 && handler->expires_in_ms == 8);
    assert_true(handler->mode == HF_MODE_USUAL && handler->on_conflict == HF_CONFLICT_USUAL);
    assert_null(handler->resources);
    assert_int_equal(handler->hold_at_least_ms, 0);
    plugins_close(plugins);
}

static void a_handler_of_version_0_4_says_how_it_is_locked(void **state)
{
    (void)state;
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

static void what_handlers_may_not_say_about_their_locks_is_refused(void **state)
{
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plugin_with_an_older_and_shorter_handler_is_loaded),
        cmocka_unit_test(a_plugin_of_version_0_2_is_loaded),
        cmocka_unit_test(a_plugin_of_version_0_3_is_loaded),
        cmocka_unit_test(a_handler_of_version_0_4_says_how_it_is_locked),
        cmocka_unit_test(what_handlers_may_not_say_about_their_locks_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
