/* holdfast periodic: the periodic tasks of a configuration, when they come, and what the queue node knows of them.
 *
 * The list itself needs no node: when it is silent, that is said and the rest is printed all the same. */
#include "worker/commands/command.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "worker/periodic/civil.h"
#include "worker/commands/console.h"
#include "worker/print/human.h"
#include "worker/print/json_writer.h"
#include "worker/periodic/periodic_entry.h"
#include "worker/print/table.h"

enum { NEXT_DEFAULT = 3, NEXT_MAX = 100 };

struct listing {
    struct console console;
    struct periodic_entry *entries;
    size_t count;
    const struct redis_reply *noted; /* of HMGET; NULL when the node is silent */
    bool node_answers;
    int64_t now; /* seconds; of the node if it answers */
    int64_t next;
};

#define AT(member) offsetof(struct listing, member)
static const struct option_row options[] = {
    {OPTION_COUNT, 0, "next", "N", "how many coming ticks of each, 1 to 100 (3)", .offset = AT(next), .least = 1,
     .most = NEXT_MAX},
    {OPTION_TABLE, .table = console_config_options, .offset = AT(console)},
    {.type = OPTION_END},
};
#undef AT

/* --- what is known ---------------------------------------------------------------------------------------------- */

/* The last tick; negative: none yet, and since when the node knows of it; 0: it does not. */
static int64_t noted_at(const struct listing *listing, size_t index)
{
    if (listing->noted == NULL || listing->noted->elements[index].kind != REDIS_STRING)
        return 0;
    return strtoll(listing->noted->elements[index].bytes, NULL, 10);
}

static int noted_read(struct listing *listing)
{
    struct inquiry *inquiry = listing->console.inquiry;
    inquiry_begin(inquiry);
    struct buffer *request = inquiry_compose(inquiry);
    redis_request_begin(request, listing->count + 2);
    redis_request_text(request, "HMGET");
    redis_request_text(request, listing->console.keys.periodic);
    for (size_t i = 0; i < listing->count; i++)
        redis_request_text(request, listing->entries[i].config->name);
    int code = console_run(&listing->console);
    if (code != EXIT_CODE_OK)
        return code;
    listing->noted = inquiry_reply_of(inquiry, 0, REDIS_ARRAY);
    if (listing->noted == NULL || listing->noted->count != listing->count) {
        listing->noted = NULL;
        return (int)inquiry_complain_reply(inquiry, 0, listing->console.command->name);
    }
    return EXIT_CODE_OK;
}

static int entries_make(struct listing *listing)
{
    const struct config *config = listing->console.config;
    struct envelope_limits limits = config_task_limits(config);
    listing->entries = memory_zeroed(config->periodic_count + 1, sizeof *listing->entries);
    for (; listing->count < config->periodic_count; listing->count++) {
        struct error error = ERROR_NONE;
        struct periodic_entry *entry = &listing->entries[listing->count];
        if (!periodic_entry_init(entry, &config->periodic[listing->count], &limits, &error)) {
            periodic_entry_fini(entry);
            return console_complain(&listing->console, "%s", error.text);
        }
    }
    return EXIT_CODE_OK;
}

/* --- printing --------------------------------------------------------------------------------------------------- */

/* 2026-11-21 19:05:00 +01:00; `mark` stands between date and time. */
static const char *local_date(const struct periodic_entry *entry, int64_t seconds, char mark, char out[HUMAN_TEXT_MAX])
{
    int32_t offset = time_zone_span(entry->zone, seconds).offset, ahead = offset < 0 ? -offset : offset;
    int64_t local = seconds + offset, day = civil_day_of(local);
    struct civil_date date = civil_date(day);
    unsigned second = (unsigned)(local - day * CIVIL_DAY_S);
    snprintf(out, HUMAN_TEXT_MAX, "%04lld-%02u-%02u%c%02u:%02u:%02u%s%c%02d:%02d", (long long)date.year, date.month,
             date.day, mark, second / CIVIL_HOUR_S, second / CIVIL_MINUTE_S % 60, second % 60, mark == ' ' ? " " : "",
             offset < 0 ? '-' : '+', ahead / CIVIL_HOUR_S, ahead / CIVIL_MINUTE_S % 60);
    return out;
}

static const char *last_text(const struct listing *listing, size_t index, char out[HUMAN_TEXT_MAX])
{
    int64_t noted = noted_at(listing, index);
    if (listing->noted == NULL)
        return "?";
    if (noted <= 0)
        return "never";
    return human_moment((struct wall_time){noted * US_PER_S}, (struct wall_time){listing->now * US_PER_S}, out);
}

static void print_entry(const struct listing *listing, size_t index, struct table *table)
{
    const struct periodic_entry *entry = &listing->entries[index];
    int64_t tick = listing->now;
    for (int64_t i = 0; i < listing->next; i++) {
        char name[LOG_QUOTE_MAX], zone[LOG_QUOTE_MAX], text[HUMAN_TEXT_MAX];
        tick = cron_next(&entry->cron, tick, entry->zone);
        if (tick == CRON_NEVER)
            return;
        table_cell(table, TABLE_PLAIN, "%s", i == 0 ? log_quote(entry->config->name, name) : "");
        table_cell(table, TABLE_PLAIN, "%s", i == 0 ? last_text(listing, index, text) : "");
        table_cell(table, TABLE_PLAIN, "%s", human_date((struct wall_time){tick * US_PER_S}, text));
        table_cell(table, TABLE_PLAIN, "%s", local_date(entry, tick, ' ', text));
        table_cell(table, TABLE_PLAIN, "%s", i == 0 ? log_quote(entry->config->zone, zone) : "");
    }
}

static void print_for_people(const struct listing *listing)
{
    if (listing->count == 0) {
        printf("no periodic tasks\n");
        return;
    }
    struct table *table = table_create("NAME|LAST PUSHED|NEXT|LOCAL TIME|ZONE");
    for (size_t i = 0; i < listing->count; i++)
        print_entry(listing, i, table);
    table_print(table, stdout);
}

static void json_moment(struct json_writer *json, const char *name, int64_t seconds)
{
    json_seconds_if(json, name, seconds > 0, seconds * US_PER_S);
}

static void json_entry(struct json_writer *json, const struct listing *listing, size_t index)
{
    const struct periodic_entry *entry = &listing->entries[index];
    int64_t noted = noted_at(listing, index), tick = listing->now;
    json_open(json, NULL, '{');
    json_text(json, "name", entry->config->name);
    json_text(json, "cron", entry->config->cron);
    json_text(json, "zone", entry->config->zone);
    json_text(json, "class", entry->config->class_name);
    json_text(json, "queue", entry->config->queue);
    json_moment(json, "last_pushed", noted);
    json_moment(json, "known_since", -noted);
    json_open(json, "next", '[');
    for (int64_t i = 0; i < listing->next; i++) {
        char text[HUMAN_TEXT_MAX];
        tick = cron_next(&entry->cron, tick, entry->zone);
        if (tick == CRON_NEVER)
            break;
        json_open(json, NULL, '{');
        json_moment(json, "time", tick);
        json_text(json, "local", local_date(entry, tick, 'T', text));
        json_close(json, '}');
    }
    json_close(json, ']');
    json_close(json, '}');
}

static void print_json(const struct listing *listing)
{
    struct json_writer json = json_begin(&(struct buffer){0});
    json_truth(&json, "node_answers", listing->node_answers);
    json_seconds(&json, "now", listing->now * US_PER_S);
    json_open(&json, "periodic", '[');
    for (size_t i = 0; i < listing->count; i++)
        json_entry(&json, listing, i);
    json_close(&json, ']');
    json_finish(&json);
}

/* --- the command ------------------------------------------------------------------------------------------------ */

static int periodic_list(struct listing *listing)
{
    struct console *console = &listing->console;
    int code = console_open(console, &command_periodic, ORIGIN_NEEDS_LOCKS, false);
    if (console->inquiry == NULL)
        return code; /* there is no good configuration */
    int made = entries_make(listing);
    if (made != EXIT_CODE_OK)
        return made;
    listing->now = (code == EXIT_CODE_OK ? console->now : wall_now()).us / US_PER_S;
    if (code == EXIT_CODE_OK && listing->count > 0)
        code = noted_read(listing);
    listing->node_answers = code == EXIT_CODE_OK;
    if (console->as_json)
        print_json(listing);
    else
        print_for_people(listing);
    return code;
}

static int run(int argc, char **argv)
{
    struct listing listing = {.next = NEXT_DEFAULT};
    struct command_line line;
    if (!command_line_read(&line, &command_periodic, argc, argv, &listing))
        return line.exit_code;
    int code = periodic_list(&listing);
    for (size_t i = 0; i < listing.count; i++)
        periodic_entry_fini(&listing.entries[i]);
    free(listing.entries);
    return console_close(&listing.console, code);
}

const struct command command_periodic = {
    .name = "periodic",
    .summary = "list the periodic tasks and when they come",
    .about =
        "Lists the periodic tasks of the configuration: their next ticks, in UTC and on the clock of their zone, and\n"
        "the last tick that any worker pushed, as the queue node knows it. \"never\" means that none came yet.\n"
        "When the queue node does not answer, that is said, the list is printed without what it knows (\"?\"),\n"
        "from the clock of this machine, and the exit code is that of the failure.\n"
        "\n"
        "JSON: node_answers, now, and periodic, a list of name, cron, zone, class, queue, last_pushed, known_since\n"
        "(both in seconds or null: of a task that was never pushed, since when ticks can be missed), next (a list\n"
        "of time and local).\n",
    .examples = "  holdfast periodic\n"
                "  holdfast periodic --next 10 --json\n",
    .options = options,
    .run = run,
};
