/* What is a marker and what is not: one byte more or less decides who may vote. */
#include "redlock/marker.h"

#include "tests/support/test.h"

#include "tests/sim/world/chance.h"

#define RUN     "0123456789abcdef0123456789abcdef01234567"
#define HEAD    "4 group=5f2a90c41b7d3e88 generation=3 max_ttl_ms=60000 members="
#define GOOD    HEAD "0a1b2c3d,-,9f8e7d6c self=0a1b2c3d run=" RUN
#define DOUBTED HEAD "0a1b2c3d,-,9f8e7d6c self=0a1b2c3d run=-"

static struct marker parse(const char *text)
{
    struct marker marker;
    if (!marker_parse(&marker, text, strlen(text)))
        fail_msg("taken for no marker: %s", text);
    return marker;
}

static void refuse(const char *text, size_t length)
{
    struct marker marker;
    if (marker_parse(&marker, text, length))
        fail_msg("taken for a marker: %s", text);
}

TEST(test_reads_every_part)
{
    struct marker marker = parse(GOOD);
    assert_string_equal(marker.group, "5f2a90c41b7d3e88");
    assert_int_equal(marker.generation, 3);
    assert_int_equal(marker.max_ttl_ms, 60000);
    assert_int_equal(marker.member_count, 3);
    assert_string_equal(marker.members[0], "0a1b2c3d");
    assert_string_equal(marker.members[1], "");
    assert_string_equal(marker.members[2], "9f8e7d6c");
    assert_string_equal(marker.self, "0a1b2c3d");
    assert_string_equal(marker.run, RUN);
    assert_string_equal(parse(DOUBTED).run, "");
}

TEST(test_writes_the_same_bytes)
{
    static const char *const texts[] = {GOOD, DOUBTED};
    for (size_t i = 0; i < 2; i++) {
        struct marker marker = parse(texts[i]);
        char text[MARKER_TEXT_MAX];
        assert_int_equal(marker_write(&marker, text), strlen(texts[i]));
        assert_string_equal(text, texts[i]);
    }
}

TEST(test_another_scheme_is_no_marker_of_ours)
{
    for (char scheme = '0'; scheme <= '9'; scheme++) {
        char text[] = GOOD;
        text[0] = scheme;
        assert_int_equal(marker_is_of_other_scheme(text), scheme != '0' + MARKER_SCHEME);
        if (scheme != '0' + MARKER_SCHEME)
            refuse(text, sizeof GOOD - 1);
    }
    assert_true(marker_is_of_other_scheme("12 group=of what is to come"));
    assert_false(marker_is_of_other_scheme("4 places=1"));
    assert_false(marker_is_of_other_scheme(" group=5f2a90c41b7d3e88"));
    assert_false(marker_is_of_other_scheme(""));
}

TEST(test_the_largest_fits_and_comes_back)
{
    struct marker marker = {.group = "ffffffffffffffff",
                            .generation = UINT32_MAX,
                            .max_ttl_ms = MARKER_TTL_MS_MAX,
                            .member_count = MARKER_MEMBERS_MAX,
                            .self = "f000000e",
                            .run = RUN};
    for (unsigned i = 0; i < MARKER_MEMBERS_MAX; i++)
        snprintf(marker.members[i], sizeof marker.members[i], "f000000%x", i);
    char text[MARKER_TEXT_MAX];
    size_t length = marker_write(&marker, text);
    assert_int_equal(length, strlen(text));
    assert_true(length < MARKER_TEXT_MAX);
    struct marker again = parse(text);
    assert_true(marker_same_membership(&marker, &again));
    assert_string_equal(again.self, marker.self);
    assert_string_equal(again.run, marker.run);
}

#define TAIL  " self=0a1b2c3d run=-"
#define IDS_8 "00000001,00000002,00000003,00000004,00000005,00000006,00000007,00000008"

TEST(test_refuses_what_is_no_marker)
{
    static const char *const texts[] = {
        "",
        "?",
        "hello",
        GOOD " ",
        GOOD "\n",
        " " GOOD,
        GOOD "0",
        "0 group=5f2a90c41b7d3e88 generation=3 max_ttl_ms=60000 members=0a1b2c3d,-,9f8e7d6c self=0a1b2c3d run=-",
        "5 group=5f2a90c41b7d3e88 generation=3 max_ttl_ms=60000 members=0a1b2c3d,-,9f8e7d6c self=0a1b2c3d run=-",
        "04 group=5f2a90c41b7d3e88 generation=3 max_ttl_ms=60000 members=0a1b2c3d,-,9f8e7d6c self=0a1b2c3d run=-",
        "group=5f2a90c41b7d3e88 generation=3 max_ttl_ms=60000 members=0a1b2c3d,-,9f8e7d6c self=0a1b2c3d run=-",
        "1  group=5f2a90c41b7d3e88 generation=3 max_ttl_ms=60000 members=0a1b2c3d,-,9f8e7d6c self=0a1b2c3d run=-",
        "4 group=5F2A90C41B7D3E88 generation=3 max_ttl_ms=60000 members=0a1b2c3d,-,9f8e7d6c self=0a1b2c3d run=-",
        "4 group=5f2a90c41b7d3e8 generation=3 max_ttl_ms=60000 members=0a1b2c3d,-,9f8e7d6c self=0a1b2c3d run=-",
        "4 group=5f2a90c41b7d3e888 generation=3 max_ttl_ms=60000 members=0a1b2c3d,-,9f8e7d6c self=0a1b2c3d run=-",
        HEAD "0a1b2c3,-,9f8e7d6c self=9f8e7d6c run=-",
        "4 group=- generation=3 max_ttl_ms=60000 members=0a1b2c3d,-,9f8e7d6c self=0a1b2c3d run=-",
        "4 group=5f2a90c41b7d3e88 generation=03 max_ttl_ms=60000 members=0a1b2c3d,-,9f8e7d6c self=0a1b2c3d run=-",
        "4 group=5f2a90c41b7d3e88 generation=+3 max_ttl_ms=60000 members=0a1b2c3d,-,9f8e7d6c self=0a1b2c3d run=-",
        "4 group=5f2a90c41b7d3e88 generation=0 max_ttl_ms=60000 members=0a1b2c3d,-,9f8e7d6c self=0a1b2c3d run=-",
        "4 group=5f2a90c41b7d3e88 generation= max_ttl_ms=60000 members=0a1b2c3d,-,9f8e7d6c self=0a1b2c3d run=-",
        "4 group=5f2a90c41b7d3e88 generation=4294967296 max_ttl_ms=60000 members=0a1b2c3d,-,9f8e7d6c self=0a1b2c3d "
        "run=-",
        "4 group=5f2a90c41b7d3e88 generation=3 max_ttl_ms=0 members=0a1b2c3d,-,9f8e7d6c self=0a1b2c3d run=-",
        "4 group=5f2a90c41b7d3e88 generation=3 max_ttl_ms=-5 members=0a1b2c3d,-,9f8e7d6c self=0a1b2c3d run=-",
        "4 group=5f2a90c41b7d3e88 generation=3 max_ttl_ms=86400001 members=0a1b2c3d,-,9f8e7d6c self=0a1b2c3d run=-",
        "4 group=5f2a90c41b7d3e88 generation=3 max_ttl_ms=99999999999999999999 members=0a1b2c3d,-,9f8e7d6c "
        "self=0a1b2c3d"
        " run=-",
        HEAD "0a1b2c3d" TAIL,
        HEAD "0a1b2c3d,-" TAIL,
        HEAD "0a1b2c3d,-,9f8e7d6c,00000001" TAIL,
        HEAD "0a1b2c3d,-,0a1b2c3d" TAIL,
        HEAD "0a1b2c3d,-,9f8e7d6" TAIL,
        HEAD "0a1b2c3d,-,9f8e7d6c," TAIL,
        HEAD ",0a1b2c3d,-" TAIL,
        HEAD "0a1b2c3d,-,9f8e7d6C" TAIL,
        HEAD "0a1b2c3d,0000000a," IDS_8 ",00000009,0000000b,0000000c,0000000d,0000000e,0000000f,00000010" TAIL,
        HEAD "0a1b2c3d,-,9f8e7d6c self=- run=-",
        HEAD "0a1b2c3d,-,9f8e7d6c self=11111111 run=-",
        HEAD "0a1b2c3d,-,9f8e7d6c self=0a1b2c3d run=",
        HEAD "0a1b2c3d,-,9f8e7d6c self=0a1b2c3d run=--",
        HEAD "0a1b2c3d,-,9f8e7d6c self=0a1b2c3d run=0123456789abcdef0123456789abcdef0123456",
        HEAD "0a1b2c3d,-,9f8e7d6c self=0a1b2c3d",
        HEAD "0a1b2c3d,-,9f8e7d6c run=- self=0a1b2c3d",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        refuse(texts[i], strlen(texts[i]));
    refuse(GOOD, sizeof GOOD); /* the NUL belongs to it */
    char longer[2 * MARKER_TEXT_MAX];
    memset(longer, '1', sizeof longer);
    refuse(longer, sizeof longer);
}

/* No single byte that is changed, left out or put in leaves a marker that says the same; what is still a marker is one
 * by its own right, and is written as it was read. */
TEST(test_every_change_of_a_byte_shows)
{
    struct marker good = parse(GOOD);
    for (size_t at = 0; at < sizeof GOOD - 1; at++)
        for (unsigned byte = 0; byte < 256; byte++) {
            char text[] = GOOD, again[MARKER_TEXT_MAX];
            text[at] = (char)byte;
            struct marker marker;
            if (!marker_parse(&marker, text, sizeof GOOD - 1))
                continue;
            assert_int_equal(marker_write(&marker, again), sizeof GOOD - 1);
            assert_memory_equal(again, text, sizeof GOOD - 1);
            bool same = marker_same_membership(&good, &marker) && strcmp(good.self, marker.self) == 0 &&
                        strcmp(good.run, marker.run) == 0;
            assert_int_equal(same, text[at] == GOOD[at]);
        }
    for (size_t length = 0; length < sizeof GOOD - 1; length++)
        refuse(GOOD, length);
}

TEST(test_random_bytes_are_read_within_their_bounds)
{
    struct chance chance = {.state = 11};
    for (int i = 0; i < 200000; i++) {
        char text[] = GOOD;
        size_t length = (size_t)chance_below(&chance, sizeof text);
        for (int64_t changes = chance_below(&chance, 4); changes > 0; changes--)
            text[chance_below(&chance, sizeof text - 1)] = "0f-, =1\0"[chance_below(&chance, 8)];
        char *exact = malloc(length); /* a read beyond `length` is one beyond the block */
        memcpy(exact, text, length);
        struct marker marker;
        bool taken = marker_parse(&marker, exact, length);
        if (taken)
            assert_int_equal(marker_number_of(&marker, marker.self) >= 0, true);
        free(exact);
    }
}

TEST(test_membership_is_all_but_self_and_run)
{
    struct marker base = parse(GOOD), other = base;
    snprintf(other.self, sizeof other.self, "9f8e7d6c");
    other.run[0] = '\0';
    assert_true(marker_same_membership(&base, &other));
    other = base;
    other.generation++;
    assert_false(marker_same_membership(&base, &other));
    other = base;
    other.max_ttl_ms++;
    assert_false(marker_same_membership(&base, &other));
    other = base;
    other.group[15] = '9';
    assert_false(marker_same_membership(&base, &other));
    other = base;
    snprintf(other.members[1], sizeof other.members[1], "00000001");
    assert_false(marker_same_membership(&base, &other));
    other = base;
    other.member_count = 5;
    assert_false(marker_same_membership(&base, &other));
}

/* One step of a membership changes numbers, and counts each. */
TEST(test_what_follows_a_membership)
{
    struct marker before = parse(GOOD), after;
    assert_true(marker_follows(&before, &before));
    after = parse("4 group=5f2a90c41b7d3e88 generation=4 max_ttl_ms=60000 members=0a1b2c3d,11111111,9f8e7d6c "
                  "self=9f8e7d6c run=-");
    assert_true(marker_follows(&after, &before));
    assert_false(marker_follows(&before, &after));
    after.generation++;
    assert_false(marker_follows(&after, &before));
    after = before;
    after.group[0] = '0';
    assert_false(marker_follows(&after, &before));
    after = before;
    after.max_ttl_ms++;
    assert_false(marker_follows(&after, &before));
    after = before;
    after.member_count = 5;
    assert_false(marker_follows(&after, &before));
}

TEST(test_a_vacant_number_is_nobodys)
{
    struct marker marker = parse(GOOD);
    assert_int_equal(marker_number_of(&marker, "0a1b2c3d"), 0);
    assert_int_equal(marker_number_of(&marker, "9f8e7d6c"), 2);
    assert_int_equal(marker_number_of(&marker, "9f8e7d6d"), -1);
    assert_int_equal(marker_number_of(&marker, ""), -1);
}

TEST(test_hex)
{
    assert_true(marker_is_hex("0a9f", 4));
    assert_false(marker_is_hex("0a9f", 3));
    assert_false(marker_is_hex("0a9f", 5));
    assert_false(marker_is_hex("0A9f", 4));
    assert_false(marker_is_hex("0a9g", 4));
}

RUN_TESTS
