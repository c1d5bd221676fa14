/* A simulated fleet under contention: worker processes, their queue node and their lock nodes, in virtual time. The
 * same seed gives the same events.
 *
 *   scene.c          one schedule from its first event to its last; the clock; the trace
 *   server.c         a node: requests and replies with their delays, losses, repetitions; pauses, wipes
 *   staff.c      a process: its identity, its lease, its look at `schedule` and at the dead; its death
 *   seat.c           a slot: performs the steps of flow.c (what worker/slot*.c does)
 *   seat_calls.c     what lib/queue does: the arguments of the scripts, ids of claims
 *   grip.c           a lock: performs the steps of the lease over the lock nodes, and the swap (lib/redlock/lock*.c)
 *   trouble.c        producers and operators, and what goes wrong
 *   judge.c          what must never happen
 *
 * Product code are the scripts of both kinds of nodes, as they are sent, worker/flow.c, worker/contention.c and
 * lib/redlock/lease*.c. The rest is written again so that it runs in virtual time; where it decides something, it
 * decides as its original does. */
#ifndef SIM_SCENE_H
#define SIM_SCENE_H

#include "base/heap.h"
#include "base/list.h"
#include "redlock/lease.h"
#include "tests/sim/world/chance.h"
#include "tests/sim/server/script_host.h"
#include "worker/contention.h"
#include "worker/flow.h"
#include "worker/remnants.h"

enum {
    CREWS_MAX = 3,
    SEATS_MAX = 4,
    LOCK_NODES = 3,
    RESOURCES_MAX = 2,
    CHORES_MAX = 24, /* of a schedule */
    CROWD_MAX = 10001,
    ARGUMENTS_MAX = 192,
    EXPECTED_MAX = 16, /* as of lib/queue/promoter.c */
    ID_BYTES = 16,
    NAME_BYTES = 48,
    PAYLOAD_BYTES = 96,
};

/* How something is broken on purpose; the scripts and cores are broken by run-mutants instead. */
enum scene_bug {
    BUG_NONE,
    BUG_IGNORES_RETRY,     /* who is told that the lock may be free parks for long */
    BUG_NEVER_FREES_AGAIN, /* a slow release wakes nobody */
    BUG_SEEN_TOO_LATE,     /* a park names the time of its own claim, not that of the refusal it rests on */
    BUG_BELIEVES_HEARSAY,  /* that a lock is held is still believed when the queue node says that it was freed */
    BUG_FORGETS_DUE,       /* what is due soon is looked for when it is time anyway */
    BUG_LEAVES_REMNANTS,   /* what is left of refused locks, and of releases without an answer, is told to nobody */
    BUGS,
};
extern const char *const scene_bug_names[BUGS];

struct scene;

struct event {
    struct heap_item item;
    struct staff *crew; /* whose it is: while that one is stopped, it does not happen; NULL = nobody's */
    void (*happens)(struct event *event);
};

/* --- servers ------------------------------------------------------------------------------------------------------ */

struct server {
    struct scene *scene;
    unsigned index;
    struct keyspace space;
    int64_t ahead_us;                       /* its clock */
    struct instant paused_until;            /* executes nothing before */
    struct instant trusted_from;            /* a lock node that lost its memory does not vote before */
    unsigned memories;                      /* of a lock node: how often it began to remember, */
    char marker[12];                        /* and what it says about that */
    struct instant last_arrival[CREWS_MAX]; /* requests of one process arrive in their order */
    unsigned long long calls;
};

struct ask; /* a request, until it is answered or given up */
typedef void ask_told(void *owner, uintptr_t detail, const struct reply *reply); /* NULL: no answer */

struct request {
    const struct redis_script *script;
    struct text arguments[ARGUMENTS_MAX];
    size_t keys, count;
};

/* --- locks -------------------------------------------------------------------------------------------------------- */

enum grip_end { GRIP_RELEASED, GRIP_LINGERS };

struct grip {
    struct list link; /* of its crew */
    struct staff *crew;
    struct seat *seat; /* NULL once it was let go */
    struct lease lease;
    struct event timer;
    unsigned resource;
    char value[NAME_BYTES], replaces[NAME_BYTES]; /* `replaces`: "" = no swap */
    struct grip *successor;                       /* waits for it in this process */
    struct grip *releasing;                       /* whose release waits for the outcome of this swap */
    node_set withheld, swapped;
    bool waits_here, is_held, was_handed_over;
    uint64_t token;
    int64_t left_ms;          /* of the holder that refused it */
    struct instant let_go_at; /* by its seat */
    bool frees_again;         /* its lists are freed again when the release was slow */
};

/* --- processes ---------------------------------------------------------------------------------------------------- */

enum seat_left { LEFT_NOTHING, LEFT_FREE, LEFT_TO_HEIR };

struct seat {
    struct staff *crew;
    unsigned number;
    struct seat *mate;
    struct flow flow;
    char id[ID_BYTES], next[ID_BYTES];
    bool has_id, has_cancels, has_waiters;
    char payload[PAYLOAD_BYTES], queue[NAME_BYTES];
    struct chore *chore;
    const struct chore *heir_of;
    int64_t seen_us;
    struct grip *grip;
    bool has_lock, has_taken, has_ended, is_heir, is_confirming, was_deserted, owes_claim, claims, asks_for_waiters,
        gives_up_place, is_late;
    enum seat_left left;
    struct event run_end, keep;
    enum flow_result result;
    enum flow_hold hold;
    struct {
        unsigned length;
        struct instant since;
    } chain;
    struct {
        int64_t near_ns, seen_us;
    } wait;
};

struct staff {
    struct scene *scene;
    unsigned index, life; /* raised by each death */
    bool is_alive, is_enlisted;
    struct instant stopped_until;
    char identity[NAME_BYTES];
    struct seat seats[SEATS_MAX];
    struct contention *contention;
    struct list grips;
    struct remnants *remnants;
    struct event beat, look, start, bell, retell;
    struct instant expected[EXPECTED_MAX];
    unsigned expected_count;
};

/* --- tasks -------------------------------------------------------------------------------------------------------- */

enum place { PLACE_NOWHERE, PLACE_QUEUE, PLACE_SCHEDULE, PLACE_RETRY, PLACE_DEAD, PLACE_CLAIM, PLACES };

struct chore {
    unsigned number, resource, jid; /* two chores may have one jid */
    unsigned set;                   /* of what it locks beside that: only equal ones are heirs */
    bool is_pushed, is_over, was_deleted, was_cancelled, had_lock;
    uint64_t claim;      /* the id of its last claim */
    unsigned claimer;    /* who claimed it last: its life, then eight bits of its number */
    unsigned taken_from; /* the claimer from whom it was brought back as an heir; 0 = nobody */
    bool is_heir, holds; /* it was claimed as one; it had the lock in this claim, */
    bool is_passed;      /* and its heir was brought back */
    bool is_successor;   /* the lock is on its way to it, from a task of its process that has ended */
    enum place place;
    unsigned runs, failures, retries;
    int64_t hold_ns;
    struct instant since; /* in its place */
    unsigned copies;      /* of this look of the judge */
    enum place found;
    unsigned rank;   /* in which order the node recorded those who wait; 0 = does not */
    bool is_excused; /* from the order: somebody else moved it, or it has a twin */
};

/* --- the world ---------------------------------------------------------------------------------------------------- */

struct violation {
    const char *oracle; /* NULL = none */
    struct instant at;
    char text[300];
};

#define SCENE_COUNTERS(X)                                                                                              \
    X(pushed)                                                                                                          \
    X(runs)                                                                                                            \
    X(parked)                                                                                                          \
    X(retried)                                                                                                         \
    X(promoted)                                                                                                        \
    X(heirs)                                                                                                           \
    X(handed_over)                                                                                                     \
    X(freed_again)                                                                                                     \
    X(retold)                                                                                                          \
    X(woken)                                                                                                           \
    X(refused_busy)                                                                                                    \
    X(refused_undecided)                                                                                               \
    X(waited_unasked)                                                                                                  \
                                                                                                                       \
    X(stops)                                                                                                           \
    X(brought_back)                                                                                                    \
    X(deaths)                                                                                                          \
    X(recovered)                                                                                                       \
    X(requests_lost)                                                                                                   \
    X(replies_lost)                                                                                                    \
    X(executed_late)                                                                                                   \
    X(queue_pauses) X(lock_wipes) X(deleted) X(moved) X(promoted_early) X(same_jid) X(cancelled) X(slow_releases)

struct scene_counters {
#define MEMBER(name) unsigned long long name;
    SCENE_COUNTERS(MEMBER)
#undef MEMBER
};

struct scene {
    uint64_t seed;
    enum scene_bug bug;
    struct chance chance;
    struct instant now;
    struct heap heap;
    struct script_host *host;
    struct server queue_node, lock_nodes[LOCK_NODES];
    struct staff crews[CREWS_MAX];
    unsigned staff_count, seat_count, resource_count, chore_count, pushed;
    struct chore *chores;
    struct lease_terms terms;
    struct list asks;
    struct event push, trouble, calm, watch;
    bool is_calm, over, tracing;
    unsigned loss_per_mille; /* of messages, each way */
    int64_t delay_max_ns, extra_delay_ns, node_timeout_ns;
    uint64_t values;
    unsigned ranks;
    uint64_t digest, events;
    /* for the judge: */
    struct grip *holders[RESOURCES_MAX];
    uint64_t tokens[RESOURCES_MAX];
    struct instant idle_since[RESOURCES_MAX]; /* the resource is free and somebody waits; 0 = not so */
    bool relaxed[RESOURCES_MAX];              /* an operator or another program changed its waiting list */
    bool is_quiet;                            /* nothing goes wrong in this schedule */
    bool is_undecided[RESOURCES_MAX];         /* too few lock nodes answered in time, once */
    bool was_wiped;                           /* a lock node, once */
    bool was_paused;                          /* its queue, once */
    bool judges;
    struct scene_counters *counters;
    struct violation violation;
};

/* --- scene.c */
struct scene *scene_create(void);
void scene_destroy(struct scene *scene);
void scene_play(struct scene *scene, uint64_t seed, enum scene_bug bug, struct scene_counters *counters);
/* `tasks` of one resource, the first of which holds its lock for an hour: how many calls a second all nodes get, when
 * all others are parked. */
double scene_idle_calls(struct scene *scene, unsigned tasks);
void event_set_in(struct scene *scene, struct event *event, int64_t ns);
void scene_note(struct scene *scene, uint64_t what);
void scene_print(const struct scene *scene, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define scene_trace(scene, ...)                                                                                        \
    do {                                                                                                               \
        if ((scene)->tracing)                                                                                          \
            scene_print((scene), __VA_ARGS__);                                                                         \
    } while (0)
/* The number of the chore in a payload; NULL when it is none of ours. */
struct chore *chore_of(struct scene *scene, struct text payload);
void chore_write(const struct chore *chore, unsigned version, char payload[PAYLOAD_BYTES]);

/* --- server.c */
void server_init(struct server *server, struct scene *scene, unsigned index);
int64_t server_now_us(const struct server *server);
/* A lock node begins with nothing but a new marker. It refuses what was sent to the one before. */
void server_begin_memory(struct server *server);
void request_begin(struct request *request, const struct redis_script *script);
/* Keys first; the bytes must live until the request is sent. */
void request_key(struct request *request, const char *key);
void request_text(struct request *request, const char *text);
void request_bytes(struct request *request, const char *bytes, size_t length);
/* Repeated until it is answered, or the process is dead. */
void server_ask_until_told(struct server *server, struct staff *crew, const struct request *request, ask_told *told,
                           void *owner, uintptr_t detail);
/* Told NULL after the timeout; what comes later is dropped. */
void server_ask_once(struct server *server, struct staff *crew, const struct request *request, int64_t timeout_ns,
                     ask_told *told, void *owner, uintptr_t detail);
void server_forget(struct staff *crew); /* nobody listens any more; what is on its way arrives */
void server_end(struct scene *scene);
/* At once, by nobody's connection: what operators and other programs do. */
struct reply *server_execute(struct server *server, struct replies *replies, const struct request *request);
struct reply *server_command(struct server *server, struct replies *replies, const char *const *words, size_t count);

/* --- staff.c */
void staff_init(struct staff *crew, struct scene *scene, unsigned index);
void crews_ring(struct scene *scene); /* there is something in the queue, perhaps, and somebody is idle */
void staff_start(struct staff *crew);
void staff_die(struct staff *crew, int64_t back_in_ns);
bool staff_is_stopped(const struct staff *crew);
void staff_end(struct staff *crew);
void staff_expect(struct staff *crew, int64_t due_ns);
void staff_doubt(struct staff *crew, unsigned resource); /* departures_doubt */

/* --- seat.c */
void seat_init(struct seat *seat, struct staff *crew, unsigned number);
void seat_wake(struct seat *seat);
void seat_locked(struct seat *seat);
void seat_refused(struct seat *seat, enum flow_refusal refusal);
void seat_lost(struct seat *seat);
void seat_claimed(struct seat *seat, const char *queue, struct text payload);
void seat_confirmed(struct seat *seat);
void seat_claim_gone(struct seat *seat); /* of an heir */
void seat_kept(struct seat *seat);
void seat_emptied(struct seat *seat);
void seat_claim_lost(struct seat *seat);
void seat_opened(struct seat *seat, long long answer); /* of open.lua */

/* --- seat_calls.c */
void call_turn(struct seat *seat, bool claims, bool frees, bool hands_on);
void call_park(struct seat *seat);
void call_heir(struct seat *seat, const struct chore *ended);
void call_confirm(struct seat *seat, int64_t kept_ns); /* 0 = for good */
void call_move(struct seat *seat, enum flow_move move);
void call_open(struct seat *seat);
void call_free(struct staff *crew, unsigned resource, const struct chore *gives_up, bool hands_on);

/* --- grip.c */
struct grip *grip_acquire(struct seat *seat, unsigned resource, bool waits_here);
void grip_let_go(struct grip *grip, bool frees_again);
bool grip_is_valid(const struct grip *grip);
void grips_forget(struct staff *crew);

/* --- trouble.c */
void trouble_begin(struct scene *scene);

/* --- judge.c */
void judge_violation(struct scene *scene, const char *oracle, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void judge_executed(struct server *server, const struct redis_script *script); /* script NULL: a command */
void judge_acquired(struct grip *grip);
void judge_let_go(struct grip *grip);
void judge_runs(struct seat *seat);

void judge_watch(struct scene *scene);
void judge_end(struct scene *scene);

#endif
