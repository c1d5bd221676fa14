/* What a process announces of its configuration: what breaks exclusion is in the words that break. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/config_place.h"
#include "worker/presence/announced_terms.h"

#define THREE "lock_nodes = ( { host = \"a\"; }, { host = \"b\"; }, { host = \"c\"; } );\n"

static struct plugins *plugins;

static int enter(void **state)
{
    struct findings findings = {0};
    char directory[512], name[] = "modes";
    char *names[] = {name};
    snprintf(directory, sizeof directory, "%s/tests/plugins", test_build());
    plugins = plugins_load(directory, names, 1, &findings);
    return findings.errors == 0 ? config_place_enter(state) : -1;
}

static int leave(void **state)
{
    plugins_close(plugins);
    return config_place_leave(state);
}

static void assert_words(const char *text, const char *group, const char *name, const char *breaking)
{
    struct buffer out = {0};
    struct terms_item item;
    announced_terms_write(config_place_read_good(text), plugins, group, &out);
    bool is_there = terms_find(buffer_text(&out), (struct text_span){name, strlen(name)}, &item);
    if (is_there != (breaking != NULL) ||
        (is_there && !terms_span_equals(item.breaking, (struct text_span){breaking, strlen(breaking)})))
        fail_msg("%s instead of \"%s\"", buffer_text(&out), breaking != NULL ? breaking : "nothing");
    buffer_fini(&out);
}

#define ALONE           CONFIG_NODES "lock_nodes = ( { host = \"a\"; } );\n"
#define CLASS(settings) CONFIG_NODES THREE "classes = ( { class = \"modes.quick\"; " settings " } );\n"

TEST(a_class_says_what_it_locks)
{
    assert_words(CLASS("resource = \"a:{0}\";"), "g", "class modes.quick", "a lock on \"a:{0}\"");
    assert_words(CLASS("resource = [\"b:{0}\", \"a:{0}\"];"), "g", "class modes.quick",
                 "a lock on \"a:{0}\" and \"b:{0}\"");
    assert_words(CLASS("resource = \"a:{0}\"; limit = 3;"), "g", "class modes.quick",
                 "one of several seats of \"a:{0}\"");
    assert_words(CLASS("lock = \"none\";"), "g", "class modes.quick", "no lock");
}

TEST(locks_have_a_group_and_a_prefix)
{
    assert_words(CLASS("") "lock = { prefix = \"p:\"; };\n", "0123", "locks", "in lock group 0123 below \"p:\"");
    assert_words(ALONE, "0123", "locks", "on the single lock node 0123 below \"\"");
    assert_words(ALONE, "", "locks", "on a single lock node that nobody has used yet (it has no id) below \"\"");
    assert_words(ALONE, NULL, "locks", NULL);
    assert_words(CLASS(""), NULL, "locks", NULL);
}

static void nothing_changes(void *context)
{
    (void)context;
}

/* The queue node tells of them in the order of their leases. */
TEST(the_reason_is_the_same_in_whatever_order_others_come)
{
    const char ours[] = "locks\tin group a\tr\n", theirs[] = "locks\tin group b\tr\n";
    const struct terms_party one = {"host:1:x", theirs, ""}, two = {"host:2:x", theirs, ""};
    struct announced_terms *terms =
        announced_terms_create(&(struct announced_terms_options){.identity = "host:0:x", .changed = nothing_changes});
    announced_terms_told(terms, ours, "locks", (const struct terms_party[]){one, two}, 2);
    char *first = strdup(announced_terms_reason(terms));
    assert_non_null(strstr(first, "host:1:x"));
    announced_terms_told(terms, ours, "locks", (const struct terms_party[]){two, one}, 2);
    assert_string_equal(announced_terms_reason(terms), first);
    free(first);
    announced_terms_destroy(terms);
}

RUN_TESTS_WITH(enter, leave)
