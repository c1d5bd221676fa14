/* A server that speaks Redis badly on purpose. It runs in a thread of its own and listens on a free port of
 * 127.0.0.1. Every mode but the last four answers PING and SCRIPT LOAD (of "return 1" only) as it should, and ROLE
 * like a server that is too old for it, so that the handshake of a client succeeds, and does its worst with the first
 * other request. */
#ifndef SUPPORT_HOSTILE_SERVER_H
#define SUPPORT_HOSTILE_SERVER_H

struct hostile_server;

enum hostile_mode {
    HOSTILE_GOOD,         /* +OK to everything */
    HOSTILE_SILENT,       /* no answer */
    HOSTILE_GARBAGE,      /* what is no Redis reply */
    HOSTILE_EXTRA_REPLY,  /* a second reply to one request */
    HOSTILE_EXTRA_HALF,   /* half of a second reply */
    HOSTILE_HUGE_ARRAY,   /* an array of 2^31 - 1 elements */
    HOSTILE_NEGATIVE,     /* an array of -5 elements */
    HOSTILE_DEEP_NESTING, /* arrays in arrays, 100 000 deep */
    HOSTILE_HUGE_BULK,    /* a string of 5 GB, of which 16 MB come */
    HOSTILE_ENDLESS_LINE, /* a status of 16 MB */
    HOSTILE_HALF_REPLY,   /* then closes */
    HOSTILE_DRIP,         /* a reply of 30000 bytes, one each 5 ms, and all that is left in another mode */
    HOSTILE_RESET,        /* the connection is reset */
    HOSTILE_RESP3,        /* a map */
    HOSTILE_LATE,         /* the reply, in another mode */
    HOSTILE_BUSY_ERROR,   /* a server error */
    HOSTILE_NOSCRIPT,     /* knows no script, whatever was loaded */
    HOSTILE_SAYS,         /* what hostile_server_say set */
    HOSTILE_BAD_PONG,     /* a number, also to PING */
    HOSTILE_UNASKED,      /* a reply to nothing, as soon as a client connects */
    HOSTILE_MUTE,         /* accepts, and never answers anything, PING included */
    HOSTILE_PROXY,        /* +OK, and to ROLE an error of its own */
    HOSTILE_MODES,
};

struct hostile_server *hostile_server_start(enum hostile_mode mode);
void hostile_server_destroy(struct hostile_server *server);

unsigned hostile_server_port(const struct hostile_server *server);
void hostile_server_set_mode(struct hostile_server *server, enum hostile_mode mode);
/* Sets the mode HOSTILE_SAYS: the bytes of `text`, which must live as long as the server, are its only answer. */
void hostile_server_say(struct hostile_server *server, const char *text);
/* How many connections it has accepted. */
unsigned hostile_server_accepted(const struct hostile_server *server);
const char *hostile_mode_name(enum hostile_mode mode);

#endif
