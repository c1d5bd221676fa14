#include "redis/address.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "base/memory.h"

enum { PORT_MAX = 65535, DIGITS_MAX = 5 };
_Static_assert((int)REDIS_ADDRESS_SHOWN_MAX >= (int)LOG_QUOTE_MAX + 4, "what is wrong is quoted, with :... behind it");

static const char of_ipv6[] = "0123456789abcdefABCDEF:.";
static const char plain[] = "redis://", secure[] = "rediss://";

/* --- parts -------------------------------------------------------------------------------------------------------- */

/* False unless the text is a number of few digits. */
static bool number_parse(const char *text, size_t length, unsigned *number)
{
    *number = 0;
    if (length == 0 || length > DIGITS_MAX)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        *number = *number * 10 + (unsigned)(text[i] - '0');
    }
    return true;
}

unsigned redis_port_parse(const char *text, size_t length)
{
    unsigned port;
    return number_parse(text, length, &port) && port <= PORT_MAX ? port : 0;
}

bool redis_host_copy(char host[REDIS_HOST_MAX], const char *text, size_t length)
{
    if (length == 0 || length >= REDIS_HOST_MAX)
        return false;
    for (size_t i = 0; i < length; i++)
        if (text[i] <= ' ' || text[i] >= 0x7f)
            return false;
    memcpy(host, text, length);
    host[length] = '\0';
    return true;
}

/* An IPv6 address has two colons at least, and may end with a % and a zone. */
bool redis_host_is_alone(const char *host)
{
    const char *colon = strchr(host, ':'), *end = host + strspn(host, of_ipv6);
    bool is_ipv6 = colon != NULL && strchr(colon + 1, ':') != NULL && (*end == '\0' || *end == '%');
    return strpbrk(host, "@/") == NULL && (colon == NULL || is_ipv6);
}

/* HOST, HOST:PORT, and the same with an IPv6 address in brackets. */
static bool host_parse(const char *text, size_t length, struct redis_address *address, struct error *error)
{
    const char *end = text + length, *bracket = length > 0 && text[0] == '[' ? memchr(text, ']', length) : NULL;
    const char *colon = memchr(text, ':', length), *host_end = colon != NULL ? colon : end;
    if (bracket != NULL)
        host_end = bracket + 1, colon = host_end < end ? host_end : NULL;
    if (colon == NULL && !address->has_scheme)
        return error_set(error, "it has no port: HOST:PORT, or [IPv6]:PORT");
    if (colon != NULL && (*colon != ':' || (bracket == NULL && memchr(colon + 1, ':', (size_t)(end - colon - 1)))))
        return error_set(error, "an IPv6 address belongs into brackets, and then the port: [IPv6]:PORT");
    if (host_end == text)
        return error_set(error, "it has no host");
    address->port = colon != NULL ? redis_port_parse(colon + 1, (size_t)(end - colon - 1)) : 0;
    if (colon != NULL && address->port == 0)
        return error_set(error, "its port is not 1 to 65535");
    if (bracket != NULL)
        text++, host_end--;
    return (redis_host_copy(address->host, text, (size_t)(host_end - text)) && redis_host_is_alone(address->host)) ||
           error_set(error, "its host is no name and no IP address of at most %d bytes", REDIS_HOST_MAX - 1);
}

static int digit_of(char digit)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    const char *found = digit != '\0' ? strchr(digits, digit) : NULL;
    return found != NULL ? (int)((found - digits) % 16) : -1;
}

/* NULL, with a reason, if it is wrong. */
static char *code_parse(const char *text, size_t length, struct error *error)
{
    char *decoded = memory_zeroed(length + 1, 1), *to = decoded;
    for (size_t i = 0; i < length; i++) {
        int high = text[i] == '%' && i + 2 < length ? digit_of(text[i + 1]) : -1;
        int low = high >= 0 ? digit_of(text[i + 2]) : -1;
        if (text[i] != '%') {
            *to++ = text[i];
        } else if (low >= 0 && (high > 0 || low > 0)) {
            *to++ = (char)(high * 16 + low);
            i += 2;
        } else {
            error_set(error, "a %% in its user or password begins the two digits of a byte; %%25 is a %% itself");
            memory_wipe(decoded, length);
            free(decoded);
            return NULL;
        }
    }
    return decoded;
}

static bool login_parse(const char *text, size_t length, struct redis_address *address, struct error *error)
{
    const char *colon = memchr(text, ':', length);
    size_t user = colon != NULL ? (size_t)(colon - text) : length;
    if (user > 0 && (address->user = code_parse(text, user, error)) == NULL)
        return false;
    if (colon == NULL && user > 0)
        return true;
    if (user + 1 >= length)
        return error_set(error, "there is no password before its @");
    address->password = code_parse(colon + 1, length - user - 1, error);
    return address->password != NULL;
}

static bool database_parse(const char *text, struct redis_address *address, struct error *error)
{
    address->has_database = text[0] != '\0';
    if (!address->has_database)
        return true;
    if (strchr(text, '@') != NULL)
        return error_set(error, "a / in its user or password is written %%2F, a ? %%3F, a # %%23, and an @ %%40");
    return (number_parse(text, strlen(text), &address->database) && address->database <= REDIS_DATABASE_MAX) ||
           error_set(error, "behind its / is no number of a database");
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

bool redis_address_has_scheme(const char *text)
{
    return redis_address_is_secure(text) || (text != NULL && strncasecmp(text, plain, strlen(plain)) == 0);
}

bool redis_address_is_secure(const char *text)
{
    return text != NULL && strncasecmp(text, secure, strlen(secure)) == 0;
}

static bool with_scheme_parse(const char *text, struct redis_address *address, struct error *error)
{
    address->has_scheme = true;
    address->is_secure = redis_address_is_secure(text);
    text += strlen(address->is_secure ? secure : plain);
    size_t length = strcspn(text, "/?#");
    const char *rest = text + length, *at = memrchr(text, '@', length);
    if (rest[0] == '?' || rest[0] == '#' || (rest[0] == '/' && strpbrk(rest, "?#") != NULL))
        return error_set(error, "behind its host and port comes nothing but /DATABASE");
    if (rest[0] == '/' && !database_parse(rest + 1, address, error))
        return false;
    if (at == NULL)
        return host_parse(text, length, address, error);
    size_t login = (size_t)(at - text);
    return login_parse(text, login, address, error) && host_parse(at + 1, length - login - 1, address, error);
}

bool redis_address_parse(const char *text, struct redis_address *address, struct error *error)
{
    *address = (struct redis_address){.port = 0};
    bool is_good = false;
    if (redis_address_has_scheme(text))
        is_good = with_scheme_parse(text, address, error);
    else if (strstr(text, "://") != NULL)
        is_good = error_set(error, "it begins neither with redis:// nor with rediss://");
    else if (strchr(text, '@') != NULL)
        is_good = error_set(error, "an address with a user or a password begins with redis:// or rediss://");
    else
        is_good = host_parse(text, strlen(text), address, error);
    if (!is_good)
        redis_address_drop(address);
    return is_good;
}

void redis_address_drop(struct redis_address *address)
{
    if (address->password != NULL)
        memory_wipe(address->password, strlen(address->password));
    free(address->password);
    free(address->user);
    address->user = address->password = NULL;
}

/* How much of a wrong address can hold no password. */
static size_t harmless_length(const char *text)
{
    size_t bracket = text[0] == '[' ? 1 + strspn(text + 1, of_ipv6) : 0;
    size_t from = text[bracket] == ']' ? bracket : 0;
    return from + strcspn(text + from, ":");
}

const char *redis_address_shown(const char *text, char out[REDIS_ADDRESS_SHOWN_MAX])
{
    struct redis_address address;
    struct error unused = ERROR_NONE;
    char quoted[LOG_QUOTE_MAX];
    if (!redis_address_parse(text, &address, &unused)) {
        size_t length = harmless_length(text);
        bool is_hidden = strpbrk(text, "@/") != NULL || (length == 0 && text[0] != '\0');
        snprintf(out, REDIS_ADDRESS_SHOWN_MAX, "%s%s",
                 is_hidden ? "(not quoted: it may hold a password)" : log_quote_bytes(text, length, quoted),
                 !is_hidden && text[length] != '\0' ? ":..." : "");
        return out;
    }
    bool is_ipv6 = strchr(address.host, ':') != NULL;
    snprintf(out, REDIS_ADDRESS_SHOWN_MAX, "%s%s%s:%u", is_ipv6 ? "[" : "", address.host, is_ipv6 ? "]" : "",
             address.port != 0 ? address.port : REDIS_PORT_DEFAULT);
    redis_address_drop(&address);
    return out;
}

void redis_address_hide(char *text)
{
    const char *at = strrchr(text, '@');
    char *scheme = strstr(text, "://"), *from = scheme != NULL ? scheme + strlen("://") : text;
    if (at != NULL && at > from)
        memset(from, '*', (size_t)(at - from));
}

bool redis_address_agrees(const struct redis_address *address, const struct redis_address_beside *beside,
                          struct error *error)
{
    bool has_port = beside->port != 0 && beside->port != REDIS_PORT_DEFAULT;
    const char *twice = address->port != 0 && has_port && beside->port != address->port ? "port"
                        : address->user != NULL && beside->has_user                     ? "user"
                        : address->password != NULL && beside->has_password             ? "password"
                        : address->has_database && beside->database != 0 && beside->database != address->database
                            ? "database"
                            : NULL;
    if (twice != NULL)
        return error_set(error, "its %s is given twice: in the address and beside it", twice);
    if (address->has_scheme && !address->is_secure && beside->has_tls)
        return error_set(error, "redis:// is without TLS, which is asked for beside it: write rediss://");
    return true;
}
