/* holdfast queues: what there is, who serves it, and deleting one. */
#include "worker/commands/command.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "queue/operate.h"
#include "queue/waiting.h"
#include "worker/commands/backlog.h"
#include "worker/commands/task_view.h"
#include "worker/print/human.h"

enum { FREE_PAGE = 200, DIGEST_MAX = 256 };

struct queues_command {
    struct console console;
    bool is_sure;
};

static const struct option_row options[] = {
    {OPTION_FLAG, 'y', "yes", NULL, "delete without being asked", .offset = offsetof(struct queues_command, is_sure)},
    {OPTION_TABLE, .table = console_options, .offset = offsetof(struct queues_command, console)},
    {.type = OPTION_END},
};

static int queues_list(struct console *console)
{
    struct backlog backlog;
    struct fleet fleet = {0};
    backlog_read(&backlog, console);
    if (fleet_read(&fleet, console) == EXIT_CODE_OK) {
        struct printer out = printer_begin(console->as_json, console->now, &(struct buffer){0});
        backlog_complain(&backlog, console);
        backlog_put(&backlog, &fleet, &out);
        printer_end(&out);
    }
    backlog_free(&backlog);
    fleet_free(&fleet);
    return console->code;
}

/* --- deleting --------------------------------------------------------------------------------------------------- */

struct deletion {
    struct console *console;
    const char *name;
    char id[OPERATE_ID_SIZE];
    long long length, freed;
    struct task_view view;
};

/* Complains when there is no such queue. */
static int length_read(struct deletion *deletion)
{
    struct console *console = deletion->console;
    char quoted[LOG_QUOTE_MAX];
    node_client_begin(console->client);
    node_client_ask(console->client, "LLEN", console_key(console, console->keys.queue_prefix, deletion->name), NULL);
    node_client_ask(console->client, "SISMEMBER", console->keys.queues, deletion->name, NULL);
    node_client_ask(console->client, "SISMEMBER", console->keys.paused, deletion->name, NULL);
    console_run(console);
    deletion->length = node_client_integer(console->client, 0, -1);
    bool is_listed = node_client_integer(console->client, 1, 1) == 1 || node_client_integer(console->client, 2, 1) == 1;
    if (deletion->length == 0 && !is_listed)
        return console_complain(console, "there is no queue %s", log_quote(deletion->name, quoted));
    return console->code;
}

static int drop(struct deletion *deletion)
{
    struct console *console = deletion->console;
    char quoted[LOG_QUOTE_MAX];
    operate_new_id(deletion->id);
    node_client_begin(console->client);
    operate_drop(&console->keys, deletion->id, deletion->name, node_client_compose(console->client));
    console_run(console);
    deletion->length = node_client_integer(console->client, 0, -2);
    if (deletion->length == -2)
        return console_refuse(console, 0);
    if (deletion->length == -1)
        return console_complain(console, "the key of queue %s holds something that is no list; nothing was deleted",
                                log_quote(deletion->name, quoted));
    return EXIT_CODE_OK;
}

/* What is left of the tasks of a page: what they hold as unique, and in which waiting lists they are. */
struct leftovers {
    struct operate_unique uniques[FREE_PAGE];
    struct operate_unique waits[FREE_PAGE]; /* the name of a list, and the jid that is in it */
    size_t unique_count, wait_count;
};

static void leftover_add(struct operate_unique *items, size_t *count, const char *name, const char *jid)
{
    items[(*count)++] = (struct operate_unique){.digest = memory_text(name), .jid = memory_text(jid)};
}

static void leftovers_take(struct leftovers *leftovers, struct deletion *deletion, const struct redis_reply *page)
{
    const struct envelope *envelope = &deletion->view.envelope;
    for (size_t i = 0; i < page->count && i < FREE_PAGE; i++) {
        task_view_read(&deletion->view, page->elements[i].bytes, page->elements[i].length);
        const char *digest = task_view_text(&deletion->view, "hf_unique");
        if (digest != NULL && strlen(digest) <= DIGEST_MAX)
            leftover_add(leftovers->uniques, &leftovers->unique_count, digest, envelope->jid);
        if (deletion->view.is_task && envelope->list[0] != '\0' && envelope->jid[0] != '\0')
            leftover_add(leftovers->waits, &leftovers->wait_count, envelope->list, envelope->jid);
    }
}

static void items_free(struct operate_unique *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(items[i].digest);
        free(items[i].jid);
    }
}

/* A deleted task that was on its way to a lock will not come: the next of its line is woken. */
static void waits_request(const struct leftovers *leftovers, struct console *console)
{
    for (size_t i = 0; i < leftovers->wait_count; i++) {
        const char *list = leftovers->waits[i].digest;
        waiting_request_free(&console->keys,
                             &(struct waiting_end){.lists = &list, .list_count = 1, .jid = leftovers->waits[i].jid},
                             node_client_compose(console->client));
    }
}

static void leftovers_free(struct leftovers *leftovers, struct deletion *deletion)
{
    struct console *console = deletion->console;
    node_client_begin(console->client);
    if (leftovers->unique_count > 0)
        operate_free(&console->keys, leftovers->uniques, leftovers->unique_count, node_client_compose(console->client));
    waits_request(leftovers, console);
    console_run(console);
    if (leftovers->unique_count > 0)
        deletion->freed += node_client_integer(console->client, 0, 0);
}

static const struct redis_reply *page_ask(struct deletion *deletion, long long from, size_t *limit)
{
    struct console *console = deletion->console;
    const struct redis_reply *page = NULL;
    char first[24], last[24];
    snprintf(first, sizeof first, "%lld", from);
    do {
        snprintf(last, sizeof last, "%lld", from + (long long)*limit - 1);
        node_client_may_divide(console->client, *limit > 1);
        page = console_ask(console, "LRANGE", console_key(console, console->keys.dropped_prefix, deletion->id), first,
                           last, NULL);
    } while (console_asks_less(console, limit));
    return page;
}

/* False when there is no such page. */
static bool page_free(struct deletion *deletion, long long from, size_t *limit)
{
    struct leftovers leftovers = {.unique_count = 0};
    const struct redis_reply *page = page_ask(deletion, from, limit);
    if (page->kind != REDIS_ARRAY || page->count == 0)
        return false;
    leftovers_take(&leftovers, deletion, page);
    leftovers_free(&leftovers, deletion);
    items_free(leftovers.uniques, leftovers.unique_count);
    items_free(leftovers.waits, leftovers.wait_count);
    return true;
}

/* What the deleted tasks held as unique may be pushed again, and nobody waits for them at a lock. */
static int all_free(struct deletion *deletion)
{
    struct console *console = deletion->console;
    size_t limit = FREE_PAGE;
    for (long long from = 0; from < deletion->length && page_free(deletion, from, &limit);)
        from += (long long)limit;
    task_view_fini(&deletion->view);
    if (deletion->length > 0)
        console_ask(console, "UNLINK", console_key(console, console->keys.dropped_prefix, deletion->id), NULL);
    if (console->code != EXIT_CODE_OK)
        console_complain(console, "the queue is deleted; what some of its tasks held as unique stays held until that "
                                  "expires");
    return console->code;
}

static void deletion_tell(const struct deletion *deletion)
{
    char human[HUMAN_TEXT_MAX], quoted[LOG_QUOTE_MAX], freed[HUMAN_TEXT_MAX + 32] = "";
    struct printer out = printer_begin(deletion->console->as_json, deletion->console->now, &(struct buffer){0});
    if (deletion->freed > 0)
        snprintf(freed, sizeof freed, ", %s of them unique", human_count(deletion->freed, human));
    printer_line(&out, "deleted queue %s with %s task%s%s", log_quote(deletion->name, quoted),
                 human_count(deletion->length, human), human_plural(deletion->length), freed);
    printer_text(&out, NULL, "deleted", deletion->name);
    printer_number(&out, NULL, "tasks", deletion->length);
    printer_number(&out, NULL, "unique_freed", deletion->freed);
    printer_end(&out);
}

static int queue_delete(struct console *console, const char *name, bool is_sure)
{
    char human[HUMAN_TEXT_MAX], quoted[LOG_QUOTE_MAX];
    struct deletion deletion = {.console = console, .name = name};
    int code = length_read(&deletion);
    if (code != EXIT_CODE_OK)
        return code;
    if (!console_confirm(console, is_sure, "delete the queue %s and its %s task%s", log_quote(name, quoted),
                         human_count(deletion.length, human), human_plural(deletion.length)))
        return EXIT_CODE_FAILURE;
    code = drop(&deletion);
    if (code != EXIT_CODE_OK)
        return code;
    code = all_free(&deletion);
    deletion_tell(&deletion);
    return code;
}

static int run(int argc, char **argv)
{
    struct queues_command command = {.is_sure = false};
    struct command_line line;
    if (!command_line_read(&line, &command_queues, argc, argv, &command))
        return line.exit_code;
    bool deletes = line.argument_count > 0 && strcmp(line.arguments[0], "delete") == 0;
    if (line.argument_count > 0 && !deletes && strcmp(line.arguments[0], "list") != 0)
        return command_misused(&command_queues, "there is no 'queues %s': it is list or delete", line.arguments[0]);
    if (line.argument_count != (deletes ? 2 : line.argument_count > 0))
        return command_misused(&command_queues, deletes ? "name the queue to delete" : "list takes no name");
    struct console *console = &command.console;
    int code = console_open(console, &command_queues, ORIGIN_NEEDS_QUEUE, deletes);
    if (code == EXIT_CODE_OK)
        code = deletes ? queue_delete(console, line.arguments[1], command.is_sure) : queues_list(console);
    return console_close(console, code);
}

const struct command command_queues = {
    .name = "queues",
    .summary = "list the queues, or delete one",
    .arguments = "[list | delete NAME]",
    .about =
        "Lists the queues with their lengths, how long the oldest task has waited, how many processes serve them,\n"
        "and which are paused. A queue with tasks that nobody serves is a mistake, mostly in a name.\n"
        "\n"
        "`delete` takes a queue away with all its tasks, and gives free what they held as unique. It asks first;\n"
        "without a terminal it wants --yes. A name may hold anything that a producer made of it; the shell writes the\n"
        "byte that is shown as \\xE9 as $'\\xE9'.\n"
        "\n"
        "JSON: queues, a list of name, length, latency (seconds), paused, served_by (identities); null is not\n"
        "known. Of delete: deleted, tasks, unique_freed.\n",
    .examples = "  holdfast queues\n"
                "  holdfast queues delete old_reports --yes\n",
    .options = options,
    .arguments_max = 2,
    .run = run,
};
