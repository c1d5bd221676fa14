#include "tests/support/lock_group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"

static void run_id_of(struct redis_server *server, char run_id[MARKER_RUN_DIGITS + 1])
{
    char *info = redis_server_command(server, "INFO server");
    const char *at = strstr(info, "run_id:");
    invariant(at != NULL);
    snprintf(run_id, MARKER_RUN_DIGITS + 1, "%.*s", MARKER_RUN_DIGITS, at + strlen("run_id:"));
    free(info);
}

struct marker lock_group_marker(struct redis_server *server, unsigned index, unsigned count, int64_t max_ttl_ms)
{
    struct marker marker = {.generation = 1, .max_ttl_ms = max_ttl_ms, .member_count = count};
    snprintf(marker.group, sizeof marker.group, "00000000deadbeef");
    for (unsigned i = 0; i < count; i++)
        snprintf(marker.members[i], sizeof marker.members[i], "%08x", i + 1);
    snprintf(marker.self, sizeof marker.self, "%08x", index + 1);
    run_id_of(server, marker.run);
    return marker;
}

void lock_group_mark(struct redis_server *server, const struct marker *marker)
{
    char text[MARKER_TEXT_MAX], command[MARKER_TEXT_MAX + 64];
    marker_write(marker, text);
    snprintf(command, sizeof command, "SET " MARKER_KEY " \"%s\"", text);
    char *reply = redis_server_command(server, "%s", command);
    invariant(strcmp(reply, "OK") == 0);
    free(reply);
}

void lock_group_make(struct redis_server *const *servers, unsigned count, int64_t max_ttl_ms)
{
    for (unsigned i = 0; i < count && count >= 3; i++) {
        struct marker marker = lock_group_marker(servers[i], i, count, max_ttl_ms);
        lock_group_mark(servers[i], &marker);
    }
}
