/* holdfast periodic: the periodic tasks of a configuration, when they come, and what the queue node knows of them.
 *
 * The list itself needs no node: when it is silent, that is said and the rest is printed all the same. */
#include "worker/commands/command.h"

#include <stdlib.h>

#include "base/memory.h"
#include "worker/commands/console.h"
#include "worker/periodic/civil.h"
#include "worker/periodic/cron.h"
#include "worker/periodic/periodic_entry.h"
#include "worker/periodic/time_zone.h"
#include "worker/print/human.h"
#include "worker/print/printer.h"

enum { NEXT_DEFAULT = 3, NEXT_MAX = 100 };

struct listing {
    struct console console;
    struct periodic_entries *entries;
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

/* In seconds; 0 is never. */
struct note {
    int64_t last;         /* the last tick that was pushed */
    int64_t since;        /* when workers began with the schedule */
    const char *schedule; /* cron and zone of the workers; "" if none has looked */
};

/* What include/tick_note.lua writes. */
static struct note noted_at(const struct listing *listing, size_t index)
{
    struct note note = {.schedule = ""};
    if (listing->noted == NULL || listing->noted->elements[index].kind != REDIS_STRING)
        return note;
    char *rest;
    note.last = strtoll(listing->noted->elements[index].bytes, &rest, 10);
    note.since = strtoll(rest, &rest, 10);
    note.schedule = *rest == ' ' ? rest + 1 : "";
    return note;
}

/* Workers that run have another schedule for this name, or had when they ended. */
static bool differs(const struct listing *listing, size_t index, const struct note *note)
{
    return note->schedule[0] != '\0' && strcmp(note->schedule, listing->entries->items[index].schedule) != 0;
}

static int noted_read(struct listing *listing)
{
    struct node_client *client = listing->console.client;
    node_client_begin(client);
    struct buffer *request = node_client_compose(client);
    redis_request_begin(request, listing->entries->count + 2);
    redis_request_text(request, "HMGET");
    redis_request_text(request, listing->console.keys.periodic);
    for (size_t i = 0; i < listing->entries->count; i++)
        redis_request_text(request, listing->entries->items[i].config->name);
    console_run(&listing->console);
    listing->noted = node_client_reply_of(client, 0, REDIS_ARRAY);
    if (listing->noted != NULL && listing->noted->count == listing->entries->count)
        return EXIT_CODE_OK;
    listing->noted = NULL;
    return console_refuse(&listing->console, 0);
}

static int entries_make(struct listing *listing)
{
    struct error error = ERROR_NONE;
    struct envelope_limits limits = config_task_limits(listing->console.config);
    listing->entries = periodic_entries_make(listing->console.config, &limits, &error);
    return listing->entries != NULL ? EXIT_CODE_OK : console_complain(&listing->console, "%s", error.text);
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
    struct note note = noted_at(listing, index);
    if (listing->noted == NULL)
        return "?";
    if (note.last == 0)
        return "never";
    return human_moment((struct wall_time){note.last * US_PER_S}, (struct wall_time){listing->now * US_PER_S}, out);
}

/* A tick a row for people, an entry a row for programs. */
static void ticks_put(const struct listing *listing, size_t index, struct printer *out)
{
    const struct periodic_entry *entry = &listing->entries->items[index];
    int64_t tick = listing->now;
    printer_unknown(out, "");
    for (int64_t i = 0; i < listing->next; i++) {
        char text[HUMAN_TEXT_MAX];
        tick = cron_next(&entry->cron, tick, entry->zone);
        if (tick == CRON_NEVER)
            return;
        printer_row(out);
        printer_name(out, "NAME", NULL, i == 0 ? entry->config->name : NULL);
        printer_text(out, "LAST PUSHED", NULL, i == 0 ? last_text(listing, index, text) : "");
        printer_moment(out, NULL, "time", (struct wall_time){tick * US_PER_S});
        printer_text(out, "NEXT", NULL, human_date((struct wall_time){tick * US_PER_S}, text));
        printer_text(out, "LOCAL TIME", "local", local_date(entry, tick, out->is_json ? 'T' : ' ', text));
        printer_name(out, "ZONE", NULL, i == 0 ? entry->config->zone : NULL);
        printer_row_end(out);
    }
}

static void entry_json(const struct listing *listing, size_t index, struct printer *out)
{
    const struct periodic_entry *entry = &listing->entries->items[index];
    struct note note = noted_at(listing, index);
    printer_row(out);
    json_text(&out->json, "name", entry->config->name);
    json_text(&out->json, "cron", entry->config->cron);
    json_text(&out->json, "zone", entry->config->zone);
    json_text(&out->json, "class", entry->config->class_name);
    json_text(&out->json, "queue", entry->config->queue);
    json_seconds_if(&out->json, "last_pushed", note.last > 0, note.last * US_PER_S);
    json_seconds_if(&out->json, "known_since", note.since > 0, note.since * US_PER_S);
    json_text(&out->json, "workers_have", differs(listing, index, &note) ? note.schedule : NULL);
    printer_list(out, "next");
    ticks_put(listing, index, out);
    printer_list_end(out, NULL);
    printer_row_end(out);
}

/* On standard error: a table on standard output stays one. */
static void difference_tell(const struct listing *listing, size_t index)
{
    char name[LOG_QUOTE_MAX], theirs[LOG_QUOTE_MAX];
    struct note note = noted_at(listing, index);
    if (differs(listing, index, &note))
        fprintf(stderr, "holdfast periodic: %s: workers have the schedule %s (SIGHUP makes them read the file again)\n",
                log_quote(listing->entries->items[index].config->name, name), log_quote(note.schedule, theirs));
}

static void listing_print(const struct listing *listing)
{
    struct wall_time now = {listing->now * US_PER_S};
    struct printer out = printer_begin(listing->console.as_json, now, &(struct buffer){0});
    printer_truth(&out, "node_answers", listing->node_answers);
    printer_moment(&out, NULL, "now", now);
    printer_list(&out, "periodic");
    for (size_t i = 0; i < listing->entries->count; i++)
        if (out.is_json)
            entry_json(listing, i, &out);
        else
            ticks_put(listing, i, &out);
    printer_list_end(&out, listing->entries->count == 0 ? "no periodic tasks" : NULL);
    printer_end(&out);
    for (size_t i = 0; i < listing->entries->count && !listing->console.as_json; i++)
        difference_tell(listing, i);
}

/* --- the command ------------------------------------------------------------------------------------------------ */

static int periodic_list(struct listing *listing)
{
    struct console *console = &listing->console;
    int code = console_open(console, &command_periodic, ORIGIN_NEEDS_LOCKS, false);
    if (console->client == NULL)
        return code; /* there is no good configuration */
    int made = entries_make(listing);
    if (made != EXIT_CODE_OK)
        return made;
    listing->now = (code == EXIT_CODE_OK ? console->now : wall_now()).us / US_PER_S;
    if (code == EXIT_CODE_OK && listing->entries->count > 0)
        code = noted_read(listing);
    listing->node_answers = code == EXIT_CODE_OK;
    listing_print(listing);
    return code;
}

static int run(int argc, char **argv)
{
    struct listing listing = {.next = NEXT_DEFAULT};
    struct command_line line;
    if (!command_line_read(&line, &command_periodic, argc, argv, &listing))
        return line.exit_code;
    int code = periodic_list(&listing);
    periodic_entries_free(listing.entries);
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
        "JSON: node_answers, now, and periodic, a list of name, cron, zone, class, queue, last_pushed, known_since,\n"
        "workers_have and next (a list of time and local). known_since: since when workers have this schedule;\n"
        "workers_have: the cron and zone that they have, where it is another one (else null).\n",
    .examples = "  holdfast periodic\n"
                "  holdfast periodic --next 10 --json\n",
    .options = options,
    .run = run,
};
