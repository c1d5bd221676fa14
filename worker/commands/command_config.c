/* holdfast config: the configuration as text: what is in effect, a sample to begin with, the manual page. */
#include "worker/commands/commands.h"

#include "worker/config/config.h"
#include "worker/config/config_print.h"

enum { OPTION_CONFIG, OPTION_SAMPLE, OPTION_MANUAL };

static const struct command_option options[] = {
    [OPTION_CONFIG] = {'c', "config", "FILE", "print what is in effect with this file, defaults included"},
    [OPTION_SAMPLE] = {0, "sample", NULL, "print a commented sample file"},
    [OPTION_MANUAL] = {0, "manual", NULL, "print the page about all settings, in Markdown"},
    {0, NULL, NULL, NULL},
};

static int text_print(struct buffer *text)
{
    fwrite(text->bytes, 1, text->length, stdout);
    buffer_fini(text);
    return EXIT_CODE_OK;
}

static int effective_print(const char *path)
{
    struct findings findings = {0};
    struct buffer text = {0};
    struct config *config = config_read(path, &findings);
    bool is_good = config != NULL && findings.errors == 0;
    findings_print(&findings, stderr);
    if (is_good)
        config_print(config, &text);
    config_free(config);
    findings_fini(&findings);
    return is_good ? text_print(&text) : EXIT_CODE_FAILURE;
}

static int run(int argc, char **argv)
{
    const char *path = NULL;
    bool is_sample = false, is_manual = false;
    struct command_line line = command_line_begin(&command_config, argc, argv);
    for (int option; (option = command_line_next(&line)) >= 0;) {
        if (option == OPTION_CONFIG)
            path = line.value;
        else if (option == OPTION_SAMPLE)
            is_sample = true;
        else
            is_manual = true;
    }
    if (line.is_over)
        return line.exit_code;
    if ((path != NULL) + is_sample + is_manual != 1)
        return command_misused(&command_config, "give one of -c FILE, --sample and --manual");
    struct buffer text = {0};
    if (path != NULL)
        return effective_print(path);
    if (is_sample)
        config_print_sample(&text);
    else
        config_print_manual(&text);
    return text_print(&text);
}

const struct command command_config = {
    .name = "config",
    .summary = "print the effective configuration, a sample, or the manual",
    .synopsis = "-c FILE | --sample | --manual",
    .about = "Prints the configuration that is in effect with a file, in the format of the file. Passwords are never\n"
             "part of it, and settings of plugins whose names speak of secrets are shown as (redacted).\n",
    .examples = "  holdfast config --sample > holdfast.conf\n"
                "  holdfast config -c holdfast.conf\n",
    .options = options,
    .run = run,
};
