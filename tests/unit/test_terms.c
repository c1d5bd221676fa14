/* The terms of processes: their text, and which differences break exclusion. */
#include "queue/terms.h"
#include "tests/support/test.h"

#include <string.h>

static struct buffer one_text, other_text, said;
static unsigned breaking, disturbing;

static void note(void *context, const struct terms_difference *difference)
{
    (void)context;
    breaking += difference->breaks;
    disturbing += !difference->breaks;
    buffer_format(&said, "%s\n", difference->sentence);
}

static const char *compare(const char *one_waits, const char *other_waits)
{
    struct terms_party one = {"a:1:x", buffer_text(&one_text), one_waits};
    struct terms_party other = {"b:2:y", buffer_text(&other_text), other_waits};
    breaking = disturbing = 0;
    buffer_clear(&said);
    terms_compare(&one, &other, note, NULL);
    buffer_clear(&one_text);
    buffer_clear(&other_text);
    return buffer_text(&said);
}

TEST(the_same_terms_have_no_difference)
{
    terms_append(&one_text, "locks", "in lock group g", "lease 15000 ms");
    terms_append(&other_text, "locks", "in lock group g", "lease 15000 ms");
    assert_string_equal(compare("", ""), "");
}

TEST(what_only_one_serves_is_no_difference)
{
    terms_append(&one_text, "class work", "a lock on \"a:{0}\"", "");
    terms_append(&other_text, "class works", "no lock", "");
    assert_string_equal(compare("", ""), "");
}

TEST(a_sentence_has_both_words_and_both_processes)
{
    terms_append(&one_text, "class work", "a lock on \"a:{0}\"", "limit 1");
    terms_append(&other_text, "class work", "no lock", "limit 1");
    assert_string_equal(compare("class work", ""),
                        "class work: a lock on \"a:{0}\" in a:1:x, but no lock in b:2:y, so that locks would not keep "
                        "their tasks apart; a:1:x does not serve this until all with other terms have ended\n");
    assert_int_equal(breaking, 1);
}

TEST(two_that_serve_what_breaks_are_told)
{
    terms_append(&one_text, "locks", "in lock group g", "");
    terms_append(&other_text, "locks", "in lock group h", "");
    assert_non_null(strstr(compare("", "class work"), "; both serve it: stop one of them\n"));
    terms_append(&one_text, "locks", "in lock group g", "");
    terms_append(&other_text, "locks", "in lock group h", "");
    assert_non_null(strstr(compare("class work\nlocks", "locks"), "; both wait for a third one\n"));
}

TEST(what_only_disturbs_is_told_apart)
{
    terms_append(&one_text, "class work", "a lock on \"a:{0}\"", "limit 1");
    terms_append(&other_text, "class work", "a lock on \"a:{0}\"", "limit 2");
    assert_string_equal(compare("", ""), "class work: limit 1 in a:1:x, but limit 2 in b:2:y\n");
    assert_int_equal(disturbing, 1);
}

TEST(words_cannot_make_lines)
{
    struct terms_item item;
    terms_append(&one_text, "class a\nb", "x\ty", "z\n");
    const char *at = buffer_text(&one_text);
    assert_true(terms_next(&at, &item));
    assert_memory_equal(item.name.bytes, "class a_b", item.name.length);
    assert_memory_equal(item.breaking.bytes, "x_y", item.breaking.length);
    assert_memory_equal(item.disturbing.bytes, "z_", item.disturbing.length);
    assert_false(terms_next(&at, &item));
    buffer_clear(&one_text);
}

TEST(what_is_no_terms_is_read_as_none)
{
    static const char *const texts[] = {"", "\n", "a", "a\tb", "a\tb\tc", "a\n\tb\tc\n", "a\tb\n\tc\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct terms_item item;
        const char *at = texts[i];
        assert_false(terms_next(&at, &item));
    }
}

TEST(a_name_is_a_whole_line)
{
    assert_true(terms_lists("a\nbc", (struct text_span){"bc", 2}));
    assert_false(terms_lists("a\nbc", (struct text_span){"b", 1}));
    assert_false(terms_lists("", (struct text_span){"b", 1}));
}

RUN_TESTS
