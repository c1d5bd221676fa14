#include <string.h>

#include "worker/commands/command.h"
#include "worker/fault_names.h"
#include "worker/plugin/plugin_vetting.h"
#include "worker/print/version.h"

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], PLUGIN_VETTING_ARGUMENT) == 0)
        plugin_vetting_serve(argc - 2, argv + 2);
    fault_names_read();
    return command_main(argc, argv, build_facts);
}
