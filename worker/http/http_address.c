#include "worker/http/http_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

static bool unix_read(const char *path, unsigned number, struct http_address *address, struct error *error)
{
    struct sockaddr_un *to = (struct sockaddr_un *)&address->bytes;
    *to = (struct sockaddr_un){.sun_family = AF_UNIX};
    int length = number > 0 ? snprintf(to->sun_path, sizeof to->sun_path, "%s.%u", path, number)
                            : snprintf(to->sun_path, sizeof to->sun_path, "%s", path);
    if (length < 0 || (size_t)length >= sizeof to->sun_path)
        return error_set(error, "%s: the path of a unix socket has at most %zu bytes", path, sizeof to->sun_path - 1);
    address->length = sizeof *to;
    address->is_local = true;
    return true;
}

/* Of several processes each has its own; 0 lets the kernel choose. */
static bool port_read(const char *text, unsigned number, in_port_t *port)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || value > UINT16_MAX)
        return false;
    if (value > 0 && number > 1)
        value += number - 1;
    *port = htons((uint16_t)value);
    return value <= UINT16_MAX;
}

static bool ip_read(const char *host, in_port_t port, struct http_address *address)
{
    struct sockaddr_in *four = (struct sockaddr_in *)&address->bytes;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)&address->bytes;
    if (inet_pton(AF_INET, host, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = port;
        address->length = sizeof *four;
        address->is_local = ntohl(four->sin_addr.s_addr) >> 24 == 127;
        return true;
    }
    if (inet_pton(AF_INET6, host, &six->sin6_addr) != 1)
        return false;
    six->sin6_family = AF_INET6;
    six->sin6_port = port;
    address->length = sizeof *six;
    address->is_local = IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
    return true;
}

bool http_address_read(const char *text, unsigned number, struct http_address *address, struct error *error)
{
    char host[64];
    in_port_t port;
    memset(address, 0, sizeof *address);
    if (text[0] == '/')
        return unix_read(text, number, address, error);
    const char *colon = strrchr(text, ':');
    size_t length = colon != NULL ? (size_t)(colon - text) : 0;
    bool is_quoted = length > 2 && text[0] == '[' && text[length - 1] == ']';
    if (is_quoted || (length > 0 && memchr(text, ':', length) == NULL)) {
        snprintf(host, sizeof host, "%.*s", (int)(length - 2 * is_quoted), text + is_quoted);
        const char *numeric = strcmp(host, "localhost") == 0 ? "127.0.0.1" : host;
        if (port_read(colon + 1, number, &port) && ip_read(numeric, port, address))
            return true;
    }
    return error_set(error,
                     "%s: an address to listen on is ADDRESS:PORT, [ADDRESS]:PORT or the path of a unix socket, "
                     "like 127.0.0.1:9190, [::1]:9190 or /run/holdfast/http.sock",
                     text);
}

const char *http_address_text(const struct http_address *address, struct buffer *out)
{
    char text[INET6_ADDRSTRLEN];
    const struct sockaddr_in *four = (const struct sockaddr_in *)&address->bytes;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&address->bytes;
    buffer_clear(out);
    if (address->bytes.ss_family == AF_UNIX)
        buffer_append_text(out, ((const struct sockaddr_un *)&address->bytes)->sun_path);
    else if (address->bytes.ss_family == AF_INET)
        buffer_format(out, "%s:%u", inet_ntop(AF_INET, &four->sin_addr, text, sizeof text), ntohs(four->sin_port));
    else
        buffer_format(out, "[%s]:%u", inet_ntop(AF_INET6, &six->sin6_addr, text, sizeof text), ntohs(six->sin6_port));
    return buffer_text(out);
}
