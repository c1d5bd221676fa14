#include "worker/commands/lock_owner.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/real.h"
#include "worker/commands/process_info.h"
#include "worker/commands/task_view.h"

enum { DIGITS_MAX = 10 };

/* --- the text ----------------------------------------------------------------------------------------------------- */

/* Digits and a colon behind them; what follows, or NULL. */
static const char *number_read(const char *at, const char *end, long *number)
{
    size_t digits = 0;
    *number = 0;
    for (; at + digits < end && at[digits] >= '0' && at[digits] <= '9' && digits < DIGITS_MAX; digits++)
        *number = *number * 10 + (at[digits] - '0');
    return digits > 0 && at + digits < end && at[digits] == ':' ? at + digits + 1 : NULL;
}

bool lock_owner_read(struct lock_owner *owner, const char *text, size_t length)
{
    const char *end = text + length, *jid = NULL;
    long slot = 0;
    *owner = (struct lock_owner){.pid = 0};
    for (const char *at = memchr(text, ':', length); at != NULL && jid == NULL;) {
        const char *after = number_read(at + 1, end, &owner->pid);
        size_t host = (size_t)(at - text);
        jid = after != NULL ? number_read(after, end, &slot) : NULL;
        if (jid != NULL && (host == 0 || host > LOCK_OWNER_HOST_MAX))
            return false;
        if (jid != NULL)
            memcpy(owner->host, text, host);
        at = memchr(at + 1, ':', (size_t)(end - at - 1));
    }
    if (jid == NULL || !envelope_jid_is_sound(jid, (size_t)(end - jid)))
        return false;
    owner->slot = (unsigned)slot;
    memcpy(owner->jid, jid, (size_t)(end - jid));
    owner->is_cut = end - jid >= LOCK_OWNER_JID_MAX;
    return true;
}

bool lock_owner_is_of(const struct lock_owner *owner, const char *identity)
{
    const char *nonce = strrchr(identity, ':');
    const char *pid = nonce != NULL ? memrchr(identity, ':', (size_t)(nonce - identity)) : NULL;
    long number = 0;
    if (pid == NULL || number_read(pid + 1, nonce + 1, &number) == NULL || number != owner->pid)
        return false;
    size_t host = (size_t)(pid - identity), cut = host < LOCK_OWNER_HOST_MAX ? host : LOCK_OWNER_HOST_MAX;
    return strlen(owner->host) == cut && memcmp(owner->host, identity, cut) == 0;
}

/* --- the process -------------------------------------------------------------------------------------------------- */

static bool is_jid_of(const struct lock_owner *owner, const char *jid)
{
    return owner->is_cut ? strncmp(owner->jid, jid, LOCK_OWNER_JID_MAX) == 0 : strcmp(owner->jid, jid) == 0;
}

/* A place is 16 bytes of id, then the queue's name, a newline and the task. True when that is the task. */
static bool claim_take(struct lock_runner *runner, const struct lock_owner *owner, const struct redis_reply *place)
{
    const char *end = place->bytes + place->length, *queue = place->bytes + CLAIM_ID_BYTES;
    const char *newline = place->kind == REDIS_STRING && place->length > CLAIM_ID_BYTES
                              ? memchr(queue, '\n', (size_t)(end - queue))
                              : NULL;
    struct task_view view = {0};
    if (newline == NULL)
        return false;
    task_view_read(&view, newline + 1, (size_t)(end - newline - 1));
    bool is_it = view.is_task && is_jid_of(owner, view.envelope.jid);
    if (is_it) {
        runner->queue = memory_text_of(queue, (size_t)(newline - queue));
        runner->jid = memory_text(view.envelope.jid);
        runner->class_name = memory_text(task_view_class(&view));
    }
    task_view_fini(&view);
    return is_it;
}

static void process_take(struct lock_runner *runner, const char *identity, bool is_living)
{
    free(runner->identity);
    runner->identity = memory_text(identity);
    runner->is_living = is_living;
}

/* A pid comes again: of several processes it is the one that has the task, else one that lives. */
static int claim_look(struct lock_runner *runner, const struct lock_owner *owner, const char *identity, bool is_living,
                      struct console *console)
{
    inquiry_begin(console->inquiry);
    struct buffer *request = inquiry_compose(console->inquiry);
    redis_request_begin(request, 3);
    redis_request_text(request, "HGET");
    queue_keys_request(console->keys.process_prefix, identity, request);
    redis_request_integer(request, owner->slot);
    int code = console_run(console);
    if (code != EXIT_CODE_OK || runner->jid != NULL)
        return code;
    bool has_task = claim_take(runner, owner, inquiry_reply(console->inquiry, 0));
    if (has_task || runner->identity == NULL || (is_living && !runner->is_living))
        process_take(runner, identity, is_living);
    return code;
}

/* What the process shows of the tasks that it runs, by their jids: slots may be numbered in another way there. */
static int run_look(struct lock_runner *runner, const char *jid, struct console *console)
{
    inquiry_begin(console->inquiry);
    struct buffer *request = inquiry_compose(console->inquiry);
    redis_request_begin(request, 2);
    redis_request_text(request, "HVALS");
    queue_keys_request_work(&console->keys, runner->identity, request);
    int code = console_run(console);
    const struct redis_reply *runs = code == EXIT_CODE_OK ? inquiry_reply_of(console->inquiry, 0, REDIS_ARRAY) : NULL;
    for (size_t i = 0; runs != NULL && i < runs->count; i++) {
        const struct redis_reply *run = &runs->elements[i];
        struct wall_time since =
            run->kind == REDIS_STRING ? process_run_since(run->bytes, run->length, jid) : (struct wall_time){0};
        if (since.us == 0)
            continue;
        runner->since = since;
        runner->fence = process_run_fence(run->bytes, run->length, jid);
        break;
    }
    return code;
}

int lock_runner_find(struct lock_runner *runner, const struct lock_owner *owner, struct console *console)
{
    *runner = (struct lock_runner){.identity = NULL};
    inquiry_begin(console->inquiry);
    inquiry_ask(console->inquiry, "ZRANGE", console->keys.processes, "0", "9999", "WITHSCORES", NULL);
    int code = console_run(console);
    if (code != EXIT_CODE_OK || inquiry_reply_of(console->inquiry, 0, REDIS_ARRAY) == NULL)
        return code;
    struct redis_reply *processes = inquiry_take(console->inquiry, 0);
    for (size_t i = 0; code == EXIT_CODE_OK && i + 1 < processes->count; i += 2) {
        const char *identity = processes->elements[i].bytes;
        bool is_living = wall_read(processes->elements[i + 1].bytes).us >= console->now.us;
        if (lock_owner_is_of(owner, identity))
            code = claim_look(runner, owner, identity, is_living, console);
    }
    free(processes);
    if (runner->jid == NULL && !owner->is_cut)
        runner->jid = memory_text(owner->jid);
    if (code == EXIT_CODE_OK && runner->identity != NULL && runner->jid != NULL)
        code = run_look(runner, runner->jid, console);
    return code;
}

void lock_runner_free(struct lock_runner *runner)
{
    char *const all[] = {runner->identity, runner->jid, runner->queue, runner->class_name, runner->fence};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
    *runner = (struct lock_runner){.identity = NULL};
}
