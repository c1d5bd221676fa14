/* Reading the fleet: the identities first, in bounded pieces, then what each says, in one pipeline for a hundred.
 *
 * Two keys list processes: `processes`, which every worker writes and dashboards read, and hf:2:processes, the
 * leases. A process may be in one only: a dead one of ours leaves `processes` when its hash has expired, and foreign
 * ones have no lease. */
#include "worker/commands/fleet.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/real.h"
#include "worker/print/human.h"

enum { ASKED_AT_ONCE = 100, SCAN_COUNT = 500, FIELD_COUNT = 8 };

/* --- identities ------------------------------------------------------------------------------------------------- */

static struct fleet_process *process_add(struct fleet *fleet, const struct redis_reply *identity)
{
    for (size_t i = 0; i < fleet->count; i++)
        if (strcmp(fleet->items[i].identity, identity->bytes) == 0)
            return &fleet->items[i];
    if (fleet->count == FLEET_MAX) {
        fleet->is_cut = true;
        return NULL;
    }
    fleet->items = memory_resize(fleet->items, fleet->count + 1, sizeof *fleet->items);
    fleet->items[fleet->count] = (struct fleet_process){.identity = memory_text(identity->bytes)};
    return &fleet->items[fleet->count++];
}

static void leased_read(struct fleet *fleet, struct console *console)
{
    const struct redis_reply *reply =
        console_ask(console, "ZRANGE", console->keys.processes, "0", "9999", "WITHSCORES", NULL);
    for (size_t i = 0; reply->kind == REDIS_ARRAY && i + 1 < reply->count; i += 2) {
        struct fleet_process *process = process_add(fleet, &reply->elements[i]);
        if (process == NULL)
            break;
        process->is_leased = true;
        process->lease_end = wall_read(reply->elements[i + 1].bytes);
    }
}

static void shown_read(struct fleet *fleet, struct console *console)
{
    char cursor[32] = "0";
    do {
        const struct redis_reply *reply =
            console_ask(console, "SSCAN", console->keys.listed, cursor, "COUNT", "500", NULL);
        if (reply->kind != REDIS_ARRAY || reply->count != 2)
            break;
        snprintf(cursor, sizeof cursor, "%s", reply->elements[0].bytes);
        for (size_t i = 0; i < reply->elements[1].count; i++)
            process_add(fleet, &reply->elements[1].elements[i]);
    } while (strcmp(cursor, "0") != 0 && !fleet->is_cut);
}

/* --- what each says --------------------------------------------------------------------------------------------- */

static long long number_of(const struct redis_reply *value)
{
    return value->bytes != NULL ? strtoll(value->bytes, NULL, 10) : 0;
}

/* Of the hash that dashboards read. */
#define PROCESS_FIELDS "info", "busy", "beat", "rtt_us", "quiet", "rss", "concurrency", "hf_classes"

static void process_read(struct fleet_process *process, const struct redis_reply *fields)
{
    static const struct redis_reply nothing = {.kind = REDIS_NIL};
    bool is_whole = fields->kind == REDIS_ARRAY && fields->count == FIELD_COUNT;
    const struct redis_reply *values[FIELD_COUNT];
    for (size_t i = 0; i < FIELD_COUNT; i++)
        values[i] = is_whole ? &fields->elements[i] : &nothing;
    process->is_shown = values[0]->bytes != NULL;
    process_info_read(&process->info, values[0]->bytes, values[0]->length);
    process->concurrency = process->info.concurrency;
    process->busy = number_of(values[1]);
    process->beat.us = values[2]->bytes != NULL ? wall_read(values[2]->bytes).us : 0;
    process->rtt_us = number_of(values[3]);
    process->is_quiet =
        values[4]->bytes != NULL && (strcmp(values[4]->bytes, "true") == 0 || strcmp(values[4]->bytes, "1") == 0);
    process->rss_kb = number_of(values[5]);
    if (values[6]->bytes != NULL)
        process->concurrency = number_of(values[6]);
    free(process->classes);
    process->classes = values[7]->bytes != NULL ? memory_text(values[7]->bytes) : NULL;
}

/* Names, one a line. */
static void queues_take(struct fleet_process *process, const char *lines)
{
    if (process->info.queue_count > 0)
        return;
    char *copy = memory_text(lines), *rest = copy;
    for (char *name; (name = strsep(&rest, "\n")) != NULL;) {
        if (name[0] == '\0')
            continue;
        process->info.queues =
            memory_resize(process->info.queues, process->info.queue_count + 1, sizeof *process->info.queues);
        process->info.queues[process->info.queue_count++] = memory_text(name);
    }
    free(copy);
}

static void state_decide(struct fleet_process *process, struct wall_time now, bool was_recovered)
{
    if (process->is_leased && was_recovered)
        process->state = FLEET_RECOVERED; /* its time is that of the next look at it, which may lie ahead */
    else if (process->is_leased)
        process->state = process->lease_end.us >= now.us ? FLEET_ALIVE : FLEET_LOST;
    else
        process->state =
            strncmp(process->info.version, "holdfast", 8) == 0 || !process->is_shown ? FLEET_UNLEASED : FLEET_FOREIGN;
}

static void ask_about(struct console *console, const struct fleet_process *process)
{
    const char *key = console_key(console, console->keys.process_prefix, process->identity);
    node_client_ask(console->client, "HMGET", process->identity, PROCESS_FIELDS, NULL);
    node_client_ask(console->client, "HMGET", key, "queues", "gone", "terms", "waits", NULL);
    node_client_ask(console->client, "HLEN", key, NULL);
}

static void answer_take(struct console *console, struct fleet_process *process, size_t at)
{
    process_read(process, node_client_reply(console->client, at));
    const struct redis_reply *ours = node_client_reply(console->client, at + 1);
    bool is_whole = ours->kind == REDIS_ARRAY && ours->count == 4;
    const char *queues = is_whole ? ours->elements[0].bytes : NULL, *gone = is_whole ? ours->elements[1].bytes : NULL;
    const char *terms = is_whole ? ours->elements[2].bytes : NULL, *waits = is_whole ? ours->elements[3].bytes : NULL;
    process->terms = memory_text(terms != NULL ? terms : "");
    process->waits = memory_text(waits != NULL ? waits : "");
    if (queues != NULL)
        queues_take(process, queues);
    else if (gone != NULL && gone[0] != '\0')
        queues_take(process, gone + 1);
    long long fields = node_client_integer(console->client, at + 2, 0);
    process->is_clash = ours->kind == REDIS_FAILURE;
    process->claims = fields - (queues != NULL) - (gone != NULL) - (terms != NULL) - (waits != NULL);
    state_decide(process, console->now, gone != NULL);
}

static void details_read(struct fleet *fleet, struct console *console)
{
    for (size_t from = 0; from < fleet->count; from += ASKED_AT_ONCE) {
        size_t to = fleet->count - from < ASKED_AT_ONCE ? fleet->count : from + ASKED_AT_ONCE;
        node_client_begin(console->client);
        for (size_t i = from; i < to; i++)
            ask_about(console, &fleet->items[i]);
        console_run(console);
        for (size_t i = from; i < to; i++)
            answer_take(console, &fleet->items[i], (i - from) * 3);
    }
}

/* --- the fleet -------------------------------------------------------------------------------------------------- */

static int by_identity(const void *a, const void *b)
{
    const struct fleet_process *left = a, *right = b;
    return strcmp(left->identity, right->identity);
}

int fleet_read(struct fleet *fleet, struct console *console)
{
    *fleet = (struct fleet){.count = 0};
    leased_read(fleet, console);
    shown_read(fleet, console);
    details_read(fleet, console);
    if (fleet->count > 0)
        qsort(fleet->items, fleet->count, sizeof *fleet->items, by_identity);
    return console->code;
}

void fleet_free(struct fleet *fleet)
{
    for (size_t i = 0; i < fleet->count; i++) {
        struct fleet_process *process = &fleet->items[i];
        process_info_fini(&process->info);
        free(process->identity);
        free(process->classes);
        free(process->terms);
        free(process->waits);
    }
    free(fleet->items);
    *fleet = (struct fleet){.count = 0};
}

const struct fleet_process *fleet_find(const struct fleet *fleet, const char *identity)
{
    for (size_t i = 0; i < fleet->count; i++)
        if (strcmp(fleet->items[i].identity, identity) == 0)
            return &fleet->items[i];
    return NULL;
}

static bool names_line(const char *lines, const char *text)
{
    size_t length = strlen(text);
    for (const char *at = lines; at != NULL; at = strchr(at, '\n') != NULL ? strchr(at, '\n') + 1 : NULL)
        if (strncmp(at, text, length) == 0 && (at[length] == '\n' || at[length] == '\0'))
            return true;
    return false;
}

bool fleet_announces(const struct fleet *fleet, const char *class_name)
{
    for (size_t i = 0; i < fleet->count; i++) {
        const struct fleet_process *process = &fleet->items[i];
        if (process->state == FLEET_ALIVE && (process->classes == NULL || names_line(process->classes, class_name)))
            return true;
    }
    return false;
}

/* --- terms -------------------------------------------------------------------------------------------------------- */

/* Usually all have the same, and a change brings one or two more. */
enum { TERMS_COMPARED_MAX = 8 };

/* Of processes with the same terms that wait for the same, the first stands for all. */
static bool party_add(struct terms_party parties[TERMS_COMPARED_MAX], size_t count, const struct terms_party *party)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(parties[i].terms, party->terms) == 0 && strcmp(parties[i].waits, party->waits) == 0)
            return false;
    parties[count] = *party;
    return true;
}

/* A process whose lease has ended may run on until others have recovered it. */
void fleet_compare_terms(const struct fleet *fleet, const struct terms_party *own,
                         void (*tell)(void *context, const struct terms_difference *difference), void *context)
{
    struct terms_party parties[TERMS_COMPARED_MAX];
    size_t count = 0;
    for (size_t i = 0; i < fleet->count && count < TERMS_COMPARED_MAX; i++) {
        const struct fleet_process *process = &fleet->items[i];
        const struct terms_party party = {process->identity, process->terms, process->waits};
        if (process->state == FLEET_ALIVE || process->state == FLEET_LOST)
            count += party_add(parties, count, &party);
    }
    for (size_t i = 0; i < count; i++) {
        if (own != NULL)
            terms_compare(own, &parties[i], tell, context);
        for (size_t j = 0; own == NULL && j < i; j++)
            terms_compare(&parties[i], &parties[j], tell, context);
    }
}

bool fleet_process_names(const struct fleet_process *process, const char *queue)
{
    for (size_t i = 0; i < process->info.queue_count; i++)
        if (strcmp(process->info.queues[i], queue) == 0)
            return true;
    return false;
}

bool fleet_process_serves(const struct fleet_process *process, const char *queue)
{
    bool takes = process->state == FLEET_ALIVE || process->state == FLEET_FOREIGN;
    return takes && fleet_process_names(process, queue);
}

size_t fleet_servers(const struct fleet *fleet, const char *queue)
{
    size_t servers = 0;
    for (size_t i = 0; i < fleet->count; i++)
        servers += fleet_process_serves(&fleet->items[i], queue);
    return servers;
}

static const char *state_name(enum fleet_state state)
{
    static const char *const names[] = {[FLEET_ALIVE] = "alive",
                                        [FLEET_LOST] = "lost",
                                        [FLEET_RECOVERED] = "recovered",
                                        [FLEET_UNLEASED] = "unleased",
                                        [FLEET_FOREIGN] = "foreign"};
    return names[state];
}

static void state_put(const struct fleet_process *process, struct printer *out)
{
    static const enum table_style styles[] = {[FLEET_ALIVE] = TABLE_GOOD,
                                              [FLEET_LOST] = TABLE_BAD,
                                              [FLEET_RECOVERED] = TABLE_DIM,
                                              [FLEET_UNLEASED] = TABLE_DIM,
                                              [FLEET_FOREIGN] = TABLE_WARN};
    enum table_style style = styles[process->state];
    const char *name = state_name(process->state);
    char since[HUMAN_TEXT_MAX];
    if (process->is_clash)
        printer_cell(out, "STATE:0,1", style, "%s, claims ?", name);
    else if (process->state == FLEET_ALIVE && process->is_quiet)
        printer_cell(out, "STATE:0,1", TABLE_WARN, "quiet");
    else if (process->state == FLEET_LOST)
        printer_cell(out, "STATE:0,1", style, "lost, lease ended %s",
                     human_moment(process->lease_end, out->now, since));
    else
        printer_cell(out, "STATE:0,1", style, "%s", name);
}

void fleet_process_put(const struct fleet_process *process, struct printer *out)
{
    char human[HUMAN_TEXT_MAX];
    printer_row(out);
    printer_name(out, "PROCESS:12", "identity", process->identity);
    printer_text(out, NULL, "state", state_name(process->state));
    state_put(process, out);
    printer_moment(out, NULL, "lease_end", process->is_leased ? process->lease_end : (struct wall_time){0});
    printer_text(out, NULL, "host", process->info.host);
    printer_number(out, NULL, "pid", process->info.pid);
    printer_text(out, NULL, "version", process->info.version);
    printer_number(out, NULL, "busy", process->busy);
    printer_number(out, NULL, "concurrency", process->concurrency);
    printer_cell(out, ">BUSY", TABLE_PLAIN, process->is_shown ? "%lld/%lld" : "-", process->busy, process->concurrency);
    printer_rank(out, process->busy);
    printer_truth(out, "quiet", process->is_quiet);
    printer_number(out, NULL, "rss_kb", process->rss_kb);
    printer_cell(out, ">MEMORY:0,3", TABLE_PLAIN, "%s",
                 process->is_shown ? human_size(process->rss_kb * 1024, human) : "-");
    printer_rank(out, process->rss_kb);
    printer_moment(out, ".BEAT:0,2", "beat", process->beat);
    printer_texts(out, "QUEUES:8,4", "queues", process->info.queues, process->info.queue_count);
    printer_number(out, NULL, "threads", process->concurrency);
    printer_about(out, process->identity);
    printer_row_end(out);
}
