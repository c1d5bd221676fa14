#include "worker/commands/lock_view.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/real.h"
#include "worker/commands/process_info.h"
#include "worker/commands/task_view.h"
#include "worker/locks/resource_template.h"
#include "worker/print/human.h"

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

/* A slot is 16 bytes of id, then the queue's name, a newline and the task. True when that is the task. */
static bool claim_take(struct lock_runner *runner, const struct lock_owner *owner, const struct redis_reply *slot)
{
    const char *end = slot->bytes + slot->length, *queue = slot->bytes + CLAIM_ID_BYTES;
    const char *newline =
        slot->kind == REDIS_STRING && slot->length > CLAIM_ID_BYTES ? memchr(queue, '\n', (size_t)(end - queue)) : NULL;
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
static void claim_look(struct lock_runner *runner, const struct lock_owner *owner, const char *identity, bool is_living,
                       struct console *console)
{
    char slot[16];
    snprintf(slot, sizeof slot, "%u", owner->slot);
    const struct redis_reply *claim =
        console_ask(console, "HGET", console_key(console, console->keys.process_prefix, identity), slot, NULL);
    if (runner->jid != NULL)
        return;
    bool has_task = claim_take(runner, owner, claim);
    if (has_task || runner->identity == NULL || (is_living && !runner->is_living))
        process_take(runner, identity, is_living);
}

/* What the process shows of the tasks that it runs, by their jids: slots may be numbered in another way there. */
static void run_look(struct lock_runner *runner, const char *jid, struct console *console)
{
    const struct redis_reply *runs = console_ask(console, "HVALS", console_work_key(console, runner->identity), NULL);
    for (size_t i = 0; runs->kind == REDIS_ARRAY && i < runs->count; i++) {
        const struct redis_reply *run = &runs->elements[i];
        struct wall_time since =
            run->kind == REDIS_STRING ? process_run_since(run->bytes, run->length, jid) : (struct wall_time){0};
        if (since.us == 0)
            continue;
        runner->since = since;
        runner->fence = process_run_fence(run->bytes, run->length, jid);
        break;
    }
}

/* Nothing that is not found is an error. */
static void runner_find(struct lock_runner *runner, const struct lock_owner *owner, struct console *console)
{
    *runner = (struct lock_runner){.identity = NULL};
    console_ask(console, "ZRANGE", console->keys.processes, "0", "9999", "WITHSCORES", NULL);
    struct redis_reply *processes = node_client_take(console->client, 0);
    for (size_t i = 0; processes->kind == REDIS_ARRAY && i + 1 < processes->count; i += 2) {
        const char *identity = processes->elements[i].bytes;
        bool is_living = wall_read(processes->elements[i + 1].bytes).us >= console->now.us;
        if (lock_owner_is_of(owner, identity))
            claim_look(runner, owner, identity, is_living, console);
    }
    free(processes);
    if (runner->jid == NULL && !owner->is_cut)
        runner->jid = memory_text(owner->jid);
    if (runner->identity != NULL && runner->jid != NULL)
        run_look(runner, runner->jid, console);
}

static void runner_free(struct lock_runner *runner)
{
    char *const all[] = {runner->identity, runner->jid, runner->queue, runner->class_name, runner->fence};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
    *runner = (struct lock_runner){.identity = NULL};
}

/* --- opening ------------------------------------------------------------------------------------------------------ */

#define AT(member) offsetof(struct lock_view, member)
const struct option_row lock_view_options[] = {
    {OPTION_COUNT, 0, "seat", "K", "of a resource with a limit: its seat K, and the waiting list of all its seats",
     .offset = AT(seat), .least = 1, .most = REDLOCK_LIMIT_MAX},
    {OPTION_FLAG, 0, "json", NULL, "print one JSON object, on one line", .offset = AT(own.as_json)},
    {OPTION_TABLE, .table = origin_lock_options, .help = ORIGIN_HEADLINE, .offset = AT(own.origin)},
    {OPTION_TABLE, .table = nodes_login_options, .help = NODES_LOGIN_HEADLINE, .offset = AT(login)},
    {.type = OPTION_END},
};
#undef AT

int lock_resource_check(const struct command *command, const char *resource, const char *prefix)
{
    size_t length = strlen(resource);
    struct buffer key = {0};
    buffer_format(&key, "%s%s", prefix != NULL ? prefix : "", resource);
    bool is_ours = strncmp(buffer_text(&key), "hf:", 3) == 0;
    buffer_fini(&key);
    if (length < 1 || length > REDLOCK_RESOURCE_BYTES_MAX)
        return command_misused(command, "a resource has 1 to %d bytes", REDLOCK_RESOURCE_BYTES_MAX);
    if (is_ours)
        return command_misused(command, "no resource has a key that begins with hf:");
    return EXIT_CODE_OK;
}

/* As far as the configuration tells: a handler may have templates of its own. */
static const struct config_class *class_of(const struct config *config, const char *resource)
{
    for (size_t i = 0; i < config->class_count; i++) {
        const struct config_words *words = &config->classes[i].resource;
        for (size_t k = 0; k < words->count; k++) {
            struct resource_template template;
            if (!resource_template_parse(&template, words->items[k], NULL))
                continue;
            bool is_its = resource_template_owns(&template, resource);
            resource_template_fini(&template);
            if (is_its)
                return &config->classes[i];
        }
    }
    return NULL;
}

/* Sets has_queue. A queue node that cannot be asked does not end the command. */
static int console_begin(struct lock_view *view)
{
    struct console *console = view->console;
    console->origin.takes_lock_nodes = true;
    console->origin.changes = view->changes;
    int code = console_configure(console, view->command, ORIGIN_NEEDS_LOCKS);
    if (code != EXIT_CODE_OK)
        return code;
    console->now = wall_now();
    if (console->origin.kind == ORIGIN_OPTIONS) {
        log_set_level(LOG_NOTHING); /* as console_connect does */
        return EXIT_CODE_OK;
    }
    view->queue_code = console_connect(console, view->changes);
    view->has_queue = view->queue_code == EXIT_CODE_OK;
    return console->client != NULL ? EXIT_CODE_OK : view->queue_code;
}

int lock_view_open(struct lock_view *view, const struct command_line *line)
{
    struct console *console = view->console = &view->own;
    if (line->argument_count != 1)
        return command_misused(view->command, "name the resource, as tasks name it: without the prefix of its keys");
    view->resource = line->arguments[0];
    int code = nodes_login_check(&view->login, view->command);
    if (code != EXIT_CODE_OK)
        return code;
    code = console_begin(view);
    if (code != EXIT_CODE_OK)
        return code;
    if (!nodes_session_open(&view->session, console->config, &view->login))
        return console_complain(console, "%s: %s", console->config->path, view->session.reason);
    code = lock_resource_check(view->command, view->resource, view->session.options.key_prefix);
    if (code != EXIT_CODE_OK)
        return code;
    view->owner = class_of(console->config, view->resource);
    return EXIT_CODE_OK;
}

static void runners_free(struct lock_view *view)
{
    for (unsigned i = 0; i < REDLOCK_HOLDERS_MAX; i++)
        runner_free(&view->runners[i]);
}

bool lock_view_share(struct lock_view *view, struct console *console)
{
    *view = (struct lock_view){.command = console->command, .console = console, .has_queue = true};
    return nodes_session_open(&view->session, console->config, NULL);
}

void lock_view_leave(struct lock_view *view)
{
    runners_free(view);
    nodes_session_close(&view->session);
}

int lock_view_close(struct lock_view *view, int code)
{
    lock_view_leave(view);
    return console_close(view->console, code);
}

/* --- looking ------------------------------------------------------------------------------------------------------ */

static const struct redlock_key_view *key_of(const struct lock_view *view, unsigned holder)
{
    return redlock_nodes_key(view->session.nodes, view->holders[holder].node);
}

static unsigned blocked_nodes(const struct lock_view *view)
{
    unsigned blocked = 0;
    for (unsigned i = 0; i < redlock_nodes_group(view->session.nodes).nodes; i++) {
        const struct redlock_key_view *key = redlock_nodes_key(view->session.nodes, i);
        bool is_lock = key->kind == REDLOCK_KEY_VALUE && (key->remaining_ms >= 0 || key->reader_count > 0);
        blocked += key->is_answered && key->kind != REDLOCK_KEY_NOTHING && !is_lock;
    }
    return blocked;
}

static enum lock_state state_of(const struct lock_view *view)
{
    struct redlock_group_view group = redlock_nodes_group(view->session.nodes);
    unsigned unanswered = 0;
    for (unsigned i = 0; i < group.nodes; i++)
        unanswered += !redlock_nodes_key(view->session.nodes, i)->is_answered;
    if (group.nodes - view->blocked < group.quorum)
        return LOCK_IS_BLOCKED;
    for (unsigned i = 0; i < view->holder_count; i++)
        if (view->holders[i].standing == REDLOCK_HELD && key_of(view, i)->kind == REDLOCK_KEY_VALUE)
            return LOCK_IS_HELD;
    for (unsigned i = 0; i < view->holder_count; i++)
        if (view->holders[i].standing == REDLOCK_HELD_MAYBE)
            return LOCK_IS_UNKNOWN;
    if (unanswered >= group.quorum)
        return LOCK_IS_UNKNOWN;
    return view->holder_count > 0 ? LOCK_IS_LEFTOVER : LOCK_IS_FREE;
}

/* What is no value, or has no end, blocks the nodes that have it, unless a majority has an end for it. */
static bool is_lock(const struct lock_view *view, unsigned index)
{
    const struct redlock_holder *holder = &view->holders[index];
    bool ends = holder->remaining_ms >= 0 || holder->is_reader ||
                (view->state == LOCK_IS_HELD && holder->standing == REDLOCK_HELD);
    return ends && key_of(view, index)->kind == REDLOCK_KEY_VALUE;
}

static const char *standing_name(const struct lock_view *view, unsigned index)
{
    static const char *const names[] = {
        [REDLOCK_HELD] = "held", [REDLOCK_HELD_MAYBE] = "unknown", [REDLOCK_LEFTOVER] = "leftover"};
    return is_lock(view, index) ? names[view->holders[index].standing] : "blocked";
}

static size_t owner_length(const struct redlock_holder *holder)
{
    return holder->length - (size_t)(holder->owner - holder->value);
}

/* Without a seat: as a resource that one may hold at a time. */
static void seat_look(struct lock_view *view, unsigned seat)
{
    runners_free(view);
    redlock_seat_name(view->resource, seat > 0 ? seat : 1, view->name);
    /* What is wrong with nodes is in their views. */
    (void)redlock_nodes_find(view->session.nodes, view->name);
    view->holder_count = redlock_nodes_holders(view->session.nodes, view->holders);
    view->blocked = blocked_nodes(view);
    view->state = state_of(view);
    for (unsigned i = 0; i < view->holder_count; i++) {
        const char *owner = view->holders[i].owner;
        view->is_ours[i] = owner != NULL && lock_owner_read(&view->owners[i], owner, owner_length(&view->holders[i]));
        if (view->is_ours[i] && view->has_queue)
            runner_find(&view->runners[i], &view->owners[i], view->console);
    }
}

bool lock_view_has_several(const struct lock_view *view)
{
    return view->seat == 0 && view->seat_count > 1;
}

bool lock_view_is_taken(const struct lock_view *view)
{
    return view->state == LOCK_IS_HELD || view->state == LOCK_IS_BLOCKED;
}

static bool has_seats(const struct lock_view *view)
{
    return view->seat > 0 || view->seat_count > 1 || (view->owner != NULL && view->owner->limit > 1);
}

int lock_view_look(struct lock_view *view)
{
    bool is_named = view->seat > 0;
    if (!is_named)
        view->seat_count = redlock_nodes_seats(view->session.nodes, view->resource, view->seats);
    if (view->seat_count == 1 && view->seats[0] > 1)
        view->seat = view->seats[0];
    snprintf(view->lists[0], sizeof view->lists[0], "%s:%s", has_seats(view) ? "seats" : "resource", view->resource);
    if (!is_named)
        snprintf(view->lists[1], sizeof view->lists[1], "%s:%s", has_seats(view) ? "resource" : "seats",
                 view->resource);
    if (!lock_view_has_several(view))
        seat_look(view, (unsigned)view->seat);
    return view->console->code;
}

void lock_view_look_at(struct lock_view *view, const char *resource)
{
    view->resource = resource;
    view->seat = 0;
    view->owner = class_of(view->console->config, resource);
    lock_view_look(view);
    if (lock_view_has_several(view))
        seat_look(view, view->seats[0]);
}

/* --- words -------------------------------------------------------------------------------------------------------- */

static const char *state_name(enum lock_state state)
{
    static const char *const names[] = {[LOCK_IS_FREE] = "free",
                                        [LOCK_IS_HELD] = "held",
                                        [LOCK_IS_BLOCKED] = "blocked",
                                        [LOCK_IS_LEFTOVER] = "leftover",
                                        [LOCK_IS_UNKNOWN] = "unknown"};
    return names[state];
}

static void bytes_show(const char *bytes, size_t length, struct buffer *out)
{
    buffer_append_text(out, "\"");
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        if (byte == '"' || byte == '\\')
            buffer_format(out, "\\%c", byte);
        else if (byte >= ' ' && byte <= '~')
            buffer_append(out, &bytes[i], 1);
        else
            buffer_format(out, "\\x%02x", byte);
    }
    buffer_append_text(out, "\"");
}

/* All of the value of a holder, as it may be shown. */
static void value_show(const struct lock_view *view, unsigned holder, struct buffer *out)
{
    const struct redlock_key_view *key = key_of(view, holder);
    if (key->kind == REDLOCK_KEY_VALUE)
        bytes_show(view->holders[holder].value, view->holders[holder].length, out);
    else if (key->kind == REDLOCK_KEY_LONG)
        buffer_format(out, "a value of %s bytes, which no lock client writes", key->value);
    else
        buffer_append_text(out, "something that is no string, and so no lock");
}

/* The end of the value that names its writer, if that was a worker. */
static void owner_show(const struct lock_view *view, unsigned holder, struct buffer *out)
{
    const char *owner = view->holders[holder].owner;
    if (view->holders[holder].is_reader)
        buffer_append_text(out, "reader ");
    if (owner != NULL)
        bytes_show(owner, owner_length(&view->holders[holder]), out);
    else
        buffer_append_text(out, "another program");
}

/* --- for people --------------------------------------------------------------------------------------------------- */

static void runner_print(const struct lock_view *view, unsigned holder)
{
    const struct lock_runner *runner = &view->runners[holder];
    const struct lock_owner *owner = &view->owners[holder];
    char human[HUMAN_TEXT_MAX], date[HUMAN_TEXT_MAX], quoted[LOG_QUOTE_MAX];
    printf("  process  %s", log_quote(owner->host, quoted));
    printf(", pid %ld, slot %u", owner->pid, owner->slot);
    if (runner->identity != NULL)
        printf(": %s, %s\n", log_quote(runner->identity, quoted), runner->is_living ? "alive" : "its lease has ended");
    else
        puts(view->has_queue ? ": the fleet does not know it (any more)" : "");
    printf("  task     %s%s", log_quote(runner->jid != NULL ? runner->jid : owner->jid, quoted),
           runner->jid == NULL && owner->is_cut ? "..." : "");
    if (runner->class_name != NULL)
        printf(", class %s", log_quote(runner->class_name, quoted));
    if (runner->queue != NULL)
        printf(", queue %s", log_quote(runner->queue, quoted));
    puts("");
    if (runner->since.us != 0)
        printf("  since    %s (%s)\n", human_date(runner->since, date),
               human_moment(runner->since, view->console->now, human));
    else
        puts("  since    unknown");
}

static void holder_print(const struct lock_view *view, unsigned index, unsigned nodes)
{
    static const char *const standings[] = {[REDLOCK_HELD] = "a majority: it is held",
                                            [REDLOCK_HELD_MAYBE] = "which may be a majority with nodes that do not say",
                                            [REDLOCK_LEFTOVER] = "no majority: nobody holds it with this"};
    const struct redlock_holder *holder = &view->holders[index];
    char human[HUMAN_TEXT_MAX];
    struct buffer text = {0};
    owner_show(view, index, &text);
    printf("#%u %s\n", index + 1, buffer_text(&text));
    buffer_clear(&text);
    value_show(view, index, &text);
    printf("  value    %s\n", buffer_text(&text));
    printf("  nodes    %u of %u, %s\n", holder->nodes, nodes,
           is_lock(view, index) ? standings[holder->standing] : "which lock nothing");
    if (holder->remaining_ms >= 0)
        printf("  expires  in %s, if nobody extends it\n", human_span(holder->remaining_ms * 1000, human));
    else
        puts("  expires  never: no lock client of ours leaves it so");
    if (holder->token != 0)
        printf("  token    %" PRIu64 "\n", holder->token);
    else
        puts("  token    unknown");
    if (view->is_ours[index])
        runner_print(view, index);
    buffer_fini(&text);
}

/* Which of the values a node has: 0 = none, or those of readers. */
static unsigned number_of(const struct lock_view *view, unsigned node)
{
    const struct redlock_key_view *key = redlock_nodes_key(view->session.nodes, node);
    if (key->reader_count > 0)
        return 0;
    for (unsigned i = 0; i < view->holder_count && key->is_answered && key->kind != REDLOCK_KEY_NOTHING; i++) {
        const struct redlock_holder *holder = &view->holders[i];
        bool is_no_string = key->kind == REDLOCK_KEY_NO_STRING && key_of(view, i)->kind == REDLOCK_KEY_NO_STRING;
        bool is_equal = key->kind == REDLOCK_KEY_VALUE && key_of(view, i)->kind == REDLOCK_KEY_VALUE &&
                        key->length == holder->length && memcmp(key->value, holder->value, key->length) == 0;
        if (is_equal || is_no_string || view->holders[i].node == node)
            return i + 1;
    }
    return 0;
}

/* --- for programs ------------------------------------------------------------------------------------------------- */

static void value_json(const struct redlock_key_view *key, const struct redlock_holder *holder,
                       struct json_writer *json)
{
    struct buffer digits = {0};
    if (key->kind != REDLOCK_KEY_VALUE) {
        json_nothing(json, "value");
        json_nothing(json, "value_hex");
        return;
    }
    for (size_t i = 0; i < holder->length; i++)
        buffer_format(&digits, "%02x", (unsigned char)holder->value[i]);
    json_bytes(json, "value", holder->value, holder->length);
    json_text(json, "value_hex", holder->length > 0 ? buffer_text(&digits) : "");
    buffer_fini(&digits);
}

static void runner_json(const struct lock_view *view, unsigned index, struct json_writer *json)
{
    const struct lock_runner *runner = &view->runners[index];
    const struct lock_owner *owner = view->is_ours[index] ? &view->owners[index] : NULL;
    json_text(json, "host", owner != NULL ? owner->host : NULL);
    json_number_if(json, "pid", owner != NULL, owner != NULL ? owner->pid : 0);
    json_number_if(json, "slot", owner != NULL, owner != NULL ? owner->slot : 0);
    json_text(json, "jid", runner->jid != NULL ? runner->jid : owner != NULL && !owner->is_cut ? owner->jid : NULL);
    json_text(json, "class", runner->class_name);
    json_text(json, "queue", runner->queue);
    json_text(json, "identity", runner->identity);
    json_truth_if(json, "process_alive", runner->identity != NULL, runner->is_living);
    json_seconds_if(json, "since", runner->since.us != 0, runner->since.us);
}

static void holder_json(const struct lock_view *view, unsigned index, unsigned seat, struct json_writer *json)
{
    const struct redlock_holder *holder = &view->holders[index];
    json_open(json, NULL, '{');
    value_json(key_of(view, index), holder, json);
    json_text(json, "standing", standing_name(view, index));
    json_number(json, "nodes", holder->nodes);
    json_number(json, "votes", holder->votes);
    json_seconds_if(json, "remaining", holder->remaining_ms >= 0, holder->remaining_ms * 1000);
    json_number_if(json, "token", holder->token != 0, (int64_t)holder->token);
    json_bytes(json, "owner", holder->owner, holder->owner != NULL ? owner_length(holder) : 0);
    runner_json(view, index, json);
    json_truth(json, "reader", holder->is_reader);
    json_number_if(json, "seat", seat > 0, seat);
    json_close(json, '}');
}

/* --- for both ----------------------------------------------------------------------------------------------------- */

/* Of several seats only who answers and votes is shown of each node. */
static void node_put(const struct lock_view *view, unsigned index, struct printer *out)
{
    static const char *const takings[] = {
        [REDLOCK_TAKING_NOTHING] = "nothing", [REDLOCK_TAKING_DONE] = "deleted",    [REDLOCK_TAKING_GONE] = "gone",
        [REDLOCK_TAKING_CHANGED] = "changed", [REDLOCK_TAKING_REFUSED] = "refused", [REDLOCK_TAKING_FAILED] = "failed"};
    const struct redlock_node_view *node = redlock_nodes_view(view->session.nodes, index);
    const struct redlock_key_view *key = redlock_nodes_key(view->session.nodes, index);
    bool has_one = !lock_view_has_several(view);
    unsigned number = has_one ? number_of(view, index) : 0, readers = has_one ? key->reader_count : 0;
    bool is_lasting = (number == 0 && readers == 0) || key->remaining_ms < 0;
    printer_row(out);
    printer_text(out, "NODE", "name", node->name);
    printer_text(out, "STATE", "state", node->state);
    printer_style(out, node->votes ? TABLE_GOOD : TABLE_BAD);
    printer_truth(out, "votes", node->votes);
    printer_truth(out, "answered", key->is_answered);
    printer_text(out, NULL, "trouble", printer_known(key->trouble));
    printer_number(out, NULL, "holder", (int64_t)number - 1);
    printer_number(out, NULL, "readers", has_one ? (int64_t)readers : -1);
    if (number > 0)
        printer_cell(out, "HAS", TABLE_PLAIN, "#%u", number);
    else if (readers > 0)
        printer_cell(out, "HAS", TABLE_PLAIN, "%u reader%s", readers, readers > 1 ? "s" : "");
    else
        printer_cell(out, "HAS", key->is_answered ? TABLE_PLAIN : TABLE_BAD, "%s",
                     key->is_answered ? "nothing" : "no answer");
    printer_span(out, ">EXPIRES IN", "remaining", is_lasting ? -1 : key->remaining_ms * 1000);
    printer_number(out, ">FENCE", "fence", has_one && key->fence != 0 ? (int64_t)key->fence : -1);
    if (view->changes)
        printer_text(out, NULL, "taking", takings[key->taking]);
    printer_row_end(out);
}

static void nodes_put(const struct lock_view *view, unsigned nodes, struct printer *out)
{
    bool is_shown = out->is_json || !lock_view_has_several(view);
    if (is_shown)
        printer_list(out, "nodes");
    for (unsigned i = 0; i < nodes && is_shown; i++)
        node_put(view, i, out);
    if (is_shown)
        printer_list_end(out, NULL);
    for (unsigned i = 0; i < nodes; i++) {
        const struct redlock_key_view *key = redlock_nodes_key(view->session.nodes, i);
        char quoted[LOG_QUOTE_MAX];
        if (!key->is_answered)
            printer_line(out, "%s does not answer: %s", redlock_nodes_view(view->session.nodes, i)->name,
                         log_quote(key->trouble, quoted));
    }
}

/* One of the holders of a seat, as a row. */
static void holder_row(const struct lock_view *view, unsigned index, unsigned seat, unsigned nodes, struct printer *out)
{
    const struct redlock_holder *holder = &view->holders[index];
    struct buffer text = {0};
    if (out->is_json) {
        holder_json(view, index, seat, &out->json);
        return;
    }
    owner_show(view, index, &text);
    printer_row(out);
    printer_number(out, ">SEAT", NULL, seat);
    printer_text(out, "HOLDER", NULL, buffer_text(&text));
    printer_text(out, "STATE", NULL, standing_name(view, index));
    printer_cell(out, "NODES", TABLE_PLAIN, "%u of %u", holder->nodes, nodes);
    printer_span(out, ">EXPIRES IN", NULL, holder->remaining_ms < 0 ? -1 : holder->remaining_ms * 1000);
    printer_number(out, ">TOKEN", NULL, holder->token != 0 ? (int64_t)holder->token : -1);
    printer_row_end(out);
    buffer_fini(&text);
}

/* The whole is held if any seat is. */
static void several_put(struct lock_view *view, unsigned nodes, struct printer *out)
{
    static const unsigned char weights[] = {
        [LOCK_IS_FREE] = 0, [LOCK_IS_LEFTOVER] = 1, [LOCK_IS_UNKNOWN] = 2, [LOCK_IS_BLOCKED] = 3, [LOCK_IS_HELD] = 4};
    enum lock_state state = LOCK_IS_FREE;
    printer_list(out, "holders");
    for (unsigned i = 0; i < view->seat_count; i++) {
        seat_look(view, view->seats[i]);
        for (unsigned k = 0; k < view->holder_count; k++)
            holder_row(view, k, view->seats[i], nodes, out);
        state = weights[view->state] > weights[state] ? view->state : state;
    }
    printer_list_end(out, "Nobody has any of them any more.");
    view->state = state;
}

static void one_put(const struct lock_view *view, unsigned nodes, struct printer *out)
{
    if (out->is_json)
        json_open(&out->json, "holders", '[');
    for (unsigned i = 0; i < view->holder_count; i++)
        if (out->is_json)
            holder_json(view, i, (unsigned)view->seat, &out->json);
        else
            holder_print(view, i, nodes);
    if (out->is_json)
        json_close(&out->json, ']');
}

/* Everybody needs the same limit. */
static void limit_put(const struct lock_view *view, struct printer *out)
{
    unsigned limit = view->owner != NULL ? view->owner->limit : 0;
    unsigned last = view->seat_count > 0 ? view->seats[view->seat_count - 1] : 0;
    char quoted[LOG_QUOTE_MAX];
    printer_number(out, NULL, "limit", limit > 0 ? (int64_t)limit : -1);
    if (limit > 0 && last > limit)
        printer_line(out,
                     "Seat %u is in use, and the class %s has a limit of %u here: another host, or program, has a "
                     "higher one.",
                     last, log_quote(view->owner->name, quoted), limit);
}

/* A refused lock looks like one that waits for a holder: so what is to be done is said here. */
static void blocked_put(const struct lock_view *view, unsigned nodes, struct printer *out)
{
    bool has_more = false;
    for (unsigned i = 0; i < nodes; i++) {
        const struct redlock_key_view *key = redlock_nodes_key(view->session.nodes, i);
        has_more |= key->is_answered && (key->kind == REDLOCK_KEY_LONG || key->kind == REDLOCK_KEY_NO_STRING);
    }
    if (view->state != LOCK_IS_BLOCKED || lock_view_has_several(view))
        return;
    printer_line(out,
                 "%u of %u nodes have under its key what is no lock, or has no end: who wants the lock is refused "
                 "until that is gone.",
                 view->blocked, nodes);
    if (has_more)
        printer_line(out, "If no program needs it, delete the key on each of them (redis-cli DEL): `holdfast unlock` "
                          "deletes only what it can show. Or give your resources a prefix (lock.prefix).");
    else
        printer_line(out, "If no program needs it, `holdfast unlock --force` deletes it.");
}

void lock_view_put(struct lock_view *view, struct printer *out)
{
    static const char *const sentences[] = {
        [LOCK_IS_FREE] = "is free",
        [LOCK_IS_HELD] = "is held",
        [LOCK_IS_BLOCKED] = "is blocked: nobody can lock it",
        [LOCK_IS_LEFTOVER] = "is held by nobody: what is left on a minority expires",
        [LOCK_IS_UNKNOWN] = "may be held: too few lock nodes answer, or vote, to tell"};
    struct redlock_group_view group = redlock_nodes_group(view->session.nodes);
    struct buffer text = {0};
    bytes_show(view->resource, strlen(view->resource), &text);
    if (lock_view_has_several(view))
        printer_line(out, "%s has %u seats in use:", buffer_text(&text), view->seat_count);
    else if (view->seat > 0)
        printer_line(out, "Seat %d of %s %s.", (int)view->seat, buffer_text(&text), sentences[view->state]);
    else
        printer_line(out, "%s %s.", buffer_text(&text), sentences[view->state]);
    buffer_fini(&text);
    printer_text(out, NULL, "resource", view->resource);
    printer_text(out, NULL, "prefix", view->session.options.key_prefix != NULL ? view->session.options.key_prefix : "");
    if (lock_view_has_several(view))
        several_put(view, group.nodes, out);
    printer_text(out, NULL, "state", state_name(view->state));
    printer_number(out, NULL, "quorum", group.quorum);
    if (!lock_view_has_several(view))
        one_put(view, group.nodes, out);
    nodes_put(view, group.nodes, out);
    blocked_put(view, group.nodes, out);
    if (out->is_json)
        json_number_if(&out->json, "seat", view->seat > 0, view->seat);
    limit_put(view, out);
}
