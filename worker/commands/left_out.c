/* The commands that the core does not have (`make core`): each says how to get it. */
#include "worker/commands/command.h"

static int run(int argc, char **argv)
{
    (void)argc;
    fprintf(
        stderr,
        "holdfast: %s is not in this build, the core: install the package holdfast, or build with `make` instead of "
        "`make core`\n",
        argv[0]);
    return EXIT_CODE_USAGE;
}

static const struct option_row options[] = {{.type = OPTION_END}};

#define LEFT_OUT(symbol, word)                                                                                         \
    const struct command symbol = {.name = (word),                                                                     \
                                   .summary = "not in this build (the core)",                                          \
                                   .about = "This build is the core, without this command.\n",                         \
                                   .options = options,                                                                 \
                                   .run = run}

LEFT_OUT(command_dry_run, "dry-run");
LEFT_OUT(command_plugin, "plugin");
LEFT_OUT(command_report, "report");
LEFT_OUT(command_run_handler, "run-handler");
LEFT_OUT(command_serve, "serve");
LEFT_OUT(command_top, "top");
