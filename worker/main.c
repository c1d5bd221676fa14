#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "queue/scripts.h"
#include "redlock/scripts.h"
#include "worker/commands/command.h"
#include "worker/first_process.h"
#include "worker/plugin/plugin_vetting.h"
#include "worker/print/version.h"

#ifdef HOLDFAST_FAULTS
/* The fault points of the program (base/fault.h) are named by its scripts and by the commands that it sends. */
static const char *const commands[] = {"lpush",   "sadd",      "hdel",        "lmove",         "blmove",
                                       "brpop",   "client",    "set",         "unlink",        "del",
                                       "info",    "ping",      "role",        "time",          "get",
                                       "hget",    "hgetall",   "hlen",        "hmget",         "hscan",
                                       "lindex",  "llen",      "lrange",      "sentinel",      "sismember",
                                       "sscan",   "zcard",     "zrange",      "zrangebyscore", "zrevrangebyscore",
                                       "publish", "subscribe", "unsubscribe", "exists"};

enum { COMMANDS = sizeof commands / sizeof commands[0] };

static void fault_names_read(void)
{
    static const char *names[COMMANDS + QUEUE_SCRIPT_COUNT + REDLOCK_SCRIPT_COUNT];
    size_t count = 0;
    for (size_t i = 0; i < COMMANDS; i++)
        names[count++] = commands[i];
    for (size_t i = 0; i < QUEUE_SCRIPT_COUNT; i++)
        names[count++] = queue_scripts[i]->name;
    for (size_t i = 0; i < REDLOCK_SCRIPT_COUNT; i++)
        names[count++] = redlock_scripts[i]->name;
    faults_read(names, count);
}
#else
static void fault_names_read(void) {}
#endif

int main(int argc, char **argv)
{
    signal(SIGCHLD, SIG_DFL); /* who started it may have left it ignored: then nobody learns how children end */
    if (getpid() == 1)
        first_process_become();
    if (argc > 1 && strcmp(argv[1], PLUGIN_VETTING_ARGUMENT) == 0)
        plugin_vetting_serve(argc - 2, argv + 2);
    fault_names_read();
    return command_main(argc, argv, build_facts);
}
