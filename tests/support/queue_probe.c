#include "tests/support/queue_probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "tests/support/loop_until.h"
#include "tests/support/test.h"

static const int64_t wait_limit_ns = 20 * NS_PER_S;

/* --- events --------------------------------------------------------------------------------------------------- */

static void answered(void *context, unsigned number, enum queue_answer answer, const char *queue, const char *payload,
                     size_t length)
{
    struct queue_probe *probe = context;
    struct queue_probe_slot *slot = &probe->slots[number];
    slot->answers++;
    assert_int_equal(slot->answers, slot->asked);
    slot->answer = answer;
    assert_true((answer == QUEUE_CLAIMED) == (payload != NULL));
    if (answer == QUEUE_CLAIMED) {
        free(slot->payload);
        slot->payload = memory_text_of(payload, length);
        slot->length = length;
        snprintf(slot->queue, sizeof slot->queue, "%s", queue);
    }
    if (probe->on_answer != NULL)
        probe->on_answer(probe, number);
}

static void lost(void *context, unsigned number)
{
    struct queue_probe *probe = context;
    probe->slots[number].lost++;
}

static void confirmed(void *context, unsigned number)
{
    struct queue_probe *probe = context;
    probe->slots[number].confirmed++;
}

static void renewed(void *context, struct instant until)
{
    struct queue_probe *probe = context;
    probe->lease_end = until;
}

static void rang(void *context)
{
    struct queue_probe *probe = context;
    probe->rings++;
    if (probe->on_ring != NULL)
        probe->on_ring(probe);
}

static void left(void *context, bool is_left)
{
    struct queue_probe *probe = context;
    probe->lefts++;
    probe->left = is_left;
}

/* --- life ----------------------------------------------------------------------------------------------------- */

static unsigned names_split(char *text, const char **names, unsigned most)
{
    unsigned count = 0;
    char *rest = NULL;
    for (char *name = strtok_r(text, " ", &rest); name != NULL; name = strtok_r(NULL, " ", &rest)) {
        assert_true(count < most);
        names[count++] = name;
    }
    return count;
}

void queue_probe_start(struct queue_probe *probe, struct loop *loop, unsigned port, const char *names,
                       const struct queue_options *options)
{
    static unsigned number;
    const char *list[16];
    char *text = memory_text(names);
    struct queue_options own = options != NULL ? *options : (struct queue_options){.slots = 0};
    *probe = (struct queue_probe){.loop = loop, .on_answer = probe->on_answer, .on_ring = probe->on_ring};
    snprintf(probe->identity, sizeof probe->identity, "test:%u:0", ++number);
    own.node.name = "queue";
    own.node.host = "127.0.0.1";
    own.node.port = port;
    own.node.backoff_min_ns = 2 * NS_PER_MS;
    own.node.backoff_max_ns = 20 * NS_PER_MS;
    own.timeout_ns = own.timeout_ns > 0 ? own.timeout_ns : 2 * NS_PER_S;
    own.identity = probe->identity;
    own.names = list;
    own.name_count = names_split(text, list, 16);
    own.slots = own.slots > 0 ? own.slots : 4;
    own.answered = answered;
    own.lost = lost;
    own.confirmed = confirmed;
    own.renewed = renewed;
    own.wake = rang;
    own.context = probe;
    assert_true(own.slots <= QUEUE_PROBE_SLOTS_MAX);
    probe->slot_count = own.slots;
    probe->queue = queue_create(loop, &own);
    free(text);
}

void queue_probe_stop(struct queue_probe *probe)
{
    if (probe->queue == NULL)
        return;
    queue_destroy(probe->queue);
    probe->queue = NULL;
    for (unsigned i = 0; i < QUEUE_PROBE_SLOTS_MAX; i++)
        free(probe->slots[i].payload);
    probe->on_answer = NULL;
    probe->on_ring = NULL;
}

/* --- asking --------------------------------------------------------------------------------------------------- */

void queue_probe_settle(struct queue_probe *probe, unsigned slot, bool claim_next)
{
    probe->slots[slot].asked++;
    queue_settle_and_claim(probe->queue, slot, claim_next);
}

void queue_probe_postpone(struct queue_probe *probe, unsigned slot, enum queue_state state, int64_t delay_ns,
                          const char *payload)
{
    probe->slots[slot].asked++;
    queue_postpone(probe->queue, slot, state, delay_ns, &(struct queue_task_name){.jid = "jid"}, payload,
                   strlen(payload));
}

void queue_probe_give_back(struct queue_probe *probe, unsigned slot)
{
    probe->slots[slot].asked++;
    queue_give_back(probe->queue, slot, probe->slots[slot].queue);
}

void queue_probe_finish_with(struct queue_probe *probe, unsigned slot, const struct queue_task_name *task,
                             const struct queue_extras *extras)
{
    probe->slots[slot].asked++;
    queue_finish_with(probe->queue, slot, task, extras);
}

static bool is_answered(void *context)
{
    const struct queue_probe_slot *slot = context;
    return slot->answers == slot->asked;
}

enum queue_answer queue_probe_wait(struct queue_probe *probe, unsigned slot)
{
    if (!loop_until(probe->loop, is_answered, &probe->slots[slot], wait_limit_ns))
        fail_msg("slot %u was never answered: %s", slot, redis_node_reason(queue_node(probe->queue)));
    return probe->slots[slot].answer;
}

void queue_probe_wait_all(struct queue_probe *probe)
{
    for (unsigned slot = 0; slot < probe->slot_count; slot++)
        queue_probe_wait(probe, slot);
}

void queue_probe_claim(struct queue_probe *probe, unsigned slot, const char *payload)
{
    queue_probe_settle(probe, slot, true);
    enum queue_answer answer = queue_probe_wait(probe, slot);
    assert_int_equal(answer, payload != NULL ? QUEUE_CLAIMED : QUEUE_NOTHING);
    if (payload != NULL)
        assert_string_equal(probe->slots[slot].payload, payload);
}

struct rings {
    struct queue_probe *probe;
    unsigned wanted;
};

static bool has_rung(void *context)
{
    const struct rings *rings = context;
    return rings->probe->rings >= rings->wanted;
}

void queue_probe_wait_rings(struct queue_probe *probe, unsigned wanted)
{
    if (!loop_until(probe->loop, has_rung, &(struct rings){probe, wanted}, wait_limit_ns))
        fail_msg("the bell rang %u times instead of %u", probe->rings, wanted);
}

static bool is_up(void *context)
{
    const struct queue_probe *probe = context;
    return redis_node_state(queue_node(probe->queue)) == REDIS_NODE_UP;
}

void queue_probe_wait_up(struct queue_probe *probe)
{
    if (!loop_until(probe->loop, is_up, probe, wait_limit_ns))
        fail_msg("the queue node did not come up: %s", redis_node_reason(queue_node(probe->queue)));
}

static bool has_left(void *context)
{
    const struct queue_probe *probe = context;
    return probe->lefts > 0;
}

bool queue_probe_leave(struct queue_probe *probe, int64_t limit_ns)
{
    queue_leave(probe->queue, instant_after(loop_now(probe->loop), limit_ns), left);
    if (!loop_until(probe->loop, has_left, probe, limit_ns + wait_limit_ns))
        fail_msg("queue_leave has no end");
    assert_int_equal(probe->lefts, 1);
    return probe->left;
}

/* --- looking at the node --------------------------------------------------------------------------------------- */

/* Every heartbeat reads the names of the process's slots, and no other script does where no process dies. */
unsigned queue_probe_scripts(struct redis_server *server)
{
    return redis_server_calls_beyond(server, "evalsha", "hkeys");
}

long long queue_probe_number(struct redis_server *server, const char *command)
{
    char *text = redis_server_command(server, "%s", command);
    long long number = strtoll(text, NULL, 10);
    free(text);
    return number;
}

/* A slot is 16 bytes of id, then nothing or the queue's name, a newline and the payload. */
#define PLACES_SCRIPT                                                                                                  \
    "local out = {} "                                                                                                  \
    "for _, key in ipairs(redis.call('KEYS', '*')) do "                                                                \
    "  local type = redis.call('TYPE', key).ok "                                                                       \
    "  local list = {} "                                                                                               \
    "  if type == 'list' then list = redis.call('LRANGE', key, 0, -1) "                                                \
    "  elseif type == 'zset' and not string.find(key, 'hf:2:', 1, true) then list = redis.call('ZRANGE', key, 0, -1) " \
    "  elseif type == 'hash' then "                                                                                    \
    "    for _, slot in ipairs(redis.call('HKEYS', key)) do "                                                          \
    "      local claim = redis.call('HGET', key, slot) "                                                               \
    "      local line = tonumber(slot) and string.find(claim, string.char(10), 17, true) "                             \
    "      if line then list[#list + 1] = string.sub(claim, line + 1) end "                                            \
    "    end "                                                                                                         \
    "  end "                                                                                                           \
    "  for _, task in ipairs(list) do out[#out + 1] = key .. ' ' .. task end "                                         \
    "end "                                                                                                             \
    "table.sort(out) "                                                                                                 \
    "return out"

char *queue_probe_tasks(struct redis_server *server)
{
    return redis_server_command(server, "EVAL \"%s\" 0", PLACES_SCRIPT);
}
