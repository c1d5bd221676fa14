#include "worker/commands/commands.h"

/* In the order in which `holdfast --help` shows them. */
const struct command *const command_list[] = {
    &command_work,   &command_push,        &command_periodic, &command_status,
    &command_top,    &command_tasks,       &command_result,   &command_cancel,
    &command_queues, &command_pause,       &command_resume,   &command_quiet,
    &command_stop,   &command_contention,  &command_who,      &command_unlock,
    &command_local,  &command_nodes,       &command_doctor,   &command_dry_run,
    &command_report, &command_check,       &command_config,   &command_plugins,
    &command_plugin, &command_run_handler, &command_help,     NULL,
};
