/* The configuration of the local nodes (local_nodes.h) as text. Its first line is the record of what they are, so that
 * there is one file that says it, and what a start reads of it depends on no setting. Pure. */
#ifndef WORKER_SERVERS_LOCAL_RECORD_H
#define WORKER_SERVERS_LOCAL_RECORD_H

#include "base/buffer.h"
#include "base/error.h"

#define LOCAL_RECORD_FILE   "local.conf"
#define LOCAL_PASSWORD_FILE "password"

enum { LOCAL_NODES = 4, LOCAL_RECORD_FORMAT = 1 }; /* the first node is the queue node */

struct local_record {
    unsigned ports[LOCAL_NODES]; /* 0 = not known */
};

enum local_record_found {
    LOCAL_RECORD_GOOD,
    LOCAL_RECORD_NONE, /* of this format or an older one: all ports are 0 */
    LOCAL_RECORD_NEWER,
};

enum local_record_found local_record_read(const char *text, struct local_record *record);
void local_record_print(const struct local_record *record, struct buffer *out);
/* One to begin with for people, with the same nodes; `password_file` is its whole path. */
/* `as_root`: its worker may run as root, as that of --local did. */
void local_record_print_sample(const struct local_record *record, const char *password_file, bool as_root,
                               struct buffer *out);

#endif
