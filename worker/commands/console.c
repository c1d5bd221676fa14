#include "worker/commands/console.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "queue/scripts.h"

enum { COMPLAINT_MAX = 1024 };

int console_complain(const struct console *console, const char *format, ...)
{
    char text[COMPLAINT_MAX];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    if (!console->is_silent)
        fprintf(stderr, "holdfast %s: %s\n", console->command->name, log_defuse(text));
    return EXIT_CODE_FAILURE;
}

int console_run(struct console *console)
{
    if (inquiry_run(console->inquiry))
        return EXIT_CODE_OK;
    return console->is_silent ? EXIT_CODE_TEMPORARY : (int)inquiry_complain(console->inquiry, console->command->name);
}

bool console_time(struct console *console)
{
    struct instant asked = instant_now();
    inquiry_begin(console->inquiry);
    inquiry_ask(console->inquiry, "TIME", NULL);
    if (!inquiry_run(console->inquiry))
        return false;
    const struct redis_reply *time = inquiry_reply_of(console->inquiry, 0, REDIS_ARRAY);
    console->here = wall_now();
    console->round_trip_us = instant_since(asked, instant_now()) / NS_PER_US;
    console->now = console->here;
    if (time != NULL && time->count == 2 && time->elements[0].bytes != NULL && time->elements[1].bytes != NULL)
        console->now.us =
            strtoll(time->elements[0].bytes, NULL, 10) * US_PER_S + strtoll(time->elements[1].bytes, NULL, 10);
    return true;
}

static bool config_take(struct console *console, const char *path)
{
    console->config = config_read(path, &console->warnings);
    bool is_good = console->config != NULL && console->warnings.errors == 0;
    if (!is_good)
        findings_print(&console->warnings, stderr);
    return is_good;
}

int console_begin(struct console *console, const struct command *command, const char *path, bool changes)
{
    struct error error = ERROR_NONE;
    *console = (struct console){.command = command};
    queue_keys_init(&console->keys, "", "");
    if (path == NULL)
        return command_misused(command, "-c FILE is missing");
    if (!config_take(console, path))
        return EXIT_CODE_FAILURE;
    log_set_level(LOG_NOTHING); /* what connections log is told in our own words */
    console->inquiry = inquiry_open(&(struct inquiry_options){.node = &console->config->queue_node,
                                                              .client_name = "holdfast-console",
                                                              .scripts = changes ? queue_scripts : NULL,
                                                              .script_count = changes ? QUEUE_SCRIPT_COUNT : 0},
                                    &error);
    if (console->inquiry == NULL)
        return console_complain(console, "%s", error.text);
    /* The first question pays for the connection; the second one tells the clocks apart. */
    if (!console_time(console) || !console_time(console))
        return (int)inquiry_complain(console->inquiry, command->name);
    return EXIT_CODE_OK;
}

void console_end(struct console *console)
{
    inquiry_close(console->inquiry);
    queue_keys_fini(&console->keys);
    config_free(console->config);
    findings_fini(&console->warnings);
}

bool console_confirm(const struct console *console, bool is_sure, const char *format, ...)
{
    char question[COMPLAINT_MAX], answer[16];
    if (is_sure)
        return true;
    va_list values;
    va_start(values, format);
    vsnprintf(question, sizeof question, format, values);
    va_end(values);
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) {
        console_complain(console, "%s: say --yes to do it without being asked", log_defuse(question));
        return false;
    }
    fprintf(stderr, "%s? [y/N] ", log_defuse(question));
    return fgets(answer, sizeof answer, stdin) != NULL && (answer[0] == 'y' || answer[0] == 'Y');
}
