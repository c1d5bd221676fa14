/* What was meant by a mistyped word: the nearest one, and none when all are far. */
#include "tests/support/test.h"

#include <limits.h>

#include "worker/config/suggest.h"

static const char *suggest(const char *wrong)
{
    static const char *const words[] = {"threads", "queues", "host", "port", "log_level", "log_file", "ttl"};
    struct suggestion suggestion = suggestion_for(wrong);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        suggestion_offer(&suggestion, words[i]);
    return suggestion.best;
}

TEST(distances_count_edits)
{
    assert_int_equal(suggest_distance("", ""), 0);
    assert_int_equal(suggest_distance("", "abc"), 3);
    assert_int_equal(suggest_distance("abc", ""), 3);
    assert_int_equal(suggest_distance("abc", "abc"), 0);
    assert_int_equal(suggest_distance("abc", "abd"), 1);
    assert_int_equal(suggest_distance("abc", "ab"), 1);
    assert_int_equal(suggest_distance("abc", "xabc"), 1);
    assert_int_equal(suggest_distance("kitten", "sitting"), 3);
}

TEST(a_swap_of_neighbours_is_one_edit)
{
    assert_int_equal(suggest_distance("tlt", "ttl"), 1);
    assert_int_equal(suggest_distance("ab", "ba"), 1);
    assert_int_equal(suggest_distance("threads", "htreasd"), 2);
}

TEST(long_words_are_infinitely_far)
{
    char word[SUGGEST_WORD_MAX + 2];
    memset(word, 'a', sizeof word);
    word[SUGGEST_WORD_MAX] = '\0';
    assert_int_equal(suggest_distance(word, word), 0);
    word[SUGGEST_WORD_MAX] = 'a';
    word[SUGGEST_WORD_MAX + 1] = '\0';
    assert_int_equal(suggest_distance(word, word), UINT_MAX);
}

TEST(the_nearest_word_is_suggested)
{
    assert_string_equal(suggest("thread"), "threads");
    assert_string_equal(suggest("qeues"), "queues");
    assert_string_equal(suggest("log_levle"), "log_level");
    assert_string_equal(suggest("prot"), "port");
    assert_string_equal(suggest("hots"), "host");
}

TEST(far_words_are_not_suggested)
{
    assert_null(suggest("password"));
    assert_null(suggest("xyl"));
    assert_null(suggest(""));
    char hint[SUGGEST_HINT_MAX];
    struct suggestion none = suggestion_for("x");
    assert_string_equal(suggestion_hint(&none, hint), "");
    suggestion_offer(&none, "xyz1");
    assert_string_equal(suggestion_hint(&none, hint), "");
    struct suggestion some = suggestion_for("tlt");
    suggestion_offer(&some, "ttl");
    assert_string_equal(suggestion_hint(&some, hint), " (did you mean ttl?)");
}

RUN_TESTS
