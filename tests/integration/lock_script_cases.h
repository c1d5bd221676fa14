/* What the scripts of lib/redlock are asked and answer, as a table: test_lock_scripts.c plays each case on a live
 * server. */
#ifndef TESTS_LOCK_SCRIPT_CASES_H
#define TESTS_LOCK_SCRIPT_CASES_H

#include <stdint.h>

enum { KEYS = 3, OPERATIONS_MAX = 8, PAIRS_MAX = 4, TEXT_MAX = 96, COMMAND_MAX = 1024 };
enum { SHORT_MS = 100000, LONG_MS = 900000, SLACK_MS = 60000 };

enum operation_kind {
    END,
    GRANT,     /* one lock a pair of key and value */
    GRANT_ALL, /* one lock of all keys; the value of the first pair */
    RAISE,     /* as GRANT_ALL */
    REPLANT,   /* as GRANT_ALL */
    EXTEND,    /* pairs */
    RELEASE,   /* pairs */
    MARK,      /* from `marker` to the marker of `token` */
    INSPECT,
    EXPIRE,     /* the key's time is over */
    DROP_FENCE, /* that of the key */
    PUT,        /* by somebody else: a string without a time to live */
    PUT_HASH,   /* by somebody else: another type */
    PUT_MARKER, /* `token` */
    PUT_HASH_AS_MARKER,
};

struct pair {
    unsigned key, value;
};

struct operation {
    enum operation_kind kind;
    struct pair pairs[PAIRS_MAX]; /* up to the first whose value is 0 */
    int64_t ttl_ms;
    int64_t token;      /* or proposal; 0 = unfenced */
    uint16_t marker;    /* that is compared; 0: there must be none */
    unsigned old;       /* of a grant: the value that each may take the place of; 0 = none */
    int64_t late_s;     /* how long the deadline is over; 0: it is far away */
    const char *answer; /* NULL: nothing to say */
};

/* A token so many seconds ahead of the node's clock, as of when it is asked. */
#define AHEAD(seconds) ((INT64_C(1) << 60) + (seconds))

struct test_case {
    const char *name;
    struct operation operations[OPERATIONS_MAX];
};

/* clang-format off */
static const struct test_case cases[] = {
    {"a free key is granted once", {
        {GRANT, {{0, 1}}, SHORT_MS, .answer = "+"},
        {GRANT, {{0, 2}}, LONG_MS, .answer = "-v1"},
        {GRANT, {{0, 1}}, LONG_MS, .answer = "-v1"}, /* our own value refuses as well: a pass needs a fresh one (E4) */
        {GRANT, {{1, 2}}, LONG_MS, .answer = "+"}}},
    {"an expired key is granted again", {
        {GRANT, {{0, 1}}, SHORT_MS, .answer = "+"},
        {EXPIRE, {{0, 1}}, .answer = NULL},
        {GRANT, {{0, 2}}, SHORT_MS, .answer = "+"}}},
    {"locks in one call are granted each by itself", {
        {GRANT, {{1, 1}}, SHORT_MS, 500, .answer = "+500"},
        {GRANT, {{0, 2}, {1, 3}, {2, 4}}, LONG_MS, 400, .answer = "+400 -v1 +400"},
        {GRANT, {{0, 5}, {0, 6}}, LONG_MS, 400, .answer = "-v2 -v2"}}},
    {"several keys are granted all or none", {
        {GRANT, {{1, 1}}, SHORT_MS, .answer = "+"},
        {GRANT_ALL, {{0, 2}, {1, 2}, {2, 2}}, SHORT_MS, .answer = "-v1"},
        {GRANT_ALL, {{0, 3}, {2, 3}}, LONG_MS, .answer = "+"},
        {RELEASE, {{1, 1}}, .answer = "1"},
        {GRANT_ALL, {{0, 4}, {1, 4}}, SHORT_MS, .answer = "-v3"},
        {GRANT_ALL, {{1, 4}}, SHORT_MS, .answer = "+"}}},
    {"the first key that is taken is told", {
        {GRANT, {{2, 1}}, SHORT_MS, .answer = "+"},
        {GRANT, {{1, 2}}, SHORT_MS, .answer = "+"},
        {GRANT_ALL, {{0, 3}, {1, 3}, {2, 3}}, SHORT_MS, .answer = "-v2"},
        {GRANT_ALL, {{0, 3}, {2, 3}}, SHORT_MS, .answer = "-v1"}}},
    {"a grant takes the place of the old value, with a new token and ttl", {
        {GRANT, {{0, 1}}, SHORT_MS, 1000, .answer = "+1000"},
        {GRANT, {{0, 2}}, LONG_MS, 1000, .old = 1, .answer = "=1001"},
        {GRANT, {{0, 3}}, SHORT_MS, 1000, .old = 1, .answer = "-v2"},
        {RELEASE, {{0, 1}}, .answer = "2"},
        {GRANT, {{0, 4}, {1, 5}}, SHORT_MS, 2000, .old = 2, .answer = "=2000 +2000"},
        {GRANT, {{0, 6}}, SHORT_MS, .old = 4, .answer = "="}}},
    {"no old value is none that may be replaced", {
        {PUT, {{0, 1}}, .answer = NULL},
        {GRANT, {{0, 2}}, SHORT_MS, 1000, .old = 7, .answer = "-v1"},
        {PUT_HASH, {{1, 1}}, .answer = NULL},
        {GRANT, {{1, 2}}, SHORT_MS, 1000, .old = 7, .answer = "!"},
        {GRANT, {{2, 2}}, SHORT_MS, 1000, .old = 7, .answer = "+1000"},
        {GRANT_ALL, {{1, 3}, {2, 3}}, SHORT_MS, 1000, .old = 2, .answer = "!"}}},
    {"several keys take the place of the old value together", {
        {GRANT_ALL, {{0, 1}, {1, 1}}, SHORT_MS, 1000, .answer = "+1000"},
        {GRANT_ALL, {{0, 2}, {1, 2}}, LONG_MS, 1000, .old = 1, .answer = "=1001"},
        {GRANT_ALL, {{0, 3}, {1, 3}}, LONG_MS, 1000, .old = 1, .answer = "-v2"},
        {EXPIRE, {{1, 2}}, .answer = NULL},
        {GRANT_ALL, {{0, 4}, {1, 4}}, SHORT_MS, 1000, .old = 2, .answer = "+1002"},
        {GRANT_ALL, {{0, 5}, {1, 5}, {2, 5}}, SHORT_MS, 1000, .old = 4, .answer = "+1003"}}},
    {"an expired key does not refuse several", {
        {GRANT, {{1, 1}}, SHORT_MS, .answer = "+"},
        {EXPIRE, {{1, 1}}, .answer = NULL},
        {GRANT_ALL, {{0, 2}, {1, 2}}, SHORT_MS, .answer = "+"}}},
    {"a token is the proposal, or one more than the last", {
        {GRANT, {{0, 1}}, SHORT_MS, 1000, .answer = "+1000"},
        {RELEASE, {{0, 1}}, .answer = "1"},
        {GRANT, {{0, 2}}, SHORT_MS, 1000, .answer = "+1001"},
        {RELEASE, {{0, 2}}, .answer = "1"},
        {GRANT, {{0, 3}}, SHORT_MS, 7, .answer = "+1002"},
        {RELEASE, {{0, 3}}, .answer = "1"},
        {GRANT, {{0, 4}}, SHORT_MS, 1003, .answer = "+1003"}}},
    {"an unfenced grant leaves the fence alone", {
        {GRANT, {{0, 1}}, SHORT_MS, 1000, .answer = "+1000"},
        {RELEASE, {{0, 1}}, .answer = "1"},
        {GRANT, {{0, 2}}, SHORT_MS, .answer = "+"},
        {RELEASE, {{0, 2}}, .answer = "1"},
        {GRANT_ALL, {{0, 3}, {1, 3}}, SHORT_MS, .answer = "+"}}},
    {"a refused grant leaves the fence alone", {
        {GRANT, {{0, 1}}, SHORT_MS, 1000, .answer = "+1000"},
        {GRANT, {{0, 2}}, SHORT_MS, 2000, .answer = "-v1"},
        {GRANT_ALL, {{1, 2}, {0, 2}}, SHORT_MS, 2000, .answer = "-v1"}}},
    {"a lock of several keys has one token, above all of theirs", {
        {GRANT, {{0, 1}}, SHORT_MS, 5000, .answer = "+5000"},
        {RELEASE, {{0, 1}}, .answer = "1"},
        {GRANT_ALL, {{0, 2}, {1, 2}}, SHORT_MS, 1000, .answer = "+5001"},
        {RELEASE, {{0, 2}, {1, 2}}, .answer = "11"},
        {GRANT, {{1, 3}}, SHORT_MS, 1000, .answer = "+5002"},
        {RELEASE, {{1, 3}}, .answer = "1"},
        {GRANT_ALL, {{1, 4}, {2, 4}}, SHORT_MS, 6000, .answer = "+6000"}}},
    {"a fence that was dropped counts from the proposal again", {
        {GRANT, {{0, 1}}, SHORT_MS, 5000, .answer = "+5000"},
        {DROP_FENCE, {{0, 1}}, .answer = NULL},
        {RELEASE, {{0, 1}}, .answer = "1"},
        {GRANT, {{0, 2}}, SHORT_MS, 40, .answer = "+40"}}},
    {"a proposal far ahead is cut", {
        {GRANT, {{0, 1}}, SHORT_MS, AHEAD(50), .answer = "+now+50"},
        {GRANT, {{1, 1}}, SHORT_MS, AHEAD(3000), .answer = "+now+60"},
        {GRANT_ALL, {{2, 1}}, SHORT_MS, AHEAD(3000), .answer = "+now+60"}}},
    {"a raise sets what is lower, and tells what is higher", {
        {GRANT_ALL, {{0, 1}, {1, 1}}, SHORT_MS, 1000, .answer = "+1000"},
        {RAISE, {{0, 1}, {1, 1}}, LONG_MS, 1500, .answer = "+1500"},
        {RAISE, {{0, 1}, {1, 1}}, LONG_MS, 1200, .answer = "+1500"},
        {RAISE, {{0, 1}, {1, 1}}, SHORT_MS, 1500, .answer = "+1500"}}},
    {"a raise compares, all keys or none", {
        {GRANT, {{0, 1}}, SHORT_MS, 1000, .answer = "+1000"},
        {RAISE, {{0, 2}}, LONG_MS, 1500, .answer = "0"},
        {RAISE, {{0, 1}, {1, 1}}, LONG_MS, 1500, .answer = "0"},
        {EXPIRE, {{0, 1}}, .answer = NULL},
        {RAISE, {{0, 1}}, LONG_MS, 1500, .answer = "0"}}},
    {"a raise where the fence is gone", {
        {GRANT, {{0, 1}}, SHORT_MS, 1000, .answer = "+1000"},
        {DROP_FENCE, {{0, 1}}, .answer = NULL},
        {RAISE, {{0, 1}}, LONG_MS, 900, .answer = "+900"}}},
    {"a replant plants what is gone, with its token", {
        {REPLANT, {{0, 1}, {1, 1}}, SHORT_MS, 1000, .answer = "1"},
        {REPLANT, {{0, 1}, {1, 1}}, LONG_MS, 1000, .answer = "1"},
        {EXTEND, {{0, 1}, {1, 1}}, SHORT_MS, .answer = "11"}}},
    {"a replant compares keys and fences, all or none", {
        {GRANT, {{0, 1}}, SHORT_MS, 1000, .answer = "+1000"},
        {REPLANT, {{1, 2}, {0, 2}}, SHORT_MS, 2000, .answer = "0"},
        {RELEASE, {{0, 1}}, .answer = "1"},
        {REPLANT, {{0, 2}}, SHORT_MS, 999, .answer = "0"},
        {REPLANT, {{1, 2}, {0, 2}}, SHORT_MS, 999, .answer = "0"},
        {REPLANT, {{0, 2}}, SHORT_MS, 1000, .answer = "1"}}},
    {"a replant that comes too late", {
        {REPLANT, {{0, 1}}, SHORT_MS, 1000, .late_s = 60, .answer = "too late"},
        {REPLANT, {{0, 1}}, SHORT_MS, 1000, .answer = "1"}}},
    {"a grant that comes too late", {
        {GRANT, {{0, 1}}, SHORT_MS, 1000, .late_s = 60, .answer = "too late"},
        {GRANT_ALL, {{0, 1}, {1, 1}}, SHORT_MS, 1000, .late_s = 60, .answer = "too late"},
        {GRANT, {{0, 1}}, SHORT_MS, 1000, .answer = "+1000"}}},
    {"another marker stops everything but a release", {
        {PUT_MARKER, .token = 1},
        {GRANT, {{0, 1}}, SHORT_MS, 1000, .marker = 1, .answer = "+1000"},
        {PUT_MARKER, .token = 2},
        {GRANT, {{1, 1}}, SHORT_MS, 1000, .marker = 1, .late_s = 60, .answer = "other marker"},
        {RAISE, {{0, 1}}, LONG_MS, 2000, .marker = 1, .answer = "other marker"},
        {EXTEND, {{0, 1}}, LONG_MS, .marker = 1, .answer = "other marker"},
        {REPLANT, {{1, 1}}, LONG_MS, 2000, .marker = 1, .answer = "other marker"},
        {GRANT_ALL, {{1, 1}, {2, 1}}, SHORT_MS, 1000, .marker = 1, .answer = "other marker"}}},
    {"a release compares no marker", {
        {PUT_MARKER, .token = 1},
        {GRANT, {{0, 1}}, SHORT_MS, 1000, .marker = 1, .answer = "+1000"},
        {PUT_HASH_AS_MARKER, .answer = NULL},
        {GRANT, {{1, 1}}, SHORT_MS, 1000, .marker = 1, .answer = "other marker"},
        {RELEASE, {{0, 1}}, .answer = "1"}}},
    {"no marker is something to compare with", {
        {GRANT, {{0, 1}}, SHORT_MS, 1000, .answer = "+1000"},
        {EXTEND, {{0, 1}}, LONG_MS, .marker = 1, .answer = "other marker"},
        {EXTEND, {{0, 1}}, LONG_MS, .answer = "1"},
        {PUT_MARKER, .token = 1},
        {REPLANT, {{0, 1}}, LONG_MS, 1000, .answer = "other marker"},
        {RAISE, {{0, 1}}, LONG_MS, 1000, .marker = 1, .answer = "+1000"}}},
    {"a marker is compared and set", {
        {INSPECT, .answer = "none"},
        {MARK, .token = 1, .answer = "1"},
        {INSPECT, .answer = "m1"},
        {MARK, .token = 2, .answer = "0"},
        {MARK, .marker = 1, .token = 2, .answer = "1"},
        {MARK, .marker = 1, .token = 2, .answer = "1"}, /* may be repeated */
        {MARK, .marker = 1, .token = 3, .answer = "0"},
        {INSPECT, .answer = "m2"}}},
    {"what is no marker is not overwritten", {
        {PUT_HASH_AS_MARKER, .answer = NULL},
        {INSPECT, .answer = "?"},
        {MARK, .token = 1, .answer = "0"},
        {MARK, .marker = 1, .token = 2, .answer = "0"}}},
    {"an extension sets the whole ttl anew", {
        {GRANT, {{0, 1}}, SHORT_MS, .answer = "+"},
        {EXTEND, {{0, 1}}, LONG_MS, .answer = "1"},
        {EXTEND, {{0, 1}}, SHORT_MS, .answer = "1"}}},
    {"an extension compares and never plants (E25)", {
        {EXTEND, {{0, 1}}, LONG_MS, .answer = "0"},
        {GRANT, {{0, 1}}, SHORT_MS, .answer = "+"},
        {EXTEND, {{0, 2}}, LONG_MS, .answer = "0"},
        {EXPIRE, {{0, 1}}, .answer = NULL},
        {EXTEND, {{0, 1}}, LONG_MS, .answer = "0"}}},
    {"extensions of several locks are independent", {
        {GRANT, {{0, 1}}, SHORT_MS, .answer = "+"},
        {GRANT, {{2, 3}}, SHORT_MS, .answer = "+"},
        {EXTEND, {{0, 1}, {1, 2}, {2, 9}}, LONG_MS, .answer = "100"},
        {EXTEND, {{2, 3}, {0, 1}}, LONG_MS, .answer = "11"}}},
    {"a release compares (E39)", {
        {RELEASE, {{0, 1}}, .answer = "0"},
        {GRANT, {{0, 1}}, SHORT_MS, .answer = "+"},
        {RELEASE, {{0, 2}}, .answer = "2"},
        {RELEASE, {{0, 1}}, .answer = "1"},
        {RELEASE, {{0, 1}}, .answer = "0"}}},
    {"a release finds an expired key gone", {
        {GRANT, {{0, 1}}, SHORT_MS, .answer = "+"},
        {EXPIRE, {{0, 1}}, .answer = NULL},
        {RELEASE, {{0, 1}}, .answer = "0"}}},
    {"releases of several locks are independent", {
        {GRANT_ALL, {{0, 1}, {1, 1}}, SHORT_MS, .answer = "+"},
        {GRANT, {{2, 2}}, SHORT_MS, .answer = "+"},
        {RELEASE, {{0, 1}, {2, 1}, {1, 1}}, .answer = "121"},
        {RELEASE, {{0, 1}, {2, 2}}, .answer = "01"}}},
    {"the same pair twice in one call is deleted for both", {
        {GRANT, {{0, 1}}, SHORT_MS, .answer = "+"},
        {RELEASE, {{0, 1}, {0, 1}}, .answer = "11"}}},
    {"a name clash with a string refuses and survives (E22)", {
        {PUT, {{0, 7}}, .answer = NULL},
        {GRANT, {{0, 1}}, SHORT_MS, .answer = "-v7"},
        {GRANT_ALL, {{0, 1}, {1, 1}}, SHORT_MS, .answer = "-v7"},
        {EXTEND, {{0, 1}}, SHORT_MS, .answer = "0"},
        {REPLANT, {{0, 1}}, SHORT_MS, 1000, .answer = "0"},
        {RELEASE, {{0, 1}}, .answer = "2"}}},
    {"a name clash with another type refuses and survives (E22)", {
        {PUT_HASH, {{0, 1}}, .answer = NULL},
        {GRANT, {{0, 1}}, SHORT_MS, 1000, .answer = "!"},
        {GRANT_ALL, {{0, 1}, {1, 1}}, SHORT_MS, .answer = "!"},
        {EXTEND, {{0, 1}, {0, 2}}, SHORT_MS, .answer = "00"},
        {RAISE, {{0, 1}}, SHORT_MS, 1000, .answer = "0"},
        {REPLANT, {{1, 1}, {0, 1}}, SHORT_MS, 1000, .answer = "0"},
        {RELEASE, {{0, 1}}, .answer = "0"}}},
};
/* clang-format on */

#endif
