/* Which sentinel is asked next, and what its answer means. */
#include "tests/support/test.h"

#include "redis/sentinel.h"

static const char *const addresses[] = {"a:1", "b:2", "c:3"};

static struct sentinel_search search_of(size_t count)
{
    struct sentinel_search search;
    sentinel_search_init(&search, &(struct redis_sentinels){.master = "m", .addresses = addresses, .count = count});
    sentinel_search_begin(&search);
    return search;
}

static const char *asked(struct sentinel_search *search)
{
    const struct sentinel *current = sentinel_search_current(search);
    return current != NULL ? current->host : "nobody";
}

static struct redis_reply text_reply(const char *text)
{
    return (struct redis_reply){.kind = REDIS_STRING, .bytes = text, .length = strlen(text)};
}

static bool tells(struct sentinel_search *search, const char *host, const char *port)
{
    char reason[SENTINEL_REASON_MAX];
    struct redis_reply parts[2] = {text_reply(host), text_reply(port)};
    return sentinel_take(search, &(struct redis_reply){.kind = REDIS_ARRAY, .elements = parts, .count = 2}, reason);
}

TEST(each_is_asked_once_in_a_round)
{
    struct sentinel_search search = search_of(3);
    assert_string_equal(asked(&search), "a");
    assert_true(sentinel_search_skip(&search));
    assert_string_equal(asked(&search), "b");
    assert_true(sentinel_search_skip(&search));
    assert_string_equal(asked(&search), "c");
    assert_false(sentinel_search_skip(&search));
    assert_string_equal(asked(&search), "nobody");
    sentinel_search_begin(&search);
    assert_string_equal(asked(&search), "a");
    sentinel_search_fini(&search);
}

TEST(the_one_that_told_is_asked_first_next_time)
{
    struct sentinel_search search = search_of(3);
    assert_true(sentinel_search_skip(&search));
    assert_true(sentinel_search_skip(&search));
    assert_true(tells(&search, "10.1.1.1", "7000"));
    assert_string_equal(search.master_host, "10.1.1.1");
    assert_int_equal(search.master_port, 7000);
    assert_string_equal(asked(&search), "nobody");
    sentinel_search_begin(&search);
    assert_string_equal(asked(&search), "c");
    assert_true(sentinel_search_skip(&search));
    assert_string_equal(asked(&search), "a");
    assert_true(sentinel_search_skip(&search));
    assert_string_equal(asked(&search), "b");
    sentinel_search_fini(&search);
}

TEST(the_one_that_told_nonsense_is_asked_last)
{
    struct sentinel_search search = search_of(3);
    assert_true(tells(&search, "10.1.1.1", "7000"));
    sentinel_search_distrust(&search);
    sentinel_search_begin(&search);
    assert_string_equal(asked(&search), "b");
    assert_true(sentinel_search_skip(&search));
    assert_true(sentinel_search_skip(&search));
    assert_string_equal(asked(&search), "a");
    sentinel_search_fini(&search);

    search = search_of(1);
    assert_true(tells(&search, "10.1.1.1", "7000"));
    sentinel_search_distrust(&search);
    sentinel_search_begin(&search);
    assert_string_equal(asked(&search), "a");
    sentinel_search_fini(&search);
}

TEST(without_sentinels_nobody_is_asked)
{
    struct sentinel_search search = search_of(0);
    assert_null(sentinel_search_current(&search));
    sentinel_search_fini(&search);
}

TEST(what_is_no_address_is_none)
{
    struct sentinel_search search = search_of(2);
    assert_false(tells(&search, "", "7000"));
    assert_false(tells(&search, "10.1.1.1", "0"));
    assert_false(tells(&search, "10.1.1.1", ""));
    assert_false(tells(&search, "10.1.1.1", "70000"));
    assert_false(tells(&search, "10.1.1.1", "7x"));
    assert_false(tells(&search, "10.1.1.1\r\nSET", "7000"));
    assert_string_equal(asked(&search), "a"); /* it is the caller who goes on */
    sentinel_search_fini(&search);
}

static void assert_reason(const struct redis_reply *reply, const char *part)
{
    struct sentinel_search search = search_of(1);
    char reason[SENTINEL_REASON_MAX];
    assert_false(sentinel_take(&search, reply, reason));
    assert_contains(reason, part);
    sentinel_search_fini(&search);
}

TEST(the_reason_says_what_it_answered)
{
    struct redis_reply failure = {.kind = REDIS_FAILURE, .bytes = "NOAUTH x", .length = 8};
    struct redis_reply one[1] = {text_reply("10.1.1.1")};
    assert_reason(&(struct redis_reply){.kind = REDIS_NIL}, "knows no master called \"m\"");
    assert_reason(&failure, "refused: NOAUTH x");
    assert_reason(&(struct redis_reply){.kind = REDIS_ARRAY, .elements = one, .count = 1},
                  "not answer with an address");
    assert_reason(&(struct redis_reply){.kind = REDIS_INTEGER, .integer = 4}, "not answer with an address");
}

RUN_TESTS
