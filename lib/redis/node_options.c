/* The options of a node: what may not be, and what an address says of the others. */
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/memory.h"
#include "base/secret.h"
#include "redis/node_private.h"

/* --- checking ----------------------------------------------------------------------------------------------------- */

static struct redis_address_beside beside_of(const struct redis_node_options *options)
{
    return (struct redis_address_beside){.port = options->port,
                                         .database = options->database,
                                         .has_user = options->user != NULL,
                                         .has_password = options->password != NULL || options->password_file != NULL,
                                         .has_tls = options->tls.is_on};
}

static bool host_check(const struct redis_node_options *options, struct redis_address *address, struct error *error)
{
    const struct redis_address_beside beside = beside_of(options);
    if (options->host == NULL || redis_host_is_alone(options->host))
        return true;
    bool is_good = redis_address_parse(options->host, address, error) &&
                   (address->has_scheme || error_set(error, "with a port it begins with redis:// or rediss://")) &&
                   redis_address_agrees(address, &beside, error);
    if (!is_good)
        error_prefix(error, "its address");
    return is_good;
}

static bool sentinel_check(const char *text, bool has_tls, struct error *error)
{
    struct redis_address address;
    if (!redis_address_parse(text, &address, error))
        return false;
    bool has_more = address.user != NULL || address.password != NULL || address.has_database;
    redis_address_drop(&address);
    if (has_more)
        return error_set(error, "no user, no password and no database belong into the address of a sentinel");
    return !has_tls || !address.has_scheme || address.is_secure ||
           error_set(error, "redis:// is without TLS, which is for the node and all of its sentinels: write rediss://");
}

static bool sentinels_are_secure(const struct redis_sentinels *sentinels)
{
    for (size_t i = 0; i < sentinels->count; i++)
        if (redis_address_is_secure(sentinels->addresses[i]))
            return true;
    return false;
}

static bool sentinels_check(const struct redis_node_options *options, bool has_tls, struct error *error)
{
    char shown[REDIS_ADDRESS_SHOWN_MAX];
    for (size_t i = 0; i < options->sentinels.count; i++) {
        const char *text = options->sentinels.addresses[i];
        if (sentinel_check(text, has_tls, error))
            continue;
        error_prefix(error, "the sentinel %s", redis_address_shown(text, shown));
        return false;
    }
    return true;
}

/* Of a node, or of its sentinels. */
static bool password_check(const char *password, const char *file, struct error *error)
{
    if (file == NULL)
        return true;
    if (password != NULL)
        return error_set(error, "has both a password and a password_file; keep one");
    char *secret = secret_read_file(file, error);
    secret_free(secret);
    return secret != NULL;
}

static bool passwords_check(const struct redis_node_options *options, struct error *error)
{
    const struct redis_sentinels *sentinels = &options->sentinels;
    return password_check(options->password, options->password_file, error) &&
           password_check(sentinels->password, sentinels->password_file, error);
}

bool redis_node_options_want_tls(const struct redis_node_options *options)
{
    return options->tls.is_on || redis_address_is_secure(options->host) || sentinels_are_secure(&options->sentinels);
}

bool redis_node_options_check(const struct redis_node_options *options, struct error *error)
{
    struct redis_address address = {.port = 0};
    struct redis_tls_options tls = options->tls;
    bool is_good = host_check(options, &address, error);
    bool has_user = options->user != NULL || address.user != NULL;
    bool has_password = options->password != NULL || options->password_file != NULL || address.password != NULL;
    redis_address_drop(&address);
    if (is_good && has_user && !has_password)
        return error_set(error, "a user needs a password");
    tls.is_on = redis_node_options_want_tls(options);
    if (!is_good || !sentinels_check(options, tls.is_on, error) || !passwords_check(options, error))
        return false;
    if (tls.is_on && options->unix_path != NULL)
        return error_set(error, "a unix socket has no TLS");
    return !tls.is_on || redis_tls_check(&tls, error);
}

/* --- copies ------------------------------------------------------------------------------------------------------- */

static char *copy_text(const char *text)
{
    return text != NULL ? memory_text(text) : NULL;
}

/* What an address with a scheme says goes where the other options are. */
static void host_take(struct redis_node_options *own)
{
    struct redis_address address = {.port = 0};
    struct error error = ERROR_NONE;
    invariant(host_check(own, &address, &error));
    own->host = copy_text(address.has_scheme ? address.host : own->host);
    own->port = address.port != 0 ? address.port : own->port != 0 ? own->port : REDIS_PORT_DEFAULT;
    if (address.user != NULL)
        own->user = address.user;
    if (address.password != NULL)
        own->password = address.password;
    if (address.has_database)
        own->database = address.database;
    own->tls.is_on = own->tls.is_on || address.is_secure || sentinels_are_secure(&own->sentinels);
}

void node_options_take(struct redis_node_options *own, const struct redis_node_options *given)
{
    *own = *given;
    own->name = memory_text(given->name);
    own->unix_path = copy_text(given->unix_path);
    own->user = copy_text(given->user);
    own->password = copy_text(given->password);
    own->password_file = copy_text(given->password_file);
    host_take(own);
    own->client_name = copy_text(given->client_name);
    own->sentinels.master = copy_text(given->sentinels.master);
    own->sentinels.user = copy_text(given->sentinels.user);
    own->sentinels.password = copy_text(given->sentinels.password);
    own->sentinels.password_file = copy_text(given->sentinels.password_file);
    own->sentinels.addresses = NULL; /* the search has copies */
    if (own->sentinels.timeout_ns == 0)
        own->sentinels.timeout_ns = 300 * NS_PER_MS;
    if (own->connect_timeout_ns == 0)
        own->connect_timeout_ns = NS_PER_S;
    if (own->backoff_min_ns == 0)
        own->backoff_min_ns = 50 * NS_PER_MS;
    if (own->backoff_max_ns == 0)
        own->backoff_max_ns = 2 * NS_PER_S;
    if (own->unfit_pause_ns == 0)
        own->unfit_pause_ns = 30 * NS_PER_S;
    if (own->silence_limit_ns == 0)
        own->silence_limit_ns = 10 * NS_PER_S;
    if (own->unanswered_limit == 0)
        own->unanswered_limit = (size_t)4 << 20;
    if (own->unanswered_limit > UINT32_MAX)
        own->unanswered_limit = UINT32_MAX;
    if (own->reply_limit == 0)
        own->reply_limit = (size_t)1 << 20;
    if (own->element_limit == 0)
        own->element_limit = 1024;
    if (own->pulse_interval_ns == 0)
        own->pulse_interval_ns = 5 * NS_PER_S;
}

void node_options_drop(struct redis_node_options *own)
{
    free((char *)own->name);
    free((char *)own->host);
    free((char *)own->unix_path);
    free((char *)own->user);
    secret_free((char *)own->password);
    free((char *)own->password_file);
    free((char *)own->client_name);
    free((char *)own->sentinels.master);
    free((char *)own->sentinels.user);
    secret_free((char *)own->sentinels.password);
    free((char *)own->sentinels.password_file);
}
