#include "worker/commands.h"

/* In the order in which `holdfast --help` shows them. */
const struct command *const command_list[] = {
    &command_work, &command_push, &command_check, &command_config, &command_help, NULL,
};
