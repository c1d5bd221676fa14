/* A client of an HTTP server at an address (http_address.h): one request a connection.
 *
 *     http_ask(address, "GET", "/metrics", "Accept: text/plain\r\n", "")  what the server says; "" = none listens
 *     int fd = http_ask_begin(address, "GET", "/metrics", "", "");            the same in two steps
 *     ... http_ask_end(fd)
 *
 * The text stays until the next request. */
#ifndef SUPPORT_HTTP_ASK_H
#define SUPPORT_HTTP_ASK_H

#include <stdbool.h>

int http_ask_begin(const char *address, const char *method, const char *path, const char *headers, const char *body);
bool http_ask_is_answered(int fd); /* something has come, or the end */
const char *http_ask_end(int fd);
const char *http_ask(const char *address, const char *method, const char *path, const char *headers, const char *body);

#endif
