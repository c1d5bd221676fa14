/* Points in time as people write them. */
#include "tests/support/test.h"

#include "worker/print/human.h"

TEST(test_what_is_understood)
{
    static const struct {
        const char *text;
        int64_t us;
    } cases[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"2026-11-21T18:00:00Z", 1795284000000000},
        {"2026-11-21 19:00:00.5+01:00", 1795284000500000},
        {"2026-11-20t23:30:00.123456789-18:30", 1795284000123456},
        {"2000-02-29T12:00:00z", 951825600000000},
        {"2024-02-29T12:00:00Z", 1709208000000000},
        {"2100-03-01T00:00:00Z", 4107542400000000},
        {"9999-12-31T23:59:59Z", 253402300799000000},
        {"2016-12-31T23:59:60Z", 1483228800000000}, /* a leap second is the next one */
        {"1795284000", 1795284000000000},
        {"1795284000.25", 1795284000250000},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct wall_time moment;
        struct error error = ERROR_NONE;
        if (!moment_parse(cases[i].text, &moment, &error))
            fail_msg("%s", error.text);
        assert_int_equal(moment.us, cases[i].us);
    }
}

TEST(test_what_is_not)
{
    static const char *const texts[] = {
        "",
        "tomorrow",
        "2026-11-21",
        "2026-11-21T18:00:00",
        "2026-11-21T18:00Z",
        "2026-13-21T18:00:00Z",
        "2026-11-31T18:00:00Z",
        "2023-02-29T18:00:00Z",
        "2100-02-29T18:00:00Z",
        "2026-00-10T18:00:00Z",
        "2026-11-21T24:00:00Z",
        "2026-11-21T18:60:00Z",
        "2026-11-21T18:00:61Z",
        "2026-11-21T18:00:00.Z",
        "2026-11-21T18:00:00+1:00",
        "2026-11-21T18:00:00+24:00",
        "2026-11-21T18:00:00Z ",
        "1969-12-31T23:59:59Z",
        "60",
        "999999999",
        "1795284000000",
        "1795284000.",
        "1795284000s",
        "-1795284000",
        "1e10",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct wall_time moment;
        struct error error = ERROR_NONE;
        if (moment_parse(texts[i], &moment, &error))
            fail_msg("'%s' was taken as %lld", texts[i], (long long)moment.us);
        assert_contains(error.text, texts[i]);
    }
}

RUN_TESTS
