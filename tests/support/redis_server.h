/* A private Redis or Valkey for a test: on 127.0.0.1, in a directory of its own, gone when the test
 * process is gone, however that ends. What goes wrong here is no finding of the test, so it is printed
 * and aborts.
 *
 * One thread starts, stops and destroys it: the kernel kills the server when that thread ends. */
#ifndef SUPPORT_REDIS_SERVER_H
#define SUPPORT_REDIS_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

struct redis_server;

struct redis_server_options {
    const char *password; /* requirepass; NULL: none */
    const char *acl;      /* the content of its ACL file; NULL: none */
    const char *config;   /* further lines for redis.conf, each with its line end; NULL: none */
    unsigned port;        /* 0 = a free one */
    bool is_sentinel;
};

/* Returns when it answers. `options` may be NULL. */
struct redis_server *redis_server_start(const struct redis_server_options *options);
/* Kills it and removes its directory. NULL is harmless. */
void redis_server_destroy(struct redis_server *server);

unsigned redis_server_port(const struct redis_server *server);
const char *redis_server_unix_path(const struct redis_server *server);
pid_t redis_server_pid(const struct redis_server *server);

void redis_server_pause(struct redis_server *server);   /* SIGSTOP; returns when it has stopped */
void redis_server_resume(struct redis_server *server);  /* SIGCONT */
void redis_server_kill(struct redis_server *server);    /* SIGKILL; its port refuses connections afterwards */
void redis_server_restart(struct redis_server *server); /* on the same port, killed before if it still runs */
/* The same in two steps each, for a test whose loop has to go on: the second is asked until it says yes. */
void redis_server_kill_begin(struct redis_server *server);
bool redis_server_is_gone(struct redis_server *server);
void redis_server_restart_begin(struct redis_server *server);
bool redis_server_is_back(struct redis_server *server);
/* Whatever a test did to it: it runs, answers, has memory and holds nothing. */
void redis_server_heal(struct redis_server *server);

/* Runs one command, written as for redis-cli, over a connection of its own, and returns the reply as text: numbers in
 * digits, errors as "-ERR ...", nil as "(nil)", arrays with one element a line. The caller frees it. */
char *redis_server_command(struct redis_server *server, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "redis" or "valkey". */
const char *redis_server_kind(struct redis_server *server);
/* The number that INFO gives in that section behind `before`; 0 when that is not there. */
unsigned redis_server_info(struct redis_server *server, const char *section, const char *before);
/* How often it was sent commands of this name, refused ones included. */
unsigned redis_server_calls(struct redis_server *server, const char *command);
/* How many more of these than of the others, at one instant. */
unsigned redis_server_calls_beyond(struct redis_server *server, const char *command, const char *other);

/* A port of 127.0.0.1 on which no server listens, outside the range from which the kernel takes ports by itself. */
unsigned free_port(void);

#endif
