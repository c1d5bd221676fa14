/* holdfast tasks retry, bury and delete.
 *
 * Tasks that are named are found and moved one by one, so that each gets its own answer. All tasks of a state are
 * walked through and moved by the page: as many as were there at the beginning, because what is moved may come back
 * (a task that is retried fails again) while the walk goes on. */
#include "worker/commands/tasks.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "worker/commands/progress_bar.h"
#include "worker/print/human.h"

enum { BYTES_A_CALL = 1 << 20, LOOK_SLACK = 1000, RESULT_NOT_FOUND = -3, RESULT_UNFIT = -4 };

struct operation {
    struct tasks *tasks;
    enum operate_verb verb;
    struct task_view view;
    struct printer out;
    unsigned long long done, gone, refused;
    unsigned long long trimmed; /* entries of `dead` that had to make room */
};

bool tasks_want(const struct tasks *tasks, struct task_view *view, const struct task_entry *entry)
{
    if (tasks->queue != NULL) {
        const char *queue = entry->queue != NULL ? entry->queue : view->is_task ? view->envelope.queue : "";
        if (strcmp(queue, tasks->queue) != 0)
            return false;
    }
    return tasks->class_name == NULL || (view->is_task && (strcmp(view->envelope.class_name, tasks->class_name) == 0 ||
                                                           strcmp(task_view_class(view), tasks->class_name) == 0));
}

/* --- one call --------------------------------------------------------------------------------------------------- */

enum { TEXT_FRESH, TEXT_QUEUE, TEXT_UNIQUE, TEXT_JID, TEXT_LIST, TEXT_UNSERVED, TEXTS };

/* The entries of one call; their texts are owned. */
struct batch {
    struct operate_entry items[OPERATE_ENTRIES_MAX];
    struct task_entry *entries[OPERATE_ENTRIES_MAX];
    char *texts[OPERATE_ENTRIES_MAX][TEXTS];
    int answers[OPERATE_ENTRIES_MAX];
    size_t count, bytes;
};

static void batch_clear(struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        for (size_t j = 0; j < TEXTS; j++)
            free(batch->texts[i][j]);
    batch->count = batch->bytes = 0;
}

static void unique_take(struct operation *operation, struct batch *batch, struct operate_entry *item)
{
    const char *digest = task_view_text(&operation->view, "hf_unique");
    if (operation->verb == OPERATE_RETRY || digest == NULL || strlen(digest) > 256)
        return;
    item->unique = batch->texts[batch->count][TEXT_UNIQUE] = memory_text(digest);
}

/* By which it is known elsewhere. */
static void names_take(struct operation *operation, struct batch *batch, struct operate_entry *item)
{
    const struct envelope *envelope = &operation->view.envelope;
    if (!operation->view.is_task)
        return;
    item->jid = batch->texts[batch->count][TEXT_JID] = memory_text(envelope->jid);
    if (envelope->list[0] != '\0' && envelope->jid[0] != '\0')
        item->list = batch->texts[batch->count][TEXT_LIST] = memory_text(envelope->list);
    if (envelope->unserved_at.us != 0)
        batch->texts[batch->count][TEXT_UNSERVED] = memory_text(envelope->class_name);
}

/* False with a reason when this entry cannot be moved. The view is of this entry. */
static bool batch_add(struct operation *operation, struct batch *batch, struct task_entry *entry, struct error *error)
{
    struct buffer fresh = {0}, queue = {0};
    struct operate_entry *item = &batch->items[batch->count];
    bool fits =
        tasks_rewrite(operation->verb, entry, &operation->view, operation->tasks->console.now, &fresh, &queue, error);
    if (fits) {
        char **texts = batch->texts[batch->count];
        memset(texts, 0, sizeof batch->texts[0]);
        texts[TEXT_FRESH] = fresh.bytes;
        texts[TEXT_QUEUE] = memory_text(buffer_text(&queue));
        *item = (struct operate_entry){.seen = entry->seen,
                                       .fresh = {fresh.bytes, fresh.length},
                                       .queue = texts[TEXT_QUEUE],
                                       .field = entry->slot};
        unique_take(operation, batch, item);
        names_take(operation, batch, item);
        batch->entries[batch->count++] = entry;
        batch->bytes += entry->seen.length + fresh.length;
    } else {
        buffer_fini(&fresh);
    }
    buffer_fini(&queue);
    return fits;
}

static struct operate_state source_of(const struct operation *operation, const struct task_entry *entry)
{
    struct operate_state source = {.kind = OPERATE_SET, .list_look = (size_t)operation->tasks->scan_limit + LOOK_SLACK};
    source.key =
        task_state_is_set(entry->state) ? task_state_key(&operation->tasks->console, entry->state) : entry->key;
    if (entry->state == TASK_IN_CLAIMS) {
        source.kind = entry->slot != NULL ? OPERATE_CLAIMS : OPERATE_LIST;
        source.lease_of = entry->identity;
    } else if (entry->state == TASK_IN_QUEUE) {
        source.kind = OPERATE_LIST;
        if (source.list_look < (size_t)entry->position + LOOK_SLACK)
            source.list_look = (size_t)entry->position + LOOK_SLACK;
    }
    return source;
}

static bool is_same_state(const struct task_entry *a, const struct task_entry *b)
{
    return a->key == b->key && (a->slot == NULL) == (b->slot == NULL);
}

/* They wait no more for a process that serves their class; one that stays is noted when it is met again. */
static void unserved_forget(struct console *console, const struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        if (batch->texts[i][TEXT_UNSERVED] != NULL)
            node_client_ask(console->client, "ZREM",
                            console_key(console, console->keys.unserved_prefix, batch->texts[i][TEXT_UNSERVED]),
                            batch->items[i].jid, NULL);
}

/* Sends the batch, whose entries are in one state, and reads the answers. */
static int batch_send(struct operation *operation, struct batch *batch)
{
    struct console *console = &operation->tasks->console;
    struct operate_state source = source_of(operation, batch->entries[0]);
    char id[OPERATE_ID_SIZE];
    operate_new_id(id);
    node_client_begin(console->client);
    operate_move(&console->keys, id, operation->verb, &source, batch->items, batch->count,
                 node_client_compose(console->client));
    unserved_forget(console, batch);
    console_run(console);
    const struct redis_reply *reply = node_client_reply_of(console->client, 0, REDIS_ARRAY);
    if (reply == NULL || reply->count != batch->count + 1)
        return console_refuse(console, 0);
    operation->trimmed += (unsigned long long)reply->elements[batch->count].integer;
    for (size_t i = 0; i < batch->count; i++) {
        batch->answers[i] = (int)reply->elements[i].integer;
        batch->entries[i]->was_removed = batch->answers[i] != OPERATE_CLASH && batch->answers[i] != OPERATE_LIVING;
        operation->done += batch->answers[i] == OPERATE_DONE;
        operation->gone += batch->answers[i] == OPERATE_GONE;
        operation->refused += batch->answers[i] < 0;
    }
    return EXIT_CODE_OK;
}

/* --- telling ---------------------------------------------------------------------------------------------------- */

static const char *done_text(enum operate_verb verb)
{
    return verb == OPERATE_RETRY ? "back in its queue" : verb == OPERATE_BURY ? "buried" : "deleted";
}

static const char *answer_name(int answer)
{
    switch (answer) {
    case OPERATE_DONE:
        return "done";
    case OPERATE_GONE:
        return "gone";
    case OPERATE_CLASH:
        return "clash";
    case OPERATE_LIVING:
        return "process_alive";
    case RESULT_UNFIT:
        return "unfit";
    default:
        return "not_found";
    }
}

static void answer_complain(struct operation *operation, const char *id, const struct task_entry *entry, int answer,
                            const char *reason)
{
    char quoted[LOG_QUOTE_MAX], who[LOG_QUOTE_MAX];
    struct console *console = &operation->tasks->console;
    log_quote(id, quoted);
    if (answer == OPERATE_GONE)
        console_complain(console, "%s: left its state, or was changed, while it was looked at", quoted);
    else if (answer == OPERATE_CLASH)
        console_complain(console, "%s: its target's key holds something foreign; it stays where it is", quoted);
    else if (answer == OPERATE_LIVING)
        console_complain(console, "%s: runs in %s, which is alive; `holdfast cancel` ends it there", quoted,
                         log_quote(entry->identity, who));
    else if (answer == RESULT_UNFIT)
        console_complain(console, "%s: %s", quoted, reason);
    else
        console_complain(console, "%s: not found", quoted);
}

static void answer_tell(struct operation *operation, const char *id, const struct task_entry *entry, int answer,
                        const char *reason)
{
    char quoted[LOG_QUOTE_MAX];
    struct printer *out = &operation->out;
    printer_row(out);
    printer_text(out, NULL, "id", id);
    printer_text(out, NULL, "state", entry != NULL ? task_state_name(entry->state) : NULL);
    printer_text(out, NULL, "result", answer_name(answer));
    printer_row_end(out);
    if (answer == OPERATE_DONE)
        printer_line(out, "%s: %s (was in %s)", log_quote(id, quoted), done_text(operation->verb),
                     task_state_name(entry->state));
    if (answer != OPERATE_DONE)
        answer_complain(operation, id, entry, answer, reason);
}

/* --- tasks that are named --------------------------------------------------------------------------------------- */

static void states_choose(const struct operation *operation, struct task_search *search)
{
    static const enum task_state all[] = {TASK_IN_RETRY, TASK_IN_DEAD, TASK_IN_SCHEDULE, TASK_IN_CLAIMS, TASK_IN_QUEUE};
    if (operation->tasks->has_state) {
        task_search_in(search, operation->tasks->state);
        return;
    }
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        bool is_pointless = (operation->verb == OPERATE_RETRY && all[i] == TASK_IN_QUEUE) ||
                            (operation->verb == OPERATE_BURY && all[i] == TASK_IN_DEAD);
        if (!is_pointless)
            task_search_in(search, all[i]);
    }
}

static int named_operate(struct operation *operation, struct task_search *search, const char *id)
{
    struct batch batch = {.count = 0};
    struct error error = ERROR_NONE;
    int code = task_search_run(search, id);
    if (code != EXIT_CODE_OK)
        return code;
    int answer = RESULT_NOT_FOUND;
    struct task_entry entry = {.state = TASK_IN_QUEUE};
    if (search->found != NULL) {
        entry = *search->found;
        task_view_read(&operation->view, entry.task.bytes, entry.task.length);
        answer = RESULT_UNFIT;
        if (batch_add(operation, &batch, &entry, &error)) {
            code = batch_send(operation, &batch);
            answer = batch.answers[0];
        }
    }
    operation->refused += answer == RESULT_UNFIT || answer == RESULT_NOT_FOUND;
    if (code == EXIT_CODE_OK)
        answer_tell(operation, id, search->found != NULL ? &entry : NULL, answer, error.text);
    batch_clear(&batch);
    return code;
}

static int all_named_operate(struct operation *operation)
{
    struct tasks *tasks = operation->tasks;
    struct task_search search = {.console = &tasks->console, .queue = tasks->queue, .scan_limit = tasks->scan_limit};
    int code = EXIT_CODE_OK;
    states_choose(operation, &search);
    printer_list(&operation->out, "results");
    for (int i = 0; i < tasks->id_count && code == EXIT_CODE_OK; i++)
        code = named_operate(operation, &search, tasks->ids[i]);
    printer_list_end(&operation->out, NULL);
    task_search_end(&search);
    return code;
}

/* --- all tasks of a state ----------------------------------------------------------------------------------------- */

static int page_send(struct operation *operation, struct batch *batch)
{
    int code = batch->count > 0 ? batch_send(operation, batch) : EXIT_CODE_OK;
    batch_clear(batch);
    return code;
}

/* Moves what is wanted of the page, in calls of one state and a bounded size. */
static int page_operate(struct operation *operation, struct task_walk *walk)
{
    struct batch batch = {.count = 0};
    int code = EXIT_CODE_OK;
    for (size_t i = 0; i < walk->count && code == EXIT_CODE_OK; i++) {
        struct task_entry *entry = &walk->entries[i];
        struct error error = ERROR_NONE;
        task_view_read(&operation->view, entry->task.bytes, entry->task.length);
        if (!tasks_want(operation->tasks, &operation->view, entry))
            continue;
        bool is_full = batch.count == OPERATE_ENTRIES_MAX || batch.bytes > BYTES_A_CALL;
        if (batch.count > 0 && (is_full || !is_same_state(batch.entries[0], entry)))
            code = page_send(operation, &batch);
        if (code == EXIT_CODE_OK && !batch_add(operation, &batch, entry, &error)) {
            operation->refused++;
            answer_complain(operation, operation->view.is_task ? operation->view.envelope.jid : "an entry", entry,
                            RESULT_UNFIT, error.text);
        }
    }
    if (code == EXIT_CODE_OK)
        code = page_send(operation, &batch);
    batch_clear(&batch);
    return code;
}

/* How many entries there are; 0 when that is not known beforehand (claims). */
static int state_measure(struct operation *operation, unsigned long long *count)
{
    struct tasks *tasks = operation->tasks;
    struct node_client *client = tasks->console.client;
    *count = 0;
    if (tasks->state == TASK_IN_CLAIMS)
        return EXIT_CODE_OK;
    node_client_begin(client);
    if (task_state_is_set(tasks->state))
        node_client_ask(client, "ZCARD", task_state_key(&tasks->console, tasks->state), NULL);
    else
        node_client_ask(client, "LLEN", console_key(&tasks->console, tasks->console.keys.queue_prefix, tasks->queue),
                        NULL);
    console_run(&tasks->console);
    if (node_client_reply_of(client, 0, REDIS_INTEGER) == NULL)
        return console_refuse(&tasks->console, 0);
    *count = (unsigned long long)node_client_integer(client, 0, 0);
    return EXIT_CODE_OK;
}

static int state_operate(struct operation *operation, unsigned long long count)
{
    struct tasks *tasks = operation->tasks;
    struct task_walk walk;
    struct progress progress;
    struct error error = ERROR_NONE;
    unsigned long long looked = 0;
    const char *queue = tasks->state == TASK_IN_QUEUE ? tasks->queue : NULL;
    int code = task_walk_begin(&walk, &tasks->console, tasks->state, queue, NULL, &error)
                   ? EXIT_CODE_OK
                   : console_complain(&tasks->console, "%s", error.text);
    progress_start(&progress, STDERR_FILENO, operate_verb_name(operation->verb), count);
    while (code == EXIT_CODE_OK && !walk.is_over && (count == 0 || looked < count)) {
        size_t limit =
            count > 0 && count - looked < OPERATE_ENTRIES_MAX ? (size_t)(count - looked) : OPERATE_ENTRIES_MAX;
        code = task_walk_next(&walk, limit);
        if (code == EXIT_CODE_OK)
            code = page_operate(operation, &walk);
        looked += walk.count;
        task_walk_advance(&walk, walk.count);
        progress_update(&progress, looked);
    }
    progress_end(&progress);
    task_walk_end(&walk);
    return code;
}

static int all_operate(struct operation *operation)
{
    struct tasks *tasks = operation->tasks;
    char human[HUMAN_TEXT_MAX], class_name[LOG_QUOTE_MAX], queue[LOG_QUOTE_MAX];
    unsigned long long count = 0;
    int code = state_measure(operation, &count);
    if (code != EXIT_CODE_OK || (count == 0 && tasks->state != TASK_IN_CLAIMS))
        return code;
    bool has_filter = tasks->class_name != NULL || tasks->queue != NULL;
    if (!console_confirm(
            &tasks->console, tasks->is_sure, "%s %s%s task%s of %s%s%s%s%s", operate_verb_name(operation->verb),
            count == 0   ? "all"
            : has_filter ? "those that match, of "
                         : "all ",
            count > 0 ? human_count((int64_t)count, human) : "", human_plural((int64_t)count),
            task_state_name(tasks->state), tasks->class_name != NULL ? ", class " : "",
            tasks->class_name != NULL ? log_quote(tasks->class_name, class_name) : "",
            tasks->queue != NULL ? ", queue " : "", tasks->queue != NULL ? log_quote(tasks->queue, queue) : ""))
        return EXIT_CODE_FAILURE;
    return state_operate(operation, count);
}

/* --- the command ------------------------------------------------------------------------------------------------ */

static void account_tell(struct operation *operation)
{
    struct printer *out = &operation->out;
    char human[HUMAN_TEXT_MAX], gone[64] = "", refused[64] = "";
    printer_number(out, NULL, "done", (int64_t)operation->done);
    printer_number(out, NULL, "gone", (int64_t)operation->gone);
    printer_number(out, NULL, "refused", (int64_t)operation->refused);
    if (operation->verb == OPERATE_BURY)
        printer_number(out, NULL, "trimmed", (int64_t)operation->trimmed);
    if (operation->trimmed > 0)
        printer_line(out, "%s of the oldest entries of dead %s trimmed away: it keeps %d, for %d days",
                     human_count((int64_t)operation->trimmed, human), operation->trimmed == 1 ? "was" : "were",
                     DEAD_ENTRIES - 1, DEAD_AGE_S / 86400);
    if (operation->gone > 0)
        snprintf(gone, sizeof gone, ", %llu left their state meanwhile", operation->gone);
    if (operation->refused > 0)
        snprintf(refused, sizeof refused, ", %llu stay where they are", operation->refused);
    if (operation->tasks->all)
        printer_line(out, "%s task%s %s%s%s", human_count((int64_t)operation->done, human),
                     human_plural((int64_t)operation->done),
                     operation->verb == OPERATE_RETRY ? "put back" : done_text(operation->verb), gone, refused);
    printer_end(out);
}

int tasks_operate(struct tasks *tasks, enum operate_verb verb)
{
    struct operation operation = {.tasks = tasks, .verb = verb};
    struct console *console = &tasks->console;
    struct buffer text = {0};
    operation.out = printer_begin(console->as_json, console->now, &text);
    origin_tell(&tasks->console.origin, tasks->console.command);
    printer_text(&operation.out, NULL, "verb", operate_verb_name(verb));
    int code = tasks->all ? all_operate(&operation) : all_named_operate(&operation);
    if (code == EXIT_CODE_OK || operation.done > 0)
        account_tell(&operation);
    else
        printer_drop(&operation.out);
    /* Of all, what left by itself was not to be moved any more. */
    bool is_short = operation.refused > 0 || (!tasks->all && operation.gone > 0);
    if (code == EXIT_CODE_OK && is_short)
        code = EXIT_CODE_FAILURE;
    task_view_fini(&operation.view);
    return code;
}
