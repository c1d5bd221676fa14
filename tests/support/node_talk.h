/* One command to a server that others started. */
#ifndef SUPPORT_NODE_TALK_H
#define SUPPORT_NODE_TALK_H

/* Sends the command, a line, over a connection of its own, after AUTH unless `password` is NULL. The reply as it comes
 * over the wire, with a blank for each line end and none at the end; NULL when no server listens or it takes ten
 * seconds. The caller frees it. */
char *node_talk(unsigned port, const char *password, const char *command);

#endif
