/* Usually the line of its end has all facts about a task. If the log has starts, a task is an open run in between,
 * found by its jid; a process has a few of them at a time, so they are searched from the newest. */
#include "worker/history/log_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"

/* --- one line ----------------------------------------------------------------------------------------------------- */

/* Taking a line of a log apart, in its own copy of the bytes: the blanks behind words become their ends. */

#define CUT_MARK           " [cut]"
#define JSON_CUT_MARK      "[cut]\"}"
#define JSON_LIST_CUT_MARK "[cut]\"]}"

/* What is left of the line. */
struct cursor {
    char *at;
    bool is_broken; /* a quote without an end */
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* That many digits; -1 when they are not there. */
static int digits_read(const char *text, unsigned count)
{
    int number = 0;
    for (unsigned i = 0; i < count; i++) {
        if (!is_digit(text[i]))
            return -1;
        number = 10 * number + (text[i] - '0');
    }
    return number;
}

/* 2026-11-22T00:39:05.123Z, with up to six digits behind the point, or none and no point. */
static bool time_read(const char *text, struct wall_time *at)
{
    static const char shape[] = "dddd-dd-ddTdd:dd:dd";
    for (size_t i = 0; shape[i] != '\0'; i++)
        if (shape[i] == 'd' ? !is_digit(text[i]) : text[i] != shape[i])
            return false;
    struct tm utc = {.tm_year = digits_read(text, 4) - 1900,
                     .tm_mon = digits_read(text + 5, 2) - 1,
                     .tm_mday = digits_read(text + 8, 2),
                     .tm_hour = digits_read(text + 11, 2),
                     .tm_min = digits_read(text + 14, 2),
                     .tm_sec = digits_read(text + 17, 2)};
    const char *rest = text + sizeof shape - 1;
    int64_t fraction_us = 0, unit = US_PER_S / 10;
    if (*rest == '.')
        for (rest++; is_digit(*rest) && unit > 0; rest++, unit /= 10)
            fraction_us += (*rest - '0') * unit;
    if (strcmp(rest, "Z") != 0 || utc.tm_mon < 0 || utc.tm_mon > 11 || utc.tm_mday < 1 || utc.tm_mday > 31)
        return false;
    at->us = (int64_t)timegm(&utc) * US_PER_S + fraction_us;
    return true;
}

/* The next word, ended by a blank or the line; NULL when there is none. */
static char *word_take(struct cursor *cursor)
{
    while (*cursor->at == ' ')
        cursor->at++;
    if (*cursor->at == '\0')
        return NULL;
    char *word = cursor->at;
    cursor->at += strcspn(word, " ");
    if (*cursor->at != '\0')
        *cursor->at++ = '\0';
    return word;
}

/* What is within quotes, in place; NULL when the closing one is missing. */
static char *quoted_take(struct cursor *cursor)
{
    char *from = cursor->at + 1, *to = from;
    for (char *at = from; *at != '\0'; at++) {
        if (*at == '"') {
            cursor->at = at + 1;
            *to = '\0';
            return from;
        }
        if (*at == '\\' && (at[1] == '"' || at[1] == '\\'))
            at++;
        *to++ = *at;
    }
    return NULL;
}

static bool is_name(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!(text[i] >= 'a' && text[i] <= 'z') && !is_digit(text[i]) && text[i] != '_')
            return false;
    return length > 0;
}

/* False when it has no value: a quote without an end. */
static bool pair_keep(struct log_line *line, struct cursor *cursor, struct log_pair pair)
{
    cursor->is_broken = pair.value == NULL;
    if (pair.value != NULL && line->pair_count < LOG_LINE_PAIRS_MAX)
        line->pairs[line->pair_count++] = pair;
    return pair.value != NULL;
}

/* False at the end of the line, and where it makes no sense any more. */
static bool pair_take(struct log_line *line, struct cursor *cursor)
{
    while (*cursor->at == ' ')
        cursor->at++;
    size_t length = strcspn(cursor->at, "= ");
    if (*cursor->at == '\0')
        return false;
    if (cursor->at[length] != '=' || !is_name(cursor->at, length))
        return word_take(cursor) != NULL; /* skips it */
    struct log_pair pair = {.key = cursor->at};
    cursor->at[length] = '\0';
    cursor->at += length + 1;
    pair.value = cursor->at;
    if (*cursor->at == '"')
        pair.value = quoted_take(cursor);
    else if (*cursor->at == ' ' || *cursor->at == '\0')
        pair.value = "";
    else
        word_take(cursor);
    return pair_keep(line, cursor, pair);
}

/* The next string or word of a JSON object: a key, or a value of the last key. Its end is where the line makes no sense
 * any more. */
static bool token_take(struct log_line *line, struct cursor *cursor, const char **key)
{
    cursor->at += strspn(cursor->at, "{}[],: ");
    if (*cursor->at == '\0')
        return false;
    char *token = cursor->at;
    bool is_string = *token == '"';
    if (is_string) {
        token = quoted_take(cursor);
    } else {
        cursor->at += strcspn(token, ",]} ");
        if (*cursor->at != '\0')
            *cursor->at++ = '\0';
    }
    if (!is_string || token == NULL || *cursor->at != ':')
        return pair_keep(line, cursor, (struct log_pair){*key, is_string || strcmp(token, "null") != 0 ? token : "-"});
    *key = token;
    return true;
}

/* The mark stands behind what is left of the last value. */
static bool has_ending(const char *text, size_t length, const char *ending)
{
    size_t own = strlen(ending);
    return length >= own && memcmp(text + length - own, ending, own) == 0;
}

static bool json_parse(struct log_line *line, struct cursor *cursor)
{
    const char *key = "";
    while (token_take(line, cursor, &key))
        ;
    line->level = log_line_value(line, "level");
    line->event = log_line_value(line, "msg");
    if (line->is_cut && line->pair_count > 0 && strcmp(line->pairs[line->pair_count - 1].value, "[cut]") == 0)
        line->pair_count--; /* it stood alone */
    return time_read(log_line_value(line, "time"), &line->at);
}

static bool text_parse(struct log_line *line, struct cursor *cursor)
{
    const char *time = word_take(cursor);
    line->level = word_take(cursor);
    line->event = word_take(cursor);
    if (time == NULL || line->level == NULL || line->event == NULL || !time_read(time, &line->at))
        return false;
    while (pair_take(line, cursor))
        ;
    return true;
}

bool log_line_parse(struct log_line *line, const char *text, size_t length)
{
    bool is_json = length > 0 && text[0] == '{';
    line->pair_count = 0;
    line->is_cut = has_ending(text, length, is_json ? JSON_CUT_MARK : CUT_MARK) ||
                   (is_json && has_ending(text, length, JSON_LIST_CUT_MARK));
    if (length > LOG_LINE_BYTES_MAX || (length > 0 && memchr(text, '\0', length) != NULL))
        return false;
    if (line->is_cut && !is_json)
        length -= strlen(CUT_MARK);
    memcpy(line->bytes, text, length);
    line->bytes[length] = '\0';
    struct cursor cursor = {.at = line->bytes};
    bool is_sound = is_json ? json_parse(line, &cursor) : text_parse(line, &cursor);
    if (!is_sound || !is_name(line->event, strlen(line->event)))
        return false;
    if (line->is_cut && !cursor.is_broken && line->pair_count > 0)
        line->pair_count--;
    line->is_cut |= cursor.is_broken;
    return true;
}

const char *log_line_value(const struct log_line *line, const char *key)
{
    for (unsigned i = 0; i < line->pair_count; i++)
        if (strcmp(line->pairs[i].key, key) == 0)
            return line->pairs[i].value;
    return "";
}

int64_t log_line_thousandths(const struct log_line *line, const char *key)
{
    const char *text = log_line_value(line, key);
    int64_t number = 0;
    unsigned digits = 0, behind = 0;
    for (; is_digit(*text) && digits < 15; text++, digits++)
        number = 10 * number + (*text - '0');
    if (digits == 0 || is_digit(*text))
        return -1;
    bool has_point = *text == '.';
    text += has_point;
    for (; behind < 3; behind++)
        number = 10 * number + (has_point && is_digit(*text) ? *text++ - '0' : 0);
    while (has_point && is_digit(*text))
        text++;
    return *text == '\0' ? number : -1;
}

/* False when it is no time. */
static bool line_time(const struct log_line *line, const char *key, struct wall_time *at)
{
    return time_read(log_line_value(line, key), at);
}

/* --- the reader -------------------------------------------------------------------------------------------------- */

/* OPEN_RUNS_MAX: no process has more runners than that, twice over; a log that says so is wrong. */
enum { OPEN_RUNS_MAX = 4096, PROCESS_MAX = 256, CHUNK = 65536 };

/* Its texts are those of the history. */
struct run {
    struct history_hold hold; /* `resources` when it is added */
    const char *resources[HISTORY_RESOURCES_MAX];
};

/* A run that nobody saw the end of. */
struct orphan {
    struct run run;
    struct wall_time last;     /* the last word of its process */
    struct wall_time replaced; /* when another process took over its log */
};

struct log_reader {
    struct history *history;
    struct log_counts counts;
    struct log_line line;
    char process[PROCESS_MAX];
    struct wall_time first, last; /* of this process; us = 0: nothing yet */
    struct run *runs;
    size_t run_count;
    struct orphan *orphans;
    size_t orphan_count, orphan_capacity;
};

/* --- open runs -------------------------------------------------------------------------------------------------- */

static struct run *run_find(struct log_reader *reader, const char *jid)
{
    for (size_t i = reader->run_count; i > 0; i--)
        if (strcmp(reader->runs[i - 1].hold.jid, jid) == 0)
            return &reader->runs[i - 1];
    return NULL;
}

/* Taken out of the list. */
static struct run run_take(struct log_reader *reader, struct run *run)
{
    struct run taken = *run;
    reader->run_count--;
    memmove(run, run + 1, (size_t)(&reader->runs[reader->run_count] - run) * sizeof *run);
    return taken;
}

static void run_orphan(struct log_reader *reader, struct run run, struct wall_time replaced)
{
    if (reader->orphan_count == HISTORY_NOTES_MAX)
        return;
    if (reader->orphan_count == reader->orphan_capacity) {
        reader->orphan_capacity = 2 * reader->orphan_capacity + 64;
        reader->orphans = memory_resize(reader->orphans, reader->orphan_capacity, sizeof *reader->orphans);
    }
    run.hold.process = history_text(reader->history, reader->process);
    reader->orphans[reader->orphan_count++] = (struct orphan){run, reader->last, replaced};
}

static struct run run_begin(const struct log_reader *reader, const char *jid, struct wall_time from)
{
    return (struct run){
        .hold = {.jid = history_text(reader->history, jid), .from = from, .waited_us = -1, .held_us = -1}};
}

/* "-" is what an absent text looks like. */
static const char *value_of(const struct log_line *line, const char *key)
{
    const char *value = log_line_value(line, key);
    return strcmp(value, "-") != 0 ? value : "";
}

/* A cut line may name a few of several: the longer list is right. */
static void resources_take(const struct log_reader *reader, struct run *run)
{
    const struct log_line *line = &reader->line;
    const char *named[HISTORY_RESOURCES_MAX];
    unsigned count = 0;
    for (unsigned i = 0; i < line->pair_count && count < HISTORY_RESOURCES_MAX; i++)
        if (strcmp(line->pairs[i].key, "resource") == 0 && strcmp(line->pairs[i].value, "-") != 0)
            named[count++] = line->pairs[i].value;
    if (count <= run->hold.resource_count)
        return;
    run->hold.resource_count = count;
    for (unsigned i = 0; i < count; i++)
        run->resources[i] = history_text(reader->history, named[i]);
}

/* What an earlier line said stays, unless this one says something. */
static void text_take(const struct log_reader *reader, const char **text, const char *key)
{
    const char *value = value_of(&reader->line, key);
    if (value[0] != '\0')
        *text = history_text(reader->history, value);
}

/* Logs of before 0.9 say of a lock the token only. */
static void facts_take(const struct log_reader *reader, struct run *run)
{
    const struct log_line *line = &reader->line;
    struct history_hold *hold = &run->hold;
    int64_t waited_us = log_line_thousandths(line, "lock_waited_ms");
    text_take(reader, &hold->class_name, "class");
    text_take(reader, &hold->fence, "fence");
    resources_take(reader, run);
    hold->is_locked |= line_time(line, "locked", &hold->from) || hold->fence != NULL;
    hold->is_handed_over |= value_of(line, "handed_from")[0] != '\0';
    hold->is_lost |= strcmp(value_of(line, "lost"), "yes") == 0;
    hold->is_refused |= strcmp(value_of(line, "refused"), "yes") == 0;
    hold->held_us = log_line_thousandths(line, "held_ms");
    hold->waited_us = waited_us >= 0 ? waited_us : hold->waited_us;
}

static void run_add(struct log_reader *reader, struct run *run, struct wall_time to, const char *ending)
{
    run->hold.resources = run->resources;
    run->hold.to = to;
    run->hold.ending = ending;
    run->hold.is_open = ending == NULL;
    history_add(reader->history, &run->hold);
}

/* --- processes -------------------------------------------------------------------------------------------------- */

static void process_end(struct log_reader *reader, struct wall_time replaced)
{
    while (reader->run_count > 0)
        run_orphan(reader, run_take(reader, &reader->runs[0]), replaced);
    if (reader->first.us != 0)
        history_add_process(reader->history, reader->process, reader->first, reader->last);
    reader->first = reader->last = (struct wall_time){0};
}

/* HOST:PID of HOST:PID:NONCE. */
static void process_name(char name[PROCESS_MAX], const char *identity)
{
    snprintf(name, PROCESS_MAX, "%s", identity);
    char *nonce = strrchr(name, ':');
    if (nonce != NULL && strchr(name, ':') != nonce)
        *nonce = '\0';
}

static void heard(struct log_reader *reader)
{
    if (reader->first.us == 0)
        reader->first = reader->line.at;
    reader->last = reader->line.at;
}

/* --- events ----------------------------------------------------------------------------------------------------- */

static bool started_read(struct log_reader *reader)
{
    const char *identity = value_of(&reader->line, "identity");
    if (identity[0] == '\0')
        return false;
    process_end(reader, reader->line.at);
    process_name(reader->process, identity);
    heard(reader);
    return true;
}

static bool running_read(struct log_reader *reader)
{
    const struct log_line *line = &reader->line;
    const char *jid = value_of(line, "jid");
    if (jid[0] == '\0')
        return false;
    struct run *earlier = run_find(reader, jid);
    if (earlier != NULL || reader->run_count == OPEN_RUNS_MAX)
        run_orphan(reader, run_take(reader, earlier != NULL ? earlier : &reader->runs[0]), line->at);
    reader->runs[reader->run_count] = run_begin(reader, jid, line->at);
    facts_take(reader, &reader->runs[reader->run_count++]);
    return true;
}

static bool ended_read(struct log_reader *reader)
{
    const struct log_line *line = &reader->line;
    const char *jid = value_of(line, "jid"), *ending = value_of(line, "ending");
    struct wall_time to = line->at, locked;
    int64_t ran_us = log_line_thousandths(line, "ran_ms");
    if (ending[0] == '\0')
        return false;
    struct run *open = run_find(reader, jid);
    if (open == NULL && ran_us < 0 && !line_time(line, "locked", &locked)) {
        history_add(reader->history,
                    &(struct history_ending){line->at, value_of(line, "class"), value_of(line, "resource"), ending});
        return true;
    }
    struct run run = open != NULL ? run_take(reader, open)
                                  : run_begin(reader, jid, (struct wall_time){to.us - (ran_us > 0 ? ran_us : 0)});
    facts_take(reader, &run);
    (void)line_time(line, "released", &to);
    run.hold.is_lost |= strcmp(ending, "lock_lost") == 0;
    run.hold.process = reader->process;
    run_add(reader, &run, to, ending);
    return true;
}

static bool summed_read(struct log_reader *reader)
{
    const struct log_line *line = &reader->line;
    struct history_gap gap = {.from = line->at, .to = line->at};
    static const char *const sums[] = {"done", "skipped", "snoozed"};
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++) {
        int64_t tasks = log_line_thousandths(line, sums[i]);
        gap.tasks += tasks > 0 ? (uint64_t)tasks / 1000 : 0;
    }
    if (!line_time(line, "since", &gap.from) || !line_time(line, "until", &gap.to))
        return false;
    history_add(reader->history, &gap);
    return true;
}

static void hold_mark(struct log_reader *reader, const char *kind, const char *jid, const struct run *run)
{
    const char *resource = value_of(&reader->line, "resource");
    history_add(reader->history,
                &(struct history_mark){.at = reader->line.at,
                                       .kind = kind,
                                       .process = reader->process,
                                       .resource = resource[0] == '\0' && run != NULL && run->hold.resource_count > 0
                                                       ? run->resources[0]
                                                       : resource,
                                       .jid = jid,
                                       .text = value_of(&reader->line, "reason")});
}

/* The owner of a worker's lock is HOST:PID:SLOT:JID, and a jid may hold anything. */
static const char *jid_of_owner(const char *owner)
{
    for (unsigned i = 0; i < 3; i++) {
        owner = strchr(owner, ':');
        if (owner == NULL)
            return "";
        owner++;
    }
    return owner;
}

static bool lost_read(struct log_reader *reader)
{
    const char *jid = jid_of_owner(value_of(&reader->line, "owner"));
    struct run *run = jid[0] != '\0' ? run_find(reader, jid) : NULL;
    if (run != NULL)
        run->hold.is_lost = true;
    hold_mark(reader, "lost", jid, run);
    return true;
}

static bool refused_read(struct log_reader *reader)
{
    const char *jid = value_of(&reader->line, "jid");
    struct run *run = run_find(reader, jid);
    if (run != NULL)
        run->hold.is_refused = true;
    hold_mark(reader, "refused", jid, run);
    return true;
}

static bool dropped_read(struct log_reader *reader)
{
    int64_t lines = log_line_thousandths(&reader->line, "lines");
    reader->counts.dropped += lines > 0 ? (uint64_t)lines / 1000 : 0;
    return lines >= 0;
}

/* --- what scripts write ----------------------------------------------------------------------------------------- */

static bool part_read(struct log_reader *reader)
{
    history_add(reader->history, &(struct history_part){reader->line.at, value_of(&reader->line, "title")});
    return true;
}

static bool mark_read(struct log_reader *reader)
{
    const struct log_line *line = &reader->line;
    const char *kind = value_of(line, "kind");
    history_add(reader->history, &(struct history_mark){.at = line->at,
                                                        .kind = kind,
                                                        .process = value_of(line, "host"),
                                                        .node = value_of(line, "node"),
                                                        .resource = value_of(line, "resource"),
                                                        .jid = value_of(line, "jid"),
                                                        .text = value_of(line, "text")});
    return kind[0] != '\0';
}

static bool fact_read(struct log_reader *reader)
{
    const struct log_line *line = &reader->line;
    const char *tone = value_of(line, "tone");
    history_add(reader->history, &(struct history_fact){.at = line->at,
                                                        .tone = strcmp(tone, "good") == 0  ? HISTORY_GOOD
                                                                : strcmp(tone, "bad") == 0 ? HISTORY_BAD
                                                                                           : HISTORY_PLAIN,
                                                        .name = value_of(line, "name"),
                                                        .value = value_of(line, "value")});
    return true;
}

/* --- lines ------------------------------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    bool (*read)(struct log_reader *reader); /* false: the line lacks what it must have */
    bool is_of_process;
} events[] = {
    {"worker_started", started_read, false}, {"task_started", running_read, true},
    {"task_ended", ended_read, true},        {"tasks_summed", summed_read, true},
    {"lock_lost", lost_read, true},          {"write_refused", refused_read, true},
    {"log_dropped", dropped_read, true},     {"demo_part", part_read, false},
    {"demo_mark", mark_read, false},         {"demo_fact", fact_read, false},
};

void log_reader_line(struct log_reader *reader, const char *text, size_t length)
{
    struct log_line *line = &reader->line;
    reader->counts.lines++;
    if (!log_line_parse(line, text, length)) {
        reader->counts.broken++;
        return;
    }
    reader->counts.cut += line->is_cut;
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++) {
        if (strcmp(line->event, events[i].name) != 0)
            continue;
        if (events[i].is_of_process)
            heard(reader);
        bool is_good = events[i].read(reader);
        reader->counts.used += is_good;
        reader->counts.broken += !is_good;
        return;
    }
    if (strncmp(line->event, "demo_", 5) != 0)
        heard(reader);
    reader->counts.passed_over++;
}

void log_reader_begin(struct log_reader *reader, const char *name)
{
    process_end(reader, (struct wall_time){INT64_MAX});
    snprintf(reader->process, sizeof reader->process, "%s", name);
}

bool log_reader_file(struct log_reader *reader, const char *name, FILE *file, struct error *error)
{
    char line[LOG_LINE_BYTES_MAX + 1]; /* one byte more than a line may have: such a line is refused */
    size_t length = 0;
    char *chunk = memory_zeroed(CHUNK, 1);
    log_reader_begin(reader, name);
    for (size_t got; (got = fread(chunk, 1, CHUNK, file)) > 0;)
        for (size_t i = 0; i < got; i++) {
            if (chunk[i] == '\n') {
                log_reader_line(reader, line, length);
                length = 0;
            } else if (length < sizeof line) {
                line[length++] = chunk[i];
            }
        }
    free(chunk);
    if (length > 0)
        log_reader_line(reader, line, length);
    if (ferror(file))
        return error_set(error, "%s cannot be read: %s", name, strerror(errno));
    return true;
}

/* --- the end ---------------------------------------------------------------------------------------------------- */

/* When the process of the orphan was killed, at the latest when another one had its log; else its last word. */
static struct wall_time orphan_end(const struct log_reader *reader, const struct orphan *orphan)
{
    size_t count;
    const struct history_mark *marks = history_marks(reader->history, &count);
    const struct history_hold *hold = &orphan->run.hold;
    struct wall_time end = {INT64_MAX};
    for (size_t i = 0; i < count; i++)
        if (strcmp(marks[i].kind, "killed") == 0 && history_names_process(marks[i].process, hold->process) &&
            marks[i].at.us >= hold->from.us && marks[i].at.us < end.us)
            end = marks[i].at;
    if (end.us != INT64_MAX && end.us <= orphan->replaced.us)
        return end;
    return orphan->last.us > hold->from.us ? orphan->last : hold->from;
}

void log_reader_finish(struct log_reader *reader)
{
    process_end(reader, (struct wall_time){INT64_MAX});
    for (size_t i = 0; i < reader->orphan_count; i++) {
        struct orphan *orphan = &reader->orphans[i];
        run_add(reader, &orphan->run, orphan_end(reader, orphan), NULL);
    }
    reader->orphan_count = 0;
}

struct log_reader *log_reader_create(struct history *history)
{
    struct log_reader *reader = memory_new(struct log_reader);
    reader->history = history;
    reader->runs = memory_zeroed(OPEN_RUNS_MAX, sizeof *reader->runs);
    return reader;
}

void log_reader_destroy(struct log_reader *reader)
{
    if (reader == NULL)
        return;
    free(reader->orphans);
    free(reader->runs);
    free(reader);
}

struct log_counts log_reader_counts(const struct log_reader *reader)
{
    return reader->counts;
}
