#include "worker/nodes/node_facts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAJOR_LEAST = 6, MINOR_LEAST = 2 };

/* Copies the value of `field`, a line "field:value\r\n", into `out`; "" when there is none. Bytes that are not
 * printable are left out: the text goes to terminals. */
static void field_read(const char *info, size_t length, const char *field, char *out, size_t size)
{
    size_t field_length = strlen(field);
    const char *end = info + length;
    size_t used = 0;
    for (const char *line = info; line != NULL && line < end;) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const char *stop = newline != NULL ? newline : end;
        if ((size_t)(stop - line) > field_length && memcmp(line, field, field_length) == 0 &&
            line[field_length] == ':') {
            for (const char *c = line + field_length + 1; c < stop && used + 1 < size; c++)
                if (*c > ' ' && *c < 0x7f)
                    out[used++] = *c;
            break;
        }
        line = newline != NULL ? newline + 1 : NULL;
    }
    out[used] = '\0';
}

const char *node_facts_field(const char *info, size_t length, const char *field, char *out, size_t size)
{
    field_read(info, length, field, out, size);
    return out;
}

static bool field_is_one(const char *info, size_t length, const char *field)
{
    char value[8];
    field_read(info, length, field, value, sizeof value);
    return strcmp(value, "1") == 0;
}

bool node_facts_parse(struct node_facts *facts, const char *info, size_t length)
{
    char compatible[32], good[16], replicas[16];
    *facts = (struct node_facts){.major = 0};
    field_read(info, length, "run_id", facts->run_id, sizeof facts->run_id);
    field_read(info, length, "redis_version", compatible, sizeof compatible);
    field_read(info, length, "valkey_version", facts->version, sizeof facts->version);
    snprintf(facts->server, sizeof facts->server, "%s", facts->version[0] != '\0' ? "valkey" : "redis");
    if (facts->version[0] == '\0')
        snprintf(facts->version, sizeof facts->version, "%s", compatible);
    field_read(info, length, "role", facts->role, sizeof facts->role);
    field_read(info, length, "maxmemory_policy", facts->eviction, sizeof facts->eviction);
    facts->is_cluster = field_is_one(info, length, "cluster_enabled");
    facts->has_aof = field_is_one(info, length, "aof_enabled");
    field_read(info, length, "connected_slaves", replicas, sizeof replicas);
    facts->replicas = (unsigned)strtoul(replicas, NULL, 10);
    field_read(info, length, "min_slaves_good_slaves", good, sizeof good); /* only there when the setting is on */
    facts->needs_replicas = good[0] != '\0';
    return facts->run_id[0] != '\0' && sscanf(compatible, "%3u.%3u", &facts->major, &facts->minor) == 2;
}

void node_facts_judge(const struct node_facts *facts, const char *name, enum node_use use, struct findings *findings)
{
    if (facts->run_id[0] == '\0') {
        findings_warn(findings,
                      "%s: has no command INFO: whether it is Redis %d.%d or newer, keeps what it is told and evicts "
                      "nothing cannot be seen from here",
                      name, MAJOR_LEAST, MINOR_LEAST);
        return;
    }
    bool is_old = facts->major < MAJOR_LEAST || (facts->major == MAJOR_LEAST && facts->minor < MINOR_LEAST);
    if (is_old)
        findings_error(findings, "%s: %s %s is too old; at least Redis %d.%d is needed", name, facts->server,
                       facts->version, MAJOR_LEAST, MINOR_LEAST);
    if (strcmp(facts->role, "master") != 0)
        findings_error(findings, "%s: is a replica (role %s); every node has to be a master", name, facts->role);
    if (facts->is_cluster)
        findings_error(findings, "%s: is part of a Redis Cluster; the nodes have to be single masters", name);
    if (facts->eviction[0] == '\0')
        findings_warn(findings, "%s: does not say its maxmemory-policy; make sure that it is noeviction", name);
    else if (strcmp(facts->eviction, "noeviction") != 0 && use == NODE_FOR_LOCKS)
        findings_warn(findings,
                      "%s: maxmemory-policy is %s: as soon as maxmemory is set it has no vote, because it could delete "
                      "locks that are held; set it to noeviction",
                      name, facts->eviction);
    else if (strcmp(facts->eviction, "noeviction") != 0)
        findings_error(findings,
                       "%s: maxmemory-policy is %s: under memory pressure it would delete tasks; set it to noeviction",
                       name, facts->eviction);
    if (use == NODE_FOR_QUEUES && !facts->has_aof)
        findings_warn(findings,
                      "%s: appendonly is off: if this server crashes, it forgets the tasks since its last "
                      "snapshot, or all of them where it takes none",
                      name);
    if (use == NODE_FOR_QUEUES && facts->replicas > 0 && !facts->needs_replicas)
        findings_warn(findings,
                      "%s: has replicas, but min-replicas-to-write is 0: a failover loses the tasks that it took "
                      "after the others had lost touch with it; set it to 1",
                      name);
}

void node_facts_judge_failover(const struct node_facts *facts, const char *name, struct findings *findings)
{
    if (strcmp(facts->role, "master") == 0 && facts->replicas == 0)
        findings_warn(findings, "%s: has no replica: the sentinels have nothing to put in its place", name);
}
