/* A simulated world: clients that lease locks, the nodes they lease them from, the network between them, and a clock
 * that jumps from one event to the next. Nothing here reads a real clock or a real random source: the same seed gives
 * the same events to the nanosecond, and the digest over them proves it.
 *
 *   world.c          one schedule from its first event to its last; the clock; the trace
 *   network.c        connections and messages: delay, order, stalls, breaks, late requests
 *   execution.c      what a node does with a request
 *   client.c         a process: its turns, pauses, its clock, its death and its successor
 *   driver.c         what lib/redlock/lock.c does: performs the steps of the lease, feeds it votes
 *   swaps.c          what lib/redlock/lock_swap.c does: a lock goes to another one of the client
 *   batches.c        what lib/redlock/batch.c and owed.c do: what leaves together, owed releases
 *   inspections.c    what lib/redlock/inspection.c does: feeds trust, performs its steps
 *   user.c           what callers do: acquire, hold, write, release, give up
 *   faults.c         what goes wrong, and when; losses.c: with the memory and the clock of a node
 *   oracle.c         what must never happen; oracle_told.c: what holders must be told; oracle_tokens.c: fencing
 *
 * Only lease*.c, swap.c, trust*.c and marker.c are product code; everything else is built so that they cannot tell the
 * difference, except that they are treated worse: votes of older rounds, late votes and replies after a pause reach the
 * lease unfiltered. */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/list.h"
#include "redlock/lease.h"
#include "redlock/swap.h"
#include "redlock/trust.h"
#include "tests/sim/chance.h"
#include "tests/sim/counters.h"
#include "tests/sim/node_model.h"
#include "tests/sim/parameters.h"

enum event_kind {
    EVENT_MESSAGE,   /* a message arrives, or its call's deadline has come */
    EVENT_LEASE,     /* lease_next of a lock */
    EVENT_USER,      /* the user of a lock acts */
    EVENT_WATCH,     /* the oracle looks at a lock */
    EVENT_RECONNECT, /* of a connection */
    EVENT_STALL_END, /* of a connection */
    EVENT_RESUME,    /* of a client */
    EVENT_OWED,      /* a client looks at what it owes */
    EVENT_TRUST,     /* a client looks at its nodes */
    EVENT_WRITE,     /* what a holder wrote arrives at the resource */
    EVENT_RESTART,   /* of a node */
    EVENT_FAULT,     /* the next fault */
    EVENT_CALM,      /* no faults from here */
    EVENT_DRAIN,     /* everybody gives up what they have */
};

struct event {
    struct heap_item item;
    enum event_kind kind;
};

/* In the order in which they leave at the end of a turn; the last two leave at once. */
enum request_kind {
    REQUEST_RELEASE,
    REQUEST_EXTEND,
    REQUEST_REPLANT,
    REQUEST_RAISE,
    REQUEST_GRANT,
    REQUEST_INSPECT,
    REQUEST_MARK,
};
enum { NO_VOTE = 0, ENTRIES_MAX = 8, GATHERING_KINDS = REQUEST_GRANT };

/* One lock in a request. */
struct entry {
    struct sim_lock *lock;
    uint32_t round; /* NO_VOTE: nobody waits for the outcome */
    uint32_t value;
    uint16_t resources; /* set */
    node_set nodes;
    struct sim_swap *swap; /* of a grant that takes over; else NULL */
    node_set unsure;       /* of the release of an old value: it may just have been replaced there */
    bool replaced;         /* after execution, as what follows */
    enum lease_vote vote;
    uint64_t detail; /* the owner that refused, or the token */
};

struct request {
    enum request_kind kind;
    uint16_t marker;     /* that the node must have */
    uint16_t mark_as;    /* what it is to have */
    int64_t deadline_us; /* in the node's time */
    uint64_t token;      /* proposed, or to be set */
    unsigned count;
    struct entry entries[ENTRIES_MAX];
};

struct answer {
    enum model_code code;
    int64_t node_us;    /* 0: a release does not tell */
    int64_t stepped_ns; /* with the time: how far the clock has jumped all in all */
    uint16_t marker;    /* of an inspection */
    uint32_t run;
};

/* A call from the client's point of view, a request and its reply from the network's. It lives until both are done
 * with it. */
struct message {
    struct event event;
    struct list link;  /* in the connection's `under_way`, in the order of sending */
    struct list inbox; /* replies that wait for a paused client */
    struct connection *connection;
    enum message_phase { MESSAGE_REQUEST, MESSAGE_REPLY, MESSAGE_DELIVERED } phase;
    struct instant sent;
    struct instant due;        /* of the phase; NEVER while the connection stalls */
    struct instant deadline;   /* of the call; NEVER once it is over */
    bool call_open;            /* the client still waits */
    bool dead;                 /* its connection broke: may be executed, is not answered */
    bool refused;              /* the node answered with an error */
    struct owed_release *owed; /* the call repeats this one */
    struct instant gone_by;    /* of a release: its keys have expired by themselves */
    struct instant asked;      /* by the client's clock */
    uint32_t run;              /* of the server that it was sent to */
    struct answer answer;
    struct request request;
};

struct owed_release {
    struct list link;
    struct connection *connection;
    bool under_way;
    struct instant until;
    bool soon; /* else after the next reconnect */
    bool was_executed;
    struct request request;
};

/* Of one that was given up while the next one asks for it. */
struct sim_swap {
    struct list link; /* in world->swaps */
    struct swap swap;
    struct sim_lock *before;
    uint32_t before_round, old;
    uint16_t resources;
    bool is_sent;
};

enum stall { STALL_NONE, STALL_REQUESTS, STALL_REPLIES };

struct connection {
    struct sim_client *client;
    struct sim_node *node;
    bool up;    /* as the client sees it */
    bool broke; /* the client is paused and has not seen it yet */
    enum stall stall;
    bool stall_breaks;                       /* at its end */
    struct event reconnect, stall_end;       /* no reconnect succeeds while a stall lasts */
    struct instant last_request, last_reply; /* arrivals that were promised: the order of a connection */
    bool inspecting, marking;                /* a call is under way */
    struct instant inspected_at;             /* by the client's clock */
    uint16_t marker_guess;                   /* the number of the text that was asked for last */
    uint32_t clock_run;                      /* the run whose clock the client knows; 0 = none */
    int64_t stepped_ns, stood_ns;            /* how far that clock had jumped, and ours stood, when it was told last */
    struct instant noticed_at;               /* when the client was last told a time that showed a jump */
    struct list under_way;                   /* struct message */
    struct list owed;
};

struct batch {
    struct request request;
    node_set nodes;
    struct instant gone_by;
};

/* All times by the client's clock. */
struct hold {
    bool active;                                /* ACQUIRED was told, neither LOST nor released since */
    bool in_danger;                             /* was told */
    struct instant confirmed, deadline, danger; /* by the oracle's own arithmetic */
    struct instant until;                       /* the validity is over, guard taken off */
    struct instant limit;                       /* the maximum hold is over */
};

/* An acquisition as the resources see it. */
struct acquisition {
    struct instant began, completed; /* the winning pass; when its holder was told */
    uint64_t token;
    bool fenced;
};

struct sim_lock {
    struct lease lease;
    struct sim_client *client;
    unsigned number; /* among all locks of the world */
    struct event timer, user, watch, write;
    uint16_t resources;
    unsigned verifies_left;
    uint32_t value, orphans_below; /* values up to this one belonged to a process that died */
    struct sim_swap *swaps_in;     /* takes over what another one held */
    struct sim_swap *swapped_out;  /* what it holds is taken over; until its release */
    bool granting;                 /* grants leave at the end of this turn */
    struct instant published;      /* what the holder compares the clock with */
    struct instant until_then;     /* its validity when our clock last went on, or it was confirmed since */
    /* for the oracle: */
    struct hold hold;
    bool tampered; /* the value was deleted by hand, or our clock stood: others may rightly have the resource */
    bool extension_open;
    struct instant round_started, pass_began; /* by the client's clock, and by everybody's */
    node_set denied;                          /* answered "not ours" in this pass or hold */
    node_set voided;                          /* forgot since this round was sent: its answer is no vote */
    node_set unsent;                          /* the grant was certainly not written */
    node_set deleted;                         /* our value was deleted there by our release */
    struct instant granted_at[SIM_NODES_MAX]; /* in this pass; 0 = was not */
    struct instant lost_before[SIM_NODES_MAX], forgot_before[SIM_NODES_MAX]; /* by the server that granted it */
    struct instant extended_at[SIM_NODES_MAX];
    struct instant round_sent;        /* of the last extension */
    uint64_t token_at[SIM_NODES_MAX]; /* given in this pass, by a grant or a raise */
    struct acquisition acquisition;   /* the last one */
    struct acquisition written;       /* what is on its way to the resource */
    uint16_t written_to;
};

struct sim_client {
    struct world *world;
    unsigned index;
    const struct lease_terms *terms;
    int64_t timeout_ns;
    struct sim_lock locks[SIM_LOCKS_MAX];
    struct connection connections[SIM_NODES_MAX];
    struct batch gathering[GATHERING_KINDS]; /* by enum request_kind */
    bool gathered, quitting;
    bool paused;
    bool clock_stands; /* with the process */
    bool is_gone;      /* between its death and the start of its successor */
    struct instant froze_at;
    struct instant went_on_at; /* after its clock stood still for so long that it must be noticed; 0 = was noticed */
    node_set sharp;            /* nodes whose clocks it knew well then */
    node_set heard;            /* those that told their time since */
    node_set outliers;         /* nodes whose clocks it called far from the others' */
    int64_t stood_ns;          /* how far its clock is behind everybody's */
    int64_t stood_last_ns;     /* of that, the last time */
    int64_t wall_ns;           /* how far its wall clock is ahead */
    struct trust trust;        /* of an odd number of nodes */
    bool trusts;
    struct event resume, owed_timer, trust_timer;
    unsigned cut_node; /* paused while sending: nodes from here on get it after the pause */
    struct list inbox; /* replies that arrived during the pause */
};

struct sim_node {
    struct world *world;
    unsigned index;
    struct node_model model;
    struct node_model saved; /* what would be left of its memory after a crash */
    struct instant saved_at;
    uint16_t excused; /* keys last written by a late request: their release may have been there before */
    bool down;
    bool lives_on;            /* of a former server: some clients still reach it at its old address */
    struct instant lost_at;   /* when it last forgot something, or its clock jumped; 0 = never */
    struct instant forgot_at; /* when it last forgot something, or got a marker after that */
    bool stepped;             /* its clock, ever */
    bool stood;               /* its clock, once */
    int64_t stepped_ns;       /* all in all */
    struct instant refuses_until;
    struct instant moved_at; /* when its clock was last moved by what is forgiven; 0 = never */
    struct event restart;
};

struct violation {
    const char *oracle; /* NULL: none */
    struct instant at;
    char text[240];
};

enum { ACQUISITIONS_KEPT = 256, MARKERS_MAX = 512 };

/* A resource that checks tokens, and its twin that does not. */
struct resource {
    struct acquisition acquisitions[ACQUISITIONS_KEPT]; /* fenced ones, in the order of completion */
    uint64_t highest[ACQUISITIONS_KEPT];                /* token up to and with this one */
    uint64_t single[ACQUISITIONS_KEPT];                 /* what a counter on one node would have given */
    unsigned count;
    uint64_t accepted_token;       /* the fence */
    struct instant accepted_began; /* of the latest acquisition that wrote */
    struct instant twin_began;
};

struct world {
    struct parameters parameters;
    enum profile forced; /* PROFILES: all */
    struct chance chance;
    struct instant now;
    struct heap heap;
    struct sim_node nodes[SIM_NODES_MAX];
    struct sim_node former[SIM_NODES_MAX]; /* servers that had the address before */
    struct sim_client clients[SIM_CLIENTS_MAX];
    struct event fault, calm, drain;
    bool is_calm, is_draining;
    uint32_t values; /* drawn so far */
    uint32_t runs;   /* of servers, so far */
    char markers[MARKERS_MAX][MARKER_TEXT_MAX];
    unsigned marker_count;
    struct resource resources[SIM_RESOURCES_MAX];
    uint64_t single_counters[SIM_RESOURCES_MAX]; /* of the comparison: on node 0, and lost with its memory */
    struct instant single_lost_at;
    unsigned messages; /* under way, without inspections, which never end */
    unsigned acquired_in_calm;
    uint64_t digest, events;
    struct list idle_messages;
    struct list swaps; /* of this schedule */
    struct counters *counters;
    struct violation violation;
    bool tracing;
};

/* --- world.c */
struct world *world_create(void);
void world_destroy(struct world *world);
/* Plays the schedule of a seed from its beginning to its end, or to the first violation. */
void world_play(struct world *world, uint64_t seed, enum model_bug bug, struct counters *counters);

void event_init(struct event *event, enum event_kind kind);
void event_clear(struct world *world, struct event *event);
/* The number of a marker's text; "" is MODEL_NO_MARKER. */
uint16_t world_marker_number(struct world *world, const char *text, uint16_t guess);

#define world_trace(world, ...)                                                                                        \
    do {                                                                                                               \
        if (__builtin_expect((world)->tracing, 0))                                                                     \
            world_print((world), __VA_ARGS__);                                                                         \
    } while (0)
void world_print(const struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* --- network.c */
void connection_init(struct connection *connection, struct sim_client *client, struct sim_node *node);
/* False when the client knows that it is down. */
bool connection_send(struct connection *connection, const struct request *request, struct instant deadline,
                     struct instant gone_by, struct owed_release *owed);
/* Has not answered for the client's timeout: gets no grants until it has (group_node_is_behind). */
bool connection_is_behind(const struct connection *connection);
void connection_stall(struct connection *connection, enum stall stall, int64_t ns, bool breaks);
void connection_stall_ended(struct connection *connection);
void connection_break(struct connection *connection, bool executes_late);
void connection_break_seen(struct connection *connection); /* the client is told */
void connection_abandon(struct connection *connection);    /* the client is no more */
void connection_reconnect(struct connection *connection);
void message_happens(struct message *message);
void message_deliver(struct message *message);    /* a reply reaches a client that runs */
void message_time_out(struct message *message);   /* its call has passed its deadline */
void message_reschedule(struct message *message); /* after its times, or its client, changed */

/* --- execution.c */
void message_execute(struct message *message);

/* --- client.c */
void client_init(struct sim_client *client, struct world *world, unsigned index);
void client_start(struct sim_client *client); /* also that of a successor */
void client_turn_end(struct sim_client *client);
void client_pause(struct sim_client *client, int64_t ns, bool clock_stands);
void client_resume(struct sim_client *client);
void client_leave(struct sim_client *client, int64_t ns);
struct instant client_writes_at(const struct sim_client *client, unsigned node);

/* --- driver.c */
void lock_init(struct sim_lock *lock, struct sim_client *client, unsigned number);
void lock_renew(struct sim_lock *lock);
void lock_acquire(struct sim_lock *lock, unsigned resources);
void lock_release(struct sim_lock *lock);
/* To another one of the same client, that is free. */
void lock_hand_over(struct sim_lock *lock, struct sim_lock *next);
void lock_verify(struct sim_lock *lock);
void lock_timer(struct sim_lock *lock);
void lock_voted(struct sim_lock *lock, unsigned node, uint32_t round, enum lease_vote vote, uint64_t detail);
void lock_forgot(struct sim_lock *lock, unsigned node);
void lock_doubt(struct sim_lock *lock);
void lock_suspect(struct sim_lock *lock, int64_t stood_ns);
void lock_send_grants(struct sim_lock *lock);

/* --- swaps.c: as the functions of lock_swap.h */
bool swap_start(struct sim_lock *before, struct sim_lock *next);
bool swap_holds_back(struct sim_lock *lock, node_set nodes);
node_set swap_heard(struct sim_swap *swap, unsigned node, enum swap_answer answer);
void swap_conclude(struct sim_swap *swap, unsigned node, enum swap_answer answer, node_set release);
void swap_follow(struct sim_lock *next);
void swaps_free(struct world *world);

/* --- batches.c */
void batch_add(struct sim_client *client, enum request_kind kind, struct sim_lock *lock, uint32_t round,
               node_set nodes);
void batch_add_swapped(struct sim_client *client, struct sim_swap *swap, node_set nodes, node_set unsure);
void batches_flush(struct sim_client *client);
enum outcome { CALL_ANSWERED, CALL_REFUSED, CALL_UNKNOWN };
void call_over(struct message *message, enum outcome outcome);
void owed_reconnected(struct connection *connection);
void owed_fire(struct sim_client *client);
void owed_forget_all(struct connection *connection);

/* --- inspections.c */
void inspections_start(struct sim_client *client);
void inspections_fire(struct sim_client *client);
void inspection_node_up(struct connection *connection);
void inspection_node_down(struct connection *connection);
void inspection_sampled(struct connection *connection, const struct message *message);
void inspection_doubts(struct connection *connection);
void inspection_over(struct message *message, enum outcome outcome); /* of REQUEST_INSPECT and REQUEST_MARK */
void run_tell(uint32_t run, char text[MARKER_RUN_DIGITS + 1]);
node_set client_voters(const struct sim_client *client);
node_set client_members(const struct sim_client *client);
/* What a request to the node is to say. */
void request_address(struct request *request, struct connection *connection, const struct sim_lock *lock);

/* --- user.c */
void user_begin(struct sim_lock *lock);
void user_act(struct sim_lock *lock);
void user_news(struct sim_lock *lock, const struct lease_step *step);
void user_calm(struct sim_lock *lock);

/* --- faults.c */
void faults_begin(struct world *world);
void fault_happens(struct world *world);
void faults_end(struct world *world);

/* --- losses.c */
void node_init(struct sim_node *node, struct world *world, unsigned index, enum model_bug bug);
void node_written(struct sim_node *node); /* about to be: what is saved may have to follow */
void node_crash(struct sim_node *node);
void node_restart(struct sim_node *node);
void node_wipe(struct sim_node *node);
void node_replace(struct sim_node *node);
void node_move(struct sim_node *node);
void former_nodes_end(struct world *world);
struct marker marker_read(const struct sim_node *node); /* of generation 0: there is none */
/* The server that a new connection leads to, where the last one led to `before`. */
struct sim_node *node_reached(struct world *world, const struct sim_node *before);
void node_roll_back(struct sim_node *node);
void node_step(struct sim_node *node);
void node_stand(struct sim_node *node, int64_t ns);
void node_slew(struct sim_node *node);
void nodes_heal(struct world *world); /* what no client can: an operator */

/* --- oracle.c */
void world_violated(struct world *world, const char *oracle, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void oracle_step(struct sim_lock *lock, const struct lease_step *step); /* after it was performed */
void oracle_executed(struct sim_node *node);
void oracle_calm_over(struct world *world);
void oracle_cleans_up(struct sim_lock *lock, node_set nodes);    /* our key is about to be deleted there */
void oracle_node_changed(struct sim_node *node, uint32_t value); /* `value` was deleted there, or never came */
void oracle_lease_check(struct sim_lock *lock);
/* Its clock has stood still for so long; and a node told its time. */
void oracle_clock_stood(struct sim_client *client, int64_t ns);
void oracle_time_heard(struct sim_client *client, unsigned node, struct instant asked);
/* Before the client's trust is told. */
void oracle_clock_told(struct connection *connection, const struct message *message);
void oracle_trust_judged(struct sim_client *client, node_set changed);
void oracle_end(struct world *world);

/* --- oracle_told.c */
void oracle_told(struct sim_lock *lock, const struct lease_step *step);
void oracle_released(struct sim_lock *lock);             /* its user gave it up */
void oracle_voted(struct sim_lock *lock);                /* after a vote was taken in */
void oracle_sent(struct sim_lock *lock, uint32_t round); /* after the grants of the round were */
void oracle_watch(struct sim_lock *lock);
void oracle_doubted(struct sim_lock *lock);
void oracle_suspected(struct sim_lock *lock, int64_t stood_ns);
void oracle_process_died(struct sim_lock *lock);

/* --- oracle_tokens.c */
void oracle_acquired(struct sim_lock *lock);
void oracle_written(struct sim_lock *lock); /* what it wrote arrives */

/* Never before now. */
static inline void event_set(struct world *world, struct event *event, struct instant at)
{
    heap_set(&world->heap, &event->item, instant_before(at, world->now) ? world->now : at);
}

/* Some nanoseconds from now. */
static inline struct instant world_in(const struct world *world, int64_t ns)
{
    return instant_after(world->now, ns);
}

/* Into the digest. */
static inline void world_note(struct world *world, uint64_t what)
{
    world->digest = chance_mix(world->digest ^ what);
}

static inline struct instant client_now(const struct sim_client *client)
{
    return instant_after(client->clock_stands ? client->froze_at : client->world->now, -client->stood_ns);
}

/* When everybody's clock shows what the client's will show at `at`, if it does not stand still. */
static inline struct instant client_to_world(const struct sim_client *client, struct instant at)
{
    return instant_after(at, client->stood_ns);
}

static inline bool set_has(unsigned set, unsigned member)
{
    return (set >> member & 1u) != 0;
}

static inline node_set all_nodes(const struct world *world)
{
    return (node_set)((1u << world->parameters.nodes) - 1u);
}

static inline unsigned quorum_of(const struct world *world)
{
    return world->parameters.nodes / 2 + 1;
}

static inline unsigned count_of(node_set set)
{
    return (unsigned)__builtin_popcount(set);
}

static inline struct sim_lock *lock_of_value(struct world *world, uint32_t value)
{
    unsigned number = value % (SIM_CLIENTS_MAX * SIM_LOCKS_MAX);
    struct sim_lock *lock = &world->clients[number / SIM_LOCKS_MAX].locks[number % SIM_LOCKS_MAX];
    return lock->value == value ? lock : NULL;
}

#endif
