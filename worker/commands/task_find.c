#include "worker/commands/task_find.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/real.h"
#include "worker/commands/progress_bar.h"
#include "worker/print/human.h"

enum { PAGE = 200, SCORE_MAX = 40 };

void task_search_in(struct task_search *search, enum task_state state)
{
    search->states[search->state_count++] = state;
}

/* The most likely states first, the most expensive ones last. */
static const enum task_state all[] = {TASK_IN_CLAIMS, TASK_IN_RETRY, TASK_IN_SCHEDULE, TASK_IN_DEAD, TASK_IN_QUEUE};

void task_search_everywhere(struct task_search *search)
{
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        task_search_in(search, all[i]);
}

void task_search_alive(struct task_search *search)
{
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i] != TASK_IN_DEAD)
            task_search_in(search, all[i]);
}

size_t task_id_score(const char *id)
{
    if (strncmp(id, "inf-", 4) == 0)
        return 3;
    if (strncmp(id, "-inf-", 5) == 0)
        return 4;
    size_t whole = strspn(id, "0123456789");
    size_t length = whole;
    if (whole > 0 && id[whole] == '.')
        length += 1 + strspn(id + whole + 1, "0123456789");
    bool is_score = whole > 0 && length < SCORE_MAX && id[length] == '-';
    return is_score ? length : 0;
}

static bool is_searching(const struct task_search *search)
{
    return search->found == NULL && search->console->code == EXIT_CODE_OK;
}

static bool is_wanted(struct task_search *search, const struct task_entry *entry, const char *jid)
{
    task_view_read(&search->view, entry->task.bytes, entry->task.length);
    const char *its = search->view.is_task ? search->view.envelope.jid : "";
    bool all_seen = true;
    for (size_t i = 0; i < search->jid_count; i++) {
        search->seen[i] = search->seen[i] || strcmp(its, search->jids[i]) == 0;
        all_seen = all_seen && search->seen[i];
    }
    return search->jid_count > 0 ? all_seen : strcmp(its, jid) == 0;
}

static void walk_end(struct task_search *search)
{
    if (search->is_walking)
        task_walk_end(&search->walk);
    search->is_walking = false;
}

static void walk_begin(struct task_search *search, enum task_state state, const char *queue, const char *cursor)
{
    struct error error = ERROR_NONE;
    walk_end(search);
    search->is_walking = true;
    if (!task_walk_begin(&search->walk, search->console, state, queue, cursor, &error))
        search->console->code = console_complain(search->console, "%s", error.text);
}

static void cut_tell(struct task_search *search, enum task_state state, const char *queue)
{
    char count[HUMAN_TEXT_MAX], quoted[LOG_QUOTE_MAX];
    search->was_cut = true;
    console_complain(search->console, "looked through %s entries of %s%s%s; --scan-limit N looks further",
                     human_count(search->scan_limit, count), task_state_name(state), queue != NULL ? " " : "",
                     queue != NULL ? log_quote(queue, quoted) : "");
}

/* Looks through one walk, at most through scan_limit entries. */
static void walk_search(struct task_search *search, enum task_state state, const char *queue, const char *jid)
{
    struct progress progress;
    int64_t looked = 0;
    walk_begin(search, state, queue, NULL);
    progress_start(&progress, search->console->is_silent ? -1 : STDERR_FILENO, "looking", 0);
    while (is_searching(search) && !search->walk.is_over && looked < search->scan_limit) {
        int64_t left = search->scan_limit - looked;
        task_walk_next(&search->walk, left < PAGE ? (size_t)left : PAGE);
        for (size_t i = 0; i < search->walk.count && is_searching(search); i++)
            if (is_wanted(search, &search->walk.entries[i], jid))
                search->found = &search->walk.entries[i];
        looked += (int64_t)search->walk.count;
        task_walk_advance(&search->walk, search->walk.count);
        progress_update(&progress, (uint64_t)looked);
    }
    progress_end(&progress);
    if (is_searching(search) && !search->walk.is_over)
        cut_tell(search, state, queue);
}

/* Only the entries of one score. */
static void score_search(struct task_search *search, enum task_state state, const char *id, size_t score_length)
{
    char cursor[SCORE_MAX + 4];
    const char *jid = id + score_length + 1;
    snprintf(cursor, sizeof cursor, "%.*s+0", (int)score_length, id);
    double score = real_read(cursor, NULL);
    walk_begin(search, state, NULL, cursor);
    bool is_same = true;
    while (is_searching(search) && !search->walk.is_over && is_same) {
        task_walk_next(&search->walk, PAGE);
        for (size_t i = 0; is_same && i < search->walk.count && is_searching(search); i++) {
            double other = real_read(search->walk.entries[i].score, NULL);
            is_same = other <= score && other >= score;
            if (is_same && is_wanted(search, &search->walk.entries[i], jid))
                search->found = &search->walk.entries[i];
        }
        task_walk_advance(&search->walk, search->walk.count);
    }
}

static void queues_search(struct task_search *search, const char *jid)
{
    if (search->queue != NULL) {
        walk_search(search, TASK_IN_QUEUE, search->queue, jid);
        return;
    }
    if (!search->knows_queues && backlog_read(&search->backlog, search->console) == EXIT_CODE_OK)
        backlog_complain(&search->backlog, search->console);
    search->knows_queues = true;
    for (size_t i = 0; is_searching(search) && i < search->backlog.count; i++)
        if (search->backlog.items[i].length > 0)
            walk_search(search, TASK_IN_QUEUE, search->backlog.items[i].name, jid);
}

int task_search_run(struct task_search *search, const char *id)
{
    size_t score = task_id_score(id);
    search->found = NULL;
    search->was_cut = false;
    for (size_t i = 0; score > 0 && i < search->state_count && is_searching(search); i++)
        if (task_state_is_set(search->states[i]))
            score_search(search, search->states[i], id, score);
    for (size_t i = 0; i < search->state_count && is_searching(search); i++) {
        if (search->states[i] == TASK_IN_QUEUE)
            queues_search(search, id);
        else
            walk_search(search, search->states[i], NULL, id);
    }
    return search->console->code;
}

void task_search_end(struct task_search *search)
{
    walk_end(search);
    task_view_fini(&search->view);
    if (search->knows_queues)
        backlog_free(&search->backlog);
}
