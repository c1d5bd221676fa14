/* What lib/queue does for a slot: builds the calls of the scripts, draws the ids of claims, reads the answers. A seat
 * has one call outstanding at most; it is repeated until it is answered. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "queue/scripts.h"
#include "tests/sim/queue/scene.h"

enum { TEXT_BYTES = 96, NUMBER_BYTES = 24 };

#define FAR_MIN_NS  (3600 * NS_PER_S)
#define FAR_MAX_NS  (7200 * NS_PER_S)
#define SOON_MIN_NS (5 * NS_PER_MS)
#define SOON_MAX_NS (50 * NS_PER_MS)

struct list_keys {
    char order[TEXT_BYTES], places[TEXT_BYTES], freed[TEXT_BYTES], name[NUMBER_BYTES];
};

static void list_keys_write(unsigned resource, struct list_keys *keys)
{
    snprintf(keys->name, sizeof keys->name, "resource:r%u", resource);
    snprintf(keys->order, TEXT_BYTES, "hf:2:waiting:%s", keys->name);
    snprintf(keys->places, TEXT_BYTES, "hf:2:places:%s", keys->name);
    snprintf(keys->freed, TEXT_BYTES, "hf:2:freed:%s", keys->name);
}

static const char *number_write(char text[NUMBER_BYTES], int64_t number)
{
    snprintf(text, NUMBER_BYTES, "%" PRId64, number);
    return text;
}

static const char *process_write(const struct staff *crew, char text[TEXT_BYTES])
{
    snprintf(text, TEXT_BYTES, "hf:2:process:%s", crew->identity);
    return text;
}

static void jid_write(const struct chore *chore, char text[NUMBER_BYTES])
{
    snprintf(text, NUMBER_BYTES, "j%u", chore->jid);
}

static void slot_write(struct seat *seat, struct request *request, char number[NUMBER_BYTES])
{
    char id[ID_BYTES + 1];
    snprintf(id, sizeof id, "%016llx", (unsigned long long)++seat->crew->scene->values);
    memcpy(seat->next, id, ID_BYTES);
    request_text(request, number_write(number, seat->number));
    request_bytes(request, seat->id, seat->has_id ? ID_BYTES : 0);
    request_bytes(request, seat->next, ID_BYTES);
}

static void seat_ask(struct seat *seat, const struct request *request, ask_told *told)
{
    struct staff *crew = seat->crew;
    server_ask_until_told(&crew->scene->queue_node, crew, request, told, seat, 0);
}

static void id_set(struct seat *seat, const char *id)
{
    memcpy(seat->id, id, ID_BYTES);
    seat->has_id = true;
}

/* --- answers ---------------------------------------------------------------------------------------------------- */

/* What a place holds after a call that may have claimed. */
static void place_read(struct seat *seat, struct text place, int64_t now_us)
{
    if (place.length < ID_BYTES || memcmp(place.bytes, seat->next, ID_BYTES) != 0) {
        seat->has_id = place.length >= ID_BYTES;
        if (seat->has_id)
            id_set(seat, place.bytes);
        seat_claim_lost(seat);
        return;
    }
    id_set(seat, seat->next);
    if (place.length == ID_BYTES) {
        seat_emptied(seat);
        return;
    }
    const char *line = strchr(place.bytes + ID_BYTES, '\n');
    seat->seen_us = now_us;
    snprintf(seat->queue, sizeof seat->queue, "%.*s", (int)(line - place.bytes - ID_BYTES), place.bytes + ID_BYTES);
    seat_claimed(seat, seat->queue, text_of(line + 1));
}

static void turn_told(void *owner, uintptr_t detail, const struct reply *reply)
{
    (void)detail;
    struct seat *seat = owner;
    seat->has_cancels = reply_text(reply, 2)[0] == '1';
    seat->has_waiters = reply_text(reply, 4)[0] == '1';
    place_read(seat, reply->items[0]->text, reply->items[3]->integer);
}

/* A claim by its id, and whether it was asked for good. */
static uintptr_t asked_about(const struct seat *seat, bool for_good)
{
    char id[ID_BYTES + 1] = "";
    memcpy(id, seat->id, ID_BYTES);
    return (uintptr_t)strtoull(id, NULL, 16) << 1 | for_good;
}

/* What was heard of a claim counts as long as the seat has it and no call changes it. */
static void claim_judge(struct seat *seat, uintptr_t asked, bool is_there)
{
    bool has_claim =
        (seat->flow.state == FLOW_LOCKING || seat->flow.state == FLOW_CONFIRMING) && !seat->flow.claim_lost;
    if (!has_claim || asked_about(seat, false) != (asked & ~(uintptr_t)1))
        return;
    if (!is_there)
        seat_claim_gone(seat);
    else if (asked & 1)
        seat_confirmed(seat);
}

static void confirm_told(void *owner, uintptr_t detail, const struct reply *reply)
{
    claim_judge(owner, detail, reply->integer == 1);
}

static void heir_told(void *owner, uintptr_t detail, const struct reply *reply)
{
    struct seat *seat = owner;
    if (detail != 0)
        claim_judge(seat->mate, detail, reply_text(reply, 3)[0] == '1');
    seat->has_cancels = reply_text(reply, 1)[0] == '1';
    place_read(seat, reply->items[0]->text, reply->items[2]->integer);
}

enum { PARK_LOST, PARK_PARKED, PARK_AGAIN };

static void park_told(void *owner, uintptr_t detail, const struct reply *reply)
{
    (void)detail;
    struct seat *seat = owner;
    if (reply->items[0]->integer == PARK_LOST) {
        seat->has_id = false;
        seat_claim_lost(seat);
        return;
    }
    id_set(seat, seat->next);
    if (reply->items[0]->integer == PARK_PARKED) {
        staff_expect(seat->crew, reply->items[2]->integer * NS_PER_US);
        seat_emptied(seat);
        return;
    }
    seat->seen_us = reply->items[1]->integer;
    seat_kept(seat);
}

/* 1 = done, 0 = lost. */
static void move_told(void *owner, uintptr_t detail, const struct reply *reply)
{
    (void)detail;
    struct seat *seat = owner;
    if (reply->integer == 0) {
        seat->has_id = false;
        seat_claim_lost(seat);
        return;
    }
    id_set(seat, seat->next);
    seat_emptied(seat);
}

static void open_told(void *owner, uintptr_t detail, const struct reply *reply)
{
    (void)detail;
    struct seat *seat = owner;
    if (reply->integer == 1)
        id_set(seat, seat->next);
    seat_opened(seat, reply->integer);
}

static void free_told(void *owner, uintptr_t detail, const struct reply *reply)
{
    (void)owner;
    (void)detail;
    (void)reply;
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

void call_turn(struct seat *seat, bool claims, bool frees, bool hands_on)
{
    struct request request;
    struct list_keys keys;
    char process[TEXT_BYTES], number[NUMBER_BYTES], jid[NUMBER_BYTES], bell[TEXT_BYTES];
    snprintf(bell, sizeof bell, "hf:2:bell:%s:q", seat->crew->identity);
    request_begin(&request, &queue_script_claim);
    request_key(&request, process_write(seat->crew, process));
    request_key(&request, "paused");
    request_key(&request, "hf:2:cancels");
    request_key(&request, bell);
    request_key(&request, "queue:q");
    if (frees) {
        list_keys_write(seat->chore->resource, &keys);
        request_key(&request, "schedule");
        request_key(&request, keys.order);
        request_key(&request, keys.places);
        request_key(&request, keys.freed);
    }
    request_text(&request, "100000");
    request_text(&request, "2");
    request_text(&request, "1");
    request_text(&request, "q");
    request_text(&request, "q");
    slot_write(seat, &request, number);
    request_text(&request, claims ? "1" : "0");
    if (frees) {
        jid_write(seat->chore, jid);
        request_text(&request, "queue:");
        request_text(&request, "1");
        request_text(&request, jid);
        request_text(&request, hands_on ? "1" : "0");
    }
    seat_ask(seat, &request, turn_told);
}

void call_park(struct seat *seat)
{
    struct scene *scene = seat->crew->scene;
    struct request request;
    struct list_keys keys;
    char process[TEXT_BYTES], number[NUMBER_BYTES], jid[NUMBER_BYTES], set[NUMBER_BYTES];
    char seen[NUMBER_BYTES], near[NUMBER_BYTES], far[NUMBER_BYTES], soon[NUMBER_BYTES];
    list_keys_write(seat->chore->resource, &keys);
    jid_write(seat->chore, jid);
    snprintf(set, sizeof set, "set-r%u-%u", seat->chore->resource, seat->chore->set);
    request_begin(&request, &queue_script_park);
    request_key(&request, process_write(seat->crew, process));
    request_key(&request, "schedule");
    request_key(&request, keys.order);
    request_key(&request, keys.places);
    request_key(&request, keys.freed);
    request_key(&request, "hf:2:contended");
    request_key(&request, "paused");
    slot_write(seat, &request, number);
    request_text(&request, keys.name);
    request_text(&request, jid);
    request_text(&request, seat->queue);
    request_text(&request, "c");
    request_text(&request, set);
    int64_t seen_us = scene->bug == BUG_SEEN_TOO_LATE ? seat->seen_us : seat->wait.seen_us;
    request_text(&request, number_write(seen, seen_us));
    request_text(&request, number_write(near, seat->wait.near_ns / NS_PER_US));
    request_text(&request, number_write(far, chance_between(&scene->chance, FAR_MIN_NS, FAR_MAX_NS) / NS_PER_US));
    request_text(&request, number_write(soon, chance_between(&scene->chance, SOON_MIN_NS, SOON_MAX_NS) / NS_PER_US));
    request_text(&request, "0");
    request_text(&request, seat->flow.retried ? "0" : "1");
    request_text(&request, "queue:");
    request_text(&request, seat->payload);
    seat_ask(seat, &request, park_told);
}

void call_heir(struct seat *seat, const struct chore *ended)
{
    struct request request;
    struct list_keys keys;
    const struct chore *holder = seat->mate->chore;
    seat->heir_of = holder;
    char process[TEXT_BYTES], number[NUMBER_BYTES], mate[NUMBER_BYTES], jid[NUMBER_BYTES];
    char ended_jid[NUMBER_BYTES] = "", set[NUMBER_BYTES], kept[NUMBER_BYTES];
    list_keys_write(holder->resource, &keys);
    jid_write(holder, jid);
    if (ended != NULL)
        jid_write(ended, ended_jid);
    snprintf(set, sizeof set, "set-r%u-%u", holder->resource, holder->set);
    request_begin(&request, &queue_script_heir);
    request_key(&request, process_write(seat->crew, process));
    request_key(&request, "paused");
    request_key(&request, "hf:2:cancels");
    request_key(&request, "schedule");
    request_key(&request, keys.order);
    request_key(&request, keys.places);
    request_key(&request, "hf:2:heirs");
    slot_write(seat, &request, number);
    request_text(&request, number_write(mate, seat->mate->number));
    request_bytes(&request, seat->mate->id, ID_BYTES);
    request_text(&request, jid);
    request_text(&request, ended_jid);
    request_text(&request, set);
    request_text(&request, "queue:");
    request_text(&request, keys.name);
    request_text(&request, number_write(kept, seat->crew->scene->terms.ttl_ns / NS_PER_US));
    request_text(&request, "1");
    request_text(&request, "q");
    request_text(&request, "c");
    struct staff *crew = seat->crew;
    server_ask_until_told(&crew->scene->queue_node, crew, &request, heir_told, seat,
                          ended != NULL ? asked_about(seat->mate, true) : 0);
}

void call_confirm(struct seat *seat, int64_t kept_ns)
{
    struct staff *crew = seat->crew;
    struct request request;
    struct list_keys keys;
    char process[TEXT_BYTES], number[NUMBER_BYTES], jid[NUMBER_BYTES], holder[NUMBER_BYTES], kept[NUMBER_BYTES];
    list_keys_write(seat->chore->resource, &keys);
    jid_write(seat->chore, jid);
    request_begin(&request, &queue_script_confirm);
    request_key(&request, process_write(crew, process));
    request_key(&request, "hf:2:heirs");
    request_text(&request, number_write(number, seat->number));
    request_bytes(&request, seat->id, ID_BYTES);
    request_text(&request, keys.name);
    jid_write(seat->heir_of, holder);
    request_text(&request, jid);
    request_text(&request, holder);
    request_text(&request, number_write(kept, kept_ns / NS_PER_US));
    server_ask_until_told(&crew->scene->queue_node, crew, &request, confirm_told, seat,
                          asked_about(seat, kept_ns == 0));
}

static void postpone_write(struct seat *seat, struct request *request, const char *set, const char *seconds)
{
    request_text(request, seconds);
    request_text(request, seat->payload);
    request_text(request, "");
    request_text(request, strcmp(set, "dead") == 0 ? "1000000" : "0");
    request_text(request, strcmp(set, "dead") == 0 ? "10000" : "0");
    request_text(request, "0");
}

/* To be retried, to be buried, back to the queue, or ended because it was cancelled. */
void call_move(struct seat *seat, enum flow_move move)
{
    struct request request;
    char process[TEXT_BYTES], number[NUMBER_BYTES], jid[NUMBER_BYTES], iteration[NUMBER_BYTES + 3], delay[NUMBER_BYTES];
    const char *set = move == FLOW_MOVE_RETRY ? "retry" : "dead";
    jid_write(seat->chore, jid);
    snprintf(iteration, sizeof iteration, "it-%s", jid);
    number_write(delay, move == FLOW_MOVE_RETRY ? chance_between(&seat->crew->scene->chance, 1, 5) : 0);
    request_begin(&request, move == FLOW_MOVE_GIVE_BACK ? &queue_script_give_back
                            : move == FLOW_MOVE_FINISH  ? &queue_script_finish
                                                        : &queue_script_postpone);
    request_key(&request, process_write(seat->crew, process));
    if (move == FLOW_MOVE_GIVE_BACK)
        request_key(&request, "queue:q");
    else
        request_key(&request, move == FLOW_MOVE_FINISH ? "" : set);
    if (move != FLOW_MOVE_GIVE_BACK)
        request_key(&request, move == FLOW_MOVE_FINISH ? "hf:2:cancels" : "");
    if (move == FLOW_MOVE_FINISH)
        request_key(&request, iteration);
    slot_write(seat, &request, number);
    if (move == FLOW_MOVE_FINISH) {
        request_text(&request, jid);
        request_text(&request, "1");
    } else if (move != FLOW_MOVE_GIVE_BACK) {
        postpone_write(seat, &request, set, delay);
    }
    seat_ask(seat, &request, move_told);
}

void call_open(struct seat *seat)
{
    struct request request;
    char process[TEXT_BYTES], number[NUMBER_BYTES], jid[NUMBER_BYTES], iteration[NUMBER_BYTES + 3];
    jid_write(seat->chore, jid);
    snprintf(iteration, sizeof iteration, "it-%s", jid);
    request_begin(&request, &queue_script_open);
    request_key(&request, process_write(seat->crew, process));
    request_key(&request, iteration);
    request_key(&request, "hf:2:cancels");
    slot_write(seat, &request, number);
    request_text(&request, jid);
    request_text(&request, "0");
    seat_ask(seat, &request, open_told);
}

void call_free(struct staff *crew, unsigned resource, const struct chore *gives_up, bool hands_on)
{
    struct request request;
    struct list_keys keys;
    char jid[NUMBER_BYTES] = "";
    list_keys_write(resource, &keys);
    if (gives_up != NULL)
        jid_write(gives_up, jid);
    request_begin(&request, &queue_script_free);
    request_key(&request, "schedule");
    request_key(&request, "paused");
    request_key(&request, keys.order);
    request_key(&request, keys.places);
    request_key(&request, keys.freed);
    request_text(&request, "queue:");
    request_text(&request, jid);
    request_text(&request, hands_on ? "1" : "0");
    request_text(&request, "1");
    request_text(&request, "0");
    server_ask_until_told(&crew->scene->queue_node, crew, &request, free_told, crew, 0);
}
