/* What the files of a simulated server share.
 *
 *   server.c              its life; connections, bytes in and out, what is refused before it runs
 *   server_request.c      a command out of bytes
 *   server_script.c       EVAL, EVALSHA, SCRIPT
 *   server_block.c        who waits for a list
 *   server_channels.c     subscriptions
 *   server_transaction.c  MULTI, EXEC
 *   server_client.c       CLIENT and the other commands about a connection
 *   server_users.c        ACL, AUTH
 *   server_info.c         INFO, CONFIG, ROLE, REPLICAOF
 *   server_journal.c      what was changed: for the disk and for replicas
 *   traffic.c             what it was told, for those who want to tell it to another */
#ifndef SIM_SERVER_PRIVATE_H
#define SIM_SERVER_PRIVATE_H

#include "base/list.h"
#include "tests/sim/server/redis_commands.h"
#include "tests/sim/server/script_host.h"
#include "tests/sim/server/server.h"

enum { ADDRESS_MAX = 32, RUN_ID_SIZE = 41, COMMAND_KINDS = 256 };

/* Commands with their arguments, one behind the other, each with the time at which it ran. */
struct record {
    int64_t now_us;
    uint32_t length; /* of the record */
    uint32_t count;  /* arguments */
};

struct journal {
    struct buffer bytes;
    uint64_t begin;    /* how many bytes were dropped in front */
    size_t trimmed_at; /* bytes that were left when it was last made shorter */
};

/* A copy that is behind: a replica's memory, or the disk. */
struct follower {
    struct list link; /* of the primary */
    struct keyspace *space;
    struct server *replica; /* NULL = the disk */
    uint64_t at;            /* in the primary's journal */
    int64_t lag_us;
};

struct server {
    uint32_t number; /* among those of the process */
    char *run_seed, *host;
    unsigned port, version;
    uint64_t seed;
    bool has_disk;
    unsigned runs;
    char run_id[RUN_ID_SIZE];
    unsigned promotions; /* in this run */
    char replication_id[RUN_ID_SIZE];
    int64_t began_us;

    struct keyspace space;
    struct script_host *host_of_scripts;
    struct table scripts;  /* digests that this run knows */
    struct table settings; /* of CONFIG */
    struct replies replies;

    struct list users;
    struct list connections;
    struct list talking; /* those with output */
    struct list resumed; /* those that waited, and have more to say */
    struct list dead;    /* to be freed at the end of the call */
    size_t connection_count;
    unsigned long long last_id, commands, evicted;
    unsigned long long counts[COMMAND_KINDS]; /* by number in the table of commands */

    struct list blocked; /* the longest first */
    struct table ready;  /* keys that were pushed to while somebody waits */
    struct table channels;

    bool is_out_of_memory, is_misconfigured, is_read_only;
    char named_host[64]; /* by REPLICAOF: whose replica it says it is; "" = nobody was named */
    unsigned named_port;
    long long maxmemory, replicas_needed; /* as configured */
    size_t output_max;                    /* of a connection; 0 = any */
    bool was_out_of_memory;               /* when the running command began */
    bool script_wrote;
    struct server_connection *caller; /* of the running command */

    struct journal journal;
    struct list followers;
    struct follower disk;
    struct keyspace disk_space, saved; /* what SAVE wrote */
    struct server *primary;            /* of a replica */
    struct follower following;

    void (*observe)(void *context, const struct server_event *event);
    void *observer;
};

struct server_connection {
    struct list link, talking_link, resumed_link, blocked_link;
    struct server *server;
    unsigned long long id;
    char address[ADDRESS_MAX];
    void *context;
    void (*send)(void *context, const char *bytes, size_t length);
    void (*closed)(void *context);

    struct buffer in, out;
    size_t read;       /* bytes of `in` that were executed */
    struct user *user; /* NULL = it has not said who it is */
    bool closes_after_reply, is_dead;
    struct buffer name;
    int64_t began_us, last_us;
    const struct command *last;

    struct table channels;

    bool is_queueing, is_spoilt;
    struct buffer queued; /* records */
    size_t queued_count;
    unsigned queued_flags;

    bool is_blocked;
    int64_t blocked_until_us; /* INT64_MAX = for ever */
    const struct command *blocked_command;
    struct buffer blocked_for; /* one record */
};

/* --- server.c ----------------------------------------------------------------------------------------------------- */
enum call_kind { CALL_ALONE, CALL_IN_TRANSACTION, CALL_IN_SCRIPT, CALL_SERVED };
/* Runs it, and records what it changed. */
struct reply *server_call(struct server *server, struct server_connection *connection, const struct command *command,
                          const struct text *arguments, size_t count, enum call_kind kind);
/* Looks whether it may run, and runs it. NULL = nothing to answer yet. */
struct reply *server_process(struct server *server, struct server_connection *connection, const struct text *arguments,
                             size_t count, enum call_kind kind);
/* Sends their output to all clients. */
void server_settle(struct server *server);
void connection_write(struct server_connection *connection, const struct reply *reply);
/* `closed` is called at the end. */
void connection_kill(struct server_connection *connection);
/* Why a write is refused now; NULL = it is not. */
const char *server_refuses_write(struct server *server);

/* --- server_client.c ---------------------------------------------------------------------------------------------- */
/* A list of them ends with one without a name. */
struct subcommand {
    const char *name;
    int arity; /* with the command's name */
    struct reply *(*execute)(struct command_call *call);
};
struct reply *subcommand_execute(struct command_call *call, const struct subcommand *subcommands);

/* --- server_request.c --------------------------------------------------------------------------------------------- */
enum request_found { REQUEST_NOTHING, REQUEST_COMMAND, REQUEST_BROKEN };
/* The next command of connection->in; the arguments live in the server's replies and in `in`. */
enum request_found request_read(struct server_connection *connection, struct text **arguments, size_t *count,
                                const char **error);

/* --- server_journal.c --------------------------------------------------------------------------------------------- */
void record_append(struct buffer *out, const struct text *arguments, size_t count, int64_t now_us);
/* The arguments of the record at `at`, in `replies`; their bytes stay in the buffer. */
struct text *record_unpack(const char *at, struct replies *replies, struct record *record);
void journal_note(struct server *server, const struct text *arguments, size_t count);
/* A command is over. */
void journal_end(struct server *server);
void server_draw_replication_id(struct server *server);
bool server_is_replica(const struct server *server);
size_t server_replicas(const struct server *server);
int64_t journal_next_us(const struct server *server);
void journal_tick(struct server *server);
void journal_restart(struct server *server, enum server_memory memory);
void journal_fini(struct server *server);

/* --- server_block.c ----------------------------------------------------------------------------------------------- */
void blocked_serve(struct server *server);
void blocked_tick(struct server *server);
int64_t blocked_next_us(const struct server *server);
void blocked_forget(struct server_connection *connection);
/* False when it does not wait. */
bool blocked_end(struct server_connection *connection, bool with_error);
void blocked_refuse_all(struct server *server);

/* --- server_channels.c -------------------------------------------------------------------------------------------- */
void channels_forget(struct server_connection *connection);
bool connection_listens(const struct server_connection *connection);

/* --- server_transaction.c ----------------------------------------------------------------------------------------- */
struct reply *transaction_queue(struct server_connection *connection, const struct command *command,
                                const struct text *arguments, size_t count);
void transaction_forget(struct server_connection *connection);

/* --- server_info.c ------------------------------------------------------------------------------------------------ */
void settings_init(struct server *server);
long long server_used_memory(const struct server *server);

/* --- server_users.c ----------------------------------------------------------------------------------------------- */
void users_init(struct server *server, const char *password);
void users_fini(struct server *server);
/* The user of all who have said nothing, if that is enough. */
void connection_begin_user(struct server_connection *connection);
const char *connection_user_name(const struct server_connection *connection);
/* Why its user may not run this; NULL = it may. */
const char *user_refusal(const struct server_connection *connection, const struct command *command);
const char *user_refusal_in_script(const struct server_connection *connection, const struct command *command);

/* --- server_script.c ---------------------------------------------------------------------------------------------- */
void script_event_fill(struct server *server, const struct text *arguments, struct server_event *event);

#endif
