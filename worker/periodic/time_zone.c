/* A reader of TZif files (RFC 8536). A file holds its data twice: first with times of 32 bits for old readers, which
 * is skipped, then with times of 64 bits; behind that, a rule for all years to come (time_zone_rule.h).
 *
 *     "TZif" version counts | data with 32 bits | "TZif" version counts | data with 64 bits | newline rule newline
 *     data: times of the changes, their types (a byte each), the types (offset, summer?, name), names, leap seconds
 *
 * Every count and index comes from a file and is checked before it is used. */
#include "worker/periodic/time_zone.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/log.h"
#include "base/memory.h"
#include "worker/periodic/civil.h"
#include "worker/periodic/time_zone_rule.h"

#define DIRECTORY "/usr/share/zoneinfo"

/* Some files begin with the big bang. */
#define TIME_MAX (INT64_C(1) << 60)

enum {
    NAME_BYTES_MAX = 64,
    FILE_BYTES_MAX = 256 * 1024,
    HEADER_BYTES = 44,
    TYPE_BYTES = 6,
    OFFSET_MAX = 26 * CIVIL_HOUR_S,
    RULE_BYTES_MAX = 256
};

/* From `at` on the clock has this offset. */
struct change {
    int64_t at;
    int32_t offset;
};

struct time_zone {
    int32_t first_offset; /* before the first change */
    struct change *changes;
    size_t change_count;
    bool has_rule;
    struct time_zone_rule rule;
};

/* --- numbers of a file ------------------------------------------------------------------------------------------ */

static uint64_t number_at(const char *bytes, size_t length)
{
    uint64_t number = 0;
    for (size_t i = 0; i < length; i++)
        number = number << 8 | (unsigned char)bytes[i];
    return number;
}

struct header {
    char version;
    uint64_t utc_flags, standard_flags, leaps, changes, types, name_bytes;
};

static bool header_read(const char *bytes, size_t length, struct header *header, struct error *error)
{
    if (length < HEADER_BYTES || memcmp(bytes, "TZif", 4) != 0)
        return error_set(error, "it is no file of a time zone");
    *header = (struct header){.version = bytes[4],
                              .utc_flags = number_at(bytes + 20, 4),
                              .standard_flags = number_at(bytes + 24, 4),
                              .leaps = number_at(bytes + 28, 4),
                              .changes = number_at(bytes + 32, 4),
                              .types = number_at(bytes + 36, 4),
                              .name_bytes = number_at(bytes + 40, 4)};
    return true;
}

/* The counts have 32 bits: their sum cannot overflow. */
static uint64_t data_bytes(const struct header *header, unsigned time_bytes)
{
    return header->changes * (time_bytes + 1) + header->types * TYPE_BYTES + header->name_bytes +
           header->leaps * (time_bytes + 4) + header->standard_flags + header->utc_flags;
}

/* --- the data with 64 bits -------------------------------------------------------------------------------------- */

static bool type_offset(const struct header *header, const char *types, unsigned type, int32_t *offset,
                        struct error *error)
{
    if (type >= header->types)
        return error_set(error, "it names a type that it does not have");
    *offset = (int32_t)number_at(types + (size_t)type * TYPE_BYTES, 4);
    return (*offset > -OFFSET_MAX && *offset < OFFSET_MAX) || error_set(error, "it has an offset of more than a day");
}

static bool changes_read(struct time_zone *zone, const struct header *header, const char *data, struct error *error)
{
    const char *indexes = data + header->changes * 8, *types = indexes + header->changes;
    if (!type_offset(header, types, 0, &zone->first_offset, error))
        return false;
    zone->changes = memory_zeroed(header->changes + 1, sizeof *zone->changes);
    zone->change_count = header->changes;
    for (size_t i = 0; i < zone->change_count; i++) {
        struct change *change = &zone->changes[i];
        change->at = (int64_t)number_at(data + i * 8, 8);
        if (change->at < -TIME_MAX || change->at > TIME_MAX || (i > 0 && change->at <= change[-1].at))
            return error_set(error, "its changes are not in order");
        if (!type_offset(header, types, (unsigned char)indexes[i], &change->offset, error))
            return false;
    }
    return true;
}

static bool footer_read(struct time_zone *zone, const char *bytes, size_t length, struct error *error)
{
    char text[RULE_BYTES_MAX];
    const char *end = length > 0 ? memchr(bytes + 1, '\n', length - 1) : NULL;
    if (end == NULL || bytes[0] != '\n' || end - bytes > RULE_BYTES_MAX)
        return error_set(error, "it ends before its rule");
    size_t rule_length = (size_t)(end - bytes) - 1;
    memcpy(text, bytes + 1, rule_length);
    text[rule_length] = '\0';
    zone->has_rule = rule_length > 0;
    return !zone->has_rule || time_zone_rule_parse(text, &zone->rule, error);
}

static bool zone_read(struct time_zone *zone, const char *bytes, size_t length, struct error *error)
{
    struct header header;
    if (!header_read(bytes, length, &header, error))
        return false;
    uint64_t old_bytes = HEADER_BYTES + data_bytes(&header, 4);
    if (header.version < '2' || old_bytes > length)
        return error_set(error, "it has no times of 64 bits, or is cut off");
    bytes += old_bytes;
    length -= old_bytes;
    if (!header_read(bytes, length, &header, error))
        return false;
    uint64_t data = data_bytes(&header, 8);
    if (data > length - HEADER_BYTES)
        return error_set(error, "it is cut off");
    if (header.leaps > 0)
        return error_set(error, "it counts leap seconds, which the clocks of computers do not");
    return changes_read(zone, &header, bytes + HEADER_BYTES, error) &&
           footer_read(zone, bytes + HEADER_BYTES + data, length - HEADER_BYTES - data, error);
}

struct time_zone *time_zone_parse(const char *bytes, size_t length, struct error *error)
{
    struct time_zone *zone = memory_new(struct time_zone);
    if (zone_read(zone, bytes, length, error))
        return zone;
    time_zone_close(zone);
    return NULL;
}

void time_zone_close(struct time_zone *zone)
{
    if (zone == NULL)
        return;
    free(zone->changes);
    free(zone);
}

/* --- files ------------------------------------------------------------------------------------------------------ */

/* Words of letters, digits, "_", "+" and "-" with slashes between them: no way out of the directory. */
static bool name_is_sound(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+-";
    if (strlen(name) > NAME_BYTES_MAX)
        return false;
    while (true) {
        size_t word = strspn(name, letters);
        if (word == 0)
            return false;
        name += word;
        if (*name == '\0')
            return true;
        if (*name++ != '/')
            return false;
    }
}

static bool descriptor_read(int fd, struct buffer *content, struct error *error)
{
    struct stat status;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size > FILE_BYTES_MAX)
        return error_set(error, "it is no file of a time zone");
    ssize_t got = 1;
    while (got > 0 && content->length <= FILE_BYTES_MAX) {
        got = read(fd, buffer_reserve(content, 4096), 4096);
        content->length += got > 0 ? (size_t)got : 0;
    }
    return got == 0 || error_set(error, "%m");
}

static struct time_zone *file_read(const char *path, struct error *error)
{
    struct buffer content = {0};
    struct time_zone *zone = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        error_set(error, "there is no such zone (a name like \"Europe/Vienna\"; package tzdata)");
    else if (fd < 0)
        error_set(error, "%m");
    else if (descriptor_read(fd, &content, error))
        zone = time_zone_parse(content.bytes, content.length, error);
    if (fd >= 0)
        close(fd);
    buffer_fini(&content);
    if (zone == NULL)
        error_prefix(error, "%s", path);
    return zone;
}

struct time_zone *time_zone_open(const char *name, struct error *error)
{
    char quoted[LOG_QUOTE_MAX];
    const char *directory = getenv("TZDIR");
    if (strcmp(name, "UTC") == 0)
        return memory_new(struct time_zone);
    if (!name_is_sound(name)) {
        error_set(error, "%s is no name of a time zone: expected one like \"Europe/Vienna\"", log_quote(name, quoted));
        return NULL;
    }
    struct buffer path = {0};
    buffer_format(&path, "%s/%s", directory != NULL && directory[0] != '\0' ? directory : DIRECTORY, name);
    struct time_zone *zone = file_read(buffer_text(&path), error);
    buffer_fini(&path);
    return zone;
}

/* --- asking ----------------------------------------------------------------------------------------------------- */

/* The number of changes that have happened by then. */
static size_t changes_until(const struct time_zone *zone, int64_t seconds)
{
    size_t low = 0, high = zone->change_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (zone->changes[middle].at <= seconds)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The changes of the year before, this year and the next: the span around `seconds` begins and ends with one. Of two
 * at one moment (summer time all the year ends when it begins) the later in the order counts. */
static struct time_zone_span rule_span(const struct time_zone_rule *rule, int64_t seconds)
{
    struct time_zone_span span = {TIME_ZONE_EVER_BEFORE, TIME_ZONE_EVER_AFTER, rule->offset};
    if (!rule->has_summer)
        return span;
    int64_t year = civil_date(civil_day_of(seconds + rule->offset)).year;
    bool summer_first = time_zone_change_in(&rule->to_summer, year) - rule->offset <
                        time_zone_change_in(&rule->to_standard, year) - rule->summer_offset;
    for (unsigned i = 0; i < 6; i++) {
        bool to_summer = (i % 2 == 0) == summer_first;
        const struct time_zone_change *change = to_summer ? &rule->to_summer : &rule->to_standard;
        int64_t at = time_zone_change_in(change, year - 1 + i / 2) - (to_summer ? rule->offset : rule->summer_offset);
        if (at <= seconds && at >= span.from) {
            span.from = at;
            span.offset = to_summer ? rule->summer_offset : rule->offset;
        } else if (at > seconds && at < span.until) {
            span.until = at;
        }
    }
    return span;
}

struct time_zone_span time_zone_span(const struct time_zone *zone, int64_t seconds)
{
    size_t past = changes_until(zone, seconds);
    struct time_zone_span span = {TIME_ZONE_EVER_BEFORE, TIME_ZONE_EVER_AFTER, zone->first_offset};
    bool by_rule = past == zone->change_count && zone->has_rule;
    if (by_rule)
        span = rule_span(&zone->rule, seconds);
    else if (past > 0)
        span.offset = zone->changes[past - 1].offset;
    if (past > 0 && span.from < zone->changes[past - 1].at)
        span.from = zone->changes[past - 1].at;
    if (past < zone->change_count)
        span.until = zone->changes[past].at;
    return span;
}
