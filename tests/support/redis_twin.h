/* A real server and the simulated one (tests/sim/server) get the same bytes at the same time of the same clock, which
 * stands still in between: what each client receives has to be the same bytes. A difference fails the test.
 *
 * What no client may rely on is not compared: the order of hashes, sets and keys, and how a fraction or a power of ten
 * is written. Of errors, other servers than Redis 7.0 may word all but the first word differently. The model has the
 * version of the server (server.h says what depends on it). */
#ifndef SUPPORT_REDIS_TWIN_H
#define SUPPORT_REDIS_TWIN_H

#include "tests/sim/server/server.h"
#include "tests/support/redis_server.h"

enum { TWIN_CLIENTS = 4, TWIN_CALLERS = 200 };

struct twin;

struct twin *twin_create(const struct redis_server_options *options);
void twin_destroy(struct twin *twin);
/* Both hold nothing, know no script, have memory and their first settings; the clients are connected anew. */
void twin_reset(struct twin *twin, const char *about);
/* The model begins a new run, with what its disk has; the clients are connected anew. */
void twin_restart_model(struct twin *twin);
void twin_pass(struct twin *twin, int64_t us);
int64_t twin_now_us(const struct twin *twin);
/* Replies so far. */
unsigned long long twin_compared(const struct twin *twin);
struct server *twin_model(struct twin *twin);
struct redis_server *twin_server(struct twin *twin);

/* One command as a line of words with one blank between them. In a word `^` stands for a blank, `~` for a line end; a
 * word %N is the id of client N, @N its address, and !NAME the digest of that script of ours. Lines that begin with a
 * digit and ":" are sent by that client, who connects again if it was killed; others by client 0. One that begins with
 * = is said to Redis 7.0 alone, because the others answer otherwise. */
void twin_say(struct twin *twin, const char *line);
void twin_say_bytes(struct twin *twin, unsigned client, const char *bytes, size_t length);
/* The next command of many that a further client sends at once. */
void twin_add(struct twin *twin, const struct text *arguments, size_t count);
void twin_flush(struct twin *twin);
/* Bytes of a caller, who is connected when it says something for the first time; the clock says `now_us` then. */
void twin_call(struct twin *twin, unsigned caller, const char *bytes, size_t length, int64_t now_us);
void twin_hang_up(struct twin *twin, unsigned caller);
/* A line to both whose answers are not compared. */
void twin_tell(struct twin *twin, const char *line);
/* All keys, with their values and when they expire. */
void twin_compare_keys(struct twin *twin);

#endif
