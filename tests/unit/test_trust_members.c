/* H2. A server takes the place of another one at its address only after the other members say so in their markers. */
#include "tests/unit/trust_fixture.h"

#include "tests/sim/world/chance.h"

/* --- one client ------------------------------------------------------------------------------------------------- */

static struct marker marker_at(unsigned server)
{
    struct marker marker = {.generation = 0};
    bool is_sound = marker_parse(&marker, world.servers[server].text, strlen(world.servers[server].text));
    assert_true(is_sound || world.servers[server].text[0] == '\0');
    return marker;
}

static void empty_server_at(unsigned node, unsigned number)
{
    restart(node, number);
    world.servers[node].text[0] = '\0';
}

/* What the id of a server's number is once it is recorded. */
static const char *id_of(unsigned number)
{
    static char id[MARKER_ID_DIGITS + 1];
    memcpy(id, run_of(number), MARKER_ID_DIGITS);
    return id;
}

static void record_at(node_set nodes)
{
    for (unsigned i = 0; i < world.trust.nodes; i++)
        if ((unsigned)nodes >> i & 1u)
            assert_true(perform_write(i));
    for (unsigned i = 0; i < world.trust.nodes; i++)
        if ((unsigned)nodes >> i & 1u)
            look(i);
}

TEST(an_empty_server_gets_its_number_after_the_others_recorded_it)
{
    for (unsigned nodes = 3; nodes <= 5; nodes += 2) {
        node_set others = (node_set)((1u << nodes) - 2u);
        start(nodes);
        empty_server_at(0, 40);
        look(0);
        expect(0, TRUST_EXCLUDED, TRUST_UNRECORDED);
        expect_step(1, 0, 1);
        assert_int_equal(world.step.look, others);
        look_at_others(0);
        for (unsigned i = 1; i < nodes; i++)
            assert_true(world.trust.node[i].records);
        assert_false(world.trust.node[0].doubts); /* nothing on the new server itself */
        for (unsigned i = 1; i < nodes; i++) {
            assert_int_equal(world.trust.group.generation, 1 + (i > nodes / 2 + 1));
            write_and_look(i);
            struct marker marker = marker_at(i);
            assert_int_equal(marker.generation, 2);
            assert_string_equal(marker.members[0], id_of(40));
            assert_string_equal(marker.self, group_marker(nodes, 1, i).self);
            assert_string_equal(marker.run, run_of(i));
            assert_int_equal(trust_members(&world.trust) & 1, 0); /* the old one may still give keys to somebody */
            if (i == nodes / 2 + 1)
                assert_int_equal(world.step.write & 1, 1);
        }
        expect(0, TRUST_QUARANTINED, TRUST_LOST_MARKER);
        write_and_look(0);
        expect(0, TRUST_QUARANTINED, TRUST_DOUBTED);
        assert_string_equal(marker_at(0).self, id_of(40));
        assert_int_equal(trust_members(&world.trust) & 1, 1);
        pass(QUARANTINE_NS - 1);
        assert_int_equal(tick().write, 0);
        pass(1);
        assert_int_equal(tick().write, 1);
        write_and_look(0);
        expect_votes(0);
    }
}

/* The client that still reaches the old server learns that it is no member any more, from the others. */
TEST(the_old_server_is_no_member_then)
{
    for (unsigned i = 1; i < 3; i++) {
        struct marker marker = group_marker(3, 2, i);
        memcpy(marker.members[0], id_of(40), sizeof marker.members[0]);
        mark(i, marker, run_of(i));
    }
    look(1);
    expect_voters(5); /* still its own generation, but the scripts of node 2 refuse */
    look(2);
    expect(0, TRUST_EXCLUDED, TRUST_NOT_A_MEMBER);
    expect_voters(6);
    expect_after(tick_after(QUARANTINE_NS), 0, 0, 0);
    empty_server_at(0, 41); /* and this one is another one than was recorded */
    look(0);
    expect(0, TRUST_EXCLUDED, TRUST_NO_MARKER);
    expect_step(1, 0, 1);
    look(1);
    look(2);
    pass(NS_PER_S);
    empty_server_at(0, 40);
    look(0);
    expect(0, TRUST_QUARANTINED, TRUST_LOST_MARKER);
    assert_int_equal(world.step.look, 6);
}

TEST(nothing_is_written_while_too_few_can_record_it)
{
    trust_unseen(&world.trust, 2, world.now);
    empty_server_at(0, 40);
    look(0);
    expect(0, TRUST_EXCLUDED, TRUST_UNRECORDED);
    expect_after(tick_after(3 * QUARANTINE_NS), 0, 0, 0);
    expect_after(look(2), 0, 6, 4);
}

/* Nobody is left to record anything: as before, and no sooner. */
TEST(a_majority_that_lost_its_markers_gets_them_back)
{
    for (unsigned nodes = 3; nodes <= 5; nodes += 2) {
        start(nodes);
        for (unsigned i = 0; i <= nodes / 2; i++) {
            assert_int_equal(world.step.write, 0);
            empty_server_at(i, 40 + i);
            look(i);
        }
        assert_int_equal(world.step.write, (1u << (nodes / 2 + 1)) - 1);
        for (unsigned i = 0; i <= nodes / 2; i++)
            assert_true(perform_write(i));
        for (unsigned i = 0; i <= nodes / 2; i++) {
            look(i);
            expect(i, TRUST_QUARANTINED, TRUST_DOUBTED);
            assert_string_equal(marker_at(i).self, group_marker(nodes, 1, i).self);
        }
        pass(QUARANTINE_NS - 1);
        assert_int_equal(tick().write, 0);
        pass(1);
        assert_int_equal(tick().write, (1u << (nodes / 2 + 1)) - 1);
    }
}

TEST(a_server_that_was_seen_with_its_marker_needs_no_record)
{
    empty(0); /* FLUSHALL */
    expect(0, TRUST_QUARANTINED, TRUST_LOST_MARKER);
    expect_step(1, 0, 1);
    assert_int_equal(world.step.look, 6);
    expect_after(look_after(TRIP_NS, 1), 0, 0, 0);
    expect_after(look(2), 0, 1, 0);
}

/* It may have been one of those that recorded a change, which is known to fewer than a quorum of the others now. */
TEST(what_was_forgotten_brings_no_older_membership_back)
{
    start(5);
    empty(3);
    pass(TRIP_NS);
    trust_unseen(&world.trust, 0, world.now);
    trust_unseen(&world.trust, 1, world.now); /* these two know the newer one, and cannot be reached */
    look(2);
    look(4);
    tick_after(3 * QUARANTINE_NS);
    assert_int_equal(world.step.write, 0);
}

/* Whoever began it is gone: everybody who sees a part of it goes on, also where the old server lives on. */
TEST(a_record_is_finished_by_anybody)
{
    start(5);
    struct marker marker = group_marker(5, 2, 3);
    memcpy(marker.members[0], id_of(40), sizeof marker.members[0]);
    mark(3, marker, run_of(3));
    look(3);
    assert_int_equal(world.step.write, 0x16);
    record_at(0x16);
    assert_int_equal(world.trust.group.generation, 2);
    expect(0, TRUST_EXCLUDED, TRUST_NOT_A_MEMBER);
}

TEST(a_member_that_was_away_learns_the_membership)
{
    for (unsigned kind = 0; kind < 2; kind++) {
        start(5);
        empty_server_at(0, 40);
        look(0);
        pass(TRIP_NS);
        for (unsigned i = 1; i < 4; i++)
            look(i);
        record_at(0xe);
        assert_int_equal(world.trust.group.generation, 2);
        if (kind == 1)
            restart(4, 44);
        look(4);
        pass(NS_PER_S);
        assert_int_equal(tick().write & 0x10, 0x10);
        record_at(0x10);
        assert_int_equal(marker_at(4).generation, 2);
        assert_string_equal(marker_at(4).run, run_of(4)); /* its own restart is another matter */
        if (kind == 0)
            expect_votes(4);
        else
            expect(4, TRUST_QUARANTINED, TRUST_NEW_RUN);
    }
}

/* Two clients saw two servers at one address. */
TEST(the_smaller_of_two_changes_wins_when_the_other_cannot)
{
    start(5);
    static const unsigned number[] = {0, 41, 40, 41, 40}; /* by node */
    for (unsigned i = 1; i < 4; i++) {
        struct marker marker = group_marker(5, 2, i);
        memcpy(marker.members[0], id_of(number[i]), sizeof marker.members[0]);
        mark(i, marker, run_of(i));
        look_after(NS_PER_S, i);
        assert_int_equal(world.step.write & 0xe, i == 1 ? 0xc : i == 2 ? 0x8 : 0); /* 2 of 4 may still win */
    }
    pass(NS_PER_S);
    assert_int_equal(tick().write, 0x10);
    record_at(0x10);
    pass(NS_PER_S);
    assert_int_equal(tick().write, 0xa);
    record_at(0xa);
    assert_int_equal(world.trust.group.generation, 2);
    assert_string_equal(world.trust.group.members[0], id_of(40));
}

/* Each number by itself: the members differ in the other one, too. */
TEST(the_smaller_change_wins_beside_another_change)
{
    start(5);
    for (unsigned i = 2; i < 5; i++) {
        struct marker marker = group_marker(5, i == 2 ? 3 : 2, i);
        memcpy(marker.members[0], id_of(i == 2 ? 41 : 40), sizeof marker.members[0]);
        if (i == 2)
            memcpy(marker.members[1], id_of(50), sizeof marker.members[1]);
        mark(i, marker, run_of(i));
        look(i);
    }
    trust_unseen(&world.trust, 0, world.now);
    trust_unseen(&world.trust, 1, world.now);
    pass(NS_PER_S);
    assert_int_equal(tick().write & 0x1c, 0x1c);
    record_at(0x1c);
    for (unsigned i = 2; i < 5; i++) {
        assert_int_equal(marker_at(i).generation, 3);
        assert_string_equal(marker_at(i).members[0], id_of(40));
        assert_string_equal(marker_at(i).members[1], id_of(50));
    }
    assert_int_equal(world.trust.group.generation, 3);
}

TEST(nothing_is_recorded_while_an_operator_replaces_a_node)
{
    start(5);
    struct marker marker = group_marker(5, 2, 1);
    marker.members[4][0] = '\0';
    mark(1, marker, run_of(1));
    look(1);
    empty_server_at(0, 40);
    look_after(NS_PER_S, 0);
    for (unsigned i = 1; i < 4; i++) {
        char text[MARKER_TEXT_MAX];
        if (!((unsigned)world.step.write >> i & 1u))
            continue;
        trust_marker_to_write(&world.trust, i, text);
        assert_null(strstr(text, id_of(40)));
    }
    expect(0, TRUST_EXCLUDED, TRUST_UNRECORDED);
}

TEST(a_newcomer_knows_the_number_by_the_record)
{
    world_make(3);
    for (unsigned i = 0; i < 3; i++) {
        struct marker marker = group_marker(3, 2, i);
        memcpy(marker.members[0], id_of(40), sizeof marker.members[0]);
        if (i > 0)
            mark(i, marker, run_of(i));
    }
    empty_server_at(0, 40);
    look_at_all();
    expect(0, TRUST_QUARANTINED, TRUST_LOST_MARKER);
    look_after(TRIP_NS, 1);
    look(2);
    assert_int_equal(world.step.write, 1);
}

/* --- many clients, in any order --------------------------------------------------------------------------------- */

enum { CLIENTS = 3, COPIES = 3, WRITES_MAX = 64, MAJORITIES_MAX = 256, SCHEDULES = 2000, MOVES = 600 };

/* Compare and set, on its way. */
struct write {
    unsigned server;
    char expected[MARKER_TEXT_MAX], text[MARKER_TEXT_MAX];
};

struct majority {
    struct instant at; /* the last time */
    uint32_t servers;
};

/* The address of node i leads to one of the servers i, i + nodes and i + 2 nodes. */
struct scene {
    unsigned nodes;
    bool restarts; /* servers do */
    struct instant now;
    struct server servers[SERVERS_MAX];
    char older[SERVERS_MAX][MARKER_TEXT_MAX]; /* markers: before the last write */
    struct world clients[CLIENTS];
    unsigned leads_to[CLIENTS][SERVERS_MAX];
    struct write writes[WRITES_MAX];
    unsigned write_count, runs;
    struct majority majorities[MAJORITIES_MAX];
    unsigned majority_count, healed, moved, restarted;
};

static void scene_make(struct scene *scene, unsigned nodes)
{
    *scene = (struct scene){.nodes = nodes, .now = {1000 * NS_PER_S}, .runs = 100};
    world_make(nodes);
    memcpy(scene->servers, world.servers, nodes * sizeof scene->servers[0]);
    for (unsigned i = nodes; i < COPIES * nodes; i++)
        snprintf(scene->servers[i].run_id, sizeof scene->servers[i].run_id, "%s", run_of(scene->runs++));
    for (unsigned client = 0; client < CLIENTS; client++) {
        trust_init(&scene->clients[client].trust, nodes, TIMEOUT_NS, 0.01);
        for (unsigned i = 0; i < nodes; i++)
            scene->leads_to[client][i] = i;
    }
}

static void take_writes(struct scene *scene, unsigned client, node_set nodes)
{
    const struct trust *trust = &scene->clients[client].trust;
    for (unsigned i = 0; i < scene->nodes; i++) {
        if (!((unsigned)nodes >> i & 1u) || scene->write_count == WRITES_MAX)
            continue;
        struct write *write = &scene->writes[scene->write_count++];
        write->server = scene->leads_to[client][i];
        memcpy(write->expected, trust->node[i].marker_text, sizeof write->expected);
        trust_marker_to_write(trust, i, write->text);
    }
}

static void client_looks(struct scene *scene, unsigned client, unsigned node)
{
    struct world *client_world = &scene->clients[client];
    client_world->now = scene->now;
    client_world->servers[node] = scene->servers[scene->leads_to[client][node]];
    take_writes(scene, client, look_in(client_world, node).write);
}

static void write_arrives(struct scene *scene, unsigned number)
{
    struct write write = scene->writes[number];
    scene->writes[number] = scene->writes[--scene->write_count];
    char *text = scene->servers[write.server].text;
    if (strcmp(text, write.expected) != 0)
        return;
    memcpy(scene->older[write.server], text, sizeof write.text);
    memcpy(text, write.text, sizeof write.text);
    scene->healed += write.server >= scene->nodes && strstr(text, scene->servers[write.server].run_id) != NULL;
}

/* Its new connection leads elsewhere, and it does not know yet. */
static void address_moves(struct scene *scene, struct chance *chance, unsigned moving)
{
    unsigned client = chance_pick(chance, CLIENTS), node = chance_pick(chance, moving);
    scene->leads_to[client][node] = node + chance_pick(chance, COPIES) * scene->nodes;
    trust_unseen(&scene->clients[client].trust, node, scene->now);
    scene->moved++;
}

/* With its memory; those of a minority of the addresses may forget all, or the last write. */
static void server_restarts(struct scene *scene, struct chance *chance, unsigned forgetful)
{
    unsigned node = chance_pick(chance, scene->nodes);
    unsigned number = node + (node < forgetful ? chance_pick(chance, COPIES) * scene->nodes : 0);
    struct server *server = &scene->servers[number];
    snprintf(server->run_id, sizeof server->run_id, "%s", run_of(scene->runs++));
    unsigned loss = chance_pick(chance, 4);
    if (node < forgetful && loss < 2)
        server->text[0] = '\0';
    else if (node < forgetful && loss == 2)
        memcpy(server->text, scene->older[number], sizeof server->text);
    for (unsigned client = 0; client < CLIENTS; client++)
        if (scene->leads_to[client][node] == number)
            trust_unseen(&scene->clients[client].trust, node, scene->now);
    scene->restarted++;
}

static void newcomer_starts(struct scene *scene, unsigned client)
{
    trust_init(&scene->clients[client].trust, scene->nodes, TIMEOUT_NS, 0.01);
}

/* Two disjoint majorities within one ttl are two holders. A client can take any of the servers that vote for it. */
static void client_votes(struct scene *scene, unsigned client, unsigned quorum)
{
    const struct trust *trust = &scene->clients[client].trust;
    uint32_t servers = 0;
    for (unsigned i = 0; i < scene->nodes; i++) {
        unsigned server = scene->leads_to[client][i];
        bool votes = (unsigned)trust_voters(trust) >> i & 1u;
        if (votes && strcmp(scene->servers[server].text, trust_marker_expected(trust, i)) == 0)
            servers |= 1u << server;
    }
    if ((unsigned)__builtin_popcount(servers) < quorum)
        return;
    unsigned same = scene->majority_count;
    for (unsigned i = 0; i < scene->majority_count; i++) {
        const struct majority *other = &scene->majorities[i];
        bool is_recent = instant_since(other->at, scene->now) < MAX_TTL_MS * NS_PER_MS;
        if (is_recent && (unsigned)__builtin_popcount(other->servers | servers) >= 2 * quorum)
            fail_msg("nodes %u: servers %#x and %#x could vote for two holders", scene->nodes, other->servers, servers);
        if (other->servers == servers)
            same = i;
    }
    assert_true(same < MAJORITIES_MAX);
    scene->majorities[same] = (struct majority){scene->now, servers};
    scene->majority_count += same == scene->majority_count;
}

static void scene_goes_on(struct scene *scene, struct chance *chance, unsigned moving)
{
    unsigned client = chance_pick(chance, CLIENTS);
    switch (chance_pick(chance, 24)) {
    case 0:
        if (chance_pick(chance, 6) == 0)
            address_moves(scene, chance, moving);
        return;
    case 1:
        if (chance_pick(chance, 20) == 0)
            newcomer_starts(scene, client);
        return;
    case 2:
        if (scene->restarts && chance_pick(chance, 2) == 0) {
            server_restarts(scene, chance, moving);
            return;
        }
        scene->now = instant_after(scene->now, chance_between(chance, NS_PER_S, QUARANTINE_NS));
        return;
    case 3:
    case 4:
    case 5:
    case 6:
        if (scene->write_count > 0)
            write_arrives(scene, chance_pick(chance, scene->write_count));
        return;
    case 7:
    case 8:
        scene->clients[client].now = scene->now;
        take_writes(scene, client, trust_tick(&scene->clients[client].trust, scene->now).write);
        return;
    default:
        client_looks(scene, client, chance_pick(chance, scene->nodes));
    }
}

/* All addresses lead where they lead the first client, and everybody is heard: who has a quorum? */
static bool recovers(struct scene *scene)
{
    for (unsigned client = 1; client < CLIENTS; client++)
        memcpy(scene->leads_to[client], scene->leads_to[0], sizeof scene->leads_to[0]);
    for (unsigned round = 0; round < 2 * QUARANTINE_NS / NS_PER_S / 3; round++) {
        scene->now = instant_after(scene->now, 3 * NS_PER_S);
        for (unsigned client = 0; client < CLIENTS; client++) {
            for (unsigned node = 0; node < scene->nodes; node++) {
                client_looks(scene, client, node);
                while (scene->write_count > 0)
                    write_arrives(scene, scene->write_count - 1);
            }
            scene->clients[client].now = scene->now;
            take_writes(scene, client, trust_tick(&scene->clients[client].trust, scene->now).write);
            while (scene->write_count > 0)
                write_arrives(scene, scene->write_count - 1);
            client_votes(scene, client, scene->nodes / 2 + 1);
        }
    }
    unsigned quorums = 0;
    for (unsigned client = 0; client < CLIENTS; client++)
        quorums += (unsigned)__builtin_popcount(trust_voters(&scene->clients[client].trust)) > scene->nodes / 2;
    return quorums == CLIENTS;
}

TEST(no_two_majorities_without_a_common_server)
{
    static struct scene scene;
    unsigned healed = 0, moved = 0, restarted = 0, stuck = 0;
    for (unsigned seed = 0; seed < SCHEDULES; seed++) {
        struct chance chance = {.state = chance_mix(seed + 1)};
        unsigned nodes = seed % 2 == 0 ? 3 : 5;
        scene_make(&scene, nodes);
        scene.restarts = seed % 4 > 1;
        for (unsigned client = 0; client < CLIENTS; client++)
            for (unsigned node = 0; node < nodes; node++)
                client_looks(&scene, client, node);
        for (unsigned i = 0; i < MOVES; i++) {
            scene.now = instant_after(scene.now, NS_PER_MS);
            scene_goes_on(&scene, &chance, nodes / 2);
            for (unsigned client = 0; client < CLIENTS; client++)
                client_votes(&scene, client, nodes / 2 + 1);
        }
        stuck += !recovers(&scene);
        healed += scene.healed;
        moved += scene.moved;
        restarted += scene.restarted;
    }
    assert_true(moved > SCHEDULES && healed > SCHEDULES / 2 && restarted > SCHEDULES);
    /* What is left to an operator: where more than a minority restarted, and several changes of one number met. */
    assert_true(stuck < SCHEDULES / 100);
}

RUN_TESTS_BETWEEN(start_three, NULL)
