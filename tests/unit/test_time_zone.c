/* Time zones: what libc says about the zones of the system we say too, rules of the far future included, and files that
 * are wrong are refused. */
#include "tests/support/private_directory.h"
#include "tests/support/test.h"

#include <sys/stat.h>
#include <time.h>

#include "base/buffer.h"
#include "base/random.h"
#include "worker/periodic/civil.h"
#include "worker/periodic/time_zone.h"
#include "worker/periodic/time_zone_rule.h"

/* --- the calendar ----------------------------------------------------------------------------------------------- */

TEST(dates_and_days_are_each_others_inverse)
{
    struct civil_date date = {.year = 1599, .month = 12, .day = 31};
    int64_t day = civil_day(date);
    for (int64_t i = 0; i < 2 * 146097; i++, day++) {
        struct civil_date found = civil_date(day);
        if (found.year != date.year || found.month != date.month || found.day != date.day || civil_day(found) != day)
            fail_msg("day %lld", (long long)day);
        assert_int_equal((civil_weekday(day) + 1) % 7, civil_weekday(day + 1));
        if (++date.day > civil_month_days(date.year, date.month)) {
            date.day = 1;
            date.month = date.month % 12 + 1;
            date.year += date.month == 1;
        }
    }
    assert_int_equal(civil_day((struct civil_date){1970, 1, 1}), 0);
    assert_int_equal(civil_weekday(0), 4);
    assert_int_equal(civil_day((struct civil_date){2000, 3, 1}), 11017);
    assert_int_equal(civil_day((struct civil_date){2400, 2, 29}) - civil_day((struct civil_date){2000, 2, 29}), 146097);
    assert_false(civil_year_is_leap(1900));
    assert_true(civil_year_is_leap(2000));
    assert_int_equal(civil_day_of(-1), -1);
    assert_int_equal(civil_day_of(-CIVIL_DAY_S), -1);
    assert_int_equal(civil_day_of(CIVIL_DAY_S - 1), 0);
}

/* --- against libc ----------------------------------------------------------------------------------------------- */

/* This process has one thread, so it may. */
static void libc_zone(const char *name)
{
    char value[128];
    snprintf(value, sizeof value, ":%s", name);
    assert_int_equal(setenv("TZ", value, 1), 0);
    tzset();
}

static int32_t libc_offset(int64_t seconds)
{
    struct tm parts;
    time_t time = (time_t)seconds;
    assert_non_null(localtime_r(&time, &parts));
    return (int32_t)parts.tm_gmtoff;
}

static void compare_at(const struct time_zone *zone, const char *name, int64_t seconds)
{
    struct time_zone_span span = time_zone_span(zone, seconds);
    if (span.offset != libc_offset(seconds) || span.from > seconds || span.until <= seconds)
        fail_msg("%s at %lld: %d, libc %d, span %lld to %lld", name, (long long)seconds, span.offset,
                 libc_offset(seconds), (long long)span.from, (long long)span.until);
}

/* Its whole history and the next five hundred years, at random moments and on both sides of every change. */
static void compare_with_libc(const char *name)
{
    struct error error = ERROR_NONE;
    struct time_zone *zone = time_zone_open(name, &error);
    if (zone == NULL)
        fail_msg("%s", error.text);
    libc_zone(name);
    const int64_t first = civil_day((struct civil_date){1850, 1, 1}) * CIVIL_DAY_S;
    const int64_t last = civil_day((struct civil_date){2500, 1, 1}) * CIVIL_DAY_S;
    for (unsigned i = 0; i < 300; i++)
        compare_at(zone, name, random_between(first, last));
    struct time_zone_span span = time_zone_span(zone, first);
    for (unsigned changes = 0; span.until < last && changes < 400; changes++) {
        compare_at(zone, name, span.until - 1);
        compare_at(zone, name, span.until);
        span = time_zone_span(zone, span.until);
    }
    time_zone_close(zone);
}

TEST(zones_are_what_libc_says)
{
    static const char *const names[] = {
        "Europe/Vienna",    "Europe/London",     "Europe/Dublin",    "Europe/Moscow",
        "Europe/Istanbul",  "America/New_York",  "America/St_Johns", "America/Sao_Paulo",
        "America/Santiago", "America/Nuuk",      "Australia/Sydney", "Australia/Lord_Howe",
        "Pacific/Auckland", "Pacific/Chatham",   "Pacific/Apia",     "Pacific/Kiritimati",
        "Asia/Kolkata",     "Asia/Kathmandu",    "Asia/Tehran",      "Asia/Gaza",
        "Asia/Tokyo",       "Africa/Casablanca", "Africa/Monrovia",  "Africa/Cairo",
        "Antarctica/Troll", "Etc/GMT+12",        "Etc/UTC"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        compare_with_libc(names[i]);
}

TEST(utc_needs_no_file)
{
    struct error error = ERROR_NONE;
    setenv("TZDIR", "/nowhere", 1);
    struct time_zone *zone = time_zone_open("UTC", &error);
    assert_non_null(zone);
    struct time_zone_span span = time_zone_span(zone, 1795194374);
    assert_int_equal(span.offset, 0);
    assert_true(span.from == TIME_ZONE_EVER_BEFORE && span.until == TIME_ZONE_EVER_AFTER);
    time_zone_close(zone);
    assert_null(time_zone_open("Europe/Vienna", &error));
    assert_contains(error.text, "/nowhere/Europe/Vienna: there is no such zone");
    unsetenv("TZDIR");
}

/* Nobody writes into it: who waits for that would wait for ever. */
TEST(a_pipe_is_no_zone)
{
    struct error error = ERROR_NONE;
    char directory[PRIVATE_DIRECTORY_MAX], pipe[PRIVATE_DIRECTORY_MAX + 8];
    private_directory_create(directory);
    snprintf(pipe, sizeof pipe, "%s/Pipe", directory);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    setenv("TZDIR", directory, 1);
    assert_null(time_zone_open("Pipe", &error));
    assert_contains(error.text, "/Pipe: ");
    unsetenv("TZDIR");
    unlink(pipe);
    rmdir(directory);
}

/* --- rules ------------------------------------------------------------------------------------------------------ */

TEST(rules_are_read)
{
    struct error error = ERROR_NONE;
    struct time_zone_rule rule;
    assert_true(time_zone_rule_parse("CET-1CEST,M3.5.0,M10.5.0/3", &rule, &error));
    assert_int_equal(rule.offset, 3600);
    assert_int_equal(rule.summer_offset, 7200);
    int64_t march = civil_day((struct civil_date){2027, 3, 28}), october = civil_day((struct civil_date){2027, 10, 31});
    assert_int_equal(time_zone_change_in(&rule.to_summer, 2027), march * CIVIL_DAY_S + 2 * 3600);
    assert_int_equal(time_zone_change_in(&rule.to_standard, 2027), october * CIVIL_DAY_S + 3 * 3600);
    assert_true(time_zone_rule_parse("<+1030>-10:30<+11>-11,J60/-1,59/26:30:15", &rule, &error));
    assert_int_equal(rule.summer_offset, 11 * 3600);
    int64_t leap = civil_day((struct civil_date){2028, 1, 1}) * CIVIL_DAY_S;
    assert_int_equal(time_zone_change_in(&rule.to_summer, 2028), leap + 60 * CIVIL_DAY_S - 3600);
    assert_int_equal(time_zone_change_in(&rule.to_standard, 2028), leap + 59 * CIVIL_DAY_S + 26 * 3600 + 1815);
    assert_true(time_zone_rule_parse("<-03>3", &rule, &error));
    assert_int_equal(rule.offset, -3 * 3600);
    assert_false(rule.has_summer);
}

TEST(wrong_rules_are_refused)
{
    static const char *const texts[] = {"",
                                        "CE-1",
                                        "CET",
                                        "CET-25",
                                        "<CET-1",
                                        "CET-1x",
                                        "CET-1CEST",
                                        "CET-1CEST,M3",
                                        "CET-1CEST,M3.5.0",
                                        "CET-1:60",
                                        "CET-1CEST,M13.5.0,M10.5.0",
                                        "CET-1CEST,M3.6.0,M10.5.0",
                                        "CET-1CEST,M3.5.7,M10.5.0",
                                        "CET-1CEST,J0,J5",
                                        "CET-1CEST,366,5",
                                        "CET-1CEST,M3.5.0/168,M10.5.0",
                                        "CET-1CEST,M3.5.0,M10.5.0x"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct error error = ERROR_NONE;
        struct time_zone_rule rule;
        if (time_zone_rule_parse(texts[i], &rule, &error))
            fail_msg("%s", texts[i]);
        assert_contains(error.text, "its rule is wrong");
    }
}

/* --- files ------------------------------------------------------------------------------------------------------ */

static void number_put(struct buffer *out, int64_t number, unsigned bytes)
{
    while (bytes-- > 0)
        buffer_append(out, &(char){(char)(number >> (8 * bytes))}, 1);
}

static void header_put(struct buffer *out, char version, int64_t leaps, int64_t changes, int64_t types)
{
    buffer_append_text(out, "TZif");
    buffer_append(out, &version, 1);
    for (unsigned i = 0; i < 15; i++)
        buffer_append(out, "", 1);
    const int64_t counts[] = {0, 0, leaps, changes, types, 4};
    for (unsigned i = 0; i < 6; i++)
        number_put(out, counts[i], 4);
}

static void type_put(struct buffer *out, int64_t offset)
{
    number_put(out, offset, 4);
    number_put(out, 0, 2);
}

/* One change at 1000 from an offset to another. */
static void file_make(struct buffer *out, int64_t changed_at, int64_t from, int64_t to, const char *footer)
{
    buffer_clear(out);
    header_put(out, '2', 0, 0, 0);
    buffer_append(out, "XYZ", 4);
    header_put(out, '2', 0, 2, 2);
    number_put(out, changed_at, 8);
    number_put(out, 2000, 8);
    buffer_append(out, "\1\0", 2);
    type_put(out, from);
    type_put(out, to);
    buffer_append(out, "XYZ", 4);
    buffer_append_text(out, footer);
}

static void assert_refused(const struct buffer *file, const char *part)
{
    struct error error = ERROR_NONE;
    assert_null(time_zone_parse(file->bytes, file->length, &error));
    assert_contains(error.text, part);
}

TEST(a_file_without_a_rule_goes_on_as_it_ends)
{
    struct buffer file = {0};
    struct error error = ERROR_NONE;
    file_make(&file, 1000, 37, -90, "\n\n");
    struct time_zone *zone = time_zone_parse(file.bytes, file.length, &error);
    assert_non_null(zone);
    assert_int_equal(time_zone_span(zone, 999).offset, 37);
    assert_int_equal(time_zone_span(zone, 999).until, 1000);
    assert_int_equal(time_zone_span(zone, 1000).offset, -90);
    assert_int_equal(time_zone_span(zone, 1000).from, 1000);
    assert_int_equal(time_zone_span(zone, 2000).offset, 37);
    assert_true(time_zone_span(zone, 2000).until == TIME_ZONE_EVER_AFTER);
    time_zone_close(zone);
    buffer_fini(&file);
}

TEST(summer_time_all_the_year_is_one_offset)
{
    struct buffer file = {0};
    struct error error = ERROR_NONE;
    file_make(&file, 1000, 0, 0, "\nXXX3EDT4,0/0,J365/23\n");
    struct time_zone *zone = time_zone_parse(file.bytes, file.length, &error);
    assert_non_null(zone);
    int64_t year = civil_day((struct civil_date){2030, 1, 1}) * CIVIL_DAY_S;
    for (int64_t hour = -48; hour <= 48; hour++)
        assert_int_equal(time_zone_span(zone, year + hour * 3600).offset, -4 * 3600);
    time_zone_close(zone);
    buffer_fini(&file);
}

TEST(wrong_files_are_refused)
{
    struct buffer file = {0};
    file_make(&file, 2000, 0, 0, "\n\n");
    assert_refused(&file, "its changes are not in order");
    file_make(&file, 1000, 26 * 3600, 0, "\n\n");
    assert_refused(&file, "an offset of more than a day");
    file_make(&file, 1000, 0, 0, "\nCET\n");
    assert_refused(&file, "its rule is wrong");
    file_make(&file, 1000, 0, 0, "\nCET-1");
    assert_refused(&file, "it ends before its rule");
    file_make(&file, 1000, 0, 0, "\n\n");
    file.bytes[4] = '\0';
    assert_refused(&file, "no times of 64 bits");
    file_make(&file, 1000, 0, 0, "\n\n");
    file.bytes[48 + 31] = 1;
    buffer_append(&file, "123456789012", 12);
    assert_refused(&file, "it counts leap seconds");
    file_make(&file, INT64_MIN, 0, 0, "\n\n");
    assert_refused(&file, "its changes are not in order");
    file_make(&file, 1000, 0, 0, "\n\n");
    file.bytes[48 + 44 + 16] = 2;
    assert_refused(&file, "a type that it does not have");
    buffer_fini(&file);
}

/* Whatever is cut or changed, nothing outside the file is read (the sanitizers watch). */
TEST(damaged_files_do_no_harm)
{
    struct buffer file = {0};
    file_make(&file, 1000, 0, 3600, "\nCET-1CEST,M3.5.0,M10.5.0/3\n");
    for (size_t length = 0; length < file.length; length++) {
        struct error error = ERROR_NONE;
        char *copy = length > 0 ? malloc(length) : NULL;
        if (copy != NULL)
            memcpy(copy, file.bytes, length);
        assert_null(time_zone_parse(copy, length, &error));
        free(copy);
    }
    for (unsigned i = 0; i < 20000; i++) {
        struct error error = ERROR_NONE;
        char *copy = malloc(file.length);
        assert_non_null(copy);
        memcpy(copy, file.bytes, file.length);
        for (int64_t change = random_between(1, 3); change > 0; change--)
            random_bytes(copy + random_between(0, (int64_t)file.length - 1), 1);
        struct time_zone *zone = time_zone_parse(copy, file.length, &error);
        if (zone != NULL)
            (void)time_zone_span(zone, random_between(-4000, 4000000000));
        time_zone_close(zone);
        free(copy);
    }
    buffer_fini(&file);
}

TEST(names_lead_nowhere_else)
{
    static const char *const names[] = {
        "",
        ".",
        "..",
        "/etc/passwd",
        "Europe/",
        "/Europe/Vienna",
        "Europe//Vienna",
        "../zoneinfo/Europe/Vienna",
        "Europe/../Europe/Vienna",
        "a b",
        "a\nb",
        "Europe/Vienna.",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct error error = ERROR_NONE;
        if (time_zone_open(names[i], &error) != NULL)
            fail_msg("%s", names[i]);
        assert_contains(error.text, "is no name of a time zone");
    }
    struct error error = ERROR_NONE;
    assert_null(time_zone_open("Europe", &error)); /* a directory */
    assert_contains(error.text, "/Europe: it is no file of a time zone");
}

RUN_TESTS
