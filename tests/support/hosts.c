/* Hosts of the network, in this order: workers, lock nodes, the spare lock node, the queue node. */
#include "tests/support/hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/buffer.h"
#include "base/random.h"
#include "redlock/marker.h"
#include "tests/support/stepped_clock.h"
#include "tests/support/test.h"

enum { PORT = 6379 };

#define HISTORY "appendonly yes\nappendfsync no\nauto-aof-rewrite-percentage 0\nsave \"\"\n"

static unsigned host_of_node(const struct hosts *hosts, unsigned node)
{
    return hosts->workers + node;
}

static unsigned host_of_spare(const struct hosts *hosts)
{
    return hosts->workers + hosts->nodes;
}

static unsigned host_of_queue(const struct hosts *hosts)
{
    return hosts->workers + hosts->nodes + 1;
}

/* Everybody has a network of his own there, so ports need not differ. */
static unsigned port_of(const struct hosts *hosts)
{
    return hosts_can_cut(hosts) ? PORT : 0;
}

/* --- servers ------------------------------------------------------------------------------------------------------ */

static char *clock_path(const struct hosts *hosts, unsigned node)
{
    char *path = NULL;
    if (asprintf(&path, "%s/clock%u", hosts->fleet.directory, node) < 0)
        abort();
    return path;
}

static int64_t *clock_create(const struct hosts *hosts, unsigned node)
{
    char *path = clock_path(hosts, node);
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(file >= 0 && ftruncate(file, sizeof(int64_t)) == 0);
    int64_t *offset = mmap(NULL, sizeof *offset, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    assert_ptr_not_equal(offset, MAP_FAILED);
    close(file);
    free(path);
    return offset;
}

/* What is started from here on lives on the host of the node, by its clock. */
static void node_enter(struct hosts *hosts, unsigned node)
{
    char *path = clock_path(hosts, node);
    stepped_clock_enter(path);
    free(path);
    private_network_enter(hosts->network, host_of_node(hosts, node));
}

static void node_leave(struct hosts *hosts)
{
    private_network_leave(hosts->network);
    stepped_clock_leave();
}

static void nodes_start(struct hosts *hosts)
{
    for (unsigned node = 0; node < hosts->nodes; node++) {
        const char *address = private_network_address(hosts->network, host_of_node(hosts, node));
        hosts->clocks[node] = clock_create(hosts, node);
        node_enter(hosts, node);
        hosts->servers[node] =
            redis_server_start(&(struct redis_server_options){.address = address, .port = port_of(hosts)});
        node_leave(hosts);
        hosts->ports[node] = redis_server_port(hosts->servers[node]);
    }
}

/* It has to answer at an address that it does not have yet. */
static void spare_start(struct hosts *hosts)
{
    const char *address = private_network_address(hosts->network, host_of_spare(hosts));
    private_network_enter(hosts->network, host_of_spare(hosts));
    hosts->spare = redis_server_start(
        &(struct redis_server_options){.address = hosts_can_cut(hosts) ? "0.0.0.0" : address, .port = port_of(hosts)});
    private_network_leave(hosts->network);
}

static void queue_start(struct hosts *hosts)
{
    const char *address = private_network_address(hosts->network, host_of_queue(hosts));
    private_network_enter(hosts->network, host_of_queue(hosts));
    fleet_start(&hosts->fleet,
                &(struct redis_server_options){.address = address, .port = port_of(hosts), .config = HISTORY}, 0);
    private_network_leave(hosts->network);
}

static void lock_nodes_describe(struct hosts *hosts, const char *lock_node)
{
    struct buffer text = {0};
    for (unsigned node = 0; node < hosts->nodes; node++)
        buffer_format(&text, "%s{ host = \"%s\"; port = %u; %s }", node > 0 ? ", " : "",
                      private_network_address(hosts->network, host_of_node(hosts, node)), hosts->ports[node],
                      lock_node != NULL ? lock_node : "");
    assert_true(text.length < sizeof hosts->lock_nodes);
    memcpy(hosts->lock_nodes, buffer_text(&text), text.length + 1);
    buffer_fini(&text);
}

void hosts_start(struct hosts *hosts, unsigned workers, unsigned nodes, const char *lock_node)
{
    assert_true(workers <= HOSTS_WORKERS_MAX && nodes <= HOSTS_NODES_MAX);
    *hosts = (struct hosts){.workers = workers, .nodes = nodes, .network = private_network_create(workers + nodes + 2)};
    queue_start(hosts);
    nodes_start(hosts);
    spare_start(hosts);
    lock_nodes_describe(hosts, lock_node);
}

void hosts_stop(struct hosts *hosts)
{
    fleet_clean(&hosts->fleet);
    for (unsigned node = 0; node < hosts->nodes; node++) {
        redis_server_destroy(hosts->servers[node]);
        munmap(hosts->clocks[node], sizeof *hosts->clocks[node]);
    }
    redis_server_destroy(hosts->spare);
    fleet_stop(&hosts->fleet);
    private_network_destroy(hosts->network);
}

bool hosts_can_cut(const struct hosts *hosts)
{
    return private_network_is_real(hosts->network);
}

/* --- what they do ------------------------------------------------------------------------------------------------- */

unsigned hosts_work(struct hosts *hosts, unsigned worker_host, const struct fleet_setup *setup)
{
    struct fleet_setup there = *setup;
    char queue_at[100];
    snprintf(queue_at, sizeof queue_at, "host = \"%s\"; port = %u;",
             private_network_address(hosts->network, host_of_queue(hosts)), redis_server_port(hosts->fleet.queue));
    there.queue_at = queue_at;
    there.lock_nodes = hosts->lock_nodes;
    private_network_enter(hosts->network, worker_host);
    unsigned worker = fleet_work(&hosts->fleet, &there);
    private_network_leave(hosts->network);
    return worker;
}

char *hosts_ask(struct hosts *hosts, unsigned node, const char *command)
{
    return redis_server_command(hosts->servers[node], "%s", command);
}

static void must_answer(struct hosts *hosts, unsigned node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void must_answer(struct hosts *hosts, unsigned node, const char *format, ...)
{
    char command[MARKER_TEXT_MAX + 64];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    char *reply = hosts_ask(hosts, node, command);
    assert_string_equal(reply, "OK");
    free(reply);
}

static void run_of(struct hosts *hosts, unsigned node, char run[MARKER_RUN_DIGITS + 1])
{
    char *info = hosts_ask(hosts, node, "INFO server");
    const char *found = strstr(info, "run_id:");
    assert_non_null(found);
    memcpy(run, found + strlen("run_id:"), MARKER_RUN_DIGITS);
    run[MARKER_RUN_DIGITS] = '\0';
    free(info);
}

void hosts_form_group(struct hosts *hosts, int64_t max_ttl_ms)
{
    struct marker marker = {.generation = 1, .max_ttl_ms = max_ttl_ms, .place_count = hosts->nodes};
    char text[MARKER_TEXT_MAX];
    random_digits(marker.group, MARKER_GROUP_DIGITS);
    for (unsigned node = 0; node < hosts->nodes; node++)
        random_digits(marker.places[node], MARKER_ID_DIGITS);
    for (unsigned node = 0; node < hosts->nodes; node++) {
        memcpy(marker.self, marker.places[node], sizeof marker.self);
        run_of(hosts, node, marker.run);
        marker_write(&marker, text);
        must_answer(hosts, node, "SET %s '%s'", MARKER_KEY, text);
    }
}

bool hosts_node_is_trusted(struct hosts *hosts, unsigned node)
{
    char run[MARKER_RUN_DIGITS + 1];
    char *text = hosts_ask(hosts, node, "GET " MARKER_KEY);
    run_of(hosts, node, run);
    bool is_named = strstr(text, run) != NULL;
    free(text);
    return is_named;
}

/* --- what happens to them ----------------------------------------------------------------------------------------- */

void hosts_cut(struct hosts *hosts, unsigned worker_host, unsigned node, enum hosts_way way)
{
    if ((way & HOSTS_TO_NODE) != 0)
        private_network_cut(hosts->network, worker_host, host_of_node(hosts, node));
    if ((way & HOSTS_FROM_NODE) != 0)
        private_network_cut(hosts->network, host_of_node(hosts, node), worker_host);
}

void hosts_hang(struct hosts *hosts, unsigned node)
{
    redis_server_pause(hosts->servers[node]);
}

void hosts_heal(struct hosts *hosts)
{
    if (hosts_can_cut(hosts))
        private_network_mend(hosts->network);
    for (unsigned node = 0; node < hosts->nodes; node++)
        redis_server_resume(hosts->servers[node]);
}

void hosts_wipe(struct hosts *hosts, unsigned node)
{
    free(hosts_ask(hosts, node, "FLUSHALL"));
}

void hosts_restart(struct hosts *hosts, unsigned node)
{
    node_enter(hosts, node);
    redis_server_restart(hosts->servers[node]);
    node_leave(hosts);
}

void hosts_replace(struct hosts *hosts, unsigned node)
{
    struct redis_server *old = hosts->servers[node];
    hosts->servers[node] = hosts->spare;
    hosts->spare = NULL;
    if (hosts_can_cut(hosts))
        private_network_move_address(hosts->network, host_of_node(hosts, node), host_of_spare(hosts));
    redis_server_destroy(old);
    if (hosts_can_cut(hosts))
        return;
    must_answer(hosts, node, "CONFIG SET bind %s", private_network_address(hosts->network, host_of_node(hosts, node)));
    must_answer(hosts, node, "CONFIG SET port %u", hosts->ports[node]);
}

void hosts_set_clock(struct hosts *hosts, unsigned node, int64_t seconds)
{
    *(volatile int64_t *)hosts->clocks[node] = seconds * NS_PER_S;
}
