#include "worker/dry_run/nodes/name_space.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/invariant.h"
#include "base/memory.h"
#include "queue/retried_call.h"
#include "worker/config/node_options.h"

#define CLIENT_NAME       "holdfast-dry-run"
#define FENCES            "hf:fences"
#define CALL_LIMIT_NS     (2 * NS_PER_S)
#define FORGET_LIMIT_NS   (3 * NS_PER_S)
#define BEGIN_LIMIT_NS    (10 * NS_PER_S) /* without dead runs */
#define LEFTOVER_LIMIT_NS (60 * NS_PER_S)
#define RENEW_INTERVAL_NS (5 * NS_PER_S)
#define READY_INTERVAL_NS (200 * NS_PER_MS) /* while others are not */
enum { LEFTOVERS_MAX = 16, TROUBLE_MAX = 400, WHO_MAX = 300 };

struct name_space {
    struct name_space_options options;
    struct redis_node *node;
    struct retried_calls retried_calls;
    struct retried_call retried_call; /* one question at a time */
    uint64_t repeats;
    char who[WHO_MAX];
    char *lock_prefix;
    bool is_begun, is_ready;
    struct dry_runs_lease told;     /* by the node, last */
    struct instant begins;          /* the load; 0 = not known */
    struct removal *removal;        /* of dead runs, then of this one */
    struct loop_timer lease, limit; /* of the beginning, and of forgetting the run */
    char refusal[TROUBLE_MAX];
    /* the beginning */
    void (*begun)(void *context, const char *trouble, unsigned removed);
    struct instant leftover_limit;
    char dead[LEFTOVERS_MAX][DRY_RUNS_ID_DIGITS + 1]; /* runs that are to be removed, the last one first */
    unsigned dead_count, removed;
    /* the end */
    void (*deleted_done)(void *context, const struct removal_end *end);
    bool is_deleting;
    struct instant remove_until;
    struct removal_end end;
    struct loop_hook ended;
};

void name_space_lock_prefix(const char *prefix, const char *run, struct buffer *out)
{
    buffer_append_text(out, prefix);
    dry_runs_lock_space(run, out);
}

/* --- removal ------------------------------------------------------------------------------------------------------ */

/* All keys of one run from all nodes, at the same time: on the queue node what is below hf:2:dry:RUN:, on the lock
 * nodes its locks and their fencing tokens, but for those of long names, which are known by a digest only: they are
 * forgotten in their turn, as all tokens are. */
struct removal {
    struct name_space *space;
    void (*done)(struct name_space *space, const struct removal_end *end);
    unsigned count, over;
    struct key_deletion *deletions[1 + REDLOCK_NODES_MAX]; /* the queue node first */
};

static const struct config_node *node_of(const struct config *config, unsigned index)
{
    return index == 0 ? &config->queue_node : &config->lock_nodes[index - 1];
}

/* NULL is fine. */
static void removal_cancel(struct removal *removal)
{
    for (unsigned i = 0; removal != NULL && i < removal->count; i++)
        key_deletion_close(removal->deletions[i]);
    free(removal);
}

static void key_deletion_done(void *context)
{
    struct removal *removal = context;
    struct removal_end end = {.count = removal->count, .is_clean = true};
    if (++removal->over < removal->count)
        return;
    for (unsigned i = 0; i < removal->count; i++) {
        end.nodes[i] = *key_deletion_state(removal->deletions[i]);
        end.is_clean &= end.nodes[i].is_clean;
        end.deleted += end.nodes[i].deleted;
    }
    removal->space->removal = NULL;
    removal->done(removal->space, &end);
    removal_cancel(removal);
}

/* `done` never runs from inside this call. */
static void removal_begin(struct name_space *space, const char *run, const char *lock_prefix, struct instant deadline,
                          void (*done)(struct name_space *space, const struct removal_end *end))
{
    struct removal *removal = memory_new(struct removal);
    const struct config *config = space->options.config;
    struct buffer keys = {0};
    loop_timer_clear(space->options.loop, &space->limit);
    *removal = (struct removal){.space = space, .done = done, .count = 1 + (unsigned)config->lock_node_count};
    dry_runs_space(run, &keys);
    for (unsigned i = 0; i < removal->count; i++)
        removal->deletions[i] =
            key_deletion_open(&(struct key_deletion_options){.loop = space->options.loop,
                                                             .node = node_options(node_of(config, i), CLIENT_NAME),
                                                             .prefix = i == 0 ? buffer_text(&keys) : lock_prefix,
                                                             .set = i == 0 ? NULL : FENCES,
                                                             .unlinks = i == 0,
                                                             .share = space->options.node_share,
                                                             .deadline = deadline,
                                                             .silence_ns = space->options.silence_ns,
                                                             .done = key_deletion_done,
                                                             .context = removal});
    buffer_fini(&keys);
    space->removal = removal;
}

/* --- questions ---------------------------------------------------------------------------------------------------- */

static void ask(struct name_space *space,
                void (*done)(struct retried_call *retried_call, const struct redis_reply *reply))
{
    space->retried_call.done = done;
    retried_call_start(&space->retried_call);
}

static struct buffer *question(struct name_space *space)
{
    retried_call_cancel(&space->retried_call);
    buffer_clear(&space->retried_call.request);
    return &space->retried_call.request;
}

static struct name_space *space_of(struct retried_call *retried_call)
{
    return list_owner(retried_call, struct name_space, retried_call);
}

static void refused(struct retried_calls *retried_calls, const struct redis_result *result)
{
    struct name_space *space = list_owner(retried_calls, struct name_space, retried_calls);
    snprintf(space->refusal, sizeof space->refusal, "%s", result->reason);
}

static void node_changed(void *context, struct redis_node *node, enum redis_node_state state, const char *reason)
{
    struct name_space *space = context;
    (void)node, (void)reason;
    if (state == REDIS_NODE_UP)
        retried_calls_connected(&space->retried_calls);
}

/* --- the lease ---------------------------------------------------------------------------------------------------- */

static void lease_end(struct name_space *space)
{
    loop_timer_clear(space->options.loop, &space->lease);
    retried_call_cancel(&space->retried_call);
}

static struct buffer *step_question(struct name_space *space, enum dry_runs_step step)
{
    struct buffer *request = question(space);
    dry_runs_lease_request(request,
                           &(struct dry_runs_host){.run = space->options.run,
                                                   .host = space->options.host,
                                                   .hosts = space->options.hosts,
                                                   .who = space->who,
                                                   .lock_prefix = space->lock_prefix},
                           step);
    return request;
}

/* False when this host has no part in the run. */
static bool lease_take(struct name_space *space, const struct redis_reply *reply)
{
    if (!dry_runs_lease_read(reply, &space->told))
        return false;
    if (space->told.begins_us != 0 && space->begins.ns == 0)
        space->begins = instant_after(instant_now(), (space->told.begins_us - space->told.node_us) * NS_PER_US);
    bool is_waiting = space->is_ready && space->begins.ns == 0;
    loop_timer_set(space->options.loop, &space->lease,
                   loop_after(space->options.loop, is_waiting ? READY_INTERVAL_NS : RENEW_INTERVAL_NS));
    return true;
}

static void lease_answered(struct retried_call *retried_call, const struct redis_reply *reply)
{
    struct name_space *space = space_of(retried_call);
    if (lease_take(space, reply))
        return;
    lease_end(space);
    space->options.lost(space->options.context);
}

static void lease_renew(struct loop_timer *timer)
{
    struct name_space *space = list_owner(timer, struct name_space, lease);
    step_question(space, space->is_ready ? DRY_RUNS_READY : DRY_RUNS_STAY);
    ask(space, lease_answered);
}

void name_space_ready(struct name_space *space)
{
    space->is_ready = true;
    loop_timer_set(space->options.loop, &space->lease, loop_now(space->options.loop));
}

int64_t name_space_begins(const struct name_space *space, struct instant *at)
{
    *at = space->begins;
    return space->told.begins_us;
}

unsigned name_space_hosts(const struct name_space *space)
{
    return space->told.hosts;
}

/* --- the beginning ------------------------------------------------------------------------------------------------ */

static void begin_end(struct name_space *space, const char *trouble)
{
    void (*begun)(void *context, const char *trouble, unsigned removed) = space->begun;
    space->begun = NULL;
    loop_timer_clear(space->options.loop, &space->limit);
    if (trouble != NULL)
        retried_call_cancel(&space->retried_call);
    begun(space->options.context, trouble, space->removed);
}

static void limit_reached(struct loop_timer *timer)
{
    struct name_space *space = list_owner(timer, struct name_space, limit);
    if (space->is_deleting) { /* the lease ends by itself, and the next run finds what is left */
        retried_call_cancel(&space->retried_call);
        loop_at_cycle_end(space->options.loop, LOOP_GATHER, &space->ended);
        return;
    }
    char text[TROUBLE_MAX];
    bool is_up = redis_node_state(space->node) == REDIS_NODE_UP;
    snprintf(text, sizeof text, "%s", is_up ? space->refusal : redis_node_reason(space->node));
    begin_end(space, text[0] != '\0' ? text : "the queue node does not answer");
}

static void ask_in_time(struct name_space *space,
                        void (*done)(struct retried_call *retried_call, const struct redis_reply *reply))
{
    loop_timer_set(space->options.loop, &space->limit, loop_after(space->options.loop, BEGIN_LIMIT_NS));
    ask(space, done);
}

static void run_begun(struct retried_call *retried_call, const struct redis_reply *reply)
{
    struct name_space *space = space_of(retried_call);
    space->is_begun = lease_take(space, reply);
    begin_end(space, space->is_begun ? NULL
                                     : "a dry run of this name has other hosts, or has begun already; one that was "
                                       "killed ends within a minute");
}

static void run_begin(struct name_space *space)
{
    step_question(space, DRY_RUNS_COME);
    ask_in_time(space, run_begun);
}

static void leftover_next(struct name_space *space);

static void leftover_forgotten(struct retried_call *retried_call, const struct redis_reply *reply)
{
    (void)reply;
    leftover_next(space_of(retried_call));
}

static void leftover_removed(struct name_space *space, const struct removal_end *end)
{
    if (!end->is_clean) { /* it stays in the index, for the next one */
        leftover_next(space);
        return;
    }
    space->removed++;
    dry_runs_forget_request(question(space), space->dead[space->dead_count], space->options.host);
    ask_in_time(space, leftover_forgotten);
}

/* Only locks of a dry run are removed, whatever the record says. */
static bool is_lock_prefix_of(const char *prefix, const char *run)
{
    struct buffer ending = {0};
    dry_runs_lock_space(run, &ending);
    size_t length = strlen(prefix);
    bool is = length >= ending.length && memcmp(prefix + length - ending.length, ending.bytes, ending.length) == 0;
    buffer_fini(&ending);
    return is;
}

static void leftover_taken(struct retried_call *retried_call, const struct redis_reply *reply)
{
    struct name_space *space = space_of(retried_call);
    const char *run = space->dead[space->dead_count];
    const char *lock_prefix = dry_runs_take_read(reply);
    struct buffer prefix = {0};
    if (lock_prefix == NULL) {
        leftover_next(space);
        return;
    }
    if (is_lock_prefix_of(lock_prefix, run))
        buffer_append_text(&prefix, lock_prefix);
    else
        name_space_lock_prefix(space->options.config->lock.prefix, run, &prefix);
    removal_begin(space, run, buffer_text(&prefix), space->leftover_limit, leftover_removed);
    buffer_fini(&prefix);
}

static void leftover_next(struct name_space *space)
{
    bool is_late = instant_reached(instant_now(), space->leftover_limit);
    if (space->dead_count == 0 || is_late) {
        run_begin(space);
        return;
    }
    space->dead_count--;
    dry_runs_take_request(question(space), space->dead[space->dead_count], space->options.host);
    ask_in_time(space, leftover_taken);
}

static void leftovers_listed(struct retried_call *retried_call, const struct redis_reply *reply)
{
    struct name_space *space = space_of(retried_call);
    for (size_t i = 0; reply->kind == REDIS_ARRAY && i < reply->count && space->dead_count < LEFTOVERS_MAX; i++)
        space->dead_count += dry_runs_ended_read(reply, i, space->dead[space->dead_count]);
    leftover_next(space);
}

void name_space_begin(struct name_space *space, void (*begun)(void *context, const char *trouble, unsigned removed))
{
    invariant(space->begun == NULL && !space->is_begun && !space->is_deleting);
    space->begun = begun;
    space->leftover_limit = loop_after(space->options.loop, LEFTOVER_LIMIT_NS);
    dry_runs_ended_request(question(space), LEFTOVERS_MAX);
    ask_in_time(space, leftovers_listed);
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

/* At the end of a cycle, so that the caller may close the name space. */
static void delete_end(struct loop_hook *hook)
{
    struct name_space *space = list_owner(hook, struct name_space, ended);
    space->deleted_done(space->options.context, &space->end);
}

static void run_forgotten(struct retried_call *retried_call, const struct redis_reply *reply)
{
    struct name_space *space = space_of(retried_call);
    (void)reply;
    loop_timer_clear(space->options.loop, &space->limit);
    loop_at_cycle_end(space->options.loop, LOOP_GATHER, &space->ended);
}

static void run_removed(struct name_space *space, const struct removal_end *end)
{
    space->end = *end;
    if (!end->is_clean) {
        loop_at_cycle_end(space->options.loop, LOOP_GATHER, &space->ended);
        return;
    }
    loop_timer_set(space->options.loop, &space->limit, loop_after(space->options.loop, FORGET_LIMIT_NS));
    dry_runs_forget_request(question(space), space->options.run, space->options.host);
    ask(space, run_forgotten);
}

static void run_remove(struct name_space *space)
{
    removal_begin(space, space->options.run, space->lock_prefix, space->remove_until, run_removed);
}

/* Whose run was taken over, or who never had a part in it, has nothing to remove. */
static void left(struct retried_call *retried_call, const struct redis_reply *reply)
{
    struct name_space *space = space_of(retried_call);
    loop_timer_clear(space->options.loop, &space->limit);
    if (dry_runs_lease_read(reply, &space->told) && space->told.hosts == 0) {
        run_remove(space);
        return;
    }
    space->end.is_clean = true;
    loop_at_cycle_end(space->options.loop, LOOP_GATHER, &space->ended);
}

void name_space_delete(struct name_space *space, int64_t patience_ns,
                       void (*deleted)(void *context, const struct removal_end *end))
{
    invariant(!space->is_deleting);
    lease_end(space);
    /* What of it is underway is not waited for: whatever it has made, the removal that follows finds. */
    space->begun = NULL;
    loop_timer_clear(space->options.loop, &space->limit);
    removal_cancel(space->removal);
    space->removal = NULL;
    space->is_deleting = true;
    space->deleted_done = deleted;
    space->remove_until = loop_after(space->options.loop, patience_ns);
    if (space->options.hosts > 1) {
        step_question(space, DRY_RUNS_LEAVE);
        loop_timer_set(space->options.loop, &space->limit, space->remove_until);
        ask(space, left);
    } else {
        run_remove(space);
    }
}

/* --- life --------------------------------------------------------------------------------------------------------- */

struct name_space *name_space_open(const struct name_space_options *options)
{
    struct name_space *space = memory_new(struct name_space);
    struct buffer lock_prefix = {0};
    space->options = *options;
    if (!(options->node_share > 0 && options->node_share <= 1))
        space->options.node_share = NAME_SPACE_SHARE;
    invariant(dry_runs_id_is_sound(options->run));
    name_space_lock_prefix(options->config->lock.prefix, options->run, &lock_prefix);
    space->lock_prefix = memory_text(buffer_text(&lock_prefix));
    buffer_fini(&lock_prefix);
    char host[256] = "";
    if (gethostname(host, sizeof host - 1) != 0)
        snprintf(host, sizeof host, "unknown");
    snprintf(space->who, sizeof space->who, "%s:%d", host, (int)getpid());
    loop_timer_init(&space->lease, lease_renew);
    loop_timer_init(&space->limit, limit_reached);
    loop_hook_init(&space->ended, delete_end);
    retried_calls_init(&space->retried_calls, options->loop, CALL_LIMIT_NS, &space->repeats);
    space->retried_calls.refused = refused;
    retried_call_init(&space->retried_call, &space->retried_calls, NULL);
    struct redis_node_options node = node_options(&options->config->queue_node, CLIENT_NAME);
    node.scripts = dry_runs_scripts;
    node.script_count = DRY_RUNS_SCRIPTS;
    node.element_limit = 64 * 1024;
    node.reply_limit = (size_t)16 << 20;
    node.changed = node_changed;
    node.context = space;
    space->node = redis_node_create(options->loop, &node);
    space->retried_calls.node = space->node;
    return space;
}

void name_space_close(struct name_space *space)
{
    if (space == NULL)
        return;
    lease_end(space);
    loop_timer_clear(space->options.loop, &space->limit);
    loop_hook_cancel(&space->ended);
    removal_cancel(space->removal);
    retried_call_fini(&space->retried_call);
    retried_calls_fini(&space->retried_calls);
    redis_node_destroy(space->node);
    free(space->lock_prefix);
    free(space);
}
