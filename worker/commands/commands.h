/* Every command of the program; see command.h. */
#ifndef WORKER_COMMANDS_H
#define WORKER_COMMANDS_H

#include "worker/commands/command.h"

extern const struct command command_cancel;
extern const struct command command_check;
extern const struct command command_config;
extern const struct command command_contention;
extern const struct command command_doctor;
extern const struct command command_dry_run;
extern const struct command command_help;
extern const struct command command_local;
extern const struct command command_nodes;
extern const struct command command_pause;
extern const struct command command_periodic;
extern const struct command command_plugin;
extern const struct command command_plugins;
extern const struct command command_push;
extern const struct command command_queues;
extern const struct command command_quiet;
extern const struct command command_report;
extern const struct command command_result;
extern const struct command command_resume;
extern const struct command command_run_handler;
extern const struct command command_status;
extern const struct command command_stop;
extern const struct command command_tasks;
extern const struct command command_top;
extern const struct command command_unlock;
extern const struct command command_who;
extern const struct command command_work;

#endif
