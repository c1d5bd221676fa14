#include "worker/commands/command.h"
#include "worker/fault_names.h"

int main(int argc, char **argv)
{
    fault_names_read();
    return command_main(argc, argv);
}
