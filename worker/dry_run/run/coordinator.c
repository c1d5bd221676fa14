#include "worker/dry_run/run/reception.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "queue/meeting.h"
#include "worker/config/node_options.h"

#define INTERVAL_NS (200 * NS_PER_MS)
#define PATIENCE_NS (2 * NS_PER_S)
/* So many of the largest shipments, of 8 MB (visit.c), are one reply. What is more is asked for next. */
enum { TTL_MS = 120000, BATCHES = 8, REPLY_BYTES_MAX = 72 * 1024 * 1024, REPLY_ELEMENTS_MAX = 4096 };

struct reception {
    struct loop *loop;
    struct reception_options options;
    struct redis_node *node;
    struct redis_call call;
    struct loop_timer timer;
    struct buffer request, run;
    struct instant asked;
    struct meeting_answer answer; /* the last */
    bool had_records;             /* in it */
    enum run_state state;
    unsigned changes, changes_sent, changes_heard;
    bool is_written, is_sent; /* the node has the run as it is; the call that is outstanding brings it */
    struct node_clock clock;
    struct reception_guest guests[RECEPTION_GUESTS_MAX];
    unsigned guest_count;
};

static struct reception_guest *guest_find(struct reception *reception, const char *name)
{
    for (unsigned i = 0; i < reception->guest_count; i++)
        if (strcmp(reception->guests[i].name, name) == 0)
            return &reception->guests[i];
    if (reception->guest_count == RECEPTION_GUESTS_MAX || strlen(name) > MEETING_GUEST_BYTES_MAX)
        return NULL;
    struct reception_guest *guest = &reception->guests[reception->guest_count++];
    guest->name = memory_text(name);
    guest->heard = loop_now(reception->loop);
    return guest;
}

static void guest_beats(void *context, const char *name, struct text_span text)
{
    struct reception *reception = context;
    struct guest_beat beat;
    struct reception_guest *guest = guest_beat_read(text, &beat) ? guest_find(reception, name) : NULL;
    if (guest == NULL)
        return;
    if (memcmp(&beat, &guest->beat, sizeof beat) != 0)
        guest->heard = loop_now(reception->loop);
    guest->beat = beat;
    bool was_gone = guest->is_gone;
    guest->is_gone = beat.has_ended || instant_since(guest->heard, loop_now(reception->loop)) > GUEST_SILENCE_NS;
    if (guest->is_gone && !was_gone && !beat.has_ended)
        reception->options.missed(reception->options.context, (unsigned)(guest - reception->guests));
}

static void records_come(void *context, const char *name, struct text_span shipment)
{
    struct reception *reception = context;
    struct reception_guest *guest = guest_find(reception, name);
    struct text_span records;
    unsigned process;
    reception->had_records = true;
    while (guest != NULL && shipment_next(&shipment, &process, &records))
        reception->options.brought(reception->options.context, (unsigned)(guest - reception->guests), process, records);
}

static void look_again(struct reception *reception, int64_t after_ns)
{
    loop_timer_set(reception->loop, &reception->timer, loop_after(reception->loop, after_ns));
}

static void answered(struct redis_call *call, const struct redis_result *result)
{
    struct reception *reception = list_owner(call, struct reception, call);
    const struct meeting_visitor visitor = {.guest = guest_beats, .records = records_come, .context = reception};
    look_again(reception, INTERVAL_NS);
    if (result->outcome != REDIS_VALUE)
        return;
    reception->had_records = false;
    if (!meeting_read(result->reply, &visitor, &reception->answer)) {
        log_event(LOG_WARN, "meeting_unreadable",
                  "advice=\"something else has written where the hosts of this dry "
                  "run meet\"");
        return;
    }
    node_clock_note(&reception->clock, reception->asked, loop_now(reception->loop), reception->answer.node_us);
    if (reception->is_sent || !reception->answer.is_there)
        reception->is_written = reception->answer.is_there && reception->changes_sent == reception->changes;
    if (reception->answer.is_there)
        reception->changes_heard = reception->changes_sent;
    if (reception->had_records || !reception->is_written)
        look_again(reception, 0);
}

static void look(struct loop_timer *timer)
{
    struct reception *reception = list_owner(timer, struct reception, timer);
    reception->is_sent = !reception->is_written;
    buffer_clear(&reception->request);
    meeting_request(&reception->request, &(struct meeting_call){.space = reception->options.space,
                                                                .run = {reception->run.bytes,
                                                                        reception->is_sent ? reception->run.length : 0},
                                                                .state = run_state_name(reception->state),
                                                                .ttl_ms = TTL_MS,
                                                                .taken = reception->answer.taken,
                                                                .batches = BATCHES});
    reception->asked = instant_now();
    reception->changes_sent = reception->changes;
    if (!redis_node_call(reception->node, &reception->request, loop_after(reception->loop, PATIENCE_NS),
                         &reception->call))
        look_again(reception, INTERVAL_NS);
}

struct reception *reception_create(struct loop *loop, const struct reception_options *options)
{
    struct reception *reception = memory_new(struct reception);
    struct redis_node_options node = node_options(options->node, "dry-run");
    node.scripts = meeting_scripts;
    node.script_count = MEETING_SCRIPTS;
    node.reply_limit = REPLY_BYTES_MAX;
    node.element_limit = REPLY_ELEMENTS_MAX;
    reception->loop = loop;
    reception->options = *options;
    reception->call.done = answered;
    snprintf(reception->answer.taken, sizeof reception->answer.taken, "0");
    loop_timer_init(&reception->timer, look);
    reception->node = redis_node_create(loop, &node);
    reception_tell(reception, RUN_GATHERS);
    return reception;
}

void reception_destroy(struct reception *reception)
{
    if (reception == NULL)
        return;
    loop_timer_clear(reception->loop, &reception->timer);
    redis_node_destroy(reception->node);
    for (unsigned i = 0; i < reception->guest_count; i++)
        free(reception->guests[i].name);
    buffer_fini(&reception->request);
    buffer_fini(&reception->run);
    free(reception);
}

void reception_tell(struct reception *reception, enum run_state state)
{
    buffer_clear(&reception->run);
    run_state_write(&reception->run, state, reception->options.plan);
    reception->state = state;
    reception->is_written = false;
    reception->changes++;
    if (!redis_call_is_outstanding(&reception->call))
        look_again(reception, 0);
}

void reception_stop(struct reception *reception)
{
    loop_timer_clear(reception->loop, &reception->timer);
    redis_call_cancel(&reception->call);
}

bool reception_is_heard(const struct reception *reception)
{
    return reception->changes_heard == reception->changes;
}

unsigned reception_guest_count(const struct reception *reception)
{
    return reception->guest_count;
}

const struct reception_guest *reception_guest(const struct reception *reception, unsigned guest)
{
    return &reception->guests[guest];
}

const struct reception_guest *reception_laggard(const struct reception *reception)
{
    for (unsigned i = 0; i < reception->guest_count; i++) {
        const struct reception_guest *guest = &reception->guests[i];
        if (!guest->is_gone && guest->beat.serving < guest->beat.processes)
            return guest;
    }
    return NULL;
}

bool reception_is_over(const struct reception *reception)
{
    for (unsigned i = 0; i < reception->guest_count; i++)
        if (!reception->guests[i].is_gone)
            return false;
    return reception->guest_count == 0 || (reception_is_heard(reception) && !reception->had_records);
}

const struct node_clock *reception_clock(const struct reception *reception)
{
    return &reception->clock;
}
