#include "worker/print/human.h"

#include <stdio.h>
#include <time.h>

const char *human_count(int64_t count, char out[HUMAN_TEXT_MAX])
{
    char digits[24];
    bool is_negative = count < 0;
    int length = snprintf(digits, sizeof digits, "%llu",
                          is_negative ? 0ULL - (unsigned long long)count : (unsigned long long)count);
    int used = 0;
    if (is_negative)
        out[used++] = '-';
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            out[used++] = ',';
        out[used++] = digits[i];
    }
    out[used] = '\0';
    return out;
}

const char *human_size(int64_t bytes, char out[HUMAN_TEXT_MAX])
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    double size = (double)bytes / 1024;
    unsigned unit = 0;
    if (bytes < 1024) {
        snprintf(out, HUMAN_TEXT_MAX, "%lld B", (long long)bytes);
        return out;
    }
    for (; size >= 1024 && unit < 3; unit++)
        size /= 1024;
    snprintf(out, HUMAN_TEXT_MAX, "%.1f %s", size, units[unit]);
    return out;
}

const char *human_span(int64_t us, char out[HUMAN_TEXT_MAX])
{
    double seconds = (double)us / (double)US_PER_S;
    if (seconds < 0)
        seconds = 0;
    if (seconds < 1)
        snprintf(out, HUMAN_TEXT_MAX, "%.0f ms", seconds * 1000);
    else if (seconds < 10)
        snprintf(out, HUMAN_TEXT_MAX, "%.1f s", seconds);
    else if (seconds < 120)
        snprintf(out, HUMAN_TEXT_MAX, "%.0f s", seconds);
    else if (seconds < 120.0 * 60)
        snprintf(out, HUMAN_TEXT_MAX, "%.0fm", seconds / 60);
    else if (seconds < 48.0 * 3600)
        snprintf(out, HUMAN_TEXT_MAX, "%.0fh", seconds / 3600);
    else
        snprintf(out, HUMAN_TEXT_MAX, "%.0fd", seconds / 86400);
    return out;
}

/* Rounding may carry into a digit more: then one decimal less is the three digits. */
static int decimals_of(double number)
{
    return number < 9.995 ? 2 : number < 99.95 ? 1 : 0;
}

/* "0" rather than "0.00". */
static void three_digits(double number, const char *unit, char out[HUMAN_TEXT_MAX])
{
    snprintf(out, HUMAN_TEXT_MAX, "%.*f%s", number > 0 ? decimals_of(number) : 0, number, unit);
}

const char *human_time(double seconds, char out[HUMAN_TEXT_MAX])
{
    if (!(seconds > 0))
        snprintf(out, HUMAN_TEXT_MAX, "0");
    else if (seconds < 0.9995e-3)
        snprintf(out, HUMAN_TEXT_MAX, "%.0f us", seconds * 1e6);
    else if (seconds < 0.9995)
        three_digits(seconds * 1e3, " ms", out);
    else if (seconds < 120)
        three_digits(seconds, " s", out);
    else
        human_span(seconds < 1e12 ? (int64_t)(seconds * (double)US_PER_S) : INT64_MAX, out);
    return out;
}

const char *human_rate(double rate, char out[HUMAN_TEXT_MAX])
{
    static const char *const units[] = {"", "k", "M", "G", "T"};
    unsigned unit = 0;
    for (; rate >= 999.5 && unit + 1 < sizeof units / sizeof units[0]; unit++)
        rate /= 1000;
    three_digits(rate > 0 ? rate : 0, units[unit], out);
    return out;
}

const char *human_share(double share, char out[HUMAN_TEXT_MAX])
{
    double percents = share > 0 ? share * 100 : 0;
    bool is_near_an_end = (percents > 0 && percents < 9.95) || (percents >= 99 && percents < 99.95);
    if (percents >= 99.95 && percents < 100)
        snprintf(out, HUMAN_TEXT_MAX, percents < 99.995 ? "%.2f %%" : "99.99 %%", percents);
    else
        snprintf(out, HUMAN_TEXT_MAX, "%.*f %%", is_near_an_end ? 1 : 0, percents);
    return out;
}

const char *human_moment(struct wall_time moment, struct wall_time now, char out[HUMAN_TEXT_MAX])
{
    char span[HUMAN_TEXT_MAX - 8];
    char text[HUMAN_TEXT_MAX];
    int64_t since = now.us - moment.us;
    if (moment.us == 0)
        snprintf(out, HUMAN_TEXT_MAX, "-");
    else if (since > -US_PER_S && since < US_PER_S)
        snprintf(out, HUMAN_TEXT_MAX, "now");
    else {
        snprintf(span, sizeof span, "%s", human_span(since < 0 ? -since : since, text));
        snprintf(out, HUMAN_TEXT_MAX, since < 0 ? "in %s" : "%s ago", span);
    }
    return out;
}

const char *human_date(struct wall_time moment, char out[HUMAN_TEXT_MAX])
{
    time_t seconds = (time_t)(moment.us / US_PER_S);
    struct tm parts;
    if (gmtime_r(&seconds, &parts) == NULL || strftime(out, HUMAN_TEXT_MAX, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
        snprintf(out, HUMAN_TEXT_MAX, "-");
    return out;
}

const char *human_plural(int64_t count)
{
    return count == 1 ? "" : "s";
}
