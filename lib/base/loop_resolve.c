/* Names to addresses. getaddrinfo blocks, for many seconds if a name server is silent, so libuv runs it in a thread
 * of its pool. An address in digits needs no thread; its answer, and every refusal that is known at once, is given by
 * a deadline that is due, so that `done` never runs inside loop_resolve.
 *
 * A look-up that the resolver has begun cannot be called back. Cancelling one only forgets who asked; the memory is
 * freed when the resolver comes back, and loop_destroy waits for that. */
#include "base/loop_private.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/memory.h"

struct loop_resolution {
    uv_getaddrinfo_t request;
    struct loop *loop;
    struct loop_timer answer; /* set when the answer is known already */
    bool in_resolver;
    void (*done)(void *context, const struct sockaddr *address, socklen_t length, const char *reason);
    void *context;

    struct sockaddr_storage address;
    socklen_t length; /* 0 = failed, see reason */
    const char *reason;
};

static void answer_give(struct loop_resolution *resolution)
{
    resolution->loop->resolutions--;
    const struct sockaddr *address = (const struct sockaddr *)&resolution->address;
    resolution->done(resolution->context, resolution->length > 0 ? address : NULL, resolution->length,
                     resolution->reason);
    free(resolution);
}

static void answer_due(struct loop_timer *timer)
{
    answer_give(list_owner(timer, struct loop_resolution, answer));
}

static void answer_later(struct loop_resolution *resolution)
{
    loop_timer_set(resolution->loop, &resolution->answer, loop_now(resolution->loop));
}

/* The system's resolver sorts its answers: the first is the one to use. */
static void address_keep(struct loop_resolution *resolution, const struct addrinfo *found)
{
    if (found == NULL || found->ai_addrlen > sizeof resolution->address) {
        resolution->reason = "the name has no address";
        return;
    }
    memcpy(&resolution->address, found->ai_addr, found->ai_addrlen);
    resolution->length = found->ai_addrlen;
}

static bool address_from_digits(struct loop_resolution *resolution, const char *host, const char *service)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *found;
    if (getaddrinfo(host, service, &hints, &found) != 0)
        return false;
    address_keep(resolution, found);
    freeaddrinfo(found);
    return true;
}

static void resolver_done(uv_getaddrinfo_t *request, int status, struct addrinfo *found)
{
    struct loop_resolution *resolution = request->data;
    loop_enter(resolution->loop);
    if (resolution->done == NULL) {
        free(resolution);
    } else {
        if (status == 0)
            address_keep(resolution, found);
        else
            resolution->reason = uv_strerror(status);
        answer_give(resolution);
    }
    uv_freeaddrinfo(found);
}

static void resolver_ask(struct loop_resolution *resolution, const char *host, const char *service)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    resolution->request.data = resolution;
    int status = uv_getaddrinfo(&resolution->loop->uv, &resolution->request, resolver_done, host, service, &hints);
    if (status == 0) {
        resolution->in_resolver = true;
    } else {
        resolution->reason = uv_strerror(status);
        answer_later(resolution);
    }
}

struct loop_resolution *loop_resolve(struct loop *loop, const char *host, unsigned port,
                                     void (*done)(void *context, const struct sockaddr *address, socklen_t length,
                                                  const char *reason),
                                     void *context)
{
    loop_assert_inside(loop);
    struct loop_resolution *resolution = memory_new(struct loop_resolution);
    resolution->loop = loop;
    resolution->done = done;
    resolution->context = context;
    loop_timer_init(&resolution->answer, answer_due);
    loop->resolutions++;

    char service[16];
    snprintf(service, sizeof service, "%u", port);
    if (port > UINT16_MAX) {
        resolution->reason = "the port is above 65535";
        answer_later(resolution);
    } else if (address_from_digits(resolution, host, service)) {
        answer_later(resolution);
    } else {
        resolver_ask(resolution, host, service);
    }
    return resolution;
}

void loop_resolve_cancel(struct loop_resolution *resolution)
{
    loop_assert_inside(resolution->loop);
    invariant(resolution->done != NULL);
    resolution->loop->resolutions--;
    if (!resolution->in_resolver) {
        loop_timer_clear(resolution->loop, &resolution->answer);
        free(resolution);
        return;
    }
    resolution->done = NULL;
    uv_cancel((uv_req_t *)&resolution->request); /* succeeds only while no thread has begun */
}
