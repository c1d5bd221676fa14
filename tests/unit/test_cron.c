/* Times that come again: what is understood, what is refused, and that the next tick is right: by known cases, by
 * properties at random moments, and against a search that tries every minute. */
#include "tests/support/test.h"

#include "base/random.h"
#include "worker/periodic/civil.h"
#include "worker/periodic/cron.h"

static struct cron cron_of(const char *text)
{
    struct cron cron;
    struct error error = ERROR_NONE;
    if (!cron_parse(text, &cron, &error))
        fail_msg("%s: %s", text, error.text);
    return cron;
}

static struct time_zone *zone_of(const char *name)
{
    struct error error = ERROR_NONE;
    struct time_zone *zone = time_zone_open(name, &error);
    if (zone == NULL)
        fail_msg("%s", error.text);
    return zone;
}

/* Seconds of "2026-11-21 18:05", read as UTC. */
static int64_t at(const char *text)
{
    int year;
    unsigned month, day, hour, minute;
    assert_int_equal(sscanf(text, "%d-%u-%u %u:%u", &year, &month, &day, &hour, &minute), 5);
    return civil_day((struct civil_date){.year = year, .month = month, .day = day}) * CIVIL_DAY_S +
           hour * CIVIL_HOUR_S + minute * CIVIL_MINUTE_S;
}

/* "2026-11-21 18:05", and the seconds when there are some. */
static const char *told(int64_t seconds, char out[64])
{
    if (seconds == CRON_NEVER)
        return "never";
    struct civil_date date = civil_date(civil_day_of(seconds));
    unsigned second = (unsigned)(seconds - civil_day_of(seconds) * CIVIL_DAY_S);
    int length = snprintf(out, 64, "%04lld-%02u-%02u %02u:%02u", (long long)date.year, date.month, date.day,
                          second / 3600, second / 60 % 60);
    if (second % 60 != 0)
        snprintf(out + length, (size_t)(64 - length), ":%02u", second % 60);
    return out;
}

/* Each tick in UTC, from the one after `after`; the list ends with NULL. */
static void assert_ticks(const char *text, const char *zone_name, const char *after, const char *const *ticks)
{
    struct cron cron = cron_of(text);
    struct time_zone *zone = zone_of(zone_name);
    int64_t tick = at(after);
    char found[64];
    for (size_t i = 0; ticks[i] != NULL; i++) {
        tick = cron_next(&cron, tick, zone);
        if (strcmp(told(tick, found), ticks[i]) != 0)
            fail_msg("%s (%s) after %s: tick %zu is %s instead of %s", text, zone_name, after, i, found, ticks[i]);
    }
    time_zone_close(zone);
}
#define assert_utc(text, after, ...)      assert_ticks(text, "UTC", after, (const char *const[]){__VA_ARGS__, NULL})
#define assert_in(zone, text, after, ...) assert_ticks(text, zone, after, (const char *const[]){__VA_ARGS__, NULL})

/* --- parsing ---------------------------------------------------------------------------------------------------- */

static void assert_same(const char *a, const char *b)
{
    struct cron one = cron_of(a), other = cron_of(b);
    if (one.minutes != other.minutes || one.hours != other.hours || one.days != other.days ||
        one.months != other.months || one.weekdays != other.weekdays)
        fail_msg("%s is not the same as %s", a, b);
}

TEST(all_forms_are_understood)
{
    assert_same("*/15 * * * *", "0,15,30,45 * * * *");
    assert_same("5-20/5 * * * *", "5,10,15,20 * * * *");
    assert_same("0 22-23,0-2 * * *", "0 0,1,2,22,23 * * *");
    assert_same("0 0 * jan,MAR,Dec *", "0 0 * 1,3,12 *");
    assert_same("0 0 * jan-mar *", "0 0 * 1-3 *");
    assert_same("0 0 * * sun", "0 0 * * 0");
    assert_same("0 0 * * 7", "0 0 * * 0");
    assert_same("0 0 * * mon-fri", "0 0 * * 1-5");
    assert_same("0 0 * * 5-7", "0 0 * * fri,sat,sun");
    assert_same("0 0 * * fri-sun", "0 0 * * fri,sat,sun");
    assert_same("0 0 * * sun-tue", "0 0 * * 0-2");
    assert_same("0 0 * * 0-7", "0 0 * * *");
    assert_same(" \t1  2\t3 4   5 ", "1 2 3 4 5");
    assert_same("007 * * * *", "7 * * * *");
    assert_same("1,1,1-2 * * * *", "1,2 * * * *");
    assert_same("@hourly", "0 * * * *");
    assert_same("@daily", "0 0 * * *");
    assert_same("@midnight", "0 0 * * *");
    assert_same("@Weekly", "0 0 * * sun");
    assert_same("@monthly", "0 0 1 * *");
    assert_same("@yearly", "0 0 1 1 *");
    assert_same("@annually", "0 0 1 1 *");
}

TEST(mistakes_are_told_with_their_field)
{
    static const char *const texts[][2] = {
        {"", "fewer fields than five"},
        {"* * * *", "fewer fields than five"},
        {"* * * * * *", "more fields than five"},
        {"60 * * * *", "the minute: 60 is out of range; allowed are 0 to 59"},
        {"* 24 * * *", "the hour: 24 is out of range"},
        {"* * 0 * *", "the day of the month: 0 is out of range; allowed are 1 to 31"},
        {"* * 32 * *", "the day of the month: 32"},
        {"* * * 0 *", "the month: 0 is out of range; allowed are 1 to 12 or jan to dec"},
        {"* * * 13 *", "the month: 13"},
        {"* * * * 8", "the day of the week: 8 is out of range; allowed are 0 to 7"},
        {"* * * * monday", "the day of the week: monday is not understood"},
        {"* jan * * *", "the hour: jan is not understood"},
        {"-1 * * * *", "the minute: -1 is not understood"},
        {"1- * * * *", "the minute: 1- is not understood"},
        {"5-1 * * * *", "the minute: 5-1 runs backwards"},
        {"1,,2 * * * *", "the minute: \"\" is not understood"},
        {", * * * *", "the minute: \"\" is not understood"},
        {"*/0 * * * *", "the minute: \"*/0\" has a step that is out of range"},
        {"*/60 * * * *", "the minute: \"*/60\" has a step that is out of range"},
        {"*/ * * * *", "the minute: \"*/\" has no number for its step"},
        {"5/10 * * * *", "the minute: 5/10 has a step without a range"},
        {"* * * */jan *", "the month: \"*/jan\" has no number for its step"},
        {"1-5/2/2 * * * *", "is not understood"},
        {"99999999999 * * * *", "the minute: 99999999999 is not understood"},
        {"1\x1b * * * *", "the minute: \"1\\x1B\" is not understood"},
        {"* * L * *", "the day of the month: L is not understood"},
        {"@reboot", "there is only @hourly"},
        {"0 0 30 2 *", "there is no such date"},
        {"0 0 31 4,6,9,nov *", "there is no such date"},
        {"0 0 30-31 feb *", "there is no such date"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct cron cron;
        struct error error = ERROR_NONE;
        if (cron_parse(texts[i][0], &cron, &error))
            fail_msg("%s", texts[i][0]);
        assert_contains(error.text, texts[i][1]);
    }
    char longest[400];
    memset(longest, '1', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    struct cron cron;
    struct error error = ERROR_NONE;
    assert_false(cron_parse(longest, &cron, &error));
    assert_contains(error.text, "longer than 255 bytes");
}

/* --- the calendar ----------------------------------------------------------------------------------------------- */

TEST(ticks_in_the_calendar)
{
    assert_utc("* * * * *", "2026-11-21 18:05", "2026-11-21 18:06", "2026-11-21 18:07");
    assert_utc("*/5 * * * *", "2026-11-21 18:05", "2026-11-21 18:10", "2026-11-21 18:15");
    assert_utc("59 23 31 12 *", "2026-11-21 18:05", "2026-12-31 23:59", "2027-12-31 23:59");
    assert_utc("0 0 31 * *", "2026-11-21 18:05", "2026-12-31 00:00", "2027-01-31 00:00", "2027-03-31 00:00");
    assert_utc("30 8-9 * * mon-fri", "2026-11-20 09:00", "2026-11-20 09:30", "2026-11-23 08:30");
    assert_utc("@weekly", "2026-11-21 18:05", "2026-11-22 00:00", "2026-11-29 00:00");
    assert_utc("0 0 30 2 1", "2026-11-21 18:05", "2027-02-01 00:00", "2027-02-08 00:00"); /* by the weekday */
}

TEST(leap_days_are_found_over_a_century)
{
    assert_utc("0 12 29 2 *", "2026-01-01 00:00", "2028-02-29 12:00", "2032-02-29 12:00");
    assert_utc("0 12 29 2 *", "2096-02-29 12:00", "2104-02-29 12:00");
    assert_utc("0 12 29 2 *", "2396-02-29 12:00", "2400-02-29 12:00", "2404-02-29 12:00");
}

/* Both restricted: either is enough. One of them "*": the other alone. A step is a restriction. */
TEST(day_of_month_or_day_of_week)
{
    assert_utc("0 0 13 * fri", "2026-11-10 00:00", "2026-11-13 00:00", "2026-11-20 00:00", "2026-11-27 00:00",
               "2026-12-04 00:00", "2026-12-11 00:00", "2026-12-13 00:00");
    assert_utc("0 0 13 * *", "2026-11-14 00:00", "2026-12-13 00:00");
    assert_utc("0 0 * * fri", "2026-11-14 00:00", "2026-11-20 00:00");
    assert_utc("0 0 1-31/10 * mon", "2026-11-02 00:00", "2026-11-09 00:00", "2026-11-11 00:00", "2026-11-16 00:00",
               "2026-11-21 00:00");
}

TEST(the_calendar_comes_again_after_400_years)
{
    struct time_zone *utc = zone_of("UTC");
    static const char *const texts[] = {"*/7 3 29 2 *", "0 0 13 * fri", "1 2 31 * *", "0 12 * 2 sun"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct cron cron = cron_of(texts[i]);
        int64_t cycle = INT64_C(146097) * CIVIL_DAY_S, tick = at("1999-12-31 23:59");
        for (unsigned n = 0; n < 200; n++) {
            int64_t next = cron_next(&cron, tick, utc);
            assert_true(next - tick == cron_next(&cron, tick + cycle, utc) - (tick + cycle));
            tick = next;
        }
    }
    time_zone_close(utc);
}

/* --- changes of the clock --------------------------------------------------------------------------------------- */

/* Vienna: 2027-03-28 from 02:00 to 03:00 (01:00 UTC), 2027-10-31 from 03:00 back to 02:00 (01:00 UTC). */
TEST(what_is_left_out_happens_once_behind_it)
{
    assert_in("Europe/Vienna", "30 2 * * *", "2027-03-27 00:00", "2027-03-27 01:30", "2027-03-28 01:00",
              "2027-03-29 00:30");
    assert_in("Europe/Vienna", "0,20,40 2,3 * * *", "2027-03-28 00:59", "2027-03-28 01:00", "2027-03-28 01:20",
              "2027-03-28 01:40", "2027-03-29 00:00");
    assert_in("Europe/Vienna", "0 3 * * *", "2027-03-27 03:00", "2027-03-28 01:00", "2027-03-29 01:00");
    assert_in("Europe/Vienna", "59 1 * * *", "2027-03-27 03:00", "2027-03-28 00:59", "2027-03-28 23:59");
    /* Sydney: 2026-10-04 from 02:00 to 03:00 (2026-10-03 16:00 UTC) */
    assert_in("Australia/Sydney", "15 2 * * *", "2026-10-02 16:15", "2026-10-03 16:00", "2026-10-04 15:15");
    /* Lord Howe: half an hour, 2026-10-04 from 02:00 to 02:30 (2026-10-03 15:30 UTC) */
    assert_in("Australia/Lord_Howe", "15,45 2 * * *", "2026-10-03 12:00", "2026-10-03 15:30", "2026-10-03 15:45",
              "2026-10-04 15:15");
    /* Apia left out the whole of 2011-12-30: its ticks come at the first moment of the 31st. */
    assert_in("Pacific/Apia", "0 4 30 12 *", "2011-12-01 00:00", "2011-12-30 10:00", "2012-12-29 14:00");
}

TEST(what_is_shown_twice_happens_once_the_first_time)
{
    assert_in("Europe/Vienna", "30 2 * * *", "2027-10-30 12:00", "2027-10-31 00:30", "2027-11-01 01:30");
    assert_in("Europe/Vienna", "0 2,3 * * *", "2027-10-30 12:00", "2027-10-31 00:00", "2027-10-31 02:00",
              "2027-11-01 01:00");
    /* asked in the middle of the second time */
    assert_in("Europe/Vienna", "*/30 2 * * *", "2027-10-31 01:10", "2027-11-01 01:00");
    /* New York: 2027-11-07 from 02:00 back to 01:00 (06:00 UTC) */
    assert_in("America/New_York", "59 1 * * *", "2027-11-06 12:00", "2027-11-07 05:59", "2027-11-08 06:59");
    /* Sydney: 2027-04-04 from 03:00 back to 02:00 (2027-04-03 16:00 UTC) */
    assert_in("Australia/Sydney", "30 2 * * *", "2027-04-02 20:00", "2027-04-03 15:30", "2027-04-04 16:30");
}

/* With every hour, however it is spelled, it goes on as the clock shows it: no hour of silence, nothing made up for. */
TEST(every_hour_is_every_hour)
{
    static const char *const spellings[] = {"30 * * * *", "30 */1 * * *", "30 0-23 * * *", "30 12-23,0-11 * * *"};
    for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++)
        assert_in("Europe/Vienna", spellings[i], "2027-10-30 23:30", "2027-10-31 00:30", "2027-10-31 01:30",
                  "2027-10-31 02:30");
    assert_in("Europe/Vienna", "30 * * * *", "2027-10-30 23:30", "2027-10-31 00:30", "2027-10-31 01:30",
              "2027-10-31 02:30");
    assert_in("Europe/Vienna", "30 * * * *", "2027-03-27 23:30", "2027-03-28 00:30", "2027-03-28 01:30");
    assert_in("Europe/Vienna", "*/20 * * * *", "2027-03-28 00:40", "2027-03-28 01:00", "2027-03-28 01:20");
    assert_in("Asia/Kathmandu", "0 * * * *", "2027-03-28 00:00", "2027-03-28 00:15", "2027-03-28 01:15");
}

/* --- against a search that tries every second at which something can happen -------------------------------------- */

static bool bit(uint64_t set, unsigned value)
{
    return (set >> value & 1) != 0;
}

static bool minute_matches(const struct cron *cron, int64_t local)
{
    struct civil_date date = civil_date(civil_day_of(local));
    unsigned minute = (unsigned)(local - civil_day_of(local) * CIVIL_DAY_S) / 60;
    bool day = bit(cron->days, date.day), weekday = bit(cron->weekdays, civil_weekday(civil_day_of(local)));
    bool either = cron->every_day || cron->every_weekday ? day && weekday : day || weekday;
    return either && local % 60 == 0 && bit(cron->minutes, minute % 60) && bit(cron->hours, minute / 60) &&
           bit(cron->months, date.month);
}

/* By the words of cron.h: goes through time by half minutes, and knows the latest local time that was shown. */
static int64_t slow_next(const struct cron *cron, int64_t after, int64_t until, const struct time_zone *zone)
{
    int64_t start = after / 60 * 60 - 2 * CIVIL_DAY_S, shown = INT64_MIN;
    for (int64_t now = start; now <= until; now += 60) {
        int64_t local = now + time_zone_span(zone, now).offset;
        bool is_tick = minute_matches(cron, local);
        if (cron->hours != 0xffffff) {
            is_tick = is_tick && local > shown;
            for (int64_t left_out = shown + 60; shown != INT64_MIN && left_out < local; left_out += 60)
                is_tick = is_tick || minute_matches(cron, left_out);
        }
        if (is_tick && now > after)
            return now;
        shown = local > shown ? local : shown;
    }
    return CRON_NEVER;
}

static void random_cron(char out[128])
{
    static const char *const hours[] = {"*", "*", "0", "1-3", "2", "2,3", "*/2", "23", "0-23"};
    static const char *const days[] = {"*", "*", "*", "*/2", "1-7", "28"};
    static const char *const weekdays[] = {"*", "*", "sun", "mon-fri", "6,7"};
#define ANY(list) (list)[random_between(0, (int64_t)(sizeof(list) / sizeof(list)[0]) - 1)]
    if (random_between(0, 1) == 0)
        snprintf(out, 128, "*/%d %s %s * %s", (int)random_between(1, 59), ANY(hours), ANY(days), ANY(weekdays));
    else
        snprintf(out, 128, "%d,%d %s %s * %s", (int)random_between(0, 59), (int)random_between(0, 59), ANY(hours),
                 ANY(days), ANY(weekdays));
}

TEST(it_finds_what_a_slow_search_finds)
{
    static const char *const names[] = {"Europe/Vienna",       "America/New_York", "Australia/Sydney",
                                        "Australia/Lord_Howe", "America/Santiago", "Pacific/Chatham",
                                        "Africa/Casablanca",   "Antarctica/Troll", "UTC"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct time_zone *zone = zone_of(names[i]);
        int64_t change = at("2026-01-01 00:00");
        for (unsigned n = 0; n < 24; n++) {
            char text[128], found[64], expected[64];
            random_cron(text);
            struct cron cron = cron_of(text);
            struct time_zone_span span = time_zone_span(zone, change);
            change = span.until != TIME_ZONE_EVER_AFTER ? span.until : change + 86400;
            int64_t tick = change - random_between(0, 30 * 3600), until = change + 30 * 3600;
            while (tick <= until) {
                int64_t next = cron_next(&cron, tick, zone), slow = slow_next(&cron, tick, until, zone);
                if (next <= until ? next != slow : slow != CRON_NEVER)
                    fail_msg("%s (%s) after %lld: %s instead of %s", text, names[i], (long long)tick, told(next, found),
                             told(slow, expected));
                tick = next + random_between(0, 1) * random_between(0, 4000);
            }
        }
        time_zone_close(zone);
    }
}

TEST(the_next_is_later_and_matches)
{
    struct time_zone *zone = zone_of("Asia/Tokyo");
    for (unsigned n = 0; n < 5000; n++) {
        char text[128];
        random_cron(text);
        struct cron cron = cron_of(text);
        int64_t after = random_between(at("1970-01-02 00:00"), at("2500-01-01 00:00"));
        int64_t next = cron_next(&cron, after, zone);
        assert_true(next > after && next != CRON_NEVER);
        assert_true(minute_matches(&cron, next + time_zone_span(zone, next).offset));
        assert_true(cron_next(&cron, next - 1, zone) == next);
    }
    time_zone_close(zone);
}

TEST(the_latest_is_the_one_before_the_next)
{
    struct time_zone *zone = zone_of("Europe/Vienna");
    for (unsigned n = 0; n < 3000; n++) {
        char text[128];
        random_cron(text);
        struct cron cron = cron_of(text);
        int64_t after = random_between(at("2026-01-02 00:00"), at("2030-01-01 00:00"));
        int64_t until = after + random_between(0, 40 * CIVIL_DAY_S);
        int64_t latest = cron_latest(&cron, after, until, zone);
        if (latest == CRON_NEVER) {
            assert_true(cron_next(&cron, after, zone) > until);
            continue;
        }
        assert_true(latest > after && latest <= until);
        assert_true(cron_next(&cron, latest, zone) > until);
        assert_true(cron_next(&cron, latest - 1, zone) == latest);
    }
    time_zone_close(zone);
}

RUN_TESTS
