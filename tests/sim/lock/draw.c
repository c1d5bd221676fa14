/* Draws the parameters of a schedule. Each has its own mixture: a fault often needs several things at once, and others
 * to be absent. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/lock/schedule.h"

const char *const lock_profile_names[LOCK_PROFILES] = {"steady", "loss", "steps", "wild", "ruin", "any"};

#define schedule lock_schedule

#define APART_MAX_NS (3600 * NS_PER_S)

/* HF_PROFILE plays only schedules of one kind. */
static enum lock_profile profile_draw(void)
{
    static const enum lock_profile profiles[] = {LOCK_STEADY, LOCK_STEADY, LOCK_STEADY, LOCK_LOSS, LOCK_LOSS, LOCK_LOSS,
                                                 LOCK_STEPS,  LOCK_STEPS,  LOCK_WILD,   LOCK_RUIN, LOCK_ANY};
    enum lock_profile profile = profiles[chance_pick(&schedule.chance, sizeof profiles / sizeof profiles[0])];
    const char *wanted = getenv("HF_PROFILE");
    for (int i = 0; wanted != NULL && i < LOCK_PROFILES; i++)
        if (strcmp(wanted, lock_profile_names[i]) == 0)
            profile = (enum lock_profile)i;
    return profile;
}

static void promises_derive(void)
{
    enum lock_profile profile = schedule.profile;
    schedule.keeps_memory = profile == LOCK_STEADY || profile == LOCK_WILD ||
                            (profile == LOCK_STEPS && chance_pick(&schedule.chance, 2) == 0);
    schedule.keeps_clocks = profile == LOCK_STEADY || profile == LOCK_LOSS || profile == LOCK_RUIN;
    schedule.is_exclusive = profile == LOCK_STEADY || profile == LOCK_LOSS || profile == LOCK_STEPS;
    schedule.is_minor = schedule.is_exclusive && chance_pick(&schedule.chance, 4) == 0;
    schedule.is_herd = chance_pick(&schedule.chance, 4) == 0;
}

static void nodes_make(void)
{
    schedule.node_count = (unsigned[]){1, 3, 3, 5, 5, 5, 7}[chance_pick(&schedule.chance, 7)];
    if (!schedule.keeps_memory && schedule.node_count == 1)
        schedule.node_count = 3;
    for (unsigned i = 0; i < schedule.node_count; i++) {
        snprintf(schedule.names[i], sizeof schedule.names[i], "lock%u", i + 1);
        schedule.nodes[i] = node_create(schedule.names[i]);
    }
    schedule.spare = node_create("spare");
    schedule.replaced = schedule.node_count;
}

/* For all of the schedule. */
static void clocks_draw(uint64_t seed)
{
    struct chance chance = {.state = chance_mix(seed * 2 + 3)};
    schedule.is_apart =
        schedule.profile == LOCK_LOSS && schedule.node_count > 1 && !schedule.is_minor && chance_pick(&chance, 3) == 0;
    for (unsigned i = 0; i <= schedule.node_count && schedule.is_apart; i++) {
        int64_t apart_ns = chance_scale(&chance, NS_PER_S, APART_MAX_NS);
        struct host *host = i < schedule.node_count ? schedule.nodes[i]->host : schedule.spare->host;
        if (chance_pick(&chance, 2) == 0)
            host_step_wall(host, chance_pick(&chance, 2) == 0 ? apart_ns : -apart_ns);
    }
    play_count("clocks apart", schedule.is_apart);
}

/* Plain clients know no quarantines: where a server loses data, nothing is promised to them or by them. */
static enum lock_client_kind kind_draw(unsigned number)
{
    unsigned die = chance_pick(&schedule.chance, 16);
    bool bears_plain = schedule.profile == LOCK_STEADY || !schedule.is_exclusive;
    if (schedule.is_pressed)
        return die < 9 ? LOCK_LOOP : LOCK_BLOCKING;
    if (number > 0 && die == 0 && schedule.node_count > 3)
        return LOCK_OLD;
    if (number > 0 && die <= 2 && bears_plain)
        return LOCK_FOREIGN;
    return die < 9 ? LOCK_LOOP : LOCK_BLOCKING;
}

static void terms_draw(struct redlock_terms *terms)
{
    struct chance *chance = &schedule.chance;
    *terms = (struct redlock_terms){.ttl_ms = chance_scale(chance, 500, schedule.max_ttl_ns / NS_PER_MS),
                                    .tries = (unsigned)chance_between(chance, 1, 6),
                                    .wait_ms = chance_pick(chance, 2) == 0 ? 0 : chance_scale(chance, 1, 3000),
                                    .hand_over_tasks = chance_pick(chance, 2) == 0 ? 1 + chance_pick(chance, 4) : 0,
                                    .unfenced = chance_pick(chance, 8) == 0};
    if (schedule.is_crowded || schedule.is_pressed)
        terms->wait_ms = 20000;
    if (chance_pick(chance, 4) == 0 && !schedule.is_pressed)
        terms->max_hold_ms = chance_between(chance, terms->ttl_ms / 2, 3 * terms->ttl_ms);
}

/* Where nothing else is wrong: to who looks for a moment only, a node whose clock shows another time has no vote. One
 * holds on whatever happens. */
static void rolling_draw(uint64_t seed)
{
    bool is_bearable =
        schedule.is_exclusive && schedule.profile != LOCK_STEPS && schedule.node_count > 1 && !schedule.is_apart;
    bool is_wanted = getenv("HF_ROLLING") != NULL || chance_mix(seed * 2 + 3) % 16 == 0;
    if (!is_bearable || !is_wanted || schedule.limit > 0 || schedule.is_pressed)
        return;
    schedule.is_rolling = true;
    schedule.is_minor = false;
    if (schedule.resource_count == 1)
        schedule.resource_count = 2;
    schedule.clients[0].terms.max_hold_ms = 0;
    schedule.clients[0].terms.unfenced = false;
    play_count("rolling restart", 1);
}

/* Some want all of what others take one by one, and never find it free at one moment. */
static void pressed_draw(uint64_t seed)
{
    bool is_wanted = getenv("HF_PRESSED") != NULL || chance_mix(seed * 2 + 5) % 8 == 0;
    if (!schedule.is_exclusive || schedule.limit > 0 || schedule.is_apart || !is_wanted)
        return;
    schedule.is_pressed = true;
    schedule.is_crowded = schedule.is_herd = schedule.is_minor = false;
    schedule.client_count = 4;
    schedule.user_count = LOCK_USERS_MAX;
    schedule.resource_count = 2;
    play_count("pressed by users of one resource", 1);
}

static void client_make(struct lock_client *client, unsigned number)
{
    char name[24];
    snprintf(name, sizeof name, "client%u", number);
    client->number = number;
    client->host = host_create(name);
    client->kind = kind_draw(number);
    terms_draw(&client->terms);
    int64_t timeout_ms = (int64_t[]){0, 20, 100}[chance_pick(&schedule.chance, 3)];
    for (unsigned i = 0; i < schedule.node_count; i++)
        client->nodes[i] = (struct redlock_node){
            .name = schedule.names[i], .host = schedule.names[i], .port = 6379, .timeout_ms = timeout_ms};
    client->options = (struct redlock_options){.nodes = client->nodes,
                                               .node_count = schedule.node_count,
                                               .is_guest = chance_pick(&schedule.chance, 8) == 0,
                                               .logs_to_stderr = world_is_told()};
    if (client->kind == LOCK_OLD)
        client->options.node_count -= 2;
    for (unsigned i = 0; i < schedule.user_count; i++)
        client->users[i] = (struct lock_user){.client = client, .number = i};
}

void lock_draw(uint64_t seed)
{
    schedule.chance = (struct chance){.state = chance_mix(seed * 2 + 1)};
    schedule.profile = profile_draw();
    schedule.client_count = 1 + chance_pick(&schedule.chance, LOCK_CLIENTS_MAX);
    schedule.user_count = 1 + chance_pick(&schedule.chance, LOCK_USERS_MAX);
    schedule.resource_count = 1 + chance_pick(&schedule.chance, LOCK_RESOURCES_MAX);
    schedule.max_ttl_ns = chance_scale(&schedule.chance, NS_PER_S, 5 * NS_PER_S);
    schedule.max_ttl_ns -= schedule.max_ttl_ns % NS_PER_MS;
    bool are_readers_wanted = getenv("HF_READERS") != NULL;
    if (chance_mix(~seed) % 4 == 0)
        schedule.limit = schedule.resource_count = 2 + (unsigned)(chance_mix(~seed) / 4 % (LOCK_RESOURCES_MAX - 1));
    schedule.has_readers = are_readers_wanted || chance_mix(~seed) / 16 % 2 == 0;
    schedule.is_crowded = schedule.has_readers && chance_mix(~seed) / 64 % 2 == 0;
    promises_derive();
    nodes_make();
    clocks_draw(seed);
    schedule.is_minor = schedule.is_minor && schedule.node_count > 1;
    pressed_draw(seed);
    for (unsigned i = 0; i < schedule.client_count; i++)
        client_make(&schedule.clients[i], i);
    rolling_draw(seed);
    play_count(lock_profile_names[schedule.profile], 1);
}
