#include "tests/sim/world/trouble.h"

#include <string.h>

#include "base/memory.h"
#include "tests/sim/world/play.h"

#define DOWN_MIN_NS (20 * NS_PER_MS)
#define SLOW_MAX_NS (80 * NS_PER_MS)
#define STEP_MIN_NS (2 * NS_PER_MS)
#define STEP_MAX_NS (3600 * NS_PER_S)
#define WALL_MAX_NS (30 * INT64_C(86400) * NS_PER_S)
#define STALL_LOOKS 200
#define BEHIND_NS   (10 * NS_PER_S)

enum { MOVES_MAX = 64, HOSTS_MAX = 32, LOST_LEAST = 50, LOST_MOST = 700 /* per mille */ };

enum kind {
    KILL,    /* a process dies, and another takes its place */
    POWER,   /* the host of a process does: nobody is told */
    PAUSE,   /* a process stands still, and may be back before its path to the queue node */
    STALL,   /* the same, between two instructions */
    FREEZE,  /* the same, and the clocks of its host with it */
    BOTH,    /* a process and a lock node stand still together */
    STOP,    /* a process is asked to end, and another takes its place */
    CUT,     /* a path between two hosts carries nothing, one way or both */
    LATE,    /* a path loses segments, which are sent again */
    BREAK,   /* streams end at any byte */
    RESTART, /* a node dies and comes back with its memory */
    HANG,    /* a node stands still */
    SLOW,    /* a node is slow */
    LOSE,    /* replies to scripts on a node, or on the queue node, are lost behind their execution */
    FORGET,  /* a node comes back with nothing, or without the last second */
    REVERT,  /* a node falls back to an older memory, in one run */
    EVICT,   /* a node drops keys: all of them, where exclusion is promised */
    MOVE,    /* an empty server takes over the address of a node, and the old one lives on */
    FULL,    /* a node is out of memory */
    STEP,    /* the wall clock of a node jumps */
    WALL,    /* that of the host of a process does */
    RATE,    /* the clocks of a host go at another rate */
    QUEUE,   /* the queue node restarts, hangs, or is slow */
    OPERATE,
    KINDS
};

static const char *const kind_names[KINDS] = {
    [KILL] = "kill",           [POWER] = "power loss",    [PAUSE] = "pause",
    [STALL] = "stall",         [STOP] = "stop",           [FREEZE] = "frozen host",
    [BOTH] = "both pause",     [MOVE] = "moved address",  [CUT] = "cut",
    [LATE] = "late",           [BREAK] = "break",         [RESTART] = "restart",
    [LOSE] = "losing replies", [HANG] = "hang",           [SLOW] = "slow",
    [FORGET] = "forget",       [REVERT] = "older memory", [EVICT] = "evict",
    [FULL] = "full",           [STEP] = "step",           [WALL] = "wall clock",
    [RATE] = "clock rate",     [QUEUE] = "queue node",    [OPERATE] = "operator"};

const char *const trouble_names[] = {"kill",       "power loss",   "pause",   "stall",          "stop", "cut",
                                     "late",       "break",        "restart", "losing replies", "hang", "slow",
                                     "forget",     "older memory", "evict",   "full",           "step", "wall clock",
                                     "clock rate", "operator",     NULL};

struct move {
    struct world_event begin, end;
    enum kind kind;
    struct chance chance; /* its own random numbers: leaving out another move changes nothing here */
    int64_t for_ns;
    unsigned victim, other;
    bool is_on, both_ways, is_behind; /* PAUSE: its path is */
    bool is_wide;                     /* HANG: at a majority */
    struct instant since;
    struct process *process; /* FREEZE */
    struct node *node;       /* that was chosen when it began */
    struct path *path, *back;
};

static struct {
    const struct trouble_scene *scene;
    struct move moves[MOVES_MAX];
    unsigned count, minority;
    struct host *hosts[HOSTS_MAX];
    unsigned host_count;
    bool is_over;
} trouble;

/* --- who ---------------------------------------------------------------------------------------------------------- */

static bool has_marker(const struct node *node)
{
    return keyspace_find(server_keyspace(node->server), text_of("hf:lock:group")) != NULL;
}

static bool has_its_vote(const struct node *node)
{
    char run[64];
    server_run(node->server, run, sizeof run);
    struct value *marker = keyspace_find(server_keyspace(node->server), text_of("hf:lock:group"));
    return marker != NULL && strstr(buffer_text(&marker->string), run) != NULL;
}

/* Whether others may still distrust it. */
static bool is_doubted(const struct node *node)
{
    bool is_recent =
        node->lost_at.ns != 0 && instant_before(world_time(), instant_after(node->lost_at, trouble.scene->doubt_ns));
    if (trouble.scene->is_apart && !has_its_vote(node))
        return true;
    return is_recent || node->stepped_ns != 0 || node->weak > 0 || !has_marker(node);
}

bool trouble_bears(const struct node *node)
{
    unsigned others = 0;
    for (unsigned i = 0; i < trouble.scene->node_count; i++)
        others += trouble.scene->nodes[i] != node && is_doubted(trouble.scene->nodes[i]);
    return others < trouble.minority;
}

/* A node that may lose data or whose clock may jump: the first, or one that the promise allows now. NULL = none. */
static struct node *weak_node(unsigned number)
{
    const struct trouble_scene *scene = trouble.scene;
    if (scene->is_wild)
        return scene->nodes[number % scene->node_count];
    if (scene->doubt_ns == 0 || scene->is_minor)
        return scene->nodes[number % trouble.minority];
    for (unsigned i = 0; i < scene->node_count; i++) {
        struct node *node = scene->nodes[(number + i) % scene->node_count];
        if (trouble_bears(node))
            return node;
    }
    return NULL;
}

static struct node *node_at(unsigned number)
{
    const struct trouble_scene *scene = trouble.scene;
    return scene->nodes[number % (scene->is_minor ? trouble.minority : scene->node_count)];
}

static struct node *node_losing(const struct move *move)
{
    const struct trouble_scene *scene = trouble.scene;
    return move->both_ways && scene->queue != NULL && !scene->is_minor ? scene->queue : node_at(move->victim);
}

static struct host *host_at(unsigned number)
{
    return trouble.hosts[number % trouble.host_count];
}

static unsigned process_at(unsigned number)
{
    return number % trouble.scene->process_count;
}

/* --- processes ---------------------------------------------------------------------------------------------------- */

static void process_ends(struct move *move)
{
    unsigned number = process_at(move->victim);
    struct process *process = trouble.scene->process(number);
    if (move->kind == STOP && trouble.scene->stop != NULL)
        trouble.scene->stop(number, chance_pick(&move->chance, 4) == 0);
    else
        process_kill(process, move->kind == POWER);
}

static void process_returns(struct move *move)
{
    unsigned number = process_at(move->victim);
    if (!trouble.scene->process(number)->is_alive)
        trouble.scene->restart(number);
}

/* --- the network -------------------------------------------------------------------------------------------------- */

static void paths_choose(struct move *move)
{
    const struct host *one = host_at(move->victim), *other = host_at(move->other);
    move->path = network_path(one, other);
    move->back = network_path(other, one);
}

static void paths_set(struct move *move, bool is_on)
{
    if (move->kind == LATE) {
        move->path->late_per_mille = is_on ? (unsigned)chance_scale(&move->chance, 10, 300) : 0;
        return;
    }
    move->path->is_cut = is_on;
    if (move->both_ways)
        move->back->is_cut = is_on;
    if (!is_on)
        network_heal();
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

static void node_returns(struct node *node, enum server_memory memory)
{
    node_resume(node);
    if (!node->is_up)
        node_start(node, memory);
}

static unsigned node_number(const struct node *node)
{
    unsigned number = 0;
    while (trouble.scene->nodes[number] != node)
        number++;
    return number;
}

static void node_trouble(struct move *move, struct node *node)
{
    switch (move->kind) {
    case FORGET:
        node->weak++;
        node_stop(node, chance_pick(&move->chance, 3) == 0);
        return;
    case RESTART:
        node_stop(node, chance_pick(&move->chance, 3) == 0);
        return;
    case HANG:
        node_pause(node);
        return;
    case SLOW:
        node->slow_ns = chance_scale(&move->chance, 100 * NS_PER_US, SLOW_MAX_NS);
        return;
    case REVERT:
        node->weak++;
        node_copy(node);
        return;
    case EVICT:
        node->lost_at = world_time();
        server_evict(node->server, trouble.scene->is_wild ? (size_t)chance_scale(&move->chance, 1, 8) : SIZE_MAX,
                     chance_next(&move->chance));
        return;
    case MOVE:
        move->victim = node_number(node);
        trouble.scene->move(move->victim);
        return;
    case FULL:
        server_set_out_of_memory(node->server, true);
        return;
    default:
        return;
    }
}

static void node_trouble_ends(struct move *move, struct node *node)
{
    switch (move->kind) {
    case RESTART:
    case HANG:
        node_returns(node, SERVER_KEEPS);
        return;
    case MOVE:
        trouble.scene->move_end(move->victim);
        return;
    case FORGET:
        node->weak--;
        if (!node->is_up)
            node->lost_at = world_time();
        node_returns(node, chance_pick(&move->chance, 3) == 0 ? SERVER_LOSES_LAST_SECOND : SERVER_EMPTY);
        return;
    case REVERT:
        node->weak--;
        if (node_fall_back(node))
            node->lost_at = world_time();
        return;
    case SLOW:
        node->slow_ns = 0;
        return;
    case FULL:
        server_set_out_of_memory(node->server, false);
        return;
    default:
        return;
    }
}

static void nodes_trouble(struct move *move, bool begins)
{
    unsigned count = move->is_wide ? trouble.scene->node_count - trouble.minority : 1;
    for (unsigned i = 0; i < count; i++)
        if (begins)
            node_trouble(move, node_at(move->victim + i));
        else
            node_trouble_ends(move, node_at(move->victim + i));
}

static void clock_set_right(struct node *node)
{
    if (node->stepped_ns == 0)
        return;
    node->lost_at = node->jumped_at = world_time();
    host_step_wall(node->host, -node->stepped_ns);
    node->stepped_ns = 0;
    node_look(node);
}

static void clock_step(struct move *move)
{
    struct node *node = move->node;
    int64_t ns = chance_scale(&move->chance, STEP_MIN_NS, STEP_MAX_NS);
    node->lost_at = node->jumped_at = world_time();
    if (chance_pick(&move->chance, 2) == 0)
        ns = -ns;
    world_tell("the clock of %s jumps by %.6f s", node->name, (double)ns / 1e9);
    host_step_wall(node->host, ns);
    node->stepped_ns += ns;
    node_look(node);
}

static void wall_step(struct move *move)
{
    int64_t ns = chance_scale(&move->chance, STEP_MIN_NS, WALL_MAX_NS);
    host_step_wall(trouble.scene->host(process_at(move->victim)), chance_pick(&move->chance, 2) == 0 ? ns : -ns);
}

/* What becomes of the queue node. */
enum queue_trouble {
    QUEUE_RESTART,
    QUEUE_HANG,
    QUEUE_SLOW,
    QUEUE_FULL,
    QUEUE_FORGET,
    QUEUE_MISCONF,
    QUEUE_READ_ONLY,
    QUEUE_HANG_UP,
    QUEUE_FAIL_OVER,
    QUEUE_TROUBLES
};

static void queue_trouble_begins(struct move *move, struct node *queue)
{
    const struct trouble_scene *scene = trouble.scene;
    if (scene->fail_over != NULL && chance_pick(&move->chance, 4) == 0)
        move->other = QUEUE_FAIL_OVER;
    bool is_silent = chance_pick(&move->chance, 3) == 0;
    if (!queue->is_up) /* its clients are gone, and it must not answer them */
        return;
    switch ((enum queue_trouble)(move->other % QUEUE_TROUBLES)) {
    case QUEUE_RESTART:
    case QUEUE_FORGET:
        node_stop(queue, is_silent);
        return;
    case QUEUE_HANG:
        node_pause(queue);
        return;
    case QUEUE_SLOW:
        queue->slow_ns = chance_scale(&move->chance, 100 * NS_PER_US, SLOW_MAX_NS);
        return;
    case QUEUE_FULL:
        server_set_out_of_memory(queue->server, true);
        return;
    case QUEUE_MISCONF:
        server_set_misconf(queue->server, true);
        return;
    case QUEUE_READ_ONLY:
        server_set_read_only(queue->server, true);
        return;
    case QUEUE_HANG_UP:
        if (queue->is_up)
            server_kill_clients(queue->server);
        return;
    case QUEUE_FAIL_OVER:
    case QUEUE_TROUBLES:
        if (scene->fail_over == NULL || !scene->fail_over(is_silent))
            node_stop(queue, is_silent);
        return;
    }
}

/* Ends all of it: another move that began meanwhile is then shorter. */
static void queue_set_right(struct move *move, struct node *queue)
{
    bool forgets = trouble.scene->fell_back != NULL && move->other % QUEUE_TROUBLES == QUEUE_FORGET && !queue->is_up;
    queue->slow_ns = 0;
    server_set_out_of_memory(queue->server, false);
    server_set_misconf(queue->server, false);
    server_set_read_only(queue->server, false);
    node_returns(queue, forgets ? SERVER_LOSES_LAST_SECOND : SERVER_KEEPS);
    if (forgets)
        trouble.scene->fell_back();
}

/* --- moves -------------------------------------------------------------------------------------------------------- */

static void process_freeze(struct move *move, struct process *process)
{
    move->process = process;
    /* Else it may have seen a later time already. */
    move->is_on = process->is_alive && !process->is_paused && !instant_before(world_time(), process->free_at);
    if (!move->is_on)
        return;
    process->host->is_frozen = true;
    process_pause(process);
}

static void process_thaw(struct move *move)
{
    struct host *host = move->process->host;
    host->is_frozen = false;
    if (move->process->is_alive) /* else its successor has seen the time go on */
        host_stood(host, instant_since(move->since, world_time()));
    process_resume(move->process);
}

static void process_goes_on(struct process *process)
{
    if (!process->host->is_frozen)
        process_resume(process);
}

/* A process that has seen a later time already must not see it again. */
static void clock_rate(struct move *move, struct host *host)
{
    if (host->is_frozen)
        return;
    for (struct list *link = host->processes.next; link != &host->processes; link = link->next)
        if (instant_before(world_time(), list_owner(link, struct process, link)->free_at))
            return;
    int64_t most_ppb = trouble.scene->drift_ppb / 2;
    host_set_rate(host, chance_between(&move->chance, -most_ppb, most_ppb));
}

static void move_act(struct move *move)
{
    struct process *process = trouble.scene->process(process_at(move->victim));
    switch (move->kind) {
    case KILL:
    case POWER:
    case STOP:
        process_ends(move);
        return;
    case PAUSE:
        process_pause(process);
        return;
    case FREEZE:
        process_freeze(move, process);
        return;
    case BOTH:
        process_pause(process);
        node_pause(node_at(move->other));
        return;
    case STALL:
        process_stall(process, 1 + chance_pick(&move->chance, STALL_LOOKS), move->for_ns);
        return;
    case CUT:
    case LATE:
        paths_set(move, true);
        return;
    case BREAK:
        network_break(chance_pick(&move->chance, 2) == 0 ? NULL : process->host, node_at(move->other)->host);
        return;
    case FORGET:
    case REVERT:
    case EVICT:
    case MOVE:
        move->node = weak_node(move->victim);
        move->is_on = move->node != NULL;
        if (move->is_on)
            node_trouble(move, move->node);
        return;
    case STEP:
        move->node = weak_node(move->victim);
        if (move->node != NULL)
            clock_step(move);
        return;
    case LOSE:
        move->node = node_losing(move);
        move->node->lost_per_mille = (unsigned)chance_between(&move->chance, LOST_LEAST, LOST_MOST);
        return;
    case WALL:
        wall_step(move);
        return;
    case RATE:
        clock_rate(move, host_at(move->victim));
        return;
    case QUEUE:
        queue_trouble_begins(move, trouble.scene->queue);
        return;
    case OPERATE:
        if (trouble.scene->operate != NULL)
            trouble.scene->operate(&move->chance);
        return;
    default:
        nodes_trouble(move, true);
        return;
    }
}

static void path_cut(const struct move *move, bool is_cut)
{
    move->path->is_cut = move->back->is_cut = is_cut;
    if (!is_cut)
        network_heal();
}

/* As a virtual machine that is resumed. */
static void process_wakes(struct move *move)
{
    struct process *process = trouble.scene->process(process_at(move->victim));
    const struct node *queue = trouble.scene->queue;
    if (move->is_behind) {
        path_cut(move, false);
        return;
    }
    process_goes_on(process);
    if (trouble.is_over || queue == NULL || chance_pick(&move->chance, 2) == 0)
        return;
    play_count("back before its network", 1);
    move->path = network_path(process->host, queue->host);
    move->back = network_path(queue->host, process->host);
    move->is_on = move->is_behind = true;
    path_cut(move, true);
    world_at(&move->end, instant_after(world_time(), chance_scale(&move->chance, DOWN_MIN_NS, BEHIND_NS)));
}

static void move_undo(struct move *move)
{
    if (!move->is_on)
        return;
    move->is_on = false;
    switch (move->kind) {
    case KILL:
    case POWER:
    case STOP:
        process_returns(move);
        return;
    case FREEZE:
        process_thaw(move);
        return;
    case BOTH:
        node_resume(node_at(move->other));
        process_goes_on(trouble.scene->process(process_at(move->victim)));
        return;
    case PAUSE:
        process_wakes(move);
        return;
    case CUT:
    case LATE:
        paths_set(move, false);
        return;
    case FORGET:
    case REVERT:
    case MOVE:
        node_trouble_ends(move, move->node);
        return;
    case QUEUE:
        queue_set_right(move, trouble.scene->queue);
        return;
    case LOSE:
        move->node->lost_per_mille = 0;
        return;
    case RESTART:
    case HANG:
    case SLOW:
    case FULL:
        nodes_trouble(move, false);
        return;
    default:
        return;
    }
}

static void move_ends(struct world_event *event)
{
    struct move *move = list_owner(event, struct move, end);
    world_tell("%s ends", kind_names[move->kind]);
    move_undo(move);
}

static void move_begins(struct world_event *event)
{
    struct move *move = list_owner(event, struct move, begin);
    world_tell("%s, of %u and %u, for %.3f s", kind_names[move->kind], move->victim, move->other,
               (double)move->for_ns / 1e9);
    play_count(kind_names[move->kind], 1);
    play_count("a majority is away", move->is_wide);
    move->is_on = true;
    move->since = world_time();
    world_at(&move->end, instant_after(world_time(), move->for_ns));
    move_act(move);
}

/* --- drawing ------------------------------------------------------------------------------------------------------ */

static void hosts_note(const struct trouble_scene *scene)
{
    trouble.host_count = 0;
    for (unsigned i = 0; i < scene->node_count; i++)
        trouble.hosts[trouble.host_count++] = scene->nodes[i]->host;
    if (scene->queue != NULL)
        trouble.hosts[trouble.host_count++] = scene->queue->host;
    for (unsigned i = 0; i < scene->process_count + scene->guest_count; i++)
        trouble.hosts[trouble.host_count++] = scene->host(i);
}

static void move_draw(struct move *move, struct chance *chance, unsigned kinds, int64_t for_ns)
{
    struct instant at = instant_after(world_time(), chance_below(chance, for_ns));
    *move = (struct move){.begin = {.fire = move_begins}, .end = {.fire = move_ends}};
    do
        move->kind = (enum kind)chance_pick(chance, KINDS);
    while ((kinds & 1u << move->kind) == 0);
    if (trouble.scene->takes_majorities && chance_pick(chance, 4) == 0)
        move->kind = HANG;
    move->chance = (struct chance){.state = chance_next(chance)};
    move->for_ns = chance_scale(chance, DOWN_MIN_NS, trouble.scene->longest_ns);
    if (move->kind == LOSE && chance_pick(chance, 4) != 0) /* most is sent in the beginning */
        at = instant_after(world_time(), chance_below(chance, for_ns / 16));
    if (move->kind == LOSE)
        move->for_ns = chance_between(chance, DOWN_MIN_NS, for_ns / 4);
    if (trouble.scene->kinds == TROUBLE_OF_LEASES && move->kind != QUEUE && move->kind != LOSE &&
        chance_pick(chance, 2) == 0)
        move->for_ns = chance_between(chance, trouble.scene->lease_ns * 14 / 15, trouble.scene->lease_ns * 28 / 15);
    bool stands_still = move->kind == PAUSE || move->kind == HANG || move->kind == STALL;
    if (stands_still && trouble.scene->ttl_ns > 0 && trouble.scene->kinds == TROUBLE_OF_ALL_KINDS &&
        chance_pick(chance, 3) == 0)
        move->for_ns = chance_between(chance, trouble.scene->ttl_ns / 2, 2 * trouble.scene->ttl_ns);
    move->is_wide = move->kind == HANG && trouble.scene->takes_majorities;
    if (move->is_wide)
        move->for_ns = chance_between(chance, trouble.scene->ttl_ns, 2 * trouble.scene->ttl_ns);
    move->victim = (unsigned)chance_pick(chance, 1 << 16);
    move->other = (unsigned)chance_pick(chance, 1 << 16);
    move->both_ways = chance_pick(chance, 2) == 0;
    if (play_move("%s, of %u and %u, at %.3f s for %.3f s", kind_names[move->kind], move->victim, move->other,
                  (double)instant_since(world_time(), at) / 1e9, (double)move->for_ns / 1e9)) {
        paths_choose(move);
        world_at(&move->begin, at);
    }
}

void trouble_draw(const struct trouble_scene *scene, struct chance *chance, int64_t for_ns)
{
    memset(&trouble, 0, sizeof trouble);
    trouble.scene = scene;
    trouble.minority = (scene->node_count - 1) / 2;
    hosts_note(scene);
    /* Each schedule has its own mixture: a fault often needs several things at once, and others to be absent. */
    unsigned kinds = (unsigned)chance_next(chance) & ((1u << KINDS) - 1);
    if ((trouble.minority == 0 && !scene->is_wild) || scene->keeps_memory)
        kinds &= ~(1u << FORGET | 1u << REVERT | 1u << EVICT | 1u << MOVE);
    if ((trouble.minority == 0 && !scene->is_wild) || scene->keeps_clocks)
        kinds &= ~(1u << STEP | 1u << WALL);
    if (!scene->freezes)
        kinds &= ~(1u << FREEZE | 1u << BOTH);
    if (scene->move == NULL)
        kinds &= ~(1u << MOVE);
    if (scene->queue == NULL)
        kinds &= ~(1u << QUEUE);
    if (scene->is_apart)
        kinds &= 1u << KILL | 1u << PAUSE | 1u << FORGET | 1u << REVERT | 1u << EVICT | 1u << OPERATE;
    if (scene->is_minor)
        kinds &= 1u << RESTART | 1u << HANG | 1u << SLOW | 1u << FORGET | 1u << REVERT | 1u << EVICT | 1u << FULL |
                 1u << STEP | 1u << MOVE | 1u << LOSE;
    if (scene->kinds == TROUBLE_OF_KILLS)
        kinds = 1u << KILL | 1u << POWER;
    if (scene->kinds == TROUBLE_OF_LEASES)
        kinds = 1u << KILL | 1u << PAUSE | 1u << CUT | 1u << LATE | 1u << QUEUE | 1u << LOSE;
    if (scene->kinds == TROUBLE_OF_OPERATORS)
        kinds = 1u << OPERATE;
    if (scene->takes_majorities)
        kinds |= 1u << HANG | 1u << QUEUE;
    if (kinds == 0)
        return;
    trouble.count = (unsigned)chance_scale(chance, scene->takes_majorities ? MOVES_MAX / 8 : 1, MOVES_MAX);
    for (unsigned i = 0; i < trouble.count; i++)
        move_draw(&trouble.moves[i], chance, kinds, for_ns);
}

void trouble_end(void)
{
    const struct trouble_scene *scene = trouble.scene;
    world_tell("the trouble ends");
    trouble.is_over = true;
    for (unsigned i = 0; i < trouble.count; i++) {
        world_cancel(&trouble.moves[i].begin);
        world_cancel(&trouble.moves[i].end);
        move_undo(&trouble.moves[i]);
    }
    for (unsigned i = 0; i < scene->node_count; i++) {
        node_returns(scene->nodes[i], SERVER_KEEPS);
        clock_set_right(scene->nodes[i]);
    }
    for (unsigned i = 0; i < scene->process_count; i++) {
        process_resume(scene->process(i));
        process_stall(scene->process(i), 0, 0);
        if (!scene->process(i)->is_alive)
            scene->restart(i);
    }
}
